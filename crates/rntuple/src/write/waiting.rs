//! Memory of elements that wait for their page: blocks of one size, which are reused as soon as a page is made.
//!
//! Fresh memory costs more than processing the elements, and thousands of columns that grow and shrink would allocate it
//! again and again. So blocks are cut out of huge pages, and belong to the whole cluster.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::RNTupleError;
use crate::read::{Piece, Slab};

/// Size of a block: small compared with the elements of a few entries in thousands of columns.
const BLOCK: usize = 4096;

/// The free blocks of a cluster being filled, shared by several threads.
#[derive(Debug, Default)]
pub(super) struct Blocks(Mutex<Vec<Piece>>);

impl Blocks {
    fn free(&self) -> MutexGuard<'_, Vec<Piece>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Result<Piece, RNTupleError> {
        let mut free = self.free();
        if free.is_empty() {
            free.extend(Slab::new(Slab::HUGE)?.cut(BLOCK));
        }
        free.pop()
            .ok_or_else(|| RNTupleError::internal("no block where there is one"))
    }
}

/// The bytes of a column, in blocks.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    blocks: VecDeque<Piece>,
    /// Number of bytes in the first block that no longer wait.
    start: usize,
    len: usize,
}

impl Waiting {
    /// Number of waiting bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Memory of the blocks in bytes.
    pub fn n_held(&self) -> usize {
        self.blocks.len() * BLOCK
    }

    /// Adds bytes.
    pub fn append(&mut self, blocks: &Blocks, mut bytes: &[u8]) -> Result<(), RNTupleError> {
        while !bytes.is_empty() {
            let end = self.start + self.len;
            if end == self.n_held() {
                self.blocks.push_back(blocks.take()?);
            }
            let last = self.blocks.back_mut();
            let room = last.and_then(|block| block.get_mut(end % BLOCK..));
            let room = room.unwrap_or_default();
            let n = room.len().min(bytes.len());
            let (now, later) = bytes.split_at_checked(n).unwrap_or_default();
            room.get_mut(..n).unwrap_or_default().copy_from_slice(now);
            self.len += n;
            bytes = later;
        }
        Ok(())
    }

    /// The bytes of a range: directly if they are in one block, otherwise copied to `gathered`.
    pub fn bytes<'a>(&'a self, range: Range<usize>, gathered: &'a mut Vec<u8>) -> &'a [u8] {
        let (start, end) = (self.start + range.start, self.start + range.end);
        let first = start / BLOCK;
        if start < end && (end - 1) / BLOCK == first {
            let block = self.blocks.get(first);
            return block
                .and_then(|block| block.get(start % BLOCK..start % BLOCK + (end - start)))
                .unwrap_or_default();
        }
        gathered.clear();
        gathered.reserve(end - start);
        let mut skipped = start % BLOCK;
        for block in self.blocks.range(first.min(self.blocks.len())..) {
            let left = end - start - gathered.len();
            let block = block.get(skipped..).unwrap_or_default();
            gathered.extend_from_slice(block.get(..left).unwrap_or(block));
            skipped = 0;
            if gathered.len() == end - start {
                break;
            }
        }
        gathered
    }

    /// Removes bytes that have become a page.
    pub fn drop_first(&mut self, blocks: &Blocks, n: usize) {
        let n = n.min(self.len);
        self.start += n;
        self.len -= n;
        let mut free = blocks.free();
        while self.start >= BLOCK || self.len == 0 {
            let Some(block) = self.blocks.pop_front() else {
                self.start = 0;
                break;
            };
            free.push(block);
            self.start = self.start.saturating_sub(BLOCK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "below 251")]
    fn bytes_come_out_as_they_went_in_and_blocks_are_used_again() {
        let blocks = Blocks::default();
        let mut columns = [Waiting::default(), Waiting::default()];
        let mut expected = [Vec::new(), Vec::new()];
        let mut gathered = Vec::new();
        let mut state = 1u32;
        let mut random = |most: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as usize % most
        };
        for round in 0..2000 {
            let at = random(2);
            let bytes: Vec<u8> = (0..random(3 * BLOCK))
                .map(|i| ((i + round) % 251) as u8)
                .collect();
            columns[at].append(&blocks, &bytes).unwrap();
            expected[at].extend_from_slice(&bytes);
            let at = random(2);
            let len = expected[at].len();
            assert_eq!(columns[at].len(), len);
            if len > 0 {
                let from = random(len);
                let to = from + random(len - from + 1);
                assert!(columns[at].bytes(from..to, &mut gathered) == &expected[at][from..to]);
            }
            let n = if round % 50 == 0 {
                len
            } else {
                random(len.min(3 * BLOCK) + 1)
            };
            columns[at].drop_first(&blocks, n);
            expected[at].drain(..n);
            let held: usize = columns.iter().map(Waiting::n_held).sum();
            let waiting: usize = expected.iter().map(Vec::len).sum();
            assert!(held <= waiting + 4 * BLOCK);
            // every block of every slab is either in use or free
            assert_eq!((held + blocks.free().len() * BLOCK) % Slab::HUGE, 0);
        }
    }
}
