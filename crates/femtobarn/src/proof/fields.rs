//! Matches the fields of the output with the fields of an input, and their columns.

use std::collections::HashMap;

use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::{Descriptor, FieldId, same_collections};
use femtobarn_rntuple::write::is_same_type;

/// A top-level field of the output, and its counterpart in an input.
#[derive(Debug)]
pub(super) struct FieldPair {
    pub name: String,
    /// The selections for comparing values, in the output and in the input: the field, or the members that both have.
    pub read: Vec<(FieldId, FieldId)>,
    /// The columns of the field in the output and in the input, over all representations.
    pub columns: Vec<(Vec<u32>, Vec<u32>)>,
    /// Members of the input that the output does not have.
    pub left_out: Vec<String>,
}

/// The counterpart of an output field in an input.
pub(super) enum Counterpart {
    Found(FieldPair),
    /// The input does not have it.
    Missing,
    /// The input lacks the field, but has the collection that it is projected from, and so as many items.
    MissingMember,
    /// The input lacks the field, but has its sources, which are these top-level fields.
    Projected(Vec<String>),
    /// The input has another kind of field: descriptions of the output's field and of the input's.
    Other(String, String),
}

/// The top-level fields of an ntuple by their names in the header, not by the paths that users look up.
pub(super) fn by_name(descriptor: &Descriptor) -> HashMap<&str, FieldId> {
    let all = descriptor.top_level.iter();
    all.map(|&id| (descriptor.field_name(id), id)).collect()
}

/// The top-level fields of an input by their names in the output, which numbers collections by itself.
pub(super) fn by_name_in<'a>(
    output: &'a Descriptor,
    input: &'a Descriptor,
) -> HashMap<&'a str, FieldId> {
    let mut out = by_name(input);
    let same = same_collections(output.numbered_collections(), input.numbered_collections());
    for (_, own) in output.numbered_collections() {
        out.remove(output.field_name(own));
    }
    for (id, own) in same {
        out.insert(output.field_name(own), id);
    }
    out
}

/// Finds a top-level field of the output in an input, whose top-level fields are given by name.
pub(super) fn counterpart(
    output: &Reader,
    id: FieldId,
    input: &Reader,
    known: &HashMap<&str, FieldId>,
) -> Counterpart {
    let name = output.descriptor().field_name(id).to_owned();
    let Some(&other) = known.get(name.as_str()) else {
        let mut shown = Vec::new();
        let (ours, theirs) = (output.descriptor(), input.descriptor());
        return match shows_known(ours, id, known, &mut shown) {
            false => Counterpart::Missing,
            true if lacks_member(ours, id, theirs, known) => Counterpart::MissingMember,
            true => Counterpart::Projected(shown),
        };
    };
    let mut pair = FieldPair {
        name,
        read: Vec::new(),
        columns: Vec::new(),
        left_out: Vec::new(),
    };
    match pair.add(output, id, input, other) {
        Ok(read) => {
            pair.read = read;
            Counterpart::Found(pair)
        }
        Err((found, expected)) => Counterpart::Other(found, expected),
    }
}

/// Whether a field or its subfields are projected from output fields that the input also has, and which.
fn shows_known(
    descriptor: &Descriptor,
    id: FieldId,
    known: &HashMap<&str, FieldId>,
    shown: &mut Vec<String>,
) -> bool {
    let Some(field) = descriptor.field(id) else {
        return false;
    };
    if let Some(source) = field.record.source_id {
        let name = descriptor.field_name(descriptor.top_of(source));
        shown.push(name.to_owned());
        return known.contains_key(name);
    }
    let mut below = field.children.iter();
    !field.children.is_empty() && below.all(|&child| shows_known(descriptor, child, known, shown))
}

