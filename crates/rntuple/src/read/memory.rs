//! Memory of results: anonymous mappings, with huge pages if the system provides them, shared by reference.
//!
//! The first access to fresh memory costs more than decompressing into it. So unused mappings are kept for the next
//! read, up to a limit; the system may take their pages if it needs them (`MADV_FREE`). Their content is that of an
//! earlier read, so every byte of a new buffer must be written.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use femtobarn_fork::lock;
use femtobarn_io::IDLE_MEMORY;
use femtobarn_io::units::parse_bytes;
use memmap2::MmapMut;

use crate::RNTupleError;

/// Buffers start at multiples of this, Arrow's recommended alignment.
const ALIGNMENT: usize = 64;
/// Small buffers share a mapping of this size; a larger buffer has its own. A mapping lives as long as its last buffer.
const SLAB: usize = 16 << 20;
/// The smallest size of a mapping.
const SMALLEST: usize = 1 << 16;
/// The most memory of unused mappings, unless the variable FEMTOBARN_IDLE_MEMORY sets another limit.
const MOST_IDLE: usize = 1 << 30;

/// A mapping. When dropped, it is kept for the next read or write.
#[derive(Debug)]
pub(crate) struct Slab(Option<MmapMut>);

impl Slab {
    /// The size of a huge page.
    pub(crate) const HUGE: usize = 2 << 20;

    /// A mapping of at least this many bytes, with arbitrary content.
    pub(crate) fn new(length: usize) -> Result<Self, RNTupleError> {
        let length = size_class(length);
        let waiting = lock(&IDLE).take(length);
        match waiting {
            Some(map) => Ok(Self(Some(map))),
            None => map(length).map(|map| Self(Some(map))),
        }
    }
}

/// An exclusive part of a slab, on any thread. The slab lives as long as its last part.
#[derive(Debug)]
pub(crate) struct Piece {
    start: NonNull<u8>,
    length: usize,
    _slab: Arc<Slab>,
}

#[expect(unsafe_code, reason = "the piece owns its bytes, like a vector")]
// SAFETY: no other piece has these bytes, and the slab that was cut is not accessed any more
unsafe impl Send for Piece {}

#[expect(unsafe_code, reason = "as for Send: a shared piece is only read")]
// SAFETY: as above
unsafe impl Sync for Piece {}

impl Slab {
    /// Cuts a slab into pieces of this size.
    pub(crate) fn cut(mut self, length: usize) -> impl Iterator<Item = Piece> {
        let starts: Vec<NonNull<u8>> = self
            .chunks_exact_mut(length)
            .map(|chunk| NonNull::from(chunk).cast())
            .collect();
        let slab = Arc::new(self);
        starts.into_iter().map(move |start| Piece {
            start,
            length,
            _slab: slab.clone(),
        })
    }
}

#[expect(
    unsafe_code,
    reason = "thousands of columns share huge pages, which no safe type cuts"
)]
impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: a chunk of the slab, whose mapping stays where it is and lives as long as this
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

#[expect(unsafe_code, reason = "as above")]
impl DerefMut for Piece {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and no other piece has a part of the chunk
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Deref for Slab {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Slab {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.as_deref_mut().unwrap_or_default()
    }
}

impl AsRef<[u8]> for Slab {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        let Some(map) = self.0.take() else { return };
        let excess = lock(&IDLE).keep(map, most_idle());
        drop(excess);
    }
}

/// A buffer of `n` numbers, filled by the caller.
pub(crate) fn filled<T: bytemuck::Pod>(
    n: usize,
    fill: impl FnOnce(&mut [T]),
) -> Result<Bytes, RNTupleError> {
    let mut slabs = Slabs::allocate(&[n.saturating_mul(size_of::<T>())])?;
    if let Some(buffer) = slabs.buffers().into_iter().next() {
        // buffers of slabs are aligned
        fill(bytemuck::try_cast_slice_mut(buffer).unwrap_or_default());
    }
    Ok(slabs.freeze().into_iter().next().unwrap_or_default())
}

/// Unused mappings, oldest first.
#[derive(Debug)]
struct Idle {
    maps: Vec<MmapMut>,
    n_bytes: usize,
}

