//! Fields by name and by pattern.

use femtobarn::read::Reader;
use femtobarn::{is_pattern, matches};

use crate::failure::{Failure, by_spaces, code};

/// The paths of the selected fields; none for all fields.
pub fn select(reader: &Reader, fields: &[String]) -> Result<Option<Vec<String>>, Failure> {
    if fields.is_empty() {
        return Ok(None);
    }
    let mut paths: Vec<String> = Vec::new();
    for field in fields {
        if !is_pattern(field) {
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
            return Err(Failure {
                next: by_spaces(field),
                ..Failure::new(code::NOT_THERE, "no-such-field", message)
            });
        }
    }
    Ok(Some(paths))
}
