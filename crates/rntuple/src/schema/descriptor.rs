//! The descriptor: combines header and footer, checks them, and lists skipped fields.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;

use super::build::build;
use super::collections::NUMBERED;
use super::paths::FieldNames;
use super::slots::Slots;
use crate::spec::{
    Anchor, ClusterGroup, ColumnRecord, ColumnType, ExtraTypeInfo, FieldRecord, Footer, Header,
    LinkedAttributeSet, Role, SchemaDescription, SpecError,
};

/// Index of a field of a [`Descriptor`].
pub type FieldId = u32;

/// The beginning of type names of collection lengths.
pub(crate) const CARDINALITY: &str = "ROOT::RNTupleCardinality<";

/// The deepest nesting of fields that is read; limits recursion for malicious files.
const MAX_DEPTH: usize = 200;

/// A field with its position in the tree.
#[derive(Debug, Clone)]
pub struct Field {
    /// The serialized record.
    pub record: FieldRecord,
    /// The parent; none for top-level fields.
    pub parent: Option<FieldId>,
    /// Subfields in the order of their IDs.
    pub children: Vec<FieldId>,
    /// Physical columns of all representations in the order of their IDs; for a projected field, its alias columns.
    pub columns: Vec<u32>,
}

/// A physical column.
pub type Column = ColumnRecord;

/// A top-level field that this version cannot read, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by their types")]
pub struct SkippedField {
    pub id: FieldId,
    pub name: String,
    pub reason: String,
    /// Whether metadata contradict each other; otherwise the field has an unsupported structure.
    pub is_damage: bool,
}

/// The content of header and footer.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the specification's names")]
pub struct Descriptor {
    pub anchor: Anchor,
    pub feature_flags: u64,
    /// Whether the footer extends the header's schema.
    pub extended: bool,
    pub extra_type_infos: Vec<ExtraTypeInfo>,
    pub cluster_groups: Vec<ClusterGroup>,
    pub attribute_sets: Vec<LinkedAttributeSet>,
    /// The schema, which may be shared by ntuples.
    pub schema: Arc<Schema>,
}

/// The schema in a header, with fields and columns added by a footer.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "the specification's names")]
pub struct Schema {
    pub name: String,
    pub description: String,
    pub writer: String,
    pub header_checksum: u64,
    /// Feature flags of the header.
    pub header_flags: u64,
    /// Number of fields and of columns in the header.
    pub in_header: (usize, usize),
    pub fields: Vec<Field>,
    pub columns: Vec<Column>,
    /// Number of type infos in the header.
    pub type_infos_in_header: usize,
    /// Top-level fields, without the skipped ones.
    pub top_level: Vec<FieldId>,
    pub skipped: Vec<SkippedField>,
}

impl Deref for Descriptor {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        &self.schema
    }
}

impl Descriptor {
    /// Combines header and footer.
    pub fn new(anchor: Anchor, header: Header, footer: Footer) -> Result<Self, SpecError> {
        check_footer(&footer, header.checksum)?;
        let extended = is_extended(&footer);
        let SchemaDescription {
            fields,
            mut columns,
            alias_columns,
            mut extra_type_infos,
        } = header.schema;
        let mut schema = Schema {
            name: header.name,
            description: header.description,
            writer: header.writer,
            header_checksum: header.checksum,
            header_flags: header.feature_flags,
            in_header: (fields.len(), columns.len()),
            type_infos_in_header: extra_type_infos.len(),
            ..Schema::default()
        };
        columns.extend(footer.extension.columns);
        schema.columns = columns;
        extra_type_infos.extend(footer.extension.extra_type_infos);
        let records = fields.into_iter().chain(footer.extension.fields).collect();
        schema.link_fields(records)?;
        schema.link_columns()?;
        for alias in alias_columns.iter().chain(&footer.extension.alias_columns) {
            schema.link_alias(alias.physical_id, alias.field_id)?;
        }
        schema.skip_unknown();
        Ok(Self {
            anchor,
            feature_flags: header.feature_flags | footer.feature_flags,
            extended,
            extra_type_infos,
            cluster_groups: footer.cluster_groups,
            attribute_sets: footer.attribute_sets,
            schema: Arc::new(schema),
        })
    }