/// Whether a list shows a member that the items of its collection do not have in the input.
fn lacks_member(
    ours: &Descriptor,
    id: FieldId,
    theirs: &Descriptor,
    known: &HashMap<&str, FieldId>,
) -> bool {
    let named = |id: FieldId, name: &str| {
        let below = theirs.field(id).map(|field| field.children.iter());
        let mut below = below.into_iter().flatten();
        below.any(|&child| theirs.field_name(child) == name)
    };
    let items = ours.field(id).map(|field| field.children.iter());
    let mut sources = items.into_iter().flatten();
    sources.any(|&item| {
        let member = ours.field(item).and_then(|field| field.record.source_id);
        let item = member.and_then(|member| ours.field(member)?.parent);
        let Some((member, item)) = member.zip(item) else {
            return false;
        };
        let collection = known.get(ours.field_name(ours.top_of(member)));
        let theirs_item = collection.and_then(|&id| theirs.field(id)?.children.first().copied());
        is_numbered_item(ours, item)
            && theirs_item.is_some_and(|item| !named(item, ours.field_name(member)))
    })
}

/// Whether a field is the item of a numbered collection, whose members are compared as the fields projected from them.
fn is_numbered_item(descriptor: &Descriptor, id: FieldId) -> bool {
    let parent = descriptor.field(id).and_then(|field| field.parent);
    parent.is_some_and(|parent| descriptor.is_hidden_source(parent))
}

impl FieldPair {
    /// Pairs a field and its subfields; returns the common part. The error describes both.
    fn add(
        &mut self,
        output: &Reader,
        id: FieldId,
        input: &Reader,
        other: FieldId,
    ) -> Result<Vec<(FieldId, FieldId)>, (String, String)> {
        let (ours, theirs) = (output.descriptor(), input.descriptor());
        let (found, expected) = (described(ours, id), described(theirs, other));
        if found != expected && !is_alike(ours, id, theirs, other) {
            return Err((found, expected));
        }
        for position in 0..ours.n_columns(id).max(theirs.n_columns(other)) {
            self.columns.push((
                ours.representations(id, position),
                theirs.representations(other, position),
            ));
        }
        let below = |descriptor: &Descriptor, id| {
            let field = descriptor.field(id);
            field.map_or(Vec::new(), |field| field.children.clone())
        };
        let (own, mut others) = (below(ours, id), below(theirs, other));
        let n_others = others.len();
        let mut read = Vec::new();
        // reading pairs members by their paths
        let mut is_cut = is_numbered_item(ours, id)
            && ours.field_name(ours.top_of(id)) != theirs.field_name(theirs.top_of(other));
        for &child in &own {
            let name = ours.field_name(child);
            let place = others.iter().position(|&o| theirs.field_name(o) == name);
            if place.is_none() && is_numbered_item(ours, id) {
                is_cut = true;
                continue;
            }
            let Some(place) = place else {
                let lacks = format!("a member {:?} here", ours.qualified_name(child));
                return Err((lacks, "no such member".to_owned()));
            };
            let other = others.remove(place);
            let inner = self.add(output, child, input, other)?;
            is_cut |= inner != [(child, other)];
            read.extend(inner);
        }
        let left_out = others.iter().map(|&other| theirs.qualified_name(other));
        self.left_out.extend(left_out);
        if own.len() == n_others && !is_cut {
            return Ok(vec![(id, other)]);
        }
        Ok(read)
    }
}

/// Whether two fields differ only in the spelling of their types.
fn is_alike(ours: &Descriptor, id: FieldId, theirs: &Descriptor, other: FieldId) -> bool {
    let fields = ours.field(id).zip(theirs.field(other));
    fields.is_some_and(|(own, other)| {
        let (own, other) = (&own.record, &other.record);
        own.role == other.role
            && own.array_size == other.array_size
            && is_same_type(&own.type_name, &other.type_name)
    })
}

/// A description of a field without its name and members.
fn described(descriptor: &Descriptor, id: FieldId) -> String {
    let Some(record) = descriptor.field(id).map(|field| &field.record) else {
        return "nothing".to_owned();
    };
    let kind = match record.type_name.as_str() {
        "" => format!("{:?}", record.role),
        name => name.to_owned(),
    };
    let size = record
        .array_size
        .map_or(String::new(), |n| format!("[{n}]"));
    format!("it is {kind}{size}")
}
