//! Parquet and Arrow IPC as inputs.

use std::collections::HashMap;
use std::fs::File;
use std::io::Seek;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, make_array};
use arrow_ipc::reader::FileReader as IpcReader;
use arrow_schema::{DataType, Schema, SchemaRef};
use femtobarn_rntuple::RNTupleError;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::ConvertOptions;
use super::input::{Batches, Input, Source, Wanted, refused};
use super::output::Format;

/// Rows of a batch.
const ROWS: usize = 16 << 10;

type Found = Result<RecordBatch, RNTupleError>;

/// A table in a file.
struct Table {
    schema: SchemaRef,
    n_entries: u64,
    n_bytes: u64,
    batches: Batches,
}

/// Opens tables as one input. They are read twice: which values are missing decides what becomes `std::optional`.
pub(super) fn open(
    inputs: &[Input],
    format: Format,
    options: &ConvertOptions,
) -> Result<Source, RNTupleError> {
    let first = table(inputs, format)?;
    let mut wanted = Wanted::new(options);
    let names = first
        .schema
        .fields()
        .iter()
        .map(|field| field.name().clone());
    let chosen: Vec<usize> = names
        .enumerate()
        .filter(|(_, name)| wanted.takes(name))
        .map(|(at, _)| at)
        .collect();
    wanted.check(inputs.first().map_or("", |input| &input.url))?;
    let project = |batches: Batches, chosen: Vec<usize>| -> Batches {
        Box::new(batches.map(move |batch| plain(&project(&batch?, &chosen)?)))
    };
    let mut nulls = femtobarn_rntuple::write::Nulls::default();
    let mut n_entries = 0;
    for batch in project(first.batches, chosen.clone()) {
        let batch = batch?;
        n_entries += batch.num_rows() as u64;
        nulls.add(&batch);
    }
    let schema = plain_schema(&first.schema, &chosen);
    let mut fields = nulls.fields(&schema)?;
    let mut notes = Vec::new();
    for (field, &at) in fields.iter_mut().zip(&chosen) {
        let given = first
            .schema
            .fields()
            .get(at)
            .map(|field| field.data_type().clone());
        if let Some(given) = given.filter(|given| integer(given).is_some()) {
            field.description = format!("{given} in the table that it was made of");
            notes.push((
                field.name.clone(),
                format!("{given} is written as an integer"),
            ));
        }
    }
    let again = table(inputs, format)?;
    Ok(Source {
        fields,
        type_infos: Vec::new(),
        name: "Events".into(),
        description: String::new(),
        n_entries: n_entries.max(first.n_entries),
        n_bytes: first.n_bytes,
        notes,
        batches: project(again.batches, chosen),
    })
}

fn table(inputs: &[Input], format: Format) -> Result<Table, RNTupleError> {
    let mut all: Option<Table> = None;
    for input in inputs {
        let next = match format {
            Format::Parquet => parquet(&input.url)?,
            _ => ipc(&input.url)?,
        };
        all = Some(match all {
            None => next,
            Some(mut table) => {
                if table.schema.fields() != next.schema.fields() {
                    let reason = "its columns are others than those of the first table";
                    return Err(refused(&input.url, reason));
                }
                table.n_entries += next.n_entries;
                table.n_bytes += next.n_bytes;
                table.batches = Box::new(table.batches.chain(next.batches));
                table
            }
        });
    }
    all.ok_or_else(|| refused("", "there is nothing to convert"))
}

fn file(url: &str) -> Result<(File, u64), RNTupleError> {
    let path = url.strip_prefix("file://").unwrap_or(url);
    let opened = File::open(path).and_then(|mut file| {
        let n_bytes = file.metadata()?.len();
        file.rewind()?;
        Ok((file, n_bytes))
    });
    Ok(opened.map_err(|source| femtobarn_io::IoError::from_open(url, source))?)
}

fn unreadable(url: &str) -> impl Fn(&dyn std::fmt::Display) -> RNTupleError + Send + use<> {
    let url = url.to_owned();
    move |error| refused(&url, format!("it cannot be read: {error}"))
}

fn parquet(url: &str) -> Result<Table, RNTupleError> {
    let (file, n_bytes) = file(url)?;
    let failed = unreadable(url);
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| failed(&error))?;
    let schema = builder.schema().clone();
    let n_entries = builder.metadata().file_metadata().num_rows();
    let reader = builder
        .with_batch_size(ROWS)
        .build()
        .map_err(|error| failed(&error))?;
    Ok(Table {
        schema,
        n_entries: n_entries.unsigned_abs(),
        n_bytes,
        batches: Box::new(reader.map(move |batch| batch.map_err(|error| failed(&error)))),
    })
}

fn ipc(url: &str) -> Result<Table, RNTupleError> {
    let (file, n_bytes) = file(url)?;
    let failed = unreadable(url);
    let reader = IpcReader::try_new_buffered(file, None).map_err(|error| failed(&error))?;
    Ok(Table {
        schema: reader.schema(),
        n_entries: 0,
        n_bytes,
        batches: Box::new(reader.map(move |batch| batch.map_err(|error| failed(&error)))),
    })
}

fn project(batch: &RecordBatch, chosen: &[usize]) -> Found {
    batch
        .project(chosen)
        .map_err(|error| refused("", error.to_string()))
}

/// The integers that times, dates and durations are.
fn integer(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Timestamp(..)
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Duration(_) => DataType::Int64,
        DataType::Date32 | DataType::Time32(_) => DataType::Int32,
        _ => return None,
    })
}

fn plain_schema(schema: &Schema, chosen: &[usize]) -> Schema {
    let fields = chosen.iter().filter_map(|&at| schema.fields().get(at));
    let fields = fields.map(|field| {
        let integer = integer(field.data_type());
        let data_type = integer.unwrap_or_else(|| field.data_type().clone());
        // the metadata of producers says nothing about the data
        field
            .as_ref()
            .clone()
            .with_data_type(data_type)
            .with_metadata(HashMap::new())
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// Times, dates and durations as integers; the rest as it is.
fn plain(batch: &RecordBatch) -> Found {
    let all: Vec<usize> = (0..batch.num_columns()).collect();
    let schema = plain_schema(&batch.schema(), &all);
    let columns = batch
        .columns()
        .iter()
        .map(|array| -> Result<ArrayRef, RNTupleError> {
            match integer(array.data_type()) {
                None => Ok(array.clone()),
                Some(data_type) => {
                    let data = array.to_data().into_builder().data_type(data_type).build();
                    data.map(make_array)
                        .map_err(|error| refused("", error.to_string()))
                }
            }
        });
    let columns = columns.collect::<Result<_, _>>()?;
    RecordBatch::try_new(Arc::new(schema), columns).map_err(|error| refused("", error.to_string()))
}

/// Opens a table that was made, to be compared: its batches as they are.
pub(super) fn reopen(url: &str, format: Format) -> Result<Batches, RNTupleError> {
    let input = Input {
        url: url.to_owned(),
        path: None,
    };
    Ok(table(&[input], format)?.batches)
}
