//! What can go wrong when a ROOT file is read.

use femtobarn_codec::CodecError;
use femtobarn_io::IoError;

/// An error of the container. Offsets are positions in the file, except where `what` says that they
/// are inside an object.
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
        /// Where the magic bytes were looked for.
        offset: u64,
        /// What is there instead, in words.
        found: String,
    },
    /// Something ends before it should: the file was cut, or a length in it is wrong.
    #[error(
        "{url} is truncated at offset {offset}, in the {what}: expected {expected} bytes, found {found}"
    )]
    Truncated {
        /// The file.
        url: String,
        /// What was being read.
        what: &'static str,
        /// Where it begins, or where in it the bytes end.
        offset: u64,
        /// How many bytes it needs.
        expected: u64,
        /// How many there are.
        found: u64,
    },
    /// A value that no intact file has.
    #[error("corrupt: {what} of {url} at {offset}: expected {expected}, found {found}")]
    Corrupt {
        /// The file.
        url: String,
        /// What was being read.
        what: &'static str,
        /// Where.
        offset: u64,
        /// What would be right, in words.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The file has no list of its keys, because whatever wrote it did not come to its end.
    #[error(
        "not closed: {url}: expected the position of the key list at {offset}, found 0 \
         (the writing program ended before it closed the file)"
    )]
    NotClosed {
        /// The file.
        url: String,
        /// Where the root directory's record is.
        offset: u64,
    },
    /// A directory that contains itself, or is in two places, or shares bytes with others.
    #[error("directory loop in {url}: {path:?} at {offset} or its keys have been listed before")]
    DirectoryLoop {
        /// The file.
        url: String,
        /// Where it was met again.
        path: String,
        /// Where its record is.
        offset: u64,
    },
    /// The payload of an object could not be decompressed.
    #[error("cannot decompress an object of {url}: compression record at {offset}")]
    Decompress {
        /// The file.
        url: String,
        /// Where the compression record is that cannot be, or where one should be.
        offset: u64,
        /// What is wrong with it; offsets in there count from the record's.
        source: CodecError,
    },
    /// There is no key of that name.
    #[error("no {path:?} in {url}; {}", suggestion(nearest))]
    KeyNotFound {
        /// The file.
        url: String,
        /// What was looked for.
        path: String,
        /// The names in the file that resemble it most, best first.
        nearest: Vec<String>,
    },
    /// A path leads through something, or to something, that is no directory.
    #[error("not a directory: {path:?} in {url}: expected a directory, found a {found}")]
    NotADirectory {
        /// The file.
        url: String,
        /// The path.
        path: String,
        /// The class of what is there.
        found: String,
    },
    /// Compression settings that do not exist, or no memory to compress.
    #[error("cannot compress {name:?} for {url}")]
    Compression {
        /// The file.
        url: String,
        /// Name of the record.
        name: String,
        /// The cause.
        source: CodecError,
    },
    /// A record that is to be written, and larger than one can be.
    #[error(
        "record {name:?} is too large for {url}: expected at most {expected} bytes, found {found}"
    )]
    TooLarge {
        /// The file.
        url: String,
        /// Name of the record.
        name: String,
        /// The largest size.
        expected: u64,
        /// The size it would have.
        found: u64,
    },
    /// A name that no reader could ask for.
    #[error("{found:?} has no place in a name: {name:?} for {url}")]
    InvalidName {
        /// The file.
        url: String,
        /// The name.
        name: String,
        /// The character.
        found: char,
    },
    /// A directory called `.` or `..`, which stand for others in paths.
    #[error(
        "no directory is called {name:?}, which stands for another in paths: give the one in {url} another name"
    )]
    RelativeName {
        /// The file.
        url: String,
        /// The name.
        name: String,
    },
    /// A name that something of another class has.
    #[error("{url}: there is a {found} called {name:?}; give the {class_name} another name")]
    NameTaken {
        /// The file.
        url: String,
        /// The name.
        name: String,
        /// Class of what is there.
        found: String,
        /// Class of what was to be written.
        class_name: String,
    },
    /// A name that something of the same class has, which a further cycle would hide.
    #[error(
        "{url}: {name:?} is there already, and another of its name would hide it and all its fields. To add fields, write \
         them as an ntuple of another file, and put both side by side into a new one, by fb.join_columns or `fb join`; to \
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
    /// A file that is not written to any more.
    #[error("{url}: an earlier write failed, so the file cannot be completed")]
    Unfinished {
        /// The file.
        url: String,
    },
}

/// The end of the sentence about a name that is missing.
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
    /// A stable name of the error, the same in every language.
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
