//! Loads events with their products, many at a time, and prefetches them.

use std::collections::BTreeSet;
use std::mem;
use std::ops::Range;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use crate::forked::{Forked, Process};
use crate::{DataStore, Descriptor, EventChunks, EventsError, Parent, Passed, ProductName, Wanted};

/// The products to load with events, and batch sizes.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The products.
    pub names: Vec<ProductName>,
    /// Number of events per piece; only the last piece may have fewer.
    pub n_events: usize,
    /// Number of pieces that are prefetched; with 0, each piece is loaded on demand.
    pub ahead: usize,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            n_events: 16_384,
            ahead: 2,
        }
    }
}

/// Events of one or more subruns in order, with their products.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The subruns, and the range of `events` of each.
    pub groups: Vec<(Parent, Range<usize>)>,
    /// The numbers of all events.
    pub events: Vec<u64>,
    /// The products, in the order of [`LoadOptions::names`].
    pub products: Vec<Values>,
}

/// The values of one product of many events.
#[derive(Clone, Debug, Default)]
pub struct Values {
    bytes: Vec<u8>,
    spans: Vec<Option<Range<usize>>>,
}

impl Values {
    /// The value for an event; `None` if the event has none.
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        self.bytes.get(self.spans.get(at)?.clone()?)
    }

    /// The values for all events, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        let value = |span: &Option<Range<usize>>| self.bytes.get(span.clone()?);
        self.spans.iter().map(value)
    }

    /// Total size of the values in bytes.
    pub fn n_bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl Loaded {
    /// Loads products of events.
    ///
    /// # Errors
    ///
    /// Errors of [`DataStore::load_many`]; [`EventsError::NotFound`] if no product exists because the dataset was
    /// deleted.
    pub fn load(
        store: &DataStore,
        chunks: Vec<(Parent, Vec<u64>)>,
        names: &[ProductName],
    ) -> Result<Self, EventsError> {
        let mut groups = Vec::with_capacity(chunks.len());
        let mut events = Vec::new();
        for (parent, numbers) in chunks {
            let start = events.len();
            events.extend(numbers);
            groups.push((parent, start..events.len()));
        }
        let empty = || Values {
            bytes: Vec::new(),
            spans: vec![None; events.len()],
        };
        let mut products: Vec<_> = names.iter().map(|_| empty()).collect();
        let mut wanted = Vec::new();
        let mut places = Vec::new();
        let mut n_found = 0;
        for (n, name) in names.iter().enumerate() {
            for (parent, range) in &groups {
                wanted.push(Wanted {
                    parent: *parent,
                    name,
                    events: events.get(range.clone()).unwrap_or_default(),
                });
                places.push((n, range.start));
            }
        }
        store.load_many(&wanted, &mut |w, e, value| {
            let place = places.get(w).copied();
            let found = place.and_then(|(n, start)| Some((products.get_mut(n)?, start)));
            if let (Some((values, start)), Some(value)) = (found, value) {
                n_found += 1;
                let from = values.bytes.len();
                values.bytes.extend_from_slice(value);
                if let Some(span) = values.spans.get_mut(start + e) {
                    *span = Some(from..values.bytes.len());
                }
            }
            Ok(())
        })?;
        if n_found == 0 && !wanted.is_empty() {
            // Either no event has these products, or another client has deleted all of them.
            let datasets: BTreeSet<_> = groups.iter().map(|(parent, _)| parent.dataset).collect();
            let mut datasets = datasets.into_iter();
            datasets.try_for_each(|dataset| store.check_left(dataset))?;
        }
        Ok(Self {
            groups,
            events,
            products,
        })
    }

    /// Loads products of containers of any kind, in order.
    ///
    /// # Errors
    ///
    /// Errors of [`load`](Self::load).
    pub fn of(
        store: &DataStore,
        containers: impl IntoIterator<Item = Descriptor>,
        names: &[ProductName],
    ) -> Result<Self, EventsError> {
        let mut chunks: Vec<(Parent, Vec<u64>)> = Vec::new();
        for container in containers {
            let parent = container.placed_by();
            match chunks.last_mut() {
                Some((last, events)) if *last == parent => events.push(container.event),
                _ => chunks.push((parent, vec![container.event])),
            }
        }
        Self::load(store, chunks, names)
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The descriptors of the events, in order.
    pub fn descriptors(&self) -> impl Iterator<Item = Descriptor> {
        self.descriptors_in(0..self.len())
    }

    /// The descriptors of some of the events, in order.
    pub fn descriptors_in(&self, part: Range<usize>) -> impl Iterator<Item = Descriptor> {
        let first = self
            .groups
            .partition_point(|(_, range)| range.end <= part.start);
        let groups = self.groups.get(first..).unwrap_or_default().iter();
        let groups = groups.take_while({
            let end = part.end;
            move |(_, range)| range.start < end
        });
        groups.flat_map(move |(parent, range)| {
            let own = range.start.max(part.start)..range.end.min(part.end);
            let events = self.events.get(own).unwrap_or_default();
            events.iter().map(|event| parent.child(*event))
        })
    }
}

/// Iterates over the events of a container with their products; see [`Loader::start`]. If the container, or a run or
/// subrun found in it, is deleted meanwhile, the last item is the error of [`Passed::check_left`].
#[derive(Debug)]
pub struct Loader {
    from: From,
    passed: Passed,
    is_over: bool,
    process: Process,
}

#[derive(Debug)]
enum From {
    Here(Pieces),
    Thread(
        Option<Receiver<Result<Loaded, EventsError>>>,
        Option<JoinHandle<()>>,
    ),
}

impl Loader {
    /// Starts loading. With [`LoadOptions::ahead`], a thread prefetches; it ends when the loader is dropped.
    pub fn start(store: &DataStore, events: EventChunks, options: LoadOptions) -> Self {
        let ahead = options.ahead;
        let process = Process::this();
        let passed = events.passed();
        let mut pieces = Pieces {
            store: store.clone(),
            events: events.checked_by_caller(),
            options,
            rest: None,
            has_failed: false,
        };
        if ahead == 0 {
            let from = From::Here(pieces);
            return Self {
                from,
                passed,
                is_over: false,
                process,
            };
        }
        let (sender, receiver) = sync_channel(ahead);
        let thread = thread::spawn(move || {
            // If there was an error or the receiver is gone, the results are dropped.
            while let Some(loaded) = pieces.next() {
                if sender.send(loaded).is_err() {
                    break;
                }
            }
        });
        Self {
            from: From::Thread(Some(receiver), Some(thread)),
            passed,
            is_over: false,
            process,
        }
    }

    /// The runs and subruns listed so far; the result is updated as loading continues.
    pub fn passed(&self) -> &Passed {
        &self.passed
    }
}

impl Iterator for Loader {
    type Item = Result<Loaded, EventsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = match &mut self.from {
            From::Here(pieces) => pieces.next(),
            From::Thread(receiver, _) => {
                let what = || "loading was started".into();
                match self.process.check(what, "start it") {
                    Ok(()) => receiver.as_ref().and_then(|receiver| receiver.recv().ok()),
                    Err(error) => {
                        mem::forget(receiver.take()); // it ends with the error
                        Some(Err(error))
                    }
                }
            }
        };
        self.is_over = !matches!(next, Some(Ok(_)));
        match next {
            // Checked only now: processing the last piece may have taken long.
            None => self.passed.check_left().err().map(Err),
            next => next,
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        if let From::Thread(receiver, thread) = &mut self.from {
            if !self.process.is_this() {
                mem::forget((receiver.take(), thread.take()));
                return;
            }
            drop(receiver.take());
            if let Some(thread) = thread.take() {
                let _ = thread.join(); // one that panicked has printed why
            }
        }
    }
}

/// Events in pieces of the requested size.
#[derive(Debug)]
struct Pieces {
    store: DataStore,
    events: EventChunks,
    options: LoadOptions,
    rest: Option<(Parent, Vec<u64>)>,
    has_failed: bool,
}

impl Pieces {
    fn next(&mut self) -> Option<Result<Loaded, EventsError>> {
        if self.has_failed {
            return None;
        }
        let loaded = self.collect().and_then(|chunks| match chunks.is_empty() {
            true => Ok(None),
            false => Loaded::load(&self.store, chunks, &self.options.names).map(Some),
        });
        self.has_failed = loaded.is_err();
        loaded.transpose()
    }

    fn collect(&mut self) -> Result<Vec<(Parent, Vec<u64>)>, EventsError> {
        let mut missing = self.options.n_events.max(1);
        let mut chunks = Vec::new();
        while missing > 0 {
            let (parent, mut events) = match self.rest.take() {
                Some(rest) => rest,
                None => match self.events.next().transpose()? {
                    Some(chunk) => (chunk.parent, chunk.events),
                    None => break,
                },
            };
            if events.len() > missing {
                self.rest = Some((parent, events.split_off(missing)));
            }
            missing -= events.len();
            chunks.push((parent, events));
        }
        Ok(chunks)
    }
}
