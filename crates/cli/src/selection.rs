//! Fields by name and by pattern.

use femtobarn::cost::matching;
use femtobarn::read::Reader;

use crate::failure::{Failure, by_spaces, code};

/// The paths of the selected fields; none for all fields.
pub fn select(reader: &Reader, fields: &[String]) -> Result<Option<Vec<String>>, Failure> {
    matching(reader, fields).map_err(|field| {
        let message = format!(
            "no field matches {field:?} in {:?} of {}",
            reader.path(),
            reader.url()
        );
        Failure {
            next: by_spaces(&field),
            ..Failure::new(code::NOT_THERE, "no-such-field", message)
        }
    })
}
