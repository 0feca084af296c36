//! Which sources are read, and when another one is opened. Pure.

use std::time::Duration;

use super::member::{Member, SourceId, SourceState};
use super::schedule::{Action, PAUSE, Schedule, may_again};

/// Another source is opened once so much was asked for, for each that is open: opening reads 64 KiB of it, under 2 %.
const PER_SOURCE: u64 = 50 * super::HEAD;
/// Or once a request takes so long.
const LATE: Duration = Duration::from_millis(500);
/// A source that does not open within this time is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a source that was slow stays inactive while there are others.
const SLOW_FOR: Duration = Duration::from_mins(2);
/// The same of a source that was silent for the first time.
const SILENT_FOR: Duration = Duration::from_secs(15);
/// An active source with a rate that is so many times lower than the best is made inactive. Sources share by their rates, so
/// a slower one does no harm and brings what it can.
const MUCH_SLOWER: f64 = 16.0;
/// It has this time to become quicker: connections are slow at first, and a busy machine may delay a few answers.
const SLOW_AFTER: Duration = Duration::from_millis(500);
/// An inactive source replaces an active one that takes so many times as long.
const SLOWER: f64 = 2.0;

impl Schedule {
    pub(super) fn find_silent(&mut self, now: Duration) {
        for source in self.ids(|member| member.is_ready() && member.has_fallen_silent(now)) {
            self.silence(source, now);
            self.actions.push(Action::Silent { source });
        }
        // what it was asked for was read by others, so that nothing can come: it is asked again
        let is_over = |member: &&mut Member| {
            member.is_silent && member.batches.is_empty() && now >= member.demoted_until
        };
        let over = self.members.iter_mut().filter(is_over);
        over.for_each(|member| member.is_silent = false);
    }

    pub(super) fn silence(&mut self, source: SourceId, now: Duration) {
        if let Some(member) = self.members.get_mut(source) {
            if member.state == SourceState::Active {
                member.enter(SourceState::Inactive, now);
            }
            member.is_silent = true;
            // longer each time, up to two minutes
            member.demoted_until = now + SILENT_FOR * (1 << member.n_silent.min(3));
            member.n_silent += 1;
        }
    }

    pub(super) fn ids(&self, which: impl Fn(&Member) -> bool) -> Vec<SourceId> {
        let all = self.members.iter().enumerate();
        all.filter(|(_, member)| which(member))
            .map(|(source, _)| source)
            .collect()
    }

    pub(super) fn time(&self, source: &SourceId) -> f64 {
        let member = self.members.get(*source);
        member.map_or(f64::INFINITY, |member| member.quality.time())
    }

    pub(super) fn best(&self, sources: &[SourceId]) -> Option<SourceId> {
        let order = |a: &&SourceId, b: &&SourceId| self.time(a).total_cmp(&self.time(b));
        sources.iter().min_by(order).copied()
    }

    pub(super) fn worst(&self, sources: &[SourceId]) -> Option<SourceId> {
        let order = |a: &&SourceId, b: &&SourceId| self.time(a).total_cmp(&self.time(b));
        sources.iter().max_by(order).copied()
    }

    pub(super) fn enter(&mut self, source: SourceId, state: SourceState, now: Duration) {
        if let Some(member) = self.members.get_mut(source) {
            member.enter(state, now);
        }
    }

    /// The sources that are read: those that are active and answer.
    pub(super) fn lanes(&self) -> Vec<SourceId> {
        self.ids(|member| member.state == SourceState::Active && !member.is_silent)
    }

    pub(super) fn choose_active(&mut self, now: Duration) {
        let rate = |source: &SourceId| self.members.get(*source)?.quality.rate();
        let rates = self.lanes().into_iter();
        let rates: Vec<_> = rates.filter_map(|s| Some((rate(&s)?, s))).collect();
        let best = rates.iter().map(|(rate, _)| *rate).fold(0.0, f64::max);
        let is_known = |source: SourceId| {
            let member = self.members.get(source);
            member.is_some_and(|member| member.since + SLOW_AFTER <= now)
        };
        let is_slow =
            |(rate, source): &&(f64, SourceId)| rate * MUCH_SLOWER < best && is_known(*source);
        if let Some(&(_, source)) = rates.iter().find(is_slow) {
            self.demote(source, now);
            self.actions.push(Action::Slow { source });
        }
        let is_free = |member: &Member| {
            let is_demoted = now < member.demoted_until;
            member.state == SourceState::Inactive && !member.is_silent && !is_demoted
        };
        while self.lanes().len() < self.most_active {
            let Some(next) = self.best(&self.ids(is_free)) else {
                break;
            };
            self.enter(next, SourceState::Active, now);
        }
        let worst = self.worst(&self.lanes());
        if let (Some(best), Some(worst)) = (self.best(&self.ids(is_free)), worst)
            && self.time(&best) * SLOWER < self.time(&worst)
        {
            self.demote(worst, now);
            self.enter(best, SourceState::Active, now);
        }
        if self.lanes().is_empty()
            && let Some(any) = self.best(&self.ids(Member::is_ready))
        {
            self.enter(any, SourceState::Active, now);
        }
    }

    pub(super) fn demote(&mut self, source: SourceId, now: Duration) {
        self.enter(source, SourceState::Inactive, now);
        if let Some(member) = self.members.get_mut(source) {
            member.demoted_until = now + SLOW_FOR;
        }
    }

    /// Opens another source where that is due.
    pub(super) fn open_more(&mut self, now: Duration) {
        let opening = self.ids(|member| member.state == SourceState::Opening);
        let is_waited_for = |source: &SourceId| {
            let member = self.members.get(*source);
            member.is_some_and(|member| now < member.since + PATIENCE)
        };
        if opening.iter().any(is_waited_for) {
            return;
        }
        let is_urgent = self.lanes().is_empty();
        let is_silent = self.members.iter().any(|m| m.is_open() && m.is_silent);
        let is_late = |member: &Member| {
            let oldest = member.oldest().filter(|_| member.is_ready());
            oldest.is_some_and(|oldest| now > oldest.start + LATE)
        };
        let is_late = self.members.iter().any(is_late);
        let is_in_use = |member: &Member| {
            member.is_ready()
                && (member.state == SourceState::Active || now >= member.demoted_until)
        };
        let ready = self.ids(is_in_use).len();
        let is_worth = ready < self.most_active
            && now >= self.next_open
            && (is_silent || is_late || self.asked >= PER_SOURCE.saturating_mul(ready as u64));
        if !is_urgent && !is_worth {
            return;
        }
        let unopened = self.ids(|member| member.state == SourceState::Unopened);
        if let Some(&source) = unopened.first() {
            // it is not waited for any longer, though it may still open
            if let Some(&late) = opening.last().filter(|_| is_urgent) {
                self.actions.push(Action::Silent { source: late });
            }
            self.enter(source, SourceState::Opening, now);
            self.actions.push(Action::Open { source });
            return;
        }
        // a redirector is asked when there is need, or if reading takes long
        let is_long = self.began.is_some_and(|began| now >= began + PAUSE);
        if self.may_search(now) && opening.is_empty() && (is_urgent || is_silent || is_long) {
            let source = self.add(now);
            self.enter(source, SourceState::Opening, now);
            self.actions.push(Action::Search { source });
            return;
        }
        if is_urgent && let Some(&source) = self.ids(may_again).first() {
            self.enter(source, SourceState::Opening, now);
            self.actions.push(Action::Open { source });
        }
    }
}