    /// Combines a footer with the header of another ntuple that is equal; none if one of the footers extends the schema.
    pub fn like(other: &Self, anchor: Anchor, footer: &Footer) -> Result<Option<Self>, SpecError> {
        check_footer(footer, other.header_checksum)?;
        if other.extended || is_extended(footer) {
            return Ok(None);
        }
        let known = other.extra_type_infos.iter();
        let known = known.take(other.type_infos_in_header);
        let added = &footer.extension.extra_type_infos;
        Ok(Some(Self {
            anchor,
            feature_flags: other.header_flags | footer.feature_flags,
            extended: false,
            extra_type_infos: known.chain(added).cloned().collect(),
            cluster_groups: footer.cluster_groups.clone(),
            attribute_sets: footer.attribute_sets.clone(),
            schema: Arc::clone(&other.schema),
        }))
    }

    /// Moves top-level fields with unreadable structures to the skipped ones.
    pub(crate) fn without_unreadable(mut self, names: &FieldNames) -> Self {
        let mut slots = Slots::default();
        let mut unreadable = Vec::new();
        for &id in &self.top_level {
            let built = build(&self, names, &|_| Some(0), true, &mut slots, id).map(drop);
            if let Err(reason) = built.and_then(|()| self.check_names(id)) {
                let name = self.field_name(id).to_owned();
                unreadable.push(SkippedField {
                    id,
                    name,
                    reason,
                    is_damage: false,
                });
            }
        }
        if !unreadable.is_empty() {
            let schema = Arc::make_mut(&mut self.schema);
            let is_skipped = |id: &FieldId| unreadable.iter().any(|skipped| skipped.id == *id);
            schema.top_level.retain(|id| !is_skipped(id));
            schema.skipped.append(&mut unreadable);
        }
        self
    }

    /// Checks that subfields of a field have different names: operations find them by name.
    fn check_names(&self, id: FieldId) -> Result<(), String> {
        let children = self.field(id).map_or(&[][..], |field| &field.children);
        let mut names = HashSet::new();
        for &child in children {
            if !names.insert(self.field_name(child)) {
                let (label, name) = (self.qualified_name(id), self.field_name(child));
                return Err(format!("field {label:?} has two subfields {name:?}"));
            }
            self.check_names(child)?;
        }
        Ok(())
    }

    /// Whether another ntuple has the same schema: the headers are equal, and nothing extends them.
    pub fn is_same_schema(&self, other: &Self) -> bool {
        let plain = !self.extended && !other.extended;
        plain && self.header_checksum == other.header_checksum
    }

    /// Number of entries: the end of the last cluster group.
    pub fn n_entries(&self) -> u64 {
        self.cluster_groups
            .iter()
            .map(|g| g.min_entry.saturating_add(g.entry_span))
            .max()
            .unwrap_or(0)
    }
}

impl Schema {
    /// Whether a field is within a variant. There, a path leads to the first alternative that has it.
    pub fn is_in_variant(&self, mut id: FieldId) -> bool {
        while let Some(parent) = self.field(id).and_then(|field| field.parent) {
            if self
                .field(parent)
                .is_some_and(|field| field.record.role == Role::Variant)
            {
                return true;
            }
            id = parent;
        }
        false
    }

    /// Whether a top-level field exists only as the source of projected fields, such as the collections that ROOT's
    /// importer creates for arrays with one counter. Users do not ask for it by name.
    pub fn is_hidden_source(&self, id: FieldId) -> bool {
        let source = |id: FieldId| self.field(id).and_then(|field| field.record.source_id);
        let mut others = self.top_level.iter();
        self.is_numbered(id) && others.any(|&other| source(other) == Some(id))
    }

    /// Whether a field is at the top level, with the name of a numbered collection. Top-level fields are in the order of
    /// their IDs.
    fn is_numbered(&self, id: FieldId) -> bool {
        self.field_name(id).starts_with(NUMBERED) && self.top_level.binary_search(&id).is_ok()
    }

    /// The numbered collections by the top-level fields projected from them, or from their items.
    pub fn numbered_collections(&self) -> impl Iterator<Item = (&str, FieldId)> {
        self.top_level.iter().filter_map(|&id| {
            let source = self.field(id)?.record.source_id?;
            self.is_numbered(source)
                .then(|| (self.field_name(id), source))
        })
    }

    /// The top-level fields with the lengths of collections that are among some top-level fields, or are their sources:
    /// `nMuon` for `Muon_pt`.
    pub fn counters(&self, chosen: &[FieldId]) -> Vec<FieldId> {
        let collections: HashSet<FieldId> = chosen.iter().map(|&id| self.physical(id)).collect();
        let is_counter = |&id: &FieldId| {
            let Some(record) = self.field(id).map(|field| &field.record) else {
                return false;
            };
            let counted = record.source_id;
            let counted = counted.filter(|_| record.type_name.starts_with(CARDINALITY));
            counted.is_some_and(|it| {
                collections.contains(&it) || collections.contains(&self.top_of(it))
            })
        };
        let top_level = self.top_level.iter().copied();
        let mut out: Vec<FieldId> = top_level.filter(is_counter).collect();
        out.retain(|id| !chosen.contains(id));
        out
    }

