//! Directories: their records and the lists of their keys.

use std::ops::Range;

use crate::cursor::{Cursor, Place};
use crate::key::Key;
use crate::{Datime, RootFileError};

/// The record of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryRecord {
    /// Class version; positions have 64 bits if it is over 1000.
    pub version: u16,
    /// When the directory was created.
    pub created: Datime,
    /// When it was last modified.
    pub modified: Datime,
    /// Size of the key list's record.
    pub n_bytes_keys: u32,
    /// Size of the directory's key; for the root directory, also of the file's name and title.
    pub n_bytes_name: u32,
    /// Offset of the directory's key.
    pub seek_dir: u64,
    /// Offset of the parent directory's key; 0 for the root directory.
    pub seek_parent: u64,
    /// Offset of the key list's record; 0 for a subdirectory without keys.
    pub seek_keys: u64,
}

impl DirectoryRecord {
    /// The most bytes to read of a record: with three 64-bit positions.
    pub(crate) const LARGEST: u64 = 42;

    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Self, RootFileError> {
        let version = cursor.u16()?;
        let wide = version > 1000;
        Ok(Self {
            version,
            created: Datime(cursor.u32()?),
            modified: Datime(cursor.u32()?),
            n_bytes_keys: cursor.size()?,
            n_bytes_name: cursor.size()?,
            seek_dir: cursor.seek_value(wide)?,
            seek_parent: cursor.seek_value(wide)?,
            seek_keys: cursor.seek_value(wide)?,
        })
    }

    /// Checks that this is the record of the directory whose key is at `seek_dir`.
    pub(crate) fn check(
        self,
        place: Place<'_>,
        offset: u64,
        seek_dir: u64,
    ) -> Result<Self, RootFileError> {
        if self.seek_dir != seek_dir {
            let expected = format_args!("a directory at {seek_dir}");
            return Err(place.corrupt(offset, expected, self.seek_dir));
        }
        Ok(self)
    }

    /// The range of the key list's record; `None` if there is none. A subdirectory without keys has none; the
    /// root directory of every closed file has one.
    pub(crate) fn key_list(&self) -> Option<Range<u64>> {
        let end = self.seek_keys.saturating_add(u64::from(self.n_bytes_keys));
        (self.seek_keys != 0 && self.n_bytes_keys != 0).then_some(self.seek_keys..end)
    }
}

/// A directory and its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    path: String,
    record: DirectoryRecord,
    keys: Vec<Key>,
}

impl Directory {
    pub(crate) fn new(path: String, record: DirectoryRecord, keys: Vec<Key>) -> Self {
        Self { path, record, keys }
    }

    /// The path from the root directory, whose path is empty.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The directory's record.
    #[must_use]
    pub fn record(&self) -> &DirectoryRecord {
        &self.record
    }

    /// The keys with all cycles, in the order of the file.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Finds a key by `name` or `name;cycle`; without a cycle, the highest one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Key> {
        self.get_wanted(name, &|_| true)
    }

    /// The same, considering only wanted keys.
    #[must_use]
    pub fn get_wanted(&self, name: &str, is_wanted: &dyn Fn(&Key) -> bool) -> Option<&Key> {
        let with_cycle = split_cycle(name).and_then(|(base, cycle)| {
            let mut keys = self.keys.iter();
            keys.find(|key| key.name == base && key.cycle == cycle)
        });
        if with_cycle.is_some() {
            return with_cycle.filter(|key| is_wanted(key));
        }
        let named = self.keys.iter().filter(|key| key.name == name);
        named
            .filter(|key| is_wanted(key))
            .max_by_key(|key| key.cycle)
    }

    /// The path of an object in this directory.
    pub(crate) fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}/{name}", self.path)
        }
    }
}

/// Removes `;cycle` from the end of a name or path. A `;` without a number is part of the name.
#[must_use]
pub fn without_cycle(name: &str) -> &str {
    split_cycle(name).map_or(name, |(base, _)| base)
}

/// Splits `name;cycle`, if there is a cycle.
pub(crate) fn split_cycle(name: &str) -> Option<(&str, u16)> {
    let (base, cycle) = name.rsplit_once(';')?;
    Some((base, cycle.parse().ok()?))
}

/// Parses the record of a key list: its own key, a count, the keys.
///
/// Only the length of the record's own key is used. ROOT ignores its sizes, and other writers have stored
/// wrong ones.
pub(crate) fn parse_key_list(mut cursor: Cursor<'_>) -> Result<Vec<Key>, RootFileError> {
    let own = Key::parse(&mut cursor)?;
    cursor.seek(usize::from(own.key_len))?;
    let count = cursor.count(Key::SMALLEST)?;
    let mut keys = Vec::with_capacity(count);
    for _ in 0..count {
        keys.push(Key::parse(&mut cursor)?);
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::without_cycle;

    #[test]
    fn a_semicolon_without_a_number_is_part_of_a_name() {
        for (name, wanted) in [
            ("Events;2", "Events"),
            ("a;b", "a;b"),
            ("a;b;1", "a;b"),
            ("dir;1/Events;3", "dir;1/Events"),
            ("dir;1/Events", "dir;1/Events"),
            ("a;", "a;"),
            ("a;-1", "a;-1"),
            ("a;65536", "a;65536"),
        ] {
            assert_eq!(without_cycle(name), wanted, "{name}");
        }
    }
}
