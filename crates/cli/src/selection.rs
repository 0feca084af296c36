//! Fields by name and by pattern.

use femtobarn::read::Reader;

use crate::failure::{Failure, code};

/// The paths of the fields that were asked for; none for all of them.
pub fn select(reader: &Reader, fields: &[String]) -> Result<Option<Vec<String>>, Failure> {
    if fields.is_empty() {
        return Ok(None);
    }
    let mut paths: Vec<String> = Vec::new();
    for field in fields {
        let is_name = !field.contains(['*', '?']);
        if is_name {
            paths.push(field.clone());
            continue;
        }
        let named = reader.paths().iter().flatten();
        let before = paths.len();
        paths.extend(named.filter(|path| matches(field, path)).cloned());
        if paths.len() == before {
            let message = format!(
                "no field matches {field:?} in {:?} of {}",
                reader.path(),
                reader.url()
            );
            return Err(Failure::new(code::NOT_THERE, "no-such-field", message));
        }
    }
    Ok(Some(paths))
}

/// Whether a text fits a pattern in which `*` is any text and `?` any character.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // the last star, and how much of the text it has taken
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
    use super::matches;

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
