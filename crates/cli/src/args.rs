//! The command line.

use clap::{Args, Parser, Subcommand, ValueHint};

use crate::failure::{Failure, code};
use crate::units::parse_bytes;

/// Printed below `fb --help`.
const AFTER_HELP: &str = "\
An ntuple is named FILE:NAME, NAME being its path in the file, with a cycle if wanted: data.root:dir/Events;2. \
A file that holds one ntuple needs no NAME.

ls, info and verify take any number of files, and patterns (* ? [] **), also in quotes. Where files are brought together, @LIST is the files that a text file names, one a line. What is wrong with one is said, and the others are still done; the exit \
code is then 1 if any is damaged, else the highest. --json prints one document for each, also for what is wrong.

Exit codes:
  0  fine
  1  the data are bad: verify found damage, or values that are not those of the inputs; or doctor or store found what fails
  2  wrong usage: what was asked for makes no sense, or the files do not go together
  3  the file, the object or the field is not there, or cannot be read or written
  4  the file is corrupt, or of a kind that this version does not read
  130  ended with Ctrl-C

Errors are on standard error: `fb: message`, and with --json {\"error\": {\"kind\", \"message\", \"next\"}}.";

#[derive(Debug, Parser)]
#[command(
    name = "fb",
    bin_name = "fb",
    version,
    about = "Shows and checks what is in ROOT files; merges, joins, skims, clones and reshapes RNTuples, and converts into them",
    after_help = AFTER_HELP
)]
pub struct Cli {
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Say on standard error what was read: bytes, requests, times, rates
    #[arg(long, global = true)]
    pub stats: bool,
    /// A setting of how servers are asked, as request_timeout=20, before those of environment and file; may be given several times; tokens and keys as bearer_token=@FILE
    #[arg(long, global = true, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List everything in a file, or in a folder of a server (URL/): ntuples, trees, histograms, directories, with all cycles
    Ls(LsArgs),
    /// Show an ntuple's schema, sizes, compression, clusters and version
    Info(InfoArgs),
    /// Print the first entries
    Head(HeadArgs),
    /// Read every page and compare every checksum; exit code 1 if anything is damaged
    Verify(VerifyArgs),
    /// Show what a read would cost, without reading
    Explain(ExplainArgs),
    /// Convert ntuples, trees, Parquet and Arrow IPC into each other, and prove that nothing was lost
    Convert(ConvertArgs),
    /// Merge files into one, sharing or copying their pages
    Merge(MergeArgs),
    /// Put the fields of ntuples side by side, by the numbers of their entries or by keys
    Join(JoinArgs),
    /// Copy a file with some of its fields or entries, without decompressing pages
    Clone(CloneArgs),
    /// Copy a file with other pages, clusters, encodings, compression or precision
    Reshape(ReshapeArgs),
    /// Copy the entries of which a condition is true
    Skim(SkimArgs),
    /// Copy files from anywhere to anywhere, byte for byte: paths, root://, https://, s3://, gs://, az://
    Cp(CopyArgs),
    /// Remove what writers that were killed have left in folders: files .NAME.partial-PROCESS-NUMBER that no process writes
    Sweep(SweepArgs),
    /// Look at each step of the way to a file: addresses, TLS, login, latency, throughput; exit code 1 if one fails
    Doctor(DoctorArgs),
    /// Bring HDF5 files, ntuples and trees into an event store, event by event
    Ingest(IngestArgs),
    /// Show what products the groups of HDF5 files become, and write a header of C++ with their classes
    #[command(name = "hdf5-schema")]
    Hdf5Schema(Hdf5SchemaArgs),
    /// Write the events of an event store into a file, as an ntuple
    Export(ExportArgs),
    /// Event stores: list, delete and check what is in them; start and end a cluster of Redis servers on this machine
    #[command(subcommand)]
    Store(StoreAction),
    /// Print the completion script of a shell
    #[command(alias = "completions")]
    Completion(CompletionArgs),
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).ok_or_else(|| "a number of bytes, as 64MiB".to_owned())
}

