//! Command-line arguments.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueHint};
use femtobarn::choice::Choice;
use femtobarn::convert::Format;
use femtobarn::export::Missing;
use femtobarn::ingest::OnConflict;
use femtobarn::merge::{Level, OtherObjects, Unmatched};
use femtobarn::write::Mode;

use crate::failure::{Failure, code};
use crate::units::parse_bytes;

/// Heads the options that all subcommands have.
const GLOBAL: &str = "Global options";

/// Printed below `fb --help`.
const AFTER_HELP: &str = "\
An ntuple is named FILE:NAME. NAME is its path in the file, optionally with a cycle: data.root:dir/Events;2. \
If the file holds only one ntuple, NAME can be left out.

Subcommands that take several files also take patterns (* ? [] **), also in quotes, and @LIST, which reads file names from a text file, one per line. \
If one file fails, fb reports it and continues with the others; the exit code is then 1 if any file is damaged, else the highest code. \
--json prints one document per file, also for errors.

Exit codes:
  0  fine
  1  the data are bad: verify found damage or values that differ from the inputs, or a check of doctor, store or replay failed
  2  wrong usage: invalid arguments, or files that do not fit together
  3  the file, object or field does not exist, or cannot be read or written
  4  the file is corrupt, or has a format that this version does not read
  130  interrupted with Ctrl-C

Errors go to standard error: `fb: message`, or with --json {\"error\": {\"kind\", \"message\", \"next\"}}.";

#[derive(Debug, Parser)]
#[command(
    name = "fb",
    bin_name = "fb",
    version,
    about = "Shows and checks the contents of ROOT files; merges, joins, skims, clones and reshapes RNTuples; converts other formats to RNTuple",
    after_help = AFTER_HELP
)]
pub struct Cli {
    /// Print JSON
    #[arg(long, global = true, help_heading = GLOBAL, display_order = 1000)]
    pub json: bool,
    /// Print I/O statistics on standard error: bytes, requests, times, rates
    #[arg(long, global = true, help_heading = GLOBAL, display_order = 1001)]
    pub stats: bool,
    /// Report at the end what was read from which server, memory, and times: as text on standard error, or as JSON in
    /// a file with --report=json:PATH
    #[arg(
        long,
        global = true,
        value_name = "WHERE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1"
    )]
    pub report: Option<String>,
    /// Record each operation on a file in this file, for `fb replay`
    #[arg(long, global = true, value_name = "TRACE", value_hint = ValueHint::FilePath)]
    pub record: Option<String>,
    /// Setting for remote access, e.g. request_timeout=20; overrides environment variables and the settings file; may
    /// be repeated. Read tokens and keys from a file with bearer_token=@FILE
    #[arg(long, global = true, value_name = "NAME=VALUE", help_heading = GLOBAL, display_order = 1002)]
    pub set: Vec<String>,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List all objects in a file, or in a directory on a server (URL/): ntuples, trees, histograms, directories, with
    /// all cycles
    Ls(LsArgs),
    /// Show an ntuple's schema, sizes, compression, clusters and version
    Info(InfoArgs),
    /// Print the first entries
    Head(HeadArgs),
    /// Draw a histogram of a column, in the terminal or as a picture
    Hist(HistArgs),
    /// Show a file in the browser: schema, sizes, clusters and pages, histograms; ends with Ctrl-C
    View(ViewArgs),
    /// Read every page and compare every checksum; exit code 1 if anything is damaged
    Verify(VerifyArgs),
    /// Show the cost of a read without reading
    Explain(ExplainArgs),
    /// Show what an ntuple costs in an object store, as it is and with other sizes of objects: requests, storage, transfer
    Cost(CostArgs),
    /// Convert between ntuples, trees, Parquet and Arrow IPC, and check that nothing was lost
    Convert(ConvertArgs),
    /// Merge files into one by sharing or copying their pages
    Merge(MergeArgs),
    /// Join the fields of ntuples side by side, by entry number or by keys
    Join(JoinArgs),
    /// Copy a file with selected fields or entries, without decompressing pages
    Clone(CloneArgs),
    /// Copy a file with different pages, clusters, encodings, compression or precision
    Reshape(ReshapeArgs),
    /// Copy the entries that fulfil a condition
    Skim(SkimArgs),
    /// Move ntuples between files, servers and object stores, as they are or in another shape; resumable
    Migrate(MigrateArgs),
    /// Copy files byte for byte between any of: paths, root://, https://, s3://, gs://, az://
    Cp(CopyArgs),
    /// Delete ntuples as objects (ntpl+s3://…) or in DAOS
    Rm(RmArgs),
    /// Remove what killed writers left: temporary files in directories (.NAME.partial-PROCESS-NUMBER files that no
    /// process writes), objects, and values in DAOS
    Sweep(SweepArgs),
    /// Diagnose access to a file: addresses, TLS, login, latency, throughput; exit code 1 if a step fails
    Doctor(DoctorArgs),
    /// Repeat the reads of a trace that --record or XRootD's recorder wrote, with their timing, and compare
    Replay(ReplayArgs),
    /// Load HDF5 files, ntuples and trees into an event store, event by event
    Ingest(IngestArgs),
    /// Show the products that groups of HDF5 files become, and write a C++ header with their classes
    #[command(name = "hdf5-schema")]
    Hdf5Schema(Hdf5SchemaArgs),
    /// Write the events of an event store to a file, as an ntuple
    Export(ExportArgs),
    /// Event stores: list, delete and check their contents; start and stop a cluster of Redis servers on this machine
    #[command(subcommand)]
    Store(StoreAction),
    /// The cache of remote files, which the setting `cache` switches on: show, check and clear it
    #[command(subcommand)]
    Cache(CacheAction),
    /// Print the completion script for a shell
    #[command(alias = "completions")]
    Completion(CompletionArgs),
}

