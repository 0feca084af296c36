//! The ntuples and trees of the inputs: each becomes an ntuple of the output.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::SkippedField;
use femtobarn_rootfile::{Key, without_cycle};
use femtobarn_ttree::is_tree;

use super::format::Format;
use super::names::{FieldNames, TreeNames};
use super::options::{ConvertOptions, Purpose};
use super::source::{Source, has_data};
use super::wanted::Unmatched;
use crate::inputs::{Input, Opened};
use crate::left_behind::{AllLeftBehind, LeftBehind, beside, named_together};
use crate::ntuple::NTuple;
use crate::objects::RNTUPLE_CLASS;
use crate::open::while_it_grows;
use crate::opening::side_by_side;

/// Reasons for leaving other objects behind.
const NO_TREE: &str = "not a TTree or RNTuple (fb clone copies it)";

/// The input of one ntuple of the output.
#[derive(Debug)]
pub(super) struct Part {
    /// The files that contain it.
    pub inputs: Vec<Input>,
    /// The open ROOT files.
    readers: Vec<Arc<Reader>>,
    /// The new name; `None` for the name of its tree.
    pub name: Option<String>,
    /// The path to use instead of the name of its tree, for an object in a directory.
    path: Option<String>,
    /// The path and class in the file.
    object: (String, String),
    /// The field names that were assigned for earlier files.
    names: FieldNames,
}

impl Part {
    /// Reports its parts that are not in the output; with several files, the reasons name the files.
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

