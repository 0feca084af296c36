//! The ntuples and trees of the inputs: each becomes an ntuple of the output.

use std::collections::HashSet;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rootfile::Key;
use femtobarn_ttree::is_tree;

use super::ConvertOptions;
use super::input::{Input, Source, has_data};
use super::names::plain_ntuple_name;
use super::output::Format;
use super::wanted::Unmatched;
use crate::left_behind::{AllLeftBehind, LeftBehind, beside};
use crate::merge::{Opened, wanted};
use crate::open::RNTUPLE_CLASS;

/// Why other objects are left behind.
const NO_TREE: &str = "not a TTree or RNTuple (fb clone takes it along)";

/// What becomes one ntuple of the output.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    /// The files that have it.
    pub inputs: Vec<Input>,
    /// The name that it gets; none: that of its tree.
    pub name: Option<String>,
    /// Its path in the file, and its class.
    object: (String, String),
}

impl Part {
    /// What of it is not in the output: of several files, the reasons say of which.
    pub fn leaves(&self, source: &Source, left: &mut AllLeftBehind) {
        let (path, class) = &self.object;
        let fields = source.skipped.iter();
        let fields = fields.map(|(field, why)| LeftBehind::field((path, class), field, why));
        let file = match &*self.inputs {
            [file] => Some(file.shown()),
            _ => None,
        };
        for item in fields.chain(source.left_behind.iter().cloned()) {
            left.add(item, file.as_deref());
        }
    }

    fn left(&self, reason: &str, left: &mut AllLeftBehind) {
        let (path, class) = &self.object;
        for input in &self.inputs {
            left.add(
                LeftBehind::object(path, class, reason),
                Some(&input.shown()),
            );
        }
    }

    /// How it is converted as one of several.
    fn options(&self, options: &ConvertOptions) -> ConvertOptions {
        ConvertOptions {
            name: self.name.clone().or_else(|| options.name.clone()),
            ..options.clone()
        }
    }
}

/// Finds what is to be converted. Files that are named without an object are converted as a whole: trees and ntuples of one
/// path become one. What else is there is left behind.
///
/// # Errors
/// If a file cannot be opened, or one name is given for several.
pub(super) fn find(
    inputs: &[Input],
    output: Format,
    options: &ConvertOptions,
    left: &mut AllLeftBehind,
) -> Result<Vec<Part>, RNTupleError> {
    let mut parts: Vec<Part> = Vec::new();
    let mut is_whole = output == Format::Root;
    let mut most = 0;
    let mut named = None;
    for input in inputs {
        if Format::of(std::path::Path::new(&input.url)) != Format::Root {
            return Ok(vec![single(inputs, None)]);
        }
        let opened = Opened::new(input)?;
        if let Some(path) = &input.path {
            is_whole = false;
            let class = opened.file.find(path)?.class_name;
            named.get_or_insert((path.clone(), class));
            for item in beside(&opened.file, path)? {
                left.add(item, Some(&input.shown()));
            }
            continue;
        }
        let (found, others): (Vec<_>, Vec<_>) = wanted(&opened.file, None)?
            .into_iter()
            .filter(|(_, key)| !key.is_directory())
            .partition(|(_, key)| is_converted(key));
        most = most.max(found.len());
        for (path, key) in others {
            let item = LeftBehind::object(&path, &key.class_name, NO_TREE);
            left.add(item, Some(&input.shown()));
        }
        for (path, key) in found {
            add(&mut parts, input, &path, key);
        }
    }
    if !is_whole || most < 2 {
        let found = parts.into_iter().map(|part| part.object);
        return Ok(vec![single(inputs, named.into_iter().chain(found).next())]);
    }
    if let Some(name) = &options.name {
        return Err(one_name_for_many(inputs, &parts, name));
    }
    give_names(&mut parts);
    Ok(parts)
}

fn is_converted(key: &Key) -> bool {
    key.class_name == RNTUPLE_CLASS || is_tree(&key.class_name)
}