#[derive(Debug, Subcommand)]
pub enum StoreAction {
    /// Start the servers in a folder, which is made if it is not there; they go on until `fb store down`
    Up(StoreUpArgs),
    /// End the servers in a folder; their data stay
    Down(StorePathArgs),
    /// Show what the servers in a folder do; exit code 1 if one does not answer, or not all of the store is served
    Status(StorePathArgs),
    /// List the datasets of a store; or what is in one of them: datasets, runs, subruns, events and products
    Ls(StoreLsArgs),
    /// Delete a dataset, or with --run, --subrun and --event one of those, with all that is in it; says what that was
    Rm(StoreRmArgs),
    /// Read everything in a store, and say what is damaged; exit code 1 if something is
    Verify(StoreVerifyArgs),
    /// Write the file of a store in a folder anew, without the room of what was deleted; nobody may have it open
    Compact(StoreCompactArgs),
    /// Delete objects beside a store that no product refers to, as crashes leave them, or what is left of deleted datasets
    Sweep(StoreSweepArgs),
    /// Say that the objects beside a store were moved to another place, with their names
    Moved(StoreMovedArgs),
    /// Forget which members a class has that no product is of any more, so that it may get others
    ForgetClass(StoreForgetClassArgs),
}

#[derive(Debug, Args)]
pub struct StoreLsArgs {
    /// The store: dir:PATH, redis://HOST:PORT, or the path of a configuration
    #[arg(value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub store: String,
    /// A dataset in it, as fermilab/nova: its events and products are counted, which reads the names of all products
    #[arg(value_name = "PATH")]
    pub path: Option<String>,
    #[command(flatten)]
    pub numbers: NumbersArgs,
    /// How many bytes each dataset takes: of a Redis, the memory as it estimates it; of others, the keys and values of the
    /// products. Large products beside the store do not count
    #[arg(long, conflicts_with = "path")]
    pub sizes: bool,
}

/// Which of the containers in a dataset is meant.
#[derive(Debug, Args)]
pub struct NumbersArgs {
    /// Of the dataset, this run only
    #[arg(long, value_name = "N", requires = "path")]
    pub run: Option<u64>,
    /// Of the run, this subrun only
    #[arg(long, value_name = "N", requires = "run")]
    pub subrun: Option<u64>,
    /// Of the subrun, this event only
    #[arg(long, value_name = "N", requires = "subrun")]
    pub event: Option<u64>,
}

#[derive(Debug, Args)]
pub struct StoreRmArgs {
    /// The store: dir:PATH, redis://HOST:PORT, or the path of a configuration
    #[arg(value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub store: String,
    /// The dataset in it, as fermilab/nova
    #[arg(value_name = "PATH")]
    pub path: String,
    #[command(flatten)]
    pub numbers: NumbersArgs,
    /// Only its products of this label: those of the dataset, run, subrun or event itself, not of what is in it
    #[arg(long, value_name = "LABEL")]
    pub product: Option<String>,
    /// Of the products of this label, only the one of this type, as `fb store ls` shows it
    #[arg(long = "type", value_name = "NAME", requires = "product")]
    pub type_name: Option<String>,
    /// The products of this label of all events in the dataset, run or subrun, and not its own
    #[arg(long, requires = "product", conflicts_with = "event")]
    pub events: bool,
}

#[derive(Debug, Args)]
pub struct StoreVerifyArgs {
    /// The store: dir:PATH, redis://HOST:PORT, or the path of a configuration
    #[arg(value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub store: String,
}

#[derive(Debug, Args)]
pub struct StoreCompactArgs {
    /// The store: dir:PATH, or its configuration
    #[arg(value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub store: String,
}

