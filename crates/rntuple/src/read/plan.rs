//! Planning: determines pages from descriptor, slots and range of entries. Pure except for page lists, which are
//! metadata.

use std::sync::Arc;

use femtobarn_io::on_threads;

use super::invariants::{PageFault, check_page, check_zeros, cover};
use super::reader::{Reader, page_error};
use super::selection::{Binding, ReadSchema};
use crate::RNTupleError;
use crate::schema::{Slot, SlotId, SlotParent};
use crate::spec::{ClusterSummary, Page, PageList};

/// A range of entries of one file.
#[derive(Debug, Clone)]
pub struct Part {
    /// The ntuple.
    pub reader: Arc<Reader>,
    /// Its columns for the slots of the read.
    pub binding: Arc<Binding>,
    /// First entry, in the file.
    pub start: u64,
    /// One past the last entry, in the file.
    pub stop: u64,
}

/// A read of these slots alone, which include their parents.
pub(super) fn only(
    schema: &ReadSchema,
    parts: &[Part],
    slots: &[SlotId],
) -> (ReadSchema, Vec<Part>) {
    let parts = parts.iter().map(|part| Part {
        binding: Arc::new(part.binding.only(slots)),
        ..part.clone()
    });
    (schema.only(slots), parts.collect())
}

/// The wanted entries of one cluster.
#[derive(Debug, Clone)]
pub struct Segment {
    /// Index of the part.
    pub part: usize,
    /// The page list with the cluster.
    pub list: Arc<PageList>,
    /// Index of the cluster in the page list.
    pub index: usize,
    /// Number of the cluster in the ntuple.
    pub cluster: u64,
    /// The entries of the cluster.
    pub summary: ClusterSummary,
    /// First wanted entry, counted from the cluster's first.
    pub low: u64,
    /// One past the last wanted entry, likewise.
    pub high: u64,
}

impl Segment {
    /// Number of wanted entries.
    pub fn n_entries(&self) -> u64 {
        self.high - self.low
    }

    /// Whether the whole cluster is wanted.
    pub fn is_whole(&self) -> bool {
        self.low == 0 && self.high == self.summary.n_entries
    }
}

/// Number of threads that fetch page lists, each of another file.
const ASKING: usize = 16;

/// For up to so many parts, a plan keeps whole page lists; for more, only the needed columns.
const WHOLE: usize = 16;

/// Fetches missing page lists, those of several files concurrently if their sources have a latency.
fn load_lists(parts: &[Part]) -> Result<(), RNTupleError> {
    let is_far = |part: &&Part| part.reader.cost().is_far();
    let far: Vec<&Part> = parts.iter().filter(is_far).collect();
    if far.len() < 2 {
        return Ok(());
    }
    let mut threads = vec![(); far.len().min(ASKING)];
    on_threads(&mut threads, far, |(), part| {
        part.reader.page_lists(part.start..part.stop).map(drop)
    })?;
    Ok(())
}

/// Splits the parts at cluster boundaries; the clusters must contain every entry exactly once.
pub fn segments(parts: &[Part]) -> Result<Vec<Segment>, RNTupleError> {
    load_lists(parts)?;
    let mut out = Vec::new();
    // parts of one cluster group share the list
    let mut last: Option<(Arc<PageList>, &Arc<Binding>, Arc<PageList>)> = None;
    for (index, part) in parts.iter().enumerate() {
        if part.start >= part.stop {
            continue;
        }
        let from = out.len();
        for (first_cluster, list) in part.reader.page_lists(part.start..part.stop)? {
            let list = match &last {
                _ if parts.len() <= WHOLE => list,
                Some((whole, binding, list_of_last))
                    if Arc::ptr_eq(whole, &list) && Arc::ptr_eq(binding, &part.binding) =>
                {
                    list_of_last.clone()
                }
                _ => {
                    let needed = Arc::new(list.only(part.binding.all_columns()));
                    last = Some((list, &part.binding, needed.clone()));
                    needed
                }
            };
            for (position, summary) in list.clusters().iter().enumerate() {
                let low = part.start.max(summary.first_entry);
                let high = part.stop.min(summary.end());
                if low < high {
                    out.push(Segment {
                        part: index,
                        list: list.clone(),
                        index: position,
                        cluster: first_cluster.saturating_add(position as u64),
                        summary: *summary,
                        low: low - summary.first_entry,
                        high: high - summary.first_entry,
                    });
                }
            }
        }
        let Some(own) = out.get_mut(from..) else {
            continue;
        };
        own.sort_by_key(|segment| segment.summary.first_entry);
        check_cover(part, own)?;
    }
    Ok(out)
}

