//! The common fields of several files.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::{Descriptor, FieldId, is_anonymous};
use femtobarn_rntuple::spec::Role;

/// The fields that are not in all files: fields of the first file that others lack, and fields of others that the
/// first lacks, with the reasons. Only the topmost of nested fields is named. Also has the fields that turned out to
/// be unreadable during reading.
#[derive(Debug, Clone, Default)]
pub struct SkippedFields {
    /// The fields that are not in all files.
    lacking: BTreeMap<String, String>,
    /// Unreadable top-level fields, in the order of their discovery.
    unreadable: Vec<(String, String)>,
}

impl SkippedFields {
    /// Compares the files. Files with the same header share a schema and are compared quickly.
    pub(crate) fn new(readers: &[Arc<Reader>]) -> Self {
        let Some(first) = readers.first() else {
            return Self::default();
        };
        let own = paths(first);
        let mut above: HashMap<&str, &str> = parents(&own).collect();
        let mut lacking: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut found = Self::default();
        let differs =
            |reader: &&Arc<Reader>| !reader.descriptor().is_same_schema(first.descriptor());
        for reader in readers.iter().skip(1).filter(differs) {
            let others = paths(reader);
            for (path, &(id, _)) in &own {
                match others.get(path) {
                    None => lacking.entry(path).or_default().push(reader.url()),
                    Some(&(other, _)) => {
                        let here = variant(reader.descriptor(), other);
                        if variant(first.descriptor(), id) != here {
                            let why = format!("its alternatives differ in {}", reader.url());
                            found.lacking.insert((*path).to_owned(), why);
                        }
                    }
                }
            }
            above.extend(parents(&others).filter(|(path, _)| !own.contains_key(path)));
            for path in others.keys().filter(|path| !own.contains_key(*path)) {
                let lacks = lacking.entry(path).or_default();
                if lacks.is_empty() {
                    lacks.push(first.url());
                }
            }
        }
        let named = lacking
            .into_iter()
            .map(|(path, urls)| (path.to_owned(), not_in(&urls)));
        found.lacking.extend(named);
        if !found.lacking.is_empty() {
            found.leave_out_the_empty(first);
        }
        let all = std::mem::take(&mut found.lacking);
        let is_topmost = |path: &str| {
            let next = |path: &&str| above.get(path).copied();
            !std::iter::successors(next(&path), next).any(|path| all.contains_key(path))
        };
        let topmost = all.iter().filter(|(path, _)| is_topmost(path));
        found.lacking = topmost
            .map(|(path, why)| (path.clone(), why.clone()))
            .collect();
        found
    }

    /// Adds the records and collections without common members: ROOT's importer numbers its collections, so that
    /// collections with the same number in two files may be unrelated.
    fn leave_out_the_empty(&mut self, first: &Reader) {
        let descriptor = first.descriptor();
        let mut members: Vec<Vec<FieldId>> = vec![Vec::new(); descriptor.fields.len()];
        for id in (0..u32::try_from(members.len()).unwrap_or(u32::MAX)).rev() {
            let Some(field) = descriptor.field(id) else {
                continue;
            };
            let path = first.paths().get(id as usize).and_then(Option::as_deref);
            let below = members
                .get_mut(id as usize)
                .map(std::mem::take)
                .unwrap_or_default();
            let is_out = |id: &FieldId| {
                let path = first.paths().get(*id as usize).and_then(Option::as_deref);
                path.is_some_and(|path| self.lacking.contains_key(path))
            };
            let reason = match path {
                Some(path) if !below.is_empty() && below.iter().all(is_out) => {
                    let why = below.first().and_then(|id| {
                        self.lacking
                            .get(first.paths().get(*id as usize)?.as_deref()?)
                    });
                    Some((
                        path.to_owned(),
                        format!(
                            "it has no common members: the first is {}",
                            why.map_or("", String::as_str)
                        ),
                    ))
                }
                _ => None,
            };
            if let Some((path, why)) = reason {
                self.lacking.entry(path).or_insert(why);
            }
            // a node without a path stands for its members
            if let Some(above) = field
                .parent
                .and_then(|parent| members.get_mut(parent as usize))
            {
                if path.is_some() {
                    above.push(id)
                } else {
                    above.extend(below)
                }
            }
        }
    }

    /// Whether every file has every field, and nothing turned out to be unreadable.
    pub fn is_empty(&self) -> bool {
        self.lacking.is_empty() && self.unreadable.is_empty()
    }