#[derive(Debug, Args)]
pub struct StoreSweepArgs {
    /// The store: its URL, or its configuration
    #[arg(value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub store: String,
    /// Seconds that an object must have been there: younger ones may be about to be referred to [default: 3600]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub age: Option<f64>,
    /// Also remove what is left of datasets that have no name, as whoever wrote while others deleted them leaves it: looks
    /// through the whole store. Not after servers of a cluster were lost: the names may be what is missing
    #[arg(long)]
    pub nameless: bool,
}

#[derive(Debug, Args)]
pub struct StoreMovedArgs {
    /// The store: its URL, or its configuration
    #[arg(value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub store: String,
    /// Where its objects are now: a folder, or s3://bucket/prefix
    #[arg(value_name = "OBJECTS", value_hint = ValueHint::AnyPath)]
    pub objects: String,
}

#[derive(Debug, Args)]
pub struct StoreForgetClassArgs {
    /// The store: its URL, or its configuration
    #[arg(value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub store: String,
    /// The class, as hep::Track
    #[arg(value_name = "CLASS")]
    pub class: String,
}

fn seconds(text: &str) -> Result<f64, String> {
    let found = text
        .parse()
        .ok()
        .filter(|age: &f64| (0.0..1e12).contains(age));
    found.ok_or_else(|| "a number of seconds".to_owned())
}

#[derive(Debug, Args)]
pub struct IngestArgs {
    /// The files, HDF5 and ROOT; * ? [] and ** stand for any characters, also in quotes. One that is wholly in the dataset is not read
    /// again
    #[arg(value_name = "FILE[:NAME]", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<String>,
    /// The store: dir:PATH, redis://HOST:PORT, or the path of a configuration
    #[arg(long, value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub into: String,
    /// The dataset in it, as fermilab/nova, which is made if it is not there
    #[arg(long, value_name = "PATH")]
    pub dataset: String,
    #[command(flatten)]
    pub choice: ChoiceArgs,
    /// The ntuple or tree in ROOT files
    #[arg(long, value_name = "NAME")]
    pub tree: Option<String>,
    /// What has the number of the run: a dataset of HDF5 files or a field of ROOT files, of these also a number for all events
    /// [default: run]
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// What has the number of the subrun, likewise [default: subrun in HDF5 files, luminosityBlock in ROOT files]
    #[arg(long, value_name = "NAME")]
    pub subrun: Option<String>,
    /// What has the number of the event; of ROOT files also the number of the first, from which on they are counted [default: evt
    /// in HDF5 files, event in ROOT files]
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,
    /// Make one product of the fields of a collection, as nMuon, Muon_pt and Muon_eta
    #[arg(long)]
    pub collections: bool,
    /// Processes that read [default: as many as there are processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
    /// What is done if a product is there already with another value
    #[arg(long, value_name = "WHAT", default_value = "raise", value_parser = ["raise", "keep", "replace"])]
    pub on_conflict: String,
    /// Read files that are wholly in the dataset, too
    #[arg(long)]
    pub again: bool,
}

/// What of files becomes products, and of which classes.
#[derive(Debug, Args)]
pub struct ChoiceArgs {
    /// Groups of HDF5 files, with commas between them; * and ? stand for any characters [default: all]
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub groups: Vec<String>,
    /// Datasets of HDF5 files, as GROUP/DATASET, and fields of ntuples and trees [default: all]
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub fields: Vec<String>,
    /// Groups and datasets of HDF5 files, as '*/batch', and fields of ntuples and trees that are left out
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub drop: Vec<String>,
    /// The namespace of the classes that groups of HDF5 files become, and into which those of ROOT files are put, as hep
    #[arg(long, value_name = "NAME", default_value = "")]
    pub namespace: String,
}

