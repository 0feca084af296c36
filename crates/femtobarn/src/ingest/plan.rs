//! Which fields of an ntuple or a tree become products of events.

use std::collections::HashSet;
use std::sync::Arc;

use femtobarn_io::Settings;
use femtobarn_rntuple::RNTupleError;
use serde_json::Value;

use super::IngestOptions;
use super::numbers::{self, Number};
use crate::ntuple::NTuple;
use crate::open::{OpenOptions, look_into};
use crate::products::{self, ClassNote, Form, Member};
use crate::transfer::{NUMBERS, TransferError, did_you_mean, joined, noted, quoted};

/// A field that becomes a product.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub field: String,
    pub label: String,
    pub kind: Kind,
    /// Why it cannot become one.
    pub why: Option<String>,
    /// The number that it is, as recorded in an exported file.
    pub number: Option<String>,
}

/// The type of a column.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    pub name: String,
    pub classes: Vec<ClassNote>,
    pub form: Form,
}

/// Fields that become one product: lists of the same lengths.
#[derive(Debug, Clone)]
pub(super) struct Collection {
    pub label: String,
    pub counter: String,
    /// Fields, and the names of the members.
    pub members: Vec<(String, String)>,
    pub kind: Kind,
}

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

impl Collection {
    /// The fields that it is made of.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        let members = self.members.iter().map(|(field, _)| field.as_str());
        std::iter::once(self.counter.as_str()).chain(members)
    }
}

/// The file and the ntuple, for messages.
pub(super) fn place(ntuple: &NTuple) -> String {
    let readers = ntuple.readers().iter();
    let mut places = readers.map(|reader| format!("{}:{}", reader.url(), reader.path()));
    places.next().unwrap_or_default()
}

/// The description of an ntuple.
pub(super) fn description(ntuple: &NTuple) -> &str {
    let first = ntuple.readers().first();
    first.map_or("", |reader| reader.descriptor().description.as_str())
}

pub(super) fn open(
    path: &str,
    name: Option<&str>,
    options: &IngestOptions,
) -> Result<NTuple, RNTupleError> {
    let opening = OpenOptions {
        settings: options.settings.clone(),
        ..OpenOptions::default()
    };
    NTuple::open(&[(path.to_owned(), name.map(str::to_owned))], opening)
}

/// Opens the ntuple or tree of a file that has its events.
fn open_events(
    path: &str,
    tree: Option<&str>,
    options: &IngestOptions,
) -> Result<NTuple, TransferError> {
    let error = match open(path, tree, options) {
        Err(error) if error.kind() == "ambiguous-ntuple" => error,
        opened => return Ok(opened?),
    };
    let names = ntuples(path, options)?;
    let mut own = Vec::new();
    for name in &names {
        let level = noted("level", description(&open(path, Some(name), options)?));
        if level.is_some_and(|level| level.get("level") == Some(&Value::from("events"))) {
            own.push(name);
        }
    }
    let found = match own.as_slice() {
        [one] => Some(*one),
        _ => names.iter().find(|name| *name == "Events"),
    };
    match found {
        Some(name) => Ok(open(path, Some(name), options)?),
        None => {
            let how = options.words.name("tree");
            let what = format!("{}, or give {how}", error.with_causes());
            Err(TransferError::new(error.kind(), what))
        }
    }
}

/// The paths of the ntuples and trees of a file.
pub(super) fn ntuples(path: &str, options: &IngestOptions) -> Result<Vec<String>, RNTupleError> {
    let mut names = Vec::new();
    for (path, class) in objects(path, options)? {
        if matches!(class.as_str(), "ROOT::RNTuple" | "TTree") && !names.contains(&path) {
            names.push(path);
        }
    }
    Ok(names)
}

/// The paths and classes of the objects of a file.
pub(super) fn objects(
    path: &str,
    options: &IngestOptions,
) -> Result<Vec<(String, String)>, RNTupleError> {
    let settings = Settings::new(path, options.settings.clone())?;
    let entries = look_into(path, &settings, |file| Ok(file.walk()?))?;
    let entries = entries.into_iter();
    Ok(entries
        .map(|entry| (entry.path, entry.key.class_name))
        .collect())
}

