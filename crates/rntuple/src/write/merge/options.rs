//! Options and results of merging.

use std::ops::Range;
use std::sync::Arc;

use super::recode::Encodings;
use super::schema::Mode;
use crate::write::options::WriteOptions;

/// ROOT's number of zstd, and the level up to which it is fast.
const ZSTD: u32 = 5;
const QUICK: u32 = 2;

/// Options for merging ntuples.
#[derive(Debug, Clone)]
pub struct MergeOptions {
    /// Which fields the inputs must have.
    pub mode: Mode,
    /// Whether pages may share their blocks with the input's file (L0).
    pub share: bool,
    /// Whether pages in objects stay where they are, and the output refers to them, if possible.
    pub refers: bool,
    /// Whether pages are not read, and zeros are written in place of them: to find out where they would be.
    pub sketches: bool,
    /// Recompress pages with other settings (L2); none keeps all.
    pub compression: Option<u32>,
    /// Encodings that columns are converted to (L3).
    pub encodings: Encodings,
    /// Whether to write only what ROOT 6.40 and uproot 5.7 can read: columns get no further representations.
    pub compatible: bool,
    /// Which clusters are rebuilt (L4).
    pub rebuild: Rebuild,
    /// Whether only some entries of the inputs will be taken.
    pub chooses: bool,
    /// How metadata and new pages are written.
    pub write: WriteOptions,
}

/// Which clusters are rebuilt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rebuild {
    /// None: a cluster that cannot be kept is an error.
    Never,
    /// Clusters that cannot be kept: only some of their entries are taken, or zeros are not stored.
    #[default]
    Needed,
    /// The same, and others with them until clusters have their size.
    Gathered,
    /// All, each by itself: pages get another size.
    Pages,
    /// All.
    Always,
}

impl Default for MergeOptions {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            share: true,
            refers: false,
            sketches: false,
            compression: None,
            encodings: Encodings::default(),
            compatible: true,
            rebuild: Rebuild::default(),
            chooses: false,
            write: WriteOptions::default(),
        }
    }
}

/// Size of the output's pages, by merge level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Levels {
    /// L0: in blocks shared with the input.
    pub shared: u64,
    /// L1: copied.
    pub copied: u64,
    /// L2: decompressed and compressed.
    pub recompressed: u64,
    /// L3: decoded and encoded.
    pub reencoded: u64,
    /// L4: size of the input's pages that were read for rebuilt clusters.
    pub rebuilt: u64,
    /// Zeros of fields that an input does not have.
    pub zeros: u64,
    /// Bytes that were copied because the file system refused to share them.
    pub refused: u64,
}

impl Levels {
    /// The sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            shared: self.shared + other.shared,
            copied: self.copied + other.copied,
            recompressed: self.recompressed + other.recompressed,
            reencoded: self.reencoded + other.reencoded,
            rebuilt: self.rebuilt + other.rebuilt,
            zeros: self.zeros + other.zeros,
            refused: self.refused + other.refused,
        }
    }
}

/// The result of merging an input.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "named by their types")]
pub struct Merged {
    pub n_entries: u64,
    /// Number of the input's clusters with entries that were taken.
    pub n_clusters: u64,
    /// Number of pages that were kept or remade, not counting rebuilt clusters.
    pub n_pages: u64,
    pub levels: Levels,
    /// Top-level fields of the input that the output does not have.
    pub left_out: Arc<[String]>,
    /// Top-level fields that the output had then, but the input does not
    /// ([`NTupleMerger::missing_in`](super::NTupleMerger::missing_in) includes fields added later).
    pub missing: Arc<[String]>,
    /// Number of fields that the output had then.
    pub(super) n_fields: usize,
    /// Levels other than the cheapest, with the reasons.
    pub why: Vec<(&'static str, String)>,
    /// The range of its regions in the output.
    pub place: Range<u64>,
}

/// The smallest range that contains both, ignoring empty ranges.
#[must_use]
pub fn hull(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    match (a.is_empty(), b.is_empty()) {
        (true, _) => b.clone(),
        (_, true) => a.clone(),
        _ => a.start.min(b.start)..a.end.max(b.end),
    }
}

/// Compression of metadata: faster than that of pages. If no page is compressed, it would take half of the time, to make
/// headers and page lists only a tenth smaller.
pub(super) fn quick(write: &WriteOptions) -> WriteOptions {
    let (algorithm, level) = (write.compression / 100, write.compression % 100);
    WriteOptions {
        compression: match algorithm {
            ZSTD => algorithm * 100 + level.min(QUICK),
            _ => write.compression,
        },
        ..write.clone()
    }
}
