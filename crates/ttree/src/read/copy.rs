//! Copies decoded pieces to their final position.

use std::sync::{Mutex, PoisonError};

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::encoding::promote;
use femtobarn_rntuple::read::Part;
use femtobarn_rntuple::schema::DType;

use super::engine::Found;
use super::origin::Origin;
use super::pieces::Pieced;

/// Copies decoded pieces.
pub(super) struct Copier<'a> {
    pub parts: &'a [Part],
    pub found: &'a Found,
}

impl Copier<'_> {
    /// Copies decoded pieces with all threads.
    pub fn all(&self, copies: Vec<Copy<'_>>, threads: usize) -> Result<(), RNTupleError> {
        let threads = threads.clamp(1, copies.len().max(1));
        let queue = Mutex::new(copies.into_iter());
        let failure = Mutex::new(None);
        let work = || {
            loop {
                let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(next) = next else { break };
                if let Err(error) = self.copy(next) {
                    failure
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .get_or_insert(error);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn copy(&self, copy: Copy<'_>) -> Result<(), RNTupleError> {
        match copy {
            Copy::Values {
                pieced,
                local,
                from,
                to,
                buffer,
            } => {
                let mut rest = buffer;
                for bytes in pieced.into_iter().flat_map(|pieced| pieced.column(local)) {
                    let n = bytes.len() / from.size() * to.size();
                    let taken = std::mem::take(&mut rest).split_at_mut_checked(n);
                    let Some((out, left)) = taken else {
                        return Err(RNTupleError::internal("pieces that do not fit"));
                    };
                    rest = left;
                    if from == to {
                        out.copy_from_slice(bytes);
                    } else {
                        promote(bytes, from, to, out);
                    }
                }
                Ok(())
            }
            Copy::Offsets { origins, buffer } => self.offsets(origins, buffer),
        }
    }

    /// Writes offsets over all parts.
    fn offsets(&self, origins: &[Origin], buffer: &mut [u8]) -> Result<(), RNTupleError> {
        let offsets: &mut [i64] = bytemuck::try_cast_slice_mut(buffer).unwrap_or_default();
        let (zero, rest) = offsets.split_at_mut_checked(1).unwrap_or_default();
        zero.fill(0);
        let mut places = rest.iter_mut();
        let mut sum = 0i64;
        for (part_id, (origin, part)) in origins.iter().zip(self.parts).enumerate() {
            match *origin {
                Origin::Offsets(counter) => {
                    let Some(counts) = self.found.counters.get(&(part_id, counter)) else {
                        continue;
                    };
                    let own = counts.of(part.start, part.stop);
                    let first = own.first().copied().unwrap_or(0);
                    let from = sum;
                    for (&before, place) in own.iter().skip(1).zip(&mut places) {
                        // sums were checked to be below 2^63
                        sum = from.saturating_add((before - first).cast_signed());
                        *place = sum;
                    }
                }
                Origin::Pieces { branch, local } => {
                    let pieced = self.found.pieced.get(&(part_id, branch));
                    let pieces = pieced.into_iter().flat_map(|pieced| pieced.column(local));
                    let lengths = pieces.flat_map(|bytes| bytes.as_chunks::<8>().0);
                    for (length, place) in lengths.zip(&mut places) {
                        sum = sum.saturating_add(i64::from_ne_bytes(*length));
                        *place = sum;
                    }
                }
                _ => return Err(RNTupleError::internal("values where offsets should be")),
            }
        }
        Ok(())
    }
}

/// What is copied to its final position at the end.
pub(super) enum Copy<'b> {
    Values {
        pieced: Option<&'b Pieced>,
        local: usize,
        from: DType,
        to: DType,
        buffer: &'b mut [u8],
    },
    Offsets {
        origins: &'b [Origin],
        buffer: &'b mut [u8],
    },
}
