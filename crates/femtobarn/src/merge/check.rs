//! Before anything is brought: whether all inputs can be opened, and fit together. A merge of thousands of files shall not
//! fail at the last.

use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_ttree::is_tree;

use super::others::{check_named, check_other, taken};
use super::trees::Trees;
use super::{Chooser, Job, MergedInput, OnProgress, Opened};
use crate::destination::Naming;
use crate::inputs::{Input, OtherObjects, hinted, no_field};
use crate::left_behind::{LeftBehind, beside, named_together};
use crate::objects::{RNTUPLE_CLASS, holds_entries};
use crate::odd::telling;

use super::histograms::is_summed;

/// The reason for objects that are not ntuples, if the output is not a file.
const NOT_HELD: &str = "objects hold only ntuples";

/// As many inputs are compared to find out whether the first is unlike the others.
const MOST_COMPARED: usize = 16;

impl Job<'_> {
    /// Opens all inputs, one after another, and insists that their ntuples fit together, by their headers, and that
    /// every name that was given is that of something. Page lists and histograms are not checked. Directories are made
    /// and other objects are brought at once: so they are read only once, errors are reported before any page is
    /// copied, and they precede the pages, where their keys are as short as in most inputs.
    pub(super) fn check_all(
        &mut self,
        inputs: &[Input],
        progress: OnProgress<'_>,
    ) -> Result<(), RNTupleError> {
        let named = named_together(inputs);
        for ((at, input), named) in inputs.iter().enumerate().zip(&named) {
            self.check((at, input, named.as_slice()), inputs, progress)
                .map_err(|error| told(error, inputs, &self.trees))?;
            if !progress(self.progress) {
                return Err(RNTupleError::Interrupted);
            }
        }
        let has_trees = (self.report.inputs.iter()).any(|input| !input.converted.is_empty());
        self.scope.check().map_err(|error| match has_trees {
            true => of_tree(error),
            false => error,
        })?;
        self.check_existing_names()?;
        self.check_names(inputs)
    }

    /// Checks that ntuples, which an input adds, can be in the output.
    fn check_names_of(&self, input: &Input, paths: &[&str]) -> Result<(), RNTupleError> {
        let checked = self.options.naming.check(paths, "");
        checked.map_err(|error| RNTupleError::Usage {
            what: format!("{}: {error}", input.shown()),
        })
    }

    /// Insists that every name that was given is that of something.
    fn check_names(&self, inputs: &[Input]) -> Result<(), RNTupleError> {
        let unmatched = self.unmatched.first();
        let unmatched = unmatched.and_then(|&at| self.options.fields.get(at));
        let name = unmatched.map(String::as_str);
        match name.or_else(|| self.unfitted.iter().next().copied()) {
            Some(name) => Err(no_field(inputs, name)),
            None => Ok(()),
        }
    }

    fn check(
        &mut self,
        (at, input, named): (usize, &Input, &[&str]),
        inputs: &[Input],
        progress: OnProgress<'_>,
    ) -> Result<(), RNTupleError> {
        let options = self.options;
        let mut opened = Opened::new(input)?;
        self.progress.add_remote(opened.source.info());
        let mut merged = MergedInput::of(&input.url);
        let is_named = input.path.is_some();
        if is_named {
            merged.left = beside(&opened.file, named)?;
        }
        let (mut found, older) = opened.objects_and_older(input.path.as_deref())?;
        let older = older.iter();
        let older = older.map(|(path, key)| LeftBehind::older(path, key));
        merged.left.extend(older);
        if options.fields.is_empty() {
            let all = found.iter().filter(|(_, key)| holds_entries(key));
            let all: Vec<&str> = all.map(|(path, _)| path.as_str()).collect();
            self.check_names_of(input, &all)?;
        }
        let now = (self.progress, progress);
        if found.iter().any(|(_, key)| is_tree(&key.class_name)) {
            self.trees.convert(at, inputs, options, now)?;
            self.trees.tell(at, &mut merged);
            self.trees.give(at, &mut opened)?;
            found = opened.objects(input.path.as_deref())?;
        }
        if is_named {
            for (path, key) in &found {
                check_named(&opened, path, key)?;
            }
        }
        for (own, key) in found {
            let path = self.name_of(&own, &key);
            if key.class_name == RNTUPLE_CLASS {
                let reader = Arc::new(self.reader(&opened, (&path, &own), &key)?);
                for name in reader.descriptor().field_names() {
                    if !self.unmatched.is_empty() {
                        for at in self.fields.patterns.fitting(name) {
                            self.unmatched.remove(&at);
                        }
                    }
                }
                self.fields.note_counters(&reader);
                let mut names = reader.descriptor().field_names();
                let is_wanted =
                    options.fields.is_empty() || names.any(|name| self.fields.takes(&path, name));
                let is_skim = options.entries.is_condition();
                if !is_wanted && !is_skim && !self.known.contains_key(&path) && !self.has(&path) {
                    continue;
                }
                merged.paths.push((path.clone(), own.clone()));
                let paths: Vec<&str> = merged.paths.iter().map(|(_, own)| own.as_str()).collect();
                self.check_names_of(input, &paths)?;
                if !self.known.contains_key(&path) {
                    let names = self.known.keys().chain([&path]);
                    let names: Vec<&str> = names.map(String::as_str).collect();
                    self.check_names_of(input, &names)?;
                } else if options.naming == Naming::Leaves {
                    let mut others = self.report.inputs.iter();
                    let other = others.find_map(|other| other.path_of(&path));
                    if let Some(other) = other.filter(|other| *other != own) {
                        self.check_names_of(input, &[other, &own])?;
                    }
                }
                if self.taken.contains(&path) || self.summed.contains(&path) {
                    let tree = merged.converted.iter().find(|(tree, _)| *tree == own);
                    let class = tree.map_or(&key.class_name, |(_, class)| class);
                    return Err(taken(&opened, &path, class));
                }
                self.paths.add(&input.url, &path, &key)?;
                let is_tree = merged.converted.iter().any(|(tree, _)| *tree == own);
                let entries = self.scope.add(&reader, &path, is_named);
                entries
                    .and_then(|entries| Chooser::new(entries, &reader, 1))
                    .map_err(|error| if is_tree { of_tree(error) } else { error })?;
                if is_skim && (!is_wanted || self.scope.is_whole(&path)) {
                    self.fields.add_whole(&path);
                }
                let at = self.begun(&reader, &path)?;
                if let Some((_, ntuple)) = self.ntuples.get_mut(at) {
                    ntuple.check(&reader, &|name| self.fields.takes(&path, name))?;
                }
            } else if !self.takes_others() {
                if is_named {
                    self.file.root_file()?;
                }
                if !key.is_directory() {
                    if options.others == OtherObjects::Error {
                        check_other(&opened, &path, &key, options.others)?;
                    }
                    let item = LeftBehind::object(&path, &key.class_name, NOT_HELD);
                    merged.left.push(item);
                }
            } else if is_summed(&key) {
                if self.taken.contains(&path) || self.known.contains_key(&path) {
                    return Err(taken(&opened, &path, &key.class_name));
                }
                self.paths.add(&input.url, &path, &key)?;
                self.summed.insert(path);
            } else if key.is_directory() {
                self.paths.add(&input.url, &path, &key)?;
                self.file.root_file()?.directory_titled(&path, &key.title)?;
            } else {
                self.add_other(&opened, &path, &key, &mut merged)?;
            }
        }
        self.report.inputs.push(merged);
        Ok(())
    }
}

/// The error of an input that does not fit the first, with a note if the first is the odd one: as the first few files
/// show.
fn told(error: RNTupleError, inputs: &[Input], trees: &Trees) -> RNTupleError {
    let RNTupleError::SchemaMismatch { ntuple, .. } = &error else {
        return error;
    };
    let reader = |(at, input): (usize, &Input)| {
        let mut opened = Opened::new(input).ok()?;
        trees.give(at, &mut opened).ok()?;
        let objects = opened.objects(input.path.as_deref()).ok()?;
        let mut found = objects.into_iter().filter(|(path, key)| {
            let is_meant = input.path.is_some() || path == ntuple;
            is_meant && key.class_name == RNTUPLE_CLASS
        });
        let (path, key) = found.next()?;
        opened.reader(&path, &key).ok().map(Arc::new)
    };
    let first = inputs.iter().enumerate().take(MOST_COMPARED);
    let readers = first.filter_map(reader);
    let readers: Vec<_> = readers.collect();
    telling(error, &readers)
}

/// The error of a condition on a tree with a field that the converted ntuple does not have.
fn of_tree(error: RNTupleError) -> RNTupleError {
    let names = "the tree is converted first: the condition takes the names of the ntuple that `fb convert` makes of it";
    hinted(error, names)
}
