//! Options for writing an ntuple.

use femtobarn_io::units::parse_bytes;
use femtobarn_io::{IoError, Settings};

/// The size of objects, if an ntuple is written as objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectSize {
    /// One page, as ROOT writes.
    Page,
    /// Pages of a cluster up to this number of bytes. A larger page is an object.
    Bytes(u64),
    /// All pages of a cluster, up to 1 GiB.
    Cluster,
}

impl ObjectSize {
    /// The default: 16 MB.
    pub const USUAL: Self = Self::Bytes(16_000_000);

    /// The largest number of bytes. Each object is in memory until it is sent.
    pub const LARGEST: u64 = 1 << 30;

    /// The setting `object_size`, if it is given.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn from_settings(settings: &Settings, url: &str) -> Result<Option<Self>, IoError> {
        let given = settings.text("object_size")?;
        let parsed = given.map(|text| Self::parse(&text)).transpose();
        parsed.map_err(|what| IoError::Setting {
            url: url.to_owned(),
            what,
        })
    }

    /// Whether an object with `filled` bytes takes another page of a size.
    pub fn has_room(self, filled: u64, page: u64) -> bool {
        let most = match self {
            Self::Page => return false,
            Self::Bytes(most) => most,
            Self::Cluster => Self::LARGEST,
        };
        filled.saturating_add(page) <= most
    }

    /// Parses "page", "cluster", or a number of bytes, as "16 MB".
    ///
    /// # Errors
    /// If it is something else, or out of range, as text.
    pub fn parse(text: &str) -> Result<Self, String> {
        match (text, parse_bytes(text)) {
            ("page", _) => Ok(Self::Page),
            ("cluster", _) => Ok(Self::Cluster),
            (_, Some(bytes)) if (1..=Self::LARGEST).contains(&bytes) => Ok(Self::Bytes(bytes)),
            _ => Err(format!(
                "invalid object_size {text:?}: expected \"page\", \"cluster\", or a size up to 1 GiB, e.g. \"16 MB\""
            )),
        }
    }
}

/// Options for writing an ntuple.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// The algorithm times 100 plus the level; 0 for no compression.
    pub compression: u32,
    /// Target size of a compressed cluster in bytes.
    pub cluster_bytes: u64,
    /// Maximum uncompressed size of a cluster in bytes.
    pub cluster_bytes_uncompressed: u64,
    /// Maximum encoded size of a page in bytes.
    pub page_bytes: usize,
    /// Maximum size of elements that wait for their page to become full; beyond it, smaller pages are made.
    pub page_buffer: u64,
    /// Maximum size of a record in the file.
    pub max_key_size: u64,
    /// Whether pages have checksums.
    pub page_checksums: bool,
    /// Whether pages with equal bytes are stored once per cluster.
    pub same_page_merging: bool,
    /// Maximum number of clusters per page list.
    pub clusters_per_group: usize,
    /// Number of threads that encode and compress.
    pub threads: usize,
    /// The ntuple's description.
    pub description: String,
    /// Whether an existing ntuple of the name is hidden as an older cycle; otherwise it is an error.
    pub new_cycle: bool,
    /// The size of objects, if the ntuple is written as objects; none for the setting `object_size`.
    pub object_size: Option<ObjectSize>,
}

/// Approximate size of the slices in which entries are processed, so that little data wait for pages.
pub(super) const SLICE: usize = 16 << 20;

/// Larger batches are converted in parts of approximately this size.
pub(super) const PART: usize = 32 << 20;

/// A page list is written when it takes this much memory, even if it has few clusters; in the file it has about half of
/// that before compression. A reader of some entries reads only the page lists of their groups.
pub(super) const PAGE_LIST: usize = 1 << 20;

/// Memory of the libraries' contexts per thread: zstd takes 11 MB at level 505, 18 MB at 509, and 4 MB for byte planes.
const THREAD: u64 = 24 << 20;

/// Number of pages that a thread has in memory: encoded, compressed in up to three ways, and in stored form.
const PAGES_OF_THREAD: u64 = 5;

/// The smallest limit of clusters and waiting elements.
const LEAST: u64 = 8 << 20;

impl Default for WriteOptions {
    /// The defaults of ROOT 6.40: zstd 5, clusters of 128 MiB, pages of 1 MiB.
    fn default() -> Self {
        Self {
            compression: 505,
            cluster_bytes: 128 << 20,
            cluster_bytes_uncompressed: 1280 << 20,
            page_bytes: 1 << 20,
            page_buffer: 128 << 20,
            max_key_size: 1 << 30,
            page_checksums: true,
            same_page_merging: true,
            clusters_per_group: 4096,
            threads: 1,
            description: String::new(),
            new_cycle: false,
            object_size: None,
        }
    }
}

impl WriteOptions {
    /// Maximum memory for writing in bytes, besides the batches: the compressed pages of a cluster, the waiting elements,
    /// a slice of entries and the converted part of its batch, a page list, and for each thread its contexts and five
    /// pages.
    ///
    /// A single entry of more than 16 MiB takes twice its size in addition.
    pub fn memory(&self) -> u64 {
        let fixed = (2 * SLICE + PART + PAGE_LIST) as u64;
        self.cluster_bytes + self.page_buffer + fixed + self.threads as u64 * self.thread()
    }

    fn thread(&self) -> u64 {
        PAGES_OF_THREAD * self.page_bytes as u64 + THREAD
    }

    /// Reduces the number of threads, the cluster size and the size of waiting elements until [`memory`](Self::memory) is
    /// at most `limit`, as far as possible; returns the memory then.
    pub fn limit_memory(&mut self, limit: u64) -> u64 {
        let most = usize::try_from(limit / 3 / self.thread()).unwrap_or(usize::MAX);
        self.threads = self.threads.clamp(1, most.max(1));
        let fixed = self.memory() - self.cluster_bytes - self.page_buffer;
        let left = limit.saturating_sub(fixed).max(LEAST);
        self.page_buffer = self.page_buffer.min(left / 2);
        self.cluster_bytes = self.cluster_bytes.min(left - left / 2);
        self.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_objects_are_words_or_bytes() {
        assert_eq!(ObjectSize::parse("16 MB"), Ok(ObjectSize::USUAL));
        assert_eq!(ObjectSize::parse("page"), Ok(ObjectSize::Page));
        assert_eq!(ObjectSize::parse("cluster"), Ok(ObjectSize::Cluster));
        for bad in ["", "0", "pages", "-1", "2 GiB"] {
            assert!(
                ObjectSize::parse(bad).unwrap_err().contains("16 MB"),
                "{bad}"
            );
        }
    }

    #[test]
    fn writing_takes_the_memory_that_the_guides_state() {
        let mut options = WriteOptions {
            threads: 2,
            ..WriteOptions::default()
        };
        // docs/guides/writing.md and memory.md, and the docstring of recreate
        assert_eq!(options.memory() >> 20, 379);
        assert_eq!(options.limit_memory(0) >> 20, 102);
    }
}
