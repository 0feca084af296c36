//! The schema of what is merged, and what of each input goes where in it.

use std::collections::HashMap;

use crate::RNTupleError;
use crate::read::Reader;
use crate::schema::{Descriptor, FieldId, did_you_mean};
use crate::spec::{
    AliasColumn, ColumnFlags, ColumnRecord, ColumnType, FieldRecord, Role, SchemaDescription,
};

/// Which fields the inputs must have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// All fields of the first input; others are left out.
    #[default]
    Filter,
    /// Any: a field is zero, empty or missing in the entries of inputs that do not have it.
    Union,
    /// The fields of the first input and no others.
    Strict,
}

/// The schema of the output.
#[derive(Debug, Default)]
pub struct MergedSchema {
    pub(super) schema: SchemaDescription,
    /// Fields, columns and alias columns that the header has.
    pub(super) in_header: (usize, usize, usize),
    /// Fields by their names from the top down.
    by_path: HashMap<String, u32>,
    children: Vec<Vec<u32>>,
    /// The columns of each physical field, by representation and position.
    pub(super) representations: Vec<Vec<Vec<u32>>>,
    /// The file that each field comes from.
    origins: Vec<String>,
    /// Whether only some of a field's members are wanted.
    cut: Vec<bool>,
    /// Columns below collections begin with another element than the first: feature flag 0.
    pub(super) has_nested_deferred: bool,
}

/// Where the columns of one input go.
#[derive(Debug, Default)]
pub(super) struct Mapping {
    pub fields: Vec<FieldMapping>,
    /// Top-level fields of the input that the output does not have.
    pub left_out: Vec<String>,
    /// Top-level fields of the output that the input does not have.
    pub missing: Vec<String>,
}

/// A field of the output that has columns.
#[derive(Debug)]
pub(super) struct FieldMapping {
    pub output: u32,
    /// The field of the input; none if it has none.
    pub input: Option<FieldId>,
    /// For each representation of the input.
    pub ways: Vec<Way>,
}

/// A representation of an input, and which one of the output it becomes.
#[derive(Debug)]
pub(super) struct Way {
    pub input: Vec<u32>,
    pub output: Vec<u32>,
    /// The elements are to be encoded in another way.
    pub reencode: bool,
}

/// The fields that are chosen, with those that they need: all that is below and above, and what views show.
pub(super) fn closure(descriptor: &Descriptor, top_level: &[FieldId]) -> Vec<bool> {
    let mut chosen = vec![false; descriptor.fields.len()];
    let mut pending: Vec<(FieldId, bool)> = top_level.iter().map(|&id| (id, true)).collect();
    while let Some((id, with_items)) = pending.pop() {
        let Some((slot, field)) = chosen.get_mut(id as usize).zip(descriptor.field(id)) else {
            continue;
        };
        let is_new = !std::mem::replace(slot, true);
        if with_items {
            pending.extend(field.children.iter().map(|&child| (child, true)));
        }
        if is_new {
            pending.extend(field.parent.map(|parent| (parent, false)));
            if let Some(source) = field.record.source_id {
                // a view of a collection has views of its items below it, or is only its length
                pending.push((source, shows_items(descriptor, source)));
            }
        }
    }
    // what has lost all that was below it keeps the first of it
    for (id, field) in (0u32..).zip(&descriptor.fields) {
        let is_chosen = |id: FieldId| chosen.get(id as usize).copied().unwrap_or(false);
        if !is_chosen(id) || field.children.iter().any(|&child| is_chosen(child)) {
            continue;
        }
        let mut next = field.children.first().copied();
        while let Some(child) = next {
            if let Some(slot) = chosen.get_mut(child as usize) {
                *slot = true;
            }
            next = descriptor
                .field(child)
                .and_then(|f| f.children.first().copied());
        }
    }
    chosen
}

/// Whether a view needs what is below the field that it shows: only where that is no collection or record.
fn shows_items(descriptor: &Descriptor, source: FieldId) -> bool {
    let role = descriptor.field(source).map(|field| field.record.role);
    !matches!(role, Some(Role::Collection | Role::Record))
}