/// An option with named values.
fn choice<T: Choice>() -> impl TypedValueParser<Value = T> {
    let names = T::ALL.iter().map(|(name, _)| *name);
    PossibleValuesParser::new(names).try_map(|name| T::of(&name).ok_or("unknown name"))
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).ok_or_else(|| "expected a number of bytes, e.g. 64MiB".to_owned())
}

#[derive(Debug, Subcommand)]
pub enum CacheAction {
    /// Show how much of the directory is used
    Status(CacheFolderArgs),
    /// List the cached files
    Ls(CacheFolderArgs),
    /// Compare all held bytes with their checksums; exit code 1 if any are bad
    Verify(CacheFolderArgs),
    /// Keep files from being removed when room is needed; they still count for the limit
    Pin(CachePinArgs),
    /// Remove files, pinned ones too
    Clear(CacheFilesArgs),
    /// Merge small segments that ended processes have left, and make room down to the limit
    Prune(CacheFolderArgs),
}

#[derive(Debug, Args)]
pub struct CacheFolderArgs {
    /// The cache directory, with its maximum size [default: the setting cache, e.g. the variable FEMTOBARN_CACHE]
    #[arg(long, value_name = "DIR[:SIZE]", value_hint = ValueHint::DirPath)]
    pub dir: Option<String>,
}

#[derive(Debug, Args)]
pub struct CacheFilesArgs {
    /// URLs of files or of directories, their logical names, or patterns of these
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub files: Vec<String>,
    /// All files
    #[arg(long, conflicts_with = "files")]
    pub all: bool,
    #[command(flatten)]
    pub folder: CacheFolderArgs,
}

#[derive(Debug, Args)]
pub struct CachePinArgs {
    #[command(flatten)]
    pub files: CacheFilesArgs,
    /// Let them be removed again
    #[arg(long)]
    pub off: bool,
}

#[derive(Debug, Subcommand)]
pub enum StoreAction {
    /// Start the servers of a directory, creating it if needed; they run until `fb store down`
    Up(StoreUpArgs),
    /// Stop the servers of a directory; their data are kept
    Down(StorePathArgs),
    /// Show the state of the servers of a directory; exit code 1 if a server does not answer or part of the store is
    /// not served
    Status(StorePathArgs),
    /// List the datasets of a store, or the contents of one dataset: datasets, runs, subruns, events and products
    Ls(StoreLsArgs),
    /// Delete a dataset with all its contents, or one run, subrun or event (--run, --subrun, --event); prints what was
    /// deleted
    Rm(StoreRmArgs),
    /// Read everything in a store and report damage; exit code 1 if anything is damaged
    Verify(StoreVerifyArgs),
    /// Rewrite the file of a store in a directory to free the space of deleted data; no program may have the store open
    Compact(StoreCompactArgs),
    /// Delete orphans: objects of large products that no product refers to, left by crashes or deleted datasets
    Sweep(StoreSweepArgs),
    /// Record that the objects of a store's large products were moved, under the same names
    Moved(StoreMovedArgs),
    /// Forget the members of a class that no product uses any more, so that the class can be stored with other members
    ForgetClass(StoreForgetClassArgs),
}

#[derive(Debug, Args)]
pub struct StoreLsArgs {
    /// The store: dir:PATH, redis://HOST:PORT, or the path of a configuration file
    #[arg(value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub store: String,
    /// A dataset, e.g. fermilab/nova. Its events and products are counted, which reads the names of all products
    #[arg(value_name = "PATH")]
    pub path: Option<String>,
    #[command(flatten)]
    pub numbers: NumbersArgs,
    /// Show the size of each dataset in bytes: for Redis, its memory as estimated by the server; else, the keys and
    /// values of its products. Objects of large products are not counted
    #[arg(long, conflicts_with = "path")]
    pub sizes: bool,
}

/// Selects a container in a dataset.
#[derive(Debug, Args)]
pub struct NumbersArgs {
    /// Only this run of the dataset
    #[arg(long, value_name = "N", requires = "path")]
    pub run: Option<u64>,
    /// Only this subrun of the run
    #[arg(long, value_name = "N", requires = "run")]
    pub subrun: Option<u64>,
    /// Only this event of the subrun
    #[arg(long, value_name = "N", requires = "subrun")]
    pub event: Option<u64>,
}

#[derive(Debug, Args)]
pub struct StoreRmArgs {
    /// The store: dir:PATH, redis://HOST:PORT, or the path of a configuration file
    #[arg(value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub store: String,
    /// The dataset, e.g. fermilab/nova
    #[arg(value_name = "PATH")]
    pub path: String,
    #[command(flatten)]
    pub numbers: NumbersArgs,
    /// Delete only products with this label that belong to the dataset, run, subrun or event itself, not to its
    /// contents
    #[arg(long, value_name = "LABEL")]
    pub product: Option<String>,
    /// Delete only the product with this label and this type, as shown by `fb store ls`
    #[arg(long = "type", value_name = "NAME", requires = "product")]
    pub type_name: Option<String>,
    /// Delete the products with this label of all events in the dataset, run or subrun, but not its own products
    #[arg(long, requires = "product", conflicts_with = "event")]
    pub events: bool,
}

#[derive(Debug, Args)]
pub struct StoreVerifyArgs {
    /// The store: dir:PATH, redis://HOST:PORT, or the path of a configuration file
    #[arg(value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub store: String,
}

#[derive(Debug, Args)]
pub struct StoreCompactArgs {
    /// The store: dir:PATH, or the path of a configuration file
    #[arg(value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub store: String,
}

