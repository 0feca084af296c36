//! Errors of reading and writing bytes.

use std::io;

/// An error of a source or sink. Every variant names it, and the offset if there is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// The file does not exist.
    #[error("no such file: {url}")]
    NotFound {
        /// The source.
        url: String,
    },
    /// No file matches a pattern.
    #[error("no file matches {pattern}{why}")]
    NoMatch {
        /// The pattern.
        pattern: String,
        /// The known part of the reason, after a colon; or nothing.
        why: String,
    },
    /// The file exists but is not readable.
    #[error("permission denied: {url}")]
    PermissionDenied {
        /// The source.
        url: String,
    },
    /// A server refuses to read the file.
    #[error("permission denied: {url}: {why}")]
    Refused {
        /// The source.
        url: String,
        /// The server, and its answer.
        why: String,
    },
    /// An object store has no such bucket or container.
    #[error("no such file: {url}: bucket {bucket} does not exist")]
    NoBucket {
        /// The source.
        url: String,
        /// The bucket.
        bucket: String,
    },
    /// The file is not writable.
    #[error(
        "permission denied: cannot write to {url}: change its permissions, or write a new file"
    )]
    ReadOnly {
        /// The sink.
        url: String,
    },
    /// The directory of a new file is not writable.
    #[error(
        "permission denied: cannot create {url}: directory {folder} is not writable, where new files and replacements \
         are created: use another directory, or change its permissions"
    )]
    FolderReadOnly {
        /// The sink.
        url: String,
        /// The directory.
        folder: String,
    },
    /// Another writer is writing to the file.
    #[error("{url} is being written to by another writer")]
    Busy {
        /// The sink.
        url: String,
    },
    /// Another file has taken the name of the appended file.
    #[error("{url} was replaced by another file during an append: the appended data are not in it")]
    Replaced {
        /// The sink.
        url: String,
    },
    /// Of several writers, another one has written the ntuple.
    #[error("another writer has written {url} meanwhile: what this one wrote is not in it")]
    Overtaken {
        /// The ntuple, or a step of it.
        url: String,
    },
    /// A sweep has deleted what was being written.
    #[error("{url} is missing: a sweep has deleted what this writer had written")]
    Swept {
        /// An object.
        url: String,
    },
    /// The source could not be opened for another reason.
    #[error("cannot open {url}")]
    Open {
        /// The source.
        url: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The path is not a regular file.
    #[error("not a regular file: {url}: expected a file, found {found}")]
    NotAFile {
        /// The source.
        url: String,
        /// Description of the object found.
        found: &'static str,
    },
    /// The range ends beyond the end of the source.
    #[error(
        "read beyond the end of {url} at {offset}: expected {expected} bytes, found {found} (the size is {size})"
    )]
    OutOfRange {
        /// The source.
        url: String,
        /// The start of the range.
        offset: u64,
        /// Number of requested bytes.
        expected: u64,
        /// Number of bytes from there to the end of the source.
        found: u64,
        /// The size of the source.
        size: u64,
    },
    /// The range ends before it begins.
    #[error("invalid range in {url} at {offset}: the end {found} is before the start")]
    InvertedRange {
        /// The source.
        url: String,
        /// The start of the range.
        offset: u64,
        /// The end of the range.
        found: u64,
    },
    /// The source returned fewer bytes than requested, although they are within its size: it was truncated while
    /// open, or the server stopped sending.
    #[error("short read from {url} at {offset}: expected {expected} bytes, found {found}")]
    ShortRead {
        /// The source.
        url: String,
        /// The start of the read.
        offset: u64,
        /// Number of requested bytes.
        expected: u64,
        /// Number of received bytes.
        found: u64,
    },
    /// Since it was opened, the file was changed or replaced.
    #[error("{url} has changed since it was opened; open it again")]
    Changed {
        /// The source.
        url: String,
    },
    /// The read failed.
    #[error("cannot read {expected} bytes from {url} at {offset}")]
    Read {
        /// The source.
        url: String,
        /// The start of the read.
        offset: u64,
        /// Number of requested bytes.
        expected: u64,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Waiting for the source was interrupted.
    #[error("interrupted while waiting for {url}")]
    Interrupted {
        /// The source.
        url: String,
    },
    /// A server or the connection to it failed.
    #[error("cannot read {url}")]
    Remote {
        /// The source.
        url: String,
        /// The attempts, and the answer of each server.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The name of a new file exists and must not be replaced.
    #[error("{url} already exists and is not replaced")]
    Exists {
        /// The sink.
        url: String,
    },
    /// The directory of a new file does not exist.
    #[error("cannot create {url}: directory {folder} does not exist")]
    NoFolder {
        /// The sink.
        url: String,
        /// The missing part.
        folder: String,
    },
    /// The file could not be created or renamed.
    #[error("cannot create {url}")]
    Create {
        /// The sink.
        url: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The write failed.
    #[error("cannot write {expected} bytes to {url} at {offset}")]
    Write {
        /// The sink.
        url: String,
        /// The start of the write.
        offset: u64,
        /// Number of bytes to write.
        expected: u64,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A stream could not be written.
    #[error("cannot write {url}")]
    WriteStream {
        /// The sink.
        url: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The range is longer than the address space.
    #[error(
        "range too large for memory in {url} at {offset}: expected at most {expected} bytes, found {found}"
    )]
    TooLarge {
        /// The source.
        url: String,
        /// The start of the range.
        offset: u64,
        /// The maximum length.
        expected: u64,
        /// The requested length.
        found: u64,
    },
    /// A server or the connection to it failed while a file was written.
    #[error("cannot write {url}")]
    Sending {
        /// The sink.
        url: String,
        /// The attempts, and the answer of the server.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Not enough space for the local copy of a file that is sent when it is complete.
    #[error(
        "not enough space for {url} in {folder}, where it is created before it is sent: {free} bytes are free, but \
         about {needed} bytes are needed (the size of its inputs). Use another directory with the setting \
         spool_folder"
    )]
    SpoolFull {
        /// The sink.
        url: String,
        /// The directory.
        folder: String,
        /// Free bytes of the directory.
        free: u64,
        /// Size of the inputs in bytes.
        needed: u64,
    },
    /// Something could not be deleted.
    #[error("cannot delete {url}")]
    Delete {
        /// The file to delete, or its location.
        url: String,
        /// The error of the system or the server.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The data on a server differ from the sent data.
    #[error("{url} differs from the data that were sent: expected {expected}, found {found}")]
    NotSent {
        /// The sink.
        url: String,
        /// The expected value.
        expected: String,
        /// The value on the server.
        found: String,
    },
    /// The location does not support writing, or not in this way.
    #[error("{url}: {why}")]
    NotWritten {
        /// The file to write.
        url: String,
        /// The reason, with advice.
        why: &'static str,
    },
    /// A setting is unknown or invalid.
    #[error("setting{}: {what}", of_url(url))]
    Setting {
        /// Its URL, or the settings file; empty if it is of all URLs.
        url: String,
        /// The error.
        what: String,
    },
    /// The URL is invalid.
    #[error("invalid URL {url}: {what}")]
    NoUrl {
        /// The invalid URL.
        url: String,
        /// The error, with an example.
        what: String,
    },
    /// The scheme is not supported.
    #[error(
        "{url}: unsupported scheme: use file, root, roots, http, https, dav, davs, s3, gs or az for files, and ntpl+s3, \
         ntpl+s3+https, ntpl+gs, ntpl+az, ntpl+file or daos for ntuples; the Python package also reads files through \
         fsspec: pip install 'femtobarn[fsspec]'"
    )]
    UnknownScheme {
        /// The URL to open.
        url: String,
    },
    /// The handler of such URLs does not support it, or lacks a dependency.
    #[error("{url}: {why}")]
    Unsupported {
        /// The URL to open.
        url: String,
        /// The missing dependency, and advice.
        why: String,
        /// Whether installing a package would help.
        is_missing: bool,
    },
    /// A source answered a vector read with the wrong number of buffers.
    #[error(
        "wrong answer to a vector read from {url} at {offset}: expected {expected} ranges, found {found}"
    )]
    WrongAnswer {
        /// The source.
        url: String,
        /// The start of the first range.
        offset: u64,
        /// Number of requested ranges.
        expected: u64,
        /// Number of returned buffers.
        found: u64,
    },
}

