//! What is known of all sources of a file, beside their schedule.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use femtobarn_xrootd::with_causes;

use super::HEAD;
use super::delivered::Delivered;
use super::member::{BatchId, CallId, Member, SourceId};
use super::pieces::{Part, Piece, slice};
use super::report::{Past, exhausted};
use super::schedule::Schedule;
use crate::together::Together;
use crate::{ByteSource, IoError};

#[derive(Debug)]
pub(super) struct State {
    pub schedule: Schedule,
    /// By number of source.
    pub sources: Vec<Source>,
    pub calls: HashMap<CallId, Reading>,
    pub running: HashMap<BatchId, Together>,
    pub size: Option<u64>,
    /// Bytes that all sources must have, and where.
    pub witness: Option<(Range<u64>, Bytes)>,
    /// Sources whose bytes of a range differ from those of others.
    pub differing: Vec<(SourceId, Range<u64>)>,
    /// How often readers have rejected bytes.
    pub n_rejected: u64,
    pub delivered: Delivered,
    /// Sources that were disabled for a damaged range. Other sources gave parts of the range, so they may be at fault.
    pub suspects: Vec<SourceId>,
    /// When it was looked last whether anything came.
    pub listened: Duration,
    /// The source that failed while no other was open, and why.
    pub lost: Option<String>,
    /// What the user is told, and about what. Callers tell it, without the lock: Python has a lock of its own.
    pub notices: Vec<(String, String)>,
}

#[derive(Debug, Default)]
pub(super) struct Source {
    pub past: Past,
    pub open: Option<Arc<dyn ByteSource>>,
    pub progress: Option<u64>,
}

/// A call of a caller who waits.
#[derive(Debug)]
pub(super) struct Reading {
    pub pieces: Arc<Vec<Piece>>,
    pub parts: Vec<(Part, Bytes)>,
    /// Whether all came; none as long as that is not known.
    pub ended: Option<bool>,
}

/// Whether a source that failed so is of no use for as long as the file is open.
pub(super) fn is_final(error: &IoError) -> bool {
    matches!(
        error.kind(),
        "file-not-found"
            | "permission-denied"
            | "not-a-file"
            | "file-changed"
            | "usage"
            | "unsupported-url"
            | "missing-dependency"
    )
}

impl State {
    pub fn source(&self, number: SourceId) -> Option<Arc<dyn ByteSource>> {
        self.sources.get(number)?.open.clone()
    }

    /// A source is open.
    pub fn put(
        &mut self,
        number: SourceId,
        source: Arc<dyn ByteSource>,
        now: Duration,
        read: Option<(u64, Duration)>,
    ) {
        let Some(place) = self.sources.get_mut(number) else {
            return;
        };
        place.past.server = source.chosen_server();
        place.past.is_sought = false;
        place.progress = source.progress();
        if let Some(member) = self.schedule.members.get_mut(number) {
            member.is_redirected = place.past.server.is_some();
            member.tells_progress = place.progress.is_some();
            member.at_once = source.cost().concurrency;
        }
        place.open = Some(source);
        self.schedule.opened(number, now, read);
        if let Some(lost) = self.lost.take() {
            self.tell_switch(&lost, number);
        }
    }

    /// Looks from which sources bytes arrive.
    pub fn listen(&mut self, now: Duration) {
        for (number, source) in self.sources.iter_mut().enumerate() {
            let is_awaited = self
                .schedule
                .members
                .get(number)
                .is_some_and(|m| !m.batches.is_empty());
            let progress = source
                .open
                .as_ref()
                .filter(|_| is_awaited)
                .and_then(|s| s.progress());
            if progress.is_some() && progress != source.progress {
                source.progress = progress;
                self.schedule.heard(number, now);
            }
        }
    }