#[derive(Debug, Args)]
pub struct StoreSweepArgs {
    /// The store: its URL, or the path of a configuration file
    #[arg(value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub store: String,
    /// Minimum age in seconds of the objects to delete: a product may soon refer to a younger one [default: 3600]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub age: Option<f64>,
    /// Also delete data of datasets without a name; they remain if one program writes into a dataset while another
    /// deletes it. Scans the whole store. Do not use this after a cluster has lost servers: the names may be lost, not
    /// the datasets deleted
    #[arg(long)]
    pub nameless: bool,
}

#[derive(Debug, Args)]
pub struct StoreMovedArgs {
    /// The store: its URL, or the path of a configuration file
    #[arg(value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub store: String,
    /// The new location of its objects: a directory, or s3://bucket/prefix
    #[arg(value_name = "OBJECTS", value_hint = ValueHint::AnyPath)]
    pub objects: String,
}

#[derive(Debug, Args)]
pub struct StoreForgetClassArgs {
    /// The store: its URL, or the path of a configuration file
    #[arg(value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub store: String,
    /// The class, e.g. hep::Track
    #[arg(value_name = "CLASS")]
    pub class: String,
}

fn seconds(text: &str) -> Result<f64, String> {
    let found = text
        .parse()
        .ok()
        .filter(|age: &f64| (0.0..1e12).contains(age));
    found.ok_or_else(|| "expected a number of seconds".to_owned())
}

#[derive(Debug, Args)]
pub struct IngestArgs {
    /// The files, HDF5 and ROOT; * ? [] and ** are wildcards, also in quotes. Files that are already complete in the
    /// dataset are skipped
    #[arg(value_name = "FILE[:NAME]", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<String>,
    /// The store: dir:PATH, redis://HOST:PORT, or the path of a configuration file
    #[arg(long, value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub into: String,
    /// The dataset, e.g. fermilab/nova; created if it does not exist
    #[arg(long, value_name = "PATH")]
    pub dataset: String,
    #[command(flatten)]
    pub choice: ChoiceArgs,
    /// The ntuple or tree in ROOT files
    #[arg(long, value_name = "NAME")]
    pub tree: Option<String>,
    /// Source of the run number: a dataset of HDF5 files, or a field of ROOT files. For ROOT files also one number for
    /// all events [default: run]
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// Source of the subrun number, like --run [default: subrun in HDF5 files, luminosityBlock in ROOT files]
    #[arg(long, value_name = "NAME")]
    pub subrun: Option<String>,
    /// Source of the event number, like --run. For ROOT files, a number is the first event's and the others are counted
    /// from it [default: evt in HDF5 files, event in ROOT files]
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,
    /// Make one product of the fields of a collection, e.g. nMuon, Muon_pt and Muon_eta
    #[arg(long)]
    pub collections: bool,
    /// Number of processes that read [default: number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
    /// Action if a product already exists with another value
    #[arg(long, value_name = "WHAT", default_value = "raise", value_parser = choice::<OnConflict>())]
    pub on_conflict: OnConflict,
    /// Read files again that are already complete in the dataset
    #[arg(long)]
    pub again: bool,
}

/// Selects the parts of files that become products, and names their classes.
#[derive(Debug, Args)]
pub struct ChoiceArgs {
    /// Groups of HDF5 files, separated by commas; *, ? and [abc] are wildcards [default: all]
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub groups: Vec<String>,
    /// Datasets of HDF5 files, as GROUP/DATASET, and fields of ntuples and trees, separated by commas [default: all]
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub fields: Vec<String>,
    /// Groups and datasets of HDF5 files, e.g. '*/batch', and fields of ntuples and trees to leave out, separated by
    /// commas
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub drop: Vec<String>,
    /// Namespace for classes: of groups of HDF5 files, and prepended to classes of ROOT files, e.g. hep
    #[arg(long, value_name = "NAME", default_value = "")]
    pub namespace: String,
}

#[derive(Debug, Args)]
pub struct Hdf5SchemaArgs {
    /// The files. In several files, a group must have the same datasets wherever it has rows
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<String>,
    /// The C++ header to write
    #[arg(long, value_name = "HEADER", value_hint = ValueHint::FilePath)]
    pub cpp: Option<String>,
    #[command(flatten)]
    pub choice: ChoiceArgs,
    /// The dataset that holds the run number [default: run]
    #[arg(long, value_name = "DATASET")]
    pub run: Option<String>,
    /// The dataset that holds the subrun number [default: subrun]
    #[arg(long, value_name = "DATASET")]
    pub subrun: Option<String>,
    /// The dataset that holds the event number [default: evt]
    #[arg(long, value_name = "DATASET")]
    pub event: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "fb export [OPTIONS] --dataset <PATH> <STORE> -o <OUTPUT>\n       fb export [OPTIONS] --dataset <PATH> <STORE> <OUTPUT>"
)]
pub struct ExportArgs {
    /// The store: dir:PATH, redis://HOST:PORT, or the path of a configuration file. Without --output, the output follows
    #[arg(value_name = "STORE", required = true, num_args = 1..=2, value_hint = ValueHint::AnyPath)]
    pub names: Vec<String>,
    #[command(flatten)]
    pub output: OutputArg,
    /// The dataset in the store, e.g. fermilab/nova
    #[arg(long, value_name = "PATH")]
    pub dataset: String,
    /// Replace an existing file
    #[arg(short = 'f', long)]
    pub force: bool,
    /// Name of the new ntuple
    #[arg(long, default_value = "Events")]
    pub name: String,
    /// Labels of products, separated by commas; *, ? and [abc] are wildcards [default: all]
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub products: Vec<String>,
    /// Only events of these runs, separated by commas
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub runs: Vec<u64>,
    /// Type of columns for products that some events lack: optional, or list (with one value or none), which RDataFrame
    /// can read
    #[arg(long, default_value = "optional", value_parser = choice::<Missing>())]
    pub missing: Missing,
    /// Compression: zstd, lz4, zlib or lzma with a level, e.g. zstd:5; none; or a ROOT setting, e.g. 505
    #[arg(long, value_name = "CODEC[:LEVEL]", default_value = "zstd:5")]
    pub compression: String,
}

