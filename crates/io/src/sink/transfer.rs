//! Copies bytes from a source to a sink in the cheapest common way.

use std::fs::File;
use std::io;
use std::ops::Range;

use super::ByteSink;
use super::reflink::clone_range;
use crate::source::{is_local, read_one};
use crate::{ByteSource, IoError};

/// Page size of the kernel's cache.
const PAGE: u64 = 4096;

/// How bytes were copied from a source to a sink.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Bytes in blocks that were shared.
    pub cloned: u64,
    /// Bytes that the kernel copied.
    pub in_kernel: u64,
    /// Bytes that went through memory.
    pub through_memory: u64,
    /// Bytes that should have been shared, but were copied because the file system refused.
    pub refused: u64,
    /// Whether the two file systems cannot share blocks at all.
    pub unable: bool,
}

impl Transferred {
    /// The sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            cloned: self.cloned + other.cloned,
            in_kernel: self.in_kernel + other.in_kernel,
            through_memory: self.through_memory + other.through_memory,
            refused: self.refused + other.refused,
            unable: self.unable || other.unable,
        }
    }

    /// Total number of bytes.
    pub fn n_bytes(&self) -> u64 {
        self.cloned + self.in_kernel + self.through_memory
    }
}

/// Reads a range in pieces, with the preferred request size of the source, and writes it.
pub(super) fn through_memory<S: ByteSink + ?Sized>(
    sink: &S,
    source: &dyn ByteSource,
    range: &Range<u64>,
    offset: u64,
) -> Result<Transferred, IoError> {
    let cost = source.cost();
    let chunk = cost.largest_request.min(cost.largest_vector).max(1);
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min(at.saturating_add(chunk));
        let bytes = read_one(source, at..end)?;
        sink.write_at(offset + (at - range.start), &bytes)?;
        at = end;
    }
    Ok(Transferred {
        through_memory: range.end - range.start,
        ..Transferred::default()
    })
}

/// The blocks of a range that can be shared with blocks at `offset`: whole blocks, if both begin at the same offset
/// within a block.
fn blocks(range: &Range<u64>, offset: u64, block: u64) -> Option<Range<u64>> {
    if block == 0 || range.start % block != offset % block {
        return None;
    }
    let whole = range.start.next_multiple_of(block)..range.end - range.end % block;
    (whole.start < whole.end).then_some(whole)
}

/// Finished work, and remaining work as ranges of the source with their destinations.
pub(super) type Progress = (Transferred, Vec<(Range<u64>, u64)>);

/// Copies between files: shares the whole blocks if requested, and lets the kernel copy the rest. Returns the finished
/// work, and what could not be copied in this way.
pub(super) fn between_files(
    from: &File,
    to: &File,
    range: &Range<u64>,
    offset: u64,
    block: Option<u64>,
) -> io::Result<Progress> {
    let place = |at: u64| offset + (at - range.start);
    let mut done = Transferred::default();
    let mut rest = vec![range.clone()];
    if let Some(whole) = block.and_then(|block| blocks(range, offset, block)) {
        let n_bytes = whole.end - whole.start;
        match clone_range(from, &whole, to, place(whole.start)) {
            Ok(()) => {
                done.cloned = n_bytes;
                rest = vec![range.start..whole.start, whole.end..range.end];
            }
            // other errors concern these files or ranges
            Err(error) => {
                let kind = rustix::io::Errno::from_io_error(&error);
                done.unable = kind.is_some_and(|kind| {
                    use rustix::io::Errno;
                    [Errno::XDEV, Errno::OPNOTSUPP, Errno::NOTTY, Errno::NOSYS].contains(&kind)
                });
                done.refused = n_bytes;
            }
        }
    }
    let mut left = Vec::new();
    let is_local = is_local(from) && is_local(to);
    for part in rest {
        // between local files, the kernel copies page by page: with different offsets within pages, it copies each page
        // in two pieces, which takes three times as long as reading and writing
        let is_slow = is_local && part.start % PAGE != place(part.start) % PAGE;
        let copied = match is_slow {
            true => 0,
            false => copy_in_kernel(from, &part, to, place(part.start))?,
        };
        done.in_kernel += copied;
        let part = part.start + copied..part.end;
        if part.start < part.end {
            left.push((part.clone(), place(part.start)));
        }
    }
    Ok((done, left))
}

/// Returns the number of bytes that the kernel has copied: fewer than requested if it cannot copy them, as between some
/// file systems.
fn copy_in_kernel(from: &File, range: &Range<u64>, to: &File, offset: u64) -> io::Result<u64> {
    use rustix::io::Errno;

    let n_bytes = range.end - range.start;
    let (mut source, mut target) = (range.start, offset);
    while source < range.end {
        let wanted = usize::try_from(range.end - source).unwrap_or(usize::MAX);
        let copied = rustix::fs::copy_file_range(
            from,
            Some(&mut source),
            to,
            Some(&mut target),
            wanted.min(1 << 30),
        );
        match copied {
            // at the end of the source, or not supported: reading it finds out which
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::IO) => {
                copied?;
            }
            Err(_) => break,
        }
    }
    Ok(n_bytes - (range.end - source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemorySink, MemorySource, MeteredSource, Settings};

    /// Regression: a copy with a round trip of 50 ms requested 1 MiB at a time.
    #[test]
    fn copies_are_read_in_pieces_as_large_as_the_source_gives_well() {
        let content: Vec<u8> = (0..20_000_000_u32).map(|i| (i % 251) as u8).collect();
        for (largest, n_reads) in [("8 MiB", 3), ("1 MiB", 20)] {
            let settings = Settings::with("m", &[("largest_vector", largest)]).unwrap();
            let source = MemorySource::new("m", content.clone());
            let source = MeteredSource::of(source, &settings).unwrap();
            let sink = MemorySink::default();
            let done = through_memory(&sink, &*source, &(0..20_000_000), 0).unwrap();
            assert_eq!(done.through_memory, 20_000_000);
            assert_eq!(source.meter().unwrap().now().vectors, n_reads);
            assert!(sink.to_vec() == content);
        }
    }

    #[test]
    fn only_whole_blocks_at_congruent_places_are_shared() {
        assert_eq!(blocks(&(100..9000), 100, 4096), Some(4096..8192));
        assert_eq!(blocks(&(100..9000), 4196, 4096), Some(4096..8192));
        assert_eq!(blocks(&(100..9000), 101, 4096), None);
        assert_eq!(blocks(&(4096..8192), 0, 4096), Some(4096..8192));
        assert_eq!(blocks(&(4097..8192), 1, 4096), None);
        assert_eq!(blocks(&(0..4095), 0, 4096), None);
    }
}