/// The fields that can be read, each with its product, whether it is chosen or not. In exported files, descriptions say
/// which products they are.
pub(super) fn columns(ntuple: &NTuple) -> Result<Vec<Column>, TransferError> {
    let Some(reader) = ntuple.readers().first() else {
        return Ok(Vec::new());
    };
    let (descriptor, left_out) = (reader.descriptor(), ntuple.left_out());
    let mut found = Vec::new();
    for &id in &descriptor.top_level {
        let name = descriptor.field_name(id);
        let Some(field) = descriptor.field(id) else {
            continue;
        };
        if descriptor.is_behind_views(id) || left_out.reason(name).is_some() {
            continue;
        }
        let (kind, why) = match products::described(descriptor, id) {
            Ok(described) => ((described.type_name, described.classes), None),
            Err(why) => ((field.record.type_name.clone(), Vec::new()), Some(why)),
        };
        let description = &field.record.description;
        let mut column = Column {
            field: name.to_owned(),
            label: String::new(),
            kind: Kind {
                name: kind.0,
                classes: kind.1,
                form: Form::Value,
            },
            why,
            number: noted("number", description).and_then(|n| Some(n.as_str()?.to_owned())),
        };
        if let Some(product) = noted("product", description) {
            let (label, kind) = product_of(&product).ok_or_else(|| {
                let what = format!("the description of field {} is damaged", quoted(name));
                TransferError::new("format", format!("{}: {what}", place(ntuple)))
            })?;
            (column.label, column.kind, column.why) = (label, kind, None);
            found.push((column, true));
        } else {
            found.push((column, false));
        }
    }
    let names: Vec<&str> = found.iter().map(|(one, _)| one.field.as_str()).collect();
    let labels = labels(&names);
    let labelled = found.into_iter().zip(labels);
    Ok(labelled
        .map(|((mut column, is_noted), label)| {
            if !is_noted {
                column.label = label;
            }
            column
        })
        .collect())
}

/// Label and type of a product, from the description of its column.
fn product_of(noted: &Value) -> Option<(String, Kind)> {
    let text = |of: &Value, name: &str| Some(of.get(name)?.as_str()?.to_owned());
    let mut classes = Vec::new();
    let listed = noted.get("classes").and_then(Value::as_array);
    for class in listed.into_iter().flatten() {
        let mut members = Vec::new();
        for member in class.get(1)?.as_array()? {
            members.push(Member {
                name: member.get(0)?.as_str()?.to_owned(),
                type_name: member.get(1)?.as_str()?.to_owned(),
            });
        }
        classes.push(ClassNote {
            name: class.get(0)?.as_str()?.to_owned(),
            members,
        });
    }
    let kind = Kind {
        name: text(noted, "type")?,
        classes,
        form: text(noted, "form")?.parse().ok()?,
    };
    Some((text(noted, "label")?, kind))
}

/// The labels of fields: their names, with `_` for `#`, which ends a label. A second branch `Particle` of a tree is the
/// field `Particle#2`.
fn labels(names: &[&str]) -> Vec<String> {
    let plain = names.iter().filter(|name| !name.contains('#'));
    let mut used: HashSet<String> = plain.map(|name| (*name).to_owned()).collect();
    let label = |name: &&str| {
        let mut own = name.replace('#', "_");
        if name.contains('#') {
            while !used.insert(own.clone()) {
                own.push('_');
            }
        }
        own
    };
    names.iter().map(label).collect()
}

/// What fields are chosen from.
struct Choosing<'a> {
    ntuple: &'a NTuple,
    numbers: &'a [Number; 3],
    options: &'a IngestOptions,
}

impl Choosing<'_> {
    /// The columns that fit `fields`, or all, without dropped ones.
    fn chosen(&self, columns: &[Column], fields: &[String]) -> Result<Vec<Column>, TransferError> {
        let wanted = self.fitting(columns, "fields", fields)?;
        let dropped = self.fitting(columns, "drop", &self.options.drop)?;
        let is_chosen = |column: &&Column| {
            let field = column.field.as_str();
            (fields.is_empty() || wanted.contains(field)) && !dropped.contains(field)
        };
        Ok(columns.iter().filter(is_chosen).cloned().collect())
    }

    /// The names of the fields that fit some patterns.
    fn fitting<'c>(
        &self,
        columns: &'c [Column],
        option: &str,
        patterns: &[String],
    ) -> Result<HashSet<&'c str>, TransferError> {
        let mut found = HashSet::new();
        for pattern in patterns {
            let is_named = |column: &&Column| column.field == *pattern || column.label == *pattern;
            let fits = |column: &&Column| crate::matches(pattern, &column.field);
            let mut own: Vec<_> = columns.iter().filter(is_named).collect();
            if own.is_empty() {
                own = columns.iter().filter(fits).collect();
            }
            if own.is_empty() {
                self.check_unreadable(columns, option, pattern)?;
            }
            found.extend(own.into_iter().map(|column| column.field.as_str()));
        }
        Ok(found)
    }

    /// The error of a pattern that no column fits; a dropped field may be one that cannot be read.
    fn check_unreadable(
        &self,
        columns: &[Column],
        option: &str,
        pattern: &str,
    ) -> Result<(), TransferError> {
        let (place, words) = (place(self.ntuple), self.options.words);
        let reason = skipped(self.ntuple)
            .into_iter()
            .find(|(name, _)| name == pattern);
        match reason {
            Some(_) if option == "drop" => return Ok(()),
            Some((_, reason)) => {
                return Err(TransferError::usage(format!(
                    "{place}: field {} cannot be read: {reason}",
                    quoted(pattern)
                )));
            }
            None => {}
        }
        let mut numbers = NUMBERS.iter().zip(self.numbers);
        if let Some((number, _)) = numbers.find(|(_, field)| field.field() == Some(pattern)) {
            return Err(TransferError::usage(format!(
                "{place}: field {} is the {number} of each event and cannot be a product: leave it out of {}",
                quoted(pattern),
                words.name(option)
            )));
        }
        let parts: Vec<&str> = pattern.split(',').map(str::trim).collect();
        let near = did_you_mean(pattern, columns.iter().map(|column| column.field.as_str()));
        let hint = match (parts.len() > 1, near.is_empty()) {
            (true, _) => format!(
                "; pass several as a list: {}",
                words.with_all(option, &parts)
            ),
            (false, false) => format!("; {near}"),
            (false, true) => String::new(),
        };
        let what = format!("{place}: no field matches {}{hint}", quoted(pattern));
        Err(TransferError::new("key-not-found", what))
    }

    /// Adds the counters of collections of which members are chosen.
    fn add_counters(&self, chosen: &mut Vec<Column>, known: Vec<Column>) {
        let own: Vec<String> = chosen.iter().map(|column| column.field.clone()).collect();
        let mut counters: HashSet<String> = self.ntuple.counters(&own).into_iter().collect();
        if self.options.collections {
            // these go by their names
            for one in collections(&known) {
                if one.members.iter().any(|(field, _)| own.contains(field)) {
                    counters.insert(one.counter);
                }
            }
        }
        let is_new =
            |column: &Column| counters.contains(&column.field) && !own.contains(&column.field);
        chosen.extend(known.into_iter().filter(is_new));
    }
}

