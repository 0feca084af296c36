//! Reads an entry range step by step, with bounded memory.

use std::cell::RefCell;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use femtobarn_io::Together;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::Arrays;
use femtobarn_rntuple::read::{PageCache, ReadOptions, Tick};

use crate::ntuple::{NTuple, Selection};

/// Options of an iteration.
#[derive(Debug, Clone, Copy)]
pub struct StepsOptions {
    /// Number of entries per step.
    pub step: u64,
    /// Number of decoding threads.
    pub threads: usize,
    /// Reads the next step while the caller processes the last one.
    pub prefetch: bool,
    /// Maximum bytes of decoded pages that are kept for the next step.
    pub page_cache: u64,
    /// Maximum bytes that are fetched and not decoded yet; `None` for the default of the source.
    pub in_flight: Option<u64>,
}

impl Default for StepsOptions {
    fn default() -> Self {
        Self {
            step: 10_000,
            threads: 1,
            prefetch: true,
            page_cache: 256 << 20,
            in_flight: None,
        }
    }
}

/// What reads step by step.
pub(crate) trait Worker<T>: Debug + Send {
    /// Reads the next step; none after the last one.
    fn step(&mut self, tick: Option<Tick<'_>>) -> Option<Result<T, RNTupleError>>;
}

/// The steps of an entry range. All steps have the fields of the first one: a field that turns out to be unreadable
/// later is an error.
///
/// Memory, besides the results that the caller keeps: the step being read and, with `prefetch`, one finished step;
/// `page_cache` bytes of pages; `in_flight` bytes of requests; and one or two pages per thread. Dropping the steps ends
/// read-ahead, even while it waits for a server.
#[derive(Debug)]
pub struct Steps<T = (Range<u64>, Arrays)> {
    source: Source<T>,
    together: Together,
}

#[derive(Debug)]
enum Source<T> {
    Here(Box<dyn Worker<T>>),
    Ended,
    /// `None` marks the end: a thread that ends without sending it has failed.
    Ahead(Receiver<Option<Result<T, RNTupleError>>>),
}

#[derive(Debug)]
struct Reading {
    ntuple: Arc<NTuple>,
    selection: Selection,
    next: u64,
    stop: u64,
    options: StepsOptions,
    cache: PageCache,
}

impl Worker<(Range<u64>, Arrays)> for Reading {
    fn step(
        &mut self,
        tick: Option<Tick<'_>>,
    ) -> Option<Result<(Range<u64>, Arrays), RNTupleError>> {
        if self.next >= self.stop {
            return None;
        }
        let entries = self.next
            ..self
                .stop
                .min(self.next.saturating_add(self.options.step.max(1)));
        self.next = entries.end;
        let StepsOptions {
            threads, in_flight, ..
        } = self.options;
        let options = ReadOptions {
            threads,
            in_flight,
            cache: Some(&self.cache),
            tick,
            ..ReadOptions::default()
        };
        let selection = &mut self.selection;
        let arrays = self.ntuple.read_settling(selection, &entries, &options);
        *selection = selection.clone().fixed();
        if arrays.is_err() {
            self.next = self.stop;
        }
        Some(arrays.map(|arrays| (entries, arrays)))
    }
}

impl Steps {
    /// The steps of `entries`.
    pub fn new(
        ntuple: Arc<NTuple>,
        selection: Selection,
        entries: Range<u64>,
        options: StepsOptions,
    ) -> Self {
        let cache = PageCache::new(options.page_cache);
        let worker = Reading {
            ntuple,
            selection,
            next: entries.start,
            stop: entries.end,
            options,
            cache,
        };
        Self::of(worker, options.prefetch)
    }
}

impl<T: Debug + Send + 'static> Steps<T> {
    /// The steps of a worker, read ahead if `prefetch`.
    pub(crate) fn of(mut worker: impl Worker<T> + 'static, prefetch: bool) -> Self {
        if !prefetch {
            return Self {
                source: Source::Here(Box::new(worker)),
                together: Together::of_this_thread(),
            };
        }
        let (sender, receiver) = sync_channel(0);
        let together = Together::in_background();
        let own = together.clone();
        std::thread::spawn(move || {
            loop {
                let step = own.work(|| worker.step(None));
                let is_end = step.is_none();
                if sender.send(step).is_err() || is_end {
                    break;
                }
            }
        });
        Self {
            source: Source::Ahead(receiver),
            together,
        }
    }

    /// The next step. While it waits, `waiting` is called regularly; if it returns `false`, the wait stops.
    pub fn next_or(
        &mut self,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Option<Result<T, RNTupleError>> {
        match &mut self.source {
            Source::Here(worker) => {
                let waiting = RefCell::new(waiting);
                let tick = |_, _| waiting.try_borrow_mut().is_ok_and(|mut waiting| waiting());
                worker.step(Some(&tick))
            }
            Source::Ended => None,
            Source::Ahead(receiver) => loop {
                match receiver.recv_timeout(Duration::from_millis(50)) {
                    Ok(step) => {
                        if step.is_none() {
                            self.source = Source::Ended;
                        }
                        return step;
                    }
                    Err(RecvTimeoutError::Disconnected) => {
                        self.source = Source::Ended;
                        return Some(Err(RNTupleError::Internal {
                            what: "the read-ahead thread has ended".into(),
                        }));
                    }
                    Err(RecvTimeoutError::Timeout) if waiting() => {}
                    Err(RecvTimeoutError::Timeout) => return Some(Err(RNTupleError::Interrupted)),
                }
            },
        }
    }
}

impl<T> Drop for Steps<T> {
    fn drop(&mut self) {
        self.together.stop();
    }
}

impl<T: Debug + Send + 'static> Iterator for Steps<T> {
    type Item = Result<T, RNTupleError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_or(&mut || true)
    }
}
