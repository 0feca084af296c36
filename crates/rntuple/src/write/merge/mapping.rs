//! Maps the columns of an input to those of the output.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::schema::{Fitting, MergedSchema, Mode, Names, closure, has_late_items, renamed};
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
    /// A member of the input's items that has as many elements, if the items exist, but not this member of theirs.
    pub sibling: Option<FieldId>,
    /// For each representation of the input.
    pub ways: Vec<Way>,
}

/// How the fields of an input are mapped.
struct Mapper<'a> {
    reader: &'a Reader,
    /// The names that its fields have in the output.
    names: Names,
    how: Fitting,
    /// Number of elements of each column of the output so far.
    n_elements: &'a [u64],
    /// Members of items that the input does not have.
    lacking: HashSet<u32>,
    mapping: Mapping,
}

impl<'a> Mapper<'a> {
    fn new(reader: &'a Reader, names: Names, how: Fitting, n_elements: &'a [u64]) -> Self {
        Self {
            reader,
            names,
            how,
            n_elements,
            lacking: HashSet::new(),
            mapping: Mapping {
                has_late_items: has_late_items(reader.descriptor()),
                ..Mapping::default()
            },
        }
    }
}

/// A representation of an input, and the corresponding one of the output.
#[derive(Debug)]
pub(super) struct Way {
    pub input: Vec<u32>,
    pub output: Vec<u32>,
    /// Whether the elements must be re-encoded.
    pub reencode: bool,
}

/// The top-level fields by their names in the output; of equal names, the first.
fn by_name<'a>(descriptor: &'a Descriptor, names: &'a Names) -> HashMap<&'a str, FieldId> {
    let mut out = HashMap::new();
    for &id in &descriptor.top_level {
        out.entry(name_of(descriptor, id, names)).or_insert(id);
    }
    out
}

fn name_of<'a>(descriptor: &'a Descriptor, id: FieldId, names: &'a Names) -> &'a str {
    let own = || descriptor.field_name(id);
    names.get(&id).map_or_else(own, String::as_str)
}

impl MergedSchema {
    /// Maps the columns of an ntuple that has these top-level fields of the output.
    pub(super) fn map_own(
        &mut self,
        reader: &Reader,
        fields: &[u32],
    ) -> Result<Mapping, RNTupleError> {
        let descriptor = reader.descriptor();
        let no_names = Names::new();
        let by_name = by_name(descriptor, &no_names);
        let found = |&own: &u32| (own, by_name.get(self.own_path(own).as_str()).copied());
        let found: Vec<(u32, Option<FieldId>)> = fields.iter().map(found).collect();
        let names = found.iter();
        let names = names.filter_map(|&(own, found)| Some((found?, self.path(own))));
        let how = Fitting {
            mode: Mode::Strict,
            compatible: true,
            chooses: false,
        };
        let mut mapper = Mapper::new(reader, names.collect(), how, &[]);
        for (own, found) in found {
            mapper.mapping.output.push(own);
            self.map_field(&mut mapper, own, found, None)?;
        }
        Ok(mapper.mapping)
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
        how: Fitting,
        takes: &dyn Fn(&str) -> bool,
    ) -> bool {
        let is_new = || {
            let (descriptor, names) = (reader.descriptor(), self.names_of(reader));
            let mut top_level = descriptor.top_level.iter();
            top_level.any(|&id| {
                !self.has(name_of(descriptor, id, &names)) && takes(descriptor.field_name(id))
            })
        };
        !how.compatible || (how.mode == Mode::Union && is_new())
    }

    /// Names of the first few fields whose encoding in an input differs.
    pub(super) fn reencoded(&self, mapping: &Mapping) -> Vec<String> {
        let is_other = |field: &&FieldMapping| field.ways.iter().any(|way| way.reencode);
        let others = mapping.fields.iter().filter(is_other);
        others.map(|field| self.path(field.output)).collect()
    }

    /// Maps the columns of an input that follows `n_entries` entries of others. `n_elements` is the number of elements of
    /// each column so far.
    pub(super) fn map(
        &mut self,
        reader: &Reader,
        how: Fitting,
        takes: &dyn Fn(&str) -> bool,
        (n_entries, n_elements): (u64, &[u64]),
    ) -> Result<Mapping, RNTupleError> {
        let descriptor = reader.descriptor();
        let own_names = self.names_of(reader);
        let mut mapper = Mapper::new(reader, own_names.clone(), how, n_elements);
        let is_new = |id: &FieldId| {
            !self.has(name_of(descriptor, *id, &own_names)) && takes(descriptor.field_name(*id))
        };
        let top_level = descriptor.top_level.iter().copied();
        let new: Vec<FieldId> = top_level.filter(is_new).collect();
        let names = |ids: &[FieldId]| -> Vec<String> {
            ids.iter()
                .map(|&id| descriptor.field_name(id).to_owned())
                .collect()
        };
        match how.mode {
            Mode::Union => {
                let chosen = closure(descriptor, &new);
                self.append(reader, &chosen, Some(n_entries), &own_names)?;
            }
            Mode::Strict if !new.is_empty() => {
                let is_shown = |id: &&FieldId| !descriptor.is_hidden_source(**id);
                let shown = new.iter().find(is_shown).or(new.first());
                let name = shown.map_or("", |&id| descriptor.field_name(id));
                let reason = "the first file does not have it (mode strict requires the same fields in all files; union adds fields, filter leaves them out)";
                return Err(self.mismatch(reader, name, 0, reason));
            }
            Mode::Strict | Mode::Filter => mapper.mapping.left_out = names(&new).into(),
        }
        let by_name = by_name(descriptor, &own_names);
        let mut missing = Vec::new();
        for own in self.top_level().collect::<Vec<_>>() {
            let name = self.path(own);
            let found = by_name.get(name.as_str()).copied();
            if found.is_none() {
                if how.mode != Mode::Union {
                    let near = did_you_mean(&name, new.iter().map(|&id| descriptor.field_name(id)));
                    return Err(self.lacks(&mapper, own, &near));
                }
                missing.push(own);
            }
            mapper.mapping.output.push(own);
            self.map_field(&mut mapper, own, found, None)?;
        }
        // a projected field exists if its source does
        missing.retain(|&own| {
            let has = |source: u32| {
                let top = self.path(self.top_of(source));
                by_name.contains_key(top.as_str()) && !mapper.lacking.contains(&source)
            };
            let source = |id: u32| self.record(id).and_then(|record| record.source_id);
            let items = self.children(own).iter();
            let sources = source(own).into_iter();
            let mut sources = sources.chain(items.filter_map(|&item| source(item)));
            source(own).is_none() || !sources.all(has)
        });
        let missing = missing.into_iter().map(|own| self.path(own));
        mapper.mapping.missing = missing.collect();
        Ok(mapper.mapping)
    }

