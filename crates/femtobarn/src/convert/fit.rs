//! Combines the fields of several files: number types that hold the values of all files, without fields that some files
//! lack.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use femtobarn_rntuple::read::{Binding, Reader};
use femtobarn_rntuple::schema::{DType, Descriptor, FieldId, SlotKind};
use femtobarn_rntuple::write::{FieldKind, FieldModel, StoredAs};

use crate::ntuple::{NTuple, Selection};

/// Differences from the first file.
#[derive(Debug, Default)]
pub(super) struct Fit {
    /// Physical fields that some file stores differently, with number types for the values of all files.
    numbers: HashMap<FieldId, DType>,
    /// Physical collections with another template in some file: only a vector can hold the values of all files.
    containers: HashSet<FieldId>,
    /// Fields that are missing in some files.
    missing: HashSet<FieldId>,
}

impl Fit {
    /// The differences in the fields of a selection.
    pub fn new(ntuple: &NTuple, first: &Reader, selection: &Selection) -> Self {
        let left_out = ntuple.left_out();
        let missing = left_out.iter().map(|(path, _)| first.find_field(path));
        Self {
            numbers: numbers_that_differ(ntuple, selection),
            containers: containers_that_differ(ntuple, selection),
            missing: missing.flatten().collect(),
        }
    }

    /// The types of fields that differ from the first file.
    fn types(&self, descriptor: &Descriptor) -> HashMap<FieldId, String> {
        let ids = 0..u32::try_from(descriptor.fields.len()).unwrap_or(u32::MAX);
        let is_changed = |id: &FieldId| {
            let physical = descriptor.physical(*id);
            self.numbers.contains_key(&physical) || self.containers.contains(&physical)
        };
        let mut changed: HashSet<FieldId> = HashSet::new();
        for id in ids.filter(is_changed) {
            changed.extend(std::iter::successors(Some(id), |&id| {
                descriptor.field(id)?.parent
            }));
        }
        let fitted = changed.into_iter().filter_map(|id| {
            let model = FieldModel::with_data(descriptor, id).ok()?;
            let type_name = self.field(descriptor, id, model).type_name;
            let is_other = type_name != descriptor.field(id)?.record.type_name;
            // for readers, a class with other member types is still the same class
            (is_other && !type_name.is_empty()).then_some((id, type_name))
        });
        fitted.collect()
    }

    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.containers.is_empty() && self.missing.is_empty()
    }

    /// Whether all files have the field.
    pub fn has(&self, descriptor: &Descriptor, id: FieldId) -> bool {
        let mut above = std::iter::successors(Some(id), |&id| descriptor.field(id)?.parent);
        !above.any(|id| self.missing.contains(&id))
    }

    /// Adapts a field of the first file.
    pub fn field(&self, descriptor: &Descriptor, id: FieldId, mut model: FieldModel) -> FieldModel {
        if !self.is_empty() {
            self.change(descriptor, id, &mut model);
        }
        model
    }

    /// Adapts a model; returns whether its type has changed.
    fn change(&self, descriptor: &Descriptor, id: FieldId, model: &mut FieldModel) -> bool {
        let children = descriptor.field(id).map(|field| field.children.as_slice());
        let children = children.unwrap_or_default();
        let numbers = self.numbers.get(&descriptor.physical(id)).copied();
        match &mut model.kind {
            FieldKind::Leaf(leaf) => match numbers {
                Some(dtype) if dtype != leaf.dtype => {
                    *model = FieldModel {
                        description: model.description.clone(),
                        ..FieldModel::number(model.name.as_str(), dtype)
                    };
                    true
                }
                Some(_) => {
                    // another file may have more bits
                    let is_cut = matches!(leaf.stored, Some(StoredAs::Truncated(_)));
                    leaf.stored = leaf.stored.filter(|_| !is_cut);
                    false
                }
                None => false,
            },
            FieldKind::Projected { subfields, .. } if subfields.is_empty() => match numbers {
                Some(dtype) if is_other(&model.type_name, dtype) => {
                    dtype.type_name().clone_into(&mut model.type_name);
                    true
                }
                _ => false,
            },
            FieldKind::Record(members)
            | FieldKind::Variant(members)
            | FieldKind::Projected {
                subfields: members, ..
            } => {
                let is_changed = self.members(descriptor, children, members);
                // projected from a collection that becomes a vector
                let is_loose = self.is_loose(descriptor, id, &model.type_name);
                match members.as_slice() {
                    [item] if is_loose => {
                        model.type_name = FieldModel::vector("", item.clone()).type_name
                    }
                    _ if is_changed => rename(model),
                    _ => {}
                }
                is_changed || is_loose
            }
            FieldKind::Collection(item)
            | FieldKind::Optional(item)
            | FieldKind::Array(_, item)
            | FieldKind::Wrapper(item) => {
                let is_changed = match (children, &mut item.kind) {
                    (&[child], _) => self.change(descriptor, child, item),
                    (_, FieldKind::Record(members)) => self.members(descriptor, children, members),
                    _ => false,
                };
                // a pointer is read as a list
                let is_list = matches!(model.kind, FieldKind::Collection(_))
                    || template(&model.type_name) == "unique_ptr";
                if is_list
                    && self.is_loose(descriptor, id, &model.type_name)
                    && let FieldKind::Collection(item) | FieldKind::Optional(item) = &model.kind
                {
                    *model = FieldModel {
                        description: model.description.clone(),
                        is_ordered: model.is_ordered,
                        ..FieldModel::vector(model.name.as_str(), item.as_ref().clone())
                    };
                    return true;
                }
                if is_changed {
                    rename(model);
                }
                is_changed
            }
            FieldKind::String | FieldKind::Streamed | FieldKind::Bitset(_) => false,
        }
    }

    /// Whether a collection type has guarantees (sorted, unique) that the values of another file may violate.
    fn is_loose(&self, descriptor: &Descriptor, id: FieldId, type_name: &str) -> bool {
        let promises_nothing = ["", "vector", "RVec", "ROOT::RVec", "ROOT::VecOps::RVec"];
        self.containers.contains(&descriptor.physical(id))
            && !promises_nothing.contains(&template(type_name))
    }

    fn members(
        &self,
        descriptor: &Descriptor,
        children: &[FieldId],
        members: &mut Vec<FieldModel>,
    ) -> bool {
        let n_members = members.len();
        let is_there = |id: &FieldId| !self.missing.contains(id);
        let mut each = children.iter();
        members.retain(|_| each.next().is_none_or(is_there));
        let mut is_changed = members.len() < n_members;
        for (&id, member) in children.iter().filter(|id| is_there(id)).zip(members) {
            is_changed |= self.change(descriptor, id, member);
        }
        is_changed
    }
}

