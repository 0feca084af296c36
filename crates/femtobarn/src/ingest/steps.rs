//! Entries of fields, some at a time.

use std::sync::Arc;

use arrow_array::RecordBatch;
use femtobarn_rntuple::RNTupleError;

use super::IngestOptions;
use super::open::place;
use crate::inputs::share;
use crate::iterate::StepsOptions;
use crate::ntuple::NTuple;
use crate::transfer::{TransferError, Words, joined, quoted};

/// Entries of fields, some at a time.
pub(super) struct Steps {
    steps: Option<crate::Steps>,
    ntuple: Arc<NTuple>,
    fields: Vec<String>,
    how: StepsOptions,
    start: u64,
    words: Words,
}

impl Steps {
    pub fn new(
        ntuple: &Arc<NTuple>,
        fields: &[String],
        step_bytes: u64,
        options: &IngestOptions,
    ) -> Result<Self, TransferError> {
        let n = ntuple.n_entries();
        let mut how = StepsOptions {
            threads: options.threads,
            prefetch: options.prefetch,
            ..StepsOptions::default()
        };
        let mut steps = None;
        if n > 0 {
            let selection = ntuple.select(Some(fields))?;
            let n_bytes = ntuple.decoded_bytes(&selection, 0..n)?;
            how.step = match n_bytes {
                0 => n,
                n_bytes => share(n, step_bytes, n_bytes).max(1),
            };
            steps = Some(crate::Steps::new(
                ntuple.clone(),
                selection.telling(),
                0..n,
                how,
            ));
        }
        Ok(Self {
            steps,
            ntuple: ntuple.clone(),
            fields: fields.to_vec(),
            how,
            start: 0,
            words: options.words,
        })
    }

    /// The next entries; none at the end.
    pub fn next(
        &mut self,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Option<RecordBatch>, TransferError> {
        let Some(step) = self.steps.as_mut().and_then(|steps| steps.next_or(waiting)) else {
            return Ok(None);
        };
        let (entries, arrays) = match step {
            Ok(step) => step,
            Err(RNTupleError::Unsupported { reason, .. }) => {
                return Err(self.unreadable(&reason, waiting));
            }
            Err(error) => return Err(error.into()),
        };
        self.start = entries.end;
        let batch = arrays.with_texts_as_bytes().to_arrow().map_err(|error| {
            let what = femtobarn_io::with_causes(&error);
            TransferError::new("format", format!("{}: {what}", place(&self.ntuple)))
        })?;
        Ok(Some(batch))
    }

    /// The error that branches hold values which are not read, with all of these. `reason` is that of the first.
    fn unreadable(&mut self, reason: &str, waiting: &mut dyn FnMut() -> bool) -> TransferError {
        self.steps = None;
        let mut found = Vec::new();
        let mut all = self.fields.iter();
        let tried: Result<(), TransferError> = all.try_for_each(|field| {
            let selection = self
                .ntuple
                .select(Some(std::slice::from_ref(field)))?
                .telling();
            let entries = self.start..self.ntuple.n_entries();
            let mut steps = crate::Steps::new(self.ntuple.clone(), selection, entries, self.how);
            while let Some(step) = steps.next_or(waiting) {
                match step {
                    Err(RNTupleError::Unsupported { .. }) => found.push(field.as_str()),
                    other => drop(other?),
                }
            }
            Ok(())
        });
        if let Err(error) = tried {
            return error;
        }
        let which = if found.len() == 1 { "field" } else { "fields" };
        TransferError::Told {
            // it is a matter of the selection
            class: "UsageError",
            kind: "unsupported-field",
            message: format!(
                "{}: {which} {} cannot be read: {reason}; leave out what cannot: {}",
                place(&self.ntuple),
                joined(found.iter().map(|field| quoted(field))),
                self.words.with_all("drop", &found)
            ),
        }
    }
}
