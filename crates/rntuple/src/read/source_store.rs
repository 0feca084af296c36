//! Pages and envelopes in a source: in a file, or in the objects of a set.
//!
//! In files, payloads that exceed MaxKeySize are split over several keys.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use femtobarn_io::{
    ByteSource, CacheUse, LARGEST_OBJECT, SourceInfo, SourceStatus, Stage, Traffic, anchor_range,
    object_address,
};

use super::store::{NotStored, OpenedStore, PageStore, copy_into};
use crate::RNTupleError;
use crate::spec::{Anchor, ObjectAnchor, PageAddress, StoredRange};

/// The smallest valid MaxKeySize for split payloads.
const SMALLEST_KEY: u64 = 64;

/// What is expected of an address in objects.
const IN_OBJECT: &str = "a range in an object of at most 4 GiB";

/// The pages and envelopes of an ntuple in a source.
#[derive(Debug, Clone)]
pub struct SourceStore {
    source: Arc<dyn ByteSource>,
    /// Path of the ntuple in the file, for messages.
    path: String,
    /// Zero for no limit.
    max_key_size: u64,
    /// The anchor, if the source has the objects of a set.
    objects: Option<Arc<ObjectAnchor>>,
}

impl SourceStore {
    /// The store of an ntuple in this file; `path` is its path there, for messages.
    pub fn new(source: Arc<dyn ByteSource>, path: &str, max_key_size: u64) -> Self {
        Self {
            source,
            path: path.to_owned(),
            max_key_size,
            objects: None,
        }
    }

    /// The store of an ntuple whose pages and envelopes are objects (see [`femtobarn_io::ObjectSetSource`]).
    pub fn of_objects(source: Arc<dyn ByteSource>, path: &str, anchor: Arc<ObjectAnchor>) -> Self {
        Self {
            objects: Some(anchor),
            ..Self::new(source, path, 0)
        }
    }

    /// The store of an ntuple in objects, and its anchor, which is read and checked.
    ///
    /// # Errors
    /// If the anchor cannot be read, or is damaged.
    pub fn open_objects(
        source: Arc<dyn ByteSource>,
        path: &str,
    ) -> Result<(Self, Anchor), RNTupleError> {
        let range = anchor_range(source.meta().size);
        let bytes = source.read_ranges(std::slice::from_ref(&range))?;
        let bytes = bytes.first().map_or(&[][..], |bytes| bytes);
        let anchor = ObjectAnchor::parse(bytes).map_err(|error| RNTupleError::Spec {
            url: source.url().into(),
            ntuple: path.to_owned(),
            structure: "anchor",
            at: PageAddress::File(0),
            source: error,
        })?;
        let links = anchor.anchor;
        Ok((Self::of_objects(source, path, Arc::new(anchor)), links))
    }

    /// The same store over a layer of its source.
    #[must_use]
    pub fn over(&self, source: Arc<dyn ByteSource>) -> Self {
        Self {
            source,
            ..self.clone()
        }
    }

    /// The range of these bytes in the source; none if they are not of its kind.
    pub fn range(&self, stored: &StoredRange) -> Option<Range<u64>> {
        match stored.address {
            PageAddress::Object { id, offset } if self.objects.is_some() => {
                let end = u64::from(offset).checked_add(stored.size)?;
                let start = object_address(id, offset)?;
                (end <= 1 << 32).then(|| start..start + stored.size)
            }
            _ => stored.in_file().filter(|_| self.objects.is_none()),
        }
    }

    fn inconsistent(&self, what: &str, expected: String, found: String) -> RNTupleError {
        RNTupleError::Inconsistent {
            url: self.source.url().into(),
            ntuple: self.path.clone(),
            what: what.into(),
            expected,
            found,
        }
    }

    /// The range of a payload that is stored in one piece; none for others.
    fn piece(&self, stored: &StoredRange) -> Option<Range<u64>> {
        let is_whole = stored.size <= self.largest_piece();
        self.range(stored).filter(|_| is_whole)
    }

    /// The range of the first key of a payload.
    fn first_key(&self, stored: &StoredRange) -> Result<Range<u64>, RNTupleError> {
        let size = stored.size.min(self.largest_piece());
        let first = StoredRange { size, ..*stored };
        match self.range(&first) {
            Some(range) => self.key(range.start, size),
            None => Err(self.outside(stored.address, size)),
        }
    }

    fn key(&self, offset: u64, size: u64) -> Result<Range<u64>, RNTupleError> {
        let end = offset.checked_add(size);
        let end = end.filter(|&end| end <= self.source.meta().size);
        end.map(|end| offset..end)
            .ok_or_else(|| self.outside(PageAddress::File(offset), size))
    }

    fn outside(&self, address: PageAddress, size: u64) -> RNTupleError {
        let expected = match self.objects.is_some() {
            true => IN_OBJECT.to_owned(),
            false => format!("a range in {} bytes", self.source.meta().size),
        };
        let found = format!("{size} bytes at {address}");
        self.inconsistent("position of a payload", expected, found)
    }

