//! Named queues between programs.

use std::mem;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::forked::{Forked, Process};
use crate::{DataStore, EventsError, LONGEST_NAME, Popped, Uuid};

/// Lease of a producer. If a producer dies, others wait this long for it.
const LEASE: Duration = Duration::from_secs(30);
/// Interval of renewals.
const AGAIN: Duration = Duration::from_secs(10);
/// How long one request waits for a value.
const PATIENCE: Duration = Duration::from_secs(1);

/// How a queue is opened: HEPnOS's `QueueAccessMode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueMode {
    /// For taking values.
    Consumer,
    /// For pushing values.
    Producer,
}

/// The result of taking a value without waiting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// A value.
    Value(Vec<u8>),
    /// No value yet: a producer may still push.
    Nothing,
    /// The queue is empty and has no producers.
    Ended,
}

/// An open queue. Each value is taken once, in the order of pushing.
///
/// While a producer has the queue open, consumers wait for more values. Dropping a producer closes the queue for it.
#[derive(Debug)]
pub struct Queue {
    store: DataStore,
    name: String,
    producer: Option<Producer>,
}

/// Renews the lease of a producer periodically.
#[derive(Debug)]
struct Producer {
    id: Uuid,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    process: Process,
}

impl DataStore {
    /// Creates a queue; returns whether it was new.
    pub fn create_queue(&self, name: &str) -> Result<bool, EventsError> {
        check(name)?;
        self.backend().queues().create(name)
    }

    /// Removes a queue with its values; returns whether it existed.
    pub fn destroy_queue(&self, name: &str) -> Result<bool, EventsError> {
        self.backend().queues().destroy(name)
    }

    /// Opens a queue.
    ///
    /// # Errors
    ///
    /// [`EventsError::NotFound`] if the queue does not exist.
    pub fn open_queue(&self, name: &str, mode: QueueMode) -> Result<Queue, EventsError> {
        let producer = match mode {
            QueueMode::Consumer => {
                let length = self.backend().queues().n_values(name)?;
                length.ok_or_else(|| no_queue(self, name))?;
                None
            }
            QueueMode::Producer => Some(Producer::start(self, name)?),
        };
        Ok(Queue {
            store: self.clone(),
            name: name.into(),
            producer,
        })
    }
}

fn check(name: &str) -> Result<(), EventsError> {
    match name.len() {
        0..=LONGEST_NAME => Ok(()),
        length => Err(EventsError::Name {
            what: "queue name",
            name: name.into(),
            why: format!("it has {length} bytes, more than {LONGEST_NAME}"),
        }),
    }
}

fn no_queue(store: &DataStore, name: &str) -> EventsError {
    EventsError::NotFound {
        url: store.url().into(),
        what: format!("queue {name:?}"),
        hint: "; create it first".into(),
    }
}

impl Queue {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The store that contains the queue.
    pub fn datastore(&self) -> &DataStore {
        &self.store
    }

    /// Adds a value to the end of the queue.
    ///
    /// # Errors
    ///
    /// If the queue was opened for taking, or was closed or destroyed.
    pub fn push(&self, value: &[u8]) -> Result<(), EventsError> {
        let Some(producer) = &self.producer else {
            let what = format!("queue {:?} is not open for pushing", self.name);
            return Err(EventsError::Usage { what });
        };
        // Consumers wait for the process that is registered as producer.
        let what = || format!("queue {:?} was opened for pushing", self.name);
        producer.process.check(what, "open it")?;
        match self.store.backend().queues().push(&self.name, value)? {
            true => Ok(()),
            false => Err(no_queue(&self.store, &self.name)),
        }
    }

    /// Takes a value from the front of the queue. Waits for a value while the queue has producers. `None` if it is
    /// empty without producers, or if `goes_on` returns false.
    ///
    /// # Errors
    ///
    /// If the queue was destroyed.
    pub fn pop(&self, goes_on: &dyn Fn() -> bool) -> Result<Option<Vec<u8>>, EventsError> {
        loop {
            match self.store.backend().queues().pop(&self.name, PATIENCE)? {
                Popped::Value(value) => return Ok(Some(value)),
                Popped::Ended => return Ok(None),
                Popped::NoQueue => return Err(no_queue(&self.store, &self.name)),
                Popped::Nothing if !goes_on() => return Ok(None),
                Popped::Nothing => {}
            }
        }
    }

    /// Takes the first value without waiting.
    ///
    /// # Errors
    ///
    /// If the queue was destroyed.
    pub fn take(&self) -> Result<Taken, EventsError> {
        match self
            .store
            .backend()
            .queues()
            .pop(&self.name, Duration::ZERO)?
        {
            Popped::Value(value) => Ok(Taken::Value(value)),
            Popped::Nothing => Ok(Taken::Nothing),
            Popped::Ended => Ok(Taken::Ended),
            Popped::NoQueue => Err(no_queue(&self.store, &self.name)),
        }
    }

    /// Returns a taken value to the front of the queue. A consumer that finds the queue empty meanwhile does not wait
    /// for it.
    ///
    /// # Errors
    ///
    /// If the queue was destroyed meanwhile.
    pub fn put_back(&self, value: &[u8]) -> Result<(), EventsError> {
        match self.store.backend().queues().put_back(&self.name, value)? {
            true => Ok(()),
            false => Err(no_queue(&self.store, &self.name)),
        }
    }

    /// Number of values in the queue.
    ///
    /// # Errors
    ///
    /// If the queue was destroyed.
    pub fn len(&self) -> Result<u64, EventsError> {
        let length = self.store.backend().queues().n_values(&self.name)?;
        length.ok_or_else(|| no_queue(&self.store, &self.name))
    }

    /// Whether the queue is empty.
    ///
    /// # Errors
    ///
    /// If the queue was destroyed.
    pub fn is_empty(&self) -> Result<bool, EventsError> {
        self.len().map(|n| n == 0)
    }

    /// Declares that this producer will push no more values.
    ///
    /// # Errors
    ///
    /// If the store does not answer; then consumers notice the end only after half a minute.
    pub fn close(&mut self) -> Result<(), EventsError> {
        match self.producer.take() {
            // In a forked child, the registration belongs to the parent, which still pushes.
            Some(producer) if !producer.process.is_this() => {
                mem::forget(producer);
                Ok(())
            }
            Some(producer) => {
                let id = producer.id;
                drop(producer);
                self.store.backend().queues().end_producing(&self.name, id)
            }
            None => Ok(()),
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let _ = self.close(); // others notice by the lease
    }
}

impl Producer {
    fn start(store: &DataStore, name: &str) -> Result<Self, EventsError> {
        let id = Uuid::random().map_err(|error| {
            EventsError::engine(store.url(), "create a UUID", error.to_string())
        })?;
        if !store.backend().queues().produce(name, id, LEASE)? {
            return Err(no_queue(store, name));
        }
        let (end, ended) = channel();
        let (store, name) = (store.clone(), name.to_owned());
        let thread = thread::spawn(move || {
            while ended.recv_timeout(AGAIN) == Err(RecvTimeoutError::Timeout) {
                let _ = store.backend().queues().produce(&name, id, LEASE); // the next push returns the error
            }
        });
        Ok(Self {
            id,
            end: Some(end),
            thread: Some(thread),
            process: Process::this(),
        })
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // one that panicked has printed why
        }
    }
}
