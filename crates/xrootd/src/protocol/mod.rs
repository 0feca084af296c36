//! Messages of the XRootD protocol as bytes: requests of a client and answers of a server. No I/O, no clock.
//!
//! Follows `XProtocol.hh` of XRootD, protocol version 5.2.0. All numbers are big-endian.

mod cursor;
mod request;
mod response;

pub use request::{Element, FileHandle, Mode, OpenFlags, QueryKind, Request, handshake};
pub use response::{
    DirEntry, Flags, Header, Login, Opened, PageRead, Protocol, Redirect, SessionId, Stat, Status,
    StatusBody, Wait, attention, dir_entries, error, locations, login, opened, page_length,
    page_read, page_write, page_written, protocol, readv, redirect, stat, status_body, wait,
};

/// The protocol version of this client.
pub const VERSION: i32 = 0x520;

/// Length of the header of an answer.
pub const HEADER_LENGTH: usize = 8;

/// Length of a page of `pgread` and `pgwrite`. Each page has a checksum.
pub const PAGE: u64 = 4096;

/// The most elements of a vector read, unless the server reports another limit (`XrdProto::maxRvecsz`).
pub const MOST_ELEMENTS: usize = 1024;

/// The most bytes of an element of a vector read, unless the server reports another limit
/// (`XrdProto::maxRVdsz`).
pub const LARGEST_ELEMENT: u64 = 2_097_136;

/// What is wrong with an answer, or with a request that cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed answer: {what}: expected {expected}, found {found}")]
pub struct Malformed {
    /// The item that was read.
    pub what: &'static str,
    /// What was expected.
    pub expected: String,
    /// What was found.
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
