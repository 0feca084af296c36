//! Which source reads which pieces, and when another one is opened. Pure: it takes events with their times, and returns
//! actions.
//!
//! The rules are those of CMSSW's XrdAdaptor, changed where its authors name weak points: see design 013.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::member::{Batch, BatchId, CallId, Member, SourceId, SourceState};

/// The pause before another source is opened that is not urgently needed.
pub(super) const PAUSE: Duration = Duration::from_secs(5);
/// The pause before a redirector is asked again that knows no further source.
const NO_MORE: Duration = Duration::from_mins(2);
/// A source is silent if nothing came for this time, and twice its delay, before others had read what it was asked for.
const LONG: Duration = Duration::from_millis(150);
/// How often a source is opened again while none answers.
const MOST_FAILURES: u32 = 2;

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Ask a source for pieces of a call.
    Read {
        batch: BatchId,
        source: SourceId,
        call: CallId,
        pieces: Vec<usize>,
    },
    /// Give a request up: others have read its pieces.
    Stop { batch: BatchId },
    /// Open a source.
    Open { source: SourceId },
    /// Ask the redirectors for a further source, which gets this number.
    Search { source: SourceId },
    /// All pieces of a call were read.
    Finished { call: CallId },
    /// No source is left for a call.
    Failed { call: CallId },
    /// Nothing comes from a source.
    Silent { source: SourceId },
    /// A source is much slower than the others.
    Slow { source: SourceId },
}

#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub n_bytes: u64,
    pub is_done: bool,
    /// How many requests for it are under way.
    pub n_asked: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    pub slots: Vec<Slot>,
    /// Pieces that nobody is asked for.
    pub pending: BTreeSet<usize>,
    n_left: usize,
}

/// The state of all sources of a file, and of all calls.
#[derive(Debug)]
pub(super) struct Schedule {
    pub members: Vec<Member>,
    pub(super) calls: BTreeMap<CallId, Call>,
    pub(super) owners: BTreeMap<BatchId, SourceId>,
    /// Sources that are read at the same time, at most.
    pub(super) most_active: usize,
    next: u64,
    /// Bytes that were asked for, and bytes that had been read at the last probe.
    pub(super) asked: u64,
    pub(super) read: u64,
    pub(super) probed: u64,
    pub(super) began: Option<Duration>,
    pub(super) next_open: Duration,
    pub(super) next_search: Duration,
    pub(super) actions: Vec<Action>,
    /// Whether a source is to be opened although nothing is read.
    pub wants_source: bool,
}

