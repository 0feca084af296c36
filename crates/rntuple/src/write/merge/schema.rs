//! The schema of the output, and the mapping of each input.

use std::collections::{HashMap, HashSet};

use crate::RNTupleError;
use crate::read::Reader;
use crate::schema::{Descriptor, FieldId, NUMBERED, is_tuple, same_collections};
use crate::spec::{
    AliasColumn, ColumnFlags, ColumnRecord, FieldRecord, NESTED_DEFERRED_COLUMNS, Role,
    SchemaDescription,
};
use crate::write::model::Limits;

/// Which fields the inputs must have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// The fields of the first input; others are left out.
    #[default]
    Filter,
    /// Any: a field is zero, empty or missing in the entries of inputs that do not have it.
    Union,
    /// Exactly the fields of the first input.
    Strict,
}

/// How the fields of an input have to fit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fitting {
    pub mode: Mode,
    /// No representations are added to columns: ROOT 6.40 assumes that columns that begin later have one element per
    /// entry, and uproot 5.7 does not find the pages of a representation that is used again.
    pub compatible: bool,
    /// Entries are selected: all in one mode, as skims have none.
    pub chooses: bool,
}

/// The schema of the output.
#[derive(Debug, Clone, Default)]
pub struct MergedSchema {
    pub(super) schema: SchemaDescription,
    /// Number of fields, columns and alias columns in the header.
    pub(super) in_header: (usize, usize, usize),
    /// Fields by path.
    by_path: HashMap<String, u32>,
    children: Vec<Vec<u32>>,
    /// The columns of each physical field, by representation and position.
    pub(super) representations: Vec<Vec<Vec<u32>>>,
    /// The file that each field comes from.
    origins: Vec<String>,
    /// Original names of top-level fields that were renamed.
    renamed: HashMap<u32, String>,
    /// Whether only some of a field's members are selected.
    cut: Vec<bool>,
    /// Columns that need not represent every value, with their limits.
    pub(super) lossy: HashMap<u32, Limits>,
    /// Whether columns below collections are deferred: feature flag 0.
    pub(super) has_nested_deferred: bool,
    /// Whether the items of numbered collections may get members of later inputs, because nothing is written yet.
    pub(super) takes_members: bool,
    /// Whether they have got some.
    pub(super) has_new_members: bool,
}