    /// The error of a field that an input does not have.
    fn lacks(&self, mapper: &Mapper<'_>, own: u32, near: &str) -> RNTupleError {
        let shown = self.shown_path(own);
        if mapper.reader.find_field(&shown).is_some() {
            let reason = stored_apart(&self.path(own), false);
            return self.mismatch(mapper.reader, &shown, own, &reason);
        }
        let union = match mapper.how.chooses {
            true => "skim each file by itself, and merge the outputs in mode union",
            false => "merge in mode union",
        };
        let reason = format!(
            "it does not exist (leave it out of the fields, or {union}, which fills it with zero or empty values){near}"
        );
        self.mismatch(mapper.reader, &self.shown_path(own), own, &reason)
    }

    /// Maps a field. `sibling` is a member of the input's items that has as many elements.
    fn map_field(
        &mut self,
        mapper: &mut Mapper<'_>,
        own: u32,
        other: Option<FieldId>,
        sibling: Option<FieldId>,
    ) -> Result<(), RNTupleError> {
        let reader = mapper.reader;
        let children = self.children(own).to_vec();
        let mut others = vec![None; children.len()];
        if let Some(other) = other {
            self.compare(mapper, own, other)?;
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
                if slot.is_none() && self.is_numbered_item(own) {
                    if mapper.how.mode != Mode::Union {
                        return Err(self.lacks(mapper, *child, ""));
                    }
                    mapper.lacking.insert(*child);
                } else if slot.is_none() {
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
                Some(other) => {
                    self.ways(reader, own, other, mapper.how.compatible, mapper.n_elements)?
                }
            };
            let Mapping { places, fields, .. } = &mut mapper.mapping;
            places.insert(own, fields.len());
            fields.push(FieldMapping {
                output: own,
                input: other,
                sibling,
                ways,
            });
        }
        let is_number = |id: &u32| {
            let record = self.record(*id);
            self.has_columns(*id) && record.is_some_and(|record| record.array_size.is_none())
        };
        let mut siblings = children.iter().zip(&others);
        let sibling = siblings.find_map(|(child, other)| other.filter(|_| is_number(child)));
        let alike: Vec<bool> = children.iter().map(is_number).collect();
        for ((child, other), is_alike) in children.into_iter().zip(others).zip(alike) {
            let sibling = sibling.filter(|_| other.is_none() && is_alike);
            self.map_field(mapper, child, other, sibling)?;
        }
        Ok(())
    }

    /// Checks that two fields have the same type.
    fn compare(&self, mapper: &Mapper<'_>, own: u32, other: FieldId) -> Result<(), RNTupleError> {
        let (reader, names) = (mapper.reader, &mapper.names);
        let descriptor = reader.descriptor();
        let Some((mine, field)) = self.record(own).zip(descriptor.field(other)) else {
            return Ok(());
        };
        let theirs = &field.record;
        let source = |source: Option<String>| source.unwrap_or_else(|| "its own data".to_owned());
        let checksums = mine.type_checksum.zip(theirs.type_checksum);
        let differs = |what: &str, here: &dyn std::fmt::Display, there: &dyn std::fmt::Display| {
            Some(format!(
                "its {what} is {here} here, and {there} there (leave it out by naming the others)"
            ))
        };
        let type_of = |record: &FieldRecord| match record.type_name.as_str() {
            "" => format!("a {} without a class", record.role.name()),
            name => format!("{name:?}"),
        };
        let (own_source, their_source) = (
            source(mine.source_id.map(|id| self.path(id))),
            source(theirs.source_id.map(|id| renamed(descriptor, id, names))),
        );
        let is_same = is_same_type(&mine.type_name, &theirs.type_name) && mine.role == theirs.role;
        let reason = if mine.source_id.is_some() != theirs.source_id.is_some() {
            Some(match theirs.source_id {
                Some(_) => stored_apart(&their_source, true),
                None => stored_apart(&own_source, false),
            })
        } else if !is_same {
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
        } else if field.children.len() != self.children(own).len()
            && !self.is_cut(own)
            && !self.is_numbered_item(own)
        {
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

/// The reason for a field that is projected in one file, and has its own data in the other.
fn stored_apart(source: &str, is_projected_here: bool) -> String {
    let (how, which) = match is_projected_here {
        true => (
            format!("it is projected from {source:?} here, and has its own data there"),
            "this file",
        ),
        false => (
            format!("it has its own data here, and is projected from {source:?} there"),
            "that file",
        ),
    };
    format!(
        "{how}: convert {which} to Parquet and back (`fb convert`), which gives each field its own data, or write both \
         with the same fields"
    )
}
