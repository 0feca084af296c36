//! What is read and written, and how.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;

use crate::ValueKey;

/// How values are read and written.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Requests in flight at the same time, for each call.
    pub in_flight: usize,
    /// The time without any answer after which a call fails.
    pub timeout: Duration,
    /// Asked ten times a second while a call waits; if it returns false, the call ends.
    pub goes_on: fn() -> bool,
    /// The library; by default `FEMTOBARN_LIBDAOS`, or libdaos.so of the system.
    pub library: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            in_flight: 16,
            timeout: Duration::from_secs(120),
            goes_on: || true,
            library: None,
        }
    }
}

/// A value to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetch {
    /// Its key.
    pub key: ValueKey,
    /// Memory to reserve: the size of the value if it is known. A larger value is read once more.
    pub room: u64,
}

/// A value to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// Its key.
    pub key: ValueKey,
    /// Its pieces, which become one value. They are not copied.
    pub parts: Vec<Bytes>,
}

/// What to do with values that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// They are replaced.
    Replaced,
    /// They are an error. Of several processes that write the same key, one succeeds.
    Refused,
}