#[derive(Debug, Args)]
pub struct StorePathArgs {
    /// The directory
    #[arg(value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub path: String,
}

#[derive(Debug, Args)]
pub struct StoreUpArgs {
    /// The directory; programs connect through the store.json in it
    #[arg(value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub path: String,
    /// Number of servers that share the data [default: 3, or the directory's setting]
    #[arg(long, value_name = "N")]
    pub nodes: Option<usize>,
    /// Number of replicas of each server. Programs that connect through store.json then wait until the replicas have
    /// each write [default: 0, or the directory's setting]
    #[arg(long, value_name = "N")]
    pub replicas: Option<usize>,
    /// Memory limit of each server, e.g. 4GiB [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub memory: Option<u64>,
    /// When a server syncs its log to disk: after each change, each second, or when the operating system decides
    /// [default: everysec]
    #[arg(long, value_name = "WHEN", value_parser = ["always", "everysec", "no"])]
    pub fsync: Option<String>,
    /// The server program: Redis 7 or newer, or Valkey [default: redis-server, or the program that created the
    /// directory]
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub server: Option<String>,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// The files: URLs of any kind, or paths
    #[arg(value_name = "URL", required = true, value_hint = ValueHint::FilePath)]
    pub urls: Vec<String>,
    /// Maximum number of bytes to read when measuring throughput, e.g. 64MiB
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "64MiB")]
    pub bytes: u64,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "fb cp [OPTIONS] <FILE>... -o <DESTINATION>\n       fb cp [OPTIONS] <FILE>... <DESTINATION>"
)]
pub struct CopyArgs {
    /// The files. Without --output, the last name is the destination
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub names: Vec<String>,
    /// The copy, or a directory for copies (a URL of a directory ends with a slash)
    #[arg(short = 'o', long, value_name = "DESTINATION", value_hint = ValueHint::AnyPath)]
    pub output: Option<String>,
    /// Replace an existing file
    #[arg(short = 'f', long)]
    pub force: bool,
    /// Read the copy and compare it byte by byte; exit code 1 if it differs
    #[arg(long)]
    pub verify: bool,
}

#[derive(Debug, Args)]
pub struct LsArgs {
    /// The files
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<String>,
    /// List only ntuples
    #[arg(long)]
    pub rntuples: bool,
}

#[derive(Debug, Default, Args)]
pub struct InfoArgs {
    /// The files, and the ntuples in them
    #[arg(value_name = "FILE[:NAME]", required = true, value_hint = ValueHint::FilePath)]
    pub targets: Vec<String>,
    /// Show every field as stored, including items of collections and base classes
    #[arg(long)]
    pub all: bool,
    /// List every cluster
    #[arg(long)]
    pub clusters: bool,
}

#[derive(Debug, Args)]
pub struct HeadArgs {
    /// The file, and the ntuple in it
    #[arg(value_name = "FILE[:NAME]", value_hint = ValueHint::FilePath)]
    pub target: String,
    /// Fields as named by `fb info`, separated by spaces; *, ? and [abc] are wildcards [default: all]
    pub fields: Vec<String>,
    /// Number of entries
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub entries: u64,
    /// Only entries that fulfil this condition, e.g. 'nMuon >= 2'; @FILE reads it from a text file
    #[arg(long = "where", value_name = "EXPRESSION")]
    pub condition: Option<String>,
    /// Width of the table [default: width of the terminal]
    #[arg(long, value_name = "COLUMNS")]
    pub width: Option<usize>,
    #[command(flatten)]
    pub threads: Threads,
}

#[derive(Debug, Args)]
pub struct HistArgs {
    /// The files with an ntuple or a tree; * ? [] and ** are wildcards. Without COLUMN, a file with a histogram: FILE:NAME
    #[arg(value_name = "FILE[:NAME]", value_hint = ValueHint::FilePath)]
    pub target: String,
    /// The column, or an expression of columns, as 'Muon_pt' or 'sqrt(px**2 + py**2)'; lists count with all their values
    #[arg(value_name = "COLUMN", allow_hyphen_values = true)]
    pub values: Option<String>,
    /// Number of bins [default: 60, or one for each integer]
    #[arg(long, value_name = "N")]
    pub bins: Option<usize>,
    /// Limits of the axis [default: those of the values, which are read twice then]
    #[arg(long, value_name = "LOW:HIGH", allow_hyphen_values = true)]
    pub range: Option<String>,
    /// Entries to take, as a condition: 'nMuon >= 2 && Muon_pt[0] > 20'; @FILE reads it from a text file
    #[arg(long = "where", value_name = "CONDITION", allow_hyphen_values = true)]
    pub condition: Option<String>,
    /// Logarithmic contents
    #[arg(long)]
    pub log: bool,
    /// Write a picture, PATH.svg or PATH.png, or the histogram, PATH.root; an existing file is replaced
    #[arg(short = 'o', long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub output: Option<String>,
    /// Width of the drawing [default: width of the terminal]
    #[arg(long, value_name = "COLUMNS")]
    pub width: Option<usize>,
    #[command(flatten)]
    pub threads: Threads,
}