    /// Joins a payload whose first key ends with the offsets of the other keys.
    fn join(&self, first: &Bytes, size: u64) -> Result<Bytes, RNTupleError> {
        let (largest, what) = (self.max_key_size, "payload over MaxKeySize");
        if largest < SMALLEST_KEY || size > self.source.meta().size {
            let expected = "keys of at least 64 bytes, within the file".to_owned();
            let found = format!("{size} bytes in keys of {largest}");
            return Err(self.inconsistent(what, expected, found));
        }
        let mut n_keys = size.div_ceil(largest);
        while n_keys
            .saturating_mul(largest)
            .saturating_sub(8 * (n_keys - 1))
            < size
        {
            n_keys += 1;
        }
        let pointers = usize::try_from(8 * (n_keys - 1)).unwrap_or(usize::MAX);
        let parts = first.len().checked_sub(pointers);
        let Some((data, offsets)) = parts.and_then(|at| first.split_at_checked(at)) else {
            let expected = format!("{pointers} bytes of offsets");
            return Err(self.inconsistent(what, expected, first.len().to_string()));
        };
        let mut left = size - data.len() as u64;
        let mut ranges = Vec::new();
        for pointer in offsets.as_chunks::<8>().0 {
            let part = left.min(largest);
            ranges.push(self.key(u64::from_le_bytes(*pointer), part)?);
            left -= part;
        }
        let parts = self.source.read_ranges(&ranges)?;
        let parts = parts.iter().map(|part| &part[..]);
        Ok(std::iter::once(data)
            .chain(parts)
            .collect::<Vec<_>>()
            .concat()
            .into())
    }
}

impl PageStore for SourceStore {
    fn info(&self) -> SourceInfo<'_> {
        self.source.info()
    }

    fn file(&self) -> Option<&Arc<dyn ByteSource>> {
        self.objects.is_none().then_some(&self.source)
    }

    fn objects(&self) -> Option<&ObjectAnchor> {
        self.objects.as_deref()
    }

    fn attribute_set(&self, name: &str) -> Result<Option<OpenedStore>, RNTupleError> {
        let base = self
            .objects()
            .and_then(|anchor| anchor.attribute_base(name));
        let source = base.map(|base| self.source.objects_below(&base));
        let Some(source) = source.transpose()?.flatten() else {
            return Ok(None);
        };
        let (store, anchor) = Self::open_objects(source, name)?;
        Ok(Some((Arc::new(store), anchor)))
    }

    fn page_list(&self, located: PageAddress) -> PageAddress {
        let lists = self.objects().map_or(0, |anchor| anchor.lists);
        match located {
            PageAddress::Object { id, offset } => PageAddress::Object {
                id: id.saturating_add(lists),
                offset,
            },
            PageAddress::File(_) | PageAddress::Unknown(_) => located,
        }
    }

    /// The other keys of a payload are checked when they are read.
    fn check(&self, stored: &StoredRange) -> Result<(), NotStored> {
        if let (PageAddress::Object { .. }, true) = (stored.address, self.objects.is_some()) {
            return match self.range(stored) {
                Some(_) => Ok(()),
                None => Err(NotStored::Beyond {
                    expected: format!("{IN_OBJECT}, up to object {LARGEST_OBJECT}"),
                }),
            };
        }
        let size = self.source.meta().size;
        let PageAddress::File(offset) = stored.address else {
            return Err(NotStored::Elsewhere);
        };
        let end = offset.checked_add(stored.size.min(self.largest_piece()));
        if end.is_none_or(|end| end > size) || stored.size > size {
            let expected = format!("a range within the file's {size} bytes");
            return Err(NotStored::Beyond { expected });
        }
        Ok(())
    }

    fn read(&self, stored: &[StoredRange]) -> Result<Vec<Bytes>, RNTupleError> {
        let first = stored.iter().map(|stored| self.first_key(stored));
        let first: Vec<Range<u64>> = first.collect::<Result<_, _>>()?;
        let mut out = self.source.read_ranges(&first)?;
        for (bytes, stored) in out.iter_mut().zip(stored) {
            if stored.size > self.largest_piece() {
                *bytes = self.join(bytes, stored.size)?;
            }
        }
        Ok(out)
    }

    fn read_into(&self, stored: &StoredRange, buffer: &mut [u8]) -> Result<(), RNTupleError> {
        if stored.size <= self.largest_piece() {
            let range = self.first_key(stored)?;
            return Ok(self.source.read_into(range.start, buffer)?);
        }
        copy_into(self, stored, buffer)
    }

    fn largest_piece(&self) -> u64 {
        match self.max_key_size {
            0 => u64::MAX,
            size => size,
        }
    }

    fn will_need(&self, stored: &[StoredRange]) {
        let ranges = stored.iter().filter_map(|stored| self.range(stored));
        self.source.will_need(&ranges.collect::<Vec<_>>());
    }

    fn reject(&self, stored: &StoredRange, again: bool) -> bool {
        // the other keys of a payload in several pieces are only known from its bytes
        let whole = || 0..self.source.meta().size;
        self.source
            .reject(&self.piece(stored).unwrap_or_else(whole), again)
    }

    fn peek(&self, stored: &StoredRange) -> Option<Bytes> {
        self.source.peek(&self.piece(stored)?)
    }

    fn map(&self, stored: &StoredRange) -> Option<Bytes> {
        let Range { start, end } = self.piece(stored)?;
        let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
        let map = self.source.map()?;
        (start <= end && end <= map.len()).then(|| map.slice(start..end))
    }

    fn n_requests(&self, stored: &[StoredRange]) -> u64 {
        let ranges = stored.iter().filter_map(|stored| self.range(stored));
        self.source.n_requests(&ranges.collect::<Vec<_>>())
    }

    fn traffic(&self) -> Option<Traffic> {
        self.source.traffic()
    }

    fn cached(&self) -> Option<CacheUse> {
        self.source.cached()
    }

    fn sources(&self) -> Option<Vec<SourceStatus>> {
        self.source.sources()
    }

    fn at_stage(&self, stage: Stage) -> Option<Arc<dyn PageStore>> {
        Some(Arc::new(Self {
            source: self.source.at_stage(stage)?,
            ..self.clone()
        }))
    }
}
