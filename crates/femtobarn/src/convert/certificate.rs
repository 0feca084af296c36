//! The proof that nothing was lost: digests of every column, for the read data and for the output.

use arrow_array::{Array, ArrayRef};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::{ColumnDigest, Digest};
use serde_json::{Value, json};

use super::format::Format;
use super::options::{ConvertOptions, OnProgress, Progress};
use super::source::{Batches, Source, has_data, refused};
use super::{attributes, tables};
use crate::inputs::Input;
use crate::proof::{Unequal, compare, is_part_of};

/// The comparison, column by column.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "named by their types")]
pub struct Certificate {
    pub columns: Vec<ComparedColumn>,
}

/// A column of the output, and its digests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedColumn {
    /// Digest of the input.
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

/// Reads the output and compares it with the digests of the input. If they differ, both are read again (the input by
/// `again`) to find the first differing entry.
pub(super) fn verify(
    source: &Source,
    given: Vec<ColumnDigest>,
    place: (Format, Input),
    options: &ConvertOptions,
    again: &dyn Fn() -> Result<Batches, RNTupleError>,
    (now, progress): (&mut Progress, OnProgress<'_>),
) -> Result<Certificate, RNTupleError> {
    let mut digest = Digest::new(&source.fields)?;
    for batch in written(source, &place, options)? {
        let batch = batch?;
        digest.add(&batch)?;
        now.entries += batch.num_rows() as u64;
        if !progress(*now) {
            return Err(RNTupleError::Interrupted);
        }
    }
    let columns = given.into_iter().zip(digest.finish());
    let certificate = Certificate {
        columns: columns
            .map(|(given, found)| ComparedColumn { given, found })
            .collect(),
    };
    let mut columns = certificate.columns.iter();
    let Some(column) = columns.find(|column| column.given != column.found) else {
        return Ok(certificate);
    };
    let field = &column.given.field;
    let entry = match (written(source, &place, options), again()) {
        (Ok(found), Ok(given)) => first_difference(field, found, given),
        _ => None,
    };
    let entry = entry.map_or(String::new(), |(entry, unequal)| {
        let Unequal {
            found, expected, ..
        } = unequal;
        format!(", first in entry {entry}: {found}, not {expected}")
    });
    Err(refused(
        field,
        format!(
            "internal error: the written values differ from the input ({} {} with digest {:032x}, then {} with \
             {:032x}{entry}); the output was discarded; please report this",
            column.given.n_elements,
            column.given.what,
            column.given.xxh3_128,
            column.found.n_elements,
            column.found.xxh3_128
        ),
    ))
}

/// The entries of the output.
fn written(
    source: &Source,
    (format, output): &(Format, Input),
    options: &ConvertOptions,
) -> Result<Batches, RNTupleError> {
    if *format != Format::Root {
        return tables::reopen(&output.url, *format);
    }
    let fields = source.fields.iter().filter(|field| has_data(field));
    let plain = ConvertOptions {
        fields: fields.map(|field| field.name.clone()).collect(),
        write: options.write.clone(),
        ..ConvertOptions::default()
    };
    let written = Source::open(std::slice::from_ref(output), *format, &plain)?;
    attributes::check_equal(&source.attributes, &written.attributes)?;
    Ok(written.batches)
}

/// The first entry in which a field differs, if both have arrays of the same type.
fn first_difference(field: &str, found: Batches, given: Batches) -> Option<(u64, Unequal)> {
    let columns = |batches: Batches| {
        batches.map_while(|batch| {
            let batch = batch.ok()?;
            let schema = batch.schema();
            let mut names = schema.fields().iter().map(|field| field.name());
            let at = names.position(|name| is_part_of(field, name))?;
            Some(batch.column(at).clone())
        })
    };
    let (mut found, mut given) = (columns(found), columns(given));
    let (mut ours, mut theirs) = (found.next()?, given.next()?);
    let mut entry = 0;
    loop {
        let n = ours.len().min(theirs.len());
        let [a, b] = [&ours, &theirs].map(|array| array.slice(0, n));
        if a.data_type() != b.data_type() {
            return None;
        }
        if let Some(unequal) = compare(&a, &b) {
            return Some((entry + unequal.at as u64, unequal));
        }
        entry += n as u64;
        let rest = |array: &ArrayRef, others: &mut dyn Iterator<Item = ArrayRef>| {
            let left = array.len() - n;
            (left > 0)
                .then(|| array.slice(n, left))
                .or_else(|| others.next())
        };
        ours = rest(&ours, &mut found)?;
        theirs = rest(&theirs, &mut given)?;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use arrow_array::{Float64Array, RecordBatch};
    use femtobarn_rntuple::schema::DType;
    use femtobarn_rntuple::write::{FieldModel, NTupleWriter, WriteOptions};

    use super::*;
    use crate::writable::create_new_file;

    fn write(path: &Path, values: Vec<f64>) -> Input {
        let column: ArrayRef = Arc::new(Float64Array::from(values));
        let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
        let url = path.to_str().unwrap().to_owned();
        let mut file = create_new_file(&url, 505).unwrap();
        let fields = [FieldModel::number("x", DType::Float64)];
        let options = WriteOptions::default();
        let mut writer = NTupleWriter::new(&mut file, 0, "t", &fields, options).unwrap();
        writer.extend(&mut file, &batch).unwrap();
        writer.finish(&mut file).unwrap();
        file.finish().unwrap();
        Input {
            url,
            ..Input::default()
        }
    }

    #[test]
    fn a_value_that_was_written_wrong_is_told_with_its_entry() {
        let folder = tempfile::tempdir().unwrap();
        let [right, wrong] = ["right.root", "wrong.root"].map(|name| folder.path().join(name));
        let mut values: Vec<f64> = (0..100_000).map(f64::from).collect();
        let input = write(&right, values.clone());
        values[77_777] = 0.5;
        let other = write(&wrong, values);
        let options = ConvertOptions::default();
        let open = || Source::open(std::slice::from_ref(&input), Format::Root, &options);
        let check = |output: &Input| {
            let mut source = open()?;
            let mut digest = Digest::new(&source.fields)?;
            let batches = std::mem::replace(&mut source.batches, Box::new(std::iter::empty()));
            for batch in batches {
                digest.add(&batch?)?;
            }
            let again = || Ok(open()?.batches);
            let place = (Format::Root, output.clone());
            let mut now = Progress::default();
            let watched: (_, OnProgress<'_>) = (&mut now, &|_| true);
            verify(&source, digest.finish(), place, &options, &again, watched)
        };
        assert!(check(&input).unwrap().is_equal());
        let message = check(&other).unwrap_err().to_string();
        assert!(
            message.contains("first in entry 77777: 0.5, not 77777.0"),
            "{message}"
        );
    }
}
