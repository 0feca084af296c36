//! Progress of conversions.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use femtobarn::convert::Progress;
use femtobarn::io::while_waiting;
use femtobarn::merge;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::code;
use crate::units;

/// Progress on a terminal: bytes, entries, speed and time left.
pub struct Show {
    is_on: bool,
    n_files: usize,
    start: Instant,
    state: Mutex<(Option<Instant>, BTreeMap<usize, Progress>)>,
}

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on, Ctrl-C, SIGTERM and SIGHUP end the work gracefully, so that no partial output remains. The second
/// signal ends the program. Waiting for servers ends at once. Ignored signals, such as SIGHUP under `nohup`, stay
/// ignored.
pub fn end_gently() {
    let ignored = ignored_signals();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if (ignored >> (signal - 1)) & 1 == 0 {
            let flag = || Arc::clone(&INTERRUPTED);
            // without a handler, the next conversion to this name removes the partial file
            let _ = flag::register_conditional_shutdown(signal, code::INTERRUPTED, flag());
            let _ = flag::register(signal, flag());
        }
    }
    while_waiting(|| !is_interrupted());
}

/// The signals that this process ignores, one bit each; none if unknown.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Whether Ctrl-C has been pressed.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

impl Show {
    const INTERVAL: Duration = Duration::from_millis(200);

    pub fn new(n_files: usize, json: bool) -> Self {
        Self {
            is_on: !json && std::io::stderr().is_terminal(),
            n_files,
            start: Instant::now(),
            state: Mutex::default(),
        }
    }

    /// Shows the progress of a file; returns whether to continue.
    pub fn tick(&self, at: usize, progress: Progress) -> bool {
        if is_interrupted() {
            return false;
        }
        if !self.is_on {
            return true;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1.insert(at, progress);
        if state.0.is_some_and(|last| last.elapsed() < Self::INTERVAL) {
            return true;
        }
        state.0 = Some(Instant::now());
        let line = progress_line(&state.1, self.n_files, self.start.elapsed());
        // a closed terminal is not a reason to stop
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        true
    }

    /// Shows the progress of a merge; returns whether to continue.
    pub fn tick_merge(&self, progress: merge::Progress) -> bool {
        if is_interrupted() {
            return false;
        }
        self.line(|| {
            let (files, bytes) = (progress.files, units::bytes(progress.bytes));
            format!(
                "{files}/{} files, {bytes} of {}{}",
                progress.n_files,
                units::bytes(progress.n_bytes),
                stage(progress.verifying, progress.sending)
            )
        });
        true
    }

    /// Shows progress as a percentage; returns whether to continue.
    pub fn tick_share(&self, what: &str, done: u64, total: u64) -> bool {
        if is_interrupted() {
            return false;
        }
        let percent = u128::from(done) * 100 / u128::from(total.max(1));
        self.line(|| format!("{what}: {percent} %"));
        true
    }

    /// Shows a line, unless the last one is too recent.
    fn line(&self, line: impl FnOnce() -> String) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_on && state.0.is_none_or(|last| last.elapsed() >= Self::INTERVAL) {
            state.0 = Some(Instant::now());
            // a closed terminal is not a reason to stop
            let _ = write!(std::io::stderr(), "\r\x1b[K{}", line());
        }
    }

    /// Erases the line before other output.
    pub fn end(&self) {
        if self.is_on {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Show {
    fn drop(&mut self) {
        self.end();
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn progress_line(pulses: &BTreeMap<usize, Progress>, n_files: usize, elapsed: Duration) -> String {
    let sum = |of: &dyn Fn(&Progress) -> u64| pulses.values().map(of).sum::<u64>();
    let done_of = |progress: &Progress| {
        if progress.verifying {
            progress.n_bytes
        } else {
            progress.bytes
        }
    };
    let (done, known) = (sum(&done_of), sum(&|progress| progress.n_bytes));
    let entries = sum(&|progress| {
        if progress.verifying {
            progress.n_entries
        } else {
            progress.entries
        }
    });
    let seconds = elapsed.as_secs_f64().max(1e-3);
    let speed = done as f64 / 1e6 / seconds;
    // files that have not begun are assumed to be as large as the others
    let total = known as f64 * n_files as f64 / pulses.len().max(1) as f64;
    let left = if done > 0 {
        seconds * (total / done as f64 - 1.0)
    } else {
        0.0
    };
    let files = if n_files > 1 {
        format!("{}/{n_files} files, ", pulses.len())
    } else {
        String::new()
    };
    let is_any = |is: &dyn Fn(&Progress) -> bool| pulses.values().any(is);
    let stage = stage(
        is_any(&|progress| progress.verifying),
        is_any(&|progress| progress.sending),
    );
    format!(
        "{files}{} of {}, {entries} entries, {speed:.0} MB/s, {left:.0} s left{stage}",
        units::bytes(done),
        units::bytes(known)
    )
}

/// The current stage, if any.
fn stage(verifying: bool, sending: bool) -> &'static str {
    match (verifying, sending) {
        (_, true) => ", sending",
        (true, false) => ", verifying",
        (false, false) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_tells_bytes_entries_speed_and_what_is_left() {
        let progress = Progress {
            entries: 500,
            n_entries: 1000,
            bytes: 10_000_000,
            n_bytes: 20_000_000,
            verifying: false,
            sending: false,
        };
        let line = progress_line(&BTreeMap::from([(0, progress)]), 2, Duration::from_secs(2));
        assert_eq!(
            line,
            "1/2 files, 10.0 MB of 20.0 MB, 500 entries, 5 MB/s, 6 s left"
        );
    }
}