#[derive(Debug, Args)]
pub struct ViewArgs {
    /// The file, and the object to begin with
    #[arg(value_name = "FILE[:NAME]", value_hint = ValueHint::FilePath)]
    pub target: String,
    /// The port on this machine [default: any free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub port: u16,
    /// Open the page in the browser of the desktop
    #[arg(long)]
    pub browser: bool,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "fb verify [OPTIONS] <FILE[:NAME]>...\n       fb verify <OUTPUT[:NAME]> --against <INPUT[:NAME]>..."
)]
pub struct VerifyArgs {
    /// The files; with a name, check only this ntuple
    #[arg(value_name = "FILE[:NAME]", required = true, value_hint = ValueHint::FilePath)]
    pub targets: Vec<String>,
    /// Prove that the file before this option has the entries of these inputs, in their order: page by page where pages
    /// are equal, else value by value. Exit code 1 if anything differs
    #[arg(long, value_name = "FILE[:NAME]", num_args = 1.., value_hint = ValueHint::FilePath)]
    pub against: Vec<String>,
    /// Compare all values, also in pages that are equal
    #[arg(long)]
    pub values: bool,
    /// Range of entries that the output has of each input
    #[arg(long, value_name = "FIRST:END", conflicts_with = "condition")]
    pub entries: Option<String>,
    /// Condition that the entries of each input fulfil in the output; @FILE reads it from a text file
    #[arg(long = "where", value_name = "EXPRESSION")]
    pub condition: Option<String>,
    /// Compare only these top-level fields; *, ? and [abc] are wildcards. With --beside as in fb join, once per input
    #[arg(long, value_name = "PATTERN,…")]
    pub fields: Vec<String>,
    /// Prove that the file has the fields of all inputs side by side, as written by fb join
    #[arg(long)]
    pub beside: bool,
    /// With --beside: the key fields that match entries [default: match by entry number]
    #[arg(
        long,
        value_name = "FIELD,…",
        value_delimiter = ',',
        requires = "beside"
    )]
    pub on: Vec<String>,
    /// With --beside: treatment of entries of the first input that have no match in another input: error, or drop
    /// [default: error]
    #[arg(long, value_name = "WHAT", requires = "beside", value_parser = choice::<Unmatched>())]
    pub unmatched: Option<Unmatched>,
    /// First entry to compare; after an append, the number of entries before it [default: 0]
    #[arg(long, value_name = "ENTRY")]
    pub since: Option<u64>,
    #[command(flatten)]
    pub threads: Threads,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The file, and the ntuple in it
    #[arg(value_name = "FILE[:NAME]", value_hint = ValueHint::FilePath)]
    pub target: String,
    /// Fields as named by `fb info`, separated by spaces; *, ? and [abc] are wildcards [default: all]
    pub fields: Vec<String>,
    /// First entry; negative numbers count from the end
    #[arg(
        long,
        value_name = "ENTRY",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub entry_start: i64,
    /// Entry after the last; negative numbers count from the end [default: the end]
    #[arg(long, value_name = "ENTRY", allow_negative_numbers = true)]
    pub entry_stop: Option<i64>,
}

#[derive(Debug, Args)]
pub struct CostArgs {
    /// The file or the objects, and the ntuple in it
    #[arg(value_name = "FILE[:NAME]", value_hint = ValueHint::FilePath)]
    pub target: String,
    #[command(flatten)]
    pub pass: PassArgs,
}

