//! Reading columns when they are touched: a touch fetches what the record of accesses says belongs together.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use femtobarn_io::did_you_mean;

use super::accesses::Accesses;
use super::ahead::Needed;
use super::cache::PageCache;
use super::engine::PartialRead;
use super::held::Held;
use super::hold::{hold, n_bytes, stored_of};
use super::lazy_columns::LazyColumns;
use super::options::{ReadOptions, Tick};
use super::plan::{Part, only};
use crate::RNTupleError;
use crate::array::{Arrays, SlotData};
use crate::schema::{SlotId, Slots};

/// How often a thread that waits for another one's fetch asks whether to go on.
const PATIENCE: Duration = Duration::from_millis(50);

/// What may be touched is worth the time of so many round trips, which it may save.
const WORTH: u64 = 8;

/// Options of a lazy read.
#[derive(Debug, Clone)]
pub struct LazyOptions {
    /// Number of threads that decode.
    pub threads: usize,
    /// The most stored bytes that are fetched beside a column because they may be touched with it, while the record knows
    /// nothing of it: fewer from servers that would take longer for them than for eight round trips.
    pub small: u64,
    /// Decoded pages that the steps of an iteration share.
    pub cache: Option<Arc<PageCache>>,
}

impl Default for LazyOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            small: 20_000_000,
            cache: None,
        }
    }
}

/// A range of entries whose columns are read when they are touched. Several threads can touch at the same time.
///
/// The first touch fetches the main set of earlier steps. A touch of another column fetches its trigger set. If no step
/// has touched it, its collection and as much else as is small are fetched from servers, and decoded when they are touched.
/// What was fetched is kept until it is touched; a step that has [ended](Self::finish) keeps nothing, and reads columns
/// again if they are touched later.
#[derive(Debug)]
pub struct LazyArrays {
    columns: Arc<LazyColumns>,
    parts: Vec<Part>,
    accesses: Arc<Accesses>,
    options: LazyOptions,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Whether a thread fetches, which has `read` and `held` meanwhile.
    is_busy: bool,
    has_ended: bool,
    read: Option<PartialRead>,
    /// What was fetched and may be decoded.
    held: Held,
    /// The stored size of each slot that was fetched.
    fetched: Vec<Option<u64>>,
    touched: Vec<bool>,
    /// How many threads want a slot.
    wanted: HashMap<SlotId, usize>,
    /// How many touches are still expected of a slot: arrays can share it.
    expected: Vec<usize>,
}

impl LazyArrays {
    /// A read of these parts. Nothing is read yet.
    pub fn new(
        columns: Arc<LazyColumns>,
        parts: Vec<Part>,
        accesses: Arc<Accesses>,
        options: LazyOptions,
    ) -> Self {
        let n_slots = columns.schema().slots.len();
        let expected = columns.uses().to_vec();
        Self {
            columns,
            parts,
            accesses,
            options,
            state: Mutex::new(State {
                is_busy: false,
                has_ended: false,
                read: None,
                held: Held::default(),
                fetched: vec![None; n_slots],
                touched: vec![false; n_slots],
                wanted: HashMap::new(),
                expected,
            }),
            changed: Condvar::new(),
        }
    }

    /// The columns.
    pub fn columns(&self) -> &Arc<LazyColumns> {
        &self.columns
    }

    /// Number of entries.
    pub fn n_entries(&self) -> u64 {
        self.parts.iter().map(|part| part.stop - part.start).sum()
    }

    /// The data of a slot, which are fetched if they were not yet. Values are handed over: as soon as each array that
    /// contains them has touched them, a further touch reads them again. Offsets and variants are kept.
    ///
    /// # Errors
    /// If the column cannot be read. Errors of other columns that were fetched with it are raised when these are touched.
    pub fn touch(&self, slot: SlotId, tick: Option<Tick<'_>>) -> Result<SlotData, RNTupleError> {
        let early = self.accesses.touch(self.columns.name(slot));
        let mut state = self.lock();
        if let Some(touched) = state.touched.get_mut(slot) {
            *touched = true;
        }
        if let Some(expected) = state.expected.get_mut(slot) {
            *expected = expected.saturating_sub(1);
        }
        *state.wanted.entry(slot).or_default() += 1;
        drop(state);
        let found = self.found(slot, &early, tick);
        let mut state = self.lock();
        state.release(slot);
        found
    }