#[derive(Debug, Args)]
pub struct Hdf5SchemaArgs {
    /// The files; of several, a group must have the same datasets in all that have rows of it
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<String>,
    /// The header of C++ to write
    #[arg(long, value_name = "HEADER", value_hint = ValueHint::FilePath)]
    pub cpp: Option<String>,
    #[command(flatten)]
    pub choice: ChoiceArgs,
    /// The dataset with the number of the run [default: run]
    #[arg(long, value_name = "DATASET")]
    pub run: Option<String>,
    /// The dataset with the number of the subrun [default: subrun]
    #[arg(long, value_name = "DATASET")]
    pub subrun: Option<String>,
    /// The dataset with the number of the event [default: evt]
    #[arg(long, value_name = "DATASET")]
    pub event: Option<String>,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The store: dir:PATH, redis://HOST:PORT, or the path of a configuration
    #[arg(value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub store: String,
    /// The file to make
    #[arg(value_name = "OUTPUT", value_hint = ValueHint::FilePath)]
    pub output: String,
    /// The dataset in the store, as fermilab/nova
    #[arg(long, value_name = "PATH")]
    pub dataset: String,
    /// Replace a file that is there already
    #[arg(short = 'f', long)]
    pub force: bool,
    /// Name of the ntuple that is made
    #[arg(long, default_value = "Events")]
    pub name: String,
    /// Labels of products, with commas between them; * and ? stand for any characters [default: all]
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub products: Vec<String>,
    /// Events of these runs only, with commas between them
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub runs: Vec<u64>,
    /// What columns of products are that not all events have: optional, or list, of one value or none, which RDataFrame reads
    #[arg(long, default_value = "optional", value_parser = ["optional", "list"])]
    pub missing: String,
    /// Compression: zstd, lz4, zlib or lzma with a level, as zstd:5, none, or a number of ROOT's, as 505
    #[arg(long, value_name = "CODEC[:LEVEL]", default_value = "zstd:5")]
    pub compression: String,
}

#[derive(Debug, Args)]
pub struct StorePathArgs {
    /// The folder
    #[arg(value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub path: String,
}

#[derive(Debug, Args)]
pub struct StoreUpArgs {
    /// The folder; its store.json is what programs connect by
    #[arg(value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub path: String,
    /// Servers among which the data are spread [default: 3, or as the folder has them]
    #[arg(long, value_name = "N")]
    pub nodes: Option<usize>,
    /// Further servers for each of them that have the same data; programs that connect by store.json then wait until these
    /// have what is written [default: 0, or as the folder has them]
    #[arg(long, value_name = "N")]
    pub replicas: Option<usize>,
    /// Memory that each server may use, as 4GiB [default: as much as there is]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub memory: Option<u64>,
    /// When a server has its log written to the disk: after each change, each second, or when the system likes [default: everysec]
    #[arg(long, value_name = "WHEN", value_parser = ["always", "everysec", "no"])]
    pub fsync: Option<String>,
    /// The program of the servers, of Redis 7 or newer or of Valkey [default: redis-server, or that which the folder was made with]
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub server: Option<String>,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// The files: URLs of any kind, or paths
    #[arg(value_name = "URL", required = true, value_hint = ValueHint::FilePath)]
    pub urls: Vec<String>,
    /// Bytes that are read at most to measure the throughput, as 64MiB
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "64MiB")]
    pub bytes: u64,
}

#[derive(Debug, Args)]
pub struct CopyArgs {
    /// The files
    #[arg(value_name = "FILE", required = true, num_args = 1.., value_hint = ValueHint::FilePath)]
    pub sources: Vec<String>,
    /// The copy, or a folder for copies (of a URL: with a slash at the end)
    #[arg(value_name = "DESTINATION", value_hint = ValueHint::AnyPath)]
    pub destination: String,
    /// Replace a file that is there already
    #[arg(short = 'f', long)]
    pub force: bool,
    /// Read the copy, and compare it byte by byte; exit code 1 if it is another file
    #[arg(long)]
    pub verify: bool,
}

#[derive(Debug, Args)]
pub struct LsArgs {
    /// The files
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<String>,
    /// Only ntuples
    #[arg(long)]
    pub rntuples: bool,
}

