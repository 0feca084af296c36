//! Files that ROOT would not write, or only too large ones: assembled in a source that is mostly
//! holes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use femtobarn_io::{ByteSource, IoError, SourceCost, SourceInfo, SourceMeta};

use crate::write::encode;
use crate::{Datime, Key};

/// A source of any size that is zero where nothing was written.
#[derive(Debug)]
pub(super) struct SparseSource {
    meta: SourceMeta,
    parts: BTreeMap<u64, Vec<u8>>,
}

impl ByteSource for SparseSource {
    fn info(&self) -> SourceInfo<'_> {
        let cost = SourceCost::default();
        SourceInfo::new("mem:sparse", &self.meta, cost)
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        None
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        let read = |range: &Range<u64>| {
            let length = self.meta.check(self.url(), range)?;
            let mut bytes = vec![0; length];
            for (&start, part) in &self.parts {
                let end = start + part.len() as u64;
                let (from, to) = (range.start.max(start), range.end.min(end));
                if from < to {
                    let at = |base: u64| {
                        let within = |offset: u64| usize::try_from(offset - base).unwrap();
                        within(from)..within(to)
                    };
                    bytes[at(range.start)].copy_from_slice(&part[at(start)]);
                }
            }
            Ok(Bytes::from(bytes))
        };
        ranges.iter().map(read).collect()
    }
}

/// Which of the five version switches are set.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Widths {
    pub(super) file: bool,
    pub(super) key: bool,
    pub(super) root: bool,
    pub(super) subdirectory: bool,
    pub(super) free: bool,
}

/// The content of a directory's record.
pub(super) struct DirectoryParts {
    pub(super) wide: bool,
    pub(super) n_bytes_keys: u32,
    pub(super) seek_dir: u64,
    pub(super) seek_keys: u64,
}

#[derive(Debug, Default)]
pub(super) struct Builder {
    parts: BTreeMap<u64, Vec<u8>>,
}

pub(super) const BEGIN: u64 = 100;

impl Builder {
    pub(super) fn put(&mut self, offset: u64, bytes: Vec<u8>) {
        self.parts.insert(offset, bytes);
    }

    pub(super) fn source(self, size: u64) -> Arc<SparseSource> {
        let meta = SourceMeta {
            size,
            modified: None,
            etag: None,
        };
        Arc::new(SparseSource {
            meta,
            parts: self.parts,
        })
    }

    /// Writes a record and returns its key.
    pub(super) fn record(
        &mut self,
        offset: u64,
        wide: bool,
        class_and_name: (&str, &str),
        payload: &[u8],
    ) -> Key {
        let (class_name, name) = class_and_name;
        let mut key = Key {
            n_bytes: 0,
            version: if wide { 1004 } else { 4 },
            object_len: u32::try_from(payload.len()).unwrap(),
            datetime: Datime(0),
            key_len: 0,
            cycle: 1,
            seek_key: offset,
            seek_parent: BEGIN,
            class_name: class_name.to_owned(),
            name: name.to_owned(),
            title: String::new(),
        };
        key.key_len = u16::try_from(key_bytes(&key).len()).unwrap();
        key.n_bytes = u32::from(key.key_len) + key.object_len;
        let mut bytes = key_bytes(&key);
        bytes.extend(payload);
        self.put(offset, bytes);
        key
    }

    /// Writes a key list and returns its size.
    pub(super) fn key_list(&mut self, offset: u64, keys: &[&Key]) -> u32 {
        let mut payload = u32::try_from(keys.len()).unwrap().to_be_bytes().to_vec();
        keys.iter().for_each(|key| payload.extend(key_bytes(key)));
        self.record(offset, offset >= 1 << 31, ("TFile", "built"), &payload)
            .n_bytes
    }

    /// Writes the header, the file's own record, and the root directory with `keys` at `seek_keys`.
    pub(super) fn root(&mut self, widths: Widths, ends: (u64, u64), seek_keys: u64, keys: &[&Key]) {
        let n_bytes_keys = self.key_list(seek_keys, keys);
        let mut payload = string("built");
        payload.extend(string(""));
        let names = u32::try_from(payload.len()).unwrap();
        let parts = DirectoryParts {
            wide: widths.root,
            n_bytes_keys,
            seek_dir: BEGIN,
            seek_keys,
        };
        payload.extend(directory(&parts));
        let key = self.record(BEGIN, false, ("TFile", "built"), &payload);
        let (end, seek_free) = ends;
        let mut header = b"root".to_vec();
        header.extend((if widths.file { 1_064_000_u32 } else { 64_000 }).to_be_bytes());
        header.extend(u32::try_from(BEGIN).unwrap().to_be_bytes());
        header.extend(position(end, widths.file));
        header.extend(position(seek_free, widths.file));
        header.extend(free_record_size(widths.free).to_be_bytes());
        header.extend(1_u32.to_be_bytes());
        header.extend((u32::from(key.key_len) + names).to_be_bytes());
        header.push(if widths.file { 8 } else { 4 });
        header.extend(505_u32.to_be_bytes());
        header.extend(position(0, widths.file));
        header.extend(0_u32.to_be_bytes());
        self.put(0, header);
    }

    /// Writes a record of one free segment.
    pub(super) fn free(&mut self, offset: u64, wide: bool, segment: (u64, u64)) {
        let mut payload = (if wide { 1001_u16 } else { 1 }).to_be_bytes().to_vec();
        payload.extend(position(segment.0, wide));
        payload.extend(position(segment.1, wide));
        let key = self.record(offset, offset >= 1 << 31, ("TFile", ""), &payload);
        assert!(key.n_bytes <= free_record_size(wide));
    }
}

/// Size of a record with a key of either width and a segment.
fn free_record_size(wide: bool) -> u32 {
    if wide { 64 } else { 56 }
}

pub(super) fn key_bytes(key: &Key) -> Vec<u8> {
    encode::key(key)
}

pub(super) fn directory(parts: &DirectoryParts) -> Vec<u8> {
    let mut bytes = (if parts.wide { 1005_u16 } else { 5 })
        .to_be_bytes()
        .to_vec();
    bytes.extend([0; 8]);
    bytes.extend(parts.n_bytes_keys.to_be_bytes());
    bytes.extend([0; 4]);
    for seek in [parts.seek_dir, 0, parts.seek_keys] {
        bytes.extend(position(seek, parts.wide));
    }
    bytes
}

fn position(value: u64, wide: bool) -> Vec<u8> {
    if wide {
        return value.to_be_bytes().to_vec();
    }
    i32::try_from(value).unwrap().to_be_bytes().to_vec()
}

pub(super) fn string(text: &str) -> Vec<u8> {
    let mut bytes = vec![u8::try_from(text.len()).unwrap()];
    bytes.extend(text.as_bytes());
    bytes
}