impl NTuple {
    /// The types of fields with different types in the files: numbers that hold the values of all files, and vectors if
    /// not all files have sets or maps.
    pub fn common_types(&self) -> HashMap<FieldId, String> {
        let mut distinct: Vec<Arc<Reader>> = Vec::new();
        for reader in self.readers() {
            let is_known = |known: &Arc<Reader>| {
                let (known, own) = (known.descriptor(), reader.descriptor());
                Arc::ptr_eq(&known.schema, &own.schema) || known.is_same_schema(own)
            };
            if !distinct.iter().any(is_known) {
                distinct.push(reader.clone());
            }
        }
        let Some(first) = distinct.first().cloned().filter(|_| distinct.len() > 1) else {
            return HashMap::new();
        };
        let ntuple = Self::of(distinct);
        let Ok(selection) = ntuple.select(None) else {
            // the reader then reports an error that explains the difference
            return HashMap::new();
        };
        let fit = Fit {
            missing: HashSet::new(),
            ..Fit::new(&ntuple, &first, &selection)
        };
        fit.types(first.descriptor())
    }
}

/// The files with their columns to read; files with the same columns appear once.
fn distinct<'a>(
    ntuple: &'a NTuple,
    selection: &'a Selection,
) -> Vec<(&'a Descriptor, &'a Binding)> {
    let files = ntuple.readers().iter().zip(&*selection.bindings);
    let mut known: HashSet<*const Binding> = HashSet::new();
    let files = files.filter(|(_, binding)| known.insert(Arc::as_ptr(binding)));
    let files = files.map(|(reader, binding)| (reader.descriptor(), &**binding));
    files.collect()
}

