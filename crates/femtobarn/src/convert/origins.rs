//! Checks that each column is read from the intended field of its file.
//!
//! Fields are selected by name. The digests compare read and written data, so they cannot detect that a wrong field was
//! read. So this module compares the columns of a selection with the positions of fields and branches in their files,
//! without name lookups.

use std::collections::HashSet;
use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{Binding, Reader};
use femtobarn_rntuple::schema::{Descriptor, FieldId, Node};
use femtobarn_ttree::Tree;
use femtobarn_ttree::model::{BranchId, TreeModel};

use crate::ntuple::{NTuple, Selection};

/// The intended origin of a column in the first file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A top-level field of an RNTuple.
    Field(FieldId),
    /// A branch of a tree.
    Branch(BranchId),
}

/// Checks that each column of a selection is read from its intended origin in all files.
///
/// # Errors
/// If a column is missing or is read from another origin.
pub(super) fn check(
    ntuple: &NTuple,
    selection: &Selection,
    meant: &[(String, Origin)],
) -> Result<(), RNTupleError> {
    let Some(first) = ntuple.readers().first() else {
        return Ok(());
    };
    let mut known: HashSet<*const Binding> = HashSet::new();
    for (reader, binding) in ntuple.readers().iter().zip(&*selection.bindings) {
        // files with the same schema share their bindings
        if !known.insert(Arc::as_ptr(binding)) {
            continue;
        }
        for (name, origin) in meant {
            let mut columns = selection.schema.columns.iter();
            let node = columns.find(|(own, _)| own == name).map(|(_, node)| node);
            let found = match node {
                None => Some("nothing".to_owned()),
                Some(node) => stranger(first, (reader, binding), node, *origin),
            };
            if let Some(found) = found {
                return Err(RNTupleError::internal(format!(
                    "column {name:?} of {}:{} should be read from {}, but would be read from {found}; the output was \
                     discarded",
                    reader.url(),
                    reader.path(),
                    shown(first, *origin)
                )));
            }
        }
    }
    Ok(())
}

/// The first source of a node in a file that is not its origin.
fn stranger(
    first: &Reader,
    (reader, binding): (&Reader, &Binding),
    node: &Node,
    origin: Origin,
) -> Option<String> {
    let mut columns = Vec::new();
    node.slots(&mut |slot| columns.extend(binding.columns(slot)));
    match origin {
        Origin::Field(id) => {
            let (own, there) = (first.descriptor(), reader.descriptor());
            let is_here = std::ptr::eq(first, reader);
            columns.into_iter().find_map(|column| {
                let field = there.column(column)?.field_id;
                let is_meant = is_top_level(there, (own, id), is_here, field);
                (!is_meant).then(|| format!("field {:?}", there.qualified_name(field)))
            })
        }
        Origin::Branch(id) => {
            let own = Tree::model(first)?;
            let Some(there) = Tree::model(reader) else {
                return Some("an RNTuple".to_owned());
            };
            let mut branches = columns
                .into_iter()
                .map(|column| Tree::branch(reader, column));
            branches.find_map(|branch| match branch {
                Some(branch) if is_branch(there, branch, own, id) => None,
                Some(branch) => Some(format!("branch {:?}", there.path(branch))),
                None => Some("no branch".to_owned()),
            })
        }
    }
}

/// Whether the data of `field` belong to the top-level field that is `id` in the first file, directly or by projection.
fn is_top_level(
    there: &Descriptor,
    (own, id): (&Descriptor, FieldId),
    is_here: bool,
    field: FieldId,
) -> bool {
    let is_meant = |top: FieldId| match is_here {
        true => top == id,
        false => there.field_name(top) == own.field_name(id),
    };
    let mut others = (0u32..).zip(&there.fields);
    is_meant(there.top_of(field))
        || others
            .any(|(id, other)| other.record.source_id == Some(field) && is_meant(there.top_of(id)))
}

/// Whether a branch is the one that is `id` in the first file, or its counter.
fn is_branch(there: &TreeModel, branch: BranchId, own: &TreeModel, id: BranchId) -> bool {
    let is_meant = |other: BranchId| {
        std::ptr::eq(there, own) && other == id
            || !std::ptr::eq(there, own) && names(there, other) == names(own, id)
    };
    let counted = |(_, other): &(usize, &femtobarn_ttree::model::Branch)| {
        let counters = other.leaves.iter().filter_map(|leaf| leaf.count);
        counters.into_iter().any(|(counter, _)| counter == branch)
    };
    let others = there.branches.iter().enumerate();
    is_meant(branch) || others.filter(counted).any(|(other, _)| is_meant(other))
}

