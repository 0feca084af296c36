//! Decides which existing files a conversion may replace.

use std::path::Path;

use femtobarn_io::{Settings, is_daos};
use femtobarn_rntuple::RNTupleError;

use super::format::Format;
use super::options::Replace;
use super::tables::begins_as_table;
use crate::inputs::{Opened, misused};
use crate::objects::RNTUPLE_CLASS;
use crate::open::open_source_with;
use crate::staged::shown;
use crate::writable::is_there;

/// The first bytes of a ROOT file.
const ROOT_MAGIC: &[u8] = b"root";
/// Versions have six digits, plus a million for large files; arbitrary text would give a larger number.
const LARGEST_VERSION: u32 = 10_000_000;

impl Replace {
    /// Whether the output may replace an existing file. `names` are the names of the ntuples.
    ///
    /// # Errors
    /// If the existing file must not be replaced.
    pub(super) fn check(
        self,
        output: &Path,
        format: Format,
        names: &[&str],
        settings: &Settings,
    ) -> Result<bool, RNTupleError> {
        let url = output.to_string_lossy();
        if is_daos(&url) {
            // other ntuples of the container stay
            return Ok(self != Self::Nothing);
        }
        if self == Self::Anything || !is_there(&url, settings)? {
            return Ok(self == Self::Anything);
        }
        let refused = |why: &str| misused(&shown(output).to_string_lossy(), why);
        if self == Self::Nothing {
            return Err(refused(
                "it already exists: give another name, or use --force to replace it",
            ));
        }
        let found = match format {
            Format::Root => Found::root_file(&url, names, settings),
            Format::Parquet | Format::ArrowIpc => Found::table(&url, settings),
        };
        let (what, may_be_added_to) = match found {
            Found::Own => return Ok(true),
            Found::Broken if self == Self::Left => return Ok(true),
            Found::Broken => (", and cannot be opened".to_owned(), false),
            Found::Foreign(what) => (format!(", and {what}"), false),
            Found::Other(what) => (
                format!(" and has other data, which would be lost ({what})"),
                true,
            ),
        };
        let advice = match (self, may_be_added_to) {
            (Self::Left, _) => {
                "move it, or convert into another directory (overwrite=True, or --force without --resume, replaces it)"
            }
            (_, true) => {
                "give another name, replace it (overwrite=True), or add to it with fb.update"
            }
            (_, false) => "give another name, or replace it (overwrite=True)",
        };
        Err(refused(&format!("it already exists{what}: {advice}")))
    }
}

/// The existing file at the output's path.
enum Found {
    /// The output of an earlier conversion.
    Own,
    /// Possible remains of an interrupted conversion.
    Broken,
    /// A file of another format.
    Foreign(&'static str),
    /// A file of the format with other contents.
    Other(String),
}

impl Found {
    /// Checks whether a file contains only ntuples with the given names.
    fn root_file(url: &str, names: &[&str], settings: &Settings) -> Self {
        let opened = open_source_with(url, settings);
        let walked = opened.and_then(|source| Ok(Opened::of(source)?.file.walk()?));
        let Ok(entries) = walked else {
            return match beginning(url, settings) {
                Ok(begins) if begins_as_root(&begins) => Self::Broken,
                Ok(_) => Self::Foreign("is not a ROOT file"),
                Err(_) => Self::Foreign("cannot be read"),
            };
        };
        let is_other = |entry: &&femtobarn_rootfile::Entry| {
            let key = &entry.key;
            let is_own = key.class_name == RNTUPLE_CLASS && names.contains(&&*entry.path);
            !is_own && !key.is_directory()
        };
        match entries.iter().find(is_other) {
            Some(other) => Self::Other(format!("{} {:?}", other.key.class_name, other.path)),
            None => Self::Own,
        }
    }

    fn table(url: &str, settings: &Settings) -> Self {
        match beginning(url, settings) {
            Ok(begins) if begins.is_empty() => Self::Broken,
            Ok(begins) if begins_as_table(&begins) => Self::Own,
            Ok(_) => Self::Foreign("is not a table"),
            Err(_) => Self::Foreign("cannot be read"),
        }
    }
}

/// The first bytes of a file.
fn beginning(url: &str, settings: &Settings) -> Result<Vec<u8>, RNTupleError> {
    let source = open_source_with(url, settings)?;
    let range = 0..source.meta().size.min(ROOT_MAGIC.len() as u64 + 4);
    let found = source.read_ranges(&[range])?;
    Ok(found.concat())
}

/// Whether these are the first bytes of a ROOT file, even of an incomplete one: the magic, and a plausible version.
fn begins_as_root(bytes: &[u8]) -> bool {
    let (magic, version) = bytes.split_at(bytes.len().min(ROOT_MAGIC.len()));
    let version = version
        .first_chunk()
        .map(|version| u32::from_be_bytes(*version));
    ROOT_MAGIC.starts_with(magic) && version.is_none_or(|version| version < LARGEST_VERSION)
}
