//! Maps files into memory.

#![expect(
    unsafe_code,
    reason = "mapping a file is unsafe: another process can change the file beneath the map"
)]

use std::fs::File;

use bytes::Bytes;
use memmap2::{Mmap, MmapOptions};

/// Maps the first `size` bytes of `file`; `None` if this is not possible or not safe, or if the file has become
/// shorter.
pub(crate) fn map(file: &File, size: u64) -> Option<Bytes> {
    let length = usize::try_from(size).ok().filter(|&length| length > 0)?;
    if file.metadata().ok()?.len() < size || !is_local(file) {
        return None;
    }
    // SAFETY: the map is read-only and private to this process, and its length is within the file at this moment.
    // Another process may still write to the file or truncate it. Then, as for every reader with a memory map, bytes
    // may change between two reads, and an access beyond the new end raises SIGBUS. All decoding from the map has
    // bounds checks, so changed bytes cannot lead outside it. If files may be truncated during reading, mapping must
    // be disabled.
    let map: Mmap = unsafe { MmapOptions::new().len(length).map(file) }.ok()?;
    Some(Bytes::from_owner(map))
}

/// Whether the file system is local, so that no other machine can truncate a mapped file. Network file systems and
/// user-space file systems (NFS, AFS, FUSE) may fail while a file is mapped, which kills the process.
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
    // the type of the field differs between machines, but not the values
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    rustix::fs::fstatfs(file).is_ok_and(|found| LOCAL.contains(&(found.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_local(_: &File) -> bool {
    true
}
