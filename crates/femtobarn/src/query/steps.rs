//! The steps of a read: the columns of the condition are read for the next step while the other columns are read.

use std::ops::Range;

use femtobarn_io::is_stopped;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{ReadOptions, Tick};

use super::{Caches, QueryReader, QueryStep};
use crate::iterate::{Steps, StepsOptions, Worker};

/// Reads step by step.
#[derive(Debug)]
pub(super) struct QueryWorker {
    reader: QueryReader,
    /// The columns of the condition.
    tested: Option<Steps>,
    next: u64,
    stop: u64,
    options: StepsOptions,
    caches: Caches,
}

impl QueryWorker {
    pub fn new(reader: QueryReader, entries: Range<u64>, options: StepsOptions) -> Self {
        let tested = reader.tested.clone();
        let tested = tested
            .map(|tested| Steps::new(reader.ntuple.clone(), tested, entries.clone(), options));
        Self {
            reader,
            tested,
            next: entries.start,
            stop: entries.end,
            options,
            caches: Caches::new(options.page_cache),
        }
    }

    fn read(
        &mut self,
        entries: Range<u64>,
        tick: Option<Tick<'_>>,
    ) -> Result<QueryStep, RNTupleError> {
        let mut goes_on = || !is_stopped() && tick.is_none_or(|tick| tick(0, 0));
        let tested = match &mut self.tested {
            None => None,
            Some(steps) => match steps.next_or(&mut goes_on) {
                Some(step) => Some(step?.1),
                None => return Err(RNTupleError::internal("a condition without entries")),
            },
        };
        let with = |cache| ReadOptions {
            threads: self.options.threads,
            in_flight: self.options.in_flight,
            cache: Some(cache),
            tick,
            ..ReadOptions::default()
        };
        let options = [with(&self.caches.fields), with(&self.caches.operands)];
        let [of_fields, of_operands] = &options;
        let step = self
            .reader
            .step(entries, tested, [of_fields, of_operands])?;
        self.reader.fields = self.reader.fields.clone().fixed();
        Ok(step)
    }
}

impl Worker<QueryStep> for QueryWorker {
    fn step(&mut self, tick: Option<Tick<'_>>) -> Option<Result<QueryStep, RNTupleError>> {
        if self.next >= self.stop {
            return None;
        }
        let end = self.next.saturating_add(self.options.step.max(1));
        let entries = self.next..self.stop.min(end);
        self.next = entries.end;
        let step = self.read(entries, tick);
        if step.is_err() {
            self.next = self.stop;
        }
        Some(step)
    }
}
