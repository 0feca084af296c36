//! Classes that inherit a base class twice: the members of bases become records, as for split objects, so that
//! member names are unique.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeListArray};
use arrow_schema::Field;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::FieldId;
use femtobarn_rntuple::spec::Role;
use femtobarn_rntuple::write::{FieldKind, FieldModel};
use femtobarn_ttree::Tree;

use super::fit::Fit;
use super::reshape::{list, record};
use super::source::refused;

/// The members that are moved into records of their bases.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Levels {
    /// No members.
    Same,
    /// Members of the items of lists or arrays.
    Items(Box<Levels>),
    /// Members of a record.
    Members(Vec<Member>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    name: String,
    /// The bases that contain the member, outermost first.
    bases: Vec<String>,
    levels: Levels,
}

impl Levels {
    /// The moved members of a field of a tree.
    pub fn new(reader: &Reader, fit: &Fit, id: FieldId) -> Self {
        let descriptor = reader.descriptor();
        let Some(field) = descriptor.field(id) else {
            return Self::Same;
        };
        if field.record.role != Role::Record {
            return match field.children.as_slice() {
                &[item] => match Self::new(reader, fit, item) {
                    Self::Same => Self::Same,
                    levels => Self::Items(Box::new(levels)),
                },
                _ => Self::Same,
            };
        }
        let bases = Tree::bases(reader, id).unwrap_or_default();
        let members = field.children.iter().enumerate().map(|(at, &child)| {
            let member = Member {
                name: descriptor.field_name(child).to_owned(),
                bases: bases.get(at).cloned().unwrap_or_default(),
                levels: Self::new(reader, fit, child),
            };
            (child, member)
        });
        let members = members.filter(|&(child, _)| fit.has(descriptor, child));
        let members: Vec<Member> = members.map(|(_, member)| member).collect();
        let is_same = |member: &Member| member.bases.is_empty() && member.levels == Self::Same;
        if members.iter().all(is_same) {
            return Self::Same;
        }
        Self::Members(members)
    }

    /// The model with records for bases.
    pub fn model(&self, model: FieldModel) -> FieldModel {
        let kind = match (self, model.kind) {
            (Self::Members(members), FieldKind::Record(models)) => {
                let each = members.iter().zip(models);
                let each = each.map(|(own, model)| (own.bases.as_slice(), own.levels.model(model)));
                let base = |name: &str, models| FieldModel::record(name, "", models);
                FieldKind::Record(nested(each.collect(), &base))
            }
            (Self::Items(levels), FieldKind::Collection(item)) => {
                FieldKind::Collection(Box::new(levels.model(*item)))
            }
            (Self::Items(levels), FieldKind::Array(size, item)) => {
                FieldKind::Array(size, Box::new(levels.model(*item)))
            }
            (_, kind) => kind,
        };
        FieldModel { kind, ..model }
    }

    /// The values with records for bases.
    pub fn array(&self, array: &ArrayRef) -> Result<ArrayRef, RNTupleError> {
        match self {
            Self::Same => Ok(array.clone()),
            Self::Items(levels) => {
                if let Some(lists) = array.as_list_opt::<i64>() {
                    return list(lists.offsets().clone(), levels.array(lists.values())?);
                }
                let Some(arrays) = array.as_fixed_size_list_opt() else {
                    return Err(RNTupleError::internal("items of a type without items"));
                };
                let items = levels.array(arrays.values())?;
                let field = Arc::new(Field::new("item", items.data_type().clone(), true));
                let made = FixedSizeListArray::try_new(field, arrays.value_length(), items, None);
                Ok(Arc::new(
                    made.map_err(|error| refused("", error.to_string()))?,
                ))
            }
            Self::Members(members) => {
                let Some(records) = array.as_struct_opt() else {
                    return Err(RNTupleError::internal(
                        "members of a type that is not a record",
                    ));
                };
                let each = members.iter().zip(records.columns()).map(|(own, array)| {
                    let array = own.levels.array(array)?;
                    Ok((own.bases.as_slice(), Ok((own.name.clone(), array))))
                });
                let n = array.len();
                let base = |name: &str, members: Vec<Result<_, _>>| {
                    let members = members.into_iter().collect::<Result<_, RNTupleError>>()?;
                    Ok((name.to_owned(), record(members, n)?))
                };
                let each = each.collect::<Result<_, RNTupleError>>()?;
                let members = nested(each, &base).into_iter();
                record(members.collect::<Result<_, RNTupleError>>()?, n)
            }
        }
    }
}

/// Combines the members of each base into a record; they are adjacent.
fn nested<T>(members: Vec<(&[String], T)>, record: &dyn Fn(&str, Vec<T>) -> T) -> Vec<T> {
    let mut out = Vec::new();
    let mut rest = members.into_iter().peekable();
    while let Some((bases, member)) = rest.next() {
        let Some((base, deeper)) = bases.split_first() else {
            out.push(member);
            continue;
        };
        let mut own = vec![(deeper, member)];
        while let Some((bases, member)) = rest.next_if(|(bases, _)| bases.first() == Some(base)) {
            own.push((bases.get(1..).unwrap_or_default(), member));
        }
        out.push(record(base, nested(own, record)));
    }
    out
}
