//! Diagnosis of the access to a file: each step in order, with its result, its time, and advice if it fails.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::remote::foreign_for;
use crate::url::{Protocol, is_foreign, is_object_set, protocol};
use crate::{
    ByteSource, IoError, LocalSource, Settings, is_remote, open_remote, pieces, with_causes,
};

mod certificate;
mod http;
mod network;
mod object;
mod reading;
mod xrootd;

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The check has succeeded.
    Fine,
    /// The check has failed; later steps are impossible.
    Failed,
    /// An earlier check has failed.
    NotReached,
}

/// A step of accessing a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The name of the step.
    pub name: &'static str,
    /// The outcome.
    pub outcome: Outcome,
    /// The duration, if it is meaningful.
    pub time: Option<Duration>,
    /// The result, without secrets.
    pub note: String,
    /// Advice, if it failed.
    pub advice: Option<String>,
}

/// A step that a caller makes.
pub type Step<'a, T> = Box<dyn Fn() -> Result<T, FailedStep> + 'a>;

/// An open source, and where it has something to read.
pub type Readable = (Arc<dyn ByteSource>, Vec<Range<u64>>);

/// How an ntuple in objects is opened, whose layout only the caller knows.
pub struct NTupleSteps<'a> {
    /// Steps before it is opened, by their names. They return notes.
    pub before: Vec<(&'static str, Step<'a, String>)>,
    /// Opens it, and finds pages in its source.
    pub open: Step<'a, Readable>,
}

/// Checks the access to a file step by step, and reads at most `n_bytes` bytes. Steps after a failure are reported as
/// not reached.
pub fn examine(
    url: &str,
    settings: &Settings,
    n_bytes: u64,
    ntuple: &NTupleSteps<'_>,
) -> Vec<Check> {
    let mut way = Way::default();
    // invalid settings are reported by the step that needs them
    let is_others = is_foreign(url) || foreign_for(url, settings).is_ok_and(|o| o.is_some());
    let source = match protocol(url) {
        _ if is_others => way.file(|| open_remote(url, settings)),
        Some(Protocol::Several | Protocol::Objects(None)) => {
            way.file(|| open_remote(url, settings))
        }
        Some(Protocol::Daos) => None,
        _ if !is_remote(url) => {
            let path = crate::url::local_path(url);
            way.file(|| {
                LocalSource::open(std::path::Path::new(&*path)).map(|source| -> Opened { source })
            })
        }
        Some(Protocol::Xrootd) => xrootd::examine(&mut way, url, settings),
        Some(Protocol::Http) => http::examine(&mut way, url, settings),
        _ => object::examine(&mut way, url, settings),
    };
    let opened = match is_object_set(url) {
        true => way.ntuple(ntuple),
        false => source.map(|source| {
            let size = source.meta().size;
            (source, pieces(size, reading::PIECE).collect())
        }),
    };
    reading::examine(&mut way, opened, settings, n_bytes);
    way.checks
}

type Opened = Arc<dyn ByteSource>;

/// The result of a step: a value for later steps, and a note.
struct Found<T> {
    value: T,
    note: String,
    /// The time to report: `None` for the duration of the step, `Some(None)` for no time.
    time: Option<Option<Duration>>,
}

impl<T> Found<T> {
    fn new(value: T, note: impl Into<String>) -> Self {
        let note = note.into();
        let time = None;
        Self { value, note, time }
    }

    fn taking(self, time: Option<Duration>) -> Self {
        let time = Some(time);
        Self { time, ..self }
    }
}

/// The error and advice of a failed step.
#[derive(Debug)]
pub struct FailedStep {
    /// The error, without secrets.
    pub why: String,
    /// The advice.
    pub advice: String,
}

impl FailedStep {
    /// With an error and advice.
    pub fn new(why: impl Into<String>, advice: impl Into<String>) -> Self {
        let (why, advice) = (why.into(), advice.into());
        Self { why, advice }
    }
}

impl From<IoError> for FailedStep {
    fn from(error: IoError) -> Self {
        let advice = match error.kind() {
            "file-not-found" => "check the path: `fb ls DIRECTORY/` lists a directory",
            "permission-denied" => {
                "check the user and its permissions: the guide on remote files lists where tokens and keys are searched"
            }
            "not-a-file" => "`fb ls` lists a directory",
            "usage" => "check the settings with `fb doctor` on another file",
            "unsupported-url" | "missing-dependency" => "see the guide on remote files",
            _ => "send this line to the administrators of the server",
        };
        Self::new(with_causes(&error), advice)
    }
}

/// The finished steps.
#[derive(Default)]
struct Way {
    checks: Vec<Check>,
    has_failed: bool,
}

impl Way {
    /// Runs a step, unless an earlier one has failed.
    fn step<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Result<Found<T>, FailedStep>,
    ) -> Option<T> {
        let mut check = Check {
            name,
            outcome: Outcome::NotReached,
            time: None,
            note: String::new(),
            advice: None,
        };
        let mut value = None;
        if !self.has_failed {
            let start = Instant::now();
            let found = work();
            let elapsed = Some(start.elapsed());
            match found {
                Ok(found) => {
                    check.outcome = Outcome::Fine;
                    check.time = found.time.unwrap_or(elapsed);
                    check.note = found.note;
                    value = Some(found.value);
                }
                Err(failed) => {
                    self.has_failed = true;
                    check.outcome = Outcome::Failed;
                    check.time = elapsed;
                    check.note = failed.why;
                    check.advice = Some(failed.advice);
                }
            }
        }
        self.checks.push(check);
        value
    }

    /// Opens an ntuple whose pages are objects.
    fn ntuple(&mut self, steps: &NTupleSteps<'_>) -> Option<Readable> {
        for (name, step) in &steps.before {
            self.step(name, || Ok(Found::new((), step()?)));
        }
        self.step("ntuple", || {
            let opened = (steps.open)()?;
            let note = format!("{} pages in its first cluster group", opened.1.len());
            Ok(Found::new(opened, note))
        })
    }

    /// Opens the file.
    fn file(&mut self, open: impl FnOnce() -> Result<Opened, IoError>) -> Option<Opened> {
        self.file_with(open, || None)
    }

    /// Opens the file; `more` is added to the note.
    fn file_with(
        &mut self,
        open: impl FnOnce() -> Result<Opened, IoError>,
        more: impl FnOnce() -> Option<String>,
    ) -> Option<Opened> {
        self.step("file", || {
            let start = Instant::now();
            let source = open()?;
            let time = start.elapsed();
            let note = [Some(reading::identity(&*source)), more()];
            let note: Vec<String> = note.into_iter().flatten().collect();
            Ok(Found::new(source, note.join(", ")).taking(Some(time)))
        })
    }
}
