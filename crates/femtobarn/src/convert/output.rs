//! Writes the output.

use std::fs::File;
use std::io;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::writer::{FileWriter as IpcWriter, IpcWriteOptions};
use arrow_schema::DataType;
use femtobarn_io::{IoError, TempSibling};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::{NTupleWriter, all_or_none};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::attributes::Attributes;
use super::format::Format;
use super::options::ConvertOptions;
use super::source::{Source, refused};
use super::tables::VALUES;
use crate::staged::StagedOutput;
use crate::writable::Output;

/// A file being written.
pub(super) enum Sink {
    Root {
        file: Output,
        ntuple: Option<Box<NTupleWriter>>,
    },
    Parquet(Box<Table>),
    ArrowIpc(Box<Table>),
}

/// A table; it is created with the first batch, which has the schema.
pub(super) struct Table {
    file: Option<File>,
    name: String,
    settings: u32,
    parquet: Option<ArrowWriter<File>>,
    ipc: Option<IpcWriter<File>>,
}

impl Sink {
    pub fn create(
        format: Format,
        staged: &mut StagedOutput,
        options: &ConvertOptions,
    ) -> Result<Self, RNTupleError> {
        if format != Format::Root {
            return Self::table(format, staged.file()?, options);
        }
        let file = staged.writer(options.write.compression)?;
        Ok(Self::Root { file, ntuple: None })
    }

    /// Starts an ntuple; a table counts as one.
    pub fn begin(&mut self, source: &Source, options: &ConvertOptions) -> Result<(), RNTupleError> {
        let Self::Root { file, ntuple } = self else {
            return Ok(());
        };
        let mut write = options.write.clone();
        if write.description.is_empty() {
            write.description.clone_from(&source.description);
        }
        let (folder, own) = source.name.rsplit_once('/').unwrap_or(("", &source.name));
        let directory = file.directory(folder)?;
        let mut writer = NTupleWriter::new(file, directory, own, &source.fields, write)?;
        for info in &source.type_infos {
            writer.add_type_info(info.clone());
        }
        *ntuple = Some(Box::new(writer));
        Ok(())
    }

    fn table(
        format: Format,
        sibling: &TempSibling,
        options: &ConvertOptions,
    ) -> Result<Self, RNTupleError> {
        let table = Box::new(Table {
            file: Some(sibling.file()?),
            name: sibling.url().to_owned(),
            settings: options.write.compression,
            parquet: None,
            ipc: None,
        });
        Ok(match format {
            Format::Parquet => Self::Parquet(table),
            _ => Self::ArrowIpc(table),
        })
    }

    pub fn extend(&mut self, batch: &RecordBatch) -> Result<(), RNTupleError> {
        match self {
            Self::Root { file, ntuple } => match ntuple {
                Some(ntuple) => ntuple.extend(file, batch),
                None => Err(RNTupleError::internal(
                    "internal error: this ntuple was not started",
                )),
            },
            Self::Parquet(table) => table.parquet(batch),
            Self::ArrowIpc(table) => table.ipc(batch),
        }
    }

    /// Finishes an ntuple with the attributes of its entries.
    pub fn end(&mut self, attributes: &[Attributes]) -> Result<(), RNTupleError> {
        if let Self::Root { file, ntuple } = self
            && let Some(mut ntuple) = ntuple.take()
        {
            for set in attributes {
                set.write(file, &mut ntuple)?;
            }
            ntuple.finish(file)?;
        }
        Ok(())
    }

    /// Writes the remaining data, so that the output can be read if its values are to be verified.
    pub fn finish(self, staged: &mut StagedOutput, verify: bool) -> Result<(), RNTupleError> {
        match self {
            Self::Root { file, .. } => staged.complete(file, verify),
            Self::Parquet(table) | Self::ArrowIpc(table) => table.finish(),
        }
    }
}

