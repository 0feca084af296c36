//! Statuses of the sources of a file, and the history in errors.

use std::fmt::{self, Write};

use super::member::{Member, SourceState};
use crate::IoError;
use crate::units::bytes;

/// One source of a file that may have several.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceStatus {
    /// Its URL, without secrets.
    pub url: String,
    /// The server that a redirector has chosen.
    pub server: Option<String>,
    /// Its state.
    pub state: SourceState,
    /// Seconds that a request of 256 KiB takes; none if that was not measured.
    pub quality: Option<f64>,
    /// Bytes a second, if enough was read.
    pub rate: Option<f64>,
    /// Bytes that it gave.
    pub n_bytes: u64,
    /// Vector reads that it got.
    pub n_requests: u64,
    /// What went wrong, the last first.
    pub errors: Vec<String>,
}

impl fmt::Display for SourceStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)?;
        if let Some(server) = &self.server {
            write!(f, " (on {server})")?;
        }
        let (gave, n) = (bytes(self.n_bytes), self.n_requests);
        write!(f, ": {}, {gave} in {n} vector reads", self.state.name())?;
        if let Some(rate) = self.rate {
            write!(f, ", {}/s", bytes(super::quality::whole(rate)))?;
        }
        if let Some(quality) = self.quality {
            write!(f, ", 256 KiB in {:.3} s", quality)?;
        }
        match self.errors.first() {
            Some(error) => write!(f, "; {error}"),
            None => Ok(()),
        }
    }
}

/// The most errors of a source that are remembered.
const MOST_ERRORS: usize = 8;

/// What is known of a source beside its schedule.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub url: String,
    pub shown: String,
    pub server: Option<String>,
    /// Whether a redirector was asked for it, and it was not opened so far.
    pub is_sought: bool,
    /// The last first.
    pub errors: Vec<String>,
    /// The last error.
    pub last: Option<IoError>,
}

impl Past {
    pub fn failed(&mut self, text: String, error: Option<IoError>) {
        if self.errors.first() != Some(&text) {
            self.errors.insert(0, text);
            self.errors.truncate(MOST_ERRORS);
        }
        self.last = error.or(self.last.take());
    }

    /// Its URL, with the server that was chosen.
    pub fn name(&self) -> String {
        match &self.server {
            Some(server) => format!("{} (on {server})", self.shown),
            None => self.shown.clone(),
        }
    }

    pub fn status(&self, member: &Member) -> SourceStatus {
        SourceStatus {
            url: self.shown.clone(),
            server: self.server.clone(),
            state: member.state,
            quality: member.quality.is_measured().then(|| member.quality.time()),
            rate: member.quality.rate(),
            n_bytes: member.n_bytes,
            n_requests: member.n_requests,
            errors: self.errors.clone(),
        }
    }
}

/// What every source was asked, and what it said.
pub(super) fn history<'a>(all: impl Iterator<Item = (&'a Past, &'a Member)>) -> String {
    let mut out = "no source is left".to_owned();
    for (past, member) in all {
        let _ = write!(out, "; {}: {}", past.name(), member.state.name());
        if member.n_requests > 0 {
            let (n, gave) = (member.n_requests, bytes(member.n_bytes));
            let _ = write!(out, " after {gave} in {n} vector reads");
        }
        for (index, error) in past.errors.iter().enumerate() {
            let before = if index == 0 { ": " } else { "; before: " };
            let _ = write!(out, "{before}{error}");
        }
    }
    out
}

/// The error when no source of a file is left. If all sources have failed for the same reason, it is that reason.
pub(super) fn exhausted<'a>(
    shown: &str,
    all: impl Iterator<Item = (&'a mut Past, &'a Member)>,
) -> IoError {
    let (mut pasts, members): (Vec<&mut Past>, Vec<&Member>) = all.unzip();
    let history = history(pasts.iter().map(|past| &**past).zip(members));
    let url = shown.to_owned();
    pasts.retain(|past| !past.is_sought);
    if let [only] = pasts.as_mut_slice()
        && let Some(error) = only.last.take()
    {
        return error;
    }
    let kinds: Vec<&str> = pasts
        .iter()
        .filter_map(|past| past.last.as_ref())
        .map(IoError::kind)
        .collect();
    let is = |kind: &str| !kinds.is_empty() && kinds.iter().all(|other| *other == kind);
    match () {
        () if is("file-not-found") => IoError::NotFound { url },
        () if is("permission-denied") => IoError::Refused { url, why: history },
        () if is("file-changed") => IoError::Changed { url },
        () => IoError::Remote {
            url,
            source: history.into(),
        },
    }
}
