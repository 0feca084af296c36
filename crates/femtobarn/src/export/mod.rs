//! From an event store to an ntuple: a column for each product, in which everything comes back.
//!
//! **Invariant.** Entries are in the order of run, subrun and event. The file appears when it is complete, and only if
//! the events and products were the same before and after writing. Memory does not depend on the number of events.

mod batches;
mod names;
mod report;
mod survey;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Instant;

use femtobarn_events::{Container, DataSet, ItemType};
use femtobarn_io::{is_remote, local_path, public};
use femtobarn_rntuple::write::WriteOptions;

pub use report::{ExportReport, ExportedProduct};

use crate::choice::Choice;
use crate::products::{Form, Types};
use crate::transfer::{NUMBERS, TransferError, Words, joined, quoted};
use crate::writable::create_output;
use survey::{Name, Survey};
use write::{Again, Exporting};

/// Endings of files of other formats.
const OTHERS: [&str; 19] = [
    "arrow", "arrows", "csv", "feather", "gz", "h5", "hdf5", "ipc", "json", "npy", "npz",
    "parquet", "pickle", "pkl", "pq", "tsv", "txt", "xml", "zip",
];

/// What is exported.
#[derive(Debug, Clone, Copy)]
pub enum Exported<'a> {
    /// A dataset.
    DataSet(&'a DataSet),
    /// A run or a subrun.
    Part(&'a Container),
}

impl Exported<'_> {
    fn container(&self) -> &Container {
        match self {
            Self::DataSet(dataset) => dataset,
            Self::Part(part) => part,
        }
    }
}

impl fmt::Display for Exported<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let descriptor = self.container().descriptor();
        match self {
            Self::DataSet(dataset) => write!(f, "dataset {}", quoted(dataset.path().as_str())),
            Self::Part(part) if part.item_type() == ItemType::Run => {
                write!(f, "run {}", descriptor.run)
            }
            Self::Part(_) => write!(f, "{descriptor}"),
        }
    }
}

/// Products to export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// A label, or a pattern of labels if no type is given.
    pub label: String,
    /// The type.
    pub type_name: Option<String>,
}

impl Wanted {
    /// Whether a product has the label, and the type if it is given.
    fn is(&self, (label, type_name): &Name) -> bool {
        *label == self.label && self.type_name.as_ref().is_none_or(|own| own == type_name)
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = quoted(&self.label);
        match &self.type_name {
            Some(type_name) => write!(f, "({label}, {})", quoted(type_name)),
            None => f.write_str(&label),
        }
    }
}

/// Columns of products that some events lack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Missing {
    /// `std::optional`.
    #[default]
    Optional,
    /// `std::vector` of one value or none.
    List,
}

impl Choice for Missing {
    const ALL: &[(&str, Self)] = &[("optional", Self::Optional), ("list", Self::List)];
}

impl Missing {
    fn form(self, form: Form) -> Form {
        match (self, form) {
            (Self::List, Form::Optional) => Form::List,
            (_, form) => form,
        }
    }
}

/// How events are exported.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// The products; all by default, but for the notes of ingested files.
    pub products: Option<Vec<Wanted>>,
    /// Of a dataset, these runs; all by default.
    pub runs: Option<Vec<u64>>,
    /// The name of the ntuple.
    pub name: String,
    /// Names of the columns of run, subrun and event.
    pub numbers: [String; 3],
    /// Columns of products that some events lack.
    pub missing: Missing,
    /// Compression, sizes and threads.
    pub write: WriteOptions,
    /// Whether to replace an existing file.
    pub overwrite: bool,
    /// Settings for servers.
    pub settings: BTreeMap<String, String>,
    /// How messages name options.
    pub words: Words,
    /// Bytes of products that are in memory at once, about.
    pub batch_bytes: usize,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            products: None,
            runs: None,
            name: "Events".into(),
            numbers: NUMBERS.map(str::to_owned),
            missing: Missing::default(),
            write: WriteOptions::default(),
            overwrite: false,
            settings: BTreeMap::new(),
            words: Words::default(),
            batch_bytes: 32 << 20,
        }
    }
}

/// Called with the events done and in all; `false` ends the work.
pub type OnExport<'a> = &'a dyn Fn(u64, u64) -> bool;

