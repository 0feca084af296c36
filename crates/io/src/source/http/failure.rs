//! Failures of requests, and whether to retry.

use std::fmt;
use std::time::Duration;

use femtobarn_xrootd::backoff;
use reqwest::StatusCode;

use crate::IoError;
use femtobarn_xrootd::TooSlow;

use super::client::Limits;
use super::target::Target;

/// A failed attempt: the server, the request, and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{server}: {doing}: {why}")]
pub(super) struct Failure {
    pub server: String,
    pub doing: String,
    pub why: Why,
    /// The delay that the server requests.
    pub wait: Option<Duration>,
}

/// The reason for a failed attempt.
#[derive(Debug, thiserror::Error)]
pub(super) enum Why {
    /// The connection failed permanently, as its certificate is not trusted.
    #[error("no TLS: {0}")]
    NoTrust(String),
    /// The connection failed.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// Nothing was received for too long.
    #[error("no data for {} s (request_timeout)", .0.as_secs_f32())]
    Silent(Duration),
    /// The data rate is below the setting `least_rate`.
    #[error(transparent)]
    Slow(TooSlow),
    /// The connection ended.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// The server has answered with an error.
    #[error("{0}")]
    Status(StatusCode),
    /// The answer does not match the request.
    #[error("wrong answer: {0}")]
    Lied(String),
    /// The file was replaced.
    #[error("the file has changed: {0}")]
    Changed(String),
    /// Too many redirects.
    #[error("more than {0} redirects")]
    Redirects(usize),
    /// The path is a directory.
    #[error("it is a directory")]
    Folder,
    /// The name of the new file exists.
    #[error("it already exists")]
    Taken,
    /// The server does not list directories.
    #[error(
        "the server does not list directories (no WebDAV): give the URLs of the files instead of a pattern"
    )]
    NoLists,
    /// The server only sends whole files, and this one is too large for that.
    #[error("the server does not support ranges, and this file is too large to be read as a whole{}: download it first, e.g. with curl, and read the local copy", in_bytes(*.0))]
    OnlyWhole(Option<u64>),
}

fn in_bytes(size: Option<u64>) -> String {
    size.map_or_else(String::new, |size| format!(" ({size} bytes)"))
}

/// How often a kind of failure is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    Never,
    Once,
    AsOftenAsMayBe,
}

impl Why {
    fn again(&self) -> Again {
        match self {
            // a server that refuses connections may be starting
            Self::Unreachable(_) => Again::Once,
            Self::Silent(_) | Self::Slow(_) | Self::Lost(_) => Again::AsOftenAsMayBe,
            Self::Status(status) => match status.as_u16() {
                408 | 425 | 429 | 500 | 502..=504 => Again::AsOftenAsMayBe,
                _ => Again::Never,
            },
            _ => Again::Never,
        }
    }
}

/// The attempts in order, with the answer of each server.
#[derive(Debug)]
pub struct HttpError {
    failures: Vec<Failure>,
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said: Vec<(String, usize)> = Vec::new();
        for failure in self.failures.iter().map(ToString::to_string) {
            match said.last_mut() {
                // repeated failures are counted
                Some((last, times)) if *last == failure => *times += 1,
                _ => said.push((failure, 1)),
            }
        }
        for (number, (failure, times)) in said.iter().enumerate() {
            let before = if number == 0 { "" } else { "; then " };
            write!(f, "{before}{failure}")?;
            if *times > 1 {
                write!(f, " ({times} times)")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for HttpError {}

impl From<Failure> for HttpError {
    fn from(failure: Failure) -> Self {
        Self {
            failures: vec![failure],
        }
    }
}

impl HttpError {
    /// The HTTP status of the last failure, if it has one.
    pub(crate) fn status(&self) -> Option<u16> {
        match self.failures.last()?.why {
            Why::Status(status) => Some(status.as_u16()),
            _ => None,
        }
    }

    /// Adapts the error for listing a directory.
    pub(super) fn of_list(mut self) -> Self {
        if matches!(self.status(), Some(400 | 405 | 501))
            && let Some(last) = self.failures.last_mut()
        {
            last.why = Why::NoLists;
        }
        self
    }

    /// Whether no answer was received.
    pub(super) fn is_of_the_way(&self) -> bool {
        let last = self.failures.last().map(|failure| &failure.why);
        matches!(
            last,
            Some(Why::Silent(_) | Why::Slow(_) | Why::Lost(_) | Why::Unreachable(_))
        )
    }

    /// Converts to an error of a sink.
    pub(super) fn of_sink(self, target: &Target) -> IoError {
        let url = target.url.clone();
        match self.failures.last().map(|failure| &failure.why) {
            Some(Why::Folder) => {
                let found = "a directory";
                return IoError::NotAFile { url, found };
            }
            Some(Why::Taken) => return IoError::Exists { url },
            _ => {}
        }
        let hint = match self.status() {
            Some(401 | 403) => {
                let why = format!("{self}: {}", target.advice());
                return IoError::Refused { url, why };
            }
            Some(412) => return IoError::Exists { url },
            Some(405 | 501) => "the server does not accept files there (no PUT)",
            Some(404 | 409) => "the directory does not exist, or the name is invalid",
            Some(411) => "a proxy has removed the length of the file",
            Some(413) => "the server does not accept files of this size",
            Some(507) => "the server has no space left",
            _ => {
                let source = Box::new(self);
                return IoError::Sending { url, source };
            }
        };
        let source = format!("{self}: {hint}").into();
        IoError::Sending { url, source }
    }

    /// Converts to an error of a source.
    pub(super) fn of(self, target: &Target) -> IoError {
        let url = target.url.clone();
        match self.failures.last().map(|failure| &failure.why) {
            Some(Why::Changed(_)) => IoError::Changed { url },
            Some(Why::Folder) => IoError::NotAFile {
                url,
                found: "a directory",
            },
            Some(Why::Status(status)) if matches!(status.as_u16(), 404 | 410) => {
                IoError::NotFound { url }
            }
            Some(Why::Status(status)) if matches!(status.as_u16(), 401 | 403) => {
                let why = format!("{self}: {}", target.advice());
                IoError::Refused { url, why }
            }
            _ => IoError::Remote {
                url,
                source: Box::new(self),
            },
        }
    }
}

/// The failures of one request so far, and its time limit.
#[derive(Debug)]
pub(super) struct Patience<'a> {
    limits: &'a Limits,
    failures: Vec<Failure>,
    waited: Duration,
    /// Whether the server has answered before: then an unreachable server may be restarting.
    is_known: bool,
}

impl<'a> Patience<'a> {
    pub fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            failures: Vec::new(),
            waited: Duration::ZERO,
            is_known: false,
        }
    }

