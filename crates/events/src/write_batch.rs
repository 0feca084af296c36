//! Writes many containers and products with few requests, at once or in the background.

use std::{mem, thread};

use crate::forked::{Forked, Process};
use crate::writers::Writers;
use crate::{
    Batch, Container, DataStore, Descriptor, EventsError, Overwrite, Parent, ProductId,
    ProductName, Written,
};

/// Limits of a batch before it is written, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchOptions {
    /// Maximum number of containers and products per target.
    pub max_items: usize,
    /// Maximum bytes of products per target.
    pub max_bytes: usize,
    /// Treatment of existing products.
    pub overwrite: Overwrite,
    /// Number of background threads; with 0, the caller that fills a batch writes it.
    pub threads: usize,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            max_items: 16_384,
            max_bytes: 16 << 20,
            overwrite: Overwrite::Replace,
            threads: 0,
        }
    }
}

/// Collects containers and products for each target of the store, and writes them when a limit is reached.
///
/// [`finish`](Self::finish) and [`flush`](Self::flush) write the remaining data. A dropped batch is written as well; its
/// errors go to standard error, because no caller receives them. If two products have the same key, the later one counts,
/// even if threads write them.
///
/// In a forked child, a batch writes nothing, because its threads exist only in the parent, which writes it.
#[derive(Debug)]
pub struct WriteBatch {
    store: DataStore,
    options: BatchOptions,
    batches: Vec<Batch>,
    writers: Option<Writers>,
    kept: Vec<ProductId>,
    process: Process,
    /// Whether the caller has received the errors; then dropping does not try again.
    is_finished: bool,
}

impl WriteBatch {
    /// Creates an empty batch.
    pub fn new(store: &DataStore, options: BatchOptions) -> Self {
        let n_targets = store.backend().n_targets().max(1);
        let batches = (0..n_targets).map(|_| Batch::new(options.overwrite));
        let writers = (options.threads > 0).then(|| Writers::start(store, options.threads));
        Self {
            store: store.clone(),
            batches: batches.collect(),
            options,
            writers,
            kept: Vec::new(),
            process: Process::this(),
            is_finished: false,
        }
    }

    /// Adds a container.
    ///
    /// # Errors
    ///
    /// For datasets, which must be created directly ([`DataSet::create_dataset`](crate::DataSet::create_dataset)); if the
    /// store is read-only; errors of writing, if the batch is full.
    pub fn create(&mut self, container: Descriptor) -> Result<(), EventsError> {
        let Some((parent, number)) = container.place() else {
            let what = "datasets cannot be created in a batch: create them directly".into();
            return Err(EventsError::Usage { what });
        };
        self.add(parent, |batch| batch.create(parent, number))
    }

    /// Adds containers. Parents must come before their children.
    ///
    /// # Errors
    ///
    /// Errors of [`create`](Self::create).
    pub fn create_all(&mut self, containers: &[Descriptor]) -> Result<(), EventsError> {
        let mut last = None;
        for container in containers {
            let parent = container.placed_by();
            if last.replace(parent) != Some(parent) {
                let item = Container::new(self.store.clone(), parent.descriptor());
                for above in std::iter::successors(Some(item), Container::above) {
                    if above.number().is_some() {
                        self.create(above.descriptor())?;
                    }
                }
            }
            self.create(*container)?;
        }
        Ok(())
    }

    /// Adds a product.
    ///
    /// # Errors
    ///
    /// Errors of writing, if the batch is full.
    pub fn store(
        &mut self,
        container: Descriptor,
        name: &ProductName,
        value: &[u8],
    ) -> Result<(), EventsError> {
        let parent = container.placed_by();
        self.add(parent, |batch| {
            batch.store(parent, container.event, name, value);
        })
    }

    fn add(&mut self, parent: Parent, add: impl FnOnce(&mut Batch)) -> Result<(), EventsError> {
        let at = match self.batches.len() {
            1 => 0,
            n => self.store.backend().target(&parent) % n,
        };
        let Some(batch) = self.batches.get_mut(at) else {
            return Ok(());
        };
        if batch.is_empty() {
            self.store.backend().check_writes("write")?;
        }
        add(batch);
        let BatchOptions {
            max_items,
            max_bytes,
            ..
        } = self.options;
        if batch.len() >= max_items || batch.n_bytes() >= max_bytes {
            self.write(at)?;
        }
        Ok(())
    }

    fn check_process(&self) -> Result<(), EventsError> {
        let what = || format!("{}: this write batch was created", self.store.url());
        self.process.check(what, "create one")
    }

    /// Writes the data of a target, or passes them to the background threads.
    fn write(&mut self, at: usize) -> Result<(), EventsError> {
        self.check_process()?;
        let Some(batch) = self.batches.get_mut(at).filter(|batch| !batch.is_empty()) else {
            return Ok(());
        };
        if let Some(writers) = &self.writers {
            let full = std::mem::replace(batch, Batch::new(self.options.overwrite));
            return writers.push(full);
        }
        // A failed batch is kept, so it can be written when the store is available again.
        let (written, gone) = self.store.write_rest(batch)?;
        self.kept.extend(written.kept);
        batch.clear();
        gone.map_or(Ok(()), Err)
    }

    /// Writes all collected data, and waits until they are as durable as the store supports.
    ///
    /// # Errors
    ///
    /// The first error since the last call. Data of other targets are still written. Data that could not be written are
    /// kept, and the next call tries again. Only data of deleted containers are dropped: everything else is written, then
    /// the error is returned.
    pub fn flush(&mut self) -> Result<(), EventsError> {
        self.check_process()?;
        self.write_all().and(self.store.flush())
    }

    /// Writes all collected data, and waits until the store has them, as after single writes: they survive the end of
    /// this process if the store does.
    ///
    /// # Errors
    ///
    /// Errors of [`flush`](Self::flush).
    pub fn write_all(&mut self) -> Result<(), EventsError> {
        self.check_process()?;
        let mut first = Ok(());
        if let Some(writers) = &self.writers {
            writers.try_again();
        }
        for at in 0..self.batches.len() {
            first = first.and(self.write(at));
        }
        if let Some(writers) = &self.writers {
            let written = writers.wait();
            self.kept.extend(written.0.kept);
            first = first.and(written.1.map_or(Ok(()), Err));
        }
        first
    }

    /// Writes all collected data; returns the existing products that were kept.
    ///
    /// # Errors
    ///
    /// Errors of [`flush`](Self::flush); data that could not be written are dropped.
    pub fn finish(mut self) -> Result<Written, EventsError> {
        self.is_finished = true;
        self.flush()?;
        let kept = std::mem::take(&mut self.kept);
        Ok(Written { kept })
    }

    /// The existing products that were kept since the last call.
    pub fn take_kept(&mut self) -> Vec<ProductId> {
        std::mem::take(&mut self.kept)
    }

    /// Number of collected containers and products that no thread is writing yet.
    pub fn len(&self) -> usize {
        self.batches.iter().map(Batch::len).sum()
    }

    /// Whether this number is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for WriteBatch {
    fn drop(&mut self) {
        if !self.process.is_this() {
            mem::forget(self.writers.take());
            return;
        }
        if !thread::panicking()
            && !self.is_finished
            && let Err(error) = self.flush()
        {
            let error = femtobarn_io::with_causes(&error);
            eprintln!("femtobarn: a batch of an event store was not written: {error}");
        }
    }
}