/// What a pass reads, and prices.
#[derive(Debug, Default, PartialEq, Args)]
pub struct PassArgs {
    /// Fields that a pass reads, separated by commas; *, ? and [abc] are wildcards [default: all]
    #[arg(
        long,
        value_name = "FIELDS",
        value_delimiter = ',',
        conflicts_with = "trace"
    )]
    pub columns: Vec<String>,
    /// A recorded trace of the file (see --record): a pass reads what was read then
    #[arg(long, value_name = "TRACE", value_hint = ValueHint::FilePath)]
    pub trace: Option<String>,
    /// A TOML file with the prices [default: Amazon S3 in eu-west-3]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub prices: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "fb convert [OPTIONS] <FILE[:NAME]>... -o <OUTPUT>\n       fb convert [OPTIONS] <FILE[:NAME]>... <OUTPUT>"
)]
pub struct ConvertArgs {
    /// The files, and the ntuples or trees in them; * ? [] and ** (in URLs * [] and **) are wildcards, also in quotes.
    /// @LIST reads file names from a text file, one per line. Without --output, the last name is the output
    #[arg(value_name = "FILE[:NAME]", required = true, value_hint = ValueHint::FilePath)]
    pub names: Vec<String>,
    /// The output: a file whose ending selects the format (.root, .parquet, .arrow), or a directory (a name without an
    /// ending), which gets one file per input; or ntpl+s3://bucket/prefix for the objects of one ntuple, with a slash at the
    /// end for those of each. After the URL of objects or of a container of DAOS, :NAME is the name of the ntuple there
    #[arg(short = 'o', long, value_name = "OUTPUT", value_hint = ValueHint::AnyPath)]
    pub output: Option<String>,
    /// Replace existing outputs
    #[arg(short = 'f', long, conflicts_with = "resume")]
    pub force: bool,
    /// Convert only these fields, separated by commas; *, ? and [abc] are wildcards
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub fields: Vec<String>,
    /// Leave out these fields, separated by commas
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub drop: Vec<String>,
    /// Name of the new ntuple [default: name of the input]
    #[arg(long)]
    pub name: Option<String>,
    /// Compression: zstd, lz4, zlib or lzma with a level, e.g. zstd:5; none; or a ROOT setting, e.g. 505
    #[arg(long, value_name = "CODEC[:LEVEL]", default_value = "zstd:5")]
    pub compression: String,
    /// Compressed size of a cluster, e.g. 128MiB
    #[arg(long, value_name = "SIZE", default_value = "128MiB")]
    pub cluster_size: String,
    /// Size of objects, for an output ntpl+s3://…: page, cluster or bytes [default: 16MB]
    #[arg(long, value_name = "SIZE")]
    pub object_size: Option<String>,
    /// Combine arrays that share a counter into one collection, named after the common part of their names
    #[arg(long)]
    pub group: bool,
    /// Do not compare the output with the input after writing
    #[arg(long)]
    pub no_verify: bool,
    /// Format of the files in an output directory
    #[arg(long, value_name = "KIND", default_value = "root", value_parser = choice::<Format>())]
    pub format: Format,
    /// Number of files to convert at the same time; they share the threads
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// Skip files whose output exists and is not older than they are; replace older outputs
    #[arg(long)]
    pub resume: bool,
    /// Continue after files that cannot be converted, and write a JSON report of all files here
    #[arg(long, value_name = "REPORT", value_hint = ValueHint::FilePath)]
    pub skip_bad_files: Option<String>,
    #[command(flatten)]
    pub threads: Threads,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "fb merge [OPTIONS] -o <OUTPUT> <FILE[:NAME]>...\n       fb merge [OPTIONS] <OUTPUT> <FILE[:NAME]>..."
)]
pub struct MergeArgs {
    /// The files: all ntuples in them, or with a name only this one; * ? [] and ** (in URLs * [] and **) are wildcards,
    /// also in quotes. @LIST reads file names from a text file, one per line. Without --output, the first name is the
    /// output
    #[arg(value_name = "FILE[:NAME]", required = true, value_hint = ValueHint::FilePath)]
    pub names: Vec<String>,
    #[command(flatten)]
    pub output: OutputArg,
    /// Replace an existing output
    #[arg(short = 'f', long)]
    pub force: bool,
    /// Append the files to an existing output; create it if it does not exist
    #[arg(short = 'a', long, conflicts_with = "force")]
    pub append: bool,
    /// Treatment of pages: L0 shares the disk blocks of the inputs (blocks below 1 MiB are copied), L1 copies, L2
    /// recompresses, L3 re-encodes, L4 rebuilds pages and clusters; auto uses the cheapest level
    #[arg(long, value_name = "LEVEL", default_value = "auto", value_parser = choice::<Level>())]
    pub level: Level,
    /// Fields that each file must have: all fields of the first (filter), any (union), or the same fields (strict)
    #[arg(long, value_name = "MODE", default_value = "filter", value_parser = choice::<Mode>())]
    pub mode: Mode,
    /// Take only these top-level fields, separated by commas; *, ? and [abc] are wildcards
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub fields: Vec<String>,
    /// Compression of all pages: zstd, lz4, zlib or lzma with a level, e.g. zstd:5; none; or a ROOT setting, e.g. 505
    /// [default: unchanged]
    #[arg(long, value_name = "CODEC[:LEVEL]")]
    pub compression: Option<String>,
    #[command(flatten)]
    pub sizes: Sizes,
    /// Treatment of objects that are neither ntuples nor histograms (histograms are added): keep those that are the same
    /// in all files, and raise an error if some differ; take the first of each name; raise an error; or drop them
    #[arg(long, value_name = "WHAT", default_value = "same", value_parser = choice::<OtherObjects>())]
    pub others: OtherObjects,
    /// Keep pages of different encodings as additional column representations; ROOT before 6.42 and uproot cannot read
    /// these
    #[arg(long)]
    pub not_compatible: bool,
    /// Compare the output with the inputs before it appears, as `verify --against` does
    #[arg(long)]
    pub verify: bool,
    #[command(flatten)]
    pub threads: Threads,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "fb clone [OPTIONS] <FILE[:NAME]> -o <OUTPUT>\n       fb clone [OPTIONS] <FILE[:NAME]> <OUTPUT>"
)]
pub struct CloneArgs {
    /// The file to copy: all ntuples in it, or with a name only this one. Without --output, the output follows
    #[arg(value_name = "FILE[:NAME]", required = true, num_args = 1..=2, value_hint = ValueHint::FilePath)]
    pub names: Vec<String>,
    #[command(flatten)]
    pub output: OutputArg,
    /// Range of entries to take from each ntuple; the end is exclusive, negative numbers count from the end, and either
    /// may be left out [default: all]
    #[arg(long, value_name = "FIRST:END", allow_hyphen_values = true)]
    pub entries: Option<String>,
    /// Treatment of pages, as in fb merge; clusters that --entries cuts are rebuilt
    #[arg(long, value_name = "LEVEL", default_value = "auto", value_parser = choice::<Level>())]
    pub level: Level,
    #[command(flatten)]
    pub copying: Copying,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "fb join [OPTIONS] -o <OUTPUT> <FILE[:NAME]>...\n       fb join [OPTIONS] <OUTPUT> <FILE[:NAME]>..."
)]
pub struct JoinArgs {
    /// The ntuples, two or more. Without --output, the first name is the output
    #[arg(value_name = "FILE[:NAME]", required = true, value_hint = ValueHint::FilePath)]
    pub names: Vec<String>,
    #[command(flatten)]
    pub output: OutputArg,
    /// Replace an existing output
    #[arg(short = 'f', long)]
    pub force: bool,
    /// Integer fields that match entries, e.g. run,luminosityBlock,event [default: match by entry number]
    #[arg(long, value_name = "FIELD,…", value_delimiter = ',')]
    pub on: Vec<String>,
    /// Treatment of entries of the first ntuple that have no match in another ntuple: raise an error, or drop them
    #[arg(long, value_name = "WHAT", default_value = "error", value_parser = choice::<Unmatched>())]
    pub unmatched: Unmatched,
    /// Take only these top-level fields of the first ntuple; repeat the option for the second and each further ntuple.
    /// *, ? and [abc] are wildcards
    #[arg(long, value_name = "PATTERN,…")]
    pub fields: Vec<String>,
    /// Treatment of attribute sets that two ntuples have, and of objects in files given without an ntuple: keep those that
    /// are the same in all files, and raise an error if some differ; take the first of each name; raise an error; or drop
    /// them (and all attribute sets)
    #[arg(long, value_name = "WHAT", default_value = "same", value_parser = choice::<OtherObjects>())]
    pub others: OtherObjects,
    /// Name of the new ntuple [default: name of the first]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Compare the output with the inputs before it appears, as `verify --against … --beside` does
    #[arg(long)]
    pub verify: bool,
    /// Compression of all pages: zstd, lz4, zlib or lzma with a level, e.g. zstd:5; none; or a ROOT setting, e.g. 505
    /// [default: unchanged]
    #[arg(long, value_name = "CODEC[:LEVEL]")]
    pub compression: Option<String>,
    #[command(flatten)]
    pub threads: Threads,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "fb reshape [OPTIONS] <FILE[:NAME]> -o <OUTPUT>\n       fb reshape [OPTIONS] <FILE[:NAME]> <OUTPUT>"
)]
pub struct ReshapeArgs {
    /// The file to copy: all ntuples in it, or with a name only this one. Without --output, the output follows
    #[arg(value_name = "FILE[:NAME]", required = true, num_args = 1..=2, value_hint = ValueHint::FilePath)]
    pub names: Vec<String>,
    #[command(flatten)]
    pub output: OutputArg,
    /// Compression of all pages: zstd, lz4, zlib or lzma with a level, e.g. zstd:5; none; or a ROOT setting, e.g. 505
    /// [default: unchanged]
    #[arg(long, value_name = "CODEC[:LEVEL]")]
    pub compression: Option<String>,
    #[command(flatten)]
    pub sizes: Sizes,
    /// Encoding of numbers and offsets: split (separated bytes, offsets as differences), which compresses better; or
    /// plain, as in memory [default: unchanged]
    #[arg(long, value_name = "ENCODING", value_parser = ["split", "plain"])]
    pub encoding: Option<String>,
    /// Precision of floats: the number of bits, or the number of bits for a fraction of a range; *, ? and [abc] are wildcards
    /// in names. May be repeated
    #[arg(
        long,
        value_name = "NAME=BITS[:MIN:MAX],…",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub precision: Vec<String>,
    #[command(flatten)]
    pub copying: Copying,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "fb skim [OPTIONS] --where <CONDITION> <FILE[:NAME]>... -o <OUTPUT>\n       fb skim [OPTIONS] --where <CONDITION> <FILE[:NAME]>... <OUTPUT>"
)]
pub struct SkimArgs {
    /// The files: all ntuples in them, or with a name only this one; * ? [] and ** (in URLs * [] and **) are wildcards,
    /// also in quotes. @LIST reads file names from a text file, one per line. Without --output, the last name is the
    /// output
    #[arg(value_name = "FILE[:NAME]", required = true, value_hint = ValueHint::FilePath)]
    pub names: Vec<String>,
    #[command(flatten)]
    pub output: OutputArg,
    /// Entries to take, as a condition in C++ or Python syntax: 'nMuon >= 2 && Muon_pt[0] > 20', 'any(Jet_pt > 30)';
    /// @FILE reads it from a text file
    #[arg(long = "where", value_name = "CONDITION", allow_hyphen_values = true)]
    pub condition: String,
    /// Compression of all pages: zstd, lz4, zlib or lzma with a level, e.g. zstd:5; none; or a ROOT setting, e.g. 505
    /// [default: unchanged]
    #[arg(long, value_name = "CODEC[:LEVEL]")]
    pub compression: Option<String>,
    #[command(flatten)]
    pub sizes: Sizes,
    #[command(flatten)]
    pub copying: Copying,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "fb migrate [OPTIONS] <SOURCE[:NAME]>... -o <DESTINATION>\n       fb migrate [OPTIONS] <SOURCE[:NAME]>... <DESTINATION>"
)]
pub struct MigrateArgs {
    /// The files or objects: all ntuples in them, or with a name only this one; * ? [] and ** (in URLs * [] and **) are
    /// wildcards, also in quotes. @LIST reads names from a text file, one per line. Without --output, the last name is the
    /// destination
    #[arg(value_name = "SOURCE[:NAME]", required = true, value_hint = ValueHint::FilePath)]
    pub names: Vec<String>,
    /// The output: a file, or ntpl+s3://bucket/prefix for the objects of one ntuple; with a slash at the end (or an existing
    /// directory), a file for each source or objects for each ntuple. After the URL of objects or of a container of DAOS,
    /// :NAME is the name of the ntuple there
    #[arg(short = 'o', long, value_name = "DESTINATION", value_hint = ValueHint::AnyPath)]
    pub output: Option<String>,
    /// Take only these top-level fields, separated by commas; *, ? and [abc] are wildcards
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub fields: Vec<String>,
    /// Range of entries to take from one ntuple; the end is exclusive, negative numbers count from the end, and either may
    /// be left out [default: all]
    #[arg(long, value_name = "FIRST:END", allow_hyphen_values = true)]
    pub entries: Option<String>,
    /// Compression of all pages: zstd, lz4, zlib or lzma with a level, e.g. zstd:5; none; or a ROOT setting, e.g. 505
    /// [default: unchanged]
    #[arg(long, value_name = "CODEC[:LEVEL]")]
    pub compression: Option<String>,
    #[command(flatten)]
    pub sizes: Sizes,
    /// Read each output before it appears, and compare it with its sources
    #[arg(long)]
    pub verify: bool,
    /// Continue outputs that a killed or failed migration has begun with the same options, and skip those that it has
    /// completed
    #[arg(long)]
    pub resume: bool,
    /// Replace existing outputs
    #[arg(short = 'f', long)]
    pub force: bool,
    /// Stored size after which an output can be continued [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    pub step_size: Option<String>,
    /// Number of threads [default: the variable FEMTOBARN_THREADS, or else one per core]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Only print which codec and sizes suit the destination, and what they are expected to cost
    #[arg(long, conflicts_with_all = [
        "entries", "compression", "cluster_size", "page_size", "object_size", "verify", "resume", "force", "step_size",
    ])]
    pub advise: bool,
    #[command(flatten)]
    pub advice: AdviceArgs,
}