impl MergedSchema {
    /// The schema of the first input, of which only these fields are wanted.
    pub fn new(first: &Reader, top_level: &[FieldId]) -> Result<Self, RNTupleError> {
        let descriptor = first.descriptor();
        let chosen = closure(descriptor, top_level);
        let mut own = Self::default();
        let (n_fields, n_columns) = descriptor.in_header;
        own.append(first, &chosen, None)?;
        own.has_nested_deferred = descriptor.feature_flags & 1 != 0;
        let count = |n: usize| chosen.iter().take(n).filter(|chosen| **chosen).count();
        let is_chosen = |column: &&ColumnRecord| {
            let field = chosen.get(column.field_id as usize);
            field.copied().unwrap_or(false)
        };
        let in_header = descriptor.columns.iter().take(n_columns);
        own.in_header = (count(n_fields), in_header.filter(is_chosen).count(), 0);
        let (fields, columns, _) = own.in_header;
        let is_early = |alias: &AliasColumn| {
            (alias.field_id as usize) < fields && (alias.physical_id as usize) < columns
        };
        // the header's first, without changing their order
        own.schema
            .alias_columns
            .sort_by_key(|alias| !is_early(alias));
        let aliases = own.schema.alias_columns.iter();
        own.in_header.2 = aliases.filter(|alias| is_early(alias)).count();
        Ok(own)
    }

    /// Adds fields of an input. `begin` says at which entry they begin, for those that are added later.
    fn append(
        &mut self,
        reader: &Reader,
        chosen: &[bool],
        begin: Option<u64>,
    ) -> Result<(), RNTupleError> {
        let n_before = id_of(self.schema.fields.len());
        let descriptor = reader.descriptor();
        let is_chosen = |id: FieldId| chosen.get(id as usize).copied().unwrap_or(false);
        let mut ids: HashMap<FieldId, u32> = HashMap::new();
        // views may show fields that are there already
        for (id, field) in (0u32..).zip(&descriptor.fields) {
            let path = descriptor.qualified_name(id);
            if let Some(&known) = self.by_path.get(&path) {
                ids.insert(id, known);
            }
            if !is_chosen(id) || ids.contains_key(&id) {
                continue;
            }
            let own = id_of(self.schema.fields.len());
            ids.insert(id, own);
            let parent = field.parent.and_then(|parent| ids.get(&parent).copied());
            if let Some(above) = parent.filter(|&above| begin.is_some() && above < n_before) {
                let reason = format!(
                    "it has a member {:?} here, and none there",
                    field.record.name
                );
                return Err(self.mismatch(reader, &self.path(above), above, &reason));
            }
            let record = FieldRecord {
                parent_id: parent.unwrap_or(own),
                ..field.record.clone()
            };
            if let Some(siblings) = parent.and_then(|p| self.children.get_mut(p as usize)) {
                siblings.push(own);
            }
            self.schema.fields.push(record);
            self.by_path.insert(path, own);
            self.children.push(Vec::new());
            self.representations.push(Vec::new());
            self.origins.push(reader.url().to_owned());
            self.cut
                .push(field.children.iter().any(|&child| !is_chosen(child)));
        }
        let new = |id: &FieldId| is_chosen(*id) && ids.contains_key(id);
        let mut columns: HashMap<u32, u32> = HashMap::new();
        for (id, column) in (0u32..).zip(&descriptor.columns) {
            let Some(&field) = ids.get(&column.field_id).filter(|_| new(&column.field_id)) else {
                continue;
            };
            let mut record = ColumnRecord {
                field_id: field,
                ..column.clone()
            };
            if let Some(begin) = begin {
                let field = |id| descriptor.field(id).map(|field| &field.record);
                let known = self.representations.get(record.field_id as usize);
                let known = known.and_then(|all| all.get(usize::from(record.representation)));
                // the content of texts and of streamed objects begins with the first of them
                let first = match known.map_or(0, Vec::len) {
                    0 => expected(field, column.field_id, begin).unwrap_or(0),
                    _ => 0,
                };
                defer(&mut record, first, column.representation > 0);
            }
            columns.insert(id, self.push_column(record));
        }
        for (id, field) in (0u32..).zip(&descriptor.fields) {
            let Some((&own, source)) = ids.get(&id).zip(field.record.source_id) else {
                continue;
            };
            if !is_chosen(id) {
                continue;
            }
            if let Some(record) = self.schema.fields.get_mut(own as usize) {
                record.source_id = ids.get(&source).copied();
            }
            let aliases = field.columns.iter().filter_map(|column| {
                let physical_id = columns.get(column).copied();
                physical_id.map(|physical_id| AliasColumn {
                    physical_id,
                    field_id: own,
                })
            });
            self.schema.alias_columns.extend(aliases);
        }
        Ok(())
    }

