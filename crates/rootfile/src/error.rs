//! The error of this crate.

use femtobarn_codec::CodecError;
use femtobarn_io::IoError;

/// An error of the container. Offsets are positions in the file, unless `what` says that they are
/// inside an object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootFileError {
    /// The bytes could not be read.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The file does not begin with the magic bytes of ROOT.
    #[error("not a ROOT file: {url}: expected \"root\" at {offset}, found {found}")]
    NotARootFile {
        /// The file.
        url: String,
        /// Offset of the magic bytes.
        offset: u64,
        /// Description of the bytes found there.
        found: String,
    },
    /// The file was truncated, or a length in it is wrong.
    #[error(
        "{url} is truncated at offset {offset}, in the {what}: expected {expected} bytes, found {found}"
    )]
    Truncated {
        /// The file.
        url: String,
        /// The item that was read.
        what: &'static str,
        /// Offset of the item, or of the end of its bytes.
        offset: u64,
        /// How many bytes it needs.
        expected: u64,
        /// How many bytes there are.
        found: u64,
    },
    /// A value that is invalid.
    #[error("corrupt: {what} of {url} at {offset}: expected {expected}, found {found}")]
    Corrupt {
        /// The file.
        url: String,
        /// The item that was read.
        what: &'static str,
        /// Its offset.
        offset: u64,
        /// Description of valid values.
        expected: String,
        /// The value found.
        found: String,
    },
    /// The file has no key list, because the program that wrote it did not close it.
    #[error(
        "not closed: {url}: expected the position of the key list at {offset}, found 0 \
         (the writing program ended before it closed the file)"
    )]
    NotClosed {
        /// The file.
        url: String,
        /// Offset of the root directory's record.
        offset: u64,
    },
    /// A directory that contains itself, is in two directories, or shares bytes with others.
    #[error("directory loop in {url}: {path:?} at {offset} or its keys have been listed before")]
    DirectoryLoop {
        /// The file.
        url: String,
        /// The path where it was met again.
        path: String,
        /// Offset of its record.
        offset: u64,
    },
    /// The payload of an object could not be decompressed.
    #[error("cannot decompress an object of {url}: compression record at {offset}")]
    Decompress {
        /// The file.
        url: String,
        /// Offset of the compression record that is invalid or missing.
        offset: u64,
        /// The cause; its offsets count from the compression record.
        source: CodecError,
    },
    /// There is no key of this name.
    #[error("no {path:?} in {url}; {}", suggestion(nearest))]
    KeyNotFound {
        /// The file.
        url: String,
        /// The path that was looked for.
        path: String,
        /// The most similar names in the file, best first.
        nearest: Vec<String>,
    },
    /// A part of a path is not a directory.
    #[error("not a directory: {path:?} in {url}: expected a directory, found a {found}")]
    NotADirectory {
        /// The file.
        url: String,
        /// The path.
        path: String,
        /// The class of the object there.
        found: String,
    },
    /// Unknown compression settings, or not enough memory to compress.
    #[error("cannot compress {name:?} for {url}")]
    Compression {
        /// The file.
        url: String,
        /// Name of the record.
        name: String,
        /// The cause.
        source: CodecError,
    },
    /// A record exceeds the maximum size.
    #[error(
        "record {name:?} is too large for {url}: expected at most {expected} bytes, found {found}"
    )]
    TooLarge {
        /// The file.
        url: String,
        /// Name of the record.
        name: String,
        /// The maximum size.
        expected: u64,
        /// The size of the record.
        found: u64,
    },
    /// A name with a character that no reader could look up.
    #[error("invalid name {name:?} for {url}: names cannot contain {found:?}")]
    InvalidName {
        /// The file.
        url: String,
        /// The name.
        name: String,
        /// The character.
        found: char,
    },
    /// A directory named `.` or `..`, which have a meaning in paths.
    #[error(
        "invalid directory name {name:?} for {url}: '.' and '..' have a meaning in paths; use another name"
    )]
    RelativeName {
        /// The file.
        url: String,
        /// The name.
        name: String,
    },
    /// The name is used by an object of another class.
    #[error("{url} has a {found} named {name:?}; give the {class_name} another name")]
    NameTaken {
        /// The file.
        url: String,
        /// The name.
        name: String,
        /// Class of the existing object.
        found: String,
        /// Class of the object to write.
        class_name: String,
    },
    /// The name is used by an object of the same class, which a new cycle would hide.
    #[error(
        "{url} has an ntuple {name:?} already, and a second one of this name would hide it. To add fields, write \
         them as an ntuple of another file, and join both into a new file by fb.join_columns or `fb join`; to \
         add entries, write another file, and append it by fb.merge(append=True) or `fb merge --append`; new_cycle=True \
         hides it, as {name};{cycle}"
    )]
    WouldHide {
        /// The file.
        url: String,
        /// The name.
        name: String,
        /// The newest cycle.
        cycle: u16,
    },
    /// The file is not written to any more, as a write failed.
    #[error("{url}: an earlier write failed, so the file cannot be completed")]
    Unfinished {
        /// The file.
        url: String,
    },
}

/// Suggestions for a missing name, for the end of a message.
fn suggestion(nearest: &[String]) -> String {
    match nearest {
        [] => "it has no keys".to_owned(),
        names => format!(
            "did you mean {}?",
            names
                .iter()
                .map(|name| format!("{name:?}"))
                .collect::<Vec<_>>()
                .join(" or ")
        ),
    }
}

impl RootFileError {
    /// The stable name of the error, the same in every language.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Io(error) => error.kind(),
            Self::NotARootFile { .. } => "not-a-root-file",
            Self::Truncated { .. } => "truncated-file",
            Self::Corrupt { .. } => "corrupt-file",
            Self::NotClosed { .. } => "file-not-closed",
            Self::DirectoryLoop { .. } => "directory-loop",
            Self::Decompress { .. } => "decompression-failed",
            Self::KeyNotFound { .. } => "key-not-found",
            Self::NotADirectory { .. } => "not-a-directory",
            Self::Compression { .. } => "compression-failed",
            Self::TooLarge { .. } => "record-too-large",
            Self::InvalidName { .. } | Self::RelativeName { .. } => "invalid-name",
            Self::NameTaken { .. } | Self::WouldHide { .. } => "name-taken",
            Self::Unfinished { .. } => "write-failed",
        }
    }
}
