//! The TFile container: header, keys, directories, streamer info. Reads them and knows nothing of
//! what the objects mean.
//!
//! A ROOT file is a header followed by records. Each record is a key ([`Key`]: sizes, place, class,
//! name, title) and a payload, compressed or not. The root directory and every subdirectory have a
//! list of the keys in them, which is a record too; so are the list of free segments and the list
//! of streamer infos. All of it is big-endian, and five version numbers say independently of each
//! other whether offsets have 32 or 64 bits: the file's (≥ 1 000 000), and those of each key,
//! directory record and free segment (> 1000). What is inside a payload is for others to read,
//! with [`StreamedCursor`], save for the streamer infos ([`StreamerInfo`]), which describe the classes.
//!
//! Described by the `TFile`, `TKey`, `TDirectory`, `TStreamerInfo` and `TStreamerElement` pages of
//! ROOT's reference guide and by `io/doc/TFile` of its sources.
//!
//! ```no_run
//! use femtobarn_io::LocalSource;
//! use femtobarn_rootfile::RootFile;
//!
//! let file = RootFile::open(LocalSource::open("events.root".as_ref())?)?;
//! for entry in file.walk()? {
//!     println!("{};{}  {}", entry.path, entry.key.cycle, entry.key.class_name);
//! }
//! let object = file.read_object(&file.find("histograms/mass")?)?;
//! # Ok::<(), femtobarn_rootfile::RootFileError>(())
//! ```
//!
//! # Invariants
//!
//! - Opening costs two reads, none beyond the head and the tail of a file whose key list is there.
//! - Nothing is allocated by a length that was not compared with the bytes that are there.
//! - No input makes it panic or run forever: directories that lead back to themselves are errors.

mod cursor;
mod directory;
mod error;
mod file;
mod find;
mod free;
pub mod fuzz;
mod header;
mod key;
mod object;
mod streamed;
mod streamer;
#[cfg(test)]
mod tests;
mod values;
mod walk;
mod write;

pub use directory::{Directory, DirectoryRecord, without_cycle};
pub use error::RootFileError;
pub use file::RootFile;
pub use free::FreeSegment;
pub use header::FileHeader;
pub use key::Key;
pub use streamed::{
    BYTE_COUNT, MEMBER_WISE, ObjectBase, StreamedCursor, StreamedError, StreamedHeader,
    streamed_text,
};
pub use streamer::{Counter, ElementKind, StreamerElement, StreamerInfo};
pub use values::{Datime, Uuid};
pub use walk::Entry;
pub use write::FileWriter;
