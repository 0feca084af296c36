//! Distinguishes a full disk from a broken one: LMDB reports both as a failed write.

use std::io::{Error, ErrorKind};
use std::path::Path;

use rustix::io::Errno;

use crate::EventsError;

/// A disk with less free space counts as full; the part of a write that fitted was written.
const LITTLE: u64 = 64 << 10;

/// The error of an engine operation in a directory.
pub fn failed(url: &str, doing: &str, folder: &Path, error: heed::Error) -> EventsError {
    match &error {
        heed::Error::Io(why) if is_full(why, folder) => EventsError::Full {
            url: url.into(),
            doing: doing.into(),
            folder: folder.display().to_string(),
            source: error.into(),
        },
        _ => EventsError::engine(url, doing, error),
    }
}

fn is_full(error: &Error, folder: &Path) -> bool {
    // LMDB reports every incomplete write as EIO.
    let is_cut_short = error.raw_os_error() == Some(Errno::IO.raw_os_error());
    error.kind() == ErrorKind::StorageFull
        || (is_cut_short && free(folder).is_some_and(|free| free < LITTLE))
}

/// Free bytes for this user on the disk of a directory; none if unknown.
fn free(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full disk was reported as a broken one.
    #[test]
    fn a_full_disk_is_told_from_a_broken_one() {
        let folder = tempfile::tempdir().unwrap();
        let kind = |errno: Errno, folder: &Path| {
            let error = heed::Error::Io(errno.into());
            failed("dir:x", "write", folder, error).kind()
        };
        assert_eq!(kind(Errno::NOSPC, folder.path()), "store-full");
        assert_eq!(kind(Errno::ACCESS, folder.path()), "store-engine");
        assert_eq!(kind(Errno::IO, folder.path()), "store-engine");
        // Nothing is ever free there.
        assert_eq!(kind(Errno::IO, Path::new("/proc")), "store-full");
        assert_eq!(kind(Errno::IO, Path::new("/proc/none")), "store-engine");
    }
}