    /// A top-level column, whose slots are touched.
    ///
    /// # Errors
    /// If there is no such column, and errors of [`touch`](Self::touch).
    pub fn column(&self, name: &str) -> Result<Arrays, RNTupleError> {
        let schema = self.columns.schema();
        let found = schema.columns.iter().find(|(own, _)| own == name);
        let (name, node) = found.ok_or_else(|| self.no_column(name))?;
        let mut wanted = Vec::new();
        node.slots(&mut |slot| wanted.push(slot));
        let nothing = || SlotData::Index {
            offsets: Bytes::new(),
        };
        let mut slots: Vec<SlotData> = (0..schema.slots.len()).map(|_| nothing()).collect();
        for slot in wanted {
            if let Some(data) = slots.get_mut(slot) {
                *data = self.touch(slot, None)?;
            }
        }
        let columns = vec![(name.clone(), node.clone())];
        Ok(Arrays::new(self.n_entries(), columns, slots))
    }

    fn no_column(&self, name: &str) -> RNTupleError {
        let columns = &self.columns.schema().columns;
        let first = self.parts.first().map(|part| &part.reader);
        RNTupleError::NoSuchField {
            url: first.map_or_else(String::new, |first| first.url().into()),
            ntuple: first.map_or_else(String::new, |first| first.path().into()),
            name: name.into(),
            hint: did_you_mean(name, columns.iter().map(|(name, _)| name.as_str())),
        }
    }

    /// Fetches the main set before it is touched, if something was learned. Errors are raised by touches.
    pub fn read_ahead(&self) {
        let state = self.lock();
        if let Some(main) = self.accesses.main()
            && !(state.is_busy || state.has_ended || state.has_fetched())
        {
            // a touch tries again, and raises the error
            let _ = self.fetch(state, &Why::Ahead { main }, None);
        }
    }

    /// Ends the step: what it touched is learned, and what nobody touched is dropped. Only the first call has an effect.
    pub fn finish(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.has_ended, true) {
            return;
        }
        let slots = state.touched.iter().enumerate();
        let touched = slots.filter(|(_, touched)| **touched);
        let touched: Vec<SlotId> = touched.map(|(id, _)| id).collect();
        let slots = state.fetched.iter().zip(&state.touched);
        let unused = slots.filter(|(_, touched)| !**touched);
        let unused = unused.filter_map(|(bytes, _)| *bytes);
        let unused = unused.fold(0, u64::saturating_add);
        state.drop_untouched();
        drop(state);
        let touched = touched.into_iter().map(|id| self.columns.name(id));
        self.accesses.learn(touched, unused);
        if let Some(cache) = &self.options.cache {
            cache.next_generation();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The data of a slot that this thread wants.
    fn found(
        &self,
        slot: SlotId,
        early: &[String],
        tick: Option<Tick<'_>>,
    ) -> Result<SlotData, RNTupleError> {
        let mut state = self.lock();
        loop {
            if state.is_busy {
                let waited = self.changed.wait_timeout(state, PATIENCE);
                let (waited, time) = waited.unwrap_or_else(PoisonError::into_inner);
                // a tick may wait for a thread that waits for this lock
                drop(waited);
                if time.timed_out() && tick.is_some_and(|tick| !tick(0, 0)) {
                    return Err(RNTupleError::Interrupted);
                }
                state = self.lock();
                continue;
            }
            let data = state.read.as_ref().and_then(|read| read.data(slot));
            if let Some(data) = data {
                return Ok(data.clone());
            }
            self.fetch(state, &Why::Touched { slot, early }, tick)?;
            state = self.lock();
        }
    }

    /// Fetches columns, without holding the lock meanwhile.
    fn fetch(
        &self,
        mut state: MutexGuard<'_, State>,
        why: &Why<'_>,
        tick: Option<Tick<'_>>,
    ) -> Result<(), RNTupleError> {
        state.is_busy = true;
        let mut fetch = Fetch {
            lazy: self,
            read: state.read.take(),
            held: std::mem::take(&mut state.held),
            has: state.fetched.iter().map(Option::is_some).collect(),
            has_ended: state.has_ended,
            new: Vec::new(),
        };
        drop(state);
        let options = ReadOptions {
            threads: self.options.threads,
            cache: self.options.cache.as_deref(),
            tick,
            ..ReadOptions::default()
        };
        fetch.run(why, &options)
    }
}

impl Drop for LazyArrays {
    fn drop(&mut self) {
        self.finish();
    }
}

impl State {
    fn has_fetched(&self) -> bool {
        self.fetched.iter().any(Option::is_some)
    }

