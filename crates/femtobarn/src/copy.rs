//! Copies files between any locations, byte for byte.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use femtobarn_io::{
    ByteSource, IoError, LARGEST_ANCHOR, OnBytes, Settings, Transferred, begins_as_anchor,
    is_foreign, is_object_set, is_remote, note_used, ntuple_of_anchor, on_threads, pieces, public,
    send,
};
use femtobarn_rntuple::RNTupleError;

use crate::open::open_source_with;
use crate::url::{is_folder, split_query};
use crate::writable::{create_sink, local};

/// Number of bytes that one thread compares at a time.
const PIECE: u64 = 16 << 20;

/// Number of pieces that are compared at once.
const AT_ONCE: usize = 8;

/// Options of a copy.
#[derive(Debug, Clone, Default)]
pub struct CopyOptions {
    /// Replace an existing file.
    pub overwrite: bool,
    /// Read the copy, and compare it with the original byte by byte.
    pub verify: bool,
    /// Settings for servers, which override the environment and the settings file.
    pub settings: BTreeMap<String, String>,
}

/// Result of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Number of bytes.
    pub n_bytes: u64,
    /// The transfer method.
    pub transferred: Transferred,
    /// The kind of the server's checksum of the copy, if it provides one.
    pub checksum: Option<String>,
    /// The position of the first difference, rounded down to 16 MiB, if the copy was verified and differs.
    pub differs_at: Option<u64>,
}

/// The destination of a copy: a file in a directory (for a URL, one with a slash at the end), or the name itself.
pub fn destination(from: &str, to: &str) -> String {
    if !is_folder_name(to) {
        return to.to_owned();
    }
    // for a chain, its first URL; caches have no names
    let mut links = from.split("::").filter(|_| is_foreign(from));
    let from = public(links.find(|link| link.contains("://")).unwrap_or(from));
    file_of(to, from.rsplit('/').next().unwrap_or_default())
}

/// Whether a destination is a directory: for a URL, one with a slash at the end.
pub(crate) fn is_folder_name(to: &str) -> bool {
    is_folder(to) || !is_remote(to) && (to.ends_with('/') || local(to).is_dir())
}

/// The URL or path of a file in a directory. In a path, a question mark is an ordinary character.
pub(crate) fn file_of(folder: &str, name: &str) -> String {
    if !is_remote(folder) {
        return Path::new(folder).join(name).to_string_lossy().into_owned();
    }
    let (folder, query) = split_query(folder);
    format!("{}/{name}{query}", folder.trim_end_matches('/'))
}

/// Copies a file. The copy appears when it is complete, or not at all. `tick` receives the copied and the total number
/// of bytes; if it returns `false`, copying stops.
///
/// # Errors
/// If the file cannot be read, the copy cannot be written, or the destination exists and must not be replaced.
pub fn copy(
    from: &str,
    to: &str,
    options: &CopyOptions,
    tick: &(dyn Fn(u64, u64) -> bool + Sync),
) -> Result<Copied, RNTupleError> {
    let settings = |url| Settings::new(url, options.settings.clone());
    if let Some(url) = [from, to].into_iter().find(|url| is_object_set(url)) {
        let what = format!(
            "{} has ntuples, and is not a file: move them with `fb migrate`",
            public(url)
        );
        return Err(RNTupleError::Usage { what });
    }
    // what is read once as a whole is not cached
    let source = open_source_with(from, &settings(from)?.but("cache", "off"))?;
    let size = source.meta().size;
    refuse_anchor(&*source, from)?;
    let is_itself = !is_remote(from) && !is_remote(to) && same_file(&local(from), &local(to));
    if is_itself {
        let what = format!("{from} and {to} are the same file");
        return Err(RNTupleError::Usage { what });
    }
    let sink = create_sink(to, options.overwrite, &settings(to)?)?;
    let sent = send(&source, &*sink, &|done| tick(done, size))?;
    let differs_at = match options.verify {
        true => compare(&*source, to, &settings(to)?, &|done| tick(done, size))?,
        false => None,
    };
    Ok(Copied {
        n_bytes: size,
        differs_at,
        transferred: sent.transferred,
        checksum: sent.checksum,
    })
}

