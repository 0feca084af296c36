//! Names and patterns of names.

use std::collections::HashMap;

use glob::Pattern;

/// Names, and patterns in which `*` matches any string, `?` any character and `[a-c]` one of a set. A lookup checks
/// plain names in a table, and only patterns one by one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patterns<'p> {
    n: usize,
    /// Indexes of the names, and of patterns, which may also be literal names with brackets.
    names: HashMap<&'p str, Vec<usize>>,
    patterns: Vec<(usize, &'p str, Pattern)>,
}

impl<'p> Patterns<'p> {
    pub fn new(given: impl IntoIterator<Item = &'p str>) -> Self {
        let mut out = Self::default();
        for (at, text) in given.into_iter().enumerate() {
            out.n = at + 1;
            out.names.entry(text).or_default().push(at);
            out.patterns
                .extend(compiled(text).map(|pattern| (at, text, pattern)));
        }
        out
    }

    /// The indices of the patterns that match a name, unsorted.
    pub fn fitting(&self, name: &str) -> impl Iterator<Item = usize> {
        let same = self.names.get(name).into_iter().flatten().copied();
        let fits = move |(at, text, pattern): &(usize, &str, Pattern)| {
            (*text != name && pattern.matches(name)).then_some(*at)
        };
        same.chain(self.patterns.iter().filter_map(fits))
    }

    /// Whether a name is selected; without any patterns, all names are.
    pub fn takes(&self, name: &str) -> bool {
        self.n == 0 || self.fitting(name).next().is_some()
    }
}

/// Whether a string has wildcards.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Whether a string matches a pattern, in which `*` matches any string, `?` any character, `[a-c]` one of a set and
/// `[!a-c]` any other. A string always matches itself. Invalid patterns match nothing else.
pub fn matches(pattern: &str, text: &str) -> bool {
    pattern == text || compiled(pattern).is_some_and(|pattern| pattern.matches(text))
}

/// The pattern of a string with wildcards, if it is valid.
fn compiled(text: &str) -> Option<Pattern> {
    if !is_pattern(text) {
        return None;
    }
    // `**` has a special meaning only in paths
    let single = text
        .chars()
        .fold(String::with_capacity(text.len()), |mut out, c| {
            if c != '*' || !out.ends_with('*') {
                out.push(c);
            }
            out
        });
    Pattern::new(&single).ok()
}

#[cfg(test)]
mod tests {
    use super::{Patterns, matches};

    #[test]
    fn what_fits_a_name_is_found_by_number() {
        let all = ["pt", "eta", "p*", "pt", "?t", "*"];
        let fitting = |name: &str| {
            let mut found: Vec<usize> = Patterns::new(all).fitting(name).collect();
            found.sort_unstable();
            found
        };
        assert_eq!(fitting("pt"), [0, 2, 3, 4, 5]);
        assert_eq!(fitting("eta"), [1, 5]);
        assert_eq!(fitting("p*"), [2, 5]);
        let some = Patterns::new(["pt", "e*"]);
        assert!(some.takes("pt") && some.takes("eta") && !some.takes("phi"));
        assert!(Patterns::new([]).takes("anything"));
    }

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("Muon_*", "Muon_pt", true),
            ("Muon_*", "nMuon", false),
            ("*_p?", "Muon_pt", true),
            ("*_p?", "Muon_p", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b", false),
            ("?", "", false),
            ("µ*", "µ.pt", true),
            ("Muon_[pe]*", "Muon_eta", true),
            ("Muon_[!pe]*", "Muon_eta", false),
            ("x[0-3]", "x2", true),
            ("a[0]", "a[0]", true),
            ("a[", "a[", true),
            ("a[*", "a[0", false),
            ("a**b", "a/b", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }
}