impl Table {
    /// The error of a table writer: a disk error, or values that the format does not support.
    fn failed(&self, error: impl std::error::Error + 'static) -> RNTupleError {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(next) = cause {
            if let Some(found) = next.downcast_ref::<io::Error>() {
                return RNTupleError::Io(IoError::WriteStream {
                    url: self.name.clone(),
                    source: found.raw_os_error().map_or_else(
                        || io::Error::new(found.kind(), found.to_string()),
                        io::Error::from_raw_os_error,
                    ),
                });
            }
            cause = next.source();
        }
        refused(&self.name, error.to_string())
    }

    fn parquet(&mut self, batch: &RecordBatch) -> Result<(), RNTupleError> {
        if let Some(file) = self.file.take() {
            let schema = batch.schema();
            all_or_none(schema.fields().iter().map(|field| {
                let reason = "Parquet does not support variants: leave it out";
                match has_union(field.data_type()) {
                    true => Err(refused(field.name(), reason)),
                    false => Ok(()),
                }
            }))?;
            let properties = WriterProperties::builder()
                .set_compression(compression(self.settings))
                .set_created_by(concat!("femtobarn ", env!("CARGO_PKG_VERSION")).to_owned())
                .build();
            let writer = ArrowWriter::try_new(file, batch.schema(), Some(properties));
            self.parquet = Some(writer.map_err(|error| self.failed(error))?);
        }
        let Some(writer) = &mut self.parquet else {
            return Ok(());
        };
        // Parquet's writer takes some 25 bytes of memory for each value of a batch
        let (n_rows, n_values) = (batch.num_rows(), most_values(batch.columns()));
        let pieces = n_values.div_ceil(VALUES).max(1);
        let step = usize::try_from((n_rows as u64).div_ceil(pieces)).unwrap_or(1);
        let written = (0..n_rows).step_by(step.max(1)).try_for_each(|from| {
            let slice = batch.slice(from, step.min(n_rows - from));
            writer.write(&slice)
        });
        written.map_err(|error| self.failed(error))
    }

    fn ipc(&mut self, batch: &RecordBatch) -> Result<(), RNTupleError> {
        if let Some(file) = self.file.take() {
            let codec = match self.settings / 100 {
                _ if self.settings.is_multiple_of(100) => None,
                4 => Some(arrow_ipc::CompressionType::LZ4_FRAME),
                _ => Some(arrow_ipc::CompressionType::ZSTD),
            };
            let options = IpcWriteOptions::default().try_with_compression(codec);
            let options = options.map_err(|error| self.failed(error))?;
            let writer = IpcWriter::try_new_with_options(file, &batch.schema(), options);
            self.ipc = Some(writer.map_err(|error| self.failed(error))?);
        }
        let written = self.ipc.as_mut().map(|writer| writer.write(batch));
        written.transpose().map_err(|error| self.failed(error))?;
        Ok(())
    }

    fn finish(mut self) -> Result<(), RNTupleError> {
        if self.file.is_some() {
            let reason = "a table needs at least one entry to determine its types";
            return Err(refused(&self.name, reason));
        }
        if let Some(writer) = self.parquet.take() {
            let file = writer.into_inner().map_err(|error| self.failed(error))?;
            file.sync_all().map_err(|error| self.failed(error))?;
        }
        if let Some(writer) = self.ipc.take() {
            let file = writer.into_inner().map_err(|error| self.failed(error))?;
            file.sync_all().map_err(|error| self.failed(error))?;
        }
        Ok(())
    }
}

/// Number of values in the longest column, including items of lists.
fn most_values(columns: &[ArrayRef]) -> u64 {
    let each = columns.iter().map(|column| {
        let below = match column.data_type() {
            DataType::List(_) => column.as_list::<i32>().values(),
            DataType::LargeList(_) => column.as_list::<i64>().values(),
            DataType::FixedSizeList(..) => column.as_fixed_size_list().values(),
            DataType::Map(..) => return most_values(column.as_map().entries().columns()),
            DataType::Struct(_) => return most_values(column.as_struct().columns()),
            _ => return column.len() as u64,
        };
        most_values(std::slice::from_ref(below)).max(column.len() as u64)
    });
    each.max().unwrap_or(0)
}

/// Whether a type contains a variant.
fn has_union(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            has_union(item.data_type())
        }
        DataType::Struct(members) => members.iter().any(|member| has_union(member.data_type())),
        _ => false,
    }
}

fn compression(settings: u32) -> Compression {
    let level = settings % 100;
    match settings / 100 {
        _ if level == 0 => Compression::UNCOMPRESSED,
        1 => Compression::GZIP(GzipLevel::try_new(level).unwrap_or_default()),
        4 => Compression::LZ4_RAW,
        _ => {
            let level = i32::try_from(level).unwrap_or(5);
            Compression::ZSTD(ZstdLevel::try_new(level).unwrap_or_default())
        }
    }
}
