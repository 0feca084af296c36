//! Trees among the inputs of a merge: the trees of many files are converted into one temporary file.

use std::path::Path;

use femtobarn_io::Settings;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::Digest;

use super::format::Format;
use super::names::TreeNames;
use super::options::{ConvertOptions, OnProgress, Progress, Purpose};
use super::output::Sink;
use super::parts::{self, Part};
use super::source::Source;
use super::{Failed, Unreadable, batches_of, certificate, flow, without_unreadable};
use crate::inputs::Input;
use crate::left_behind::AllLeftBehind;
use crate::staged::StagedOutput;

/// A temporary local file. The trees of each input are in a separate directory, because trees of two inputs may have
/// different fields.
pub(crate) struct StagedTrees {
    staged: StagedOutput,
    sink: Sink,
    /// Number of directories that were started.
    n_begun: usize,
}

/// The ntuples converted from the trees of one input.
#[derive(Debug, Default)]
pub(crate) struct TreesOf {
    pub ntuples: Vec<StagedNTuple>,
    pub left_behind: AllLeftBehind,
    /// Fields whose names or values were changed, with notes.
    pub notes: Vec<(String, String)>,
    unreadable: Unreadable,
}

/// An ntuple converted from a tree.
#[derive(Debug)]
pub(crate) struct StagedNTuple {
    /// Its path in the output of the merge.
    pub path: String,
    /// Its path in the temporary file.
    pub place: String,
}

/// The path of an ntuple, and pairs of a field and the branch that it was read from.
pub(crate) type Origins = (String, Vec<(String, String)>);

impl StagedTrees {
    /// Starts a file.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(output: &Path, options: &ConvertOptions) -> Result<Self, RNTupleError> {
        let settings = Settings::new(&output.to_string_lossy(), options.settings.clone())?;
        let mut staged = StagedOutput::unnamed(output, &settings)?;
        let sink = Sink::create(Format::Root, &mut staged, options)?;
        Ok(Self {
            staged,
            sink,
            n_begun: 0,
        })
    }

    /// Converts the trees of an input. Requested fields may be missing in all of them.
    ///
    /// # Errors
    /// If a tree cannot be read, or the disk is full.
    pub fn add(
        &mut self,
        input: &Input,
        options: &ConvertOptions,
        names: &mut TreeNames,
        progress: OnProgress<'_>,
    ) -> Result<TreesOf, RNTupleError> {
        let mut unreadable = Unreadable::new();
        let attempt = |known: &Unreadable| self.attempt(input, options, known, names, progress);
        let added = without_unreadable(&mut unreadable, attempt);
        let added = added.map_err(|failed| failed.error)?;
        Ok(TreesOf {
            unreadable,
            ..added
        })
    }

    fn attempt(
        &mut self,
        input: &Input,
        options: &ConvertOptions,
        unreadable: &Unreadable,
        names: &mut TreeNames,
        progress: OnProgress<'_>,
    ) -> Result<TreesOf, Failed> {
        let mut out = TreesOf::default();
        let sources = open(input, options, unreadable, names, &mut out.left_behind)?;
        let mut now = Progress::of(&sources);
        // data of a failed attempt remain in the directory of that attempt
        let folder = self.n_begun;
        self.n_begun += 1;
        let are_several = sources.len() > 1;
        for (at, part, mut source) in sources {
            let path = source.name.clone();
            source.name = format!("{folder}/{path}");
            let batches = std::mem::replace(&mut source.batches, Box::new(std::iter::empty()));
            self.sink.begin(&source, options)?;
            let ahead = options.write.threads > 1;
            flow(batches, at, None, ahead, &mut |batch| {
                self.sink.extend(batch)?;
                now.entries += batch.num_rows() as u64;
                goes_on(progress, now)
            })?;
            self.sink.end(&source.attributes)?;
            part.leaves(&source, &mut out.left_behind);
            if part.path() != path {
                let note = format!("the tree is called {path:?}");
                out.notes.push((part.path().to_owned(), note));
            }
            let notes = source.notes.drain(..).map(|(field, note)| {
                let field = match are_several {
                    true => format!("{path}:{field}"),
                    false => field,
                };
                (field, note)
            });
            out.notes.extend(notes);
            names.keep(part.path(), source.names);
            let place = source.name;
            out.ntuples.push(StagedNTuple { path, place });
        }
        Ok(out)
    }

    /// Finishes the file, so that it can be read.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn finish(mut self) -> Result<StagedOutput, RNTupleError> {
        self.sink.finish(&mut self.staged, false)?;
        Ok(self.staged)
    }
}

impl TreesOf {
    /// Reads the trees of an input again, and checks that the converted ntuples have all their values. Returns the
    /// branch of each field.
    ///
    /// # Errors
    /// If anything differs from the trees.
    pub fn prove(
        &self,
        (input, staged): (&Input, &StagedOutput),
        options: &ConvertOptions,
        names: &TreeNames,
        progress: OnProgress<'_>,
    ) -> Result<Vec<Origins>, RNTupleError> {
        let open = || {
            let (mut left, mut names) = (AllLeftBehind::default(), names.clone());
            let sources = open(input, options, &self.unreadable, &mut names, &mut left);
            sources.map_err(|failed| failed.error)
        };
        let mut now = Progress::default();
        let mut out = Vec::new();
        for (at, _, mut source) in open()? {
            let path = source.name.clone();
            let ntuple = self.ntuples.iter().find(|ntuple| ntuple.path == path);
            let Some(ntuple) = ntuple else {
                return Err(RNTupleError::internal(format!(
                    "tree {path:?} of {} was not converted; nothing was kept",
                    input.shown()
                )));
            };
            let batches = std::mem::replace(&mut source.batches, Box::new(std::iter::empty()));
            let ahead = options.write.threads > 1;
            let digest = Some(Digest::new(&source.fields)?);
            let digest = flow(batches, at, digest, ahead, &mut |_| goes_on(progress, now));
            let digest = digest.map_err(|failed| failed.error)?;
            let given = digest.map(Digest::finish).unwrap_or_default();
            source.name.clone_from(&ntuple.place);
            let place = (
                Format::Root,
                staged.input(Some(&source.name), &options.settings),
            );
            let again = || batches_of(at, open()?);
            let watched = (&mut now, progress);
            certificate::verify(&source, given, place, options, &again, watched)?;
            out.push((path, source.origins));
        }
        Ok(out)
    }
}

fn goes_on(progress: OnProgress<'_>, now: Progress) -> Result<(), RNTupleError> {
    match progress(now) {
        true => Ok(()),
        false => Err(RNTupleError::Interrupted),
    }
}

/// Opens the trees of an input that have requested fields.
fn open(
    input: &Input,
    options: &ConvertOptions,
    unreadable: &Unreadable,
    names: &mut TreeNames,
    left: &mut AllLeftBehind,
) -> Result<Vec<(usize, Part, Source)>, Failed> {
    let inputs = std::slice::from_ref(input);
    let how = (Purpose::Merge, options);
    let mut parts = parts::find(inputs, Format::Root, how, left).map_err(Failed::opening)?;
    parts::give_names(&mut parts, names);
    let opened = parts::open(parts, Format::Root, how, unreadable, left);
    opened.map_err(Failed::opening_part)
}
