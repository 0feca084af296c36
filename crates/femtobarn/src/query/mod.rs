//! Reads of the entries that fulfil a condition, and of columns that are computed.
//!
//! The columns of the condition are read first. Then the other columns are read where entries are left, and their values
//! of the other entries are dropped. Each step does this for its entries, so memory is that of a step and the result.

mod column;
mod stage;
mod steps;

use std::ops::Range;
use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::Arrays;
use femtobarn_rntuple::read::{PageCache, Plan, ReadOptions, Tick};

use crate::expression::Expression;
use crate::inputs::{columns_of, fulfilling, paths_of, share};
use crate::iterate::{Steps, StepsOptions};
use crate::ntuple::{NTuple, Selection};
use stage::Stage;
use steps::QueryWorker;

/// What to read.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// The paths of fields; `None` for all.
    pub fields: Option<Vec<String>>,
    /// The computed columns, in their order.
    pub computed: Vec<Computed>,
    /// The condition that entries must fulfil.
    pub cut: Option<Expression>,
}

/// A computed column.
#[derive(Debug, Clone)]
pub struct Computed {
    /// Its name.
    pub name: String,
    /// Its values. If it is only the name of a column, the values have that type.
    pub expression: Expression,
    /// Number of paths in [`Query::fields`] that come before it.
    pub behind: usize,
}

/// Reads the same of any range of entries.
#[derive(Debug, Clone)]
pub struct QueryReader {
    ntuple: Arc<NTuple>,
    query: Arc<Query>,
    /// The columns of the condition.
    tested: Option<Selection>,
    fields: Selection,
    /// The columns of the computed columns.
    operands: Option<Selection>,
}

/// The result for a range of entries.
#[derive(Debug)]
pub struct QueryStep {
    /// The range, whichever of its entries fulfil the condition.
    pub entries: Range<u64>,
    /// The entries that fulfil the condition, as ranges in order.
    pub chosen: Vec<Range<u64>>,
    /// The columns of these entries.
    pub arrays: Arrays,
}

/// The memory of a step of [`QueryReader::read`].
const STEP_BYTES: u64 = 100 << 20;

impl QueryReader {
    /// Prepares a read. Unless the fields are `named` by the caller, those that are unreadable are left out.
    ///
    /// # Errors
    /// If a column does not exist, or the condition cannot be evaluated.
    pub fn new(ntuple: Arc<NTuple>, query: Query, named: bool) -> Result<Self, RNTupleError> {
        let mut fields = ntuple.select(query.fields.as_deref())?;
        if !named {
            fields = fields.leaving_out();
        }
        let tested = query.cut.as_ref().map(|cut| {
            let tested = columns_of(cut, &ntuple)?;
            cut.check(Arc::new(tested.arrow_schema()))?;
            Ok::<_, RNTupleError>(tested)
        });
        let tested = tested.transpose()?;
        let mut paths: Vec<String> = Vec::new();
        for computed in &query.computed {
            paths.extend(paths_of(&computed.expression, &ntuple));
        }
        let operands = match query.computed.is_empty() {
            true => None,
            false => Some(ntuple.select(Some(&paths))?),
        };
        Ok(Self {
            ntuple,
            query: Arc::new(query),
            tested,
            fields,
            operands,
        })
    }

    /// The entries of a range that fulfil the condition. Memory is that of the result, and of a step.
    ///
    /// # Errors
    /// If something cannot be read or evaluated.
    pub fn read(
        &self,
        entries: Range<u64>,
        threads: usize,
        tick: Option<Tick<'_>>,
    ) -> Result<QueryStep, RNTupleError> {
        let n = entries.end.saturating_sub(entries.start);
        let n_bytes = self.decoded_bytes(entries.clone())?;
        let n_steps = n_bytes.div_ceil(STEP_BYTES).max(1);
        let options = StepsOptions {
            step: n.div_ceil(n_steps).max(1),
            threads,
            prefetch: n_steps > 1,
            ..StepsOptions::default()
        };
        let mut reader = self.clone();
        reader.fields = self.ntuple.without_unreadable(&self.fields, &entries)?;
        if n == 0 {
            let options = ReadOptions {
                threads,
                ..ReadOptions::default()
            };
            return reader.step(entries, None, [&options; 2]);
        }
        let (mut chosen, mut arrays) = (Vec::new(), Vec::new());
        let mut worker = QueryWorker::new(reader, entries.clone(), options);
        let mut done = 0;
        loop {
            let waits = |_, _| tick.is_none_or(|tick| tick(share(n_bytes, done, n), n_bytes));
            let Some(step) = crate::iterate::Worker::step(&mut worker, Some(&waits)) else {
                break;
            };
            let step = step?;
            done = step.entries.end - entries.start;
            chosen.extend(step.chosen);
            arrays.push(step.arrays);
        }
        Ok(QueryStep {
            entries,
            chosen,
            arrays: Arrays::joined(arrays)?,
        })
    }

