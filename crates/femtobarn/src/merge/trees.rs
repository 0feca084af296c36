//! Trees among the inputs: they are converted into ntuples of temporary files, whose pages are merged like those of any
//! other input.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use femtobarn_io::{ByteSource, LocalSource, Settings, is_remote};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rootfile::Key;
use femtobarn_ttree::is_tree;

use super::histograms::is_summed;
use super::others::check_other;
use super::{Entries, MergeOptions, MergedInput, OnProgress, Opened, Progress};
use crate::convert::{ConvertOptions, Origins, Replace, StagedTrees, TreeNames, TreesOf};
use crate::inputs::{ConvertedTrees, Input};
use crate::objects;
use crate::objects::RNTUPLE_CLASS;
use crate::proof::find_meant;
use crate::staged::StagedOutput;
use crate::writable::local;

/// What the trees of inputs were converted to.
#[derive(Default)]
pub(super) struct Trees {
    /// Path that the names of the temporary files begin with.
    place: PathBuf,
    /// The temporary files. Each has the trees of as many inputs as all files before it together.
    files: Vec<StagedFile>,
    /// By the numbers of the inputs.
    inputs: BTreeMap<usize, Converted>,
    /// The names of the ntuples and fields, by those of trees and branches: the same for all inputs.
    names: TreeNames,
}

/// A temporary file.
struct StagedFile {
    staged: StagedOutput,
    opened: Rc<Opened>,
    /// Its ntuples by their paths.
    keys: HashMap<String, Key>,
}

/// What the trees of an input were converted to.
struct Converted {
    /// The number of the file.
    file: usize,
    made: TreesOf,
    /// The paths and classes of the trees.
    trees: Vec<(String, String)>,
    /// The ntuples of the input itself.
    ntuples: Vec<String>,
}

impl Trees {
    /// None, for an output.
    pub fn new(output: &Path, settings: &Settings) -> Result<Self, RNTupleError> {
        let url = output.to_string_lossy();
        let place = match is_remote(&url) {
            true => settings.spool_folder()?.join("merge"),
            false => local(&url).into_owned(),
        };
        Ok(Self {
            place,
            ..Self::default()
        })
    }