impl Schedule {
    pub fn new(most_active: usize) -> Self {
        Self {
            members: Vec::new(),
            calls: BTreeMap::new(),
            owners: BTreeMap::new(),
            most_active: most_active.max(1),
            next: 0,
            asked: 0,
            read: 0,
            probed: 0,
            began: None,
            next_open: Duration::ZERO,
            next_search: Duration::ZERO,
            actions: Vec::new(),
            wants_source: false,
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Adds a source that may be opened.
    pub fn add(&mut self, now: Duration) -> SourceId {
        self.members.push(Member::new(SourceState::Unopened, now));
        self.members.len() - 1
    }

    /// Whether another source can be had.
    pub fn has_more(&self, now: Duration) -> bool {
        let may_open = |member: &Member| {
            matches!(member.state, SourceState::Unopened | SourceState::Opening)
                || may_again(member)
        };
        self.members.iter().any(may_open) || self.may_search(now)
    }

    pub(super) fn may_search(&self, now: Duration) -> bool {
        now >= self.next_search && self.members.iter().any(|member| member.is_redirected)
    }

    /// The sources that are open.
    pub fn ids_open(&self) -> impl Iterator<Item = SourceId> {
        let all = self.members.iter().enumerate();
        all.filter(|(_, member)| member.is_open())
            .map(|(source, _)| source)
    }

    /// A source was opened; `read` is what was read of it, and how long that took.
    pub fn opened(&mut self, source: SourceId, now: Duration, read: Option<(u64, Duration)>) {
        if let Some(member) = self.members.get_mut(source) {
            member.enter(SourceState::Inactive, now);
            member.is_silent = false;
            member.heard = now;
            if let Some((n_bytes, took)) = read {
                member.quality.begins(now.saturating_sub(took));
                member.quality.came(now, n_bytes, false);
                member.quality.took(n_bytes, took);
            }
        }
    }

    /// A source could not be opened.
    pub fn not_opened(&mut self, source: SourceId, now: Duration) {
        self.next_open = now + PAUSE;
        self.disable(source, now, false);
    }

    /// The redirectors know no further source.
    pub fn not_found(&mut self, source: SourceId, now: Duration) {
        self.next_search = now + NO_MORE;
        self.disable(source, now, true);
    }

    /// A source is not read any more; never again if its bytes are wrong.
    pub fn disable(&mut self, source: SourceId, now: Duration, is_wrong: bool) {
        if let Some(member) = self.members.get_mut(source) {
            member.enter(SourceState::Disabled, now);
            member.failures += 1;
            member.is_wrong |= is_wrong;
        }
    }

    /// A source that was disabled may be opened again.
    pub fn readmit(&mut self, source: SourceId, now: Duration) {
        if let Some(member) = self.members.get_mut(source) {
            member.enter(SourceState::Unopened, now);
            (member.is_wrong, member.failures) = (false, 0);
        }
    }

    /// Takes a source back that was disabled, as there is no other.
    pub fn restore(&mut self, source: SourceId, now: Duration) {
        if let Some(member) = self.members.get_mut(source) {
            member.enter(SourceState::Inactive, now);
            member.is_wrong = false;
        }
    }

    /// A vector read of pieces of these sizes.
    pub fn submit(&mut self, now: Duration, sizes: impl IntoIterator<Item = u64>) -> CallId {
        self.began.get_or_insert(now);
        let is_hopeless = !self.members.iter().any(Member::is_open) && !self.has_more(now);
        if is_hopeless {
            // servers may be back: each is opened once more
            let disabled = self.members.iter_mut().filter(|member| !member.is_wrong);
            disabled.for_each(|member| member.failures = MOST_FAILURES - 1);
        }
        let slot = |n_bytes| Slot {
            n_bytes,
            is_done: false,
            n_asked: 0,
        };
        let slots: Vec<Slot> = sizes.into_iter().map(slot).collect();
        self.asked += slots.iter().map(|slot| slot.n_bytes).sum::<u64>();
        let call = self.number();
        let (pending, n_left) = ((0..slots.len()).collect(), slots.len());
        self.calls.insert(
            call,
            Call {
                slots,
                pending,
                n_left,
            },
        );
        call
    }

    /// A call is not wanted any more.
    pub fn abandon(&mut self, call: CallId) {
        self.calls.remove(&call);
        self.stop_idle();
    }

    /// Something came from a source.
    pub fn heard(&mut self, source: SourceId, now: Duration) {
        if let Some(member) = self.members.get_mut(source) {
            member.heard = now;
            member.is_silent = false;
        }
    }

    fn end(&mut self, batch: BatchId) -> Option<(SourceId, Batch)> {
        let source = self.owners.remove(&batch)?;
        let member = self.members.get_mut(source)?;
        let ended = member.batches.remove(&batch)?;
        member.outstanding = member.outstanding.saturating_sub(ended.n_bytes);
        if let Some(call) = self.calls.get_mut(&ended.call) {
            for piece in &ended.pieces {
                if let Some(slot) = call.slots.get_mut(*piece) {
                    slot.n_asked = slot.n_asked.saturating_sub(1);
                }
            }
        }
        Some((source, ended))
    }

    /// A request was answered. Returns the call and the pieces of it that nobody had read before.
    pub fn done(&mut self, batch: BatchId, now: Duration) -> Option<(CallId, Vec<usize>)> {
        let (source, ended) = self.end(batch)?;
        let member = self.members.get_mut(source)?;
        let awaits = !member.batches.is_empty();
        member.quality.came(now, ended.n_bytes, awaits);
        if ended.is_alone {
            let took = now.saturating_sub(ended.start);
            member.quality.took(ended.n_bytes, took);
        }
        member.heard = now;
        member.is_silent = false;
        if member.is_wrong {
            self.put_back(&ended);
            return None;
        }
        (member.failures, member.n_silent) = (0, 0);
        let call = self.calls.get_mut(&ended.call)?;
        let (mut fresh, mut n_bytes) = (Vec::new(), 0);
        for piece in ended.pieces {
            if let Some(slot) = call.slots.get_mut(piece).filter(|slot| !slot.is_done) {
                slot.is_done = true;
                n_bytes += slot.n_bytes;
                call.pending.remove(&piece);
                call.n_left -= 1;
                fresh.push(piece);
            }
        }
        let is_finished = call.n_left == 0;
        self.read += n_bytes;
        if let Some(member) = self.members.get_mut(source) {
            member.n_bytes += n_bytes;
        }
        if is_finished {
            self.calls.remove(&ended.call);
            self.actions.push(Action::Finished { call: ended.call });
        }
        self.stop_idle();
        Some((ended.call, fresh))
    }

    /// A request failed: its source is disabled. Returns the source.
    pub fn failed(&mut self, batch: BatchId, now: Duration) -> Option<SourceId> {
        let (source, ended) = self.end(batch)?;
        self.put_back(&ended);
        let member = self.members.get_mut(source)?;
        member.quality.stopped(now, !member.batches.is_empty());
        // others of its requests may have failed before
        if member.is_open() {
            self.disable(source, now, false);
        }
        Some(source)
    }

    /// A request was given up. Returns its source if that is silent.
    pub fn stopped(&mut self, batch: BatchId, now: Duration) -> Option<SourceId> {
        let (source, ended) = self.end(batch)?;
        self.put_back(&ended);
        let member = self.members.get_mut(source)?;
        member.quality.stopped(now, !member.batches.is_empty());
        // others have read all that it was asked for, and nothing came from it in this time; what came before is not known
        // of sources that tell only whole answers
        let delay = Duration::from_secs_f64(2.0 * member.quality.delay().unwrap_or_default());
        let is_unheard = member.tells_progress || member.heard <= ended.start;
        let since = member.heard.max(ended.start);
        let is_silent = member.is_ready() && is_unheard && now > since + LONG.max(delay);
        is_silent.then(|| {
            self.silence(source, now);
            source
        })
    }

    /// The pieces of a request that ended without an answer are asked for again.
    fn put_back(&mut self, ended: &Batch) {
        let Some(call) = self.calls.get_mut(&ended.call) else {
            return;
        };
        for piece in &ended.pieces {
            let slot = call.slots.get(*piece);
            if slot.is_some_and(|slot| !slot.is_done && slot.n_asked == 0) {
                call.pending.insert(*piece);
            }
        }
    }

    /// Gives requests up whose pieces were all read.
    fn stop_idle(&mut self) {
        let calls = &self.calls;
        let is_needed = |batch: &Batch| {
            let slots = calls.get(&batch.call).map(|call| &call.slots);
            let is_left = |piece: &usize| {
                let slot = slots.and_then(|slots| slots.get(*piece));
                slot.is_some_and(|slot| !slot.is_done)
            };
            batch.pieces.iter().any(is_left)
        };
        for member in &self.members {
            let idle = member.batches.iter().filter(|(_, batch)| !is_needed(batch));
            for (batch, _) in idle {
                self.actions.push(Action::Stop { batch: *batch });
            }
        }
    }

    /// What is to be done now. To be called after everything that happens, and several times a second while anything is
    /// awaited.
    pub fn act(&mut self, now: Duration) -> Vec<Action> {
        if !self.calls.is_empty() || self.wants_source {
            self.find_silent(now);
            self.choose_active(now);
            self.open_more(now);
            self.take_from_silent();
            self.assign(now);
            self.ask_twice(now);
            self.probe(now);
            self.give_up(now);
        }
        std::mem::take(&mut self.actions)
    }

    /// Ends all calls if no source is left.
    fn give_up(&mut self, now: Duration) {
        if self.members.iter().any(Member::is_open) || self.has_more(now) {
            return;
        }
        let calls = std::mem::take(&mut self.calls);
        let failed = calls.into_keys().map(|call| Action::Failed { call });
        self.actions.extend(failed);
        self.stop_idle();
    }
}

/// Whether a source that failed may be opened again.
pub(super) fn may_again(member: &Member) -> bool {
    member.state == SourceState::Disabled && !member.is_wrong && member.failures < MOST_FAILURES
}
