//! Parses tokens into a tree by operator precedence.
//!
//! The rules are those that C++ and Python share. An expression that they read differently is an error that asks for
//! parentheses.

use std::ops::Range;

use super::Problem;
use super::excerpt::shortened;
use super::lex::{Token, tokens};
use super::tree::{Binary, Comparison, Constant, Junction, Kind, MAX_DEPTH, Node, Unary};
use crate::lumi_mask::OpenMask;

/// Parses an expression; `masks` opens the files that it names.
pub(super) fn parse(text: &str, masks: OpenMask<'_>) -> Result<Node, Problem> {
    let mut parser = Parser {
        text,
        masks,
        tokens: tokens(text)?,
        at: 0,
        nested: 0,
    };
    let tree = parser.expression(OR)?;
    match parser.peek() {
        Token::End => Ok(tree),
        _ => Err(parser.expected("an operator or the end")),
    }
}

// precedence levels
pub(super) const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const BIT_OR: u8 = 4;
const BIT_AND: u8 = 5;
const COMPARE: u8 = 6;
const SHIFT: u8 = 7;
const SUM: u8 = 8;
const PRODUCT: u8 = 9;
const SIGN: u8 = 10;
const POWER: u8 = 11;

#[derive(Clone, Copy)]
enum Infix {
    Junction(Junction),
    Binary(Binary),
    Comparison(Comparison),
    Within,
}

/// Consumes tokens one by one.
pub(super) struct Parser<'a> {
    text: &'a str,
    pub masks: OpenMask<'a>,
    tokens: Vec<(Token, Range<usize>)>,
    pub at: usize,
    nested: usize,
}

