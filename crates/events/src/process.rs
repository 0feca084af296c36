//! Calls a function for all events, on threads: each event exactly once, with the results in the order of the events.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::{Container, Descriptor, EventsError, LoadOptions, Loaded, Loader};

/// How events are fetched and handed out.
#[derive(Clone, Debug)]
pub struct ProcessOptions {
    /// How events are fetched, and with which products.
    pub load: LoadOptions,
    /// Maximum number of events per batch of a worker.
    pub n_events: usize,
    /// Number of worker threads.
    pub workers: usize,
}

impl Default for ProcessOptions {
    fn default() -> Self {
        Self {
            load: LoadOptions::default(),
            n_events: 64,
            workers: thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// An event with its requested products.
#[derive(Clone, Copy, Debug)]
pub struct LoadedEvent<'a> {
    loaded: &'a Loaded,
    at: usize,
    descriptor: Descriptor,
}

impl<'a> LoadedEvent<'a> {
    /// The descriptor of the event.
    pub fn descriptor(&self) -> Descriptor {
        self.descriptor
    }

    /// A product, by its index in [`LoadOptions::names`]; `None` if the event has none.
    pub fn product(&self, n: usize) -> Option<&'a [u8]> {
        self.loaded.products.get(n)?.get(self.at)
    }
}

/// The reason why not all events were processed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError<E> {
    /// An error of the store.
    #[error(transparent)]
    Events(EventsError),
    /// The function failed for an event.
    #[error("the function failed for {event}")]
    Function {
        /// The event.
        event: Descriptor,
        /// The error of the function.
        source: E,
    },
}