/// What passes at the destination are like.
#[derive(Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Options of --advise")]
pub struct AdviceArgs {
    #[command(flatten)]
    pub pass: PassArgs,
    /// Time in seconds until a request gets its first byte [default: 0.02; 0.0001 for file systems and DAOS]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub round_trip: Option<f64>,
    /// Bytes per second of all requests together [default: 1GB]
    #[arg(long, value_name = "SIZE")]
    pub bandwidth: Option<String>,
    /// Number of processes that share a pass; each needs a cluster [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub workers: Option<u64>,
}

/// Says which name is the output, whatever its position.
#[derive(Debug, Args)]
pub struct OutputArg {
    /// The output file; or ntpl+s3://bucket/prefix for the objects of one ntuple. After the URL of objects or of a container of
    /// DAOS, :NAME is the name of the ntuple there
    #[arg(short = 'o', long = "output", value_name = "OUTPUT", value_hint = ValueHint::FilePath)]
    pub path: Option<String>,
}

/// Options that clone, reshape and skim share.
#[derive(Debug, Args)]
pub struct Copying {
    /// Compare the output with the source before it appears
    #[arg(long)]
    pub verify: bool,
    /// Replace an existing output
    #[arg(short = 'f', long)]
    pub force: bool,
    /// Take only these top-level fields, separated by commas; *, ? and [abc] are wildcards
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub fields: Vec<String>,
    /// Treatment of objects that are neither ntuples nor histograms (histograms are added): keep those that are the same
    /// in all files, and raise an error if some differ; take the first of each name; raise an error; or drop them
    #[arg(long, value_name = "WHAT", default_value = "same", value_parser = choice::<OtherObjects>())]
    pub others: OtherObjects,
    #[command(flatten)]
    pub threads: Threads,
}

