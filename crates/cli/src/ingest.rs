//! `fb ingest`: brings files into a dataset of an event store. HDF5 files are read in Python.

use std::io::Write;

use femtobarn::Target;
use femtobarn::events::{DataSet, DataStore, EventsError, ObjectOptions, check_url};
use femtobarn::ingest::{self, FileKind, Ingest, IngestOptions};
use femtobarn::products::Types;
use femtobarn::transfer::{TransferError, Words};

use crate::args::{IngestArgs, Threads};
use crate::failure::{Failure, code};
use crate::output::Output;
use crate::progress::{Show, end_gently};
use crate::python::{self, Python};
use crate::table::printable;

/// A file, and the name of the ntuple in it.
type File = (String, Option<String>);

pub fn run(
    args: &IngestArgs,
    python: Option<Python<'_>>,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<i32, Failure> {
    let url = &args.into;
    check_url(url)?;
    let files = files(args)?;
    let options = options(args)?;
    if ingest::check(&files, options.clone())?.contains(&FileKind::Hdf5) {
        return python::ingest(args, python, out);
    }
    end_gently();
    let store = DataStore::connect(url, ObjectOptions::default())?;
    if !store.backend().is_kept() {
        let message = format!(
            "{}: a store in memory ends with this program; use a persistent one, as dir:PATH",
            store.url()
        );
        return Err(Failure::new(code::USAGE, "usage", message));
    }
    let root = store.root();
    let new = missing(&root, &args.dataset)?;
    let dataset = root.create_dataset(&args.dataset)?;
    let done = bring(&dataset, &files, options, out, err);
    if done.is_err() {
        // as after files that could not be read
        new.iter()
            .try_for_each(|path| remove_if_empty(&root.dataset(path)?))?;
    }
    done
}

fn bring(
    dataset: &DataSet,
    files: &[File],
    options: IngestOptions,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<i32, Failure> {
    let types = Types::new(dataset.datastore()).into();
    let mut own = Ingest::new(dataset, &types, files, options)?;
    let show = Show::new(1, out.is_json);
    let todo = own.files().1.to_vec();
    let read = own.read(&todo, &|done, total| {
        show.tick_share("ingesting", done, total)
    });
    show.end();
    let report = match &read {
        Ok(()) => Some(own.finish()),
        Err(_) => None,
    };
    for warning in own.take_warnings() {
        writeln!(err, "fb: {}", printable(warning.text()))?;
    }
    match (read, report) {
        (Err(error), _) if error.kind() == "interrupted" => Err(interrupted(&own.state())),
        (Err(error), _) => Err(error.into()),
        (Ok(()), Some(report)) if out.is_json => {
            Ok(out.json(&report.to_json()).map(|()| code::FINE)?)
        }
        (Ok(()), report) => {
            out.lines(&report.map_or_else(String::new, |report| report.to_string()))?;
            Ok(code::FINE)
        }
    }
}

/// The failure of interrupted work, with the state.
pub fn interrupted(state: &str) -> Failure {
    Failure::new(
        code::INTERRUPTED,
        "interrupted",
        format!("interrupted; {state}"),
    )
}

fn files(args: &IngestArgs) -> Result<Vec<File>, Failure> {
    let mut files = Vec::new();
    for text in &args.files {
        let found = Target::find(text, None)?.into_iter();
        files.extend(found.map(|target| (target.file, target.name)));
    }
    Ok(files)
}

fn options(args: &IngestArgs) -> Result<IngestOptions, Failure> {
    Ok(IngestOptions {
        groups: args.choice.groups.clone(),
        fields: args.choice.fields.clone(),
        drop: args.choice.drop.clone(),
        namespace: args.choice.namespace.clone(),
        tree: args.tree.clone(),
        numbers: [args.run.clone(), args.subrun.clone(), args.event.clone()],
        collections: args.collections,
        on_conflict: args.on_conflict,
        again: args.again,
        workers: args.workers.map(usize::from),
        threads: Threads::default().number()?,
        words: Words::Shell,
        ..IngestOptions::default()
    })
}

/// The datasets that creating one creates, the innermost first.
fn missing(root: &DataSet, path: &str) -> Result<Vec<String>, EventsError> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let mut missing = Vec::new();
    for n in (1..=parts.len()).rev() {
        let whole = parts.get(..n).unwrap_or_default().join("/");
        if root.find_dataset(&whole)?.is_none() {
            missing.push(whole);
        }
    }
    Ok(missing)
}

fn remove_if_empty(dataset: &DataSet) -> Result<(), EventsError> {
    let is_empty = dataset.children(..).next().is_none()
        && dataset.datasets(None).next().is_none()
        && dataset.names(None)?.is_empty();
    match is_empty {
        true => dataset.remove(),
        false => Ok(()),
    }
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        let advice =
            "--on-conflict keep keeps existing values, --on-conflict replace replaces them";
        let next = (error.kind() == "conflict").then(|| advice.to_owned());
        Self {
            next,
            ..Self::new(error.exit_code(), error.kind(), error.to_string())
        }
    }
}