    /// For a server that has answered before.
    pub fn of_known_server(limits: &'a Limits) -> Self {
        Self {
            is_known: true,
            ..Self::new(limits)
        }
    }

    /// Records progress: if the rate is sufficient, earlier failures do not count any more.
    pub fn progress(&mut self, bytes: usize, time: Duration) {
        if bytes > 0 && !self.limits.rate().is_missed(bytes as u64, time) {
            self.failures.clear();
        }
    }

    /// Waits until the next attempt.
    ///
    /// # Errors
    /// If there must not be another attempt; the error has all failures.
    pub async fn after(&mut self, failure: Failure) -> Result<(), HttpError> {
        let pause = self.pause(&failure);
        self.failures.push(failure);
        let Some(pause) = pause else {
            let failures = std::mem::take(&mut self.failures);
            return Err(HttpError { failures });
        };
        self.waited += pause;
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// The pause after a failure; `None` if it was the last attempt.
    fn pause(&self, failure: &Failure) -> Option<Duration> {
        let once = |failure: &Failure| failure.why.again() == Again::Once;
        let goes_on = match failure.why.again() {
            Again::Never => false,
            Again::Once => self.is_known || !self.failures.iter().any(once),
            Again::AsOftenAsMayBe => true,
        };
        if !goes_on || self.failures.len() >= self.limits.most_retries {
            return None;
        }
        // a restart takes longer than a busy period
        let tries = self.failures.len() + if once(failure) { 2 } else { 0 };
        let pause = failure.wait.unwrap_or_else(|| backoff(tries));
        (self.waited + pause <= self.limits.longest_wait).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use crate::Settings;

    use super::*;

    fn failure(why: Why) -> Failure {
        let (server, doing) = ("h".to_owned(), "GET".to_owned());
        Failure {
            server,
            doing,
            why,
            wait: None,
        }
    }

    fn tries(mut next: impl FnMut() -> Why) -> usize {
        let limits = Limits::of(&Settings::default(), false).unwrap();
        let mut patience = Patience::new(&limits);
        while patience.pause(&failure(next())).is_some() {
            patience.failures.push(failure(next()));
        }
        patience.failures.len() + 1
    }

    #[test]
    fn what_may_pass_is_tried_again() {
        let status = |code| move || Why::Status(StatusCode::from_u16(code).unwrap());
        assert_eq!(tries(|| Why::Lost(String::new())), 4);
        assert_eq!(tries(|| Why::Unreachable(String::new())), 2);
        assert_eq!(tries(|| Why::NoTrust(String::new())), 1);
        assert_eq!(
            (tries(status(503)), tries(status(429)), tries(status(404))),
            (4, 4, 1)
        );
    }

    #[test]
    fn a_server_that_wants_too_much_patience_is_given_up() {
        let limits = Limits::of(&Settings::default(), false).unwrap();
        let patience = Patience::new(&limits);
        let wait = |seconds| Failure {
            wait: Some(Duration::from_secs(seconds)),
            ..failure(Why::Status(StatusCode::SERVICE_UNAVAILABLE))
        };
        assert_eq!(patience.pause(&wait(600)), Some(Duration::from_secs(600)));
        assert_eq!(patience.pause(&wait(601)), None);
    }
}
