//! What a conversion may replace.

use std::path::Path;

use femtobarn_rntuple::RNTupleError;

use super::input::misused;
use super::output::Format;
use super::tables::is_table;
use crate::open::{RNTUPLE_CLASS, open_file};

/// What of the output's name may be replaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Replace {
    /// Nothing.
    Nothing,
    /// What such a conversion has made: a file of one ntuple of the same name, or a table.
    #[default]
    Own,
    /// Any file.
    Anything,
}

impl Replace {
    /// Whether a file may be where the output will be; `name` is the ntuple's.
    ///
    /// # Errors
    /// If what is there may not be replaced.
    pub(super) fn check(
        self,
        output: &Path,
        format: Format,
        name: &str,
    ) -> Result<(), RNTupleError> {
        if self == Self::Anything || !output.exists() {
            return Ok(());
        }
        let refused = |why: &str| misused(&output.to_string_lossy(), why);
        if self == Self::Nothing {
            return Err(refused(
                "it is there already: give another name, or say that it may be replaced (--force)",
            ));
        }
        let other = match format {
            Format::Root => other_content(output, name),
            Format::Parquet | Format::ArrowIpc => (!is_table(output)).then(|| "no table".into()),
        };
        match other {
            None => Ok(()),
            Some(what) => Err(refused(&format!(
                "it is there already, with what would be lost ({what}): give another name, say that it may be replaced (overwrite=True, --force), or write into it with fb.update"
            ))),
        }
    }
}

/// What a file has besides one ntuple.
fn other_content(path: &Path, name: &str) -> Option<String> {
    let found = open_file(&path.to_string_lossy());
    let Ok(entries) = found.and_then(|file| file.walk().map_err(RNTupleError::from)) else {
        return Some("no ROOT file".into());
    };
    let is_other = |entry: &&femtobarn_rootfile::Entry| {
        let key = &entry.key;
        let is_own = key.class_name == RNTUPLE_CLASS && entry.path == name;
        !is_own && !key.is_directory()
    };
    let other = entries.iter().find(is_other);
    other.map(|entry| format!("{} {:?}", entry.key.class_name, entry.path))
}
