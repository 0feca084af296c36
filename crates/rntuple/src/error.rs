//! The error of this crate.

use femtobarn_codec::CodecError;
use femtobarn_io::IoError;
use femtobarn_rootfile::RootFileError;

use crate::spec::{PageAddress, SpecError};

/// An error in reading or writing an RNTuple.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "members are named by the messages")]
pub enum RNTupleError {
    #[error(transparent)]
    Io(#[from] IoError),
    #[error(transparent)]
    RootFile(#[from] RootFileError),
    /// An envelope or the anchor is damaged or not supported.
    #[error("{url}: {structure} of {ntuple:?} at {at} is not readable")]
    Spec {
        url: String,
        ntuple: String,
        structure: &'static str,
        at: PageAddress,
        source: SpecError,
    },
    /// Compressed bytes cannot be decompressed.
    #[error("{url}: {structure} of {ntuple:?} at {at} cannot be decompressed")]
    Codec {
        url: String,
        ntuple: String,
        structure: String,
        at: PageAddress,
        source: CodecError,
    },
    /// An object of the file is damaged or not supported.
    #[error("{url}: {structure} of {ntuple:?} at {at} is not readable")]
    Object {
        url: String,
        ntuple: String,
        structure: String,
        at: PageAddress,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The checksum of a page does not match.
    #[error(
        "page checksum mismatch in {url} at {at} (column {column} of field {field:?}, cluster {cluster}): expected {expected:#018x}, found {found:#018x}"
    )]
    PageChecksum {
        url: String,
        at: PageAddress,
        field: String,
        column: u32,
        cluster: u64,
        expected: u64,
        found: u64,
    },
    /// Metadata and data contradict each other.
    #[error("{url}: {what} of {ntuple:?} is inconsistent: expected {expected}, found {found}")]
    Inconsistent {
        url: String,
        ntuple: String,
        what: String,
        expected: String,
        found: String,
    },
    /// The object is not an ntuple or tree.
    #[error("{url}: {path:?} is a {class_name}, not a ROOT::RNTuple or TTree{hint}")]
    NotAnRNTuple {
        url: String,
        path: String,
        class_name: String,
        hint: String,
    },
    /// The file has several ntuples, so one must be named.
    #[error("{url} has {count} {kind}{hint}")]
    AmbiguousNTuple {
        url: String,
        count: usize,
        kind: &'static str,
        hint: String,
    },
    /// The ntuple does not have this field.
    #[error("{} has no field {name:?}{hint}", place(url, ntuple))]
    NoSuchField {
        url: String,
        ntuple: String,
        name: String,
        hint: String,
    },
    /// The field cannot be read.
    #[error("{url}: field {name:?} of {ntuple:?} cannot be read: {reason}{hint}")]
    Unsupported {
        url: String,
        ntuple: String,
        name: String,
        reason: String,
        /// What to do, after a "; "; or nothing.
        hint: String,
    },
    /// A field differs between files that are read together.
    #[error("{url}: field {name:?} of {ntuple:?} does not match {other}: {reason}")]
    SchemaMismatch {
        url: String,
        other: String,
        ntuple: String,
        name: String,
        reason: String,
    },
    /// Fields with different encodings cannot be merged.
    #[error(
        "field {name:?} of {url} cannot be merged with that of {other}: {reason}; convert the files together instead"
    )]
    NeedsRebuild {
        url: String,
        other: String,
        name: String,
        reason: String,
    },
    /// The field or ntuple cannot be written.
    #[error("{name:?} cannot be written: {reason}")]
    Unwritable { name: String, reason: String },
    /// The table cannot be read.
    #[error("{url} cannot be read: {reason}")]
    Table { url: String, reason: String },
    /// The request is not possible.
    #[error("{what}")]
    Usage { what: String },
    /// Files that cannot be read as one ntuple.
    #[error("{url} and {other} cannot be opened as one ntuple: {reason}")]
    Unrelated {
        url: String,
        other: String,
        reason: String,
    },
    /// The range is outside the ntuple.
    #[error("entries {start}..{stop} are outside the {n_entries} entries of {ntuple:?}")]
    EntryRange {
        ntuple: String,
        start: u64,
        stop: u64,
        n_entries: u64,
    },
    /// More memory than is available or allowed.
    #[error("cannot allocate {bytes} bytes of memory to read: {reason}")]
    Memory { bytes: u64, reason: String },
    /// A state that is only possible if femtobarn has a bug.
    #[error("internal error: {what}; please report this")]
    Internal { what: String },
    /// The caller stopped the read.
    #[error("interrupted")]
    Interrupted,
}

impl femtobarn_io::MayInterrupt for RNTupleError {
    fn is_interruption(&self) -> bool {
        self.is_interrupted()
    }

    fn interruption() -> Self {
        Self::Interrupted
    }
}

impl RNTupleError {
    /// Whether the caller stopped the operation.
    pub fn is_interrupted(&self) -> bool {
        self.kind() == "interrupted"
    }

    /// The error for an impossible state.
    pub fn internal(what: impl ToString) -> Self {
        Self::Internal {
            what: what.to_string(),
        }
    }

    /// The message, followed by those of all causes.
    pub fn with_causes(&self) -> String {
        femtobarn_io::with_causes(self)
    }

    /// The stable name of the error's kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Io(error) => error.kind(),
            Self::RootFile(error) => error.kind(),
            Self::Spec {
                source: SpecError::UnknownFeature { .. },
                ..
            } => "unknown-feature",
            Self::Spec {
                source: SpecError::Unsupported { .. },
                ..
            } => "unsupported-format",
            Self::Spec {
                source: SpecError::Checksum { .. },
                ..
            } => "envelope-checksum",
            Self::Spec { .. } => "corrupt-metadata",
            Self::Codec { .. } | Self::Object { .. } => "corrupt-data",
            Self::PageChecksum { .. } => "page-checksum",
            Self::Inconsistent { .. } => "inconsistent",
            Self::NotAnRNTuple { .. } => "not-an-rntuple",
            Self::AmbiguousNTuple { count: 0, .. } => "no-ntuple",
            Self::AmbiguousNTuple { .. } => "ambiguous-ntuple",
            Self::NoSuchField { .. } => "no-such-field",
            Self::Unsupported { .. } => "unsupported-field",
            Self::SchemaMismatch { .. } | Self::Unrelated { .. } => "schema-mismatch",
            Self::NeedsRebuild { .. } => "needs-rebuild",
            Self::Unwritable { .. } => "unwritable-field",
            Self::Table { .. } => "unreadable-table",
            Self::Usage { .. } => "usage",
            Self::EntryRange { .. } => "entry-range",
            Self::Memory { .. } => "memory",
            Self::Internal { .. } => "internal",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Names a file, or an ntuple in it.
fn place(url: &str, ntuple: &str) -> String {
    match ntuple {
        "" => url.to_owned(),
        ntuple => format!("{url}:{ntuple}"),
    }
}
