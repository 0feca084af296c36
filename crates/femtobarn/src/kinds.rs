//! The meaning of error kinds: the exception class in Python, the exit code of `fb`, and advice. One table serves all
//! interfaces; `docs/guides/errors.md` explains the kinds.

use femtobarn_events::EventsError;
use femtobarn_io::IoError;
use femtobarn_rootfile::RootFileError;

use crate::Error;

/// Exit codes, as `fb --help` lists them.
pub mod exit {
    /// Success.
    pub const FINE: i32 = 0;
    /// Verification found damage.
    pub const DAMAGED: i32 = 1;
    /// Wrong usage.
    pub const USAGE: i32 = 2;
    /// Something does not exist or is not available.
    pub const NOT_THERE: i32 = 3;
    /// Something cannot be read.
    pub const CORRUPT: i32 = 4;
    /// Interrupted by Ctrl-C, as in shells.
    pub const INTERRUPTED: i32 = 130;
}

/// The meaning of an error kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The stable name.
    pub name: &'static str,
    /// The exception class in `femtobarn.errors`.
    pub class: &'static str,
    /// The exit code of `fb`.
    pub exit: i32,
    /// Advice for the user, for any file; empty if there is none.
    pub advice: &'static str,
}

const DAMAGE: &str = "the file is damaged: compare it with its original, and copy it again";

macro_rules! kinds {
    ($($class:ident $exit:ident { $($name:literal $(=> $advice:expr)?),* $(,)? })*) => {
        &[$($(Kind {
            name: $name,
            class: stringify!($class),
            exit: exit::$exit,
            advice: kinds!(@advice $($advice)?),
        }),*),*]
    };
    (@advice) => { "" };
    (@advice $advice:expr) => { $advice };
}

/// All kinds of errors in Rust and Python.
pub const KINDS: &[Kind] = kinds! {
    // files that do not fit together, and values that cannot be stored as requested, are not damaged
    UsageError USAGE {
        "usage", "ambiguous-ntuple", "entry-range", "invalid-name", "name-taken", "schema-mismatch",
        "needs-rebuild", "unwritable-field", "store-url", "store-config", "bad-name",
        "product-type", "class-differs", "product-too-large", "store-closed",
    }
    ExistsError USAGE { "exists", "conflict", "product-exists", "dataset-deleting" }
    UsageError NOT_THERE {
        "no-ntuple", "not-an-rntuple", "unsupported-url", "read-only", "objects-of-others",
    }
    KeyNotFoundError NOT_THERE { "key-not-found", "no-such-field", "not-in-store" }
    NotFoundError NOT_THERE { "file-not-found" }
    FileError NOT_THERE {
        "io", "permission-denied", "file-busy", "open-failed", "not-a-file", "file-changed",
        "read-failed", "remote-failed", "create-failed", "write-failed", "delete-failed",
        "store-locked", "store-engine", "store-full", "store-unreachable", "store-denied",
        "store-evicts", "store-emptied", "too-few-replicas", "store-poisoned", "objects-gone", "changed",
        "batch-lost",
    }
    FileError CORRUPT {
        "read-out-of-range", "inverted-range", "short-read", "range-too-large", "wrong-answer",
    }
    MissingDependencyError NOT_THERE { "missing-dependency" }
    ResourceError NOT_THERE {
        "resource", "memory" => "read fewer entries or fields",
    }
    FormatError NOT_THERE { "not-a-directory" }
    ChecksumError CORRUPT { "checksum", "page-checksum", "envelope-checksum" => DAMAGE }
    FormatError CORRUPT {
        "format", "not-a-root-file", "directory-loop", "compression-failed", "record-too-large",
        "unknown-feature", "unsupported-format", "corrupt-data", "inconsistent", "unreadable-table",
        "store-layout", "product-damaged", "key-damaged",
        "unsupported-field" => "select fields without this one",
        "file-not-closed" => "the program that wrote it is still running, or ended before it closed the file: run it again",
        "truncated-file" => DAMAGE, "corrupt-file" => DAMAGE, "corrupt-metadata" => DAMAGE,
        "decompression-failed" => DAMAGE,
    }
    FemtobarnError CORRUPT { "error", "internal" }
    FemtobarnError NOT_THERE { "stopped" }
    FemtobarnError INTERRUPTED { "interrupted" }
    ProcessError NOT_THERE { "process-failed" }
    WorkerDiedError NOT_THERE { "worker-died" }
    QueueEndedError NOT_THERE { "queue-ended" }
};

/// Kinds that concern a whole event store: what is tried next in it fails too.
const OF_STORE: &[&str] = &[
    "objects-gone",
    "objects-of-others",
    "read-only",
    "store-closed",
    "store-denied",
    "store-emptied",
    "store-engine",
    "store-evicts",
    "store-full",
    "store-layout",
    "store-locked",
    "store-poisoned",
    "store-unreachable",
    "too-few-replicas",
];

/// Whether errors of a kind concern a whole event store.
pub fn is_of_store(name: &str) -> bool {
    OF_STORE.contains(&name)
}

/// The kind with a name. An unknown name is an internal error.
pub fn kind(name: &str) -> Kind {
    let found = KINDS.iter().find(|kind| kind.name == name);
    found.copied().unwrap_or(Kind {
        name: "internal",
        class: "FemtobarnError",
        exit: exit::CORRUPT,
        advice: "",
    })
}

/// The exit code of an error: the code of its kind, except for outputs.
pub fn exit_code(error: &Error) -> i32 {
    match error {
        // a missing directory or an existing file is a mistake in the command line
        Error::Io(IoError::NoFolder { .. } | IoError::Exists { .. }) => exit::USAGE,
        error => kind(error.kind()).exit,
    }
}

/// The exception class for an error of an event store: the class of its kind, except for checksums and objects.
pub fn store_class(error: &EventsError) -> &'static str {
    match error {
        EventsError::Damaged { .. } if error.is_checksum() => "ChecksumError",
        error => kind(error.kind()).class,
    }
}

/// Whether the error means damaged bytes. Other errors mean missing data or a newer format.
pub fn is_damage(error: &Error) -> bool {
    // an empty file is usually the result of a failed copy
    if let Error::RootFile(RootFileError::NotARootFile { found, .. }) = error
        && found == "an empty file"
    {
        return true;
    }
    let intact = [
        "not-a-root-file",
        "unknown-feature",
        "unsupported-format",
        "unsupported-field",
    ];
    exit_code(error) == exit::CORRUPT && !intact.contains(&error.kind())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_kind_is_there_once_and_explained() {
        let names: HashSet<_> = KINDS.iter().map(|kind| kind.name).collect();
        assert_eq!(names.len(), KINDS.len());
        assert!(OF_STORE.iter().all(|name| names.contains(name)));
        let page = include_str!("../../../docs/guides/errors.md");
        // kinds that only name the class, and internal ones
        let unexplained = [
            "io", "exists", "resource", "format", "checksum", "error", "stopped",
        ];
        for kind in KINDS
            .iter()
            .filter(|kind| !unexplained.contains(&kind.name))
        {
            assert!(page.contains(&format!("`{}`", kind.name)), "{}", kind.name);
        }
    }
}