#[derive(Debug, Args)]
pub struct InfoArgs {
    /// The files and the ntuples in them
    #[arg(value_name = "FILE[:NAME]", required = true, value_hint = ValueHint::FilePath)]
    pub targets: Vec<String>,
    /// Show every field as it is stored, items of collections and base classes included
    #[arg(long)]
    pub all: bool,
    /// List every cluster
    #[arg(long)]
    pub clusters: bool,
}

#[derive(Debug, Args)]
pub struct HeadArgs {
    /// The file and the ntuple in it
    #[arg(value_name = "FILE[:NAME]", value_hint = ValueHint::FilePath)]
    pub target: String,
    /// Fields, as `fb info` names them, with spaces between them; * and ? stand for any characters [default: all]
    pub fields: Vec<String>,
    /// Number of entries
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub entries: u64,
    /// Width of the table [default: the terminal's]
    #[arg(long, value_name = "COLUMNS")]
    pub width: Option<usize>,
    #[command(flatten)]
    pub threads: Threads,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "fb verify [OPTIONS] <FILE[:NAME]>...\n       fb verify <OUTPUT[:NAME]> --against <INPUT[:NAME]>..."
)]
pub struct VerifyArgs {
    /// The files; with a name, only that ntuple
    #[arg(value_name = "FILE[:NAME]", required = true, value_hint = ValueHint::FilePath)]
    pub targets: Vec<String>,
    /// Behind the name of the file: prove that it has the entries of these, one after another: page by page where they are the same, else value by
    /// value; exit code 1 if anything differs
    #[arg(long, value_name = "FILE[:NAME]", num_args = 1.., value_hint = ValueHint::FilePath)]
    pub against: Vec<String>,
    /// Compare all values, also of pages that are the same
    #[arg(long)]
    pub values: bool,
    /// The entries of each of them that are to be there
    #[arg(long, value_name = "FIRST:END", conflicts_with = "condition")]
    pub entries: Option<String>,
    /// Of each of them, the entries of which this is true
    #[arg(long = "where", value_name = "EXPRESSION")]
    pub condition: Option<String>,
    /// Compare these top-level fields only; * and ? stand for any characters; with --beside as in fb join, once for each input
    #[arg(long, value_name = "PATTERN,…")]
    pub fields: Vec<String>,
    /// Prove instead that it has the fields of all of them side by side, as fb join makes it
    #[arg(long)]
    pub beside: bool,
    /// With --beside, the fields that say which entries belong together [default: entries of the same number do]
    #[arg(
        long,
        value_name = "FIELD,…",
        value_delimiter = ',',
        requires = "beside"
    )]
    pub on: Vec<String>,
    /// With --beside, what became of entries of the first input that another one does not have: error, or drop [default: error]
    #[arg(long, value_name = "WHAT", requires = "beside", value_parser = ["error", "drop"])]
    pub unmatched: Option<String>,
    /// The first entry that is of them, as of an append the number of entries before [default: 0]
    #[arg(long, value_name = "ENTRY")]
    pub since: Option<u64>,
    #[command(flatten)]
    pub threads: Threads,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The file and the ntuple in it
    #[arg(value_name = "FILE[:NAME]", value_hint = ValueHint::FilePath)]
    pub target: String,
    /// Fields, as `fb info` names them, with spaces between them; * and ? stand for any characters [default: all]
    pub fields: Vec<String>,
    /// First entry; negative numbers count from the end
    #[arg(
        long,
        value_name = "ENTRY",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub entry_start: i64,
    /// The entry after the last, likewise [default: the end]
    #[arg(long, value_name = "ENTRY", allow_negative_numbers = true)]
    pub entry_stop: Option<i64>,
}

