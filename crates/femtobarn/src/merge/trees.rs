//! Trees among the inputs: they are converted into ntuples of a temporary file, whose pages are merged like those of
//! any other input.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use femtobarn_io::{LocalSource, Settings, is_remote};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rootfile::Key;
use femtobarn_ttree::is_tree;

use super::{Entries, MergeOptions, MergedInput, OnProgress, Opened, Progress};
use crate::convert::{ConvertOptions, Replace, convert_staged};
use crate::inputs::Input;
use crate::open::RNTUPLE_CLASS;
use crate::staged::StagedOutput;
use crate::writable::local;

/// The files with what the trees of inputs were converted to, by the numbers of the inputs.
#[derive(Default)]
pub(super) struct Trees {
    /// What their names begin with.
    place: PathBuf,
    files: HashMap<usize, Converted>,
}

/// What the trees of a file were converted to.
struct Converted {
    file: StagedOutput,
    /// Other objects that are taken from the file itself: its ntuples.
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
        let files = HashMap::new();
        Ok(Self { place, files })
    }

    /// Converts the trees of an input, if it has any, with the fields that are asked for.
    ///
    /// # Errors
    /// If a tree cannot be read, or the disk is full.
    pub fn convert(
        &mut self,
        (at, input): (usize, &Input),
        found: &[(String, Key)],
        options: &MergeOptions,
        merged: &mut MergedInput,
        (now, progress): (Progress, OnProgress<'_>),
    ) -> Result<(), RNTupleError> {
        let trees = found.iter().filter(|(_, key)| is_tree(&key.class_name));
        let trees: Vec<(String, String)> = trees
            .map(|(path, key)| (path.clone(), key.class_name.clone()))
            .collect();
        if trees.is_empty() {
            return Ok(());
        }
        let mut name = self.place.file_name().unwrap_or_default().to_owned();
        name.push(format!(".trees-{at}"));
        let output = self.place.with_file_name(name);
        let how = ConvertOptions {
            fields: columns(options),
            write: options.write.clone(),
            verify: options.verify,
            replace: Replace::Anything,
            ..ConvertOptions::default()
        };
        let tick = |_| progress(now);
        let (done, staged) = convert_staged(input, &output, &how, &tick)?;
        let left = done.left_behind.iter();
        merged.left.extend(left.map(|(item, _)| item.clone()));
        let notes = done.notes().map(|(name, note)| (name, note.to_owned()));
        merged.notes.extend(notes);
        merged.converted = trees;
        let mut ntuples = found.to_vec();
        ntuples.retain(|(_, key)| key.class_name == RNTUPLE_CLASS);
        let converted = Converted {
            file: staged,
            ntuples: ntuples.into_iter().map(|(path, _)| path).collect(),
        };
        self.files.insert(at, converted);
        Ok(())
    }

    /// Has an input give the ntuples that its trees were converted to.
    ///
    /// # Errors
    /// If these cannot be opened.
    pub fn give(&self, at: usize, opened: &mut Opened) -> Result<(), RNTupleError> {
        if let Some(Converted { file, .. }) = self.files.get(&at) {
            let url = opened.source.url().to_owned();
            let source = LocalSource::open_as(file.path(), url)?;
            opened.ntuples = Some(Box::new(Opened::of(source)?));
        }
        Ok(())
    }

    /// The inputs as a proof can compare them: of trees, the converted ntuples, which were verified.
    pub fn inputs(&self, inputs: &[Input]) -> Vec<Input> {
        let each = inputs.iter().enumerate();
        each.flat_map(|(at, input)| {
            let Some(converted) = self.files.get(&at) else {
                return vec![input.clone()];
            };
            let own = converted.ntuples.iter().map(|path| Input {
                path: Some(path.clone()),
                ..input.clone()
            });
            let made = Input {
                url: converted.file.path().to_string_lossy().into_owned(),
                ..Input::default()
            };
            own.chain([made]).collect()
        })
        .collect()
    }
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
