//! Repeats failed reads and writes in smaller parts, so that each connection transfers something before it breaks.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;

use super::{File, OpenOptions, Read, Session, joined};
use crate::backoff::backoff;
use crate::client::Tried;
use crate::{Code, XrootdError};

/// Number of parts into which a failed read is cut.
const PARTS: u64 = 8;

/// The smallest part of a range, in bytes.
const SMALLEST: u64 = 16 << 10;

/// What one request reads: ranges, or parts of ranges, each with the number of its range.
pub(super) type Part = Vec<(usize, Range<u64>)>;

/// Failures since the last progress.
pub(super) struct Failures {
    tried: Tried,
    /// Consecutive failures without progress of this file.
    failures: usize,
    /// Consecutive failures, including those during which other reads or writes of the file succeeded.
    all: usize,
    /// How many of the file's reads and writes had been answered at the last failure.
    answered: u64,
}

impl File {
    /// No failures yet.
    pub(super) fn no_failures(&self) -> Failures {
        Failures {
            tried: Tried::default(),
            failures: 0,
            all: 0,
            answered: self.answered.load(Relaxed),
        }
    }

    /// Reads part by part what could not be read at once.
    pub(super) async fn read_parts(
        &self,
        read: &Read,
        mut failed: Failures,
    ) -> Result<Vec<Bytes>, XrootdError> {
        let ranges = read.ranges();
        let mut found: Vec<Vec<Bytes>> = vec![Vec::new(); ranges.len()];
        let whole: Part = ranges.iter().cloned().enumerate().collect();
        let mut rest = VecDeque::from(smaller(whole));
        while let Some(part) = rest.pop_front() {
            let session = self.session().await?;
            let ranges = part.iter().map(|(_, range)| range.clone()).collect();
            match self.read_once(&session, &Read::of(ranges)).await {
                Ok(bytes) => {
                    failed = self.no_failures();
                    for ((owner, _), bytes) in part.iter().zip(bytes) {
                        if let Some(place) = found.get_mut(*owner) {
                            place.push(bytes);
                        }
                    }
                }
                Err(error) => {
                    self.try_again(&session, &mut failed, error, "read").await?;
                    for part in smaller(part).into_iter().rev() {
                        rest.push_front(part);
                    }
                }
            }
        }
        Ok(found.into_iter().map(joined).collect())
    }

    /// Whether a retry may succeed. No other server has the data of a file that is being written, and its own server will
    /// refuse again what it has refused. But the file was closed if another of its writes failed in the meantime.
    fn may_try(&self, error: &XrootdError) -> bool {
        match self.options {
            OpenOptions::Read => error.is_of_the_server(),
            _ => error.is_of_the_way() || error.code() == Some(Code::FILE_NOT_OPEN),
        }
    }

    /// Prepares a retry after a failure, or returns the error with all attempts.
    pub(super) async fn try_again(
        &self,
        session: &Session,
        failed: &mut Failures,
        error: XrootdError,
        doing: &str,
    ) -> Result<(), XrootdError> {
        let most = self.client.options().most_retries;
        let answered = self.answered.load(Relaxed);
        // a connection that broke after it served other requests does not count as an attempt of this one
        let is_starved = answered != failed.answered && error.is_of_the_way();
        failed.answered = answered;
        failed.failures += usize::from(!is_starved);
        failed.all += 1;
        let is_over = failed.failures > most || failed.all > most * 8;
        if !self.may_try(&error) || is_over {
            let doing = format!("{doing} of {}", self.url.path);
            return Err(self.client.exhausted(&doing, &failed.tried, error));
        }
        failed.tried.add(&session.connection.server, &error);
        // the first retry needs no delay: the server may just have closed an idle connection
        if let Some(tries) = failed.failures.checked_sub(2) {
            tokio::time::sleep(backoff(tries)).await;
        }
        self.reopen(session.generation, &mut failed.tried).await?;
        // count the retry only now that it will be made
        self.asked_again.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// Cuts a part into smaller ones: between its ranges, or one range into pieces.
pub(super) fn smaller(part: Part) -> Vec<Part> {
    match part.as_slice() {
        [(owner, range)] => {
            let n_bytes = range.end - range.start;
            let piece = n_bytes.div_ceil(PARTS).max(SMALLEST);
            let mut pieces = Vec::new();
            let mut start = range.start;
            while start < range.end {
                let end = range.end.min(start + piece);
                pieces.push(vec![(*owner, start..end)]);
                start = end;
            }
            pieces
        }
        several => {
            let parts = usize::try_from(PARTS).unwrap_or(1);
            let ranges = several.len().div_ceil(parts).max(1);
            several.chunks(ranges).map(<[_]>::to_vec).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_smaller_until_they_are_small() {
        let range = |i: usize| (i, i as u64 * 10..i as u64 * 10 + 5);
        let ranges = |n: usize| -> Part { (0..n).map(range).collect() };
        for part in [
            ranges(1024),
            ranges(9),
            ranges(2),
            vec![(3, 5..(8 << 20) + 7)],
            vec![(0, 0..3)],
        ] {
            let cut = smaller(part.clone());
            assert!(cut.len() <= 8 && (part.len() == 1 || cut.len() > 1));
            let joined: Part = cut.concat();
            if part.len() > 1 {
                assert_eq!(joined, part);
                continue;
            }
            // pieces of one range are contiguous
            assert!(
                joined
                    .windows(2)
                    .all(|pair| pair[0].1.end == pair[1].1.start)
            );
            let (first, last) = (&joined[0].1, &joined[joined.len() - 1].1);
            assert_eq!(first.start..last.end, part[0].1);
        }
        let small = vec![(0, 7..7 + SMALLEST)];
        assert_eq!(smaller(small.clone()), [small]);
    }
}