#[derive(Debug, Args)]
#[command(override_usage = "fb convert [OPTIONS] <FILE[:NAME]>... <OUTPUT>")]
pub struct ConvertArgs {
    /// The files, and the ntuples or trees in them; * ? [] and ** (in URLs * [] and **) stand for any characters, also in quotes. The last name is
    /// the output: a file, whose ending says what it is (.root, .parquet, .arrow), or a folder (a name without an ending) for a file of each
    #[arg(value_name = "FILE[:NAME]… OUTPUT", required = true, value_hint = ValueHint::FilePath)]
    pub names: Vec<String>,
    /// Replace outputs that are there already
    #[arg(short = 'f', long, conflicts_with = "resume")]
    pub force: bool,
    /// Convert these fields only, with commas between them; * and ? stand for any characters
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub fields: Vec<String>,
    /// Leave out these fields, with commas between them
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub drop: Vec<String>,
    /// Name of the ntuple that is made [default: as the input's]
    #[arg(long)]
    pub name: Option<String>,
    /// Compression: zstd, lz4, zlib or lzma with a level, as zstd:5, none, or a number of ROOT's, as 505
    #[arg(long, value_name = "CODEC[:LEVEL]", default_value = "zstd:5")]
    pub compression: String,
    /// Compressed bytes of a cluster, as 128MiB
    #[arg(long, value_name = "SIZE", default_value = "128MiB")]
    pub cluster_size: String,
    /// Make one collection of the arrays that have one counter, named after what their names have in common
    #[arg(long)]
    pub group: bool,
    /// Do not read the output again to compare it with the input
    #[arg(long)]
    pub no_verify: bool,
    /// What the files in the folder are
    #[arg(long, value_name = "KIND", default_value = "root", value_parser = ["root", "parquet", "arrow"])]
    pub format: String,
    /// Files at the same time; they share the threads
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// Leave files alone whose output is there and not older than they are, and replace older outputs
    #[arg(long)]
    pub resume: bool,
    /// Go on after files that cannot be converted, and write into this file, in JSON, what became of each
    #[arg(long, value_name = "REPORT", value_hint = ValueHint::FilePath)]
    pub skip_bad_files: Option<String>,
    #[command(flatten)]
    pub threads: Threads,
}

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The file to make
    #[arg(value_name = "OUTPUT", value_hint = ValueHint::FilePath)]
    pub output: String,
    /// The files: all ntuples in them, or with a name only that one; * ? [] and ** (in URLs * [] and **) stand for any characters, also in quotes. @LIST
    /// is the files that a text file names, one a line
    #[arg(value_name = "FILE[:NAME]", required = true, value_hint = ValueHint::FilePath)]
    pub inputs: Vec<String>,
    /// Replace an output that is there already
    #[arg(short = 'f', long)]
    pub force: bool,
    /// Add the files to an output that is there already, behind what it has; make it if it is not there
    #[arg(short = 'a', long, conflicts_with = "force")]
    pub append: bool,
    /// What is done with pages: L0 shares the blocks of the inputs (of less than 1 MiB they are copied), L1 copies, L2 recompresses, L3 encodes anew, L4 rebuilds
    /// pages and clusters; auto takes the cheapest
    #[arg(long, value_name = "LEVEL", default_value = "auto", value_parser = ["auto", "L0", "L1", "L2", "L3", "L4"])]
    pub level: String,
    /// Which fields the files must have: all of the first one (filter), any (union), or the same (strict)
    #[arg(long, value_name = "MODE", default_value = "filter", value_parser = ["filter", "union", "strict"])]
    pub mode: String,
    /// Take these top-level fields only, with commas between them; * and ? stand for any characters
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub fields: Vec<String>,
    /// Compression that all pages are to have: zstd, lz4, zlib or lzma with a level, as zstd:5, none, or a number of ROOT's, as 505 [default: each keeps
    /// its own]
    #[arg(long, value_name = "CODEC[:LEVEL]")]
    pub compression: Option<String>,
    #[command(flatten)]
    pub sizes: Sizes,
    /// What is done with objects that are neither ntuples nor histograms, which are added up: an error, the first of each name, or leave them out
    #[arg(long, value_name = "WHAT", default_value = "error", value_parser = ["error", "first", "drop"])]
    pub others: String,
    /// Keep pages of other encodings as further representations, which ROOT before 6.42 and uproot do not read
    #[arg(long)]
    pub not_compatible: bool,
    /// Compare the output with the files before it appears, as `verify --against` does
    #[arg(long)]
    pub verify: bool,
    #[command(flatten)]
    pub threads: Threads,
}

