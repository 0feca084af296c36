//! Replaying traces of operations on files, as XRootD's recorder and the setting `record` write them.
//!
//! | part | |
//! |---|---|
//! | `play` | makes the recorded reads again, at their times and in their order |
//! | `summary` | what was recorded, and how its replay compares |
//! | `inputs` | the files that a trace reads: whether they exist, and files of the needed sizes in their place |
//! | `figure` | a drawing |

mod figure;
mod inputs;
mod play;
mod summary;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::time::Duration;

use femtobarn_io::{Action, IoError, Operation, public};
use femtobarn_rntuple::RNTupleError;

pub use figure::figure;
pub use inputs::{Input, InputState, check_inputs};
pub use play::{Played, Replayed, play};
pub use summary::{FileSummary, Summary, Volume};

/// How a trace is replayed.
#[derive(Debug, Clone, Default)]
pub struct ReplayOptions {
    /// How many times as fast as recorded; none to wait for nothing but answers.
    pub speed: Option<f64>,
    /// Settings for servers, which override the environment and the settings file.
    pub settings: BTreeMap<String, String>,
}

/// Operations on files, as they were recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// In the order of the file: that of their ends.
    actions: Vec<Action>,
}

impl Trace {
    /// Reads the trace of a file.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn open(path: &str) -> Result<Self, RNTupleError> {
        let file = File::open(path).map_err(|error| IoError::from_open(path, error))?;
        Self::read(path, BufReader::new(file))
    }

    /// Reads a trace; `name` is for errors.
    ///
    /// # Errors
    /// If it cannot be read, or a line is not an operation.
    pub fn read(name: &str, lines: impl BufRead) -> Result<Self, RNTupleError> {
        let mut actions = Vec::new();
        for (number, line) in lines.lines().enumerate() {
            let line = line.map_err(|error| IoError::from_open(name, error))?;
            let line = line.trim_end_matches('\r');
            if line.is_empty() {
                continue;
            }
            let action = Action::parse(line).ok_or_else(|| RNTupleError::Usage {
                what: format!(
                    "{name}: line {} is not a row of a trace: expected seven quoted fields, as XRootD's recorder \
                     writes them",
                    number + 1
                ),
            })?;
            actions.push(action);
        }
        Ok(Self { actions })
    }

    /// The operations.
    #[must_use]
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// Replaces a part of the URL of each file.
    ///
    /// # Errors
    /// If no URL contains it.
    pub fn replace(&mut self, old: &str, new: &str) -> Result<(), RNTupleError> {
        let mut is_found = false;
        for action in &mut self.actions {
            if let Operation::Open { url, .. } = &mut action.operation
                && url.contains(old)
            {
                *url = url.replace(old, new);
                is_found = true;
            }
        }
        match is_found {
            true => Ok(()),
            false => Err(RNTupleError::Usage {
                what: format!("cannot replace {old:?}: no URL of the trace contains it"),
            }),
        }
    }

    /// The first start and the last end.
    fn extent(&self) -> Option<(Duration, Duration)> {
        let first = self.actions.iter().map(|action| action.start).min()?;
        let last = self.actions.iter().map(|action| action.stop).max()?;
        Some((first, last))
    }

    /// The operations of each open file, in the order of their first ones.
    pub(crate) fn files(&self) -> Vec<OpenFile<'_>> {
        let mut numbers: BTreeMap<u64, usize> = BTreeMap::new();
        let mut files: Vec<OpenFile<'_>> = Vec::new();
        for (index, action) in self.actions.iter().enumerate() {
            let at = *numbers.entry(action.file).or_insert(files.len());
            if at == files.len() {
                files.push(OpenFile::default());
            }
            if let Some(file) = files.get_mut(at) {
                file.actions.push((index, action));
            }
        }
        files
    }
}

/// The operations on one open file, each with its number in the trace.
#[derive(Debug, Default)]
pub(crate) struct OpenFile<'a> {
    actions: Vec<(usize, &'a Action)>,
}

impl OpenFile<'_> {
    /// The URL with which it was opened, if that is recorded.
    fn url(&self) -> Option<&str> {
        self.actions
            .iter()
            .find_map(|(_, action)| match &action.operation {
                Operation::Open { url, .. } => Some(url.as_str()),
                _ => None,
            })
    }

    /// The URL for people.
    pub(crate) fn shown(&self) -> String {
        self.url().map_or_else(|| "?".to_owned(), public)
    }

    /// The successful operations.
    pub(crate) fn done(&self) -> impl Iterator<Item = &Action> {
        let actions = self.actions.iter().map(|(_, action)| *action);
        actions.filter(|action| action.error.is_none())
    }

    /// Whether it was opened for writing, or changed.
    fn is_written(&self) -> bool {
        self.done().any(|action| action.operation.writes())
    }

    /// One past the last byte that was read.
    fn n_needed(&self) -> u64 {
        let reads = self
            .done()
            .filter(|a| matches!(a.operation, Operation::Read(..)));
        let ends = reads
            .flat_map(|action| action.ranges())
            .map(|range| range.end);
        ends.max().unwrap_or(0)
    }
}

/// A URL or path as it is opened here: XrdCl names local files with a host.
fn opened_as(url: &str) -> String {
    match url.strip_prefix("file://localhost/") {
        Some(path) => format!("file:///{path}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests;
