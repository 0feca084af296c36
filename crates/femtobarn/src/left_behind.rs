//! Objects and fields that an operation does not copy; all operations with outputs report them in this form.

use std::collections::{HashMap, HashSet, VecDeque};

use femtobarn_rootfile::{Directory, Key, RootFile, RootFileError, without_cycle};
use serde_json::{Value, json};

use crate::inputs::Input;
use crate::objects::holds_entries;

/// The reason for objects that were not named, if another object was.
const NOT_NAMED: &str = "not named";
/// The reasons for other cycles of an object.
const OLDER: &str = "an older cycle of it";
const NEWER: &str = "a newer cycle of it";

/// An object of the inputs, or a field of one, that is not in the output.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeftBehind {
    /// The path of the object in its file.
    pub name: String,
    /// The class of the object.
    pub class_name: String,
    /// The field of the object, if the object itself is in the output.
    pub field: Option<String>,
    /// The reason why it is not in the output.
    pub reason: String,
}

impl LeftBehind {
    /// An object.
    pub(crate) fn object(name: &str, class_name: &str, reason: &str) -> Self {
        Self {
            name: name.to_owned(),
            class_name: class_name.to_owned(),
            field: None,
            reason: reason.to_owned(),
        }
    }

    /// An older cycle of an object whose newest cycle is in the output.
    pub(crate) fn older(path: &str, key: &Key) -> Self {
        Self::object(&format!("{path};{}", key.cycle), &key.class_name, OLDER)
    }

    /// A field of an ntuple or a tree.
    pub(crate) fn field((name, class_name): (&str, &str), field: &str, reason: &str) -> Self {
        Self {
            field: Some(field.to_owned()),
            ..Self::object(name, class_name, reason)
        }
    }
}

/// For each input, the objects of its file that any input names. Only the first input of a file has them; further inputs
/// of the same file have none, so that each object that is left behind is reported once.
pub(crate) fn named_together(inputs: &[Input]) -> Vec<Vec<&str>> {
    let mut firsts = HashMap::<&str, usize>::new();
    let mut out: Vec<Vec<&str>> = vec![Vec::new(); inputs.len()];
    for (at, input) in inputs.iter().enumerate() {
        let first = *firsts.entry(&input.url).or_insert(at);
        if let (Some(path), Some(paths)) = (&input.path, out.get_mut(first)) {
            paths.push(path);
        }
    }
    out
}

/// The objects of a file that are not named, in the directories of the named objects and their parents. Any other
/// directory counts as one object.
///
/// # Errors
/// If a directory cannot be read.
pub(crate) fn beside(file: &RootFile, paths: &[&str]) -> Result<Vec<LeftBehind>, RootFileError> {
    let mut out = Vec::new();
    let mut pending = VecDeque::new();
    if !paths.is_empty() {
        let paths = paths.iter().map(|path| path.trim_matches('/'));
        pending.push_back((String::new(), paths.collect::<Vec<&str>>()));
    }
    while let Some((above, paths)) = pending.pop_front() {
        let directory = file.directory(&above)?;
        let mut known: HashSet<&str> = paths.iter().copied().map(without_cycle).collect();
        let mut below: Vec<(&str, Vec<&str>)> = Vec::new();
        let all = paths.clone();
        for path in paths {
            let Some((own, rest)) = path.split_once('/') else {
                out.extend(other_cycles(&directory, path, &all));
                continue;
            };
            known.insert(without_cycle(own));
            // keys may have slashes in their names
            if directory.get(path).is_some() {
                out.extend(other_cycles(&directory, path, &all));
                continue;
            }
            let rest = rest.trim_start_matches('/');
            match below.iter_mut().find(|(name, _)| *name == own) {
                Some((_, paths)) => paths.push(rest),
                None => below.push((own, vec![rest])),
            }
        }
        let place = directory.path();
        let slash = if place.is_empty() { "" } else { "/" };
        for key in directory.keys() {
            if known.insert(&key.name) {
                let name = format!("{place}{slash}{}", key.name);
                out.push(LeftBehind::object(&name, &key.class_name, NOT_NAMED));
            }
        }
        let slash = if above.is_empty() { "" } else { "/" };
        let below = below.into_iter();
        pending.extend(below.map(|(own, paths)| (format!("{above}{slash}{own}"), paths)));
    }
    Ok(out)
}

/// The other cycles of an object in a directory, except named ones.
fn other_cycles(directory: &Directory, name: &str, named: &[&str]) -> Vec<LeftBehind> {
    let meant = directory.get_wanted(name, &holds_entries);
    let Some(meant) = meant.or_else(|| directory.get(name)) else {
        return Vec::new();
    };
    let place = directory.path();
    let slash = if place.is_empty() { "" } else { "/" };
    let path = format!("{place}{slash}{}", meant.name);
    let same = directory.keys().iter();
    let is_other = |key: &&Key| match key.cycle < meant.cycle {
        true => true,
        // a later object with the same name may be of another kind
        false => key.cycle > meant.cycle && holds_entries(key) == holds_entries(meant),
    };
    let is_named = |key: &Key| {
        let is_it = |name| directory.get_wanted(name, &holds_entries);
        let mut found = named.iter().filter_map(|name| is_it(name));
        found.any(|other| (&other.name, other.cycle) == (&key.name, key.cycle))
    };
    let others = same.filter(|key| key.name == meant.name && !is_named(key));
    let others = others.filter(is_other);
    let other = others.map(|key| {
        let older = LeftBehind::older(&path, key);
        match key.cycle < meant.cycle {
            true => older,
            false => LeftBehind::object(&older.name, &key.class_name, NEWER),
        }
    });
    other.collect()
}

