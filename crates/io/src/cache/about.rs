//! What a directory of the cache holds: a small file of TOML in it says so.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::xxh3_128;

use super::room::{entries, is_hash};
use super::segment::{name, new_file};
use super::writer_id::random;
use crate::SourceMeta;

/// Its name.
pub(super) const FILE: &str = "about.toml";

/// A file of a server, in one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct About {
    /// What it is called in the cache: its URL in one way of writing, or its logical name.
    pub key: String,
    /// Its URL, without secrets, by which it was first read.
    pub url: String,
    pub meta: SourceMeta,
    /// Nanoseconds since 1970 when it was first read.
    pub since: u64,
}

pub(super) fn hashed(text: &str) -> String {
    format!("{:032x}", xxh3_128(text.as_bytes()))
}

/// The directory of all states of a file.
pub(super) fn folder_of(cache: &Path, key: &str) -> PathBuf {
    cache.join(hashed(key))
}

/// What tells a state of a file from others; none if nothing does.
fn mark(meta: &SourceMeta) -> Option<String> {
    match (&meta.etag, nanoseconds(meta.modified)) {
        (Some(etag), _) => Some(format!("etag {etag}")),
        (None, Some(time)) => Some(format!("time {time}")),
        (None, None) => None,
    }
}

pub(super) fn nanoseconds(time: Option<SystemTime>) -> Option<u64> {
    let since = time?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

impl About {
    /// The directory of this state in that of the file. With `by_size`, all states of a size are one.
    pub fn folder(&self, file: &Path, by_size: bool) -> Option<PathBuf> {
        let mark = match by_size {
            true => String::new(),
            false => mark(&self.meta)?,
        };
        Some(file.join(hashed(&format!("{} {mark}", self.meta.size))))
    }

    fn text(&self) -> String {
        let (key, url) = (quoted(&self.key), quoted(&self.url));
        let mut out = format!(
            "format = 1\nkey = {key}\nurl = {url}\nsize = {}\n",
            self.meta.size
        );
        if let Some(etag) = &self.meta.etag {
            out += &format!("etag = {}\n", quoted(etag));
        }
        if let Some(time) = nanoseconds(self.meta.modified) {
            out += &format!("modified = {time}\n");
        }
        out + &format!("since = {}\n", self.since)
    }

    fn parse(text: &str) -> Option<Self> {
        let table: toml::Table = text.parse().ok()?;
        let number = |name: &str| u64::try_from(table.get(name)?.as_integer()?).ok();
        let string = |name: &str| Some(table.get(name)?.as_str()?.to_owned());
        if number("format") != Some(1) {
            return None;
        }
        Some(Self {
            key: string("key")?,
            url: string("url")?,
            meta: SourceMeta {
                size: number("size")?,
                modified: number("modified")
                    .and_then(|n| UNIX_EPOCH.checked_add(Duration::from_nanos(n))),
                etag: string("etag"),
            },
            since: number("since")?,
        })
    }

    /// What a directory holds, if it is one of the cache.
    pub fn read(folder: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(folder.join(FILE)).ok()?)
    }

    /// Writes it into a directory, at once as a whole.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        let whole = folder.join(FILE);
        if whole.exists() {
            return Ok(());
        }
        let part = folder.join(format!("{}.part", name(random())));
        let written = new_file().open(&part).and_then(|mut file| {
            file.write_all(self.text().as_bytes())?;
            drop(file);
            fs::rename(&part, whole)
        });
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        written
    }
}

/// The states of a file that are in the cache, the newest first, with their directories.
pub(super) fn states(file: &Path, key: &str) -> Vec<(About, PathBuf)> {
    let folders = entries(file).filter(|(name, _)| is_hash(name));
    let mut found: Vec<(About, PathBuf)> = folders
        .filter_map(|(_, path)| Some((About::read(&path)?, path)))
        .filter(|(about, _)| about.key == key)
        .collect();
    found.sort_by_key(|(about, _)| std::cmp::Reverse(about.since));
    found
}

/// A string of TOML.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out += &format!("\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_written_and_told_from_others() {
        let modified = UNIX_EPOCH.checked_add(Duration::from_nanos(1_234_567_890_123_456_789));
        let about = |size, modified, etag: Option<&str>| About {
            key: "root://h//a\"b\\c\u{1}ü".to_owned(),
            url: "root://h//x".to_owned(),
            meta: SourceMeta {
                size,
                modified,
                etag: etag.map(str::to_owned),
            },
            since: 7,
        };
        let all = [
            about(5, modified, Some("\"x\"")),
            about(5, modified, None),
            about(6, modified, None),
            about(5, None, Some("W/\"x\"")),
        ];
        let folder = Path::new("/c");
        for (i, one) in all.iter().enumerate() {
            assert_eq!(About::parse(&one.text()).as_ref(), Some(one));
            let others = all.iter().enumerate().filter(|(j, _)| *j != i);
            for (_, other) in others {
                assert_ne!(one.folder(folder, false), other.folder(folder, false));
            }
        }
        assert_eq!(all[0].folder(folder, true), all[3].folder(folder, true));
        let unknown = about(5, None, None);
        assert!(unknown.folder(folder, false).is_none() && unknown.folder(folder, true).is_some());
        assert!(About::parse("format = 2").is_none() && About::parse("\0garbage").is_none());
    }
}