/// Fields that cannot be read, with the reasons.
pub(super) fn skipped(ntuple: &NTuple) -> Vec<(String, String)> {
    let Some(reader) = ntuple.readers().first() else {
        return Vec::new();
    };
    let known = reader.descriptor().skipped.iter();
    let known = known.map(|skipped| (skipped.name.clone(), skipped.reason.clone()));
    let left_out = ntuple.left_out();
    let left_out = left_out
        .iter()
        .map(|(name, why)| (name.to_owned(), why.to_owned()));
    known.chain(left_out).collect()
}

/// The collections that are spread over fields, as in NanoAOD: `nMuon`, `Muon_pt`, `Muon_eta`, ….
fn collections(columns: &[Column]) -> Vec<Collection> {
    let mut found = Vec::new();
    for counter in columns {
        let Some(label) = counter
            .field
            .strip_prefix('n')
            .filter(|rest| !rest.is_empty())
        else {
            continue;
        };
        let is_taken = columns.iter().any(|column| column.field == label);
        if is_taken || !numbers::is_integer(&counter.kind.name) {
            continue;
        }
        let prefix = format!("{label}_");
        let (mut members, mut classes, mut own) = (Vec::new(), Vec::new(), Vec::new());
        for column in columns {
            let (Some(member), Some(item)) = (
                column.field.strip_prefix(&prefix),
                list_item(&column.kind.name),
            ) else {
                continue;
            };
            members.push((column.field.clone(), member.to_owned()));
            own.push(Member {
                name: member.to_owned(),
                type_name: item.to_owned(),
            });
            for class in &column.kind.classes {
                if !classes.contains(class) {
                    classes.push(class.clone());
                }
            }
        }
        if members.is_empty() {
            continue;
        }
        classes.push(ClassNote {
            name: label.to_owned(),
            members: own,
        });
        found.push(Collection {
            label: label.to_owned(),
            counter: counter.field.clone(),
            members,
            kind: Kind {
                name: format!("std::vector<{label}>"),
                classes,
                form: Form::Value,
            },
        });
    }
    found
}

/// The type of the items of lists.
pub(super) fn list_item(type_name: &str) -> Option<&str> {
    let templates = ["std::vector<", "ROOT::VecOps::RVec<"];
    let mut items = templates.iter().filter_map(|t| type_name.strip_prefix(t));
    items.next()?.strip_suffix('>')
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

/// The name of a type, with a prefix before these names of classes, of which the longest come first.
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

/// A list of quoted names.
pub(super) fn names(fields: &[impl AsRef<str>]) -> String {
    joined(fields.iter().map(|field| quoted(field.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_branches_get_labels_that_nothing_has() {
        assert_eq!(labels(&["x", "x#2", "x_2"]), ["x", "x_2_", "x_2"]);
    }

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

    #[test]
    fn items_of_lists_have_a_type() {
        assert_eq!(
            list_item("std::vector<std::pair<A,B>>"),
            Some("std::pair<A,B>")
        );
        assert_eq!(list_item("ROOT::VecOps::RVec<float>"), Some("float"));
        assert_eq!(list_item("float"), None);
    }
}
