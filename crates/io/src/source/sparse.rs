//! Bytes in memory at some positions of a large address space.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::{ByteSink, ByteSource, IoError, SourceCost, SourceInfo, SourceMeta};

/// Size of a block. Blocks of zeros take no memory.
const BLOCK: u64 = 4 << 10;

/// Bytes in memory, to be written and then read. What was not written is zero, and zeros take no memory: a layout whose
/// pages are zeros can be made and read without them.
#[derive(Debug, Default)]
pub struct SparseMemory(Mutex<Blocks>);

#[derive(Debug, Default)]
struct Blocks {
    by_number: BTreeMap<u64, Vec<u8>>,
    size: u64,
}

impl Blocks {
    fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.size = self.size.max(offset.saturating_add(bytes.len() as u64));
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (number, start) = (at / BLOCK, place(at % BLOCK));
            let room = place(BLOCK) - start;
            let (piece, more) = rest.split_at(room.min(rest.len()));
            let is_zero = piece.iter().all(|&byte| byte == 0);
            if !is_zero || self.by_number.contains_key(&number) {
                let block = self.by_number.entry(number);
                let block = block.or_insert_with(|| vec![0; place(BLOCK)]);
                if let Some(own) = block.get_mut(start..start + piece.len()) {
                    own.copy_from_slice(piece);
                }
            }
            at += piece.len() as u64;
            rest = more;
        }
    }

    fn read(&self, range: &Range<u64>, length: usize) -> Bytes {
        let mut out = vec![0; length];
        let numbers = range.start / BLOCK..range.end.div_ceil(BLOCK);
        for (number, block) in self.by_number.range(numbers) {
            let first = number * BLOCK;
            let (from, to) = (range.start.max(first), range.end.min(first + BLOCK));
            let own = block.get(place(from - first)..place(to - first));
            let target = out.get_mut(place(from - range.start)..place(to - range.start));
            if let (Some(own), Some(target)) = (own, target) {
                target.copy_from_slice(own);
            }
        }
        out.into()
    }
}

/// A position within memory.
fn place(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

impl SparseMemory {
    fn lock(&self) -> MutexGuard<'_, Blocks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A source of these bytes, which are not written any more.
    #[must_use]
    pub fn source(self: Arc<Self>, url: &str) -> Arc<dyn ByteSource> {
        let size = self.lock().size;
        Arc::new(SparseSource {
            url: url.to_owned(),
            meta: SourceMeta {
                size,
                ..SourceMeta::default()
            },
            memory: self,
        })
    }
}

impl ByteSink for SparseMemory {
    fn url(&self) -> &str {
        "mem:sparse"
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.lock().write(offset, bytes);
        Ok(())
    }

    fn sync(&self) -> Result<(), IoError> {
        Ok(())
    }

    fn commit(&self) -> Result<(), IoError> {
        Ok(())
    }
}

#[derive(Debug)]
struct SparseSource {
    url: String,
    meta: SourceMeta,
    memory: Arc<SparseMemory>,
}

impl ByteSource for SparseSource {
    fn info(&self) -> SourceInfo<'_> {
        SourceInfo::new(&self.url, &self.meta, SourceCost::default())
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        None
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        let read = |range: &Range<u64>| {
            let length = self.meta.check(&self.url, range)?;
            Ok(self.memory.lock().read(range, length))
        };
        ranges.iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_zeros_take_no_memory() {
        let memory = Arc::new(SparseMemory::default());
        let far = 1 << 40;
        memory.write_at(4090, b"0123456789").unwrap();
        memory.write_at(10_000, &[0; 100_000]).unwrap();
        memory.write_at(far, b"end").unwrap();
        memory.write_at(4092, &[0; 2]).unwrap();
        assert_eq!(memory.lock().by_number.len(), 3);
        let source = memory.source("mem:x");
        assert_eq!(source.meta().size, far + 3);
        let read = source.read_ranges(&[4088..4101, 20_000..20_002, far..far + 3]);
        let read = read.unwrap();
        assert_eq!(read[0], &b"\x00\x0001\x00\x00456789\x00"[..]);
        assert_eq!(read[1], &b"\x00\x00"[..]);
        assert_eq!(read[2], "end");
        assert!(
            source
                .read_ranges(std::slice::from_ref(&(far..far + 4)))
                .is_err()
        );
    }
}
