//! Splits an expression into tokens.

use std::ops::Range;

use super::Problem;
use super::excerpt::shortened;

/// A token of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Int(i128),
    Float(f64),
    Text(String),
    /// A name with members after dots.
    Name(String),
    /// A name in backticks: never a function or keyword.
    Quoted(String),
    Symbol(&'static str),
    End,
}

/// Longer symbols first.
const SYMBOLS: [&str; 29] = [
    "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "**", "//", "+", "-", "*", "/", "%", "<", ">",
    "!", "~", "&", "|", "(", ")", "[", "]", "{", "}", ",", ".",
];

/// Splits an expression into tokens. The last token is the end.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, Range<usize>)>, Problem> {
    let mut lexer = Lexer { text, at: 0 };
    let mut out = Vec::new();
    loop {
        lexer.take_while(char::is_whitespace);
        let start = lexer.at;
        let token = lexer.token()?;
        let is_end = token == Token::End;
        out.push((token, start..lexer.at));
        if is_end {
            return Ok(out);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    fn problem(&self, start: usize, what: impl Into<String>) -> Problem {
        Problem::new(&(start..self.at), what)
    }

    fn token(&mut self) -> Result<Token, Problem> {
        let mut next = self.rest().chars();
        let Some(first) = next.next() else {
            return Ok(Token::End);
        };
        let second = next.next();
        let is_digit = |c: char| c.is_ascii_digit();
        if is_digit(first) || (first == '.' && second.is_some_and(is_digit)) {
            return self.number();
        }
        match first {
            '\'' | '"' => self.string(first),
            '`' => self.quoted().map(Token::Quoted),
            _ if is_name_start(first) => self.name(),
            _ => self.symbol(first),
        }
    }

    fn symbol(&mut self, first: char) -> Result<Token, Problem> {
        let start = self.at;
        if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| self.take(symbol)) {
            return Ok(Token::Symbol(symbol));
        }
        self.at += first.len_utf8();
        let hint = match first {
            '=' if self.text.get(..start).is_some_and(|before| before.trim_end().ends_with("axis")) => {
                "functions have no axis argument: any, all, sum and others reduce the innermost lists; leave it out".to_owned()
            }
            '=' => "'=' is not a comparison: use ==".to_owned(),
            '^' => {
                "'^' is power in some languages and exclusive or in others: use ** for powers"
                    .to_owned()
            }
            '{' | ':' if self.text.trim_start().starts_with('{') => {
                "this is JSON, not a condition: the guide \"Luminosity blocks\" (docs/guides/luminosity.md) shows how to select the runs and blocks of a golden JSON".to_owned()
            }
            ':' if let Some(list) = self.sliced(start) => {
                let at = self.picked(start).unwrap_or("0");
                format!("slices are not supported: use {list}[{at}] for one element of each list, {list}[0] is the first")
            }
            '?' | ':' => {
                "`a ? b : c` is not supported: use `a && b || !a && c` for conditions".to_owned()
            }
            other => format!("unexpected {other:?}; put names that contain it in backticks"),
        };
        Err(self.problem(start, hint))
    }

    /// The list before the bracket that is open at a position.
    fn sliced(&self, at: usize) -> Option<&str> {
        let before = self.text.get(..at)?;
        let (list, inside) = before.rsplit_once('[')?;
        if inside.contains([']', '?']) {
            return None;
        }
        let is_part = |it: char| it.is_alphanumeric() || matches!(it, '_' | '.');
        let start = list.trim_end_matches(is_part).len();
        list.get(start..).filter(|list| !list.is_empty())
    }

    /// The index after the colon at a position and a comma: `:, 1]`.
    fn picked(&self, at: usize) -> Option<&str> {
        let (inside, _) = self.text.get(at + 1..)?.split_once(']')?;
        let index = inside.trim_start().strip_prefix(',')?.trim();
        index.parse::<i64>().ok().map(|_| index)
    }

    fn string(&mut self, quote: char) -> Result<Token, Problem> {
        let start = self.at;
        let mut out = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some((_, 'n')) => out.push('\n'),
                    Some((_, 't')) => out.push('\t'),
                    Some((_, c @ ('\\' | '\'' | '"'))) => out.push(c),
                    _ => {
                        self.at += at;
                        return Err(self.problem(
                            self.at,
                            "invalid escape in a string: use \\ only before a quote, a backslash, n or t",
                        ));
                    }
                },
                c if c == quote => {
                    self.at += at + c.len_utf8();
                    return Ok(Token::Text(out));
                }
                c => out.push(c),
            }
        }
        Err(self.problem(start, format!("string without closing {quote}")))
    }

    fn quoted(&mut self) -> Result<String, Problem> {
        let start = self.at;
        self.at += 1;
        let name = self.take_while(|c| c != '`').to_owned();
        if !self.take("`") {
            return Err(self.problem(start, "name without closing backtick"));
        }
        if name.is_empty() {
            return Err(self.problem(start, "expected a name between the backticks"));
        }
        Ok(name)
    }

    /// A name, with its namespaces (`a::b`) and members (`a.b`).
    fn name(&mut self) -> Result<Token, Problem> {
        let mut name = self.take_while(is_name_part).to_owned();
        loop {
            let next = |n: usize| self.rest().chars().nth(n);
            let separator = if self.rest().starts_with("::") && next(2).is_some_and(is_name_start) {
                "::"
            } else if self.peek() == Some('.') && next(1).is_some_and(is_name_part) {
                "."
            } else if self.rest().starts_with(".`") {
                self.at += 1;
                name.push('.');
                name.push_str(&self.quoted()?);
                continue;
            } else {
                // ROOT's functions for TTree::Draw: Sum$(x)
                name.push_str(if self.take("$") { "$" } else { "" });
                return Ok(Token::Name(name));
            };
            self.take(separator);
            name.push_str(separator);
            name.push_str(self.take_while(is_name_part));
        }
    }

    fn number(&mut self) -> Result<Token, Problem> {
        let start = self.at;
        if self.take("0x") || self.take("0X") {
            let digits = self.take_while(|c| c.is_ascii_hexdigit()).to_owned();
            return self.integer(start, &digits, 16);
        }
        let mut is_float = false;
        self.take_while(|c| c.is_ascii_digit());
        if self.take(".") {
            is_float = true;
            self.take_while(|c| c.is_ascii_digit());
        }
        let before = self.at;
        if self.take("e") || self.take("E") {
            let _ = self.take("-") || self.take("+");
            if self.take_while(|c| c.is_ascii_digit()).is_empty() {
                self.at = before;
            } else {
                is_float = true;
            }
        }
        let digits = self.text.get(start..self.at).unwrap_or_default().to_owned();
        if self.peek().is_some_and(|c| matches!(c, 'f' | 'F')) {
            is_float = true;
        }
        if !is_float {
            return self.integer(start, &digits, 10);
        }
        self.suffix(start)?;
        let number = digits.parse().map_err(|_| self.no_number(start))?;
        Ok(Token::Float(number))
    }

    fn integer(&mut self, start: usize, digits: &str, radix: u32) -> Result<Token, Problem> {
        self.suffix(start)?;
        if radix == 10 && digits.len() > 1 && digits.starts_with('0') {
            return Err(self.problem(
                start,
                "numbers that begin with 0 are octal in C++: write it without the 0, or as 0x…",
            ));
        }
        if digits.is_empty() {
            return Err(self.no_number(start));
        }
        match u64::from_str_radix(digits, radix) {
            Ok(number) => Ok(Token::Int(i128::from(number))),
            Err(_) => Err(self.problem(start, "integers are limited to 2^64 - 1; 1e20 is a float")),
        }
    }

    /// Skips C++ suffixes of numbers.
    fn suffix(&mut self, start: usize) -> Result<(), Problem> {
        self.take_while(|c| matches!(c, 'f' | 'F' | 'u' | 'U' | 'l' | 'L'));
        match self.peek() {
            Some(c) if is_name_part(c) => {
                self.take_while(is_name_part);
                Err(self.no_number(start))
            }
            _ => Ok(()),
        }
    }

    fn no_number(&self, start: usize) -> Problem {
        let piece = shortened(self.text.get(start..self.at).unwrap_or_default());
        self.problem(
            start,
            format!("{piece} is not a number; put a name that begins with a digit in backticks"),
        )
    }
}

fn is_name_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn is_name_part(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}