    /// The steps of a range, of equal numbers of entries before the condition. All steps have the fields of the first one.
    pub fn steps(&self, entries: Range<u64>, options: StepsOptions) -> Steps<QueryStep> {
        let worker = QueryWorker::new(self.clone(), entries, options);
        Steps::of(worker, options.prefetch)
    }

    /// The same fields, also if one of them turns out to be unreadable: that is an error.
    #[must_use]
    pub fn fixed(mut self) -> Self {
        self.fields = self.fields.fixed();
        self
    }

    /// The most that a read of these entries costs: as if all of them fulfilled the condition.
    ///
    /// # Errors
    /// If metadata cannot be read.
    pub fn explain(&self, entries: Range<u64>) -> Result<Plan, RNTupleError> {
        Ok(Plan {
            selects: self.query.cut.is_some(),
            ..self.ntuple.explain(&self.all()?, entries)?
        })
    }

    /// Estimated size of all columns that are read, as if all entries fulfilled the condition.
    ///
    /// # Errors
    /// If metadata cannot be read.
    pub fn decoded_bytes(&self, entries: Range<u64>) -> Result<u64, RNTupleError> {
        self.ntuple.decoded_bytes(&self.all()?, entries)
    }

    /// All columns that are read.
    fn all(&self) -> Result<Selection, RNTupleError> {
        let Some(fields) = &self.fields.paths else {
            return Ok(self.fields.clone());
        };
        let others = [&self.tested, &self.operands].into_iter().flatten();
        let others = others.filter_map(|selection| selection.paths.as_deref());
        let mut paths = fields.to_vec();
        for path in others.flatten() {
            if !paths.contains(path) {
                paths.push(path.clone());
            }
        }
        self.ntuple.select(Some(&paths))
    }

    /// Reads entries. `tested` has the columns of the condition for them.
    fn step(
        &mut self,
        entries: Range<u64>,
        tested: Option<Arrays>,
        [of_fields, of_operands]: [&ReadOptions<'_>; 2],
    ) -> Result<QueryStep, RNTupleError> {
        let mut known: Vec<Stage> = Vec::new();
        let mut chosen = vec![entries.clone()];
        if let (Some(cut), Some(selection), Some(tested)) = (&self.query.cut, &self.tested, tested)
        {
            chosen = fulfilling(cut, &self.ntuple, &tested, entries.start)?;
            known.push(Stage::chosen(selection, tested, &chosen, entries.start)?);
        }
        chosen.retain(|range| !range.is_empty());
        let ntuple = &self.ntuple;
        let fields = ntuple.settling(&mut self.fields, &entries, |fields| {
            Stage::read(ntuple, fields, &chosen, &known, of_fields)
        })?;
        known.push(fields);
        let mut arrays = known
            .last()
            .map_or_else(no_arrays, |it| it.arrays(&chosen))?;
        if let Some(selection) = &self.operands {
            let operands = Stage::read(ntuple, selection, &chosen, &known, of_operands)?;
            self.compute(&mut arrays, &operands.arrays(&chosen)?, &chosen)?;
        }
        Ok(QueryStep {
            entries,
            chosen,
            arrays,
        })
    }
}

fn no_arrays() -> Result<Arrays, RNTupleError> {
    Err(RNTupleError::internal("a read without columns"))
}

/// Pages of neighbouring steps, for the fields and for the operands of computed columns.
#[derive(Debug)]
struct Caches {
    fields: PageCache,
    operands: PageCache,
}

impl Caches {
    fn new(most: u64) -> Self {
        Self {
            fields: PageCache::new(most / 2),
            operands: PageCache::new(most / 2),
        }
    }
}
