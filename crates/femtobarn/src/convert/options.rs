//! How something is converted, and how far it is.

use std::collections::BTreeMap;

use femtobarn_rntuple::write::WriteOptions;

/// How something is converted.
#[derive(Debug, Clone, Default)]
pub struct ConvertOptions {
    /// Patterns (`*`, `?`) of the top-level fields to convert; all if empty.
    pub fields: Vec<String>,
    /// Patterns of those to leave out.
    pub drop: Vec<String>,
    /// Name of the ntuple that is made; none: the input's.
    pub name: Option<String>,
    /// Arrays with one counter become a collection named after what their names have in common.
    pub group: bool,
    /// How the ntuple is written; its threads are the threads of the whole conversion.
    pub write: WriteOptions,
    /// Read the output and compare every column with the input.
    pub verify: bool,
    /// What may be replaced where the output will be.
    pub replace: Replace,
    /// Settings for the server of the output, which override the environment and the settings file.
    pub settings: BTreeMap<String, String>,
}

/// How far a conversion is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Entries converted.
    pub entries: u64,
    /// Entries there are.
    pub n_entries: u64,
    /// Bytes of the input, as stored, that these entries take, about.
    pub bytes: u64,
    /// Bytes of the input as stored.
    pub n_bytes: u64,
    /// The output is being read again.
    pub verifying: bool,
    /// The output is being sent to its server, and `bytes` have been sent.
    pub sending: bool,
}

/// Called now and then; `false` stops the conversion.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) -> bool + Sync);

/// What a file is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It is the output.
    Output,
    /// It is read by a merge.
    Merge,
}

/// Whether an existing output may be replaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Replace {
    /// Nothing.
    Nothing,
    /// What such a conversion has made: a file of nothing but ntuples of the same names (and directories), or a table.
    #[default]
    Own,
    /// That, and what one that was broken off has left, as resumed conversions find it: a ROOT file that cannot be opened,
    /// or an empty file.
    Left,
    /// Any file.
    Anything,
}
