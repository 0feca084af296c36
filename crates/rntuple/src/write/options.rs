//! How an ntuple is written.

/// How an ntuple is written.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// Algorithm times 100 plus level; 0 for none.
    pub compression: u32,
    /// Compressed bytes of a cluster.
    pub cluster_bytes: u64,
    /// Uncompressed bytes of a cluster, at most.
    pub cluster_bytes_uncompressed: u64,
    /// Encoded bytes of a page, at most.
    pub page_bytes: usize,
    /// Bytes of elements that may wait for their pages to become full; beyond it, smaller pages are made.
    pub page_buffer: u64,
    /// Largest record of the file.
    pub max_key_size: u64,
    /// Every page has a checksum.
    pub page_checksums: bool,
    /// Pages with the same bytes are stored once in a cluster.
    pub same_page_merging: bool,
    /// Clusters of a page list, at most.
    pub clusters_per_group: usize,
    /// Threads that encode and compress.
    pub threads: usize,
    /// The ntuple's description.
    pub description: String,
    /// An ntuple of its name that is in the file already is hidden, as an older cycle; else it is an error.
    pub new_cycle: bool,
}

/// Entries are taken in slices of about this many bytes, so that what waits for pages stays small.
pub(super) const SLICE: usize = 16 << 20;

/// Batches that are larger are converted in parts of about this many bytes.
pub(super) const PART: usize = 32 << 20;

/// Page lists of this many bytes in memory are written, whatever the number of their clusters: about half as many in the file
/// before they are compressed. Who reads some entries reads only those of their groups.
pub(super) const PAGE_LIST: usize = 1 << 20;

/// What the libraries' contexts of a thread take: of zstd 11 MB at level 505, 18 MB at 509, and 4 MB for byte planes.
const THREAD: u64 = 24 << 20;

/// Pages that a thread holds: encoded, compressed in up to three ways, and as it will be stored.
const PAGES_OF_THREAD: u64 = 5;

/// The least that clusters and waiting elements are limited to.
const LEAST: u64 = 8 << 20;

impl Default for WriteOptions {
    /// As ROOT 6.40 writes: zstd 5, clusters of 128 MiB, pages of 1 MiB.
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
        }
    }
}

impl WriteOptions {
    /// Bytes of memory that writing takes at most, besides the batches that are given: a cluster's compressed pages, the
    /// elements that wait, a slice of entries that is being taken apart and the part of a batch that was converted for it, a
    /// page list, and for each thread its contexts and five pages.
    ///
    /// A single entry that is larger than 16 MiB takes its size twice in addition.
    pub fn memory(&self) -> u64 {
        let fixed = (2 * SLICE + PART + PAGE_LIST) as u64;
        self.cluster_bytes + self.page_buffer + fixed + self.threads as u64 * self.thread()
    }

    fn thread(&self) -> u64 {
        PAGES_OF_THREAD * self.page_bytes as u64 + THREAD
    }

    /// Takes fewer threads, and makes clusters and what waits smaller, until [`memory`](Self::memory) is at most `limit`, as
    /// far as that is possible; gives what it is then.
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