#[derive(Debug, Args)]
pub struct CloneArgs {
    /// The file to copy: all ntuples in it, or with a name only that one
    #[arg(value_name = "FILE[:NAME]", value_hint = ValueHint::FilePath)]
    pub source: String,
    /// The file to make
    #[arg(value_name = "OUTPUT", value_hint = ValueHint::FilePath)]
    pub output: String,
    /// The entries to take of each ntuple: from the first one to the one before the second; numbers below zero count from
    /// the end, and either may be left out [default: all]
    #[arg(long, value_name = "FIRST:END", allow_hyphen_values = true)]
    pub entries: Option<String>,
    /// What is done with pages, as in fb merge; clusters that --entries cuts are rebuilt
    #[arg(long, value_name = "LEVEL", default_value = "auto", value_parser = ["auto", "L0", "L1", "L2", "L3", "L4"])]
    pub level: String,
    #[command(flatten)]
    pub copying: Copying,
}

#[derive(Debug, Args)]
pub struct JoinArgs {
    /// The file to make
    #[arg(value_name = "OUTPUT", value_hint = ValueHint::FilePath)]
    pub output: String,
    /// The ntuples, two or more
    #[arg(value_name = "FILE[:NAME]", required = true, num_args = 1.., value_hint = ValueHint::FilePath)]
    pub inputs: Vec<String>,
    /// Replace an output that is there already
    #[arg(short = 'f', long)]
    pub force: bool,
    /// Fields of integers that say which entries belong together, as run,luminosityBlock,event [default: entries of the same
    /// number do]
    #[arg(long, value_name = "FIELD,…", value_delimiter = ',')]
    pub on: Vec<String>,
    /// What becomes of entries of the first ntuple that another one does not have: an error, or leave them out
    #[arg(long, value_name = "WHAT", default_value = "error", value_parser = ["error", "drop"])]
    pub unmatched: String,
    /// Take these top-level fields of the first ntuple; to be given again for the second, and for each of the others; * and ?
    /// stand for any characters
    #[arg(long, value_name = "PATTERN,…")]
    pub fields: Vec<String>,
    /// What is done with attribute sets that two ntuples have, and with objects beside an ntuple that is not named: an error,
    /// the first of each name, or leave them (and all attribute sets) out
    #[arg(long, value_name = "WHAT", default_value = "error", value_parser = ["error", "first", "drop"])]
    pub others: String,
    /// The name of the ntuple that is made [default: that of the first]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Compare the output with the ntuples before it appears, as `verify --against … --beside` does
    #[arg(long)]
    pub verify: bool,
    /// Compression of all pages: zstd, lz4, zlib or lzma with a level, as zstd:5, none, or a number of ROOT's, as 505 [default: each keeps its own]
    #[arg(long, value_name = "CODEC[:LEVEL]")]
    pub compression: Option<String>,
    #[command(flatten)]
    pub threads: Threads,
}