/// The names of a branch and its parents.
fn names(tree: &TreeModel, id: BranchId) -> Vec<&str> {
    let above = std::iter::successors(tree.branch(id), |branch| tree.branch(branch.parent?));
    above.map(|branch| branch.name.as_str()).collect()
}

fn shown(first: &Reader, origin: Origin) -> String {
    match origin {
        Origin::Field(id) => format!("field {:?}", first.descriptor().qualified_name(id)),
        Origin::Branch(id) => {
            let path = Tree::model(first).map(|tree| tree.path(id));
            format!("branch {:?}", path.unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::steps::steps;
    use crate::open::OpenOptions;

    fn open(files: &[&str]) -> Arc<NTuple> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/");
        let files = files.iter().map(|file| (format!("{folder}{file}"), None));
        let files: Vec<_> = files.collect();
        Arc::new(NTuple::open(&files, OpenOptions::default()).unwrap())
    }

    /// A selection that reads `path` as column `name`, as a wrong lookup would.
    fn mistaken(ntuple: &NTuple, name: &str, path: &str) -> Selection {
        let mut selection = ntuple.select(Some(&[path.to_owned()])).unwrap();
        let schema = Arc::make_mut(&mut selection.schema);
        schema.columns[0].0 = name.to_owned();
        selection
    }

    fn error(ntuple: &Arc<NTuple>, selection: Selection, name: &str, origin: Origin) -> String {
        let meant = [(name.to_owned(), origin)];
        let read = steps(ntuple.clone(), selection, &meant, 1);
        read.err().unwrap().to_string()
    }

    #[test]
    fn a_member_in_place_of_the_branch_of_its_name_is_noticed() {
        for files in [
            &["names/shadow.root"][..],
            &["names/shadow.root", "names/shadow.root"],
        ] {
            let ntuple = open(files);
            let tree = Tree::model(&ntuple.readers()[0]).unwrap();
            let [ev, run, lumi] = tree.top_level[..] else {
                panic!("other branches");
            };
            let right = ntuple.select(Some(&["run".to_owned()])).unwrap();
            let meant = [("run".to_owned(), Origin::Branch(run))];
            assert!(steps(ntuple.clone(), right.clone(), &meant, 1).is_ok());
            let wrong = mistaken(&ntuple, "run", "ev/run");
            let told = error(&ntuple, wrong, "run", Origin::Branch(run));
            assert!(told.contains("read from branch \"run\""), "{told}");
            assert!(told.contains("read from branch \"ev/run\""), "{told}");
            // another branch, the branch above, and a column that is not read
            let wrong = mistaken(&ntuple, "run", "lumi");
            assert!(error(&ntuple, wrong, "run", Origin::Branch(run)).contains("\"lumi\""));
            assert!(error(&ntuple, right.clone(), "run", Origin::Branch(ev)).contains("\"ev\""));
            let told = error(&ntuple, right, "lumi", Origin::Branch(lumi));
            assert!(told.contains("read from nothing"), "{told}");
        }
    }

    #[test]
    fn a_mistake_in_another_file_than_the_first_is_noticed() {
        let ntuple = open(&["names/shadow.root", "names/shadow.root"]);
        let run = Tree::model(&ntuple.readers()[0]).unwrap().top_level[1];
        let mut selection = ntuple.select(Some(&["run".to_owned()])).unwrap();
        let wrong = ntuple.select(Some(&["ev/run".to_owned()])).unwrap();
        selection.bindings = vec![selection.bindings[0].clone(), wrong.bindings[1].clone()].into();
        let told = error(&ntuple, selection, "run", Origin::Branch(run));
        assert!(told.contains("read from branch \"ev/run\""), "{told}");
    }

    #[test]
    fn another_field_of_an_ntuple_is_noticed() {
        let ntuple = open(&["dimuon.root"]);
        let descriptor = ntuple.readers()[0].descriptor();
        let named = |name: &str| {
            let mut fields = descriptor.top_level.iter();
            *fields
                .find(|&&id| descriptor.field_name(id) == name)
                .unwrap()
        };
        for &id in &descriptor.top_level {
            let name = descriptor.field_name(id);
            let right = ntuple.select(Some(&[name.to_owned()])).unwrap();
            let meant = [(name.to_owned(), Origin::Field(id))];
            assert!(steps(ntuple.clone(), right, &meant, 1).is_ok(), "{name}");
        }
        let [a, b] = [
            descriptor.field_name(descriptor.top_level[0]),
            descriptor.field_name(descriptor.top_level[1]),
        ];
        let told = error(&ntuple, mistaken(&ntuple, a, b), a, Origin::Field(named(a)));
        assert!(told.contains(&format!("read from field {b:?}")), "{told}");
    }
}
