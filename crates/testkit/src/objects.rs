//! Changes trees, streamer infos and other compressed objects of a ROOT file.

use femtobarn_codec::Decompressor;

use crate::mutate::Mutator;

/// Offsets in the file header of the end, and of position and size of the streamer infos; for files below 2 GB.
const HEADER_END: usize = 12;
const HEADER_INFOS: usize = 37;
/// Offsets in a key of its version, object length, key length, position and class name.
const KEY_VERSION: usize = 4;
const KEY_OBJLEN: usize = 6;
const KEY_LENGTH: usize = 14;
const KEY_SEEK: usize = 18;
const KEY_CLASS: usize = 26;

/// A record of a file.
#[derive(Clone, Copy)]
struct Record {
    at: usize,
    /// Sizes of the record (including its key) and of the key.
    size: usize,
    key: usize,
    /// Size of the object.
    length: usize,
}

impl Mutator {
    /// Changes an object of a record (such as a tree, a basket, a histogram or the streamer infos), or its key; a file
    /// without objects as [`bytes`](Self::bytes) does. The changed object is appended uncompressed.
    pub(crate) fn object(&mut self, original: &[u8]) -> Vec<u8> {
        let all = records(original);
        let Some(&record) = all.get(self.below(all.len())) else {
            return self.bytes(original);
        };
        // most records are baskets
        let others: Vec<Record> = all
            .iter()
            .copied()
            .filter(|record| class(original, record) != b"TBasket")
            .collect();
        let record = match self.below(2) {
            0 => others.get(self.below(others.len())).copied(),
            _ => None,
        }
        .unwrap_or(record);
        let Some(mut object) = uncompressed(original, &record) else {
            return self.bytes(original);
        };
        let mut key = original[record.at..record.at + record.key].to_vec();
        // the members of a basket are in its key
        let from = if class(original, &record) == b"TBasket" {
            KEY_CLASS
        } else {
            record.key
        };
        if self.below(4) == 0 && from < record.key {
            self.change(&mut key, from);
        } else {
            self.change(&mut object, 0);
        }
        let mut out = original.to_vec();
        put(&mut out, &record, &key, &object);
        out
    }
}

/// The file with its objects appended uncompressed, and used instead of the old ones.
pub fn inflated(original: &[u8]) -> Vec<u8> {
    let mut out = original.to_vec();
    for record in records(original) {
        if let Some(object) = uncompressed(original, &record) {
            let key = original[record.at..record.at + record.key].to_vec();
            put(&mut out, &record, &key, &object);
        }
    }
    out
}

/// Replaces the object of a record, and updates all references to it; does nothing if there are none.
fn put(out: &mut Vec<u8>, record: &Record, key: &[u8], object: &[u8]) {
    let linked = links(out, record);
    if !linked.is_empty() || infos_at(out) == record.at {
        let (at, size) = append(out, key, object);
        if infos_at(out) == record.at {
            out[HEADER_INFOS..HEADER_INFOS + 4].copy_from_slice(&word(at));
            out[HEADER_INFOS + 4..HEADER_INFOS + 8].copy_from_slice(&word(size));
        }
        for place in linked {
            out[place..place + 4].copy_from_slice(&word(size));
            out[place + KEY_SEEK..place + KEY_SEEK + 4].copy_from_slice(&word(at));
        }
    } else {
        // the position of a basket is in a tree
        for tree in records(out) {
            if class(out, &tree) != b"TTree" || links(out, &tree).is_empty() {
                continue;
            }
            let moved = (out.len(), key.len() + object.len());
            let own = uncompressed(out, &tree);
            let Some(own) = own.and_then(|own| pointed(own, record, moved)) else {
                continue;
            };
            append(out, key, object);
            let key = out[tree.at..tree.at + tree.key].to_vec();
            put(out, &tree, &key, &own);
            return;
        }
    }
    let end = word(out.len());
    out[HEADER_END..HEADER_END + 4].copy_from_slice(&end);
}

fn infos_at(file: &[u8]) -> usize {
    number(file, HEADER_INFOS, 4).unwrap_or(0)
}

/// The positions of a record's key in key lists.
fn links(file: &[u8], record: &Record) -> Vec<usize> {
    let key = &file[record.at..record.at + KEY_CLASS];
    let places = file.windows(key.len()).enumerate();
    let places = places.filter(|(place, window)| *window == key && *place != record.at);
    places.map(|(place, _)| place).collect()
}

fn word(n: usize) -> [u8; 4] {
    u32::try_from(n).unwrap().to_be_bytes()
}

fn number(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + width)?;
    Some(bytes.iter().fold(0, |n, &byte| n << 8 | usize::from(byte)))
}

/// The records of a file in their order.
fn records(file: &[u8]) -> Vec<Record> {
    let mut out = Vec::new();
    let mut at = number(file, 8, 4).unwrap_or(usize::MAX);
    while let Some(size) = number(file, at, 4).filter(|&size| size > 0) {
        // gaps have negative sizes
        if size >> 31 == 1 {
            at += (1 << 32) - size;
            continue;
        }
        let record = Record {
            at,
            size,
            key: number(file, at + KEY_LENGTH, 2).unwrap_or(0),
            length: number(file, at + KEY_OBJLEN, 4).unwrap_or(0),
        };
        let is_small = number(file, at + KEY_VERSION, 2).is_some_and(|version| version < 1000);
        if is_small && record.key >= KEY_CLASS && record.key <= size && at + size <= file.len() {
            out.push(record);
        }
        at += size;
    }
    out
}

fn class<'f>(file: &'f [u8], record: &Record) -> &'f [u8] {
    let start = record.at + KEY_CLASS;
    let length = number(file, start, 1).unwrap_or(0);
    file.get(start + 1..start + 1 + length).unwrap_or_default()
}

fn uncompressed(file: &[u8], record: &Record) -> Option<Vec<u8>> {
    let stored = file.get(record.at + record.key..record.at + record.size)?;
    if stored.len() == record.length {
        return Some(stored.to_vec());
    }
    let mut out = vec![0; record.length];
    Decompressor::new().decompress(stored, &mut out).ok()?;
    Some(out)
}

/// Appends an uncompressed record to a file. Returns its offset and size.
fn append(out: &mut Vec<u8>, key: &[u8], object: &[u8]) -> (usize, usize) {
    let (at, size) = (out.len(), key.len() + object.len());
    out.extend(key);
    out.extend(object);
    out[at..at + 4].copy_from_slice(&word(size));
    out[at + KEY_SEEK..at + KEY_SEEK + 4].copy_from_slice(&word(at));
    (at, size)
}

/// The tree with the position of a moved basket; none if the basket is not in the tree. A branch has lists of its
/// baskets' sizes, first entries and positions, each after one byte.
fn pointed(mut tree: Vec<u8>, basket: &Record, (at, size): (usize, usize)) -> Option<Vec<u8>> {
    let was = (basket.at as u64).to_be_bytes();
    let places = tree.windows(8).enumerate();
    let places = places.filter(|(_, window)| *window == was);
    let places: Vec<usize> = places.map(|(place, _)| place).collect();
    for place in places {
        for most in 1..200 {
            for before in 0..most {
                let back = 8 * before + 1 + 8 * most + 1 + 4 * (most - before);
                let size_at = place.checked_sub(back);
                let Some(size_at) = size_at.filter(|&at| number(&tree, at, 4) == Some(basket.size))
                else {
                    continue;
                };
                tree[place..place + 8].copy_from_slice(&(at as u64).to_be_bytes());
                tree[size_at..size_at + 4].copy_from_slice(&word(size));
                return Some(tree);
            }
        }
    }
    None
}
