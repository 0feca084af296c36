//! The input files of conversions, merges, joins and proofs: their selection, and their contents.

mod entries;
mod joined;
mod keys;
mod names;
mod opened;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use femtobarn_io::{ByteSource, Settings, is_remote, public};
use femtobarn_rntuple::RNTupleError;

pub use entries::Entries;
pub use joined::{JoinOptions, Unmatched};
pub use keys::EntryIndex;

pub(crate) use entries::{
    Chooser, Scope, columns_of, fulfilling, hinted, joined, numbered, paths_of,
};
pub(crate) use joined::{check_joined, chosen, matched, open_joined};
pub(crate) use names::{Chosen, counted, no_field};
pub(crate) use opened::{ConvertedTrees, Opened, wanted};

use crate::choice::Choice;
use crate::daos::with_name;
use crate::open::open_source_with;
use crate::staged::shown;
use crate::writable::{file_id, local};

/// A file with an optional object name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by their types")]
pub struct Input {
    pub url: String,
    pub path: Option<String>,
    /// Settings for the server of the file, which override the environment and the settings file.
    pub settings: BTreeMap<String, String>,
}

impl Input {
    /// All settings for the server of the file.
    pub(crate) fn all_settings(&self) -> Result<Settings, RNTupleError> {
        Ok(Settings::new(&self.url, self.settings.clone())?)
    }

    /// The URL for messages, without secrets.
    pub fn shown(&self) -> String {
        public(&self.url)
    }

    /// Opens the source of the file.
    pub(crate) fn open_source(&self) -> Result<Arc<dyn ByteSource>, RNTupleError> {
        let url = with_name(&self.url, self.path.as_deref());
        open_source_with(&url, &self.all_settings()?)
    }
}

/// Treatment of objects that are neither ntuples nor directories nor histograms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OtherObjects {
    /// Take an object that all files with its name have alike; different ones are an error.
    #[default]
    Same,
    /// Take the first object of each name.
    First,
    /// Report an error.
    Error,
    /// Leave them out.
    Drop,
}

impl Choice for OtherObjects {
    const ALL: &[(&str, Self)] = &[
        ("same", Self::Same),
        ("first", Self::First),
        ("error", Self::Error),
        ("drop", Self::Drop),
    ];
}

impl OtherObjects {
    /// The reason why an object is not in the output.
    pub(crate) fn why_left(self) -> &'static str {
        match self {
            Self::Same => "it is the same in all files",
            Self::First => "the first of its name is taken",
            Self::Error | Self::Drop => "such objects are dropped (others=\"drop\")",
        }
    }
}

/// Refuses directories; their files must be named.
pub(crate) fn check_inputs(inputs: &[Input]) -> Result<(), RNTupleError> {
    let paths = inputs.iter().map(|input| local(&input.url));
    match paths.into_iter().find(|path| path.is_dir()) {
        None => Ok(()),
        Some(folder) => Err(RNTupleError::Usage {
            what: format!(
                "{} is a directory: give its files, e.g. '{}/*.root'",
                folder.display(),
                folder.to_string_lossy().trim_end_matches('/')
            ),
        }),
    }
}

/// Refuses an output that would replace an input: other objects of that file would be lost.
pub(crate) fn check_apart(inputs: &[Input], output: &Path) -> Result<(), RNTupleError> {
    let shown = shown(output);
    let own = file_id(output);
    let is_output = |input: &&Input| match is_remote(&input.url) {
        true => Path::new(&public(&input.url)) == shown,
        false => own.is_some() && file_id(&local(&input.url)) == own,
    };
    match inputs.iter().find(is_output) {
        None => Ok(()),
        Some(_) => {
            let reason = "the output is also an input and would be replaced: give it another name";
            Err(misused(&shown.to_string_lossy(), reason))
        }
    }
}

/// The error for a request that is invalid for any files.
pub(crate) fn misused(what: &str, reason: impl std::fmt::Display) -> RNTupleError {
    RNTupleError::Usage {
        what: format!("cannot write {what:?}: {reason}"),
    }
}

/// The fraction `n / of` of `whole`.
pub(crate) fn share(whole: u64, n: u64, of: u64) -> u64 {
    let part = u128::from(whole) * u128::from(n) / u128::from(of.max(1));
    u64::try_from(part).unwrap_or(whole)
}