impl Parser<'_> {
    pub fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |it| &it.0)
    }

    pub fn span(&self) -> Range<usize> {
        let end = self.text.len()..self.text.len();
        self.tokens.get(self.at).map_or(end, |it| it.1.clone())
    }

    pub fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(it) if *it == symbol)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Name(it) if it == word)
    }

    pub fn take(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        self.at += usize::from(found);
        found
    }

    /// The end of the previous token.
    pub fn end(&self) -> usize {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        last.map_or(0, |it| it.1.end)
    }

    pub fn expect(&mut self, symbol: &str) -> Result<(), Problem> {
        match self.take(symbol) {
            true => Ok(()),
            false => Err(self.expected(&format!("`{symbol}`"))),
        }
    }

    pub fn expected(&self, what: &str) -> Problem {
        let span = self.span();
        let found = match self.text.get(span.clone()) {
            None | Some("") => "the end".to_owned(),
            Some(piece) => format!("`{}`", shortened(piece)),
        };
        Problem::new(&span, format!("expected {what}, found {found}"))
    }

    pub fn node(&self, kind: Kind, span: Range<usize>) -> Result<Node, Problem> {
        let node = Node::new(kind, span);
        match node.depth <= MAX_DEPTH {
            true => Ok(node),
            false => Err(too_deep(&node.span)),
        }
    }

    /// Parses operators with at least this precedence.
    pub fn expression(&mut self, least: u8) -> Result<Node, Problem> {
        self.nested += 1;
        if self.nested > MAX_DEPTH {
            return Err(too_deep(&self.span()));
        }
        let mut left = self.prefix(least)?;
        while let Some((infix, level)) = self.infix()
            && level >= least
        {
            left = self.join(left, infix, level)?;
        }
        self.nested -= 1;
        Ok(left)
    }

    fn prefix(&mut self, least: u8) -> Result<Node, Problem> {
        let start = self.span();
        let unary = match self.peek() {
            Token::Symbol("-") => Unary::Minus,
            Token::Symbol("+") => Unary::Plus,
            Token::Symbol("!") => Unary::Not,
            Token::Symbol("~") => Unary::Invert,
            Token::Name(word) if word == "not" => {
                if least > NOT {
                    return Err(Problem::new(
                        &start,
                        "put parentheses around `not …`: its precedence here differs between languages",
                    ));
                }
                self.at += 1;
                let inner = self.expression(NOT)?;
                let span = start.start..inner.span.end;
                return self.node(Kind::Unary(Unary::Not, Box::new(inner)), span);
            }
            _ => return self.postfix(),
        };
        self.at += 1;
        let inner = self.expression(SIGN)?;
        let span = start.start..inner.span.end;
        self.node(Kind::Unary(unary, Box::new(inner)), span)
    }

    fn infix(&self) -> Option<(Infix, u8)> {
        let junction = |it, level| Some((Infix::Junction(it), level));
        let binary = |it, level| Some((Infix::Binary(it), level));
        let compare = |it| Some((Infix::Comparison(it), COMPARE));
        match self.peek() {
            Token::Symbol(symbol) => match *symbol {
                "||" => junction(Junction::Or, OR),
                "&&" => junction(Junction::And, AND),
                "|" => binary(Binary::BitOr, BIT_OR),
                "&" => binary(Binary::BitAnd, BIT_AND),
                "<" => compare(Comparison::Less),
                "<=" => compare(Comparison::LessEqual),
                ">" => compare(Comparison::Greater),
                ">=" => compare(Comparison::GreaterEqual),
                "==" => compare(Comparison::Equal),
                "!=" => compare(Comparison::NotEqual),
                "<<" => binary(Binary::ShiftLeft, SHIFT),
                ">>" => binary(Binary::ShiftRight, SHIFT),
                "+" => binary(Binary::Add, SUM),
                "-" => binary(Binary::Subtract, SUM),
                "*" => binary(Binary::Multiply, PRODUCT),
                "/" => binary(Binary::Divide, PRODUCT),
                "//" => binary(Binary::FloorDivide, PRODUCT),
                "%" => binary(Binary::Remainder, PRODUCT),
                "**" => binary(Binary::Power, POWER),
                _ => None,
            },
            Token::Name(word) => match word.as_str() {
                "or" => junction(Junction::Or, OR),
                "and" => junction(Junction::And, AND),
                "in" | "not" => Some((Infix::Within, COMPARE)),
                _ => None,
            },
            _ => None,
        }
    }

    fn join(&mut self, left: Node, infix: Infix, level: u8) -> Result<Node, Problem> {
        match infix {
            Infix::Comparison(_) => self.chain(left),
            Infix::Within => self.within(left),
            Infix::Junction(junction) => self.junction(junction, level, left),
            Infix::Binary(binary) => {
                let operator = self.span();
                self.at += 1;
                // a power is right-associative, and allows a sign in the exponent
                let right = self.expression(if level == POWER { SIGN } else { level + 1 })?;
                if matches!(binary, Binary::BitAnd | Binary::BitOr) {
                    self.refuse_open_comparison(&operator, [&left, &right])?;
                }
                let span = left.span.start..right.span.end;
                self.node(Kind::Binary(binary, Box::new([left, right])), span)
            }
        }
    }

    /// Parses all conditions with the same connective into one node: there may be very many of them.
    fn junction(&mut self, junction: Junction, level: u8, first: Node) -> Result<Node, Problem> {
        let start = first.span.start;
        let mut nodes = vec![first];
        while matches!(self.infix(), Some((Infix::Junction(next), _)) if next == junction) {
            self.at += 1;
            nodes.push(self.expression(level + 1)?);
        }
        self.node(Kind::Junction(junction, nodes), start..self.end())
    }

    /// Refuses `a > 1 & b < 2`, which is `a > (1 & b) < 2` in Python. `a > 1 & any(b)` has only one meaning, as a number
    /// and a condition cannot be combined.
    fn refuse_open_comparison(
        &self,
        operator: &Range<usize>,
        sides: [&Node; 2],
    ) -> Result<(), Problem> {
        let [left, right] = sides;
        let (last, first) = (left.last_operand(), right.first_operand());
        let has_value = last.is_none_or(Node::is_value) && first.is_condition()
            || last.is_some_and(Node::is_condition) && first.is_value();
        if has_value {
            return Ok(());
        }
        let is_open = |node: &&Node| {
            !node.closed && matches!(node.kind, Kind::Chain(..) | Kind::Within { .. })
        };
        let Some(open) = sides.into_iter().find(is_open) else {
            return Ok(());
        };
        let piece = |span: &Range<usize>| {
            let piece = self.text.get(span.clone());
            shortened(piece.unwrap_or_default())
        };
        let symbol = piece(operator);
        Err(Problem::new(
            operator,
            format!(
                "put parentheses around `{}`: in Python `{symbol}` binds tighter than comparisons, in C++ it does \
                 not; or use `{symbol}{symbol}`",
                piece(&open.span)
            ),
        ))
    }

    /// Parses chained comparisons, as in Python.
    fn chain(&mut self, first: Node) -> Result<Node, Problem> {
        let start = first.span.start;
        let mut links: Vec<(Comparison, Node)> = Vec::new();
        while let Some((Infix::Comparison(comparison), _)) = self.infix() {
            let operator = self.span();
            if let Some((before, _)) = links.last()
                && before.is_equality() != comparison.is_equality()
            {
                return Err(Problem::new(
                    &operator,
                    "put parentheses: chained comparisons with == and < differ in Python and C++",
                ));
            }
            self.at += 1;
            links.push((comparison, self.expression(COMPARE + 1)?));
        }
        if let Some((Infix::Within, _)) = self.infix() {
            return Err(self.expected("parentheses around the comparison before `in`"));
        }
        self.node(Kind::Chain(Box::new(first), links), start..self.end())
    }

    /// Parses `x in [1, 2]` and `x not in [1, 2]`.
    fn within(&mut self, value: Node) -> Result<Node, Problem> {
        let negated = self.is_word("not");
        self.at += usize::from(negated);
        if !self.is_word("in") {
            return Err(self.expected("`in` after `not`, or `and`, `or`"));
        }
        self.at += 1;
        let close = match self.peek() {
            Token::Symbol("[") => "]",
            Token::Symbol("(") => ")",
            Token::Symbol("{") => "}",
            _ => return Err(self.expected("a list of constants, e.g. `[1, 2, 3]`")),
        };
        self.at += 1;
        let mut list = Vec::new();
        while !self.take(close) {
            list.push(self.constant()?);
            if !self.take(",") {
                self.expect(close)?;
                break;
            }
        }
        let span = value.span.start..self.end();
        if matches!(self.infix(), Some((_, COMPARE))) {
            return Err(self.expected("parentheses around the `in` before it"));
        }
        let value = Box::new(value);
        self.node(
            Kind::Within {
                value,
                list,
                negated,
            },
            span,
        )
    }

    fn constant(&mut self) -> Result<Constant, Problem> {
        let negative = self.take("-");
        let constant = match self.peek() {
            Token::Int(number) if negative => Constant::Int(-number),
            Token::Float(number) if negative => Constant::Float(-number),
            Token::Int(number) => Constant::Int(*number),
            Token::Float(number) => Constant::Float(*number),
            Token::Text(text) if !negative => Constant::Text(text.clone()),
            _ => return Err(self.expected("a number or a string in quotes")),
        };
        self.at += 1;
        Ok(constant)
    }
}

fn too_deep(at: &Range<usize>) -> Problem {
    let what = format!(
        "more than {MAX_DEPTH} levels of parentheses and operators; use `in [1, 2, …]` for many values"
    );
    Problem::new(at, what)
}
