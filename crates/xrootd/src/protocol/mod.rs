//! Messages of the XRootD protocol as bytes: what a client sends, and what a server answers. No I/O, no clock.
//!
//! By `XProtocol.hh` of XRootD, version 5.2.0 of the protocol. All numbers are big-endian.

mod cursor;
mod request;
mod response;

pub use request::{
    DirListOptions, Element, FileHandle, Mode, OpenFlags, QueryKind, Request, handshake,
};
pub use response::{
    DirEntry, Flags, Header, Login, Opened, PageRead, Protocol, Redirect, SessionId, Stat, Status,
    StatusBody, Wait, attention, dir_entries, error, locations, login, opened, page_length,
    page_read, page_write, page_written, protocol, readv, redirect, stat, status_body, wait,
};

/// The version of the protocol that is spoken.
pub const VERSION: i32 = 0x520;

/// Bytes of the header of an answer.
pub const HEADER_LENGTH: usize = 8;

/// Bytes of a page of `pgread` and `pgwrite`, each of which has a checksum.
pub const PAGE: u64 = 4096;

/// The most elements of a vector read, unless the server says otherwise (`XrdProto::maxRvecsz`).
pub const MOST_ELEMENTS: usize = 1024;

/// The most bytes of an element of a vector read, unless the server says otherwise (`XrdProto::maxRVdsz`).
pub const LARGEST_ELEMENT: u64 = 2_097_136;

/// What is wrong with an answer, or with what was to be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed answer: {what}: expected {expected}, found {found}")]
pub struct Malformed {
    /// What was being read.
    pub what: &'static str,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl Malformed {
    fn new(what: &'static str, expected: impl ToString, found: impl ToString) -> Self {
        Self {
            what,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }
}