/// What a setting is of, if not of all URLs.
fn of_url(url: &str) -> String {
    match url.is_empty() {
        true => String::new(),
        false => format!(" for {url}"),
    }
}

impl IoError {
    /// The stable kind of the error, equal in every language.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotFound { .. } | Self::NoBucket { .. } | Self::NoMatch { .. } => {
                "file-not-found"
            }
            Self::PermissionDenied { .. }
            | Self::Refused { .. }
            | Self::ReadOnly { .. }
            | Self::FolderReadOnly { .. } => "permission-denied",
            Self::Busy { .. } => "file-busy",
            Self::Open { .. } => "open-failed",
            Self::NotAFile { .. } => "not-a-file",
            Self::OutOfRange { .. } => "read-out-of-range",
            Self::InvertedRange { .. } => "inverted-range",
            Self::ShortRead { .. } => "short-read",
            Self::Changed { .. } => "file-changed",
            Self::Read { .. } => "read-failed",
            Self::Remote { .. } => "remote-failed",
            Self::Interrupted { .. } => "interrupted",
            Self::Exists { .. }
            | Self::NoFolder { .. }
            | Self::Create { .. }
            | Self::NotWritten { .. } => "create-failed",
            Self::Write { .. }
            | Self::WriteStream { .. }
            | Self::Replaced { .. }
            | Self::Overtaken { .. }
            | Self::Swept { .. } => "write-failed",
            Self::Delete { .. } => "delete-failed",
            Self::TooLarge { .. } => "range-too-large",
            Self::WrongAnswer { .. } => "wrong-answer",
            Self::Sending { .. } | Self::SpoolFull { .. } | Self::NotSent { .. } => "write-failed",
            Self::Setting { .. } | Self::NoUrl { .. } => "usage",
            Self::UnknownScheme { .. } => "unsupported-url",
            Self::Unsupported { is_missing, .. } => match is_missing {
                true => "missing-dependency",
                false => "unsupported-url",
            },
        }
    }

    /// The error for opening `url`, classified by the error of the operating system.
    #[must_use]
    pub fn from_open(url: &str, source: io::Error) -> Self {
        let url = url.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { url },
            io::ErrorKind::PermissionDenied => Self::PermissionDenied { url },
            _ => Self::Open { url, source },
        }
    }

    /// The source or sink of the error.
    #[must_use]
    pub fn url(&self) -> &str {
        match self {
            Self::NoMatch { pattern: url, .. }
            | Self::NotFound { url, .. }
            | Self::PermissionDenied { url, .. }
            | Self::Refused { url, .. }
            | Self::NoBucket { url, .. }
            | Self::ReadOnly { url }
            | Self::FolderReadOnly { url, .. }
            | Self::Busy { url }
            | Self::Replaced { url }
            | Self::Overtaken { url }
            | Self::Swept { url }
            | Self::Open { url, .. }
            | Self::NotAFile { url, .. }
            | Self::OutOfRange { url, .. }
            | Self::InvertedRange { url, .. }
            | Self::ShortRead { url, .. }
            | Self::Changed { url }
            | Self::Read { url, .. }
            | Self::Remote { url, .. }
            | Self::Interrupted { url }
            | Self::Exists { url }
            | Self::NoFolder { url, .. }
            | Self::Create { url, .. }
            | Self::Write { url, .. }
            | Self::WriteStream { url, .. }
            | Self::Delete { url, .. }
            | Self::TooLarge { url, .. }
            | Self::WrongAnswer { url, .. }
            | Self::Sending { url, .. }
            | Self::SpoolFull { url, .. }
            | Self::NotSent { url, .. }
            | Self::NotWritten { url, .. }
            | Self::Setting { url, .. }
            | Self::NoUrl { url, .. }
            | Self::UnknownScheme { url }
            | Self::Unsupported { url, .. } => url,
        }
    }
}
