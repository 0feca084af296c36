//! Names and patterns of names.

use std::collections::HashMap;

/// Names, and patterns in which `*` matches any string and `?` any character. Those that a name fits are found without
/// looking at all of them: names by a table, and only patterns one after another.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patterns<'p> {
    n: usize,
    /// Numbers of the names.
    names: HashMap<&'p str, Vec<usize>>,
    patterns: Vec<(usize, &'p str)>,
}

impl<'p> Patterns<'p> {
    pub fn new(given: impl IntoIterator<Item = &'p str>) -> Self {
        let mut out = Self::default();
        for (at, text) in given.into_iter().enumerate() {
            out.n = at + 1;
            if text.contains(['*', '?']) {
                out.patterns.push((at, text));
            } else {
                out.names.entry(text).or_default().push(at);
            }
        }
        out
    }

    /// The indices of the patterns that match a name, unsorted.
    pub fn fitting(&self, name: &str) -> impl Iterator<Item = usize> {
        let same = self.names.get(name).into_iter().flatten().copied();
        let fits = |(at, pattern): &(usize, &str)| matches(pattern, name).then_some(*at);
        same.chain(self.patterns.iter().filter_map(fits))
    }

    /// Whether a name is selected: all are if nothing was given.
    pub fn takes(&self, name: &str) -> bool {
        self.n == 0 || self.fitting(name).next().is_some()
    }
}

/// Whether a string matches a pattern in which `*` matches any string and `?` any character.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // the last star, and how much of the string it has matched
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == '?' || Some(&c) == text.get(t) => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, taken)) = star else {
                    return false;
                };
                star = Some((at, taken + 1));
                p = at + 1;
                t = taken + 1;
            }
        }
    }
    pattern.iter().skip(p).all(|&c| c == '*')
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
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }
}