/// Calls a function for all events in a container, and `take` for the results, in the order of the events. Returns the
/// number of events.
///
/// Idle threads take small batches of events, so the load is balanced even if some events take long.
///
/// # Errors
///
/// Errors of the store, including the deletion of the container or of a part of it during processing, and the error of
/// the function. After an error no more batches are started, and `take` has received the results of all events before the
/// first failure.
pub fn process<T: Send, E: Send>(
    item: &Container,
    options: ProcessOptions,
    function: impl Fn(LoadedEvent<'_>) -> Result<T, E> + Sync,
    mut take: impl FnMut(T),
) -> Result<usize, ProcessError<E>> {
    let workers = options.workers.max(1);
    let loader = Loader::start(item.datastore(), item.events(), options.load);
    let passed = loader.passed().clone();
    let source = Source {
        size: options.n_events.max(1),
        is_ended: AtomicBool::new(false),
        parts: Mutex::new(Parts {
            loader,
            loaded: Arc::default(),
            next: 0,
            number: 0,
        }),
    };
    thread::scope(|scope| {
        let (sender, receiver) = channel();
        for _ in 0..workers {
            let (source, function, sender) = (&source, &function, sender.clone());
            scope.spawn(move || work(source, function, &sender));
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut next = 0;
        let mut n_events = 0;
        for (number, outcome) in receiver {
            early.insert(number, outcome);
            while let Some(outcome) = early.remove(&next) {
                next += 1;
                let (results, error): (Vec<T>, _) = outcome;
                n_events += results.len();
                results.into_iter().for_each(&mut take);
                if let Some(error) = error {
                    // other results are dropped; the workers end because the receiver is gone
                    source.is_ended.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        // Events are listed before the workers load them, so check again at the end.
        passed.check_left().map_err(ProcessError::Events)?;
        Ok(n_events)
    })
}

/// The results of a part, up to the first failed event.
type Outcome<T, E> = (Vec<T>, Option<ProcessError<E>>);

fn work<T, E>(
    source: &Source,
    function: &impl Fn(LoadedEvent<'_>) -> Result<T, E>,
    sender: &Sender<(usize, Outcome<T, E>)>,
) {
    while let Some((number, part)) = source.next() {
        let outcome = match part {
            Ok((loaded, range)) => each(&loaded, range, function),
            Err(error) => (Vec::new(), Some(ProcessError::Events(error))),
        };
        let has_failed = outcome.1.is_some();
        if has_failed {
            source.is_ended.store(true, Ordering::Relaxed);
        }
        if sender.send((number, outcome)).is_err() || has_failed {
            return;
        }
    }
}

fn each<T, E>(
    loaded: &Loaded,
    range: Range<usize>,
    function: &impl Fn(LoadedEvent<'_>) -> Result<T, E>,
) -> Outcome<T, E> {
    let mut results = Vec::with_capacity(range.len());
    for (at, descriptor) in range.clone().zip(loaded.descriptors_in(range)) {
        let event = LoadedEvent {
            loaded,
            at,
            descriptor,
        };
        match function(event) {
            Ok(result) => results.push(result),
            Err(source) => {
                let event = descriptor;
                return (results, Some(ProcessError::Function { event, source }));
            }
        }
    }
    (results, None)
}

/// The source of parts for the workers.
struct Source {
    size: usize,
    is_ended: AtomicBool,
    parts: Mutex<Parts>,
}

struct Parts {
    loader: Loader,
    loaded: Arc<Loaded>,
    /// The first event that no worker has taken.
    next: usize,
    number: usize,
}

type Part = Result<(Arc<Loaded>, Range<usize>), EventsError>;

impl Source {
    /// The next part and its number; `None` after an error.
    fn next(&self) -> Option<(usize, Part)> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_ended.load(Ordering::Relaxed) {
            return None;
        }
        let number = parts.number;
        if parts.next == parts.loaded.len() {
            match parts.loader.next()? {
                Ok(loaded) => (parts.loaded, parts.next) = (Arc::new(loaded), 0),
                Err(error) => return Some((number, Err(error))),
            }
        }
        let end = parts.loaded.len().min(parts.next.saturating_add(self.size));
        let range = parts.next..end;
        (parts.next, parts.number) = (end, number + 1);
        Some((number, Ok((parts.loaded.clone(), range))))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::{BatchOptions, DataSet, DataStore, MemoryBackend, ProductName, WriteBatch};

    const SIZES: [u64; 4] = [1000, 1, 0, 513];

    fn dataset(name: &ProductName) -> DataSet {
        let store = DataStore::new(Arc::new(MemoryBackend::new("memory:")));
        let dataset = store.root().create_dataset("a").unwrap();
        let mut batch = WriteBatch::new(&store, BatchOptions::default());
        for (subrun, n) in (0..).zip(SIZES) {
            let subrun = dataset.child(1).unwrap().child(subrun).unwrap();
            batch
                .create(dataset.child(1).unwrap().descriptor())
                .unwrap();
            batch.create(subrun.descriptor()).unwrap();
            for event in 0..n {
                let event = subrun.descriptor().placed_by().child(event);
                batch.create(event).unwrap();
                if event.event.is_multiple_of(2) {
                    batch
                        .store(event, name, &event.event.to_le_bytes())
                        .unwrap();
                }
            }
        }
        batch.finish().unwrap();
        dataset
    }

    fn options(name: &ProductName, workers: usize, n_events: usize) -> ProcessOptions {
        let load = LoadOptions {
            names: vec![name.clone()],
            n_events: 300,
            ahead: 1,
        };
        ProcessOptions {
            load,
            n_events,
            workers,
        }
    }

    fn numbers(event: LoadedEvent<'_>) -> (u64, u64, Option<u64>) {
        let value = event
            .product(0)
            .map(|value| u64::from_le_bytes(value.try_into().unwrap()));
        (event.descriptor().subrun, event.descriptor().event, value)
    }

    #[test]
    fn every_event_comes_once_and_its_result_in_order() {
        let name = ProductName::new("n", "std::uint64_t").unwrap();
        let dataset = dataset(&name);
        let expected: Vec<_> = (0..)
            .zip(SIZES)
            .flat_map(|(subrun, n)| {
                (0..n).map(move |event| (subrun, event, (event % 2 == 0).then_some(event)))
            })
            .collect();
        for (workers, size) in [(1, 64), (4, 7), (16, 1), (2, 10_000)] {
            let mut found = Vec::new();
            let n = process(
                &dataset,
                options(&name, workers, size),
                |event| Ok::<_, Infallible>(numbers(event)),
                |result| found.push(result),
            );
            assert_eq!(n.unwrap(), expected.len());
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn an_error_names_the_first_event_that_failed_and_what_is_before_it_is_taken() {
        let name = ProductName::new("n", "std::uint64_t").unwrap();
        let dataset = dataset(&name);
        for workers in [1, 8] {
            let mut found = 0;
            let error = process(
                &dataset,
                options(&name, workers, 5),
                |event| match numbers(event) {
                    (0, 700.., _) => Err("no"),
                    _ => Ok(()),
                },
                |()| found += 1,
            )
            .unwrap_err();
            assert!(
                matches!(&error, ProcessError::Function { event, source: "no" } if event.event == 700)
            );
            assert!(error.to_string().contains("event 700"), "{error}");
            assert_eq!(found, 700);
        }
    }

    #[test]
    fn an_error_of_the_store_ends_it() {
        let name = ProductName::new("n", "std::uint64_t").unwrap();
        let dataset = dataset(&name);
        let event = dataset
            .child(1)
            .unwrap()
            .child(3)
            .unwrap()
            .child(512)
            .unwrap();
        let mut batch = crate::Batch::default();
        batch.store_sealed(event.descriptor().placed_by(), 512, &name, b"damaged");
        dataset.datastore().write(&batch).unwrap();
        let error = process(
            &dataset,
            options(&name, 3, 5),
            |_| Ok::<_, Infallible>(()),
            drop,
        );
        assert!(matches!(
            error,
            Err(ProcessError::Events(EventsError::Damaged { .. }))
        ));
    }
}
