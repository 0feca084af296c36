//! Mapping a file into memory: the only unsafe code of the crate.

#![expect(
    unsafe_code,
    reason = "mapping a file is unsafe: another process can change the file beneath the map"
)]

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use memmap2::{Advice, Mmap};

/// A file mapped as a whole, and the same as [`Bytes`] that keep the map alive.
#[derive(Debug)]
pub(crate) struct FileMap {
    map: Arc<Mmap>,
    bytes: Bytes,
}

/// What [`Bytes`] holds on to.
struct MapOwner(Arc<Mmap>);

impl AsRef<[u8]> for MapOwner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl FileMap {
    /// Maps the first `size` bytes of `file`; `None` where that cannot be done or the file has become shorter.
    pub(crate) fn new(file: &File, size: u64) -> Option<Self> {
        let length = usize::try_from(size).ok().filter(|&length| length > 0)?;
        if file.metadata().ok()?.len() < size {
            return None;
        }
        // SAFETY: the map is read-only and private to this process, and its length is within the file at this moment.
        // What cannot be excluded is that another process writes to the file or cuts it: as with every reader by
        // mapping, bytes may then change between two reads, and an access beyond a new end raises SIGBUS. Nothing
        // decoded from the map is trusted without bounds checks, so changed bytes can not lead out of it; users of
        // files that are cut while being read are told to turn mapping off.
        let map = Arc::new(unsafe { memmap2::MmapOptions::new().len(length).map(file) }.ok()?);
        let bytes = Bytes::from_owner(MapOwner(Arc::clone(&map)));
        Some(Self { map, bytes })
    }

    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Starts reading `range` ahead into the page cache, from which mapped and positioned reads are both served.
    pub(crate) fn will_need(&self, range: &Range<u64>) {
        let end = range.end.min(self.map.len() as u64);
        let (Ok(start), Some(length)) =
            (usize::try_from(range.start), end.checked_sub(range.start))
        else {
            return;
        };
        if let (Ok(length), true) = (usize::try_from(length), length > 0) {
            // Only a hint: a kernel that refuses it reads later what it could have read now.
            let _refused = self.map.advise_range(Advice::WillNeed, start, length);
        }
    }
}
