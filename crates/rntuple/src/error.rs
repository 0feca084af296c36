//! Errors of reading RNTuples.

use femtobarn_codec::CodecError;
use femtobarn_io::IoError;
use femtobarn_rootfile::RootFileError;

use crate::spec::{PageAddress, SpecError};

/// What can go wrong in reading an RNTuple.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "members are named by the messages")]
pub enum RNTupleError {
    #[error(transparent)]
    Io(#[from] IoError),
    #[error(transparent)]
    RootFile(#[from] RootFileError),
    /// An envelope or the anchor is broken or not supported.
    #[error("{url}: {structure} of {ntuple:?} at {at} is not readable")]
    Spec {
        url: String,
        ntuple: String,
        structure: &'static str,
        at: PageAddress,
        source: SpecError,
    },
    /// Bytes that do not decompress.
    #[error("{url}: {structure} of {ntuple:?} at {at} does not decompress")]
    Codec {
        url: String,
        ntuple: String,
        structure: String,
        at: PageAddress,
        source: CodecError,
    },
    /// An object of a file that is not understood.
    #[error("{url}: {structure} of {ntuple:?} at {at} is not readable")]
    Object {
        url: String,
        ntuple: String,
        structure: String,
        at: PageAddress,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A page whose checksum does not fit.
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
    /// The object is none.
    #[error("{url}: {path:?} is a {class_name}, not a ROOT::RNTuple or TTree{hint}")]
    NotAnRNTuple {
        url: String,
        path: String,
        class_name: String,
        hint: String,
    },
    /// A file in which the ntuple must be named.
    #[error("{url}: holds {count} {kind}{hint}")]
    AmbiguousNTuple {
        url: String,
        count: usize,
        kind: &'static str,
        hint: String,
    },
    /// A field that the ntuple does not have.
    #[error("{} has no field {name:?}{hint}", place(url, ntuple))]
    NoSuchField {
        url: String,
        ntuple: String,
        name: String,
        hint: String,
    },
    /// A field that cannot be read.
    #[error("{url}: field {name:?} of {ntuple:?} cannot be read: {reason}{hint}")]
    Unsupported {
        url: String,
        ntuple: String,
        name: String,
        reason: String,
        /// What to do, behind a "; ", or nothing.
        hint: String,
    },
    /// Files that do not belong together.
    #[error("{url}: field {name:?} of {ntuple:?} does not fit {other}: {reason}")]
    SchemaMismatch {
        url: String,
        other: String,
        ntuple: String,
        name: String,
        reason: String,
    },
    /// A field whose values cannot be brought together as they are encoded.
    #[error(
        "field {name:?} of {url} cannot join that of {other} as they are encoded: {reason}; converting the files together takes them apart to their values"
    )]
    NeedsRebuild {
        url: String,
        other: String,
        name: String,
        reason: String,
    },
    /// A field or an ntuple that cannot be written.
    #[error("{name:?} cannot be written: {reason}")]
    Unwritable { name: String, reason: String },
    /// A table that cannot be read.
    #[error("{url} cannot be read: {reason}")]
    Table { url: String, reason: String },
    /// What was asked for does not go together.
    #[error("{what}")]
    Usage { what: String },
    /// Files that nobody would take for one ntuple.
    #[error("{url} and {other} cannot be read as one ntuple: {reason}")]
    Unrelated {
        url: String,
        other: String,
        reason: String,
    },
    /// A range outside the ntuple.
    #[error("entries {start}..{stop} are outside the {n_entries} entries of {ntuple:?}")]
    EntryRange {
        ntuple: String,
        start: u64,
        stop: u64,
        n_entries: u64,
    },
    /// More memory than there is or than is allowed.
    #[error("reading needs {bytes} bytes of memory, which cannot be had: {reason}")]
    Memory { bytes: u64, reason: String },
    /// Something that cannot be, unless femtobarn itself is wrong.
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
    /// Whether somebody wanted it to end.
    pub fn is_interrupted(&self) -> bool {
        self.kind() == "interrupted"
    }

    /// The error of what cannot be.
    pub fn internal(what: impl ToString) -> Self {
        Self::Internal {
            what: what.to_string(),
        }
    }

    /// The message with those of all causes.
    pub fn with_causes(&self) -> String {
        femtobarn_io::with_causes(self)
    }

    /// A stable name of the kind of error.
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

/// A file, or an ntuple in it.
fn place(url: &str, ntuple: &str) -> String {
    match ntuple {
        "" => url.to_owned(),
        ntuple => format!("{url}:{ntuple}"),
    }
}
