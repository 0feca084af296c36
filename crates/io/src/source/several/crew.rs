//! Does what the schedule says, with a thread for each request.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use femtobarn_xrootd::notice;

use super::OpenSource;
use super::member::{BatchId, CallId, SourceId};
use super::pieces::{LARGEST, Part, cut, joined, merged};
use super::report::{Past, SourceStatus};
use super::schedule::{Action, Schedule};
use super::state::{Reading, Source, State};
use crate::meter::Traffic;
use crate::runtime::{PULSE, in_background};
use crate::source::check_answers;
use crate::together::{Together, is_stopped};
use crate::url::public;
use crate::{ByteSource, IoError, Settings, goes_on};

/// How often it is looked whether anything came.
const TICK: Duration = Duration::from_millis(50);

/// The sources of a file, as they were named.
#[derive(Debug)]
pub(super) struct Plan {
    pub shown: String,
    pub urls: Vec<String>,
    /// The size of the file, if it is known.
    pub size: Option<u64>,
    pub settings: Settings,
    pub most_active: usize,
    pub open: OpenSource,
}

/// Those who read a file.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) plan: Arc<Plan>,
    began: Instant,
    state: Mutex<State>,
    pub(super) changed: Condvar,
    /// All that its threads do.
    pub(super) work: Together,
}

