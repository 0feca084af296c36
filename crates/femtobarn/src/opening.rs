//! Opens several files concurrently, and in the background.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use femtobarn_io::{IoError, PULSE, Together, goes_on};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;

use crate::ntuple::NTuple;
use crate::open::{OpenOptions, open_reader_as};

/// Number of files that are opened at once.
const THREADS: usize = 8;

/// Opens files concurrently; the results are in order.
pub(crate) fn open_all(
    files: &[(String, Option<String>)],
    options: &OpenOptions,
) -> Result<Vec<Option<Reader>>, RNTupleError> {
    side_by_side(files, |index, (url, path)| {
        let known = options.states.get(index);
        open_reader_as(known, url, path.as_deref(), options)
    })
}

/// Opens numbered items concurrently; the results are in order. If one fails or is interrupted, the others stop, even
/// if they wait for servers.
pub(crate) fn side_by_side<I: Sync, T: Send>(
    all: &[I],
    open: impl Fn(usize, &I) -> Result<T, RNTupleError> + Sync,
) -> Result<Vec<T>, RNTupleError> {
    let tasks = Mutex::new(all.iter().enumerate());
    let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
    let opened: Mutex<Vec<(usize, Result<T, RNTupleError>)>> = Mutex::default();
    let together = Together::of_this_thread();
    let work = || {
        while let Some((index, one)) = next() {
            let found = together.work(|| open(index, one));
            let is_error = found.is_err();
            // recorded before the others stop because of it: the first failure is the reported one
            let mut opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
            opened.push((index, found));
            if is_error {
                together.stop();
                while next().is_some() {}
            }
        }
    };
    thread::scope(|scope| {
        let (working, ended) = channel();
        for _ in 1..all.len().min(THREADS) {
            let working = working.clone();
            scope.spawn(|| while_working(working, work));
        }
        while_working(working, work);
        // only this thread receives signals, so it waits here even if all others wait for servers
        while ended.recv_timeout(PULSE) == Err(RecvTimeoutError::Timeout) {
            if !goes_on() {
                together.stop();
            }
        }
    });
    in_order(opened.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Runs a function; the other end of the channel notices its end.
fn while_working(_working: Sender<()>, work: impl FnOnce()) {
    work();
}

/// The opened sources in the order of the files, or the error of the first one that failed by itself. The input is in
/// the order of completion.
fn in_order<T>(mut opened: Vec<(usize, Result<T, RNTupleError>)>) -> Result<Vec<T>, RNTupleError> {
    let failed = opened.iter().find_map(|(_, found)| found.as_ref().err());
    let was_interrupted = failed.is_some_and(RNTupleError::is_interrupted);
    opened.sort_unstable_by_key(|(index, _)| *index);
    if failed_by_itself(&opened) && !was_interrupted {
        // the others were stopped because of the failure
        opened.retain(|(_, found)| !matches!(found, Err(error) if error.is_interrupted()));
    }
    opened.into_iter().map(|(_, found)| found).collect()
}

fn failed_by_itself<T>(opened: &[(usize, Result<T, RNTupleError>)]) -> bool {
    let mut errors = opened.iter().filter_map(|(_, found)| found.as_ref().err());
    errors.any(|error| !error.is_interrupted())
}

/// Files that are opened in the background. Dropping it stops opening, even while it waits for servers.
#[derive(Debug)]
pub struct Opening {
    receiver: Receiver<Result<NTuple, RNTupleError>>,
    found: Option<Result<NTuple, RNTupleError>>,
    together: Together,
}

impl Opening {
    /// Starts opening files, as [`NTuple::open`].
    pub fn new(files: Vec<(String, Option<String>)>, options: OpenOptions) -> Self {
        let together = Together::in_background();
        let (sender, receiver) = channel();
        let own = together.clone();
        let thread = thread::Builder::new().name("femtobarn-open".into());
        let begun = thread.spawn(move || {
            // the receiver may be gone
            let _ = sender.send(own.work(|| NTuple::open(&files, options)));
        });
        Self {
            receiver,
            found: begun
                .err()
                .map(|source| Err(IoError::from_open("", source).into())),
            together,
        }
    }

    /// Whether opening has finished.
    pub fn is_done(&mut self) -> bool {
        if self.found.is_none() {
            self.found = self.receiver.try_recv().ok();
        }
        self.found.is_some()
    }

    /// Waits for the files. `waiting` is called regularly; if it returns `false`, the wait stops.
    ///
    /// # Errors
    /// Errors of [`NTuple::open`].
    pub fn wait(mut self, waiting: &mut dyn FnMut() -> bool) -> Result<NTuple, RNTupleError> {
        if let Some(found) = self.found.take() {
            return found;
        }
        loop {
            match self.receiver.recv_timeout(PULSE) {
                Ok(found) => return found,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RNTupleError::internal(
                        "the thread that opens a file has ended",
                    ));
                }
                Err(RecvTimeoutError::Timeout) if waiting() => {}
                Err(RecvTimeoutError::Timeout) => return Err(RNTupleError::Interrupted),
            }
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.together.stop();
    }
}