    /// A thread has got a slot: values that no other thread wants are dropped.
    fn release(&mut self, slot: SlotId) {
        let n = self.wanted.get(&slot).copied().unwrap_or(0);
        if n > 1 {
            self.wanted.insert(slot, n - 1);
            return;
        }
        self.wanted.remove(&slot);
        let expected = self.expected.get(slot).copied().unwrap_or(0);
        if (expected == 0 || self.has_ended)
            && let Some(read) = &mut self.read
            && let Some(SlotData::Leaf { .. }) = read.data(slot)
        {
            read.drop_data(slot);
        }
    }

    /// Drops what no thread wants of a step that has ended.
    fn drop_untouched(&mut self) {
        if !self.has_ended {
            return;
        }
        self.held = Held::default();
        let Some(read) = &mut self.read else {
            return;
        };
        for (slot, fetched) in self.fetched.iter_mut().enumerate() {
            if !self.wanted.contains_key(&slot)
                && let Some(SlotData::Leaf { .. }) = read.data(slot)
            {
                read.drop_data(slot);
                *fetched = None;
            }
        }
    }
}

/// Why columns are fetched.
enum Why<'a> {
    /// Before a step touches anything.
    Ahead { main: Vec<String> },
    /// For a slot that is touched; `early` are the columns that other steps have touched before anything was learned.
    Touched { slot: SlotId, early: &'a [String] },
}

/// A fetch. When dropped, others can fetch.
struct Fetch<'a> {
    lazy: &'a LazyArrays,
    read: Option<PartialRead>,
    held: Held,
    /// The slots that were fetched before.
    has: Vec<bool>,
    has_ended: bool,
    /// The slots that it has fetched, with their stored sizes.
    new: Vec<(SlotId, u64)>,
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        let mut state = self.lazy.lock();
        state.read = self.read.take();
        state.held = std::mem::take(&mut self.held);
        for (slot, bytes) in self.new.drain(..) {
            if let Some(fetched) = state.fetched.get_mut(slot) {
                *fetched = Some(bytes);
            }
        }
        state.drop_untouched();
        state.is_busy = false;
        self.lazy.changed.notify_all();
    }
}

