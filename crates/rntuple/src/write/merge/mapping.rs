//! Maps the columns of an input to those of the output.

use std::collections::HashMap;
use std::sync::Arc;

use super::schema::{MergedSchema, Mode, Names, closure, has_late_items};
use crate::RNTupleError;
use crate::read::Reader;
use crate::schema::{Descriptor, FieldId};
use crate::spec::FieldRecord;
use crate::write::model::is_same_type;
use femtobarn_io::did_you_mean;

/// The mapping of an input's columns.
#[derive(Debug, Default)]
pub(super) struct Mapping {
    /// The top-level fields of the output in this mapping.
    pub output: Vec<u32>,
    pub fields: Vec<FieldMapping>,
    /// Index of the output's fields among these.
    places: HashMap<u32, usize>,
    /// Whether columns below collections begin later than the collections.
    pub has_late_items: bool,
    /// Top-level fields of the input that the output does not have.
    pub left_out: Arc<[String]>,
    /// Top-level fields of the output that the input does not have.
    pub missing: Arc<[String]>,
}

impl Mapping {
    /// The mapping of a field of the output.
    pub fn field(&self, output: u32) -> Option<&FieldMapping> {
        self.places.get(&output).and_then(|&at| self.fields.get(at))
    }
}

/// A field of the output with columns.
#[derive(Debug)]
pub(super) struct FieldMapping {
    pub output: u32,
    /// The field of the input; none if it does not exist there.
    pub input: Option<FieldId>,
    /// For each representation of the input.
    pub ways: Vec<Way>,
}

/// A representation of an input, and the corresponding one of the output.
#[derive(Debug)]
pub(super) struct Way {
    pub input: Vec<u32>,
    pub output: Vec<u32>,
    /// Whether the elements must be re-encoded.
    pub reencode: bool,
}

/// The top-level fields by name; of equal names, the first.
fn by_name(descriptor: &Descriptor) -> HashMap<&str, FieldId> {
    let mut out = HashMap::new();
    for &id in &descriptor.top_level {
        out.entry(descriptor.field_name(id)).or_insert(id);
    }
    out
}

impl MergedSchema {
    /// Maps the columns of an ntuple that has these top-level fields of the output.
    pub(super) fn map_own(
        &mut self,
        reader: &Reader,
        fields: &[u32],
    ) -> Result<Mapping, RNTupleError> {
        let descriptor = reader.descriptor();
        let mut mapping = Mapping {
            has_late_items: has_late_items(descriptor),
            ..Mapping::default()
        };
        let by_name = by_name(descriptor);
        for &own in fields {
            let found = by_name.get(self.own_path(own).as_str()).copied();
            mapping.output.push(own);
            self.map_field(reader, own, found, true, &[], &mut mapping)?;
        }
        Ok(mapping)
    }

    /// All columns of the fields of a mapping.
    pub(super) fn columns_of(&self, mapping: &Mapping) -> Vec<u32> {
        let fields = mapping.fields.iter();
        let all = fields.filter_map(|field| self.representations.get(field.output as usize));
        all.flatten().flatten().copied().collect()
    }

    /// Whether an input may have new fields or representations.
    pub(super) fn may_grow(
        &self,
        reader: &Reader,
        (mode, compatible): (Mode, bool),
        takes: &dyn Fn(&str) -> bool,
    ) -> bool {
        let descriptor = reader.descriptor();
        let mut names = descriptor
            .top_level
            .iter()
            .map(|&id| descriptor.field_name(id));
        let is_new = |name: &str| !self.has(name) && takes(name);
        !compatible || (mode == Mode::Union && names.any(is_new))
    }

    /// Names of the first few fields whose encoding in an input differs.
    pub(super) fn reencoded(&self, mapping: &Mapping) -> Vec<String> {
        let is_other = |field: &&FieldMapping| field.ways.iter().any(|way| way.reencode);
        let others = mapping.fields.iter().filter(is_other);
        others.map(|field| self.path(field.output)).collect()
    }

