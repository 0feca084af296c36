//! How ntuples are merged, and what came of it.

use std::ops::Range;
use std::sync::Arc;

use super::recode::Encodings;
use super::schema::Mode;
use crate::write::options::WriteOptions;

/// ROOT's number of zstd, and the level up to which it is quick.
const ZSTD: u32 = 5;
const QUICK: u32 = 2;

/// How ntuples are merged.
#[derive(Debug, Clone)]
pub struct MergeOptions {
    /// Which fields the inputs must have.
    pub mode: Mode,
    /// Pages may share their blocks with the input's file (L0).
    pub share: bool,
    /// Pages of other settings are recompressed (L2); none: all stay as they are.
    pub compression: Option<u32>,
    /// Columns that get other encodings (L3).
    pub encodings: Encodings,
    /// Only what ROOT 6.40 and uproot 5.7 read is written: columns get no further representations.
    pub compatible: bool,
    /// Which clusters are made anew (L4).
    pub rebuild: Rebuild,
    /// Not all entries of the inputs will be taken.
    pub chooses: bool,
    /// How metadata and new pages are written.
    pub write: WriteOptions,
}

/// Which clusters are made anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rebuild {
    /// None: what cannot stay is an error.
    Never,
    /// Those that cannot stay: of which only some entries are taken, or that have zeros that are not stored.
    #[default]
    Needed,
    /// These, and with them others until clusters have their size.
    Gathered,
    /// All, each for itself: pages get another size.
    Pages,
    /// All.
    Always,
}

impl Default for MergeOptions {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            share: true,
            compression: None,
            encodings: Encodings::default(),
            compatible: true,
            rebuild: Rebuild::default(),
            chooses: false,
            write: WriteOptions::default(),
        }
    }
}

/// Bytes of the output's pages, by the level that brought them there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Levels {
    /// L0: in blocks that were asked to be shared with the input, and the file system did not refuse.
    pub shared: u64,
    /// L1: copied.
    pub copied: u64,
    /// L2: decompressed and compressed.
    pub recompressed: u64,
    /// L3: decoded and encoded.
    pub reencoded: u64,
    /// L4: bytes of the input's pages that were taken apart for clusters that are made anew.
    pub rebuilt: u64,
    /// Zeros of fields that an input does not have.
    pub zeros: u64,
    /// Bytes that were to be shared, and were copied as the file system refused.
    pub refused: u64,
}

impl Levels {
    /// What both are.
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

/// What came of an input.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "named by their types")]
pub struct Merged {
    pub n_entries: u64,
    /// Clusters of the input of which entries were taken.
    pub n_clusters: u64,
    /// Pages that were brought without being taken apart for clusters that are made anew.
    pub n_pages: u64,
    pub levels: Levels,
    /// Top-level fields of the input that the output does not have.
    pub left_out: Arc<[String]>,
    /// Top-level fields of the output that the input does not have: those that the output had then
    /// ([`NTupleMerger::missing_in`](super::NTupleMerger::missing_in) knows those that came later).
    pub missing: Arc<[String]>,
    /// How many fields the output had then.
    pub(super) n_fields: usize,
    /// Levels that were not the cheapest, and why.
    pub why: Vec<(&'static str, String)>,
    /// Where in the output its regions are, from the first to the last.
    pub place: Range<u64>,
}

/// What reaches from the first of two ranges to the last, if they are not empty.
#[must_use]
pub fn hull(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    match (a.is_empty(), b.is_empty()) {
        (true, _) => b.clone(),
        (_, true) => a.clone(),
        _ => a.start.min(b.start)..a.end.max(b.end),
    }
}

/// How metadata are compressed: not as hard as pages. Where no page is, that would be half of the time, and makes headers and
/// page lists only a tenth smaller.
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
