//! Presents a tree's branches as fields and columns of an ntuple.

mod bases;
mod groups;
mod objects;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use femtobarn_rntuple::schema::{Descriptor, Field, FieldId, Schema, SkippedField};
use femtobarn_rntuple::spec::{
    Anchor, ClusterGroup, ColumnFlags, ColumnRecord, ColumnType, EnvelopeLink, FieldFlags,
    FieldRecord, Role, StoredRange,
};

use crate::interp::{Content, Meaning, Record, Shape, TextWire, meaning};
use crate::model::{BranchId, Filling, TreeModel};
use crate::object::Infos;

const REPETITIVE: u16 = 1;

/// The source of a column's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Column `local` of a branch.
    Branch { branch: BranchId, local: usize },
    /// Offsets derived from a counter.
    Counter(BranchId),
}

/// A branch with data.
#[derive(Debug, Clone)]
pub(crate) struct Data {
    pub shape: Shape,
    pub content: Content,
    /// The field of the branch.
    pub field: FieldId,
}

/// A tree presented as an ntuple.
#[derive(Debug)]
pub(crate) struct Described {
    pub schema: Arc<Schema>,
    pub owners: Vec<Owner>,
    pub data: Vec<Option<Data>>,
    /// The fields with the objects of split classes, by branch.
    pub objects: Vec<(BranchId, FieldId)>,
    /// The fields with a TString.
    pub tstrings: HashSet<FieldId>,
    /// Alternative names of fields.
    pub aliases: HashMap<String, FieldId>,
    /// Paths of base classes, for records in which member names are not unique.
    pub bases: HashMap<FieldId, Vec<Vec<String>>>,
}

/// Makes fields and columns of all branches that are understood.
pub(crate) fn describe(model: &TreeModel, infos: &Infos, writer: String) -> Described {
    let meanings = (0..model.branches.len()).map(|id| meaning(model, id, infos));
    let meanings: Vec<_> = meanings.collect();
    let mut builder = Builder {
        model,
        fields: Vec::new(),
        columns: Vec::new(),
        owners: Vec::new(),
        top_level: Vec::new(),
        skipped: Vec::new(),
        all_lack: all_lack(model),
        names: HashSet::new(),
        owners_of_names: owners_of_names(model),
        seen: HashMap::new(),
        shared: HashMap::new(),
        data: vec![None; model.branches.len()],
        objects: Vec::new(),
        tstrings: HashSet::new(),
        aliases: HashMap::new(),
        bases: HashMap::new(),
    };
    for (id, meaning) in meanings.iter().enumerate() {
        builder.branch(id, meaning);
    }
    let values = |id: BranchId| matches!(meanings.get(id), Some(Ok(Meaning::Group)));
    builder.groups(&values);
    builder.objects(infos);
    builder.finish(writer)
}

/// The descriptor of a tree with this schema and these entries.
pub(crate) fn descriptor(schema: Arc<Schema>, filling: &Filling) -> Descriptor {
    let n_clusters = filling.clusters.len().saturating_sub(1);
    let group = ClusterGroup {
        min_entry: 0,
        entry_span: filling.n_entries,
        n_clusters: u32::try_from(n_clusters).unwrap_or(u32::MAX),
        page_list: EnvelopeLink {
            length: 0,
            stored: StoredRange::default(),
        },
    };
    Descriptor {
        anchor: Anchor::default(),
        feature_flags: 0,
        extended: false,
        extra_type_infos: Vec::new(),
        cluster_groups: vec![group],
        attribute_sets: Vec::new(),
        schema,
    }
}

/// The branch that a name without a path stands for: a top-level branch, or else the first, as ROOT's
/// `TTree::GetBranch` finds it.
fn owners_of_names(model: &TreeModel) -> HashMap<&str, BranchId> {
    let top_level = model.top_level.iter().copied();
    let mut owners = HashMap::with_capacity(model.branches.len());
    for id in top_level.chain(0..model.branches.len()) {
        if let Some(branch) = model.branch(id) {
            owners.entry(branch.name.as_str()).or_insert(id);
        }
    }
    owners
}

fn all_lack(model: &TreeModel) -> bool {
    let mut filled = model.branches.iter();
    filled.any(|branch| branch.lacks.is_some())
        && (model.branches.iter()).all(|branch| branch.leaves.is_empty() || branch.lacks.is_some())
}