    /// The fields that turned out to be unreadable, with reasons, in the order of their discovery.
    pub fn unreadable(&self) -> &[(String, String)] {
        &self.unreadable
    }

    /// The fields that are not in all files, with reasons.
    pub fn lacking(&self) -> &BTreeMap<String, String> {
        &self.lacking
    }

    /// Adds a field that turned out to be unreadable.
    pub(crate) fn add_unreadable(&mut self, path: &str, reason: &str) {
        if self.reason(path).is_none() {
            self.unreadable.push((path.to_owned(), reason.to_owned()));
        }
    }

    /// Paths and reasons: differences between the files, sorted by path, then unreadable fields.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let unreadable = self.unreadable.iter().map(|(path, why)| (path, why));
        self.lacking
            .iter()
            .chain(unreadable)
            .map(|(path, why)| (path.as_str(), why.as_str()))
    }

    /// The reason why a field is left out, if it is.
    pub fn reason(&self, path: &str) -> Option<&str> {
        let mut unreadable = self.unreadable.iter();
        let lacking = self.lacking.get(path);
        let why = lacking.or_else(|| Some(&unreadable.find(|(name, _)| name == path)?.1));
        why.map(String::as_str)
    }

    fn has_below(&self, path: &str) -> bool {
        let prefix = format!("{path}.");
        let next = self.lacking.range(prefix.clone()..).next();
        next.is_some_and(|(path, _)| path.starts_with(&prefix))
    }

    /// The fields to read for `id`: the field itself, or its common subfields.
    pub(crate) fn common(&self, first: &Reader, id: FieldId, out: &mut Vec<String>) {
        let path = first.paths().get(id as usize).and_then(Option::as_deref);
        if path.is_some_and(|path| self.reason(path).is_some()) {
            return;
        }
        match path {
            Some(path) if !self.has_below(path) => out.push(path.to_owned()),
            // variants are read as a whole
            _ => {
                let field = first.descriptor().field(id);
                for &child in field.map_or(&[][..], |field| field.children.as_slice()) {
                    self.common(first, child, out);
                }
            }
        }
    }
}

/// Fields by path, with the fields that contain them: names may contain dots, so the path alone is ambiguous.
type Paths<'a> = HashMap<&'a str, (FieldId, Option<&'a str>)>;

/// The paths of all fields, except those inside variants, which are compared as a whole.
fn paths(reader: &Reader) -> Paths<'_> {
    let descriptor = reader.descriptor();
    let top_level = descriptor.top_level.iter();
    let mut pending: Vec<(FieldId, Option<&str>)> = top_level.map(|&id| (id, None)).collect();
    let mut found = HashMap::with_capacity(descriptor.fields.len());
    while let Some((id, above)) = pending.pop() {
        let path = reader.paths().get(id as usize).and_then(Option::as_deref);
        if let Some(path) = path {
            found.insert(path, (id, above));
        }
        if let Some(field) = descriptor.field(id)
            && field.record.role != Role::Variant
        {
            let above = path.or(above);
            pending.extend(field.children.iter().map(|&child| (child, above)));
        }
    }
    found
}

/// Paths, each with the path of its containing field.
fn parents<'a>(paths: &Paths<'a>) -> impl Iterator<Item = (&'a str, &'a str)> {
    let pairs = paths.iter();
    pairs.filter_map(|(&path, &(_, above))| Some((path, above?)))
}

/// A description of the variant in a field or in its items.
fn variant(descriptor: &Descriptor, id: FieldId) -> Option<String> {
    let field = descriptor.field(id)?;
    if field.record.role == Role::Variant {
        let mut out = String::new();
        structure(descriptor, id, &mut out);
        return Some(out);
    }
    let mut items = field
        .children
        .iter()
        .filter(|&&child| is_anonymous(descriptor, child));
    items.find_map(|&child| variant(descriptor, child))
}

pub(crate) fn structure(descriptor: &Descriptor, id: FieldId, out: &mut String) {
    let Some(field) = descriptor.field(id) else {
        return;
    };
    let (name, type_name) = (&field.record.name, &field.record.type_name);
    out.push_str(&format!(
        "{name}: {type_name} {:?} (",
        field.record.array_size
    ));
    for &child in &field.children {
        structure(descriptor, child, out);
    }
    out.push(')');
}

fn not_in(urls: &[&str]) -> String {
    match urls {
        [only] => format!("not in {only}"),
        [one, more @ ..] => format!("not in {one} and {} more files", more.len()),
        [] => String::new(),
    }
}
