//! The TFile container: header, keys, directories, streamer info; read and written. This crate does not
//! know what the objects mean.
//!
//! A ROOT file is a header followed by records. Each record is a key ([`Key`]: sizes, offset, class,
//! name, title) and a payload, compressed or not. The root directory and every subdirectory have a key
//! list, which is a record too; so are the lists of free segments and of streamer infos. All numbers
//! are big-endian. Five version numbers say independently whether offsets have 32 or 64 bits: that of
//! the file (≥ 1 000 000), and those of each key, directory record and free segment (> 1000). This
//! crate parses no payloads except streamer infos ([`StreamerInfo`]), which describe the classes; other
//! crates use [`StreamedCursor`].
//!
//! References: the `TFile`, `TKey`, `TDirectory`, `TStreamerInfo` and `TStreamerElement` pages of
//! ROOT's reference guide, and `io/doc/TFile` in its sources.
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
//! - Opening costs two reads. If the key list is within the beginning and the end of the file that the
//!   source holds, nothing else is read.
//! - Every length is compared with the available bytes before memory is allocated by it.
//! - No input causes a panic or an endless loop: directories that contain themselves are errors.

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
