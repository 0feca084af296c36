//! Attribute sets: values for ranges of entries, in a linked ntuple.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StructArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};

use super::model::{FieldModel, check_name, unwritable};
use super::ntuple::NTupleWriter;
use super::options::WriteOptions;
use super::sink::PageSink;
use crate::RNTupleError;
use crate::schema::DType;
use crate::spec::{LinkedAttributeSet, StoredRange, write as spec};

/// Writes an attribute set, like ROOT's `RNTupleAttrSetWriter`.
#[derive(Debug)]
pub struct AttributeSetWriter {
    ntuple: NTupleWriter,
    /// The end of the last range.
    end: u64,
}

impl AttributeSetWriter {
    /// Field with the first entry of a range.
    pub const START: &str = "_rangeStart";
    /// Field with the number of entries of a range.
    pub const LENGTH: &str = "_rangeLen";
    /// Field with the values of a range.
    pub const DATA: &str = "_userData";

    /// Begins an attribute set for an ntuple, with these fields for each range of entries.
    ///
    /// # Errors
    /// If the name is taken, or a field cannot be written.
    pub fn new(
        sink: &mut dyn PageSink,
        ntuple: &NTupleWriter,
        name: &str,
        fields: &[FieldModel],
    ) -> Result<Self, RNTupleError> {
        check_name(name)?;
        if name.starts_with("__") || ntuple.has_attribute_set(name) {
            let reason =
                "an attribute set needs a unique name that does not begin with two underscores";
            return Err(unwritable(name, reason));
        }
        Self::begin(sink, name, fields, ntuple.options())
    }

    /// Begins an attribute set that the writer of its ntuple links.
    pub(super) fn begin(
        sink: &mut dyn PageSink,
        name: &str,
        fields: &[FieldModel],
        options: &WriteOptions,
    ) -> Result<Self, RNTupleError> {
        let model = [
            FieldModel::number(Self::START, DType::UInt64),
            FieldModel::number(Self::LENGTH, DType::UInt64),
            FieldModel::record(Self::DATA, "", fields.to_vec()),
        ];
        let options = WriteOptions {
            description: String::new(),
            ..options.clone()
        };
        let sink = sink.attribute_set(name)?;
        let ntuple = NTupleWriter::new(sink, 0, name, &model, options)?;
        Ok(Self { ntuple, end: 0 })
    }

    /// Adds the values of a range of entries: one row of the fields.
    ///
    /// # Errors
    /// If the batch is not one row of the fields, or writing fails.
    pub fn append(
        &mut self,
        sink: &mut dyn PageSink,
        entries: Range<u64>,
        values: &RecordBatch,
    ) -> Result<(), RNTupleError> {
        if values.num_rows() != 1 || entries.start > entries.end {
            let reason = format!(
                "{} rows for entries {} to {}: give one row, and a range that does not end before it begins",
                values.num_rows(),
                entries.start,
                entries.end
            );
            return Err(unwritable(self.ntuple.name(), reason));
        }
        self.extend(sink, &[entries], values)
    }

    /// Adds the values of several ranges of entries: one row of the fields for each.
    pub(super) fn extend(
        &mut self,
        sink: &mut dyn PageSink,
        ranges: &[Range<u64>],
        values: &RecordBatch,
    ) -> Result<(), RNTupleError> {
        let numbers = |number: fn(&Range<u64>) -> u64| {
            let numbers = ranges.iter().map(number);
            Arc::new(UInt64Array::from_iter_values(numbers)) as ArrayRef
        };
        let columns = [
            (Self::START, numbers(|range| range.start)),
            (Self::LENGTH, numbers(|range| range.end - range.start)),
            (
                Self::DATA,
                Arc::new(StructArray::from(values.clone())) as ArrayRef,
            ),
        ];
        let field = |(name, array): &(&str, ArrayRef)| {
            let data_type: DataType = array.data_type().clone();
            Field::new(*name, data_type, false)
        };
        let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(Arc::new(schema), arrays)
            .map_err(|error| unwritable(self.ntuple.name(), error.to_string()))?;
        let sink = sink.attribute_set(self.ntuple.name())?;
        self.ntuple.extend(sink, &batch)?;
        let end = ranges.iter().map(|range| range.end).max();
        self.end = self.end.max(end.unwrap_or(0));
        Ok(())
    }

    /// Writes the remaining data, and links the set to its ntuple. When the ntuple is finished, it must have all
    /// entries of the ranges.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(
        self,
        sink: &mut dyn PageSink,
        ntuple: &mut NTupleWriter,
    ) -> Result<(), RNTupleError> {
        let end = self.end;
        ntuple.link_attribute_set(self.close(sink)?, end);
        Ok(())
    }

    /// Writes the remaining data; returns the link for the ntuple.
    pub(super) fn close(
        mut self,
        sink: &mut dyn PageSink,
    ) -> Result<LinkedAttributeSet, RNTupleError> {
        let name = self.ntuple.name().to_owned();
        let mut link = LinkedAttributeSet {
            schema_version_major: 1,
            schema_version_minor: 0,
            anchor_length: 0,
            anchor: StoredRange::default(),
            name: name.clone(),
        };
        if !sink.links_sets() {
            self.ntuple.finish(sink.attribute_set(&name)?)?;
            return Ok(link);
        }
        let anchor = spec::anchor(&self.ntuple.close(sink)?);
        link.anchor_length = u32::try_from(anchor.len()).unwrap_or(u32::MAX);
        link.anchor = StoredRange {
            address: sink.append_payload(&anchor, self.ntuple.options())?,
            size: anchor.len() as u64,
        };
        Ok(link)
    }
}