/// The selected fields with all fields that they need: descendants, ancestors, and sources of projected fields.
pub(super) fn closure(descriptor: &Descriptor, top_level: &[FieldId]) -> Vec<bool> {
    let mut chosen = vec![false; descriptor.fields.len()];
    let mut pending: Vec<(FieldId, bool)> = top_level.iter().map(|&id| (id, true)).collect();
    while let Some((id, with_items)) = pending.pop() {
        let Some((slot, field)) = chosen.get_mut(id as usize).zip(descriptor.field(id)) else {
            continue;
        };
        let is_new = !std::mem::replace(slot, true);
        if with_items || is_new && is_whole(descriptor, id) {
            pending.extend(field.children.iter().map(|&child| (child, true)));
        }
        if is_new {
            pending.extend(field.parent.map(|parent| (parent, false)));
            if let Some(source) = field.record.source_id {
                // a projected collection has projected items below it, or is only its length
                pending.push((source, shows_items(descriptor, source)));
            }
        }
    }
    // fields that have lost all their descendants keep the first
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

/// Whether a field needs all of its members: variants, pairs and tuples, whose types name the members.
fn is_whole(descriptor: &Descriptor, id: FieldId) -> bool {
    descriptor.field(id).is_some_and(|field| {
        let is_counted = || is_tuple(descriptor, &field.children);
        field.record.role == Role::Variant || field.record.role == Role::Record && is_counted()
    })
}

/// New names of top-level fields.
pub(super) type Names = HashMap<FieldId, String>;

/// The path of a field, with renamed top-level fields.
pub(super) fn renamed(descriptor: &Descriptor, id: FieldId, names: &Names) -> String {
    let path = descriptor.qualified_name(id);
    match names.get(&descriptor.top_of(id)) {
        None => path,
        Some(name) => match path.split_once('.') {
            None => name.clone(),
            Some((_, below)) => format!("{name}.{below}"),
        },
    }
}

/// Whether a projected field needs the descendants of its source: only if the source is neither collection nor record.
fn shows_items(descriptor: &Descriptor, source: FieldId) -> bool {
    let role = descriptor.field(source).map(|field| field.record.role);
    !matches!(role, Some(Role::Collection | Role::Record))
}

impl MergedSchema {
    /// The schema of these fields of the first input. With `at_once`, all columns begin with the first entry; with
    /// `collapsed`, in one representation.
    pub fn new(
        first: &Reader,
        top_level: &[FieldId],
        (at_once, collapsed): (bool, bool),
    ) -> Result<Self, RNTupleError> {
        let descriptor = first.descriptor();
        let chosen = closure(descriptor, top_level);
        let mut own = Self::default();
        let (n_fields, n_columns) = descriptor.in_header;
        own.append(first, &chosen, None, &Names::new())?;
        if at_once {
            if collapsed {
                own.collapse();
            }
            return Ok(own.at_once());
        }
        own.has_nested_deferred = descriptor.feature_flags & NESTED_DEFERRED_COLUMNS != 0;
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
        // fields of the header come first, in the same order
        own.schema
            .alias_columns
            .sort_by_key(|alias| !is_early(alias));
        let aliases = own.schema.alias_columns.iter();
        own.in_header.2 = aliases.filter(|alias| is_early(alias)).count();
        Ok(own)
    }

    /// The same, with all in the header: all columns begin with the first entry.
    pub(super) fn at_once(mut self) -> Self {
        let columns = self.schema.columns.iter_mut();
        columns.for_each(|column| defer(column, 0, false));
        let SchemaDescription {
            fields,
            columns,
            alias_columns,
            ..
        } = &self.schema;
        self.in_header = (fields.len(), columns.len(), alias_columns.len());
        self.has_nested_deferred = false;
        self
    }

    /// The fields of an input that have another name in the output. A numbered collection takes the name of the output's
    /// collection with the same projected fields.
    pub(super) fn names_of(&self, reader: &Reader) -> Names {
        let descriptor = reader.descriptor();
        let own: Vec<(&str, FieldId)> = self.numbered_collections().collect();
        let same = same_collections(own.iter().copied(), descriptor.numbered_collections());
        let (mut names, mut given) = (Names::new(), HashSet::new());
        for (&id, &own) in &same {
            given.insert(own);
            names.insert(id, self.path(own));
        }
        let known: HashSet<FieldId> = own.into_iter().map(|(_, id)| id).collect();
        for (_, id) in descriptor.numbered_collections() {
            let name = descriptor.field_name(id);
            let other = self.by_path.get(name);
            let is_other = other.is_some_and(|id| known.contains(id) || given.contains(id));
            if names.contains_key(&id) || !is_other {
                continue;
            }
            let is_free = |name: &String| {
                !self.by_path.contains_key(name)
                    && names.values().all(|other| other != name)
                    && descriptor.field_names().all(|other| other != name)
            };
            let free = (0..).map(|n| format!("{NUMBERED}{n}")).find(is_free);
            names.extend(free.map(|free| (id, free)));
        }
        names.retain(|&id, name| descriptor.field_name(id) != name);
        names
    }

    /// The numbered collections by the fields projected from them.
    fn numbered_collections(&self) -> impl Iterator<Item = (&str, u32)> {
        self.top_level().filter_map(|id| {
            let record = self.record(id)?;
            let source = record.source_id?;
            self.is_numbered(source)
                .then_some((record.name.as_str(), source))
        })
    }

    /// Whether a field is a numbered collection.
    fn is_numbered(&self, id: u32) -> bool {
        self.record(id).is_some_and(|record| {
            record.parent_id == id
                && record.role == Role::Collection
                && record.name.starts_with(NUMBERED)
        })
    }

    /// Whether a field is the item of a numbered collection, whose members are seen as projected fields only.
    pub(super) fn is_numbered_item(&self, id: u32) -> bool {
        self.record(id).is_some_and(|record| {
            record.parent_id != id
                && record.role == Role::Record
                && record.type_name.is_empty()
                && self.is_numbered(record.parent_id)
        })
    }

    /// The name by which users know a field: of a numbered collection or its member, that of the first field projected
    /// from it.
    pub(super) fn shown_path(&self, id: u32) -> String {
        let source = |id: u32| self.record(id).and_then(|record| record.source_id);
        let mut top_level = self.top_level();
        let shown = top_level.find(|&top| {
            let mut items = self.children(top).iter();
            match self.is_numbered(id) {
                true => source(top) == Some(id),
                false => items.any(|&item| source(item) == Some(id)),
            }
        });
        self.path(shown.unwrap_or(id))
    }

    /// Adds fields of an input. `begin` is the entry at which they begin, if they are added later.
    pub(super) fn append(
        &mut self,
        reader: &Reader,
        chosen: &[bool],
        begin: Option<u64>,
        names: &Names,
    ) -> Result<(), RNTupleError> {
        let n_before = id_of(self.schema.fields.len());
        let descriptor = reader.descriptor();
        let is_chosen = |id: FieldId| chosen.get(id as usize).copied().unwrap_or(false);
        let mut ids: HashMap<FieldId, u32> = HashMap::new();
        let mut added = vec![false; descriptor.fields.len()];
        // projected fields may have sources that exist already
        for (id, field) in (0u32..).zip(&descriptor.fields) {
            let path = renamed(descriptor, id, names);
            if let Some(&known) = self.by_path.get(&path) {
                ids.insert(id, known);
            }
            if !is_chosen(id) || ids.contains_key(&id) {
                continue;
            }
            let own = id_of(self.schema.fields.len());
            ids.insert(id, own);
            if let Some(slot) = added.get_mut(id as usize) {
                *slot = true;
            }
            let parent = field.parent.and_then(|parent| ids.get(&parent).copied());
            if let Some(above) = parent.filter(|&above| begin.is_some() && above < n_before) {
                if !self.is_numbered_item(above) {
                    let reason = format!(
                        "it has a member {:?} here, but not there (leave this field out by naming the others)",
                        field.record.name
                    );
                    return Err(self.mismatch(reader, &self.path(above), above, &reason));
                }
                if !self.takes_members {
                    let reason = "a collection that is written already cannot get it (merge all files into a new one, or leave it out by naming the others)";
                    return Err(self.mismatch(reader, &field.record.name, above, reason));
                }
                self.has_new_members = true;
            }
            let mut record = FieldRecord {
                parent_id: parent.unwrap_or(own),
                ..field.record.clone()
            };
            if let Some(name) = names.get(&id) {
                let was = std::mem::replace(&mut record.name, name.clone());
                self.renamed.insert(own, was);
            }
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
        let new = |id: &FieldId| added.get(*id as usize).copied().unwrap_or(false);
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
                // the content of strings and streamed objects begins with the first of them
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
            if !new(&id) {
                continue;
            }
            let own_source = ids.get(&source).copied();
            if let Some(record) = self.schema.fields.get_mut(own as usize) {
                record.source_id = own_source;
            }
            let shown: Vec<u32> = if new(&source) {
                let theirs = field.columns.iter();
                theirs.filter_map(|id| columns.get(id).copied()).collect()
            } else {
                // it may have another encoding here
                let all = own_source.and_then(|id| self.representations.get(id as usize));
                all.into_iter().flatten().flatten().copied().collect()
            };
            let aliases = shown.into_iter().map(|physical_id| AliasColumn {
                physical_id,
                field_id: own,
            });
            self.schema.alias_columns.extend(aliases);
        }
        Ok(())
    }

    pub(super) fn push_column(&mut self, record: ColumnRecord) -> u32 {
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

    /// A field.
    pub(super) fn record(&self, id: u32) -> Option<&FieldRecord> {
        self.schema.fields.get(id as usize)
    }

    /// The path of a field in its file.
    pub(super) fn own_path(&self, id: u32) -> String {
        let path = self.path(id);
        match self.renamed.get(&self.top_of(id)) {
            None => path,
            Some(was) => {
                let below = path.split_once('.').map(|(_, below)| below);
                below.map_or(was.clone(), |below| format!("{was}.{below}"))
            }
        }
    }

    /// The top-level field of a field.
    pub(super) fn top_of(&self, id: u32) -> u32 {
        let mut top = id;
        while let Some(above) = self.record(top).map(|record| record.parent_id) {
            if above == top {
                break;
            }
            top = above;
        }
        top
    }

    /// The collection or variant that a field is in, the nearest one.
    pub(super) fn collection_of(&self, id: u32) -> Option<u32> {
        let above = |id: &u32| {
            let parent = self.record(*id)?.parent_id;
            (parent != *id).then_some(parent)
        };
        let mut above = std::iter::successors(above(&id), above);
        above.find(|&id| {
            let role = self.record(id).map(|record| record.role);
            matches!(role, Some(Role::Collection | Role::Variant))
        })
    }

    /// Whether there is a field of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.by_path.contains_key(name)
    }

    /// Whether only some of a field's members are selected.
    pub(super) fn is_cut(&self, id: u32) -> bool {
        self.cut.get(id as usize).copied().unwrap_or(false)
    }

    /// The subfields of a field.
    pub(super) fn children(&self, id: u32) -> &[u32] {
        self.children.get(id as usize).map_or(&[], Vec::as_slice)
    }

    /// Whether a field has its own columns.
    pub(super) fn has_columns(&self, id: u32) -> bool {
        let own = self.representations.get(id as usize);
        own.is_some_and(|all| !all.is_empty())
    }

    /// The path of a field.
    pub(super) fn path(&self, id: u32) -> String {
        let mut names = Vec::new();
        let mut next = Some(id);
        while let Some((id, record)) = next.and_then(|id| Some((id, self.record(id)?))) {
            names.push(record.name.as_str());
            next = (record.parent_id != id).then_some(record.parent_id);
        }
        names.reverse();
        names.join(".")
    }

    /// The top-level fields.
    pub(super) fn top_level(&self) -> impl Iterator<Item = u32> + '_ {
        let fields = (0u32..).zip(&self.schema.fields);
        fields
            .filter(|(id, field)| field.parent_id == *id)
            .map(|(id, _)| id)
    }

    /// Adds fields of another ntuple beside the existing ones; all their columns begin with the first entry.
    pub(super) fn extend(
        &mut self,
        reader: &Reader,
        top_level: &[FieldId],
    ) -> Result<(), RNTupleError> {
        let descriptor = reader.descriptor();
        let chosen = closure(descriptor, top_level);
        let is_chosen = |id: &FieldId| chosen.get(*id as usize).copied().unwrap_or(false);
        let mut names = Names::new();
        for &id in descriptor.top_level.iter().filter(|id| is_chosen(id)) {
            let name = descriptor.field_name(id);
            let Some(&own) = self.by_path.get(name) else {
                continue;
            };
            if !descriptor.is_hidden_source(id) {
                let reason = "both have it, but names must be unique: select fields (--fields for each file, in Python fields=[…, …]), or if it identifies matching entries, join on it (--on, on=[…])";
                return Err(self.mismatch(reader, name, own, reason));
            }
            let is_free = |name: &String| {
                let mut given = names.values();
                let mut theirs = descriptor.top_level.iter();
                !self.by_path.contains_key(name)
                    && given.all(|other| other != name)
                    && theirs.all(|&id| descriptor.field_name(id) != name)
            };
            let plain = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let free = (0..).map(|n| format!("{plain}{n}")).find(is_free);
            names.extend(free.map(|free| (id, free)));
        }
        self.append(reader, &chosen, None, &names)?;
        *self = std::mem::take(self).at_once();
        Ok(())
    }

    pub(super) fn origin(&self, id: u32) -> &str {
        self.origins.get(id as usize).map_or("", String::as_str)
    }

    pub(super) fn mismatch(
        &self,
        reader: &Reader,
        name: &str,
        own: u32,
        reason: &str,
    ) -> RNTupleError {
        RNTupleError::SchemaMismatch {
            url: reader.url().to_owned(),
            other: self.origin(own).to_owned(),
            ntuple: reader.path().to_owned(),
            name: name.to_owned(),
            reason: reason.to_owned(),
        }
    }
}

/// Number of elements of a field's column in `n_entries` entries, if it does not depend on the data.
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

/// Whether columns below collections begin later than the collections.
pub(super) fn has_late_items(descriptor: &Descriptor) -> bool {
    let field = |id| descriptor.field(id).map(|field| &field.record);
    let mut late = descriptor
        .columns
        .iter()
        .filter(|column| column.first_element != 0);
    late.any(|column| expected(field, column.field_id, 1).is_none())
}

/// Makes a column begin at an element: before it, all elements are zero, or in another representation.
pub(super) fn defer(record: &mut ColumnRecord, first: u64, suppressed: bool) {
    let first = i64::try_from(first).unwrap_or(i64::MAX);
    record.flags = ColumnFlags(record.flags.0 & !1 | u16::from(first > 0));
    record.first_element = if suppressed { -first } else { first };
}

pub(super) fn id_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
