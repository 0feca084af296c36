//! Options and progress of conversions.

use std::collections::BTreeMap;

use femtobarn_rntuple::write::WriteOptions;

/// Options of a conversion.
#[derive(Debug, Clone, Default)]
pub struct ConvertOptions {
    /// Patterns (`*`, `?`, `[abc]`) of the top-level fields to convert; all if empty.
    pub fields: Vec<String>,
    /// Patterns of the top-level fields to leave out.
    pub drop: Vec<String>,
    /// The name of the new ntuple; `None` for the name of the input.
    pub name: Option<String>,
    /// Combine arrays with one counter into a collection named after their common prefix.
    pub group: bool,
    /// How the ntuple is written; its threads are the threads of the whole conversion.
    pub write: WriteOptions,
    /// Read the output and compare every column with the input.
    pub verify: bool,
    /// Which existing output may be replaced.
    pub replace: Replace,
    /// Settings for the server of the output, which override the environment and the settings file.
    pub settings: BTreeMap<String, String>,
    /// Paths of ntuples and trees in the input that other conversions convert: they are not left behind.
    pub elsewhere: Vec<String>,
}

/// The progress of a conversion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of converted entries.
    pub entries: u64,
    /// Total number of entries.
    pub n_entries: u64,
    /// Approximate stored bytes of the converted entries.
    pub bytes: u64,
    /// Total stored bytes of the input.
    pub n_bytes: u64,
    /// Whether the output is being read again.
    pub verifying: bool,
    /// Whether the output is being sent to its server; `bytes` is then the number of sent bytes.
    pub sending: bool,
}

/// Called regularly; `false` stops the conversion.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) -> bool + Sync);

/// The purpose of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The output of a conversion.
    Output,
    /// An input of a merge.
    Merge,
}

/// Which existing outputs may be replaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Replace {
    /// Nothing.
    Nothing,
    /// The output of an earlier conversion: a file that contains only ntuples of the same names (and directories), or a
    /// table.
    #[default]
    Own,
    /// As `Own`, and the remains of an interrupted conversion, for resuming: a ROOT file that cannot be opened, or an
    /// empty file.
    Left,
    /// Any file.
    Anything,
}