fn check_cover(part: &Part, segments: &[Segment]) -> Result<(), RNTupleError> {
    let ranges = segments.iter().map(|segment| {
        let first = segment.summary.first_entry;
        first + segment.low..first + segment.high
    });
    cover(part.start..part.stop, ranges)
        .map_err(|contradiction| part.reader.contradicted(contradiction))
}

/// The source of a slot's elements in a cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotSource<'a> {
    /// The cluster.
    segment: &'a Segment,
    /// The physical column used.
    pub column: u32,
    /// Its pages; none if the column was added after this cluster.
    pub pages: &'a [Page],
    /// Whether elements may be missing at the front (they are zero), because the column was added later.
    pub deferred: bool,
}

impl SlotSource<'_> {
    /// Number of elements in pages.
    pub fn n_elements(&self) -> u64 {
        self.pages
            .iter()
            .map(|page| u64::from(page.n_elements))
            .sum()
    }
}

/// The representation that a cluster uses, and its pages.
pub(super) fn slot_source<'a>(
    part: &Part,
    segment: &'a Segment,
    slot_id: SlotId,
    slot: &Slot,
) -> Result<SlotSource<'a>, RNTupleError> {
    let descriptor = part.reader.descriptor();
    let mut absent = None;
    for &column in part.binding.columns(slot_id) {
        let Some(record) = descriptor.column(column) else {
            continue;
        };
        match segment.list.column(segment.index, column) {
            Some(pages) if pages.suppressed() => {}
            Some(listed) => {
                let pages = segment.list.pages(listed);
                check_pages(&part.reader, segment.cluster, column, pages)?;
                return Ok(SlotSource {
                    segment,
                    column,
                    pages,
                    deferred: record.flags.deferred(),
                });
            }
            // the page list is older than the column, whose elements in this cluster, if any, are zero
            None if record.first_element >= 0 => {
                absent = absent.or(Some((column, record.flags.deferred())))
            }
            None => {}
        }
    }
    match absent {
        Some((column, deferred)) => Ok(SlotSource {
            segment,
            column,
            pages: &[],
            deferred,
        }),
        None => {
            let name = part.reader.label(slot.field);
            let what = format!("column of field {name:?} in cluster {}", segment.cluster);
            Err(part
                .reader
                .inconsistent(&what, "one representation in use", "none"))
        }
    }
}

/// Checks that the pages of a column are within the file and can contain their elements, before memory is planned for
/// them.
pub(crate) fn check_pages(
    reader: &Reader,
    cluster: u64,
    column: u32,
    pages: &[Page],
) -> Result<(), RNTupleError> {
    let record = reader.descriptor().column(column);
    for page in pages {
        let fault = match check_page(page, record, reader.store()) {
            Ok(()) => continue,
            Err(fault) => fault,
        };
        return Err(match (fault, record) {
            (PageFault::Elsewhere(at), _) => {
                let field = record.map_or("?".into(), |record| reader.label(record.field_id));
                let reason = format!("its pages are in another kind of store ({at})");
                reader.unsupported(&field, &reason)
            }
            (PageFault::Elements(error), Some(record)) => {
                page_error(reader, record, cluster, page.body.address, error)
            }
            (PageFault::Elements(error), None) => RNTupleError::internal(error.to_string()),
            (PageFault::Range(contradiction), _) => {
                let what = format!("page of column {column} in cluster {cluster}");
                reader.inconsistent(&what, contradiction.expected, contradiction.found)
            }
        });
    }
    Ok(())
}

/// The elements of a slot that a segment needs, counted from the cluster's first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Extent {
    /// First element.
    pub first: u64,
    /// Number of elements.
    pub length: u64,
}