    pub fn came(
        &mut self,
        batch: BatchId,
        number: SourceId,
        parts: Vec<(Part, Bytes)>,
        now: Duration,
    ) {
        let Some((call, fresh)) = self.schedule.done(batch, now) else {
            return;
        };
        let Some(reading) = self.calls.get_mut(&call) else {
            return;
        };
        let pieces: Vec<&Piece> = fresh
            .iter()
            .filter_map(|i| reading.pieces.get(*i))
            .collect();
        let n_fresh: u64 = pieces.iter().map(|piece| piece.n_bytes).sum();
        let n_bytes: u64 = parts.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let used = match n_fresh == n_bytes {
            true => parts,
            false => {
                let wanted = pieces.iter().flat_map(|piece| &piece.parts);
                let found = wanted.filter_map(|part| Some((part.clone(), slice(part, &parts)?)));
                found.collect()
            }
        };
        let ranges: Vec<_> = used.iter().map(|(part, _)| part.range.clone()).collect();
        let bytes: Vec<Bytes> = used.iter().map(|(_, bytes)| bytes.clone()).collect();
        reading.parts.extend(used);
        self.note(number, ranges.into_iter().zip(&bytes));
    }

    /// Notes who gave bytes, and some of them.
    pub fn note<'a>(
        &mut self,
        number: SourceId,
        found: impl Iterator<Item = (Range<u64>, &'a Bytes)>,
    ) {
        let mut ranges = Vec::new();
        for (range, bytes) in found {
            let n = HEAD.min(bytes.len() as u64);
            // the beginning of a file tells more than other bytes
            let worth = |start: u64, n: u64| n + if start == 0 { HEAD } else { 0 };
            let known = self.witness.as_ref();
            let known = known.map_or(0, |(known, _)| worth(known.start, known.end - known.start));
            let is_better = n > 0 && worth(range.start, n) > known;
            let kept = usize::try_from(n).ok().and_then(|n| bytes.get(..n));
            if let Some(kept) = kept.filter(|_| is_better) {
                let kept = Bytes::copy_from_slice(kept);
                self.witness = Some((range.start..range.start + n, kept));
            }
            ranges.push(range);
        }
        self.delivered.add(number, ranges);
    }

    /// A source has failed while it was read.
    pub fn failed(&mut self, number: SourceId, error: IoError, now: Duration) {
        let member = self.schedule.members.get(number);
        // of its requests, others may have failed before
        if member.is_some_and(Member::is_open) {
            self.schedule.disable(number, now, is_final(&error));
            self.tell(number, &with_causes(&error));
        }
        self.failed_to_open(number, error);
    }

    pub fn failed_to_open(&mut self, number: SourceId, error: IoError) {
        if let Some(source) = self.sources.get_mut(number) {
            source.past.failed(with_causes(&error), Some(error));
        }
    }

    /// Tells the user that another source is read, as soon as there is one.
    pub fn tell(&mut self, number: SourceId, why: &str) {
        let Some(source) = self.sources.get(number) else {
            return;
        };
        let name = source.past.name();
        let lost = match why.contains(&name) {
            true => why.to_owned(),
            false => format!("{name}: {why}"),
        };
        let other = self.schedule.ids_open().find(|other| *other != number);
        match (other, self.lost.take()) {
            (Some(other), _) => self.tell_switch(&lost, other),
            (None, Some(before)) if before.contains(&lost) => self.lost = Some(before),
            (None, Some(before)) => self.lost = Some(format!("{before}; {lost}")),
            (None, None) => self.lost = Some(lost),
        }
    }

    /// A request was stopped, by which its source may turn out to be silent.
    pub fn stopped(&mut self, batch: BatchId, now: Duration) {
        if let Some(silent) = self.schedule.stopped(batch, now) {
            self.is_silent(silent);
        }
    }

    /// Nothing arrives from a source.
    pub fn is_silent(&mut self, number: SourceId) {
        let why = "nothing arrives from it";
        self.tell(number, why);
        if let Some(source) = self.sources.get_mut(number) {
            source.past.failed(why.to_owned(), None);
        }
    }

    pub fn tell_switch(&mut self, lost: &str, to: SourceId) {
        let name = self.sources.get(to).map(|source| source.past.name());
        let name = name.unwrap_or_default();
        let text = format!("{lost}; reading goes on from {name}");
        self.notices.push((lost.to_owned(), text));
    }

    pub fn exhausted(&mut self, shown: &str) -> IoError {
        let pasts = self.sources.iter_mut().map(|source| &mut source.past);
        exhausted(shown, pasts.zip(&self.schedule.members))
    }
}
