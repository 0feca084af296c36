//! Shares blocks between files (`FICLONERANGE`), and counts shared blocks (`FIEMAP`), on Linux.
#![expect(
    unsafe_code,
    reason = "these system calls have no safe wrapper: their arguments must have the kernel's memory layout"
)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use rustix::ioctl::{Opcode, Setter, Updater, ioctl, opcode};

/// `struct file_clone_range` of `linux/fs.h`.
#[repr(C)]
struct CloneRange {
    source: i64,
    source_offset: u64,
    length: u64,
    offset: u64,
}

/// `FICLONERANGE`.
const CLONE_RANGE: Opcode = opcode::write::<CloneRange>(0x94, 13);

/// Shares the blocks in `range` of one file with another file at `offset`, without copying. Offsets and length are
/// multiples of the file system's block size.
///
/// # Errors
/// If the file system does not support it, or the files are on two file systems.
pub(super) fn clone_range(
    from: &File,
    range: &Range<u64>,
    to: &File,
    offset: u64,
) -> io::Result<()> {
    let range = CloneRange {
        source: i64::from(from.as_raw_fd()),
        source_offset: range.start,
        length: range.end - range.start,
        offset,
    };
    // SAFETY: the argument of this request is a `file_clone_range`, which the kernel reads; both files are open.
    unsafe { ioctl(to, Setter::<CLONE_RANGE, _>::new(range)) }?;
    Ok(())
}

/// Number of extents per request.
const EXTENTS: usize = 256;

/// `FIEMAP_FLAG_SYNC`: data in memory are written first.
const SYNC: u32 = 1;
/// `FIEMAP_EXTENT_LAST` and `FIEMAP_EXTENT_SHARED`.
const LAST: u32 = 1;
const SHARED: u32 = 0x2000;

/// `struct fiemap_extent` of `linux/fiemap.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved_64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap`, with space for extents after it.
#[repr(C)]
struct Extents {
    start: u64,
    length: u64,
    flags: u32,
    n_mapped: u32,
    n_room: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

/// `FS_IOC_FIEMAP`, whose number contains the size of `struct fiemap` alone.
const FIEMAP: Opcode = opcode::read_write::<[u64; 4]>(b'f', 11);

/// Bytes of a range whose blocks are shared with other files or within the file, according to the file system.
///
/// # Errors
/// If the file system does not report it.
pub(super) fn shared_bytes(file: &File, range: &Range<u64>) -> io::Result<u64> {
    let mut shared = 0;
    let mut at = range.start;
    while at < range.end {
        let mut map = Extents {
            start: at,
            length: range.end - at,
            flags: SYNC,
            n_mapped: 0,
            n_room: u32::try_from(EXTENTS).unwrap_or(0),
            reserved: 0,
            extents: [Extent::default(); EXTENTS],
        };
        // SAFETY: the kernel reads and writes a `fiemap` for this request, followed by `n_room` extents.
        unsafe { ioctl(file, Updater::<FIEMAP, _>::new(&mut map)) }?;
        let found = map.extents.iter().take(map.n_mapped as usize);
        let mut end = None;
        for extent in found {
            let stop = extent.logical.saturating_add(extent.length);
            if extent.flags & SHARED != 0 {
                let own = extent.logical.max(range.start)..stop.min(range.end);
                shared += own.end.saturating_sub(own.start);
            }
            end = (extent.flags & LAST == 0).then_some(stop);
        }
        match end {
            Some(end) if end > at => at = end,
            _ => break,
        }
    }
    Ok(shared)
}
