//! Attribute sets of a merged ntuple.

use std::ops::Range;

use arrow_array::RecordBatch;

use super::super::attributes::AttributeSetWriter;
use super::super::model::FieldModel;
use super::super::sink::PageSink;
use super::writer::NTupleMerger;
use crate::RNTupleError;

impl NTupleMerger {
    /// Writes an attribute set: one row of values per range of entries. An existing one of the name is replaced.
    ///
    /// # Errors
    /// If a field cannot be written, or writing fails.
    pub fn write_attribute_set(
        &mut self,
        sink: &mut dyn PageSink,
        (name, fields): (&str, &[FieldModel]),
        ranges: &[Range<u64>],
        values: &RecordBatch,
    ) -> Result<(), RNTupleError> {
        let mut set = AttributeSetWriter::begin(sink, name, fields, &self.options.write)?;
        set.extend(sink, ranges, values)?;
        let link = set.close(sink)?;
        let sets = &mut self.catalog.attribute_sets;
        match sets.iter_mut().find(|known| known.name == name) {
            Some(known) => *known = link,
            None => sets.push(link),
        }
        Ok(())
    }
}
