//! Writing many containers and products with few requests, at once or in the background.

use std::{mem, thread};

use crate::forked::{Forked, Process};
use crate::writers::Writers;
use crate::{
    Batch, Container, DataStore, Descriptor, EventsError, Overwrite, Parent, ProductId,
    ProductName, Written,
};

/// What a batch may hold before it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchOptions {
    /// Containers and products for one target, at most.
    pub max_items: usize,
    /// Bytes of products for one target, at most.
    pub max_bytes: usize,
    /// Treatment of existing products.
    pub overwrite: Overwrite,
    /// Threads that write in the background; with none, the caller that fills a batch writes it.
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

/// Containers and products that are collected, for each target of the store by itself, and written when there are many.
///
/// Unwritten data are written by [`finish`](Self::finish) or [`flush`](Self::flush); a dropped batch is written as
/// well; as no caller gets its errors then, they go to standard error. Of two products of one key the later counts,
/// also if threads write them.
///
/// In a forked child, it writes nothing, as its threads do not exist there: the parent writes it.
#[derive(Debug)]
pub struct WriteBatch {
    store: DataStore,
    options: BatchOptions,
    batches: Vec<Batch>,
    writers: Option<Writers>,
    kept: Vec<ProductId>,
    process: Process,
    /// Whether the caller has got the errors, so that dropping does not try again.
    is_finished: bool,
}

impl WriteBatch {
    /// An empty one.
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
    /// Of datasets, which are made at once ([`DataSet::create_dataset`](crate::DataSet::create_dataset)); if the store
    /// is only read; and errors of writing, if the batch is full.
    pub fn create(&mut self, container: Descriptor) -> Result<(), EventsError> {
        let Some((parent, number)) = container.place() else {
            let what = "datasets cannot be created in a batch: create them directly".into();
            return Err(EventsError::Usage { what });
        };
        self.add(parent, |batch| batch.create(parent, number))
    }

    /// Adds containers, each after the containers that hold it.
    ///
    /// # Errors
    ///
    /// Those of [`create`](Self::create).
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
    /// Those of writing, if the batch is full.
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

    /// Writes the data of a target, or hands them to the writing threads.
    fn write(&mut self, at: usize) -> Result<(), EventsError> {
        self.check_process()?;
        let Some(batch) = self.batches.get_mut(at).filter(|batch| !batch.is_empty()) else {
            return Ok(());
        };
        if let Some(writers) = &self.writers {
            let full = std::mem::replace(batch, Batch::new(self.options.overwrite));
            return writers.push(full);
        }
        // One that failed is kept, so that it can be written once the store can be reached again.
        let (written, gone) = self.store.write_rest(batch)?;
        self.kept.extend(written.kept);
        batch.clear();
        gone.map_or(Ok(()), Err)
    }

    /// Writes all that was collected, and returns when it is as durable as the store makes it.
    ///
    /// # Errors
    ///
    /// The first of what could not be written since the last call. What belongs to other targets was written all the
    /// same; what could not be written is kept, and written by the next call if that can. Only data of deleted
    /// containers are lost: everything else is written, then the error is returned.
    pub fn flush(&mut self) -> Result<(), EventsError> {
        self.check_process()?;
        self.write_all().and(self.store.flush())
    }

    /// Writes all that was collected, and returns when the store has it, as after single writes: it survives the end of this
    /// process, if the store does.
    ///
    /// # Errors
    ///
    /// Those of [`flush`](Self::flush).
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

    /// Writes all that was collected; returns the existing products that were kept.
    ///
    /// # Errors
    ///
    /// Those of [`flush`](Self::flush); what could not be written is given up.
    pub fn finish(mut self) -> Result<Written, EventsError> {
        self.is_finished = true;
        self.flush()?;
        let kept = std::mem::take(&mut self.kept);
        Ok(Written { kept })
    }

    /// The products that were there and were kept, until now; each is given once.
    pub fn take_kept(&mut self) -> Vec<ProductId> {
        std::mem::take(&mut self.kept)
    }

    /// Number of collected containers and products that no thread writes yet.
    pub fn len(&self) -> usize {
        self.batches.iter().map(Batch::len).sum()
    }

    /// Whether none do.
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
