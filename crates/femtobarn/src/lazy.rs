//! Reading columns when they are touched: by ranges of entries, or step by step with what earlier steps touched read
//! ahead.

use std::ops::Range;
use std::sync::Arc;

use femtobarn_io::Together;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{
    Accesses, LazyArrays, LazyColumns, LazyOptions, PageCache, Part, segments,
};

use crate::iterate::StepsOptions;
use crate::ntuple::{NTuple, Selection};

/// The size of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepSize {
    /// A number of entries.
    Entries(u64),
    /// Whole clusters, as many as take this memory in the columns that earlier steps touched, and at least one.
    Bytes(u64),
}

/// Reads columns of an ntuple when they are touched.
#[derive(Debug)]
pub struct LazyReader {
    ntuple: Arc<NTuple>,
    selection: Selection,
    columns: Arc<LazyColumns>,
    accesses: Arc<Accesses>,
    options: LazyOptions,
}

impl LazyReader {
    /// Reads columns of `selection` with a record of accesses, which other readers can use, too.
    ///
    /// # Errors
    /// If the ntuple has no files.
    pub fn new(
        ntuple: Arc<NTuple>,
        selection: Selection,
        accesses: Arc<Accesses>,
        options: LazyOptions,
    ) -> Result<Self, RNTupleError> {
        let first = ntuple.readers().first();
        let first = first.ok_or_else(|| RNTupleError::Internal {
            what: "a lazy read without files".into(),
        })?;
        let columns = Arc::new(LazyColumns::new(selection.schema.clone(), first));
        Ok(Self {
            ntuple,
            selection,
            columns,
            accesses,
            options,
        })
    }

    /// The ntuple.
    pub fn ntuple(&self) -> &Arc<NTuple> {
        &self.ntuple
    }

    /// Memory that these entries take in the columns that earlier steps touched; in all, if nothing was learned yet.
    ///
    /// # Errors
    /// If page lists cannot be read, or the entries do not exist.
    pub fn decoded_bytes(&self, entries: Range<u64>) -> Result<u64, RNTupleError> {
        let parts = self.parts(entries)?;
        self.columns.decoded_bytes(&self.accesses, &parts)
    }

    /// Number of entries of the first step of `entries`.
    ///
    /// # Errors
    /// As [`decoded_bytes`](Self::decoded_bytes).
    pub fn step(&self, entries: Range<u64>, size: StepSize) -> Result<u64, RNTupleError> {
        let n_entries = entries.end.saturating_sub(entries.start);
        let most = match size {
            StepSize::Entries(n) => return Ok(n.max(1).min(n_entries)),
            StepSize::Bytes(most) => most,
        };
        let parts = self.parts(entries)?;
        let total = self.columns.decoded_bytes(&self.accesses, &parts)?;
        let fitting = u128::from(most) * u128::from(n_entries) / u128::from(total.max(1));
        let mut n = 0u64;
        for segment in segments(&parts)? {
            let next = n.saturating_add(segment.n_entries());
            if n > 0 && u128::from(next) > fitting {
                break;
            }
            n = next;
        }
        Ok(n)
    }

    /// A range of entries whose columns are read when they are touched.
    ///
    /// # Errors
    /// If the entries do not exist.
    pub fn read(&self, entries: Range<u64>) -> Result<LazyArrays, RNTupleError> {
        self.read_with(entries, self.options.cache.clone())
    }

    /// The same, and begins to read the columns that earlier steps touched, in a thread.
    ///
    /// # Errors
    /// If the entries do not exist. Errors of reading are raised when a column is touched.
    pub fn read_ahead(&self, entries: Range<u64>) -> Result<Arc<LazyArrays>, RNTupleError> {
        let arrays = Arc::new(self.read(entries)?);
        self.begin(&arrays, &Together::in_background());
        Ok(arrays)
    }

