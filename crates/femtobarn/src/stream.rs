//! The entries of an ntuple as a stream of Arrow record batches.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use femtobarn_rntuple::RNTupleError;

use crate::iterate::{Steps, StepsOptions};
use crate::ntuple::{NTuple, Selection};

/// Entries from which the memory of an entry is estimated.
const SAMPLE: u64 = 100_000;

/// Fewest entries of a step that is chosen by its memory, if there are as many.
const FEWEST: u64 = 1000;

/// Types of values in a stream, for consumers that would convert them otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamTypes {
    /// Booleans are bytes, as in C++, not Arrow's bits.
    pub byte_booleans: bool,
    /// Strings are binary, and need not be valid UTF-8.
    pub raw_strings: bool,
}

/// The steps of a range of entries as record batches.
#[derive(Debug)]
pub struct BatchStream {
    schema: SchemaRef,
    types: StreamTypes,
    /// Reading starts at the first batch, so that unreadable fields are not reported before.
    begin: Option<(Arc<NTuple>, Selection, Range<u64>, StepsOptions)>,
    steps: Option<Steps>,
}

impl BatchStream {
    /// Streams `entries`. If all fields are selected, unreadable ones are left out of the schema.
    ///
    /// # Errors
    /// If files cannot be read to find unreadable fields.
    pub fn new(
        ntuple: Arc<NTuple>,
        selection: &Selection,
        entries: Range<u64>,
        options: StepsOptions,
        types: StreamTypes,
    ) -> Result<Self, RNTupleError> {
        let mut selection = ntuple.without_unreadable(selection, &entries)?;
        if types.raw_strings {
            selection = selection.with_raw_strings();
        }
        Ok(Self {
            schema: Arc::new(selection.arrow_schema_of(types)),
            types,
            begin: Some((ntuple, selection, entries, options)),
            steps: None,
        })
    }
}

impl Iterator for BatchStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let external =
            |error: Box<dyn std::error::Error + Send + Sync>| ArrowError::ExternalError(error);
        if let Some((ntuple, selection, entries, options)) = self.begin.take() {
            self.steps = Some(Steps::new(ntuple, selection, entries, options));
        }
        Some(match self.steps.as_mut()?.next()? {
            Ok((_, mut arrays)) => {
                if self.types.byte_booleans {
                    arrays = arrays.with_byte_booleans();
                }
                arrays.to_arrow().map_err(|error| external(error.into()))
            }
            Err(error) => Err(external(error.into())),
        })
    }
}

impl RecordBatchReader for BatchStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl NTuple {
    /// Number of entries of a step that takes `bytes` of memory, from the metadata of the first entries.
    ///
    /// # Errors
    /// If page lists cannot be read.
    pub fn step_of_bytes(
        &self,
        selection: &Selection,
        entries: &Range<u64>,
        bytes: u64,
    ) -> Result<u64, RNTupleError> {
        let n = entries.end.saturating_sub(entries.start);
        let sample = entries.start..entries.start.saturating_add(n.min(SAMPLE));
        let n_sampled = sample.end.saturating_sub(sample.start);
        let taken = self.decoded_bytes(selection, sample)?.max(1);
        let step = u128::from(bytes) * u128::from(n_sampled) / u128::from(taken);
        let step = u64::try_from(step).unwrap_or(u64::MAX);
        Ok(step.max(FEWEST).min(n.max(1)))
    }
}