    fn push_column(&mut self, record: ColumnRecord) -> u32 {
        let id = id_of(self.schema.columns.len());
        if let Some(representations) = self.representations.get_mut(record.field_id as usize) {
            let at = usize::from(record.representation);
            if representations.len() <= at {
                representations.resize(at + 1, Vec::new());
            }
            if let Some(columns) = representations.get_mut(at) {
                columns.push(id);
            }
        }
        self.schema.columns.push(record);
        id
    }

    fn record(&self, id: u32) -> Option<&FieldRecord> {
        self.schema.fields.get(id as usize)
    }

    fn path(&self, id: u32) -> String {
        let mut names = Vec::new();
        let mut next = Some(id);
        while let Some((id, record)) = next.and_then(|id| Some((id, self.record(id)?))) {
            names.push(record.name.as_str());
            next = (record.parent_id != id).then_some(record.parent_id);
        }
        names.reverse();
        names.join(".")
    }

    fn top_level(&self) -> impl Iterator<Item = u32> + '_ {
        let fields = (0u32..).zip(&self.schema.fields);
        fields
            .filter(|(id, field)| field.parent_id == *id)
            .map(|(id, _)| id)
    }

    /// Where an input's columns go, behind `n_entries` entries of others. With `compatible`, columns get no further
    /// representations: ROOT 6.40 takes columns that begin later to have an element in each entry, and uproot 5.7 does not
    /// find the pages of a representation that is used again. `n_elements` are those of each column so far.
    pub(super) fn map(
        &mut self,
        reader: &Reader,
        (mode, compatible): (Mode, bool),
        takes: &dyn Fn(&str) -> bool,
        (n_entries, n_elements): (u64, &[u64]),
    ) -> Result<Mapping, RNTupleError> {
        let descriptor = reader.descriptor();
        let mut mapping = Mapping::default();
        let is_new = |id: &FieldId| {
            let name = descriptor.field_name(*id);
            !self.by_path.contains_key(name) && takes(name)
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
                self.append(reader, &chosen, Some(n_entries))?;
            }
            Mode::Strict if !new.is_empty() => {
                let name = names(&new).swap_remove(0);
                let reason = "the first file does not have it (in mode strict all have the same fields; union adds them, filter leaves them out)";
                return Err(self.mismatch(reader, &name, 0, reason));
            }
            Mode::Strict | Mode::Filter => mapping.left_out = names(&new),
        }
        for own in self.top_level().collect::<Vec<_>>() {
            let name = self.path(own);
            let found = descriptor.top_level.iter().copied();
            let found = found
                .into_iter()
                .find(|&id| descriptor.field_name(id) == name);
            if found.is_none() {
                if mode != Mode::Union {
                    return Err(RNTupleError::NoSuchField {
                        url: reader.url().to_owned(),
                        ntuple: reader.path().to_owned(),
                        hint: format!(
                            ", which {} has{} (mode union takes it as zero or empty there)",
                            self.origin(own),
                            did_you_mean(&name, new.iter().map(|&id| descriptor.field_name(id)))
                        ),
                        name,
                    });
                }
                mapping.missing.push(name);
            }
            self.map_field(reader, own, found, compatible, n_elements, &mut mapping)?;
        }
        Ok(mapping)
    }

    fn origin(&self, id: u32) -> &str {
        self.origins.get(id as usize).map_or("", String::as_str)
    }

    fn mismatch(&self, reader: &Reader, name: &str, own: u32, reason: &str) -> RNTupleError {
        RNTupleError::SchemaMismatch {
            url: reader.url().to_owned(),
            other: self.origin(own).to_owned(),
            ntuple: reader.path().to_owned(),
            name: name.to_owned(),
            reason: reason.to_owned(),
        }
    }

    fn map_field(
        &mut self,
        reader: &Reader,
        own: u32,
        other: Option<FieldId>,
        compatible: bool,
        n_elements: &[u64],
        mapping: &mut Mapping,
    ) -> Result<(), RNTupleError> {
        let children = self.children.get(own as usize).cloned().unwrap_or_default();
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
                    let reason = format!("it has no member {name:?} here, and has one there");
                    return Err(self.mismatch(reader, &self.path(own), own, &reason));
                }
            }
        }
        let is_view = self
            .record(own)
            .is_some_and(|record| record.source_id.is_some());
        let has_columns = self
            .representations
            .get(own as usize)
            .is_some_and(|all| !all.is_empty());
        if has_columns && !is_view {
            let ways = match other {
                None => Vec::new(),
                Some(other) => self.ways(reader, own, other, compatible, n_elements)?,
            };
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

    /// Insists that two fields are of one type.
    fn compare(&self, reader: &Reader, own: u32, other: FieldId) -> Result<(), RNTupleError> {
        let descriptor = reader.descriptor();
        let Some((mine, field)) = self.record(own).zip(descriptor.field(other)) else {
            return Ok(());
        };
        let theirs = &field.record;
        let shows = |source: Option<String>| source.unwrap_or_else(|| "data of its own".to_owned());
        let checksums = mine.type_checksum.zip(theirs.type_checksum);
        let differs = |what: &str, here: &dyn std::fmt::Display, there: &dyn std::fmt::Display| {
            Some(format!("its {what} is {here} here, and {there} there"))
        };
        let type_of = |record: &FieldRecord| match record.type_name.as_str() {
            "" => format!("a {} without a class", record.role.name()),
            name => format!("{name:?}"),
        };
        let (own_view, their_view) = (
            shows(mine.source_id.map(|id| self.path(id))),
            shows(theirs.source_id.map(|id| descriptor.qualified_name(id))),
        );
        let reason = if mine.type_name != theirs.type_name || mine.role != theirs.role {
            differs("type", &type_of(theirs), &type_of(mine))
        } else if mine.type_version != theirs.type_version {
            differs("class's version", &theirs.type_version, &mine.type_version)
        } else if let Some((a, b)) = checksums.filter(|(a, b)| a != b) {
            differs("class's checksum", &format!("{b:#x}"), &format!("{a:#x}"))
        } else if mine.array_size != theirs.array_size {
            let size = |size: Option<u64>| size.map_or("none".to_owned(), |size| size.to_string());
            differs("size", &size(theirs.array_size), &size(mine.array_size))
        } else if own_view != their_view {
            Some(format!("it shows {their_view} here, and {own_view} there"))
        } else if field.children.len() != self.children.get(own as usize).map_or(0, Vec::len)
            && !self.cut.get(own as usize).copied().unwrap_or(false)
        {
            let own = self.children.get(own as usize).map_or(0, Vec::len);
            differs("number of members", &field.children.len(), &own)
        } else {
            None
        };
        match reason {
            None => Ok(()),
            Some(reason) => Err(self.mismatch(reader, &self.path(own), own, &reason)),
        }
    }

    /// What becomes of the representations of an input's field.
    fn ways(
        &mut self,
        reader: &Reader,
        own: u32,
        other: FieldId,
        compatible: bool,
        n_elements: &[u64],
    ) -> Result<Vec<Way>, RNTupleError> {
        let descriptor = reader.descriptor();
        let n = self
            .representations
            .get(own as usize)
            .and_then(|all| all.first())
            .map_or(0, Vec::len);
        let by_position: Vec<Vec<u32>> = (0..n)
            .map(|position| descriptor.representations(other, position))
            .collect();
        let n_ways = by_position.first().map_or(0, Vec::len);
        let mut ways = Vec::with_capacity(n_ways);
        for at in 0..n_ways {
            let input: Vec<u32> = by_position
                .iter()
                .filter_map(|columns| columns.get(at).copied())
                .collect();
            let records: Vec<&ColumnRecord> = input
                .iter()
                .filter_map(|&id| descriptor.column(id))
                .collect();
            let representations = self.representations.get(own as usize);
            let equal = representations.and_then(|all| {
                let is_equal = |columns: &&Vec<u32>| {
                    columns.len() == records.len()
                        && columns.iter().zip(&records).all(|(&id, record)| {
                            let own = self.schema.columns.get(id as usize);
                            own.is_some_and(|own| is_same_encoding(own, record))
                        })
                };
                all.iter().find(is_equal).cloned()
            });
            let way = match equal {
                Some(output) => Way {
                    input,
                    output,
                    reencode: false,
                },
                None if !compatible => {
                    let output = self.add_representation(own, &records, n_elements);
                    Way {
                        input,
                        output,
                        reencode: false,
                    }
                }
                None => {
                    let output = representations.and_then(|all| all.first()).cloned();
                    let output = output.unwrap_or_default();
                    let own_records = output
                        .iter()
                        .filter_map(|&id| self.schema.columns.get(id as usize));
                    let mut pairs = records.iter().zip(own_records);
                    if let Some((from, to)) = pairs.find(|(from, to)| !holds_all(from, to)) {
                        return Err(RNTupleError::NeedsRebuild {
                            url: reader.url().to_owned(),
                            other: self.origin(own).to_owned(),
                            name: self.path(own),
                            reason: format!(
                                "its column is a {} here, and a {} there",
                                described(from),
                                described(to)
                            ),
                        });
                    }
                    Way {
                        input,
                        output,
                        reencode: true,
                    }
                }
            };
            ways.push(way);
        }
        Ok(ways)
    }

    /// Adds a representation to a field, which begins where the others are.
    fn add_representation(
        &mut self,
        own: u32,
        records: &[&ColumnRecord],
        n_elements: &[u64],
    ) -> Vec<u32> {
        let all = self.representations.get(own as usize);
        let first = all.and_then(|all| all.first()).cloned().unwrap_or_default();
        let number = all.map_or(0, Vec::len);
        let mut output = Vec::with_capacity(records.len());
        for (record, like) in records.iter().zip(first) {
            let mut record = ColumnRecord {
                field_id: own,
                representation: u16::try_from(number).unwrap_or(u16::MAX),
                ..(*record).clone()
            };
            let begin = n_elements.get(like as usize).copied().unwrap_or(0);
            defer(&mut record, begin, true);
            let per_entry = expected(|id| self.record(id), own, 1);
            let is_nested = per_entry.is_none() || !output.is_empty();
            self.has_nested_deferred |= is_nested && begin > 0;
            output.push(self.push_column(record));
        }
        let views = (0u32..).zip(&self.schema.fields);
        let views = views.filter(|(_, field)| field.source_id == Some(own));
        let aliases: Vec<AliasColumn> = views
            .flat_map(|(field_id, _)| {
                output.iter().map(move |&physical_id| AliasColumn {
                    physical_id,
                    field_id,
                })
            })
            .collect();
        self.schema.alias_columns.extend(aliases);
        output
    }
}