    /// Converts the trees of an input, with the fields that are asked for, if that was not done; and those of some inputs
    /// behind it, at most as many as were converted before: so there are few files, and inputs that do not fit are noticed
    /// early.
    ///
    /// # Errors
    /// If a tree cannot be read, an object beside it cannot be brought, or the disk is full.
    pub fn convert(
        &mut self,
        first: usize,
        inputs: &[Input],
        options: &MergeOptions,
        (now, progress): (Progress, OnProgress<'_>),
    ) -> Result<(), RNTupleError> {
        if self.inputs.contains_key(&first) {
            return Ok(());
        }
        let mut name = self.place.file_name().unwrap_or_default().to_owned();
        name.push(format!(".trees-{}", self.files.len()));
        let how = how(options);
        let tick = |_| progress(now);
        let mut staged = StagedTrees::create(&self.place.with_file_name(name), &how)?;
        let n_inputs = self.inputs.len().max(1);
        for (at, input) in inputs.iter().enumerate().skip(first).take(n_inputs) {
            let opened = Opened::new(input)?;
            let found = opened.objects(input.path.as_deref())?;
            let trees = found.iter().filter(|(_, key)| is_tree(&key.class_name));
            let trees: Vec<(String, String)> = trees
                .map(|(path, key)| (path.clone(), key.class_name.clone()))
                .collect();
            if trees.is_empty() {
                continue;
            }
            let others = found.iter().filter(|(_, key)| is_other(key));
            for (path, key) in others {
                check_other(&opened, path, key, options.others)?;
            }
            let ntuples = found.iter();
            let ntuples = ntuples.filter(|(_, key)| key.class_name == RNTUPLE_CLASS);
            let converted = Converted {
                file: self.files.len(),
                made: staged.add(input, &how, &mut self.names, &tick)?,
                trees,
                ntuples: ntuples.map(|(path, _)| path.clone()).collect(),
            };
            self.inputs.insert(at, converted);
        }
        let chooses = !options.fields.is_empty() || matches!(options.entries, Entries::Where(_));
        if let Some(name) = self.names.displaced_field().filter(|_| chooses) {
            let what = format!(
                "branch {name:?}, and a branch of an earlier file whose name a field cannot have, get the same field \
                 name: convert the files first, each by itself"
            );
            return Err(RNTupleError::Usage { what });
        }
        let staged = staged.finish()?;
        let opened = Opened::of(LocalSource::open(staged.file()?.path())?)?;
        let keys = objects::newest(&opened.file)?.into_iter().collect();
        self.files.push(StagedFile {
            staged,
            opened: Rc::new(opened),
            keys,
        });
        Ok(())
    }

    /// Tells what came of the trees of an input.
    pub fn tell(&mut self, at: usize, merged: &mut MergedInput) {
        if let Some(converted) = self.inputs.get_mut(&at) {
            let left = std::mem::take(&mut converted.made.left_behind);
            merged
                .left
                .extend(left.iter().map(|(item, _)| item.clone()));
            merged.notes.append(&mut converted.made.notes);
            merged.converted.append(&mut converted.trees);
        }
    }

    /// Has an input give the ntuples that its trees were converted to.
    ///
    /// # Errors
    /// If these cannot be opened.
    pub fn give(&self, at: usize, opened: &mut Opened) -> Result<(), RNTupleError> {
        opened.converted = self.of(at, opened.source.url())?;
        Ok(())
    }

    /// What the trees of an input were converted to, if it has any.
    fn of(&self, at: usize, url: &str) -> Result<Option<ConvertedTrees>, RNTupleError> {
        let converted = self.inputs.get(&at);
        let found = converted.and_then(|converted| {
            let file = self.files.get(converted.file)?;
            Some((converted, file))
        });
        let Some((converted, file)) = found else {
            return Ok(None);
        };
        let source: Arc<dyn ByteSource> =
            LocalSource::open_as(file.staged.file()?.path(), url.to_owned())?;
        let mut ntuples = Vec::new();
        for ntuple in &converted.made.ntuples {
            let key = file.keys.get(&ntuple.place);
            let key = key.ok_or_else(|| RNTupleError::internal("a tree that was converted"))?;
            ntuples.push((ntuple.path.clone(), key.clone()));
        }
        Ok(Some(ConvertedTrees {
            source,
            file: Rc::clone(&file.opened),
            ntuples,
        }))
    }

    /// Whether several trees could get this path, or several branches a field name of it.
    pub fn has_names_of(&self, ntuple: &str) -> bool {
        self.names.is_shared(ntuple)
            || self.names.shared_fields(ntuple).next().is_some()
            || self.names.changed_fields(ntuple).next().is_some()
    }

    /// Checks that the names of an ntuple, which was not converted from a tree, and of its fields match one tree and one branch
    /// each.
    ///
    /// # Errors
    /// If several trees or branches could get one of its names.
    pub fn check_names(&self, reader: &Reader) -> Result<(), RNTupleError> {
        let (url, path) = (reader.url(), reader.path());
        let advice = "merge the trees without it, or convert them first, each under its own name";
        if self.names.is_shared(path) {
            let what = format!(
                "{url} has an RNTuple {path:?}, and several trees get this name as RNTuples: {advice}"
            );
            return Err(RNTupleError::Usage { what });
        }
        let own = |name: &&str| reader.descriptor().field_names().any(|own| own == *name);
        let is_numbered = |name: &&str| {
            let mut fields = reader.descriptor().field_names();
            fields.any(|own| {
                let number = own
                    .strip_prefix(*name)
                    .and_then(|rest| rest.strip_prefix('_'));
                number.is_some_and(|number| number.parse::<u32>().is_ok())
            })
        };
        let changed = self.names.changed_fields(path);
        // which of these a branch is that had its name changed is not known
        let changed = changed.filter(|name| own(name) && is_numbered(name));
        match self
            .names
            .shared_fields(path)
            .filter(own)
            .chain(changed)
            .next()
        {
            None => Ok(()),
            Some(name) => Err(RNTupleError::Usage {
                what: format!(
                    "{url}:{path} has a field {name:?}, and several branches of the trees get this name as fields: {advice}"
                ),
            }),
        }
    }

    /// Opens what an input has of an ntuple of the output, for a proof: of a tree what it was converted to, which
    /// [`prove`](Self::prove) compares with the tree.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn find(
        &self,
        output: &Input,
        (at, input): (usize, &Input),
        path: &str,
    ) -> Result<Option<Arc<Reader>>, RNTupleError> {
        let Some(converted) = self.inputs.get(&at) else {
            return find_meant(output, input, path);
        };
        let trees = self.of(at, &input.shown())?;
        let reader = trees.map(|trees| trees.reader(path)).transpose()?;
        match reader.flatten() {
            Some(reader) => Ok(Some(Arc::new(reader))),
            None if converted.ntuples.iter().any(|own| own == path) => {
                find_meant(output, input, path)
            }
            None => Ok(None),
        }
    }

