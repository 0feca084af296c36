//! Parquet and Arrow IPC as inputs.

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::{Nulls, arrow_type_name};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::RowGroupMetaData;

use super::contained::{Contained, contained};
use super::format::Format;
use super::ipc::{self, MAGIC};
use super::names::FieldNames;
use super::options::ConvertOptions;
use super::plain::Columns;
use super::source::{Batches, Source, refused};
use super::table_file::{BUFFER, TableFile};
use super::wanted::Wanted;
use crate::inputs::Input;

const FEATHER_1: &[u8] = b"FEA1";
const PARQUET: &[u8] = b"PAR1";

/// Rows per batch, and approximate number of values per column: a row of lists may have millions.
const ROWS: usize = 16 << 10;
pub(super) const VALUES: u64 = 4 << 20;

type Found = Result<RecordBatch, RNTupleError>;

/// A table in a file.
struct Table {
    schema: SchemaRef,
    n_bytes: u64,
    batches: Batches,
}

/// Opens tables as one input. They are read twice: the first pass finds missing values, which determine the
/// `std::optional` fields.
pub(super) fn open(
    inputs: &[Input],
    format: Format,
    output: Format,
    options: &ConvertOptions,
) -> Result<Source, RNTupleError> {
    let first = table(inputs, format)?;
    let names = first.schema.fields().iter();
    let mut wanted = Wanted::new(options, names.map(|field| field.name().as_str()));
    let columns = Columns::new(&first.schema, &mut wanted, output == Format::Root)?;
    let unmatched = wanted.unmatched(&inputs.first().map(Input::shown).unwrap_or_default(), "");
    let mut nulls = Nulls::default();
    let mut n_entries = 0;
    for batch in first.batches {
        let batch = columns.of(&batch?)?;
        n_entries += batch.num_rows() as u64;
        nulls.add(&batch);
    }
    let mut fields = nulls.fields(&columns.schema)?;
    for (field, was) in fields.iter_mut().zip(&columns.was) {
        if let Some(was) = was {
            field.description = format!("{was} in the table");
        }
    }
    // a table writer needs the schema, also without entries
    let none = RecordBatch::new_empty(first.schema);
    let none = (n_entries == 0).then_some(Ok(none));
    let again = none.into_iter().chain(table(inputs, format)?.batches);
    Ok(Source {
        fields,
        type_infos: Vec::new(),
        names: FieldNames::default(),
        origins: Vec::new(),
        name: "Events".into(),
        description: String::new(),
        n_entries,
        n_bytes: first.n_bytes,
        skipped: columns.skipped.clone(),
        notes: columns.notes.clone(),
        unmatched,
        left_behind: Vec::new(),
        attributes: Vec::new(),
        batches: Box::new(again.map(move |batch: Found| columns.of(&batch?))),
    })
}

fn table(inputs: &[Input], format: Format) -> Result<Table, RNTupleError> {
    let mut all: Option<Table> = None;
    for input in inputs {
        let next = match format {
            Format::Parquet => parquet(input)?,
            _ => ipc(input)?,
        };
        all = Some(match all {
            None => next,
            Some(mut table) => {
                check_alike(&table.schema, &next.schema, &input.shown())?;
                table.n_bytes += next.n_bytes;
                table.batches = Box::new(table.batches.chain(next.batches));
                table
            }
        });
    }
    all.ok_or_else(|| refused("", "nothing to convert"))
}

/// An error that lists all columns in which a table differs from the first.
fn check_alike(first: &Schema, next: &Schema, url: &str) -> Result<(), RNTupleError> {
    if first.fields() == next.fields() {
        return Ok(());
    }
    let mut reasons = Vec::new();
    for own in first.fields() {
        match next.field_with_name(own.name()) {
            Err(_) => reasons.push(format!("column {:?} is missing", own.name())),
            Ok(other) if own.data_type() != other.data_type() => reasons.push(format!(
                "{:?} is {} here, but {} in the first table",
                own.name(),
                arrow_type_name(other.data_type()),
                arrow_type_name(own.data_type())
            )),
            Ok(_) => {}
        }
    }
    let others = next.fields().iter();
    let others = others.filter(|other| first.field_with_name(other.name()).is_err());
    reasons.extend(others.map(|other| format!("{:?} is not in the first table", other.name())));
    if reasons.is_empty() {
        reasons.push("their order or nullability differs".to_owned());
    }
    let reasons = reasons.join("; ");
    Err(RNTupleError::Usage {
        what: format!("the columns of {url} differ from the first table: {reasons}"),
    })
}

fn parquet(input: &Input) -> Result<Table, RNTupleError> {
    let file = TableFile::open(input)?;
    let n_bytes = file.n_bytes();
    let builder = contained(&input.url, || {
        ParquetRecordBatchReaderBuilder::try_new(file)
    })?;
    let schema = builder.schema().clone();
    let rows = rows(builder.metadata().row_groups());
    let reader = contained(&input.url, || builder.with_batch_size(rows).build())?;
    Ok(Table {
        schema,
        n_bytes,
        batches: Box::new(Contained::new(&input.url, reader)),
    })
}

/// Number of rows per batch.
fn rows(groups: &[RowGroupMetaData]) -> usize {
    let columns = groups.iter().flat_map(|group| {
        let n_rows = group.num_rows().max(1);
        group
            .columns()
            .iter()
            .map(move |column| column.num_values() / n_rows)
    });
    let each = columns.max().and_then(|each| u64::try_from(each).ok());
    let rows = VALUES / each.unwrap_or(0).max(1);
    usize::try_from(rows).unwrap_or(ROWS).clamp(1, ROWS)
}

/// Whether these are the first bytes of a table.
pub(super) fn begins_as_table(bytes: &[u8]) -> bool {
    bytes.starts_with(PARQUET) || bytes.starts_with(MAGIC)
}

fn ipc(input: &Input) -> Result<Table, RNTupleError> {
    let file = TableFile::open(input)?;
    let n_bytes = file.n_bytes();
    let magic = file.beginning(MAGIC.len())?;
    let batches = contained(&input.url, || {
        if magic.starts_with(FEATHER_1) {
            let reason =
                "Feather version 1 is not supported: write it again, in version 2 or as Parquet";
            return Err(reason.to_owned());
        }
        let batches = if *magic == *MAGIC {
            ipc::Batches::of_file(file)
        } else {
            ipc::Batches::of_stream(file, BUFFER)
        };
        batches.map_err(|error| error.to_string())
    })?;
    Ok(Table {
        schema: batches.schema.clone(),
        n_bytes,
        batches: Box::new(Contained::new(&input.url, batches)),
    })
}

/// Opens a written table for comparison; the batches are not converted.
pub(super) fn reopen(url: &str, format: Format) -> Result<Batches, RNTupleError> {
    let input = Input {
        url: url.to_owned(),
        ..Input::default()
    };
    Ok(table(&[input], format)?.batches)
}