/// Elements of a field's column in `n_entries` entries, where that does not depend on the data.
pub(super) fn expected<'a>(
    field: impl Fn(u32) -> Option<&'a FieldRecord>,
    mut id: u32,
    n_entries: u64,
) -> Option<u64> {
    let mut n = n_entries;
    while let Some(record) = field(id) {
        if let Some(size) = record.array_size {
            n = n.saturating_mul(size);
        }
        if record.parent_id == id {
            break;
        }
        id = record.parent_id;
        let above = field(id).map(|record| record.role);
        if matches!(above, Some(Role::Collection | Role::Variant)) {
            return None;
        }
    }
    Some(n)
}

/// Makes a column begin at an element: before it, all are zero, or in another representation.
fn defer(record: &mut ColumnRecord, first: u64, suppressed: bool) {
    let first = i64::try_from(first).unwrap_or(i64::MAX);
    record.flags = ColumnFlags(record.flags.0 & !1 | u16::from(first > 0));
    record.first_element = if suppressed { -first } else { first };
}

fn described(column: &ColumnRecord) -> String {
    match column.range {
        None => format!("{} of {} bits", column.column_type.name(), column.bits),
        Some((min, max)) => {
            format!(
                "{} of {} bits from {min} to {max}",
                column.column_type.name(),
                column.bits
            )
        }
    }
}

