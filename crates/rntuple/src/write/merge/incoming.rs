//! Reads pages in the background, in the order in which they are needed, while others are written.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Scope;

use bytes::Bytes;
use femtobarn_io::{PULSE, Together, goes_on};

use super::stored::read_pages;
use crate::RNTupleError;
use crate::read::Reader;
use crate::spec::Page;

/// Stored size of pages that are read at a time. At most twice as much is in memory.
const BATCH: u64 = 32 << 20;

/// The stored bytes of pages.
pub(super) struct Incoming {
    batches: Receiver<Result<Vec<Bytes>, RNTupleError>>,
    current: std::vec::IntoIter<Bytes>,
    together: Together,
}

impl Incoming {
    /// Begins to read these pages. A sketch gets zeros of their sizes.
    pub fn of<'s>(
        scope: &'s Scope<'s, '_>,
        reader: &'s Reader,
        pages: Vec<Page>,
        is_sketch: bool,
    ) -> Self {
        let (send, batches) = sync_channel(0);
        let together = Together::of_this_thread();
        let own = together.clone();
        if !pages.is_empty() {
            scope.spawn(move || own.work(|| read_all(reader, &pages, is_sketch, &send)));
        }
        Self {
            batches,
            current: Vec::new().into_iter(),
            together,
        }
    }

    /// The next pages: at least one, and at most so many.
    ///
    /// # Errors
    /// If they cannot be read, or the caller is interrupted while it waits.
    pub fn next(&mut self, most: usize) -> Result<Vec<Bytes>, RNTupleError> {
        while self.current.len() == 0 {
            match self.batches.recv_timeout(PULSE) {
                Ok(batch) => self.current = batch?.into_iter(),
                Err(RecvTimeoutError::Timeout) if goes_on() => {}
                Err(RecvTimeoutError::Timeout) => return Err(RNTupleError::Interrupted),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RNTupleError::internal("pages were not read"));
                }
            }
        }
        Ok(self.current.by_ref().take(most).collect())
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // the pages of a failed merge are not waited for
        self.together.stop();
    }
}

fn read_all(
    reader: &Reader,
    pages: &[Page],
    is_sketch: bool,
    send: &SyncSender<Result<Vec<Bytes>, RNTupleError>>,
) {
    let blank = |page: &Page| {
        Bytes::from(vec![
            0;
            usize::try_from(page.stored_size())
                .unwrap_or(usize::MAX)
        ])
    };
    let mut rest = pages;
    while !rest.is_empty() {
        let mut n_bytes = 0;
        let fits = |page: &&Page| {
            n_bytes += page.stored_size();
            n_bytes <= BATCH
        };
        let (these, others) = rest.split_at(rest.iter().take_while(fits).count().max(1));
        let read = match is_sketch {
            true => Ok(these.iter().map(blank).collect()),
            false => read_pages(reader, these),
        };
        let has_failed = read.is_err();
        if send.send(read).is_err() || has_failed {
            return;
        }
        rest = others;
    }
}
