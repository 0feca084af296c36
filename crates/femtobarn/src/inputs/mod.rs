//! Files that are read by converting, merging, joining and proving: their selection, and their contents.

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

pub(crate) use entries::{Chooser, joined};
pub(crate) use joined::{check_joined, chosen, matched, open_joined};
pub(crate) use names::{Chosen, counted, no_field};
pub(crate) use opened::{ConvertedTrees, Opened, wanted};

use crate::open::open_source_with;
use crate::staged::shown;
use crate::writable::{file_id, local};

/// A file, and the name of the object in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by their types")]
pub struct Input {
    pub url: String,
    pub path: Option<String>,
    /// Settings for its server, which override the environment and the settings file.
    pub settings: BTreeMap<String, String>,
}

impl Input {
    /// Settings for its server.
    pub(crate) fn all_settings(&self) -> Result<Settings, RNTupleError> {
        Ok(Settings::new(&self.url, self.settings.clone())?)
    }

    /// Its URL as people see it, without what may be secret.
    pub fn shown(&self) -> String {
        public(&self.url)
    }

    /// Opens its file.
    pub(crate) fn open_source(&self) -> Result<Arc<dyn ByteSource>, RNTupleError> {
        open_source_with(&self.url, &self.all_settings()?)
    }
}

/// Treatment of objects that are neither ntuples nor directories nor histograms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OtherObjects {
    /// The first of each name is taken.
    First,
    /// They are an error.
    #[default]
    Error,
    /// They are left out.
    Drop,
}

impl OtherObjects {
    /// Why an object of an input is not in the output.
    pub(crate) fn why_left(self) -> &'static str {
        match self {
            Self::First => "the first of its name is taken",
            Self::Error | Self::Drop => "such objects are dropped (others=\"drop\")",
        }
    }
}

/// Folders are not converted, but their files are.
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

/// An output that replaces its input would take what else is in that file with it.
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

/// The request is invalid, whatever the files contain.
pub(crate) fn misused(what: &str, reason: impl std::fmt::Display) -> RNTupleError {
    RNTupleError::Usage {
        what: format!("cannot write {what:?}: {reason}"),
    }
}

/// The part of `whole` that `n` of `of` are.
pub(crate) fn share(whole: u64, n: u64, of: u64) -> u64 {
    let part = u128::from(whole) * u128::from(n) / u128::from(of.max(1));
    u64::try_from(part).unwrap_or(whole)
}