    /// Reads all trees again, and insists that what they were converted to has their values, and that each field is the
    /// same branch in all of them.
    ///
    /// # Errors
    /// If anything is not as it should be, or cannot be read.
    pub fn prove(
        &self,
        inputs: &[Input],
        options: &MergeOptions,
        all: Progress,
        progress: OnProgress<'_>,
    ) -> Result<(), RNTupleError> {
        let now = Progress {
            files: all.n_files,
            bytes: 0,
            verifying: true,
            ..all
        };
        let (how, tick) = (how(options), |_| progress(now));
        let mut pairs = Pairs::default();
        for (at, converted) in &self.inputs {
            let file = self.files.get(converted.file);
            let Some((input, file)) = inputs.get(*at).zip(file) else {
                return Err(RNTupleError::internal("an input that is none"));
            };
            let files = (input, &file.staged);
            let found = converted.made.prove(files, &how, &self.names, &tick)?;
            for origins in found {
                pairs.add(origins, input)?;
            }
        }
        Ok(())
    }
}

/// The branch of each field, and the fields of each branch, by ntuple.
#[derive(Default)]
struct Pairs {
    branches: HashMap<(String, String), String>,
    fields: HashMap<(String, String), BTreeSet<String>>,
}

impl Pairs {
    /// Adds the fields of an input; it is an error if another input paired a field or a branch differently.
    fn add(&mut self, (ntuple, origins): Origins, input: &Input) -> Result<(), RNTupleError> {
        let differs = |field: &str, branch: &str| {
            RNTupleError::internal(format!(
                "field {field:?} of {ntuple:?} is branch {branch:?} in {}, and another one in other inputs; nothing was kept",
                input.shown()
            ))
        };
        let mut fields: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (field, branch) in origins {
            let known = self.branches.entry((ntuple.clone(), field.clone()));
            if known.or_insert_with(|| branch.clone()) != &branch {
                return Err(differs(&field, &branch));
            }
            fields.entry(branch).or_default().insert(field);
        }
        for (branch, own) in fields {
            let known = self.fields.entry((ntuple.clone(), branch.clone()));
            if *known.or_insert_with(|| own.clone()) != own {
                let field = own.into_iter().next().unwrap_or_default();
                return Err(differs(&field, &branch));
            }
        }
        Ok(())
    }
}

/// How trees are converted.
fn how(options: &MergeOptions) -> ConvertOptions {
    ConvertOptions {
        fields: columns(options),
        write: options.write.clone(),
        replace: Replace::Anything,
        ..ConvertOptions::default()
    }
}

/// Whether an object is not a tree, an ntuple, a directory or a histogram.
fn is_other(key: &Key) -> bool {
    let is_known = is_tree(&key.class_name) || key.class_name == RNTUPLE_CLASS;
    !is_known && !key.is_directory() && !is_summed(key)
}

/// The top-level fields of trees that are needed: the selected fields, and fields of the condition.
fn columns(options: &MergeOptions) -> Vec<String> {
    let mut out = options.fields.clone();
    if let (Entries::Where(expression), false) = (&options.entries, out.is_empty()) {
        let top = |column: &String| column.split('.').next().unwrap_or_default().to_owned();
        out.extend(expression.columns().iter().map(top));
    }
    out
}