/// Sizes of new clusters and pages.
#[derive(Debug, Default, Args)]
pub struct Sizes {
    /// Approximate compressed size of new clusters [default: 128MiB]
    #[arg(long, value_name = "SIZE")]
    pub cluster_size: Option<String>,
    /// Maximum uncompressed size of new pages [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    pub page_size: Option<String>,
    /// Size of objects, for an output ntpl+s3://…: page, cluster or bytes [default: 16MB]
    #[arg(long, value_name = "SIZE")]
    pub object_size: Option<String>,
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The trace; - is standard input
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    pub trace: String,
    /// Replace a part of the URLs, e.g. root://a//store/:=/data/; may be repeated
    #[arg(long, value_name = "OLD:=NEW")]
    pub replace: Vec<String>,
    /// How many times as fast as recorded; max waits for nothing but answers
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    pub speed: Speed,
    /// Only check that the files exist that are read, and are large enough; exit code 1 if one does not
    #[arg(long, conflicts_with_all = ["create", "print"])]
    pub verify: bool,
    /// Only create the missing files that are read, with the needed sizes
    #[arg(long, conflicts_with = "print")]
    pub create: bool,
    /// Only show what was recorded
    #[arg(long)]
    pub print: bool,
    /// Draw positions in the files and rates against time, as SVG
    #[arg(long, value_name = "PATH", conflicts_with_all = ["verify", "create"], value_hint = ValueHint::FilePath)]
    pub figure: Option<String>,
}

/// A factor above 0, or none for `max`.
fn speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed(None));
    }
    let found = text
        .parse()
        .ok()
        .filter(|speed: &f64| (1e-6..1e9).contains(speed));
    match found {
        Some(speed) => Ok(Speed(Some(speed))),
        None => Err("expected a number above 0, or max".to_owned()),
    }
}

/// How fast a trace is replayed; none for as fast as possible.
#[derive(Debug, Clone, Copy)]
pub struct Speed(pub Option<f64>);

#[derive(Debug, Args)]
pub struct RmArgs {
    /// The ntuples: ntpl+s3://bucket/prefix, also as a pattern, or daos://POOL/CONTAINER:NAME
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,
}

#[derive(Debug, Args)]
pub struct SweepArgs {
    /// The directories; subdirectories are not searched. Or URLs of ntuples as objects, ntpl+s3://bucket/prefix, or of
    /// containers, daos://POOL/CONTAINER
    #[arg(value_name = "DIRECTORY", required = true, value_hint = ValueHint::DirPath)]
    pub folders: Vec<String>,
    /// Minimum age in seconds of objects to delete: the writer of younger ones may still be working [default: 86400]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub age: Option<f64>,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Default, Args)]
pub struct Threads {
    /// Number of threads [default: the variable FEMTOBARN_THREADS, or else one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

impl Threads {
    const VARIABLE: &str = "FEMTOBARN_THREADS";

    /// The number from the option, else from the environment variable, else the number of cores.
    pub fn number(&self) -> Result<usize, Failure> {
        if let Some(n) = self.threads {
            return Ok(usize::from(n));
        }
        let variable = std::env::var(Self::VARIABLE).unwrap_or_default();
        match variable.trim() {
            "" => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
            text => text.parse().ok().filter(|&n| n > 0).ok_or_else(|| {
                let message = format!(
                    "invalid {} {text:?}: expected a number of threads, 1 or more",
                    Self::VARIABLE
                );
                Failure::new(code::USAGE, "usage", message)
            }),
        }
    }
}
