//! Parses operands: constants, columns, calls, and brackets after them.

use std::ops::Range;

use super::Problem;
use super::function::{Function, LUMI_MASK};
use super::lex::Token;
use super::parse::{OR, Parser};
use super::tree::{Constant, Kind, Node};

impl Parser<'_> {
    /// Parses an operand with brackets and calls after it.
    pub fn postfix(&mut self) -> Result<Node, Problem> {
        let mut node = self.primary()?;
        loop {
            let start = node.span.start;
            if self.take("[") {
                if self.is("]") {
                    return Err(self.expected("an index or a condition in the brackets"));
                }
                let place = self.expression(OR)?;
                self.expect("]")?;
                node = self.node(Kind::Index(Box::new([node, place])), start..self.end())?;
            } else if self.is(".") {
                node = self.member(node)?;
            } else {
                return Ok(node);
            }
        }
    }

    /// `x[…].size()`, or `x[…].pt`, which is `x.pt[…]`.
    fn member(&mut self, mut node: Node) -> Result<Node, Problem> {
        let at = self.span();
        self.at += 1;
        let (Token::Name(name) | Token::Quoted(name)) = self.peek() else {
            return Err(self.expected("a name after the dot"));
        };
        let (name, name_at) = (name.clone(), self.span());
        self.at += 1;
        if self.is("(") {
            let (member, method) = match name.rsplit_once('.') {
                Some((member, method)) => (Some(member), method),
                None => (None, name.as_str()),
            };
            if member.is_some_and(|member| !add_member(&mut node, member)) {
                return Err(no_member(&at));
            }
            return self.method(node, method, &name_at);
        }
        if !add_member(&mut node, &name) {
            return Err(no_member(&at));
        }
        node.span.end = self.end();
        Ok(node)
    }

    fn method(&mut self, node: Node, name: &str, at: &Range<usize>) -> Result<Node, Problem> {
        if matches!(name, "at" | "front" | "back") {
            let place = match name {
                "at" => "[0] for the first one",
                "front" => "[0]",
                _ => "[-1]",
            };
            let what = format!("unknown method {name}(): use {place}");
            return Err(Problem::new(at, what));
        }
        let function = Function::named(name).map_err(|what| Problem::new(at, what))?;
        if !function.reduces() {
            let what = format!("use {name}(…): only functions that reduce a list can follow a dot");
            return Err(Problem::new(at, what));
        }
        self.expect("(")?;
        self.expect(")")?;
        let span = node.span.start..self.end();
        self.node(Kind::Call(function, vec![node]), span)
    }

    fn primary(&mut self) -> Result<Node, Problem> {
        let span = self.span();
        let kind = match self.peek().clone() {
            Token::Int(number) => Kind::Constant(Constant::Int(number)),
            Token::Float(number) => Kind::Constant(Constant::Float(number)),
            Token::Text(text) => Kind::Constant(Constant::Text(text)),
            Token::Quoted(name) => Kind::Column(name),
            Token::Name(name) => match name.as_str() {
                "true" | "True" => Kind::Constant(Constant::Bool(true)),
                "false" | "False" => Kind::Constant(Constant::Bool(false)),
                "and" | "or" | "in" | "not" => return Err(self.expected("a value")),
                _ => return self.named(name),
            },
            Token::Symbol("(") => return self.parenthesis(),
            _ => return Err(self.expected("a value")),
        };
        self.at += 1;
        self.node(kind, span)
    }

    fn parenthesis(&mut self) -> Result<Node, Problem> {
        let start = self.span().start;
        self.at += 1;
        let mut node = self.expression(OR)?;
        self.expect(")")?;
        node.span = start..self.end();
        node.closed = true;
        Ok(node)
    }

    /// Parses a column, a function call, or a method call on a column: `x.size()`.
    fn named(&mut self, name: String) -> Result<Node, Problem> {
        let span = self.span();
        self.at += 1;
        if !self.is("(") {
            if name.ends_with('$') {
                return Err(self.expected(&format!("`(` after `{name}`")));
            }
            return self.node(Kind::Column(name), span);
        }
        if is_lumi_mask(&name) {
            return self.certified(&span);
        }
        let function = Function::named(&name);
        if let (Err(_), Some((column, method))) = (&function, name.rsplit_once('.')) {
            let column_at = span.start..span.start + column.len();
            let node = self.node(Kind::Column(column.to_owned()), column_at)?;
            return self.method(node, method, &span);
        }
        let function = function.map_err(|what| Problem::new(&span, what))?;
        self.expect("(")?;
        let mut arguments = Vec::new();
        while !self.take(")") {
            arguments.push(self.expression(OR)?);
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        let whole = span.start..self.end();
        let count = function.takes(arguments.len());
        count.map_err(|what| Problem::new(&whole, format!("{name}: {what}")))?;
        self.node(Kind::Call(function, arguments), whole)
    }
}

impl Parser<'_> {
    /// Parses `lumi_mask("golden.json")`, with the columns of the run and the block if they have other names.
    fn certified(&mut self, name_at: &Range<usize>) -> Result<Node, Problem> {
        self.expect("(")?;
        let file_at = self.span();
        let Token::Text(file) = self.peek().clone() else {
            return Err(self.expected("the path of a golden JSON file in quotes"));
        };
        self.at += 1;
        let column = |parser: &mut Self, name: &str, is_given: bool| match is_given {
            true => {
                parser.expect(",")?;
                parser.expression(OR)
            }
            false => parser.node(Kind::Column(name.to_owned()), name_at.clone()),
        };
        let is_given = self.is(",");
        let run = column(self, "run", is_given)?;
        let block = column(self, "luminosityBlock", is_given)?;
        self.expect(")")?;
        let mask = (self.masks)(&file).map_err(|what| Problem::new(&file_at, what))?;
        let columns = Box::new([run, block]);
        self.node(Kind::Certified(mask, columns), name_at.start..self.end())
    }
}

fn is_lumi_mask(name: &str) -> bool {
    let plain = name.strip_prefix("fb.").unwrap_or(name);
    plain.eq_ignore_ascii_case(LUMI_MASK)
}

/// Converts a column, or an element of one, to its member.
fn add_member(node: &mut Node, member: &str) -> bool {
    match &mut node.kind {
        Kind::Column(name) => {
            name.push('.');
            name.push_str(member);
            true
        }
        Kind::Index(nodes) => {
            let [list, _] = nodes.as_mut();
            add_member(list, member)
        }
        _ => false,
    }
}

fn no_member(at: &Range<usize>) -> Problem {
    Problem::new(
        at,
        "only columns have members: the expression before the dot is not a column",
    )
}