static IDLE: Mutex<Idle> = Mutex::new(Idle {
    maps: Vec::new(),
    n_bytes: 0,
});

impl Idle {
    /// The newest mapping of this size.
    fn take(&mut self, length: usize) -> Option<MmapMut> {
        let at = self.maps.iter().rposition(|map| map.len() == length)?;
        self.n_bytes -= length;
        Some(self.maps.remove(at))
    }

    /// Keeps a mapping; returns those that exceed the limit.
    fn keep(&mut self, map: MmapMut, most: usize) -> Vec<MmapMut> {
        if map.len() > most {
            return vec![map];
        }
        may_be_taken(&map);
        self.n_bytes += map.len();
        self.maps.push(map);
        let mut excess = Vec::new();
        while self.n_bytes > most {
            let oldest = self.maps.remove(0);
            self.n_bytes -= oldest.len();
            excess.push(oldest);
        }
        excess
    }
}

fn most_idle() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let wanted = std::env::var(IDLE_MEMORY).ok();
        let wanted = wanted.and_then(|text| parse_bytes(&text));
        wanted.map_or(MOST_IDLE, |n| usize::try_from(n).unwrap_or(usize::MAX))
    })
}

/// The next mapping size: eight sizes per doubling, so that mappings are often reusable, and the untouched end, which
/// takes no memory, is small.
fn size_class(length: usize) -> usize {
    let doubling = length
        .checked_next_power_of_two()
        .unwrap_or(1 << (usize::BITS - 1));
    length
        .max(1)
        .checked_next_multiple_of((doubling / 16).max(SMALLEST))
        .unwrap_or(length)
}

/// Tells the system that it may take the pages of an unused mapping.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables))]
fn may_be_taken(map: &MmapMut) {
    #[cfg(target_os = "linux")]
    #[expect(
        unsafe_code,
        reason = "the advice may change the content, which is overwritten before it is read"
    )]
    // only advice: without it the process keeps the memory until the next read
    let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::Free) };
}

/// A set of buffers that is filled, then frozen.
#[derive(Debug, Default)]
pub struct Slabs {
    slabs: Vec<Slab>,
    places: Vec<(usize, usize, usize)>,
}

impl Slabs {
    /// Allocates buffers of these sizes with arbitrary content: every byte must be written.
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
            slabs.slabs.push(Slab::new(length)?);
        }
        Ok(slabs)
    }

    /// The buffers to write, in the order of the sizes given.
    pub fn buffers(&mut self) -> Vec<&mut [u8]> {
        let mut rests: Vec<(usize, &mut [u8])> = self
            .slabs
            .iter_mut()
            .map(|slab| (0, slab.0.as_deref_mut().unwrap_or_default()))
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
    if length >= Slab::HUGE {
        // only advice: without huge pages the memory is just slower
        let _ = map.advise(memmap2::Advice::HugePage);
    }
    Ok(map)
}

/// Returns an error if a result does not fit into memory, instead of being killed while filling it.
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
            reason: format!("{available} are available; read fewer columns or entries, or iterate"),
        }),
        _ => Ok(()),
    }
}

/// Memory that can be used without swapping: that of the machine, or of this process' control groups (a batch job, a
/// container) if they have less.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok();
    let machine = text.as_deref().and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    });
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok();
    let groups = groups.and_then(|groups| left_in_groups(Path::new("/sys/fs/cgroup"), &groups));
    machine.into_iter().chain(groups).min()
}