struct Builder<'m> {
    model: &'m TreeModel,
    fields: Vec<Field>,
    columns: Vec<ColumnRecord>,
    owners: Vec<Owner>,
    top_level: Vec<FieldId>,
    skipped: Vec<SkippedField>,
    /// Whether no branch has all entries that the tree claims.
    all_lack: bool,
    names: HashSet<String>,
    /// The branch that a name without a path stands for.
    owners_of_names: HashMap<&'m str, BranchId>,
    /// How often each path has occurred.
    seen: HashMap<String, usize>,
    /// The field whose offsets are shared by all lists with the same counter.
    shared: HashMap<BranchId, FieldId>,
    data: Vec<Option<Data>>,
    objects: Vec<(BranchId, FieldId)>,
    tstrings: HashSet<FieldId>,
    aliases: HashMap<String, FieldId>,
    bases: HashMap<FieldId, Vec<Vec<String>>>,
}

impl Builder<'_> {
    fn branch(&mut self, id: BranchId, meaning: &Result<Meaning, crate::TreeError>) {
        if matches!(meaning, Ok(Meaning::Group)) {
            return;
        }
        // branch names need not be unique
        let mut path = self.model.path(id);
        let number = self.seen.entry(path.clone()).or_insert(0);
        *number += 1;
        if *number > 1 {
            path = format!("{path}#{number}");
        }
        let name = self.own_name(id, &path);
        let branch = self.model.branch(id);
        let field = match meaning {
            Ok(Meaning::Group) => return,
            Ok(Meaning::Values { shape, content }) => match branch.and_then(|b| b.lacks.clone()) {
                None => self.add_branch(id, &name, shape, content),
                Some(reason) => {
                    // others may be filled less often, but not all
                    let is_damage = self.all_lack || branch.is_some_and(|branch| branch.lacks_own);
                    return self.skip(name, reason, is_damage);
                }
            },
            Err(error) => {
                let is_damage = branch.is_some_and(|branch| branch.problem.is_some());
                return self.skip(name, error.to_string(), is_damage);
            }
        };
        for alias in [format!("/{path}"), path] {
            self.aliases.entry(alias).or_insert(field);
        }
    }

    /// Selects a unique field name: the branch's own name if it stands for this branch, or else its path.
    fn own_name(&mut self, id: BranchId, path: &str) -> String {
        let branch = self.model.branch(id);
        let own = branch.map_or("", |branch| branch.name.as_str());
        let is_meant = self.owners_of_names.get(own) == Some(&id);
        // a top-level branch may have the path of another branch as its name
        let is_free = |name: &str| {
            let owner = self.owners_of_names.get(name);
            owner.is_none_or(|&owner| owner == id) && !self.names.contains(name)
        };
        let numbered = (2u64..).map(|n| format!("{path}#{n}"));
        let mut names = is_meant
            .then(|| own.to_owned())
            .into_iter()
            .chain([path.to_owned()])
            .chain(numbered);
        let name = names.find(|name| is_free(name)).unwrap_or_default();
        self.names.insert(name.clone());
        name
    }

    fn skip(&mut self, name: String, reason: String, is_damage: bool) {
        let id = self.add(None, &name, Role::Plain, String::new(), None);
        self.skipped.push(SkippedField {
            id,
            name,
            reason,
            is_damage,
        });
    }

    fn add_branch(
        &mut self,
        id: BranchId,
        name: &str,
        shape: &Shape,
        content: &Content,
    ) -> FieldId {
        let mut local = 0;
        let field = match content {
            Content::Counted { counter, .. } => self.counted(id, *counter, name, shape),
            _ => self.shape(None, name, shape, id, &mut local),
        };
        if let (Some(field), Some(branch)) =
            (self.fields.get_mut(field as usize), self.model.branch(id))
        {
            if branch.title != branch.name {
                field.record.description = branch.title.to_string();
            }
            field.record.type_version = u32::try_from(branch.class_version).unwrap_or(0);
        }
        if let Some(place) = self.data.get_mut(id) {
            *place = Some(Data {
                shape: shape.clone(),
                content: content.clone(),
                field,
            });
        }
        self.top_level.push(field);
        field
    }

    /// Adds a list with a counter. All lists with this counter share their offsets.
    fn counted(&mut self, id: BranchId, counter: BranchId, name: &str, shape: &Shape) -> FieldId {
        let field = self.add(None, name, Role::Collection, shape.type_name(), None);
        self.count(field, counter);
        if let Shape::List { item, .. } = shape {
            // the first column of the branch is its offsets
            let mut local = 1;
            self.shape(Some(field), "_0", item, id, &mut local);
        }
        field
    }

    fn shape(
        &mut self,
        parent: Option<FieldId>,
        name: &str,
        shape: &Shape,
        branch: BranchId,
        local: &mut usize,
    ) -> FieldId {
        let mut owner = || {
            let owner = Owner::Branch {
                branch,
                local: *local,
            };
            *local += 1;
            owner
        };
        match shape {
            Shape::Number(number) => {
                let own = owner();
                let field = self.add(parent, name, Role::Plain, shape.type_name(), None);
                self.column(field, number.dtype.plain_column(), own);
                field
            }
            Shape::Text(wire) => {
                let (index, chars) = (owner(), owner());
                let field = self.add(parent, name, Role::Plain, shape.type_name(), None);
                if *wire == TextWire::Root {
                    self.tstrings.insert(field);
                }
                self.column(field, ColumnType::Index64, index);
                self.column(field, ColumnType::Char, chars);
                field
            }
            Shape::Array { n, item } => {
                let field = self.add(parent, name, Role::Plain, shape.type_name(), Some(*n));
                self.shape(Some(field), "_0", item, branch, local);
                field
            }
            Shape::List { item, .. } => {
                let own = owner();
                let field = self.add(parent, name, Role::Collection, shape.type_name(), None);
                self.column(field, ColumnType::Index64, own);
                self.shape(Some(field), "_0", item, branch, local);
                field
            }
            Shape::Record(record) => {
                let field = self.add(parent, name, Role::Record, shape.type_name(), None);
                self.members(field, record, branch, local);
                if let Some(bases) = bases::bases(record) {
                    self.bases.insert(field, bases);
                }
                field
            }
            Shape::Hidden(_) => self.add(parent, name, Role::Record, shape.type_name(), None),
        }
    }

    /// Adds the members of a record, including those of its bases.
    fn members(&mut self, field: FieldId, record: &Record, branch: BranchId, local: &mut usize) {
        for member in &record.members {
            match &member.shape {
                Shape::Hidden(_) => {}
                Shape::Record(base) if member.is_base => self.members(field, base, branch, local),
                shape => {
                    self.shape(Some(field), &member.name, shape, branch, local);
                }
            }
        }
    }

    fn add(
        &mut self,
        parent: Option<FieldId>,
        name: &str,
        role: Role,
        type_name: String,
        array_size: Option<u64>,
    ) -> FieldId {
        let id = u32::try_from(self.fields.len()).unwrap_or(u32::MAX);
        if let Some(parent) = parent.and_then(|parent| self.fields.get_mut(parent as usize)) {
            parent.children.push(id);
        }
        self.fields.push(Field {
            record: FieldRecord {
                field_version: 0,
                type_version: 0,
                parent_id: parent.unwrap_or(id),
                role,
                flags: FieldFlags(if array_size.is_some() { REPETITIVE } else { 0 }),
                name: name.to_owned(),
                type_name,
                type_alias: String::new(),
                description: String::new(),
                array_size,
                source_id: None,
                type_checksum: None,
            },
            parent,
            children: Vec::new(),
            columns: Vec::new(),
        });
        id
    }

    fn column(&mut self, field_id: FieldId, column_type: ColumnType, owner: Owner) {
        let id = u32::try_from(self.columns.len()).unwrap_or(u32::MAX);
        self.columns.push(ColumnRecord {
            column_type,
            bits: match column_type {
                // a boolean takes a byte in a TTree
                ColumnType::Bit => 8,
                _ => column_type.default_bits(),
            },
            field_id,
            flags: ColumnFlags(0),
            representation: 0,
            first_element: 0,
            range: None,
        });
        self.owners.push(owner);
        if let Some(field) = self.fields.get_mut(field_id as usize) {
            field.columns.push(id);
        }
    }

    fn finish(self, writer: String) -> Described {
        let mut text = String::new();
        for field in &self.fields {
            let record = &field.record;
            let (name, type_name) = (&record.name, &record.type_name);
            text.push_str(&format!("{:?} {name} {type_name}\n", field.parent));
        }
        let schema = Schema {
            name: self.model.name.clone(),
            description: self.model.title.clone(),
            writer,
            // equal trees have equal fields at the same positions
            header_checksum: femtobarn_codec::xxh3(text.as_bytes()),
            header_flags: 0,
            in_header: (self.fields.len(), self.columns.len()),
            fields: self.fields,
            columns: self.columns,
            type_infos_in_header: 0,
            top_level: self.top_level,
            skipped: self.skipped,
        };
        Described {
            schema: Arc::new(schema),
            owners: self.owners,
            data: self.data,
            objects: self.objects,
            tstrings: self.tstrings,
            aliases: self.aliases,
            bases: self.bases,
        }
    }
}