impl Crew {
    pub fn new(plan: Arc<Plan>) -> Arc<Self> {
        let mut schedule = Schedule::new(plan.most_active);
        let source = |url: &String| {
            schedule.add(Duration::ZERO);
            Source {
                past: Past {
                    url: url.clone(),
                    shown: public(url),
                    ..Past::default()
                },
                ..Source::default()
            }
        };
        let sources = plan.urls.iter().map(source).collect();
        let size = plan.size;
        Arc::new(Self {
            plan,
            began: Instant::now(),
            state: Mutex::new(State {
                schedule,
                sources,
                calls: HashMap::new(),
                running: HashMap::new(),
                size,
                witness: None,
                differing: Vec::new(),
                n_rejected: 0,
                delivered: super::delivered::Delivered::default(),
                suspects: Vec::new(),
                listened: Duration::ZERO,
                lost: None,
                notices: Vec::new(),
            }),
            changed: Condvar::new(),
            work: Together::apart(),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Ends everything that is under way.
    pub fn close(&self) {
        self.work.stop();
    }

    /// Begins with a source that is open.
    pub fn start_with(&self, number: SourceId, source: &Arc<dyn ByteSource>) {
        let mut state = self.lock();
        state.size = Some(source.meta().size);
        state.put(number, source.clone(), self.now(), None);
    }

    /// Opens the first source that can be opened.
    pub fn first(self: &Arc<Self>) -> Result<(SourceId, Arc<dyn ByteSource>), IoError> {
        let first = self.wait(|state| {
            let number = state.schedule.ids_open().next();
            if let Some(number) = number
                && let Some(source) = state.source(number)
            {
                return Some(Ok((number, source)));
            }
            let is_over = !state.schedule.has_more(self.now());
            is_over.then(|| Err(state.exhausted(&self.plan.shown)))
        })??;
        self.tell_notices();
        Ok(first)
    }

    /// Waits until something is found; meanwhile, sources are opened.
    fn wait<T>(self: &Arc<Self>, find: impl Fn(&mut State) -> Option<T>) -> Result<T, IoError> {
        let mut asked = Instant::now();
        loop {
            let mut state = self.lock();
            if let Some(found) = find(&mut state) {
                return Ok(found);
            }
            state.schedule.wants_source = true;
            self.drive(&mut state);
            state.schedule.wants_source = false;
            drop(self.changed.wait_timeout(state, TICK));
            self.check_waiting(&mut asked)?;
        }
    }

    fn check_waiting(&self, asked: &mut Instant) -> Result<(), IoError> {
        if asked.elapsed() < PULSE {
            return Ok(());
        }
        *asked = Instant::now();
        self.tell_notices();
        match is_stopped() || !goes_on() {
            true => Err(IoError::Interrupted {
                url: self.plan.shown.clone(),
            }),
            false => Ok(()),
        }
    }

    fn tell_notices(&self) {
        let notices = std::mem::take(&mut self.lock().notices);
        for (about, text) in notices {
            notice(&about, &text);
        }
    }

    /// Reads ranges, which lie inside of the file.
    pub fn read(self: &Arc<Self>, wanted: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        let pieces = Arc::new(cut(wanted, LARGEST));
        let call = {
            let mut state = self.lock();
            let sizes = pieces.iter().map(|piece| piece.n_bytes);
            let call = state.schedule.submit(self.now(), sizes);
            let reading = Reading {
                pieces,
                parts: Vec::new(),
                ended: None,
            };
            state.calls.insert(call, reading);
            self.drive(&mut state);
            call
        };
        let ended = self.wait_for(call);
        self.tell_notices();
        let mut state = self.lock();
        let reading = state.calls.remove(&call);
        if let Err(error) = ended {
            state.schedule.abandon(call);
            self.drive(&mut state);
            return Err(error);
        }
        match reading.filter(|reading| reading.ended == Some(true)) {
            None => Err(state.exhausted(&self.plan.shown)),
            Some(reading) => {
                drop(state);
                joined(wanted, reading.parts).ok_or_else(|| IoError::WrongAnswer {
                    url: self.plan.shown.clone(),
                    offset: wanted.first().map_or(0, |range| range.start),
                    expected: wanted.len() as u64,
                    found: 0,
                })
            }
        }
    }

    /// Waits until a call has ended.
    fn wait_for(self: &Arc<Self>, call: CallId) -> Result<(), IoError> {
        let mut asked = Instant::now();
        let mut state = self.lock();
        loop {
            if state
                .calls
                .get(&call)
                .is_none_or(|reading| reading.ended.is_some())
            {
                return Ok(());
            }
            let waited = self.changed.wait_timeout(state, TICK);
            let timeout;
            (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() {
                self.drive(&mut state);
            }
            if asked.elapsed() >= PULSE {
                drop(state);
                self.check_waiting(&mut asked)?;
                state = self.lock();
            }
        }
    }

    /// Does what is to be done now.
    pub(super) fn drive(self: &Arc<Self>, state: &mut State) {
        let now = self.now();
        if now >= state.listened + TICK {
            state.listened = now;
            state.listen(now);
        }
        for action in state.schedule.act(now) {
            match action {
                Action::Read {
                    batch,
                    source,
                    call,
                    pieces,
                } => self.ask(state, batch, source, call, &pieces),
                Action::Stop { batch } => {
                    if let Some(work) = state.running.remove(&batch) {
                        work.stop();
                    }
                    state.stopped(batch, self.now());
                }
                Action::Open { source } => self.open(state, source, None),
                Action::Search { source } => self.search(state, source),
                Action::Finished { call } => self.end(state, call, true),
                Action::Failed { call } => self.end(state, call, false),
                Action::Silent { source } => state.is_silent(source),
                Action::Slow { source } => {
                    state.tell(source, "it is many times slower than others");
                }
            }
        }
    }

    fn end(&self, state: &mut State, call: CallId, is_read: bool) {
        if let Some(reading) = state.calls.get_mut(&call) {
            reading.ended = Some(is_read);
        }
        self.changed.notify_all();
    }

    /// Asks a source for pieces of a call.
    fn ask(
        self: &Arc<Self>,
        state: &mut State,
        batch: BatchId,
        number: SourceId,
        call: CallId,
        pieces: &[usize],
    ) {
        let all = state.calls.get(&call).map(|reading| reading.pieces.clone());
        let (Some(all), Some(source)) = (all, state.source(number)) else {
            state.schedule.stopped(batch, self.now());
            return;
        };
        let wanted = pieces.iter().filter_map(|piece| all.get(*piece));
        let parts = merged(wanted);
        let work = self.work.part();
        state.running.insert(batch, work.clone());
        let crew = self.clone();
        let begun = in_background(move || {
            let ranges: Vec<_> = parts.iter().map(|part| part.range.clone()).collect();
            let found = work.work(|| source.read_ranges(&ranges));
            crew.answered(batch, number, parts, found);
        });
        if let Err(error) = begun {
            let error = IoError::from_open(&self.plan.shown, error);
            state.failed(number, error, self.now());
            state.schedule.failed(batch, self.now());
        }
    }

    /// A source has answered.
    fn answered(
        self: &Arc<Self>,
        batch: BatchId,
        number: SourceId,
        parts: Vec<Part>,
        found: Result<Vec<Bytes>, IoError>,
    ) {
        let mut state = self.lock();
        let is_wanted = state.running.remove(&batch).is_some();
        match found.and_then(|found| paired(&self.plan.shown, parts, found)) {
            Ok(parts) => state.came(batch, number, parts, self.now()),
            // it was given up
            Err(_) if !is_wanted => {}
            Err(IoError::Interrupted { .. }) => state.stopped(batch, self.now()),
            Err(error) => {
                state.failed(number, error, self.now());
                state.schedule.failed(batch, self.now());
            }
        }
        self.drive(&mut state);
        drop(state);
        self.changed.notify_all();
    }

    /// Whether the bytes of a source are used.
    pub fn trusts(&self, number: SourceId) -> bool {
        let state = self.lock();
        let member = state.schedule.members.get(number);
        member.is_some_and(|member| !member.is_wrong)
    }

    /// Notes bytes that a source had in memory.
    pub fn note_held(&self, number: SourceId, ranges: &[Range<u64>], found: &[Bytes]) {
        self.lock().note(number, ranges.iter().cloned().zip(found));
    }

    /// Bytes of a range are damaged: the source that gave them is not read any more. Returns whether another source is left.
    ///
    /// Readers may find damaged bytes long after they came. If one of the sources that gave them is known for damaged bytes,
    /// they are taken for its bytes, unless they were read `again` since then.
    pub fn reject(self: &Arc<Self>, range: &Range<u64>, again: bool) -> bool {
        let number = {
            let mut state = self.lock();
            let is_wrong = |number: SourceId| {
                let member = state.schedule.members.get(number);
                member.is_some_and(|member| member.is_wrong)
            };
            let mut by = state.delivered.by(range).peekable();
            let Some(&(number, is_sure)) = by.peek() else {
                return false;
            };
            let looks_at = if again { 1 } else { usize::MAX };
            if by.take(looks_at).any(|(number, _)| is_wrong(number)) {
                return state.schedule.ids_open().next().is_some()
                    || state.schedule.has_more(self.now());
            }
            state.schedule.disable(number, self.now(), true);
            if !is_sure {
                state.suspects.push(number);
            }
            state.n_rejected += 1;
            let is_in = |known: &Range<u64>| known.start < range.end && range.start < known.end;
            state.witness.take_if(|(known, _)| is_in(known));
            // they were compared with damaged bytes
            let differing: Vec<_> = state
                .differing
                .extract_if(.., |(_, compared)| is_in(compared))
                .collect();
            for (other, _) in differing {
                state.schedule.readmit(other, self.now());
            }
            number
        };
        let is_left = self.wait(|state| {
            let is_open = state.schedule.ids_open().next().is_some();
            match is_open {
                true => Some(true),
                false => (!state.schedule.has_more(self.now())).then_some(false),
            }
        });
        let (mut state, now) = (self.lock(), self.now());
        let mut is_left = is_left.unwrap_or_default();
        if !is_left && let Some(suspect) = state.suspects.pop().filter(|other| *other != number) {
            state.schedule.restore(suspect, now);
            is_left = true;
        }
        let what = format!("damaged bytes at {}", range.start);
        match is_left {
            true => state.tell(number, &what),
            false => state.schedule.restore(number, now),
        }
        if let Some(source) = state.sources.get_mut(number) {
            source.past.failed(what, None);
        }
        drop(state);
        self.tell_notices();
        is_left
    }

    pub fn traffic(&self) -> Traffic {
        let mut sum = Traffic::default();
        let state = self.lock();
        let all = state
            .sources
            .iter()
            .filter_map(|source| source.open.as_ref());
        for traffic in all.filter_map(|source| source.traffic()) {
            sum.requests += traffic.requests;
            sum.retries += traffic.retries;
        }
        sum
    }

    pub fn statuses(&self) -> Vec<SourceStatus> {
        let state = self.lock();
        let pairs = state.sources.iter().zip(&state.schedule.members);
        pairs
            .filter(|(source, _)| !source.past.is_sought)
            .map(|(source, member)| source.past.status(member))
            .collect()
    }
}

/// Pairs parts with their bytes, if these are as many and as long as they should be.
fn paired(url: &str, parts: Vec<Part>, found: Vec<Bytes>) -> Result<Vec<(Part, Bytes)>, IoError> {
    check_answers(url, parts.iter().map(|part| &part.range), &found)?;
    Ok(parts.into_iter().zip(found).collect())
}
