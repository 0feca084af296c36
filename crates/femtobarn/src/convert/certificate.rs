//! The proof that nothing was lost: digests of every column, of the read data and of the output.

use std::path::Path;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::{ColumnDigest, Digest};
use serde_json::{Value, json};

use super::format::Format;
use super::options::{ConvertOptions, OnProgress, Progress};
use super::source::{Source, has_data, refused};
use super::{attributes, tables};
use crate::inputs::Input;

/// The comparison, column by column.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "named by their types")]
pub struct Certificate {
    pub n_entries: u64,
    pub columns: Vec<ComparedColumn>,
}

/// A column of the output, and its digests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedColumn {
    /// What the input gave.
    pub given: ColumnDigest,
    /// Digest of the output.
    pub found: ColumnDigest,
}

impl Certificate {
    /// Whether every column is equal.
    pub fn is_equal(&self) -> bool {
        self.columns
            .iter()
            .all(|column| column.given == column.found)
    }

    /// The comparison as JSON.
    pub(super) fn columns_json(&self, ntuple: &str) -> impl Iterator<Item = Value> {
        self.columns.iter().map(move |column| {
            json!({
                "ntuple": ntuple,
                "field": column.given.field,
                "what": column.given.what,
                "elements": column.given.n_elements,
                "xxh3_128_input": format!("{:032x}", column.given.xxh3_128),
                "xxh3_128_output": format!("{:032x}", column.found.xxh3_128),
                "equal": column.given == column.found,
            })
        })
    }
}

/// Reads the output and compares it with the given data.
pub(super) fn verify(
    source: &Source,
    given: Vec<ColumnDigest>,
    (format, output): (Format, &Path),
    options: &ConvertOptions,
    now: &mut Progress,
    progress: OnProgress<'_>,
) -> Result<Certificate, RNTupleError> {
    let url = output.to_string_lossy().into_owned();
    let batches = match format {
        Format::Root => {
            let fields = source.fields.iter().filter(|field| has_data(field));
            let plain = ConvertOptions {
                fields: fields.map(|field| field.name.clone()).collect(),
                write: options.write.clone(),
                ..ConvertOptions::default()
            };
            let input = Input {
                url: url.clone(),
                path: Some(source.name.clone()),
                ..Input::default()
            };
            let written = Source::open(&[input], format, &plain)?;
            attributes::check_equal(&source.attributes, &written.attributes)?;
            written.batches
        }
        _ => tables::reopen(&url, format)?,
    };
    let mut digest = Digest::new(&source.fields)?;
    let mut n_entries = 0;
    for batch in batches {
        let batch = batch?;
        digest.add(&batch)?;
        n_entries += batch.num_rows() as u64;
        now.entries += batch.num_rows() as u64;
        if !progress(*now) {
            return Err(RNTupleError::Interrupted);
        }
    }
    let columns = given.into_iter().zip(digest.finish());
    let certificate = Certificate {
        n_entries,
        columns: columns
            .map(|(given, found)| ComparedColumn { given, found })
            .collect(),
    };
    match certificate
        .columns
        .iter()
        .find(|column| column.given != column.found)
    {
        None => Ok(certificate),
        Some(column) => Err(refused(
            &column.given.field,
            format!(
                "internal error: the written values differ from the input ({} {} with digest {:032x}, then {} with \
                 {:032x}); the output was discarded; please report this",
                column.given.n_elements,
                column.given.what,
                column.given.xxh3_128,
                column.found.n_elements,
                column.found.xxh3_128
            ),
        )),
    }
}