/// The smallest remaining memory of the control groups of a process and their parents. Cached files count as free.
/// `groups` has the format of `/proc/self/cgroup`, version 1 or 2.
fn left_in_groups(root: &Path, groups: &str) -> Option<u64> {
    let number = |path: PathBuf| -> Option<u64> {
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().parse().ok()
    };
    let cached = |folder: &Path, prefix: &str| -> u64 {
        let text = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let files = lines.filter(|(name, _)| {
            let name = name.strip_prefix(prefix);
            name.is_some_and(|name| matches!(name, "active_file" | "inactive_file"))
        });
        files.filter_map(|(_, n)| n.parse::<u64>().ok()).sum()
    };
    let left = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (root, limit, used, prefix) = match controllers {
            "" => (root.to_owned(), "memory.max", "memory.current", ""),
            "memory" => (
                root.join("memory"),
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_",
            ),
            _ => return None,
        };
        let own = root.join(path.trim_start_matches('/'));
        let around = own
            .ancestors()
            .take_while(|folder| folder.starts_with(&root));
        around
            .filter_map(|folder| {
                let used = number(folder.join(used))?.saturating_sub(cached(folder, prefix));
                Some(number(folder.join(limit))?.saturating_sub(used))
            })
            .min()
    });
    left.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_apart() {
        let sizes = [0, 1, 100, SLAB - 64, SLAB + 1, 64, 7];
        let mut slabs = Slabs::allocate(&sizes).unwrap();
        for (i, buffer) in (0u8..).zip(slabs.buffers()) {
            assert_eq!(buffer.len(), sizes[usize::from(i)]);
            assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
            buffer.fill(i + 1);
        }
        for ((i, buffer), size) in (0u8..).zip(slabs.freeze()).zip(sizes) {
            assert!(buffer.len() == size && buffer.iter().all(|&b| b == i + 1));
        }
    }

    #[test]
    fn a_mapping_is_used_again_when_its_last_buffer_is_gone() {
        // a size that no other test uses
        let size = 5 * SLAB + 2;
        let mut slabs = Slabs::allocate(&[size]).unwrap();
        let place = slabs.buffers()[0].as_ptr();
        let frozen = slabs.freeze();
        let other = Slabs::allocate(&[size]).unwrap().buffers()[0].as_ptr();
        assert_ne!(place, other, "it is still in use");
        let slice = frozen[0].slice(7..8);
        drop(frozen);
        drop(slice);
        let again = Slabs::allocate(&[size - 1]).unwrap().buffers()[0].as_ptr();
        assert_eq!(place, again);
    }

    #[test]
    fn idle_mappings_are_limited() {
        let mut idle = Idle {
            maps: Vec::new(),
            n_bytes: 0,
        };
        let quarter = MOST_IDLE / 4;
        for _ in 0..4 {
            assert!(idle.keep(map(quarter).unwrap(), MOST_IDLE).is_empty());
        }
        assert_eq!(idle.keep(map(SMALLEST).unwrap(), MOST_IDLE).len(), 1);
        assert_eq!(idle.n_bytes, 3 * quarter + SMALLEST);
        assert_eq!(idle.keep(map(MOST_IDLE + 1).unwrap(), MOST_IDLE).len(), 1);
        assert!(idle.take(quarter).is_some() && idle.take(quarter + 1).is_none());
    }

    #[test]
    fn sizes_of_mappings_waste_little() {
        for length in [
            0,
            1,
            SMALLEST,
            SMALLEST + 1,
            1 << 20,
            SLAB - 64,
            SLAB,
            SLAB + 1,
            5 << 27,
            usize::MAX,
        ] {
            let class = size_class(length);
            assert!(class >= length && size_class(class) == class, "{length}");
            assert!(class - length <= SMALLEST.max(length / 8), "{length}");
        }
    }

    #[test]
    fn a_control_group_limits_memory_but_for_cached_files() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let left = |groups| left_in_groups(folder.path(), groups);
        assert_eq!(left("0::/job/step\n"), None);
        put("job/step/memory.max", "max\n");
        put("job/step/memory.current", "700\n");
        assert_eq!(left("0::/job/step\n"), None);
        put("job/memory.max", "1000\n");
        put("job/memory.current", "900\n");
        put(
            "job/memory.stat",
            "anon 600\ninactive_file 200\nactive_file 100\n",
        );
        assert_eq!(left("0::/job/step\n"), Some(400));
        put("memory/slurm/memory.limit_in_bytes", "500\n");
        put("memory/slurm/memory.usage_in_bytes", "450\n");
        put(
            "memory/slurm/memory.stat",
            "inactive_file 1\ntotal_inactive_file 50\n",
        );
        let both = "8:pids:/\n4:memory:/slurm\n0::/job\n";
        assert_eq!(left(both), Some(100));
    }

    #[test]
    fn a_result_beyond_the_machine_is_refused() {
        assert!(matches!(
            Slabs::allocate(&[usize::MAX / 4, 1]),
            Err(RNTupleError::Memory { .. })
        ));
    }
}
