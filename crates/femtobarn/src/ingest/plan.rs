//! Which fields of an ntuple or a tree become products of events.

use std::collections::HashSet;
use std::sync::Arc;

use super::IngestOptions;
use super::choose::{Choosing, Collection, collections};
use super::columns::{Column, Kind, columns};
use super::numbers::{self, Number};
use super::open::{open_events, place};
use crate::ntuple::NTuple;
use crate::products::{self, ClassNote};
use crate::transfer::{TransferError, quoted};

/// The products of an ntuple.
#[derive(Debug)]
pub(super) struct Plan {
    pub ntuple: Arc<NTuple>,
    pub numbers: [Number; 3],
    pub columns: Vec<Column>,
    pub collections: Vec<Collection>,
}

impl Plan {
    /// Plans the products of a file; `tree` is the ntuple or tree in it.
    pub fn new(
        path: &str,
        tree: Option<&str>,
        options: &IngestOptions,
    ) -> Result<Self, TransferError> {
        let ntuple = Arc::new(open_events(path, tree, options)?);
        // of trees, only objects say whether they can be read
        ntuple.without_unreadable(&ntuple.select(None)?, &(0..ntuple.n_entries()))?;
        let all = columns(&ntuple)?;
        let numbers = numbers::find(&ntuple, &all, options)?;
        let is_number = |column: &Column| numbers.iter().any(|n| n.field() == Some(&column.field));
        let others: Vec<Column> = all.into_iter().filter(|c| !is_number(c)).collect();
        let choosing = Choosing {
            ntuple: &ntuple,
            numbers: &numbers,
            options,
        };
        let mut chosen = choosing.chosen(&others, &options.fields)?;
        if !options.fields.is_empty() {
            let known = choosing.chosen(&others, &[])?;
            choosing.add_counters(&mut chosen, known);
        }
        for column in &chosen {
            if let Some(why) = &column.why {
                return Err(TransferError::usage(format!(
                    "{}: field {} of type {} cannot be a product: {why}; leave it out with {}",
                    place(&ntuple),
                    quoted(&column.field),
                    column.kind.name,
                    options.words.with("drop", &column.field)
                )));
            }
        }
        let mut collections = match options.collections {
            true => collections(&chosen),
            false => Vec::new(),
        };
        let within: HashSet<&str> = collections.iter().flat_map(Collection::fields).collect();
        chosen.retain(|column| !within.contains(column.field.as_str()));
        let kinds = chosen.iter_mut().map(|column| &mut column.kind);
        let kinds = kinds.chain(collections.iter_mut().map(|one| &mut one.kind));
        put_into_namespace(kinds.collect(), &options.namespace);
        Ok(Self {
            ntuple,
            numbers,
            columns: chosen,
            collections,
        })
    }

    /// The classes of all products.
    pub fn classes(&self) -> impl Iterator<Item = &ClassNote> {
        let kinds = self.columns.iter().map(|column| &column.kind);
        let kinds = kinds.chain(self.collections.iter().map(|one| &one.kind));
        kinds.flat_map(|kind| &kind.classes)
    }
}

/// Puts all classes of types into a namespace, unless they are in it.
fn put_into_namespace(kinds: Vec<&mut Kind>, namespace: &str) {
    let prefix = format!("{namespace}::");
    let is_free = |name: &&str| {
        !["std::", &prefix, products::REFERENCE]
            .iter()
            .any(|start| name.starts_with(start))
    };
    let classes = kinds.iter().flat_map(|kind| &kind.classes);
    let names: HashSet<&str> = classes
        .map(|class| class.name.as_str())
        .filter(is_free)
        .collect();
    if namespace.is_empty() || names.is_empty() {
        return;
    }
    let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    names.sort_by_key(|name| (std::cmp::Reverse(name.len()), name.clone()));
    for kind in kinds {
        kind.name = within(&kind.name, &names, &prefix);
        for class in &mut kind.classes {
            class.name = within(&class.name, &names, &prefix);
            for member in &mut class.members {
                member.type_name = within(&member.type_name, &names, &prefix);
            }
        }
    }
}

/// A type name with a prefix before the given class names. The longest class names must come first.
fn within(type_name: &str, names: &[String], prefix: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let (mut out, mut rest) = (String::new(), type_name);
    while let Some(c) = rest.chars().next() {
        let is_whole = |name: &&String| {
            let behind = rest.strip_prefix(name.as_str());
            behind.is_some_and(|behind| !behind.starts_with(|c: char| is_part(c) || c == '<'))
        };
        let found = match out.ends_with(is_part) {
            true => None,
            false => names.iter().find(is_whole),
        };
        let n = match found {
            Some(name) => {
                out.push_str(prefix);
                name.len()
            }
            None => c.len_utf8(),
        };
        let (own, behind) = rest.split_at(n);
        out.push_str(own);
        rest = behind;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_get_a_namespace_once_wherever_they_are_named() {
        let names = ["Box<float>".to_owned(), "Muon".to_owned()];
        for (name, wanted) in [
            ("std::vector<Muon>", "std::vector<v2::Muon>"),
            (
                "std::map<Muon,Box<float>>",
                "std::map<v2::Muon,v2::Box<float>>",
            ),
            ("v2::Muon", "v2::Muon"),
            ("MuonX", "MuonX"),
            ("Muon::of", "Muon::of"),
            ("Muon<int>", "Muon<int>"),
        ] {
            assert_eq!(within(name, &names, "v2::"), wanted);
        }
    }
}
