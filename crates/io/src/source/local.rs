//! Local files.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::handles::{self, Handle};
use super::map;
use crate::{ByteSource, IoError, SourceCost, SourceInfo, SourceMeta};

/// A local file. Any number may be open, but only a limited number keep a handle of the system. The others open their
/// file again for reading, and check that it is the same. It is read by positioned reads, which have no shared file
/// position, so threads can read concurrently, or through a memory map.
#[derive(Debug)]
pub struct LocalSource {
    url: String,
    path: PathBuf,
    handle: Handle,
    meta: SourceMeta,
    map: OnceLock<Option<Bytes>>,
}

impl LocalSource {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// If it does not exist, is not readable, or is not a regular file.
    pub fn open(path: &Path) -> Result<Arc<Self>, IoError> {
        Self::open_as(path, path.to_string_lossy().into_owned())
    }

    /// Opens the file at `path` with another name for errors.
    ///
    /// # Errors
    /// Errors of [`open`](Self::open).
    pub fn open_as(path: &Path, url: String) -> Result<Arc<Self>, IoError> {
        let open_error = |source| IoError::from_open(&url, source);
        // Checked before opening: opening a named pipe would wait for its writer.
        check_is_file(&url, &fs::metadata(path).map_err(open_error)?)?;
        let file = handles::open(path).map_err(open_error)?;
        let metadata = file.metadata().map_err(open_error)?;
        check_is_file(&url, &metadata)?;
        let meta = SourceMeta {
            size: metadata.len(),
            modified: metadata.modified().ok(),
            etag: None,
        };
        let handle = Handle::new(file, &metadata);
        let path = path.to_owned();
        Ok(Arc::new(Self {
            url,
            path,
            handle,
            meta,
            map: OnceLock::new(),
        }))
    }

    fn handle(&self) -> Result<Arc<File>, IoError> {
        self.handle.get(&self.path, &self.url)
    }

    fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<(), IoError> {
        let file = self.handle()?;
        let expected = buffer.len() as u64;
        let mut found = 0_u64;
        while let Some(rest) = usize::try_from(found)
            .ok()
            .and_then(|at| buffer.get_mut(at..))
            .filter(|r| !r.is_empty())
        {
            match file.read_at(rest, offset + found) {
                Ok(0) => {
                    return Err(IoError::ShortRead {
                        url: self.url.clone(),
                        offset,
                        expected,
                        found,
                    });
                }
                Ok(read) => found += read as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(IoError::Read {
                        url: self.url.clone(),
                        offset,
                        expected,
                        source,
                    });
                }
            }
        }
        Ok(())
    }
}

/// Starts reading a range into the page cache.
#[cfg(target_os = "linux")]
fn read_ahead(file: &File, range: &Range<u64>) {
    use std::num::NonZeroU64;

    use rustix::fs::{Advice, fadvise};

    // without a length, this would be the rest of the file
    if let Some(length) = NonZeroU64::new(range.end.saturating_sub(range.start)) {
        // Only a hint: the kernel may ignore it.
        let _refused = fadvise(file, range.start, Some(length), Advice::WillNeed);
    }
}

#[cfg(not(target_os = "linux"))]
fn read_ahead(_: &File, _: &Range<u64>) {}

fn check_is_file(url: &str, metadata: &fs::Metadata) -> Result<(), IoError> {
    if metadata.is_file() {
        return Ok(());
    }
    let found = if metadata.is_dir() {
        "a directory"
    } else {
        "a device, pipe or socket"
    };
    Err(IoError::NotAFile {
        url: url.to_owned(),
        found,
    })
}

impl ByteSource for LocalSource {
    fn info(&self) -> SourceInfo<'_> {
        // A positioned read costs about as much as copying from the page cache. Requests are small, so that their
        // buffer stays in the second-level cache. Reads do not wait for each other, so waiting threads would have no
        // advantage over `will_need`.
        let cost = SourceCost {
            largest_gap: 4 << 10,
            largest_request: 1 << 20,
            most_ranges: 1024,
            concurrency: 1,
            ..SourceCost::default()
        };
        SourceInfo::new(&self.url, &self.meta, cost)
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        None
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        // All ranges are checked before the first is read.
        let lengths: Vec<usize> = ranges
            .iter()
            .map(|range| self.meta.check(&self.url, range))
            .collect::<Result<_, _>>()?;
        let read = |(range, length): (&Range<u64>, usize)| {
            let mut buffer = vec![0; length];
            self.fill(range.start, &mut buffer)?;
            Ok(Bytes::from(buffer))
        };
        ranges.iter().zip(lengths).map(read).collect()
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<(), IoError> {
        self.meta.range_at(&self.url, offset, buffer.len())?;
        self.fill(offset, buffer)
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        let Ok(file) = self.handle() else { return };
        for range in ranges {
            read_ahead(&file, range);
        }
    }

    fn file(&self) -> Option<Result<Arc<File>, IoError>> {
        Some(self.handle())
    }

    fn map(&self) -> Option<Bytes> {
        let map = || map::map(&*self.handle().ok()?, self.meta.size);
        self.map.get_or_init(map).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file_with(content: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        file
    }

    #[test]
    fn a_missing_file_is_not_found_and_named() {
        let error = LocalSource::open(Path::new("/nowhere/at all.root")).unwrap_err();
        assert_eq!(error.kind(), "file-not-found");
        assert_eq!(error.url(), "/nowhere/at all.root");
        assert!(error.to_string().contains("/nowhere/at all.root"));
    }

    #[test]
    fn a_directory_and_a_device_are_no_files() {
        for path in [std::env::temp_dir().as_path(), Path::new("/dev/null")] {
            assert_eq!(LocalSource::open(path).unwrap_err().kind(), "not-a-file");
        }
    }

    #[test]
    fn a_file_cut_while_open_is_a_short_read_with_what_came() {
        let file = file_with(b"0123456789");
        let source = LocalSource::open(file.path()).unwrap();
        file.as_file().set_len(6).unwrap();
        let read = source.read_ranges(&[0..2, 4..10]).map(drop);
        for error in [read, source.read_into(4, &mut [0; 6])].map(Result::unwrap_err) {
            assert!(
                matches!(
                    error,
                    IoError::ShortRead {
                        offset: 4,
                        expected: 6,
                        found: 2,
                        ..
                    }
                ),
                "{error}"
            );
        }
        assert!(
            source.map().is_none(),
            "a file that became shorter is not mapped"
        );
    }

    #[test]
    fn the_map_outlives_the_source() {
        let file = file_with(b"0123456789");
        let source = LocalSource::open(file.path()).unwrap();
        source.will_need(&[2..5, 8..100, 50..60]);
        let map = source.map().unwrap().slice(3..5);
        drop(source);
        assert_eq!(map, "34");
    }

    #[test]
    fn meta_has_size_and_time() {
        let file = file_with(b"0123456789");
        let source = LocalSource::open(file.path()).unwrap();
        assert_eq!(source.meta().size, 10);
        assert!(source.meta().modified.is_some());
    }
}