/// Physical fields of the first file that another file stores differently, with number types that hold the values of
/// all files.
fn numbers_that_differ(ntuple: &NTuple, selection: &Selection) -> HashMap<FieldId, DType> {
    let mut out = HashMap::new();
    let files = distinct(ntuple, selection);
    for (index, slot) in selection.schema.slots.as_slice().iter().enumerate() {
        let (SlotKind::Leaf(dtype), 0) = (slot.kind, slot.position) else {
            continue;
        };
        let mut columns = files.iter().map(|(descriptor, binding)| {
            let columns = binding.columns(index).iter();
            let columns = columns.filter_map(|&id| descriptor.column(id));
            let stored = columns.map(|column| (column.column_type, column.bits));
            stored.collect::<Vec<_>>()
        });
        let first = columns.next();
        if columns.any(|other| Some(other) != first) {
            out.insert(slot.field, dtype);
        }
    }
    out
}

/// Physical collections of the first file with another template in another file, such as a set here and a vector there.
fn containers_that_differ(ntuple: &NTuple, selection: &Selection) -> HashSet<FieldId> {
    let mut out = HashSet::new();
    let files = distinct(ntuple, selection);
    for (index, slot) in selection.schema.slots.as_slice().iter().enumerate() {
        if slot.kind != SlotKind::Index {
            continue;
        }
        let mut templates = files.iter().filter_map(|(descriptor, binding)| {
            let column = descriptor.column(*binding.columns(index).first()?)?;
            let field = descriptor.field(column.field_id)?;
            Some(template(&field.record.type_name))
        });
        let first = templates.next();
        if templates.any(|other| Some(other) != first) {
            out.insert(slot.field);
        }
    }
    out
}

/// A type without its arguments.
fn template(type_name: &str) -> &str {
    let name = type_name.split('<').next().unwrap_or_default();
    name.strip_prefix("std::").unwrap_or(name)
}

/// Whether a C++ type is not the one for a number type.
fn is_other(type_name: &str, dtype: DType) -> bool {
    let known = FieldModel::from_type_name("", type_name).map(|known| known.kind);
    !matches!(known, Ok(FieldKind::Leaf(leaf)) if leaf.dtype == dtype)
}

/// Updates the type name of a field after changes below it.
fn rename(model: &mut FieldModel) {
    let old = std::mem::take(&mut model.type_name);
    model.type_name = instance(&old, model.subfields());
    model.type_alias.clear();
    (model.type_version, model.type_checksum) = (0, None);
    model.is_soa = false;
    let name = model.name.clone();
    let is_nameless = model.type_name.is_empty();
    let made = match &model.kind {
        FieldKind::Optional(item) => FieldModel::optional(name, item.as_ref().clone()),
        FieldKind::Array(size, item) => FieldModel::array(name, *size, item.as_ref().clone()),
        FieldKind::Collection(item) if is_nameless => {
            FieldModel::vector(name, item.as_ref().clone())
        }
        // an enum has one integer type
        FieldKind::Wrapper(item) if is_nameless => item.as_ref().clone().named(name),
        _ => return,
    };
    *model = FieldModel {
        description: model.description.clone(),
        is_ordered: model.is_ordered,
        ..made
    };
}

/// The name of a standard library template with other arguments. Empty for other types: a class with other members is a
/// different class.
fn instance(type_name: &str, arguments: &[FieldModel]) -> String {
    let template = type_name.split('<').next().unwrap_or_default();
    let types: Vec<&str> = arguments.iter().map(|it| it.type_name.as_str()).collect();
    let is_known = template.starts_with("std::") || template == "ROOT::VecOps::RVec";
    if !is_known || types.is_empty() || types.contains(&"") {
        return String::new();
    }
    let mut inner = types.join(",");
    if template.ends_with("map") {
        let pair = inner.strip_prefix("std::pair<");
        let Some(pair) = pair.and_then(|pair| pair.strip_suffix('>')) else {
            return String::new();
        };
        inner = pair.to_owned();
    } else if template == "std::array"
        && let Some((_, size)) = type_name.trim_end_matches('>').rsplit_once(',')
    {
        inner = format!("{inner},{size}");
    }
    format!("{template}<{inner}>")
}
