//! A layer that downloads large chunks of a source to a temporary file at their first touch.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use femtobarn_xrootd::notice;

use crate::runtime::{PULSE, goes_on, process};
use crate::source::{is_local, map_file};
use crate::together::is_stopped;
use crate::units;
use crate::{ByteSource, IoError, Settings, SourceInfo, pieces};

/// Size of the ranges by which a chunk is downloaded, and how many make a vector read.
const PIECE: u64 = 8 << 20;
const AT_ONCE: usize = 4;

/// A source whose chunks are read whole into a file that has no name any more, and which ends with it: latency does not
/// matter then, but much more may be transferred than is needed. For copying, and for storage that is bad at small reads.
#[derive(Debug)]
pub struct LazyDownload {
    inner: Arc<dyn ByteSource>,
    chunk: u64,
    file: File,
    map: OnceLock<Option<Bytes>>,
    chunks: Mutex<Vec<Chunk>>,
    changed: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    Missing,
    /// It is downloaded by a thread of this process; a process that was forked from it has no such thread.
    Flying(u32),
    Here,
}

impl LazyDownload {
    /// A layer over a source, with chunks of this size.
    ///
    /// # Errors
    /// If there can be no temporary file.
    pub fn over(
        inner: Arc<dyn ByteSource>,
        chunk: u64,
        settings: &Settings,
    ) -> Result<Arc<Self>, IoError> {
        let (folder, size) = (settings.spool_folder()?, inner.meta().size);
        let file = unnamed(&folder, size).map_err(|source| IoError::Create {
            url: folder.to_string_lossy().into_owned(),
            source,
        })?;
        let url = inner.url();
        let text = format!(
            "{url} is downloaded in chunks of {} (lazy_download), whatever is needed of them; up to {} in {}",
            units::bytes(chunk),
            units::bytes(size),
            folder.display()
        );
        notice("lazy_download", &text);
        let n = usize::try_from(size.div_ceil(chunk)).unwrap_or(usize::MAX);
        Ok(Arc::new(Self {
            inner,
            chunk,
            file,
            map: OnceLock::new(),
            chunks: Mutex::new(vec![Chunk::Missing; n]),
            changed: Condvar::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Chunk>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers of the chunks with bytes of a range.
    fn numbers(&self, range: &Range<u64>) -> Range<u64> {
        range.start / self.chunk..range.end.div_ceil(self.chunk)
    }

    /// Downloads the chunks of a range that are missing, and waits for those that other threads download.
    fn bring(&self, range: &Range<u64>) -> Result<(), IoError> {
        if range.is_empty() {
            return Ok(());
        }
        for number in self.numbers(range) {
            let at = usize::try_from(number).unwrap_or(usize::MAX);
            let mut chunks = self.lock();
            loop {
                match chunks.get_mut(at) {
                    None | Some(Chunk::Here) => break,
                    Some(state) if !matches!(*state, Chunk::Flying(own) if own == process()) => {
                        *state = Chunk::Flying(process());
                        drop(chunks);
                        let done = self.download(number);
                        chunks = self.lock();
                        if let Some(state) = chunks.get_mut(at) {
                            *state = if done.is_ok() {
                                Chunk::Here
                            } else {
                                Chunk::Missing
                            };
                        }
                        self.changed.notify_all();
                        done?;
                    }
                    Some(_) => {
                        let waited = self.changed.wait_timeout(chunks, PULSE);
                        drop(waited.unwrap_or_else(PoisonError::into_inner));
                        if is_stopped() || !goes_on() {
                            let url = self.url().to_owned();
                            return Err(IoError::Interrupted { url });
                        }
                        chunks = self.lock();
                    }
                }
            }
        }
        Ok(())
    }

    fn download(&self, number: u64) -> Result<(), IoError> {
        let start = number * self.chunk;
        let length = self.chunk.min(self.meta().size - start);
        let all: Vec<Range<u64>> = pieces(length, PIECE)
            .map(|piece| start + piece.start..start + piece.end)
            .collect();
        for ranges in all.chunks(AT_ONCE) {
            for (range, bytes) in ranges.iter().zip(self.inner.read_ranges(ranges)?) {
                let written = self.file.write_all_at(&bytes, range.start);
                written.map_err(|source| IoError::Write {
                    url: format!("the temporary copy of {}", self.url()),
                    offset: range.start,
                    expected: bytes.len() as u64,
                    source,
                })?;
            }
        }
        Ok(())
    }

    /// The file as memory. Only downloaded chunks may be touched. None if chunks may be downloaded again from another source,
    /// because memory that readers have must not change.
    fn mapped(&self) -> Option<&Bytes> {
        let is_fixed = || self.inner.sources().is_none() && is_local(&self.file);
        let made = || is_fixed().then(|| map_file(&self.file, self.meta().size))?;
        self.map.get_or_init(made).as_ref()
    }

    fn read(&self, range: &Range<u64>) -> Result<Bytes, IoError> {
        let length = self.meta().check(self.url(), range)?;
        self.bring(range)?;
        let start = usize::try_from(range.start).unwrap_or(usize::MAX);
        if let Some(map) = self.mapped().filter(|_| length > 0) {
            return Ok(map.slice(start..start + length));
        }
        let mut buffer = vec![0; length];
        let read = self.file.read_exact_at(&mut buffer, range.start);
        read.map(|()| buffer.into())
            .map_err(|source| IoError::Read {
                url: self.url().to_owned(),
                offset: range.start,
                expected: length as u64,
                source,
            })
    }
}

/// A file of this size without blocks and without a name.
fn unnamed(folder: &Path, size: u64) -> io::Result<File> {
    let path = folder.join(format!(".femtobarn-{:016x}", getrandom::u64().unwrap_or(0)));
    let mut options = File::options();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    file.set_len(size)?;
    Ok(file)
}

impl ByteSource for LazyDownload {
    fn info(&self) -> SourceInfo<'_> {
        self.inner.info()
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        Some(&*self.inner)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        for range in ranges {
            self.meta().check(self.url(), range)?;
        }
        ranges.iter().map(|range| self.read(range)).collect()
    }

    fn will_need(&self, _: &[Range<u64>]) {}

    /// If another source is left, the chunks are downloaded again.
    fn reject(&self, range: &Range<u64>, again: bool) -> bool {
        let has_other = self.inner.sources().is_some() && self.inner.reject(range, again);
        if has_other {
            let numbers = self.numbers(range);
            let first = usize::try_from(numbers.start).unwrap_or(usize::MAX);
            let n = usize::try_from(numbers.end - numbers.start).unwrap_or(usize::MAX);
            let mut chunks = self.lock();
            let here = chunks.iter_mut().skip(first).take(n);
            here.filter(|chunk| **chunk == Chunk::Here)
                .for_each(|chunk| *chunk = Chunk::Missing);
        }
        has_other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemorySource, RecordSource};

    fn over(inner: Arc<dyn ByteSource>, chunk: u64) -> Arc<LazyDownload> {
        LazyDownload::over(inner, chunk, &Settings::default()).unwrap()
    }

    #[test]
    fn lazy_downloads_conform() {
        for chunk in [1000, 100_000, 1 << 30] {
            crate::tests::conformance::check(&|content| {
                over(MemorySource::new("mem:x", content), chunk)
            });
        }
    }

    #[test]
    fn a_chunk_is_downloaded_once_at_its_first_touch() {
        let content = femtobarn_testkit::content(1000);
        let record = RecordSource::new(MemorySource::new("mem:x", content.clone()));
        let source = over(record.clone(), 300);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let found = source.read_ranges(&[310..320, 950..960]).unwrap();
                    assert_eq!(found, [&content[310..320], &content[950..960]]);
                });
            }
        });
        let mut log = record.log();
        log.sort_by_key(|read| read[0].start);
        assert_eq!(log, [vec![300..600], vec![900..1000]]);
        source.read_ranges(&[599..601]).unwrap();
        assert_eq!(record.log().len(), 3);
    }
    #[test]
    fn damaged_chunks_are_downloaded_again_from_another_source() {
        fn open(
            url: &str,
            _: &Settings,
            _: Option<&[String]>,
        ) -> Result<Arc<dyn ByteSource>, IoError> {
            let mut content = femtobarn_testkit::content(1 << 20);
            if url.contains("damaged") {
                content[500_000..800_000].fill(0);
            }
            Ok(MemorySource::new(url, content))
        }
        let content = femtobarn_testkit::content(1 << 20);
        let url = "fake://damaged/f|fake://good/f";
        let both = crate::source::open_several(url, &Settings::of(url), open).unwrap();
        let source = over(both, 200_000);
        let read = |start: usize| {
            let found = source.read_ranges(&[start as u64..start as u64 + 1000]);
            found.unwrap()[0] == content[start..start + 1000]
        };
        let starts = [0, 550_000, 599_500, 700_000, 900_000];
        assert_eq!(starts.map(read), [true, false, false, false, true]);
        let reject = |start: usize| source.reject(&(start as u64..start as u64 + 1000), false);
        // one is found after others were downloaded again
        assert!(reject(599_500) && read(550_000) && reject(550_000));
        assert_eq!(starts.map(read), [true; 5]);
        assert!(reject(700_000) && read(700_000));
        let states: Vec<_> = source
            .sources()
            .unwrap()
            .iter()
            .map(|s| s.state.name())
            .collect();
        assert_eq!(states, ["disabled", "active"]);
    }
}