/// Whether a column can hold every value of another one.
pub(super) fn holds_all(from: &ColumnRecord, to: &ColumnRecord) -> bool {
    use ColumnType as C;
    let plain = |column: &ColumnRecord| match column.column_type {
        C::Index32 | C::SplitIndex32 | C::Index64 | C::SplitIndex64 => C::Index64,
        C::SplitInt16 => C::Int16,
        C::SplitUInt16 => C::UInt16,
        C::SplitInt32 => C::Int32,
        C::SplitUInt32 => C::UInt32,
        C::SplitInt64 => C::Int64,
        C::SplitUInt64 => C::UInt64,
        C::SplitReal32 => C::Real32,
        C::SplitReal64 => C::Real64,
        other => other,
    };
    let (a, b) = (plain(from), plain(to));
    match (a, b) {
        (C::Real32Trunc, C::Real32Trunc) => from.bits <= to.bits,
        (C::Real32Quant, C::Real32Quant) => is_same_encoding(from, to),
        (C::Real16 | C::Real32Trunc, C::Real32) => true,
        _ => a == b,
    }
}

fn is_same_encoding(a: &ColumnRecord, b: &ColumnRecord) -> bool {
    a.column_type == b.column_type && a.bits == b.bits && a.range == b.range
}

fn id_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
