//! Which source is asked for what. Pure.

use std::time::Duration;

use super::member::{Batch, CallId, Member, SourceId, SourceState};
use super::schedule::{Action, Call, Schedule};
use super::share::{Lane, shares};
use crate::units::real;

/// A request that takes so many times as long as expected is made to an idle source as well.
const LONGER: f64 = 4.0;
/// But not before this time, in seconds.
const LEAST_LONGER: f64 = 0.2;
/// The same of a request that the idle source would answer so many times sooner.
const LATE: f64 = 0.5;
/// A source that is not read is asked for one piece whenever so much was read: under 0.2 %.
const PER_PROBE: u64 = 128 << 20;

impl Schedule {
    /// What silent and disabled sources were asked for is for the others, if there are any. Late answers are welcome.
    pub(super) fn take_from_silent(&mut self) {
        if self.lanes().is_empty() {
            return;
        }
        for member in self.members.iter_mut().filter(|member| !member.is_ready()) {
            for batch in member.batches.values_mut().filter(|batch| !batch.is_taken) {
                batch.is_taken = true;
                let Some(call) = self.calls.get_mut(&batch.call) else {
                    continue;
                };
                for piece in &batch.pieces {
                    let slot = call.slots.get(*piece);
                    if slot.is_some_and(|slot| !slot.is_done && slot.n_asked <= 1) {
                        call.pending.insert(*piece);
                    }
                }
            }
        }
    }

    pub(super) fn issue(
        &mut self,
        source: SourceId,
        call: CallId,
        pieces: Vec<usize>,
        now: Duration,
        is_extra: bool,
    ) {
        let batch = self.number();
        let (Some(member), Some(found)) = (self.members.get_mut(source), self.calls.get_mut(&call))
        else {
            return;
        };
        let mut n_bytes = 0;
        for piece in &pieces {
            found.pending.remove(piece);
            if let Some(slot) = found.slots.get_mut(*piece) {
                slot.n_asked += 1;
                n_bytes += slot.n_bytes;
            }
        }
        let is_alone = member.batches.is_empty();
        if is_alone {
            member.heard = now;
        }
        let expected = member.expected(n_bytes);
        member.quality.begins(now);
        member.outstanding += n_bytes;
        member.n_requests += 1;
        member.batches.insert(
            batch,
            Batch {
                call,
                pieces: pieces.clone(),
                n_bytes,
                start: now,
                expected,
                is_alone,
                is_extra,
                is_taken: false,
            },
        );
        self.owners.insert(batch, source);
        self.actions.push(Action::Read {
            batch,
            source,
            call,
            pieces,
        });
    }

    /// Gives out what nobody is asked for.
    pub(super) fn assign(&mut self, now: Duration) {
        let mut lanes = self.lanes();
        if lanes.is_empty() && !self.has_more(now) {
            // all are silent: the one that may come back
            lanes.extend(self.best(&self.ids(Member::is_open)));
        }
        let calls: Vec<CallId> = self.calls.keys().copied().collect();
        match lanes.as_slice() {
            [] => {}
            // a source alone gets requests as they are, but not all at once while others may be opened
            [only] => {
                let may_join = |member: &Member| {
                    matches!(member.state, SourceState::Unopened | SourceState::Opening)
                };
                let is_last = !self.members.iter().any(may_join);
                for call in calls {
                    let pieces = match is_last {
                        true => self.pending_of(call, u64::MAX),
                        false => {
                            let member = self.members.get(*only);
                            self.pending_of(call, member.map_or(0, |member| member.room(true)))
                        }
                    };
                    if !pieces.is_empty() {
                        self.issue(*only, call, pieces, now, false);
                    }
                }
            }
            lanes => {
                for call in calls {
                    while let Some((source, pieces)) = self.next_batch(lanes, call) {
                        self.issue(source, call, pieces, now, false);
                    }
                    let is_left = |call: &Call| !call.pending.is_empty();
                    if self.calls.get(&call).is_some_and(is_left) {
                        break;
                    }
                }
            }
        }
    }

    /// The first pieces of a call that nobody is asked for, up to so many bytes and one more piece.
    fn pending_of(&self, call: CallId, most: u64) -> Vec<usize> {
        let Some(call) = self.calls.get(&call) else {
            return Vec::new();
        };
        let mut sum = 0;
        let fits = |piece: &&usize| {
            let is_first = sum < most;
            sum += call.slots.get(**piece).map_or(0, |slot| slot.n_bytes);
            is_first
        };
        call.pending.iter().take_while(fits).copied().collect()
    }

