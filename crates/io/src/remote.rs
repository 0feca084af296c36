//! What is in folders of servers.

use std::time::SystemTime;

use crate::IoError;
use crate::source::list_xrootd;

/// Something in a folder of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteEntry {
    /// Its name, without the folder's.
    pub name: String,
    /// Whether it is a folder itself.
    pub is_folder: bool,
    /// Its size in bytes, where the server says it.
    pub size: Option<u64>,
    /// When it was last changed, where the server says it.
    pub modified: Option<SystemTime>,
}

/// What is in a folder of an XRootD server (`root://`, `roots://`), in the order of the names; of a redirector, what all of its
/// servers have.
///
/// # Errors
/// If it is no such URL, there is no such folder, it may not be read, or no server answers.
pub fn list_folder(url: &str) -> Result<Vec<RemoteEntry>, IoError> {
    list_xrootd(url)
}