#[derive(Debug, Args)]
pub struct ReshapeArgs {
    /// The file to copy: all ntuples in it, or with a name only that one
    #[arg(value_name = "FILE[:NAME]", value_hint = ValueHint::FilePath)]
    pub source: String,
    /// The file to make
    #[arg(value_name = "OUTPUT", value_hint = ValueHint::FilePath)]
    pub output: String,
    /// Compression of all pages: zstd, lz4, zlib or lzma with a level, as zstd:5, none, or a number of ROOT's, as 505 [default: each keeps its own]
    #[arg(long, value_name = "CODEC[:LEVEL]")]
    pub compression: Option<String>,
    #[command(flatten)]
    pub sizes: Sizes,
    /// How numbers and offsets are encoded: split, their bytes apart and offsets as differences, as is good for compression;
    /// or plain, as in memory [default: as they are]
    #[arg(long, value_name = "ENCODING", value_parser = ["split", "plain"])]
    pub encoding: Option<String>,
    /// How the reals of a field are stored: in so many bits, or as so many bits' fraction of a range; * and ? stand for any
    /// characters in names, and the option may be given again
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
#[command(override_usage = "fb skim [OPTIONS] --where <CONDITION> <FILE[:NAME]>... <OUTPUT>")]
pub struct SkimArgs {
    /// The files: all ntuples in them, or with a name only that one; * ? [] and ** (in URLs * [] and **) stand for any characters, also in quotes. @LIST
    /// is the files that a text file names, one a line. The last name is the output
    #[arg(value_name = "FILE[:NAME]… OUTPUT", required = true, value_hint = ValueHint::FilePath)]
    pub names: Vec<String>,
    /// Which entries to take, as typed in C++ or Python: 'nMuon >= 2 && Muon_pt[0] > 20', 'any(Jet_pt > 30)'
    #[arg(long = "where", value_name = "CONDITION", allow_hyphen_values = true)]
    pub condition: String,
    /// Compression of all pages: zstd, lz4, zlib or lzma with a level, as zstd:5, none, or a number of ROOT's, as 505 [default: each keeps its own]
    #[arg(long, value_name = "CODEC[:LEVEL]")]
    pub compression: Option<String>,
    #[command(flatten)]
    pub sizes: Sizes,
    #[command(flatten)]
    pub copying: Copying,
}

/// What clone, reshape and skim have in common.
#[derive(Debug, Args)]
pub struct Copying {
    /// Read the output again, and compare it with the source before it appears
    #[arg(long)]
    pub verify: bool,
    /// Replace an output that is there already
    #[arg(short = 'f', long)]
    pub force: bool,
    /// Take these top-level fields only, with commas between them; * and ? stand for any characters
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub fields: Vec<String>,
    /// What is done with objects that are neither ntuples nor histograms: they are copied (first), left out (drop), or an
    /// error
    #[arg(long, value_name = "WHAT", default_value = "first", value_parser = ["error", "first", "drop"])]
    pub others: String,
    #[command(flatten)]
    pub threads: Threads,
}

/// Sizes of what is made anew.
#[derive(Debug, Default, Args)]
pub struct Sizes {
    /// Compressed bytes of a cluster that is made anew, about [default: 128MiB]
    #[arg(long, value_name = "SIZE")]
    pub cluster_size: Option<String>,
    /// Uncompressed bytes of a page that is made anew, at most [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    pub page_size: Option<String>,
}

#[derive(Debug, Args)]
pub struct SweepArgs {
    /// The folders; those in them are not looked at
    #[arg(value_name = "FOLDER", required = true, value_hint = ValueHint::DirPath)]
    pub folders: Vec<String>,
}

#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub struct Threads {
    /// Number of threads [default: the variable FEMTOBARN_THREADS, or else one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

impl Threads {
    const VARIABLE: &str = "FEMTOBARN_THREADS";

    /// The number asked for, or that of the variable, or that of the cores.
    pub fn number(&self) -> Result<usize, Failure> {
        if let Some(n) = self.threads {
            return Ok(usize::from(n));
        }
        let variable = std::env::var(Self::VARIABLE).unwrap_or_default();
        match variable.trim() {
            "" => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
            text => text.parse().ok().filter(|&n| n > 0).ok_or_else(|| {
                let message = format!(
                    "the variable {} must be a number of threads, not {text:?}",
                    Self::VARIABLE
                );
                Failure::new(code::USAGE, "usage", message)
            }),
        }
    }
}