/// Writes the events of a dataset, run or subrun to a ROOT file.
///
/// # Errors
/// If a product or run does not exist, the file exists or cannot be written, events or products changed meanwhile, or a
/// stored value is damaged.
pub fn export(
    exported: Exported<'_>,
    types: &Types,
    path: &str,
    options: &ExportOptions,
    tick: OnExport<'_>,
) -> Result<ExportReport, TransferError> {
    let since = Instant::now();
    check_options(&exported, options)?;
    check_output(path, options)?;
    let holders = holders(&exported, options)?;
    let mut survey = Survey::new(&exported, &holders, options, false)?;
    loop {
        let mut exporting = Exporting::new(&exported, &holders, types, &survey, options);
        let settings = options.settings.clone();
        let mut file = create_output(path, options.write.compression, options.overwrite, settings)?;
        match exporting.write(&mut file, tick) {
            Ok(()) => {}
            // an event was counted that has no container, or a product was removed meanwhile
            Err(Again::Partial(name)) => {
                survey.partial.insert(name);
                continue;
            }
            Err(Again::Unreadable(why)) => {
                survey.unreadable.extend(why);
                continue;
            }
            Err(Again::Failed(error)) => return Err(error),
        }
        let mut report = exporting.report;
        let now = Survey::new(&exported, &holders, options, true)?;
        survey.check(&exported, report.events, &now)?;
        file.finish()?;
        if let Exported::DataSet(dataset) = exported {
            for inner in dataset.datasets(None) {
                let inner = quoted(inner?.path().as_str());
                report.warnings.push(format!(
                    "dataset {inner} is not included: export it by itself"
                ));
            }
        }
        report.output = public(path);
        if !is_remote(path) {
            report.bytes_out = std::fs::metadata(&*local_path(path))
                .ok()
                .map(|found| found.len());
        }
        report.seconds = since.elapsed().as_secs_f64();
        return Ok(report);
    }
}

fn check_options(exported: &Exported<'_>, options: &ExportOptions) -> Result<(), TransferError> {
    if let Exported::DataSet(dataset) = exported
        && dataset.path().as_str().is_empty()
    {
        let near = dataset.datasets(None).take(3);
        let near = near.map(|one| Ok(quoted(one?.path().as_str())));
        let near = near.collect::<Result<Vec<_>, femtobarn_events::EventsError>>()?;
        let near = if near.is_empty() {
            String::new()
        } else {
            format!(", as {}", joined(near))
        };
        let what = format!("the root of a store has no events: export a dataset in it{near}");
        return Err(TransferError::usage(what));
    }
    let [run, subrun, event] = &options.numbers;
    if run == subrun || subrun == event || run == event {
        let [usual, given] = [NUMBERS.map(str::to_owned), options.numbers.clone()]
            .map(|names| joined(names.iter().map(|name| quoted(name))));
        let what =
            format!("numbers must be the names of three columns, e.g. ({usual}), not ({given})");
        return Err(TransferError::usage(what));
    }
    match options.products.as_deref() {
        Some([]) => Err(TransferError::usage(format!(
            "{}[] selects none, and the file would have no columns: leave it out to export all",
            options.words.name("products")
        ))),
        _ => Ok(()),
    }
}

/// Checks that a path is that of a ROOT file, and may be written.
fn check_output(path: &str, options: &ExportOptions) -> Result<(), TransferError> {
    let public = public(path);
    let shown = Path::new(public.split('?').next().unwrap_or_default());
    let ending = shown
        .extension()
        .map(|ending| ending.to_string_lossy().to_lowercase());
    if let Some(ending) = ending.filter(|ending| OTHERS.contains(&ending.as_str())) {
        let what = format!(
            "{} would be a ROOT file: use the ending .root instead of .{ending}",
            quoted(path)
        );
        return Err(TransferError::usage(what));
    }
    if is_remote(path) {
        return Ok(());
    }
    let local = local_path(path);
    let local = Path::new(&*local);
    if local.is_dir() {
        let inside = quoted(&local.join("events.root").to_string_lossy());
        let what = format!("{path} is a directory: give the file to write, e.g. {inside}");
        return Err(TransferError::usage(what));
    }
    if std::fs::symlink_metadata(local).is_ok() {
        if options.overwrite {
            return Ok(());
        }
        let how = match options.words {
            Words::Python => "overwrite=True, or -f in the shell",
            Words::Shell => "-f",
        };
        let what = format!("{path} already exists: replace it with {how}");
        return Err(TransferError::new("create-failed", what));
    }
    match path.to_lowercase().rfind(".root:") {
        Some(at) => Err(TransferError::usage(format!(
            "invalid output path {}: give the path {}, and the name of the ntuple with {}",
            quoted(path),
            quoted(path.get(..at + 5).unwrap_or(path)),
            options.words.name("name")
        ))),
        None if path == "-" => Err(TransferError::usage(
            "cannot write to standard output: give the path of a file",
        )),
        None => Ok(()),
    }
}

/// The containers whose events are exported.
fn holders(
    exported: &Exported<'_>,
    options: &ExportOptions,
) -> Result<Vec<Container>, TransferError> {
    let (Some(runs), container) = (&options.runs, exported.container()) else {
        return Ok(vec![exported.container().clone()]);
    };
    let Exported::DataSet(dataset) = exported else {
        let what =
            format!("runs can only be selected in a dataset, but {exported} is not a dataset");
        return Err(TransferError::usage(what));
    };
    dataset.check_there()?;
    let mut runs = runs.clone();
    runs.sort_unstable();
    runs.dedup();
    let found = runs.iter().map(|run| container.get(*run));
    Ok(found.collect::<Result<_, _>>()?)
}
