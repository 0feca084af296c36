//! Field types that ROOT supports without dictionaries.

use femtobarn_rntuple::write::{FieldKind, FieldModel};
use femtobarn_ttree::model::Branch;

use super::reshape::Piece;

/// A member of a collection as a projected field: a separate vector.
pub(super) fn projected(name: &str, collection: &str, item: &FieldModel) -> FieldModel {
    let source = format!("{collection}._0.{}", item.name);
    let below = below(item, "_0", &source);
    let type_name = match item.type_name.as_str() {
        "" => String::new(),
        item => format!("ROOT::VecOps::RVec<{item}>"),
    };
    FieldModel::projected(name, type_name, collection, vec![below])
}

fn below(item: &FieldModel, name: &str, source: &str) -> FieldModel {
    let subfields = item.subfields().iter();
    let subfields = subfields.map(|sub| below(sub, &sub.name, &format!("{source}.{}", sub.name)));
    FieldModel::projected(name, item.type_name.as_str(), source, subfields.collect())
}

/// A field with types that ROOT supports without dictionaries: classes become records without a class, and unknown
/// containers become vectors.
pub(super) fn natural(model: &FieldModel) -> FieldModel {
    let name = model.name.as_str();
    let known = FieldModel::from_type_name(name, &model.type_name).ok();
    let below = || model.subfields().iter().map(natural);
    let made = match &model.kind {
        FieldKind::Record(_) => match known {
            Some(known) if matches!(known.kind, FieldKind::Record(_)) => {
                // members of pairs and tuples are numbered in ntuples; in trees they are `first` and `second`
                let members = (0..).zip(below());
                let members =
                    members.map(|(at, member): (usize, _)| member.named(format!("_{at}")));
                FieldModel::record(name, known.type_name, members.collect())
            }
            _ => FieldModel::record(name, "", below().collect()),
        },
        FieldKind::Collection(item) => match known.map(|known| (known.type_name, known.kind)) {
            Some((type_name, FieldKind::Collection(inner))) => {
                let mut item = natural(item);
                // the pairs of a map
                if matches!(inner.kind, FieldKind::Record(_)) {
                    item.type_name = inner.type_name;
                }
                FieldModel::new(name, type_name, FieldKind::Collection(Box::new(item)))
            }
            _ => FieldModel::vector(name, natural(item)),
        },
        FieldKind::Array(size, item) => FieldModel::array(name, *size, natural(item)),
        FieldKind::Optional(item) => FieldModel::optional(name, natural(item)),
        FieldKind::Wrapper(item) => natural(item).named(name),
        kind => FieldModel::new(name, model.type_name.as_str(), kind.clone()),
    };
    FieldModel {
        type_alias: model.type_alias.clone(),
        description: model.description.clone(),
        is_ordered: true,
        ..made
    }
}

/// The map of a branch that is split into keys and values, if its types are known.
pub(super) fn map(branch: &Branch, members: &[(String, Piece)]) -> Option<FieldModel> {
    let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    if names != ["first", "second"] {
        return None;
    }
    let mut map = FieldModel::from_type_name("", &branch.object_class).ok()?;
    map.is_ordered = true;
    map.type_name.contains("map<").then_some(map)
}

/// Nested arrays as flat arrays, also in members of records; `None` if there are none.
pub(super) fn flattened(model: &FieldModel) -> Option<FieldModel> {
    if let FieldKind::Record(members) = &model.kind {
        let flat: Vec<_> = members.iter().map(flattened).collect();
        if flat.iter().all(Option::is_none) {
            return None;
        }
        let each = flat.into_iter().zip(members);
        let members = each.map(|(flat, member)| flat.unwrap_or_else(|| member.clone()));
        return Some(FieldModel {
            kind: FieldKind::Record(members.collect()),
            ..model.clone()
        });
    }
    let FieldKind::Array(size, item) = &model.kind else {
        return None;
    };
    let FieldKind::Array(..) = item.kind else {
        return None;
    };
    let (mut size, mut item) = (*size, item.as_ref().clone());
    while let FieldKind::Array(n, inner) = item.kind {
        size = size.checked_mul(n)?;
        item = *inner;
    }
    let flat = FieldModel::array(model.name.as_str(), size, item);
    Some(FieldModel {
        description: model.description.clone(),
        ..flat
    })
}