/// All inputs as one, whatever they are called.
fn single(inputs: &[Input], object: Option<(String, String)>) -> Part {
    Part {
        inputs: inputs.to_vec(),
        name: None,
        object: object.unwrap_or_default(),
    }
}

fn add(parts: &mut Vec<Part>, input: &Input, path: &str, key: Key) {
    let input = Input {
        path: Some(path.to_owned()),
        ..input.clone()
    };
    match parts.iter_mut().find(|part| part.object.0 == path) {
        Some(part) => part.inputs.push(input),
        None => parts.push(Part {
            inputs: vec![input],
            name: None,
            object: (path.to_owned(), key.class_name),
        }),
    }
}

/// Names that ntuples can have, each of one.
fn give_names(parts: &mut [Part]) {
    let mut known: HashSet<String> = HashSet::new();
    for part in parts {
        let plain = plain_ntuple_name(&part.object.0);
        let mut name = plain.clone();
        let mut number = 2;
        while !known.insert(name.clone()) {
            name = format!("{plain}_{number}");
            number += 1;
        }
        part.name = Some(name);
    }
}

fn one_name_for_many(inputs: &[Input], parts: &[Part], name: &str) -> RNTupleError {
    let url = inputs.first().map(Input::shown).unwrap_or_default();
    let paths: Vec<&str> = parts.iter().map(|part| &*part.object.0).take(5).collect();
    let first = paths.first().copied().unwrap_or_default();
    RNTupleError::Usage {
        what: format!(
            "{url} has several trees and ntuples ({}), which cannot all be called {name:?}: name the one to convert ({url}:{first})",
            paths.join(", ")
        ),
    }
}

/// An error of a part, by its number.
pub(super) type OfPart = (usize, RNTupleError);

/// Opens all parts; those of several without a field that is asked for are left behind.
///
/// # Errors
/// If one cannot be opened, or a name or pattern fits no field of any.
pub(super) fn open(
    parts: Vec<Part>,
    output: Format,
    options: &ConvertOptions,
    unreadable: &[(usize, String, String)],
    left: &mut AllLeftBehind,
) -> Result<Vec<(usize, Part, Source)>, OfPart> {
    let mut unmatched: Option<Unmatched> = None;
    let mut out = Vec::with_capacity(parts.len());
    let is_one = parts.len() == 1;
    for (at, part) in parts.into_iter().enumerate() {
        let own = unreadable.iter().filter(|(of, ..)| *of == at);
        let own: Vec<_> = own
            .map(|(_, name, why)| (name.clone(), why.clone()))
            .collect();
        let opened = Source::open_part(&part.inputs, output, &part.options(options), &own);
        let mut source = opened.map_err(|error| (at, error))?;
        let own = std::mem::take(&mut source.unmatched);
        unmatched = Some(match unmatched {
            None => own,
            Some(mut known) => {
                known.retain(|pattern, _| own.contains_key(pattern));
                known
            }
        });
        let is_chosen = !options.fields.is_empty() || !options.drop.is_empty();
        if is_one || source.fields.iter().any(has_data) {
            out.push((at, part, source));
        } else if let Some((field, why)) = source.skipped.first() {
            part.left(
                &format!("nothing of it can be converted: {field}: {why}"),
                left,
            );
        } else if is_chosen {
            part.left("no field of it is asked for", left);
        } else {
            out.push((at, part, source));
        }
    }
    match unmatched.and_then(|mut all| all.pop_first()) {
        Some((_, error)) => Err((0, error)),
        None => Ok(out),
    }
}

/// The ntuples that a file is converted to, with their numbers of entries.
pub(super) fn entries(input: &Input) -> Result<Vec<(String, u64)>, RNTupleError> {
    let (mut left, options) = (AllLeftBehind::default(), ConvertOptions::default());
    let parts = find(
        std::slice::from_ref(input),
        Format::Root,
        &options,
        &mut left,
    )?;
    let each = parts.into_iter().map(|part| {
        let source = Source::open(&part.inputs, Format::Root, &options)?;
        Ok((part.name.unwrap_or(part.object.0), source.n_entries))
    });
    each.collect()
}
