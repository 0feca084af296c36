//! Mapping a file into memory: the only unsafe code of the crate.

#![expect(
    unsafe_code,
    reason = "mapping a file is unsafe: another process can change the file beneath the map"
)]

use std::fs::File;

use bytes::Bytes;
use memmap2::{Mmap, MmapOptions};

/// Maps the first `size` bytes of `file`; `None` where that cannot be done, or not safely, or the file has become
/// shorter.
pub(crate) fn map(file: &File, size: u64) -> Option<Bytes> {
    let length = usize::try_from(size).ok().filter(|&length| length > 0)?;
    if file.metadata().ok()?.len() < size || !is_local(file) {
        return None;
    }
    // SAFETY: the map is read-only and private to this process, and its length is within the file at this moment. What
    // cannot be excluded is that another process writes to the file or cuts it: as with every reader by mapping, bytes
    // may then change between two reads, and an access beyond a new end raises SIGBUS. Nothing decoded from the map is
    // trusted without bounds checks, so changed bytes can not lead out of it; users of files that are truncated during
    // reading must disable mapping.
    let map: Mmap = unsafe { MmapOptions::new().len(length).map(file) }.ok()?;
    Some(Bytes::from_owner(map))
}

/// Whether the file system is local, where no other machine can truncate a mapped file. Those of a network or of a
/// program (NFS, FUSE and what stands on it, AFS) may fail in the middle of a map, which kills the process.
#[cfg(target_os = "linux")]
pub(crate) fn is_local(file: &File) -> bool {
    // From statfs(2): tmpfs, ext2 to ext4, XFS, btrfs, overlayfs, F2FS, ZFS, bcachefs
    const LOCAL: [u32; 8] = [
        0x0102_1994,
        0xef53,
        0x5846_5342,
        0x9123_683e,
        0x794c_7630,
        0xf2f5_2010,
        0x2fc1_2fc1,
        0xca45_1a4e,
    ];
    // the type has other widths on other machines, but the numbers are these
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    rustix::fs::fstatfs(file).is_ok_and(|found| LOCAL.contains(&(found.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_local(_: &File) -> bool {
    true
}