    /// A field by ID.
    pub fn field(&self, id: FieldId) -> Option<&Field> {
        self.fields.get(id as usize)
    }

    /// Names of the top-level fields.
    pub fn field_names(&self) -> impl Iterator<Item = &str> {
        self.top_level.iter().map(|&id| self.field_name(id))
    }

    /// Name of a field, for messages.
    pub fn field_name(&self, id: FieldId) -> &str {
        self.field(id)
            .map_or("?", |field| field.record.name.as_str())
    }

    /// Names from the top-level field to this one, separated by dots. They are unique.
    pub fn qualified_name(&self, id: FieldId) -> String {
        let mut names = vec![self.field_name(id)];
        let mut current = id;
        while let Some(parent) = self.field(current).and_then(|field| field.parent) {
            names.push(self.field_name(parent));
            current = parent;
        }
        names.reverse();
        names.join(".")
    }

    /// A physical column by ID.
    pub fn column(&self, id: u32) -> Option<&Column> {
        self.columns.get(id as usize)
    }

    /// The field with the data: the source of a projected field, else the field itself.
    pub fn physical(&self, id: FieldId) -> FieldId {
        self.field(id)
            .and_then(|field| field.record.source_id)
            .unwrap_or(id)
    }

    /// The columns of the physical field at `position`, one per representation.
    pub fn representations(&self, id: FieldId, position: usize) -> Vec<u32> {
        let columns = self
            .field(self.physical(id))
            .map_or(&[][..], |field| field.columns.as_slice());
        if let &[column] = columns {
            return Vec::from_iter((position == 0).then_some(column));
        }
        let mut seen: Vec<(u16, usize)> = Vec::new();
        let mut found = Vec::new();
        for &column in columns {
            let Some(representation) = self.column(column).map(|c| c.representation) else {
                continue;
            };
            let count = match seen.iter_mut().find(|(r, _)| *r == representation) {
                Some((_, count)) => {
                    *count += 1;
                    *count
                }
                None => {
                    seen.push((representation, 0));
                    0
                }
            };
            if count == position {
                found.push(column);
            }
        }
        found
    }

    /// Whether the representations of a field are numbered from 0, and have equal numbers of columns.
    pub fn has_even_representations(&self, id: FieldId) -> bool {
        let field = self.field(self.physical(id));
        let columns = field.map_or(&[][..], |field| field.columns.as_slice());
        if let &[only] = columns {
            return self
                .column(only)
                .is_none_or(|column| column.representation == 0);
        }
        let mut counts = vec![0usize; columns.len()];
        for column in columns.iter().filter_map(|&id| self.column(id)) {
            match counts.get_mut(usize::from(column.representation)) {
                Some(count) => *count += 1,
                None => return false,
            }
        }
        let n_used = counts.iter().filter(|&&count| count > 0).count();
        let first = counts.first();
        counts.iter().take(n_used).all(|count| Some(count) == first)
    }

    /// Number of columns of the first representation.
    pub fn n_columns(&self, id: FieldId) -> usize {
        let columns = self
            .field(self.physical(id))
            .map_or(&[][..], |field| field.columns.as_slice());
        columns
            .iter()
            .filter(|&&c| self.column(c).is_some_and(|c| c.representation == 0))
            .count()
    }

    /// The top-level ancestor.
    pub fn top_of(&self, mut id: FieldId) -> FieldId {
        while let Some(parent) = self.field(id).and_then(|field| field.parent) {
            id = parent;
        }
        id
    }

