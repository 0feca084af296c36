//! Attribute sets: attributes of ranges of entries are kept if the entries keep their positions.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{ReadOptions, Reader};
use femtobarn_rntuple::spec::LinkedAttributeSet;
use femtobarn_rntuple::write::{AttributeSetWriter, FieldModel, NTupleWriter, PageSink};

use super::format::Format;
use super::source::refused;
use crate::left_behind::LeftBehind;
use crate::ntuple::NTuple;

const START: &str = AttributeSetWriter::START;
const LENGTH: &str = AttributeSetWriter::LENGTH;
const DATA: &str = AttributeSetWriter::DATA;

/// The schema version that is written.
const VERSION: u16 = 1;

/// An attribute set: ranges of entries with one row of values each.
#[derive(Debug, PartialEq)]
pub(crate) struct Attributes {
    pub name: String,
    pub fields: Vec<FieldModel>,
    pub ranges: Vec<Range<u64>>,
    pub values: RecordBatch,
}

/// The attribute sets that are copied, and those that are not.
pub(super) fn find(ntuple: &NTuple, output: Format) -> (Vec<Attributes>, Vec<LeftBehind>) {
    let (mut found, mut left): (Vec<Attributes>, Vec<LeftBehind>) = Default::default();
    let obstacle = match (ntuple.readers(), output) {
        (_, Format::Parquet | Format::ArrowIpc) => Some("tables have no attribute sets"),
        ([_], Format::Root) => None,
        _ => Some("attribute sets of several files are not combined"),
    };
    for reader in ntuple.readers() {
        for link in &reader.descriptor().attribute_sets {
            let read = match obstacle {
                Some(reason) => Err(reason.to_owned()),
                None => Attributes::read(reader, link),
            };
            let reason = match read {
                Ok(set) if found.iter().any(|known| known.name == set.name) => {
                    "another attribute set has its name".to_owned()
                }
                Ok(set) => {
                    found.push(set);
                    continue;
                }
                Err(reason) => reason,
            };
            let set = left_set(reader, link, &reason);
            if !left.contains(&set) {
                left.push(set);
            }
        }
    }
    (found, left)
}

/// An attribute set that is not copied.
pub(crate) fn left_set(reader: &Reader, link: &LinkedAttributeSet, reason: &str) -> LeftBehind {
    let name = format!("{} {}", reader.path(), link.name);
    LeftBehind::object(&name, "attribute set", reason)
}

/// Fails if the written attribute sets differ from the read ones.
pub(super) fn check_equal(given: &[Attributes], found: &[Attributes]) -> Result<(), RNTupleError> {
    let is_equal = |given: &Attributes| {
        let found = found.iter().find(|found| found.name == given.name);
        found.is_some_and(|found| found.ranges == given.ranges && found.values == given.values)
    };
    match given.iter().find(|given| !is_equal(given)) {
        None => Ok(()),
        Some(set) => Err(refused(
            &set.name,
            "internal error: the written attribute set differs from the input; the output was discarded; please \
             report this",
        )),
    }
}

impl Attributes {
    /// Reads an attribute set; the error is the reason why it cannot be written again.
    pub fn read(reader: &Reader, link: &LinkedAttributeSet) -> Result<Self, String> {
        if link.schema_version_major != VERSION {
            return Err(format!(
                "its schema has version {}.{}",
                link.schema_version_major, link.schema_version_minor
            ));
        }
        if link.name.starts_with("__") || link.name.contains(['.', '/', '\\', ' ']) {
            return Err("its name cannot be written".to_owned());
        }
        let told = |error: RNTupleError| error.with_causes();
        let set = Arc::new(reader.attribute_set(link).map_err(told)?);
        let fields = data_fields(&set)?;
        let n_entries = set.n_entries();
        let ntuple = NTuple::of(vec![set]);
        let paths = [START, LENGTH, DATA].map(str::to_owned);
        let selection = ntuple.select(Some(&paths)).map_err(told)?;
        let read = ntuple.read(&selection, 0..n_entries, &ReadOptions::default());
        let batch = read.map_err(told)?.to_arrow();
        let batch = batch.map_err(|error| error.to_string())?;
        let numbers = |name: &str| {
            let column = batch.column_by_name(name)?;
            Some(column.as_primitive_opt::<UInt64Type>()?.values().clone())
        };
        let values = batch.column_by_name(DATA).and_then(|it| it.as_struct_opt());
        let (Some(starts), Some(lengths), Some(values)) = (numbers(START), numbers(LENGTH), values)
        else {
            return Err("it does not have the fields of an attribute set".to_owned());
        };
        let ranges = starts.iter().zip(&lengths);
        let ranges = ranges.map(|(&start, &length)| start..start.saturating_add(length));
        let ranges: Vec<Range<u64>> = ranges.collect();
        if let Some(range) = ranges.iter().find(|range| range.end > reader.n_entries()) {
            return Err(format!(
                "it refers to entries up to {}, but there are {}",
                range.end,
                reader.n_entries()
            ));
        }
        Ok(Self {
            name: link.name.clone(),
            fields,
            ranges,
            values: RecordBatch::from(values),
        })
    }

    /// Writes it next to its ntuple, which has all of the entries.
    pub fn write(
        &self,
        sink: &mut dyn PageSink,
        ntuple: &mut NTupleWriter,
    ) -> Result<(), RNTupleError> {
        let mut set = AttributeSetWriter::new(sink, ntuple, &self.name, &self.fields)?;
        for (row, range) in self.ranges.iter().enumerate() {
            set.append(sink, range.clone(), &self.values.slice(row, 1))?;
        }
        set.finish(sink, ntuple)
    }
}

/// The attributes of each range.
fn data_fields(set: &Reader) -> Result<Vec<FieldModel>, String> {
    let descriptor = set.descriptor();
    if let Some(skipped) = descriptor.skipped.first() {
        return Err(format!("{:?}: {}", skipped.name, skipped.reason));
    }
    let data = set.find_field(DATA).and_then(|id| descriptor.field(id));
    let data = data.ok_or("it does not have the fields of an attribute set")?;
    let models = data
        .children
        .iter()
        .map(|&id| FieldModel::with_data(descriptor, id));
    let models: Result<Vec<_>, _> = models.collect();
    models.map_err(|error: RNTupleError| error.with_causes())
}
