//! An input: entries as record batches, and the fields of the output.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::FieldId;
use femtobarn_rntuple::spec::ExtraTypeInfo;
use femtobarn_rntuple::write::{FieldKind, FieldModel};
use femtobarn_ttree::Tree;
use femtobarn_ttree::model::TreeModel;

use super::attributes::Attributes;
use super::names::FieldNames;
use super::wanted::{Names, Unmatched, Wanted};
use crate::common::SkippedFields;
use crate::left_behind::LeftBehind;

/// Batches of entries.
pub(super) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, RNTupleError>> + Send>;

/// An input that is being read.
pub(super) struct Source {
    /// The fields with data, and fields projected from them.
    pub fields: Vec<FieldModel>,
    pub type_infos: Vec<ExtraTypeInfo>,
    pub name: String,
    pub description: String,
    pub n_entries: u64,
    /// Stored bytes.
    pub n_bytes: u64,
    /// The selected parts of the input that cannot be converted, with the reasons.
    pub skipped: Vec<(String, String)>,
    /// Changed names and values.
    pub notes: Vec<(String, String)>,
    /// Names and patterns that match nothing in it.
    pub unmatched: Unmatched,
    /// Attributes of its entries that are not copied.
    pub left_behind: Vec<LeftBehind>,
    /// Attributes of ranges of its entries.
    pub attributes: Vec<Attributes>,
    /// For a tree, the names of its fields, and the branches that they are read from.
    pub names: FieldNames,
    pub origins: Vec<(String, String)>,
    pub batches: Batches,
}

pub(super) fn refused(name: &str, reason: impl Into<String>) -> RNTupleError {
    RNTupleError::Unwritable {
        name: name.to_owned(),
        reason: reason.into(),
    }
}

/// Selected fields that are missing in the first file, but exist in others. Checked for the selected fields and the
/// fields that the first file lacks.
pub(super) fn elsewhere(
    left_out: &SkippedFields,
    reader: &Reader,
    wanted: &mut Wanted<'_>,
    chosen: &[String],
) -> Result<Vec<(String, String)>, RNTupleError> {
    let descriptor = reader.descriptor();
    let is_below = |path: &str, name: &str| {
        let rest = path.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with('.'))
    };
    let mut out = Vec::new();
    for (path, reason) in left_out.iter() {
        if reader.find_field(path).is_some() {
            continue;
        }
        let mut top_level = descriptor.top_level.iter();
        let is_wanted = if top_level.any(|&id| is_below(path, descriptor.field_name(id))) {
            chosen.iter().any(|name| is_below(path, name))
        } else {
            let above = path.split_once(['.', '/']).map(|(above, _)| above);
            let names = Names::new(path).below(above);
            let is_wanted = wanted.takes(&names);
            if is_wanted {
                wanted.refuse_if_named(&names, reader, reason)?;
            }
            is_wanted
        };
        if is_wanted {
            out.push((path.to_owned(), reason.to_owned()));
        }
    }
    Ok(out)
}

/// The reason why a top-level field is left out, if it is: the field or a member is unreadable, or missing in a file.
pub(super) fn lacking(left_out: &SkippedFields, reader: &Reader, id: FieldId) -> Option<String> {
    let descriptor = reader.descriptor();
    if let Some(reason) = left_out.reason(descriptor.field_name(id)) {
        return Some(reason.to_owned());
    }
    let is_member = |path: &str| {
        let found = reader.find_field(path);
        found.is_some_and(|found| descriptor.top_of(found) == id)
    };
    let member = left_out.iter().find(|(path, _)| is_member(path));
    member.map(|(path, why)| format!("its member {path:?}: {why}"))
}

/// The names of the top-level branches, by the names of their sub-branches and of the projected fields of these.
pub(super) fn top_branches(tree: &TreeModel, reader: &Reader) -> HashMap<String, String> {
    let mut out = HashMap::new();
    for &top in &tree.top_level {
        let name = tree.branch(top).map_or("", |branch| branch.name.as_str());
        let mut pending: Vec<_> = tree.branch(top).map_or(Vec::new(), |b| b.children.clone());
        while let Some(id) = pending.pop() {
            let Some(branch) = tree.branch(id) else {
                continue;
            };
            let field = Tree::field(reader, id);
            let shown = field.map(|field| reader.descriptor().field_name(field).to_owned());
            for own in [tree.path(id), branch.name.to_string()]
                .into_iter()
                .chain(shown)
            {
                out.entry(own).or_insert_with(|| name.to_owned());
            }
            pending.extend(&branch.children);
        }
    }
    out
}

/// Whether a field has data of its own.
pub(super) fn has_data(field: &FieldModel) -> bool {
    !matches!(field.kind, FieldKind::Projected { .. })
}