    /// Maps the columns of an input that follows `n_entries` entries of others. With `compatible`, no representations are
    /// added to columns: ROOT 6.40 assumes that columns that begin later have one element per entry, and uproot 5.7 does
    /// not find the pages of a representation that is used again. `n_elements` is the number of elements of each column
    /// so far.
    pub(super) fn map(
        &mut self,
        reader: &Reader,
        (mode, compatible): (Mode, bool),
        takes: &dyn Fn(&str) -> bool,
        (n_entries, n_elements): (u64, &[u64]),
    ) -> Result<Mapping, RNTupleError> {
        let descriptor = reader.descriptor();
        let mut mapping = Mapping {
            has_late_items: has_late_items(descriptor),
            ..Mapping::default()
        };
        let is_new = |id: &FieldId| {
            let name = descriptor.field_name(*id);
            !self.has(name) && takes(name)
        };
        let top_level = descriptor.top_level.iter().copied();
        let new: Vec<FieldId> = top_level.filter(is_new).collect();
        let names = |ids: &[FieldId]| -> Vec<String> {
            ids.iter()
                .map(|&id| descriptor.field_name(id).to_owned())
                .collect()
        };
        match mode {
            Mode::Union => {
                let chosen = closure(descriptor, &new);
                self.append(reader, &chosen, Some(n_entries), &Names::new())?;
            }
            Mode::Strict if !new.is_empty() => {
                let name = names(&new).swap_remove(0);
                let reason = "the first file does not have it (mode strict requires the same fields in all files; union adds fields, filter leaves them out)";
                return Err(self.mismatch(reader, &name, 0, reason));
            }
            Mode::Strict | Mode::Filter => mapping.left_out = names(&new).into(),
        }
        let by_name = by_name(descriptor);
        let mut missing = Vec::new();
        for own in self.top_level().collect::<Vec<_>>() {
            let name = self.path(own);
            let found = by_name.get(name.as_str()).copied();
            if found.is_none() {
                if mode != Mode::Union {
                    let near = did_you_mean(&name, new.iter().map(|&id| descriptor.field_name(id)));
                    let reason = format!(
                        "it does not exist (leave it out of the fields, or merge in mode union, which fills it with zero or empty values){near}"
                    );
                    return Err(self.mismatch(reader, &name, own, &reason));
                }
                // a projected field exists if its source does
                let source = self.record(own).and_then(|record| record.source_id);
                let source = source.map(|id| self.path(self.top_of(id)));
                if source.is_none_or(|name| !by_name.contains_key(name.as_str())) {
                    missing.push(name);
                }
            }
            mapping.output.push(own);
            self.map_field(reader, own, found, compatible, n_elements, &mut mapping)?;
        }
        mapping.missing = missing.into();
        Ok(mapping)
    }

    pub(super) fn map_field(
        &mut self,
        reader: &Reader,
        own: u32,
        other: Option<FieldId>,
        compatible: bool,
        n_elements: &[u64],
        mapping: &mut Mapping,
    ) -> Result<(), RNTupleError> {
        let children = self.children(own).to_vec();
        let mut others = vec![None; children.len()];
        if let Some(other) = other {
            self.compare(reader, own, other)?;
            let descriptor = reader.descriptor();
            let below = descriptor
                .field(other)
                .map_or(&[][..], |f| f.children.as_slice());
            for (child, slot) in children.iter().zip(&mut others) {
                let name = self
                    .record(*child)
                    .map_or("", |record| record.name.as_str());
                let mut below = below.iter().copied();
                *slot = below.find(|&id| descriptor.field_name(id) == name);
                if slot.is_none() {
                    let reason = format!(
                        "it has no member {name:?} here, but has one there (leave this field out by naming the others)"
                    );
                    return Err(self.mismatch(reader, &self.path(own), own, &reason));
                }
            }
        }
        let is_projected = self
            .record(own)
            .is_some_and(|record| record.source_id.is_some());
        if self.has_columns(own) && !is_projected {
            let ways = match other {
                None => Vec::new(),
                Some(other) => self.ways(reader, own, other, compatible, n_elements)?,
            };
            mapping.places.insert(own, mapping.fields.len());
            mapping.fields.push(FieldMapping {
                output: own,
                input: other,
                ways,
            });
        }
        for (child, other) in children.into_iter().zip(others) {
            self.map_field(reader, child, other, compatible, n_elements, mapping)?;
        }
        Ok(())
    }

    /// Checks that two fields have the same type.
    fn compare(&self, reader: &Reader, own: u32, other: FieldId) -> Result<(), RNTupleError> {
        let descriptor = reader.descriptor();
        let Some((mine, field)) = self.record(own).zip(descriptor.field(other)) else {
            return Ok(());
        };
        let theirs = &field.record;
        let source = |source: Option<String>| source.unwrap_or_else(|| "its own data".to_owned());
        let checksums = mine.type_checksum.zip(theirs.type_checksum);
        let differs = |what: &str, here: &dyn std::fmt::Display, there: &dyn std::fmt::Display| {
            Some(format!("its {what} is {here} here, and {there} there"))
        };
        let type_of = |record: &FieldRecord| match record.type_name.as_str() {
            "" => format!("a {} without a class", record.role.name()),
            name => format!("{name:?}"),
        };
        let (own_source, their_source) = (
            source(mine.source_id.map(|id| self.own_path(id))),
            source(theirs.source_id.map(|id| descriptor.qualified_name(id))),
        );
        let is_same = is_same_type(&mine.type_name, &theirs.type_name) && mine.role == theirs.role;
        let reason = if !is_same {
            differs("type", &type_of(theirs), &type_of(mine))
        } else if mine.type_version != theirs.type_version {
            differs("class version", &theirs.type_version, &mine.type_version)
        } else if let Some((a, b)) = checksums.filter(|(a, b)| a != b) {
            differs("class checksum", &format!("{b:#x}"), &format!("{a:#x}"))
        } else if mine.array_size != theirs.array_size {
            let size = |size: Option<u64>| size.map_or("none".to_owned(), |size| size.to_string());
            differs("size", &size(theirs.array_size), &size(mine.array_size))
        } else if own_source != their_source {
            Some(format!(
                "its data are those of {their_source} here, and {own_source} there"
            ))
        } else if field.children.len() != self.children(own).len() && !self.is_cut(own) {
            let own = self.children(own).len();
            differs("number of members", &field.children.len(), &own)
        } else {
            None
        };
        match reason {
            None => Ok(()),
            Some(reason) => Err(self.mismatch(reader, &self.path(own), own, &reason)),
        }
    }
}