    fn begin(&self, arrays: &Arc<LazyArrays>, together: &Together) {
        if self.accesses.steps() > 0 {
            let (own, together) = (arrays.clone(), together.clone());
            std::thread::spawn(move || together.work(|| own.read_ahead()));
        }
    }

    fn parts(&self, entries: Range<u64>) -> Result<Vec<Part>, RNTupleError> {
        self.ntuple.parts(&self.selection, &entries)
    }

    fn read_with(
        &self,
        entries: Range<u64>,
        cache: Option<Arc<PageCache>>,
    ) -> Result<LazyArrays, RNTupleError> {
        let options = LazyOptions {
            cache,
            ..self.options.clone()
        };
        let (columns, accesses) = (self.columns.clone(), self.accesses.clone());
        Ok(LazyArrays::new(
            columns,
            self.parts(entries)?,
            accesses,
            options,
        ))
    }
}

/// Steps whose columns are read when they are touched. While a step is in use, the columns that earlier steps touched are
/// read for the next one. A step ends when the next one is taken, and when this is dropped.
#[derive(Debug)]
pub struct LazySteps {
    reader: Arc<LazyReader>,
    next: u64,
    stop: u64,
    size: StepSize,
    prefetch: bool,
    /// Pages that the next step needs, if steps may begin within them.
    cache: Option<Arc<PageCache>>,
    last: Option<Arc<LazyArrays>>,
    ahead: Option<LazyStep>,
    together: Together,
}

/// The entries of a step, and their columns.
pub type LazyStep = (Range<u64>, Arc<LazyArrays>);

impl LazySteps {
    /// The steps of `entries`. If the record knows what steps touch, the first one is read ahead.
    pub fn new(
        reader: Arc<LazyReader>,
        entries: Range<u64>,
        size: StepSize,
        prefetch: bool,
    ) -> Self {
        let pages = || Arc::new(PageCache::new(StepsOptions::default().page_cache));
        let mut steps = Self {
            reader,
            next: entries.start,
            stop: entries.end,
            size,
            prefetch,
            cache: matches!(size, StepSize::Entries(_)).then(pages),
            last: None,
            ahead: None,
            together: Together::in_background(),
        };
        steps.read_ahead();
        steps
    }

    /// Begins to read the next step, if the record knows what steps touch.
    fn read_ahead(&mut self) {
        if !self.prefetch || self.ahead.is_some() || self.reader.accesses.steps() == 0 {
            return;
        }
        // its error is raised when the step is taken
        let Ok(Some((entries, arrays))) = self.make() else {
            return;
        };
        self.next = entries.end;
        self.reader.begin(&arrays, &self.together);
        self.ahead = Some((entries, arrays));
    }

    fn make(&self) -> Result<Option<LazyStep>, RNTupleError> {
        if self.next >= self.stop {
            return Ok(None);
        }
        let n = self.reader.step(self.next..self.stop, self.size)?;
        let entries = self.next..self.next.saturating_add(n.max(1)).min(self.stop);
        let arrays = self.reader.read_with(entries.clone(), self.cache.clone())?;
        Ok(Some((entries, Arc::new(arrays))))
    }

    fn advance(&mut self) -> Result<Option<LazyStep>, RNTupleError> {
        if let Some(last) = self.last.take() {
            last.finish();
        }
        let step = match self.ahead.take() {
            Some(step) => Some(step),
            None => self.make()?,
        };
        let Some((entries, arrays)) = step else {
            return Ok(None);
        };
        self.next = entries.end;
        self.last = Some(arrays.clone());
        self.read_ahead();
        Ok(Some((entries, arrays)))
    }
}

impl Iterator for LazySteps {
    type Item = Result<LazyStep, RNTupleError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.advance();
        if step.is_err() {
            self.next = self.stop;
        }
        step.transpose()
    }
}

impl Drop for LazySteps {
    fn drop(&mut self) {
        self.together.stop();
        if let Some(last) = self.last.take() {
            last.finish();
        }
    }
}
