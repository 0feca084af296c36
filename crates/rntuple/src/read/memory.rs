//! Memory of results: anonymous mappings, huge pages where the system gives them, shared by reference.

use bytes::Bytes;
use memmap2::MmapMut;

use crate::RNTupleError;

/// Buffers start at multiples of this, Arrow's recommended alignment.
const ALIGNMENT: usize = 64;
/// Small buffers share a mapping of this size; a larger one has its own. A buffer that lives on keeps its mapping.
const SLAB: usize = 16 << 20;

/// A set of zeroed buffers that is filled, then frozen.
#[derive(Debug, Default)]
pub(super) struct Slabs {
    slabs: Vec<MmapMut>,
    places: Vec<(usize, usize, usize)>,
}

impl Slabs {
    /// Allocates zeroed buffers of these sizes.
    pub fn allocate(sizes: &[usize]) -> Result<Self, RNTupleError> {
        check_limit(sizes)?;
        let mut slabs = Self::default();
        let mut lengths: Vec<usize> = Vec::new();
        let mut open: Option<usize> = None;
        for &size in sizes {
            let padded = size.next_multiple_of(ALIGNMENT);
            let fits =
                open.filter(|&slab| lengths.get(slab).is_some_and(|used| used + padded <= SLAB));
            let slab = fits.unwrap_or_else(|| {
                lengths.push(0);
                lengths.len() - 1
            });
            open = Some(slab);
            if let Some(used) = lengths.get_mut(slab) {
                slabs.places.push((slab, *used, size));
                *used += padded;
            }
        }
        for length in lengths {
            slabs.slabs.push(map(length)?);
        }
        Ok(slabs)
    }

    /// The buffers to write, in the order of the sizes given.
    pub fn buffers(&mut self) -> Vec<&mut [u8]> {
        let mut rests: Vec<(usize, &mut [u8])> = self
            .slabs
            .iter_mut()
            .map(|slab| (0, &mut slab[..]))
            .collect();
        let mut out = Vec::with_capacity(self.places.len());
        for &(slab, offset, size) in &self.places {
            let Some((position, rest)) = rests.get_mut(slab) else {
                continue;
            };
            let skipped = offset.saturating_sub(*position);
            let taken = std::mem::take(rest);
            let Some((_, taken)) = taken.split_at_mut_checked(skipped) else {
                continue;
            };
            let Some((buffer, left)) = taken.split_at_mut_checked(size) else {
                continue;
            };
            out.push(buffer);
            *position = offset + size;
            *rest = left;
        }
        out
    }

    /// The buffers, read-only and shared.
    pub fn freeze(self) -> Vec<Bytes> {
        let slabs: Vec<Bytes> = self.slabs.into_iter().map(Bytes::from_owner).collect();
        let slice = |&(slab, offset, size): &(usize, usize, usize)| {
            slabs.get(slab).map_or_else(Bytes::new, |bytes: &Bytes| {
                bytes.slice(offset..offset + size)
            })
        };
        self.places.iter().map(slice).collect()
    }
}

fn map(length: usize) -> Result<MmapMut, RNTupleError> {
    let failed = |error: std::io::Error| RNTupleError::Memory {
        bytes: length as u64,
        reason: error.to_string(),
    };
    let map = MmapMut::map_anon(length.max(1)).map_err(failed)?;
    #[cfg(target_os = "linux")]
    if length >= 2 << 20 {
        // only advice: without huge pages the memory works as well, more slowly
        let _ = map.advise(memmap2::Advice::HugePage);
    }
    Ok(map)
}

/// Refuses a result that does not fit into the machine, instead of being killed while filling it.
fn check_limit(sizes: &[usize]) -> Result<(), RNTupleError> {
    let bytes = sizes
        .iter()
        .fold(0u64, |sum, &size| sum.saturating_add(size as u64));
    if bytes < 1 << 28 {
        return Ok(());
    }
    match available() {
        Some(available) if bytes > available => Err(RNTupleError::Memory {
            bytes,
            reason: format!(
                "the machine has {available} available; read fewer columns or entries, or iterate"
            ),
        }),
        _ => Ok(()),
    }
}

/// Memory that can be had without swapping, in bytes.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_zeroed_aligned_and_apart() {
        let sizes = [0, 1, 100, SLAB - 64, SLAB + 1, 64, 7];
        let mut slabs = Slabs::allocate(&sizes).unwrap();
        for (i, buffer) in (0u8..).zip(slabs.buffers()) {
            assert_eq!(buffer.len(), sizes[usize::from(i)]);
            assert!(buffer.iter().all(|&b| b == 0));
            assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
            buffer.fill(i + 1);
        }
        for ((i, buffer), size) in (0u8..).zip(slabs.freeze()).zip(sizes) {
            assert!(buffer.len() == size && buffer.iter().all(|&b| b == i + 1));
        }
    }

    #[test]
    fn a_result_beyond_the_machine_is_refused() {
        assert!(matches!(
            Slabs::allocate(&[usize::MAX / 4, 1]),
            Err(RNTupleError::Memory { .. })
        ));
    }
}