/// An anchor alone is of no use.
fn refuse_anchor(source: &dyn ByteSource, from: &str) -> Result<(), RNTupleError> {
    let size = source.meta().size;
    let Some(url) = ntuple_of_anchor(from).filter(|_| size <= LARGEST_ANCHOR) else {
        return Ok(());
    };
    let beginning = 0..size.min(64);
    let first = source.read_ranges(std::slice::from_ref(&beginning))?;
    if !begins_as_anchor(&first.concat()) {
        return Ok(());
    }
    Err(RNTupleError::Usage {
        what: format!(
            "{} is the anchor of an ntuple in objects: move the ntuple with `fb migrate {}`",
            public(from),
            public(&url)
        ),
    })
}

fn same_file(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(|path| path.canonicalize().ok());
    one.is_some() && one == other
}

/// Reads a copy and compares it with its source; returns the position of the first difference.
pub(crate) fn compare(
    source: &dyn ByteSource,
    copy: &str,
    settings: &Settings,
    tick: OnBytes<'_>,
) -> Result<Option<u64>, RNTupleError> {
    // what was written is read, not what a cache has of it
    let other = open_source_with(copy, &settings.but("cache", "off"))?;
    let size = source.meta().size;
    if other.meta().size != size {
        return Ok(Some(size.min(other.meta().size)));
    }
    let done = AtomicU64::new(0);
    let mut threads = vec![(); AT_ONCE];
    let pieces = pieces(size, PIECE).collect();
    let found = on_threads(&mut threads, pieces, |(), range: Range<u64>| {
        let ranges = std::slice::from_ref(&range);
        let is_same = source.read_ranges(ranges)? == other.read_ranges(ranges)?;
        for read in [source, &*other] {
            note_used(read, range.end - range.start);
        }
        let length = range.end - range.start;
        match tick(done.fetch_add(length, Relaxed) + length) {
            true => Ok((!is_same).then_some(range.start)),
            false => Err(IoError::Interrupted {
                url: other.url().to_owned(),
            }),
        }
    })?;
    Ok(found.into_iter().flatten().min())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_file_and_appears_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let content: Vec<u8> = (0..40_000_000_u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(at("a"), &content).unwrap();
        std::fs::write(at("empty"), "").unwrap();
        let verify = CopyOptions {
            verify: true,
            ..CopyOptions::default()
        };
        for name in ["a", "empty"] {
            let to = at(&format!("copy of {name}"));
            let copied = copy(&at(name), &to, &verify, &|_, _| true).unwrap();
            assert_eq!(copied.differs_at, None);
            assert!(std::fs::read(&to).unwrap() == std::fs::read(at(name)).unwrap());
            assert_eq!(
                copy(&at(name), &to, &verify, &|_, _| true)
                    .unwrap_err()
                    .kind(),
                "create-failed"
            );
        }
        let again = CopyOptions {
            overwrite: true,
            ..verify.clone()
        };
        assert!(copy(&at("empty"), &at("copy of a"), &again, &|_, _| true).is_ok());
        assert_eq!(std::fs::metadata(at("copy of a")).unwrap().len(), 0);
        assert_eq!(
            copy(&at("a"), &at("a"), &again, &|_, _| true)
                .unwrap_err()
                .kind(),
            "usage"
        );
        assert_eq!(
            copy(&at("a"), &at("b"), &verify, &|_, _| false)
                .unwrap_err()
                .kind(),
            "interrupted"
        );
        assert!(!Path::new(&at("b")).exists());
        std::fs::write(at("c"), &content[..content.len() - 1]).unwrap();
        let usual = Settings::default();
        let source = open_source_with(&at("a"), &usual).unwrap();
        assert_eq!(
            compare(&*source, &at("c"), &usual, &|_| true).unwrap(),
            Some(39_999_999)
        );
        let mut other = content;
        other[20_000_000] ^= 1;
        std::fs::write(at("c"), &other).unwrap();
        assert_eq!(
            compare(&*source, &at("c"), &usual, &|_| true).unwrap(),
            Some(PIECE)
        );
    }

    #[test]
    fn what_goes_into_a_folder_keeps_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().to_str().unwrap();
        for (from, to, expected) in [
            ("x/a.root", "b.root", "b.root".to_owned()),
            ("x/a.root", place, format!("{place}/a.root")),
            (
                "root://h//x/a.root?authz=s",
                place,
                format!("{place}/a.root"),
            ),
            ("x/a.root", "s3://b/c/", "s3://b/c/a.root".to_owned()),
            (
                "x/a.root",
                "root://h//c/?k=v",
                "root://h//c/a.root?k=v".to_owned(),
            ),
            ("x/a.root", "s3://b/c", "s3://b/c".to_owned()),
        ] {
            assert_eq!(destination(from, to), expected);
        }
    }
}