    /// The next request for pieces of a call: the first source takes them from the front, others from the back, so that
    /// each reads forwards. What a source has no room for stays for whoever is first.
    pub(super) fn next_batch(
        &self,
        lanes: &[SourceId],
        call: CallId,
    ) -> Option<(SourceId, Vec<usize>)> {
        let call = self.calls.get(&call)?;
        let size = |piece: &usize| call.slots.get(*piece).map_or(0, |slot| slot.n_bytes);
        let n_bytes: u64 = call.pending.iter().map(size).sum();
        if n_bytes == 0 {
            return None;
        }
        let members = || lanes.iter().filter_map(|source| self.members.get(*source));
        let usual = members().filter_map(|member| member.quality.rate());
        let usual = usual.reduce(f64::max);
        let state: Vec<Lane> = members().map(|member| member.lane(usual)).collect();
        let shares = shares(&state, real(n_bytes));
        let mut order: Vec<usize> = (0..lanes.len()).collect();
        let share = |lane: &usize| shares.get(*lane).copied().unwrap_or_default();
        order.sort_by(|a, b| share(b).total_cmp(&share(a)));
        for (rank, lane) in order.into_iter().enumerate() {
            let (source, is_front) = (*lanes.get(lane)?, lane == 0);
            let member = self.members.get(source)?;
            let first = match is_front {
                true => call.pending.first(),
                false => call.pending.last(),
            }?;
            let most = own_share(member, share(&lane));
            if most < 1.0 || (rank > 0 && most < real(size(first)) / 2.0) {
                continue;
            }
            let mut pieces: Vec<usize> = Vec::new();
            let mut sum = 0.0;
            let mut add = |piece: &usize| {
                let fits = pieces.is_empty() || sum + real(size(piece)) / 2.0 <= most;
                if fits {
                    sum += real(size(piece));
                    pieces.push(*piece);
                }
                fits
            };
            match is_front {
                true => call.pending.iter().all(&mut add),
                false => call.pending.iter().rev().all(&mut add),
            };
            pieces.sort_unstable();
            return Some((source, pieces));
        }
        None
    }

    /// Asks an idle source as well for what takes much longer than it should, or than it would take there.
    pub(super) fn ask_twice(&mut self, now: Duration) {
        let is_idle = |source: &SourceId| {
            let member = self.members.get(*source);
            member.is_some_and(|member| member.batches.is_empty())
        };
        let Some(idle) = self.lanes().into_iter().find(is_idle) else {
            return;
        };
        let Some(member) = self.members.get(idle) else {
            return;
        };
        let (most, own) = (member.per_batch(), member.expected(member.per_batch()));
        let is_long = |batch: &&Batch| {
            let took = now.saturating_sub(batch.start).as_secs_f64();
            let left = (batch.expected - took).max(took);
            !batch.is_taken
                && !batch.is_extra
                && (took > LEAST_LONGER.max(LONGER * batch.expected)
                    || took > LATE && left > LONGER * own)
        };
        let all = self.members.iter().flat_map(|m| m.batches.values());
        let late = all.filter(is_long).min_by_key(|batch| batch.start);
        let Some((call, pieces)) = late.map(|late| (late.call, self.left_of(late))) else {
            return;
        };
        // from the end, which comes last
        let slots = self.calls.get(&call).map(|call| &call.slots);
        let slot = |piece: &usize| slots.and_then(|slots| slots.get(*piece));
        let mut n_bytes = 0;
        let mut taken: Vec<usize> = Vec::new();
        for piece in pieces.into_iter().rev() {
            let Some(slot) = slot(&piece).filter(|slot| slot.n_asked < 2) else {
                continue;
            };
            n_bytes += slot.n_bytes;
            if n_bytes > most && !taken.is_empty() {
                break;
            }
            taken.push(piece);
        }
        taken.reverse();
        if !taken.is_empty() {
            self.issue(idle, call, taken, now, true);
        }
    }

    /// The pieces of a request that nobody has read.
    pub(super) fn left_of(&self, batch: &Batch) -> Vec<usize> {
        let slots = self.calls.get(&batch.call).map(|call| &call.slots);
        let is_left = |piece: &&usize| {
            let slot = slots.and_then(|slots| slots.get(**piece));
            slot.is_some_and(|slot| !slot.is_done)
        };
        batch.pieces.iter().filter(is_left).copied().collect()
    }

    /// Asks a source that is not read for one piece now and then, to learn how quick it is by now.
    pub(super) fn probe(&mut self, now: Duration) {
        if self.read < self.probed + PER_PROBE {
            return;
        }
        let idle = self.ids(|member| member.state == SourceState::Inactive && member.is_ready());
        let is_idle = |source: &&SourceId| {
            let member = self.members.get(**source);
            member.is_some_and(|member| member.batches.is_empty())
        };
        let Some(&source) = idle.iter().find(is_idle) else {
            return;
        };
        let last = self.owners.iter().next_back();
        let batch = last.and_then(|(batch, owner)| self.members.get(*owner)?.batches.get(batch));
        let Some(batch) = batch else {
            return;
        };
        let (call, pieces) = (batch.call, self.left_of(batch));
        if let Some(&piece) = pieces.last() {
            self.probed = self.read;
            self.issue(source, call, vec![piece], now, true);
        }
    }
}

/// How much of its share a source is asked for by one request; nothing as long as there is little room for it.
fn own_share(member: &Member, share: f64) -> f64 {
    let most = share.min(real(member.per_batch()));
    match real(member.room(false)) >= most / 2.0 {
        true => most.max(1.0),
        false => 0.0,
    }
}