impl Fetch<'_> {
    fn run(&mut self, why: &Why<'_>, options: &ReadOptions<'_>) -> Result<(), RNTupleError> {
        let (marks, is_new) = self.marks(why);
        let Why::Touched { slot, .. } = *why else {
            return match marks.contains(&true) {
                true => self.read(&marks, options),
                false => Ok(()),
            };
        };
        if is_new && let Err(error) = self.hold(slot, options) {
            // an error of a column that nobody has touched is none of this touch
            if matches!(error, RNTupleError::Interrupted) {
                return Err(error);
            }
        }
        let error = match self.read(&marks, options) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let alone = self.alone(slot);
        if matches!(error, RNTupleError::Interrupted) || alone == marks {
            return Err(error);
        }
        self.read(&alone, options)
    }

    /// Fetches what may be touched with a slot, if its servers take time to answer.
    fn hold(&mut self, slot: SlotId, options: &ReadOptions<'_>) -> Result<(), RNTupleError> {
        let LazyArrays {
            columns,
            parts,
            accesses,
            ..
        } = self.lazy;
        if !parts.iter().any(|part| part.reader.cost().is_far()) {
            return Ok(());
        }
        let needed = stored_of(columns.schema(), parts)?;
        // a touch that needs no request can save none: a cache has its pages
        let touched = Slots::marked(&self.alone(slot)).into_iter();
        let touched: Vec<&Needed> = touched.filter_map(|id| needed.get(id)).flatten().collect();
        let is_here = |(id, part): (usize, &Part)| {
            let own = touched.iter().filter(|one| one.part == id);
            let own: Vec<_> = own.map(|one| one.stored).collect();
            part.reader.store().n_requests(&own) == 0
        };
        if parts.iter().enumerate().all(is_here) {
            return Ok(());
        }
        let sizes: Vec<u64> = needed.iter().map(|needed| n_bytes(needed)).collect();
        let meters = parts
            .iter()
            .filter_map(|part| part.reader.store().info().meter);
        let arriving = meters.filter_map(|meter| meter.arrives_within(WORTH));
        let small = arriving
            .min()
            .unwrap_or(u64::MAX)
            .min(self.lazy.options.small);
        let mut marks = columns.mark_near(slot, &sizes, small);
        self.without_fetched(&mut marks);
        let marked = |id: SlotId| marks.get(id).copied().unwrap_or(false);
        let wanted = needed.into_iter().enumerate().filter(|(id, _)| marked(*id));
        let wanted = wanted.flat_map(|(_, needed)| needed).collect();
        hold(&mut self.held, parts, wanted, options)?;
        let fetched = sizes.into_iter().enumerate().filter(|(id, _)| marked(*id));
        self.note(fetched.collect(), accesses);
        Ok(())
    }

    /// Notes what was fetched.
    fn note(&mut self, fetched: Vec<(SlotId, u64)>, accesses: &Accesses) {
        let bytes = fetched.iter().map(|(_, bytes)| *bytes);
        accesses.note_fetch(bytes.fold(0, u64::saturating_add));
        for (slot, _) in &fetched {
            if let Some(has) = self.has.get_mut(*slot) {
                *has = true;
            }
        }
        self.new.extend(fetched);
    }

    /// Marks a slot and those that it depends on: a read leaves out what is decoded.
    fn alone(&self, slot: SlotId) -> Vec<bool> {
        let mut marks = vec![false; self.has.len()];
        let slots = &self.lazy.columns.schema().slots;
        slots.mark_with_parents(slot, &mut marks);
        marks
    }

    fn without_fetched(&self, marks: &mut [bool]) {
        let both = marks.iter_mut().zip(&self.has);
        both.for_each(|(mark, has)| *mark &= !has);
    }

    /// Marks the columns to read now; and whether nothing is known of the slot that is touched.
    fn marks(&self, why: &Why<'_>) -> (Vec<bool>, bool) {
        let LazyArrays {
            columns, accesses, ..
        } = self.lazy;
        let mut marks = vec![false; self.has.len()];
        let (slot, early) = match why {
            Why::Ahead { main } => {
                columns.mark(main, &mut marks);
                return (marks, false);
            }
            Why::Touched { slot, early } => (*slot, *early),
        };
        if self.has_ended || self.has.get(slot) == Some(&true) {
            return (self.alone(slot), false);
        }
        if !self.has.contains(&true)
            && let Some(main) = accesses.main()
        {
            columns.mark(&main, &mut marks);
        }
        let together = accesses.together_with(columns.name(slot));
        if let Some(together) = &together {
            columns.mark(together, &mut marks);
        }
        columns.mark(early, &mut marks);
        self.without_fetched(&mut marks);
        if let Some(mark) = marks.get_mut(slot) {
            *mark = true;
        }
        // what they depend on may be held, and not decoded
        for id in Slots::marked(&marks) {
            columns.schema().slots.mark_with_parents(id, &mut marks);
        }
        (marks, together.is_none())
    }

    /// Reads the marked slots, together.
    fn read(&mut self, marks: &[bool], options: &ReadOptions<'_>) -> Result<(), RNTupleError> {
        let LazyArrays {
            columns,
            parts,
            accesses,
            ..
        } = self.lazy;
        let schema = columns.schema();
        let read = match &mut self.read {
            Some(read) => read,
            None => self.read.insert(PartialRead::new(schema, parts)?),
        };
        let options = ReadOptions {
            held: Some(&self.held),
            ..*options
        };
        read.read(schema, parts, marks, &options)?;
        let mut fresh = Slots::marked(marks);
        fresh.retain(|id| self.has.get(*id) == Some(&false));
        if !fresh.is_empty() {
            let (schema, parts) = only(schema, parts, &fresh);
            let stored = stored_of(&schema, &parts)?;
            let sizes = stored.iter().map(|needed| n_bytes(needed));
            self.note(fresh.into_iter().zip(sizes).collect(), accesses);
        }
        Ok(())
    }
}