    /// The path in the file.
    pub fn path(&self) -> &str {
        &self.object.0
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

    /// The open ntuples or trees as one; `None` for tables.
    fn ntuple(&mut self) -> Result<Option<NTuple>, RNTupleError> {
        if self.readers.is_empty() {
            return Ok(None);
        }
        let urls = self.inputs.iter().map(|input| input.url.clone()).collect();
        let named = self.inputs.iter().any(|input| input.path.is_some());
        NTuple::together(std::mem::take(&mut self.readers), urls, named).map(Some)
    }

    /// The options for one of several ntuples.
    fn options(&self, options: &ConvertOptions) -> ConvertOptions {
        ConvertOptions {
            name: self.name.clone().or_else(|| options.name.clone()),
            ..options.clone()
        }
    }
}

/// The contents of a file: objects to convert, opened and with class names, and its other objects.
struct Found {
    readers: Vec<(Arc<Reader>, String)>,
    left: Vec<LeftBehind>,
}

/// Finds and opens the inputs. Each file is opened once, several at a time. Files without an object name are converted
/// as a whole: trees and ntuples with the same path are concatenated. Other objects are left behind.
///
/// # Errors
/// If a file cannot be opened, or one name is given for several objects.
pub(super) fn find(
    inputs: &[Input],
    output: Format,
    (purpose, options): (Purpose, &ConvertOptions),
    left: &mut AllLeftBehind,
) -> Result<Vec<Part>, RNTupleError> {
    let is_root = |input: &Input| Format::of(Path::new(&input.url)) == Format::Root;
    if !inputs.iter().all(is_root) {
        return Ok(vec![single(inputs, Vec::new())]);
    }
    let is_whole = output == Format::Root && inputs.iter().all(|input| input.path.is_none());
    let named = named_together(inputs);
    let all = side_by_side(inputs, |at, input| {
        let mut named = named.get(at).cloned().unwrap_or_default();
        if !named.is_empty() {
            named.extend(options.elsewhere.iter().map(String::as_str));
        }
        look((input, &named), is_whole, purpose)
    })?;
    // a merge reports left-behind objects itself
    if purpose == Purpose::Output {
        for (input, found) in inputs.iter().zip(&all) {
            for item in &found.left {
                left.add(item.clone(), Some(&input.shown()));
            }
        }
    }
    let most = all.iter().map(|found| found.readers.len()).max();
    let found = inputs.iter().zip(all);
    let found =
        found.flat_map(|(input, found)| found.readers.into_iter().map(move |it| (input, it)));
    if purpose == Purpose::Output && most.unwrap_or(0) < 2 {
        let opened: Vec<_> = found.map(|(_, it)| it).collect();
        // if no file has any, opening all files reports it
        let has_all = opened.len() == inputs.len();
        return Ok(vec![single(
            inputs,
            if has_all { opened } else { Vec::new() },
        )]);
    }
    let mut parts: Vec<Part> = Vec::new();
    for (input, opened) in found {
        add(&mut parts, input, opened);
    }
    if let Some(name) = &options.name {
        return Err(one_name_for_many(inputs, &parts, name));
    }
    give_names(&mut parts, &mut TreeNames::default());
    Ok(parts)
}

/// Opens a file and the objects to convert: all, the named ones, or the only one. `named` has the names in all inputs
/// for this file.
fn look(
    (input, named): (&Input, &[&str]),
    is_whole: bool,
    purpose: Purpose,
) -> Result<Found, RNTupleError> {
    while_it_grows(&input.url, &input.all_settings()?, |source| {
        let opened = Opened::of(source)?;
        if let Some(path) = &input.path {
            let reader = Arc::new(opened.entries(Some(path))?);
            let class = opened.file.find(path)?.class_name;
            return Ok(Found {
                readers: vec![(reader, class)],
                left: beside(&opened.file, named)?,
            });
        }
        let (newest, older) = opened.objects_and_older(None)?;
        let (found, others): (Vec<_>, Vec<_>) = newest
            .into_iter()
            .filter(|(_, key)| !key.is_directory())
            .partition(|(_, key)| is_converted(key, purpose));
        let others = others.iter();
        let left = others.map(|(path, key)| LeftBehind::object(path, &key.class_name, NO_TREE));
        let older = older.iter();
        let older = older.map(|(path, key)| LeftBehind::older(path, key));
        let left = left.chain(older).collect();
        let open = |path: Option<&str>| {
            let reader = opened.entries(path)?;
            let key = found.iter().find(|(path, _)| path == reader.path());
            let class = key.map_or("", |(_, key)| &key.class_name).to_owned();
            Ok::<_, RNTupleError>((Arc::new(reader), class))
        };
        let readers = match is_whole && (found.len() != 1 || purpose == Purpose::Merge) {
            true => found.iter().map(|(path, _)| open(Some(path))).collect(),
            false => open(None).map(|it| vec![it]),
        };
        Ok(Found {
            readers: readers?,
            left,
        })
    })
}

fn is_converted(key: &Key, purpose: Purpose) -> bool {
    is_tree(&key.class_name) || key.class_name == RNTUPLE_CLASS && purpose == Purpose::Output
}

/// Combines all inputs, whatever their names. Keeps the path if all inputs have the same directory.
fn single(inputs: &[Input], opened: Vec<(Arc<Reader>, String)>) -> Part {
    let first = opened.first();
    let object = first.map(|(reader, class)| (reader.path().to_owned(), class.clone()));
    let directories: HashSet<_> = (opened.iter())
        .map(|(reader, _)| directory_of(reader.path()))
        .collect();
    let is_kept = directories.len() == 1 && !directories.contains("");
    Part {
        path: object.clone().map(|(path, _)| path).filter(|_| is_kept),
        inputs: inputs.to_vec(),
        readers: opened.into_iter().map(|(reader, _)| reader).collect(),
        name: None,
        object: object.unwrap_or_default(),
        names: FieldNames::default(),
    }
}

/// The directory of an object.
fn directory_of(path: &str) -> &str {
    let path = path.trim_matches('/');
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

fn add(parts: &mut Vec<Part>, input: &Input, (reader, class): (Arc<Reader>, String)) {
    let path = without_cycle(reader.path()).trim_matches('/').to_owned();
    let input = Input {
        path: Some(reader.path().to_owned()),
        ..input.clone()
    };
    match parts.iter_mut().find(|part| part.object.0 == path) {
        Some(part) => {
            part.inputs.push(input);
            part.readers.push(reader);
        }
        None => parts.push(Part {
            inputs: vec![input],
            readers: vec![reader],
            name: None,
            path: None,
            object: (path, class),
            names: FieldNames::default(),
        }),
    }
}

/// Assigns valid and unique ntuple names, reusing names from earlier files.
pub(super) fn give_names(parts: &mut [Part], names: &mut TreeNames) {
    names.keep_own(parts.iter().map(|part| &*part.object.0));
    for part in parts {
        part.name = Some(names.give(&part.object.0));
        part.names = names.of(&part.object.0);
    }
}

fn one_name_for_many(inputs: &[Input], parts: &[Part], name: &str) -> RNTupleError {
    let url = inputs.first().map(Input::shown).unwrap_or_default();
    let paths: Vec<&str> = parts.iter().map(|part| &*part.object.0).take(5).collect();
    let first = paths.first().copied().unwrap_or_default();
    RNTupleError::Usage {
        what: format!(
            "{url} has several trees and ntuples ({}), which cannot all have the name {name:?}: name the one to \
             convert ({url}:{first})",
            paths.join(", ")
        ),
    }
}

/// An error with the index of its part.
pub(super) type OfPart = (usize, RNTupleError);

/// Opens all parts. If there are several, parts without a selected field are left behind.
///
/// # Errors
/// If a part cannot be opened, or a name or pattern matches no field.
pub(super) fn open(
    parts: Vec<Part>,
    output: Format,
    (purpose, options): (Purpose, &ConvertOptions),
    unreadable: &[(usize, String, String)],
    left: &mut AllLeftBehind,
) -> Result<Vec<(usize, Part, Source)>, OfPart> {
    let mut unmatched: Option<Unmatched> = None;
    let mut out = Vec::with_capacity(parts.len());
    let is_one = purpose == Purpose::Output && parts.len() == 1;
    for (at, mut part) in parts.into_iter().enumerate() {
        let own = unreadable.iter().filter(|(of, ..)| *of == at);
        let own: Vec<_> = own
            .map(|(_, name, why)| (name.clone(), why.clone()))
            .collect();
        let of_part = |error| (at, error);
        let ntuple = part.ntuple().map_err(of_part)?;
        let readers = ntuple.iter().flat_map(NTuple::readers);
        let skipped = readers.flat_map(|reader| reader.descriptor().skipped.iter());
        let damaged: Vec<SkippedField> = skipped.filter(|it| it.is_damage).cloned().collect();
        let part_options = part.options(options);
        let given = (ntuple, part.path.as_deref());
        let how = (&part_options, &part.names);
        let opened = Source::open_part(&part.inputs, given, output, how, &own);
        let mut source = opened.map_err(of_part)?;
        if purpose == Purpose::Output
            && let Some(name) = part.name.as_ref().filter(|name| *name != part.path())
        {
            let note = format!("the tree is called {name:?}");
            source.notes.push((part.path().to_owned(), note));
        }
        let own = std::mem::take(&mut source.unmatched);
        unmatched = Some(match unmatched {
            None => own,
            Some(mut known) => {
                known.retain(|pattern, _| own.contains_key(pattern));
                known
            }
        });
        if purpose == Purpose::Merge
            && let Some(damage) = damaged.iter().find(|damage| {
                let mut skipped = source.skipped.iter();
                skipped.any(|(field, _)| *field == damage.name)
            })
        {
            return Err((at, unreadable_branch(&part, damage)));
        }
        let is_chosen = !options.fields.is_empty() || !options.drop.is_empty();
        if is_one || source.fields.iter().any(has_data) {
            out.push((at, part, source));
        } else if let Some((field, why)) = source.skipped.first() {
            part.left(
                &format!("no field of it can be converted: {field}: {why}"),
                left,
            );
        } else if is_chosen {
            part.left("no field of it is selected", left);
        } else {
            out.push((at, part, source));
        }
    }
    match unmatched.and_then(|mut all| all.pop_first()) {
        Some((_, error)) if purpose == Purpose::Output => Err((0, error)),
        _ => Ok(out),
    }
}

/// The error for a merge that would leave out a damaged branch.
fn unreadable_branch(part: &Part, damage: &SkippedField) -> RNTupleError {
    RNTupleError::Inconsistent {
        url: part.inputs.first().map(Input::shown).unwrap_or_default(),
        ntuple: part.path().to_owned(),
        what: format!("branch {:?}", damage.name),
        expected: "a branch that can be read".to_owned(),
        found: damage.reason.clone(),
    }
}

/// The ntuples of a converted file with their numbers of entries.
pub(super) fn entries(input: &Input) -> Result<Vec<(String, u64)>, RNTupleError> {
    let (mut left, options) = (AllLeftBehind::default(), ConvertOptions::default());
    let parts = find(
        std::slice::from_ref(input),
        Format::Root,
        (Purpose::Output, &options),
        &mut left,
    )?;
    let each = parts.into_iter().map(|mut part| {
        let ntuple = part.ntuple()?;
        let how = (&options, &part.names);
        let source = Source::open_part(&part.inputs, (ntuple, None), Format::Root, how, &[])?;
        Ok((part.name.unwrap_or(part.object.0), source.n_entries))
    });
    each.collect()
}
