//! Parses names of C++ types.

use crate::TreeError;
use crate::error::unsupported;

/// A C++ type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cpp {
    /// The name without template arguments, namespace `std` and `const`; `unsigned int` is one
    /// name.
    pub name: String,
    /// Template arguments.
    pub arguments: Vec<Cpp>,
    /// Number of trailing stars.
    pub pointers: usize,
    /// The original text.
    pub text: String,
}

/// Maximum nesting of templates.
const DEEPEST: usize = 40;

impl Cpp {
    pub fn parse(text: &str) -> Result<Self, TreeError> {
        let mut parser = Parser { rest: text.trim() };
        let parsed = parser.one(0)?;
        match parser.rest.trim() {
            "" => Ok(parsed),
            rest => unsupported(format!("cannot parse type {text:?} from {rest:?} on")),
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn one(&mut self, depth: usize) -> Result<Cpp, TreeError> {
        let whole = self.rest;
        if depth > DEEPEST {
            return unsupported("templates are nested too deeply");
        }
        let (name, rest) = self.rest.split_at(
            self.rest
                .find(['<', '>', ',', '*', '&'])
                .unwrap_or(self.rest.len()),
        );
        self.rest = rest;
        let mut name = clean(name);
        let mut arguments = Vec::new();
        if let Some(rest) = self.rest.strip_prefix('<') {
            self.rest = rest;
            loop {
                self.rest = self.rest.trim_start();
                if let Some(rest) = self.rest.strip_prefix('>') {
                    self.rest = rest;
                    break;
                }
                arguments.push(self.one(depth + 1)?);
                self.rest = self.rest.trim_start();
                if let Some(rest) = self.rest.strip_prefix(',') {
                    self.rest = rest;
                } else if !self.rest.starts_with('>') {
                    return unsupported(format!("cannot parse type {whole:?}"));
                }
            }
            // a class within a template class
            let end = self
                .rest
                .find(['<', '>', ',', '*', '&'])
                .unwrap_or(self.rest.len());
            let (tail, rest) = self.rest.split_at(end);
            if !tail.trim().is_empty() {
                name = String::new();
                self.rest = rest;
                if self.rest.starts_with('<') {
                    return unsupported(format!("cannot parse type {whole:?}"));
                }
            }
        }
        let mut pointers = 0;
        let text_end = whole.len() - self.rest.len();
        loop {
            self.rest = self.rest.trim_start();
            match self.rest.strip_prefix('*') {
                Some(rest) => {
                    self.rest = rest;
                    pointers += 1;
                }
                None => break,
            }
        }
        let text = whole.get(..text_end).unwrap_or(whole).trim();
        let text = text.strip_prefix("const ").unwrap_or(text).to_owned();
        if name.is_empty() {
            name.clone_from(&text);
        }
        Ok(Cpp {
            name,
            arguments,
            pointers,
            text,
        })
    }
}

fn clean(name: &str) -> String {
    let words: Vec<&str> = name
        .split_whitespace()
        .filter(|&word| word != "const")
        .collect();
    let name = words.join(" ");
    let name = name.strip_prefix("std::").unwrap_or(&name);
    name.strip_prefix("ROOT::VecOps::")
        .or_else(|| name.strip_prefix("VecOps::"))
        .unwrap_or(name)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_taken_apart() {
        let map = Cpp::parse("std::map<string,vector<unsigned int> >").unwrap();
        assert_eq!(map.name, "map");
        assert_eq!(map.arguments[0].name, "string");
        assert_eq!(map.arguments[1].arguments[0].name, "unsigned int");
        assert_eq!(map.arguments[1].text, "vector<unsigned int>");
        assert_eq!(Cpp::parse("const TH1D*").unwrap().pointers, 1);
        for bad in ["vector<", "vector<int", "a>b", "vector<int>>"] {
            assert!(Cpp::parse(bad).is_err(), "{bad}");
        }
        assert!(Cpp::parse(&"vector<".repeat(100)).is_err());
    }
}