/// The items of a collection or of an alternative, in one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Items {
    /// First wanted item, counted from the cluster's first.
    pub first: u64,
    /// Number of wanted items.
    pub length: u64,
    /// Number of items in the whole cluster, if known.
    pub total: Option<u64>,
}

impl Items {
    /// The elements of a slot with `multiplicity` elements per item.
    pub fn scale(&self, multiplicity: u64) -> Option<(Extent, Option<u64>)> {
        let extent = Extent {
            first: self.first.checked_mul(multiplicity)?,
            length: self.length.checked_mul(multiplicity)?,
        };
        let total = match self.total {
            Some(total) => Some(total.checked_mul(multiplicity)?),
            None => None,
        };
        Some((extent, total))
    }
}

/// The entries of a segment as items.
pub(super) fn entries(segment: &Segment) -> Items {
    Items {
        first: segment.low,
        length: segment.n_entries(),
        total: Some(segment.summary.n_entries),
    }
}

/// The needed piece of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// The page.
    pub page: Page,
    /// First wanted element in the page.
    pub low: u32,
    /// One past the last wanted element in the page.
    pub high: u32,
}

/// The number of zeros at the front (of a column added later), and the pieces of pages that make up an extent.
pub(super) fn pieces(
    part: &Part,
    source: &SlotSource<'_>,
    slot: &Slot,
    extent: Extent,
    total: Option<u64>,
) -> Result<(u64, Vec<Piece>), RNTupleError> {
    let available = source.n_elements();
    let missing = match (source.deferred, total) {
        _ if source.pages.is_empty() && source.deferred => {
            extent.first.saturating_add(extent.length)
        }
        (true, Some(total)) => total.saturating_sub(available),
        _ => 0,
    };
    let end = extent.first.saturating_add(extent.length);
    if end > missing.saturating_add(available) {
        let name = part.reader.label(slot.field);
        let what = format!("number of elements of field {name:?}");
        return Err(part.reader.inconsistent(
            &what,
            format!("at least {end}"),
            missing.saturating_add(available),
        ));
    }
    if let Some(total) = total.filter(|&total| available > total) {
        let what = format!(
            "number of elements of field {:?}",
            part.reader.label(slot.field)
        );
        return Err(part.reader.inconsistent(&what, total, available));
    }
    check_zeros(missing, &source.segment.list, source.segment.index).map_err(|wrong| {
        let name = part.reader.label(slot.field);
        let what = format!(
            "{} of field {name:?} in cluster {}",
            wrong.what, source.segment.cluster
        );
        part.reader.inconsistent(&what, wrong.expected, wrong.found)
    })?;
    let zeros = missing.min(end).saturating_sub(extent.first);
    let mut out = Vec::new();
    let mut position = missing;
    for &page in source.pages {
        let next = position + u64::from(page.n_elements);
        let low = extent.first.max(position);
        let high = end.min(next);
        if low < high {
            let within = |element: u64| u32::try_from(element - position).unwrap_or(u32::MAX);
            out.push(Piece {
                page,
                low: within(low),
                high: within(high),
            });
        }
        position = next;
    }
    Ok((zeros, out))
}

/// The page with an element, unless the element is one of the zeros at the front.
pub(super) fn element(source: &SlotSource<'_>, total: Option<u64>, element: u64) -> Option<Piece> {
    let available = source.n_elements();
    let missing = if source.deferred {
        total.unwrap_or(available).saturating_sub(available)
    } else {
        0
    };
    let mut position = missing;
    for &page in source.pages {
        let next = position + u64::from(page.n_elements);
        if (position..next).contains(&element) {
            let low = u32::try_from(element - position).unwrap_or(u32::MAX);
            return Some(Piece {
                page,
                low,
                high: low.saturating_add(1),
            });
        }
        position = next;
    }
    None
}

/// Whether the elements of a slot in a segment follow from metadata alone.
pub(super) fn is_immediate(segment: &Segment, slot: &Slot, source: &SlotSource<'_>) -> bool {
    slot.parent == SlotParent::Entries || (segment.is_whole() && !source.deferred)
}