/// All objects that are left behind, each with its files.
#[derive(Debug, Clone, Default)]
pub struct AllLeftBehind {
    items: Vec<(LeftBehind, Vec<String>)>,
    known: HashMap<LeftBehind, usize>,
}

impl AllLeftBehind {
    /// Adds an object or field, with the file that has it.
    pub(crate) fn add(&mut self, item: LeftBehind, file: Option<&str>) {
        let n = self.items.len();
        let at = *self.known.entry(item.clone()).or_insert(n);
        if at == n {
            self.items.push((item, Vec::new()));
        }
        if let (Some((_, files)), Some(file)) = (self.items.get_mut(at), file)
            && files.last().is_none_or(|last| last != file)
        {
            files.push(file.to_owned());
        }
    }

    /// All objects and fields in the order of the inputs, with the files that have them.
    pub fn iter(&self) -> impl Iterator<Item = (&LeftBehind, &[String])> {
        self.items.iter().map(|(item, files)| (item, &**files))
    }

    /// Whether everything is in the output.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The fields that are not in the output, with reasons.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let field = |(item, _): &'_ (LeftBehind, _)| item.field.is_some();
        let fields = self.items.iter().filter(move |it| field(it));
        fields.map(|(item, _)| (item.field.as_deref().unwrap_or(""), &*item.reason))
    }

    /// Lines of output: `left out` for fields, `left behind` for objects; objects with the same class and reason share
    /// a line.
    pub fn lines(&self, n_inputs: usize) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        let mut groups = HashMap::<_, (usize, Vec<&str>)>::new();
        for (item, files) in self.iter() {
            let of = in_files(files, n_inputs);
            if let Some(field) = &item.field {
                let of_object = match &*item.name {
                    "" => String::new(),
                    name => format!(" of {name}"),
                };
                let reason = &item.reason;
                out.push(format!("left out: {field}{of_object}: {reason}{of}"));
                continue;
            }
            let group = (&*item.class_name, &*item.reason, files);
            let n = out.len();
            let (at, names) = groups.entry(group).or_insert_with(|| (n, Vec::new()));
            names.push(&item.name);
            if *at == n {
                out.push(String::new());
            }
        }
        for ((class, reason, files), (at, names)) in groups {
            let of = in_files(files, n_inputs);
            let names = first_of(&names);
            if let Some(line) = out.get_mut(at) {
                *line = format!("left behind: {names} ({class}): {reason}{of}");
            }
        }
        out
    }

    /// The list as JSON.
    pub fn to_json(&self) -> Value {
        let items = self.iter().map(|(item, files)| {
            json!({
                "name": item.name,
                "class": item.class_name,
                "field": item.field,
                "reason": item.reason,
                "files": files,
            })
        });
        items.collect()
    }
}

/// The first names of a list, and the number of the others.
fn first_of(names: &[&str]) -> String {
    const MOST: usize = 20;
    let shown = names.get(..names.len().min(MOST)).unwrap_or_default();
    let shown = shown.join(", ");
    match names.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The files that have an object, if there are several inputs.
fn in_files(files: &[String], n_inputs: usize) -> String {
    match files {
        _ if n_inputs < 2 => String::new(),
        [] => String::new(),
        [file] => format!(" ({file})"),
        [file, more @ ..] => {
            let s = if more.len() == 1 { "" } else { "s" };
            format!(" ({file} and {} more file{s})", more.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_one_kind_share_a_line() {
        let mut all = AllLeftBehind::default();
        for file in ["a.root", "b.root"] {
            all.add(LeftBehind::object("Runs", "TTree", "not named"), Some(file));
            let field = LeftBehind::field(("Events", "TTree"), "x", "too new");
            all.add(field, Some(file));
            all.add(LeftBehind::object("Lumi", "TTree", "not named"), Some(file));
        }
        all.add(LeftBehind::object("h", "TH1D", "not named"), Some("b.root"));
        assert_eq!(
            all.lines(2),
            [
                "left behind: Runs, Lumi (TTree): not named (a.root and 1 more file)",
                "left out: x of Events: too new (a.root and 1 more file)",
                "left behind: h (TH1D): not named (b.root)",
            ]
        );
        assert_eq!(all.lines(1)[2], "left behind: h (TH1D): not named");
        assert_eq!(all.fields().collect::<Vec<_>>(), [("x", "too new")]);
    }
}