    fn link_fields(&mut self, records: Vec<FieldRecord>) -> Result<(), SpecError> {
        let mut depths: Vec<usize> = Vec::with_capacity(records.len());
        for (index, record) in records.into_iter().enumerate() {
            let id = to_id(index)?;
            let parent = (record.parent_id != id).then_some(record.parent_id);
            let depth = match parent {
                None => 0,
                Some(parent) => depths.get(parent as usize).map_or(usize::MAX, |d| d + 1),
            };
            if depth > MAX_DEPTH {
                let expected = format!("an earlier field, nested at most {MAX_DEPTH} deep");
                return Err(broken(
                    "parent of a field",
                    index,
                    expected,
                    format!("{parent:?}"),
                ));
            }
            depths.push(depth);
            if let Some(parent) = parent.and_then(|p| self.fields.get_mut(p as usize)) {
                parent.children.push(id);
            }
            self.fields.push(Field {
                record,
                parent,
                children: Vec::new(),
                columns: Vec::new(),
            });
        }
        for (index, field) in self.fields.iter().enumerate() {
            let Some(source) = field.record.source_id else {
                continue;
            };
            if self
                .field(source)
                .is_none_or(|source| source.record.source_id.is_some())
            {
                return Err(broken(
                    "source of a projected field",
                    index,
                    "a physical field".into(),
                    source.to_string(),
                ));
            }
        }
        Ok(())
    }

    fn link_columns(&mut self) -> Result<(), SpecError> {
        for (index, column) in self.columns.iter().enumerate() {
            let id = to_id(index)?;
            let Some(field) = self.fields.get_mut(column.field_id as usize) else {
                let expected = format!("below {}", self.fields.len());
                return Err(broken(
                    "field of a column",
                    index,
                    expected,
                    column.field_id.to_string(),
                ));
            };
            field.columns.push(id);
        }
        Ok(())
    }

    fn link_alias(&mut self, physical: u32, field: u32) -> Result<(), SpecError> {
        if self.column(physical).is_none() {
            let expected = format!("a physical column below {}", self.columns.len());
            return Err(broken(
                "alias column",
                physical as usize,
                expected,
                physical.to_string(),
            ));
        }
        match self.fields.get_mut(field as usize) {
            Some(field) if field.record.source_id.is_some() => {
                field.columns.push(physical);
                Ok(())
            }
            _ => Err(broken(
                "alias column",
                physical as usize,
                "a projected field".into(),
                field.to_string(),
            )),
        }
    }

    /// Skips top-level fields with unknown roles or column types, and projections of such fields.
    fn skip_unknown(&mut self) {
        let mut reasons: Vec<Option<String>> = vec![None; self.fields.len()];
        for (id, field) in (0u32..).zip(&self.fields) {
            let mut reason = match field.record.role {
                Role::Unknown(role) => Some(format!(
                    "field {:?} has unknown structural role {role}",
                    field.record.name
                )),
                _ => None,
            };
            for column in field.columns.iter().filter_map(|&c| self.column(c)) {
                if let ColumnType::Unknown(code) = column.column_type {
                    reason = Some(format!(
                        "field {:?} has unknown column type {code:#x}",
                        field.record.name
                    ));
                }
            }
            if let (Some(reason), Some(slot)) = (reason, reasons.get_mut(self.top_of(id) as usize))
            {
                slot.get_or_insert(reason);
            }
        }
        for (id, field) in (0u32..).zip(&self.fields) {
            let Some(source) = field.record.source_id else {
                continue;
            };
            let blocked = reasons
                .get(self.top_of(source) as usize)
                .is_some_and(Option::is_some);
            if let (true, Some(slot)) = (blocked, reasons.get_mut(self.top_of(id) as usize)) {
                slot.get_or_insert_with(|| {
                    format!("its source {:?} cannot be read", self.field_name(source))
                });
            }
        }
        for ((id, field), reason) in (0u32..).zip(&self.fields).zip(reasons) {
            match reason {
                _ if field.parent.is_some() => {}
                None => self.top_level.push(id),
                Some(reason) => self.skipped.push(SkippedField {
                    id,
                    name: field.record.name.clone(),
                    reason,
                    is_damage: false,
                }),
            }
        }
    }
}

fn check_footer(footer: &Footer, header_checksum: u64) -> Result<(), SpecError> {
    if footer.header_checksum == header_checksum {
        return Ok(());
    }
    Err(SpecError::Checksum {
        what: "footer's copy of the header",
        expected: header_checksum,
        found: footer.header_checksum,
    })
}

fn is_extended(footer: &Footer) -> bool {
    !footer.extension.fields.is_empty() || !footer.extension.columns.is_empty()
}

fn to_id(index: usize) -> Result<u32, SpecError> {
    u32::try_from(index).map_err(|_| {
        broken(
            "number of fields or columns",
            index,
            "below 2^32".into(),
            index.to_string(),
        )
    })
}

fn broken(what: &'static str, index: usize, expected: String, found: String) -> SpecError {
    SpecError::Unexpected {
        what,
        offset: index,
        expected,
        found,
    }
}
