//! The cost of a read, computed before any page is read.

use std::collections::BTreeMap;

use femtobarn_io::units::bytes;
use femtobarn_io::{SourceCost, Stage};

use super::fetch;
use super::plan::{self, Extent, Part, segments};
use super::selection::ReadSchema;
use crate::RNTupleError;
use crate::encoding::Target;
use crate::schema::{SlotKind, SlotParent};
use crate::spec::StoredRange;

/// The cost of one column.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by their types")]
pub struct ColumnCost {
    pub field: String,
    pub type_name: String,
    pub column_types: Vec<&'static str>,
    pub pages: u64,
    pub bytes_on_disk: u64,
    pub bytes_decoded: u64,
}

/// The cost of opening files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpeningCost {
    /// Vector reads.
    pub vectors: u64,
    /// Ranges in them.
    pub ranges: u64,
    /// Number of bytes received.
    pub bytes: u64,
}

impl OpeningCost {
    /// The cost for the files of some parts, if it was counted.
    fn of(parts: &[Part]) -> Option<Self> {
        let meters = parts
            .iter()
            .filter_map(|part| part.reader.store().info().meter);
        let spans = meters.flat_map(|meter| meter.spans());
        let mut out = None;
        for span in spans.filter(|span| span.stage == Stage::Open) {
            let sum: &mut Self = out.get_or_insert_default();
            sum.vectors += 1;
            sum.ranges += span.ranges.len() as u64;
            sum.bytes += span.ranges.iter().map(|r| r.end - r.start).sum::<u64>();
        }
        out
    }
}

/// The plan of a read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Number of entries to read.
    pub n_entries: u64,
    /// Number of clusters.
    pub clusters: u64,
    /// Number of pages.
    pub pages: u64,
    /// Number of distinct byte ranges of pages.
    pub ranges: u64,
    /// Number of vector reads.
    pub vectors: u64,
    /// Number of requests that the server receives.
    pub requests: u64,
    /// Size of the pages, including checksums.
    pub bytes_needed: u64,
    /// Number of bytes that the requests fetch.
    pub bytes_read: u64,
    /// Size of the result.
    pub bytes_decoded: u64,
    /// Number of rounds: more than one if offsets must be known first.
    pub rounds: u64,
    /// Whether all numbers are exact. Otherwise they are upper limits: the items of collections in partly read
    /// clusters are known only when their offsets have been read.
    pub exact: bool,
    /// Whether entries are selected by a condition on values, so that pages without such entries are not read.
    pub selects: bool,
    /// How requests are cut, for each source that differs in that.
    pub costs: Vec<SourceCost>,
    /// The cost of opening the files, which is not in the other numbers; none if reads are not counted.
    pub opening: Option<OpeningCost>,
    /// The cost of each column.
    pub columns: Vec<ColumnCost>,
}

/// Computes the plan of a read; reads only page lists.
pub fn explain(schema: &ReadSchema, parts: &[Part]) -> Result<Plan, RNTupleError> {
    Ok(Plan {
        opening: OpeningCost::of(parts),
        ..planned(schema, parts)?
    })
}

fn planned(schema: &ReadSchema, parts: &[Part]) -> Result<Plan, RNTupleError> {
    if parts.iter().any(|part| part.reader.storage().is_some()) {
        return of_storage(schema, parts);
    }
    let segments = segments(parts)?;
    let mut out = Plan {
        n_entries: segments.iter().map(plan::Segment::n_entries).sum(),
        clusters: segments.len() as u64,
        exact: true,
        rounds: 1,
        ..Plan::default()
    };
    let mut ranges: Vec<Vec<StoredRange>> = parts.iter().map(|_| Vec::new()).collect();
    let depths = depths(schema);
    for ((id, slot), depth) in schema.slots.as_slice().iter().enumerate().zip(depths) {
        let mut cost = ColumnCost {
            field: String::new(),
            type_name: String::new(),
            column_types: Vec::new(),
            pages: 0,
            bytes_on_disk: 0,
            bytes_decoded: 0,
        };
        let size = match slot.kind {
            SlotKind::Leaf(dtype) => Target::Leaf(dtype).size(),
            SlotKind::Index => 8,
            SlotKind::Switch(_) => 9,
        } as u64;
        for segment in &segments {
            let Some(part) = parts.get(segment.part) else {
                continue;
            };
            let source = plan::slot_source(part, segment, id, slot)?;
            let known = slot.parent == SlotParent::Entries;
            let (extent, total) = if known {
                plan::entries(segment)
                    .scale(slot.multiplicity)
                    .unwrap_or_default()
            } else {
                (
                    Extent {
                        first: 0,
                        length: source.n_elements(),
                    },
                    Some(source.n_elements()),
                )
            };
            if !known && !plan::is_immediate(segment, slot, &source) {
                out.exact = false;
                out.rounds = out.rounds.max(depth + 1);
            }
            let descriptor = part.reader.descriptor();
            if let Some(field) = descriptor
                .field(slot.field)
                .filter(|_| cost.field.is_empty())
            {
                cost.field = part.reader.label(slot.field);
                cost.type_name = field.record.type_name.clone();
            }
            if let Some(name) = descriptor
                .column(source.column)
                .map(|c| c.column_type.name())
                && !cost.column_types.contains(&name)
            {
                cost.column_types.push(name);
            }
            let (_, mut pieces) = plan::pieces(part, &source, slot, extent, total)?;
            // the offset before the first wanted one
            if let Some(element) = extent
                .first
                .checked_sub(1)
                .filter(|_| slot.kind == SlotKind::Index && extent.length > 0)
                && let Some(before) = plan::element(&source, total, element)
                && pieces.first().is_none_or(|first| first.page != before.page)
            {
                pieces.push(before);
            }
            cost.bytes_decoded = cost
                .bytes_decoded
                .saturating_add(extent.length.saturating_mul(size));
            cost.pages += pieces.len() as u64;
            for piece in pieces {
                let stored = piece.page.stored_size();
                cost.bytes_on_disk = cost.bytes_on_disk.saturating_add(stored);
                if let Some(ranges) = ranges.get_mut(segment.part) {
                    ranges.push(piece.page.stored());
                }
            }
        }
        out.pages += cost.pages;
        out.bytes_decoded = out.bytes_decoded.saturating_add(cost.bytes_decoded);
        out.columns.push(cost);
    }
    for (part, ranges) in parts.iter().zip(ranges) {
        out.add_ranges(part, ranges);
    }
    Ok(out)
}

/// The plan for columns in another format. The number of items with counters is estimated.
fn of_storage(schema: &ReadSchema, parts: &[Part]) -> Result<Plan, RNTupleError> {
    let mut out = Plan {
        n_entries: parts.iter().map(|part| part.stop - part.start).sum(),
        clusters: segments(parts)?.len() as u64,
        exact: schema
            .slots
            .as_slice()
            .iter()
            .all(|slot| slot.parent == SlotParent::Entries && slot.kind != SlotKind::Index),
        rounds: 1,
        ..Plan::default()
    };
    out.rounds += u64::from(!out.exact);
    for part in parts {
        let Some(storage) = part.reader.storage() else {
            continue;
        };
        let mut ranges: BTreeMap<u64, Vec<StoredRange>> = BTreeMap::new();
        let descriptor = part.reader.descriptor();
        let costs = storage.costs(schema, part)?.into_iter();
        for (at, (cost, slot)) in costs.zip(schema.slots.as_slice()).enumerate() {
            let column = part.binding.columns(at).first().copied();
            let column = column.and_then(|column| descriptor.column(column));
            let own = ColumnCost {
                field: part.reader.label(slot.field),
                type_name: descriptor
                    .field(slot.field)
                    .map_or_else(String::new, |field| field.record.type_name.clone()),
                column_types: column.map(|c| c.column_type.name()).into_iter().collect(),
                pages: cost.ranges.len() as u64,
                bytes_on_disk: cost
                    .ranges
                    .iter()
                    .map(|range| range.end - range.start)
                    .sum(),
                bytes_decoded: cost.bytes_decoded,
            };
            let stored = cost.ranges.into_iter().map(StoredRange::of_file);
            ranges.entry(cost.round).or_default().extend(stored);
            out.pages += own.pages;
            out.bytes_decoded = out.bytes_decoded.saturating_add(own.bytes_decoded);
            match out.columns.get_mut(at) {
                Some(known) => {
                    known.pages += own.pages;
                    known.bytes_on_disk += own.bytes_on_disk;
                    known.bytes_decoded = known.bytes_decoded.saturating_add(own.bytes_decoded);
                }
                None => out.columns.push(own),
            }
        }
        for ranges in ranges.into_values() {
            out.add_ranges(part, ranges);
        }
    }
    Ok(out)
}

impl Plan {
    /// Describes how requests are cut, one line per source that differs in that.
    pub fn cutting(&self) -> Vec<String> {
        let line = |cost: &SourceCost| {
            let gap = match (cost.largest_gap, cost.most_gaps) {
                (0, _) => "gaps are not read".to_owned(),
                (gap, None) => format!("gaps of up to {} are read", bytes(gap)),
                (gap, Some(percent)) => format!(
                    "gaps of up to {} are read, if they are at most {percent} % of the needed bytes",
                    bytes(gap)
                ),
            };
            if !cost.is_far() {
                let request = match cost.largest_request {
                    u64::MAX => "of any size".to_owned(),
                    most => format!("of at most {}", bytes(most)),
                };
                return format!("reads {request}, one for each thread at a time; {gap}");
            }
            format!(
                "vector reads of at most {} in {} ranges, up to {} at once depending on bandwidth and latency, at most {} \
                 ahead; {gap}",
                bytes(cost.largest_vector),
                cost.most_ranges,
                cost.concurrency,
                bytes(cost.in_flight),
            )
        };
        let opening = self.opening.map(|opening| {
            let plural = |n: u64| if n == 1 { "" } else { "s" };
            let (vectors, ranges) = (opening.vectors, opening.ranges);
            format!(
                "opening the files has also read {} in {vectors} vector read{} of {ranges} range{}",
                bytes(opening.bytes),
                plural(vectors),
                plural(ranges),
            )
        });
        self.costs.iter().map(line).chain(opening).collect()
    }

    /// Notes on the numbers.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.selects {
            notes.push(
                "all numbers are upper bounds: pages without entries that pass the cut are not read"
                    .to_owned(),
            );
        }
        if self.exact {
            return notes;
        }
        notes.push(format!(
            "bytes and pages are upper bounds: below collections in partly read clusters, pages are chosen once the \
             offsets are known; up to {} rounds of reading, each with its own requests",
            self.rounds
        ));
        notes
    }

    /// Counts the requests for ranges of a part. Ranges that are wanted more than once are read once.
    fn add_ranges(&mut self, part: &Part, mut ranges: Vec<StoredRange>) {
        ranges.sort_unstable();
        ranges.dedup();
        let store = part.reader.store();
        let fetch = fetch::cost_of(store, &ranges);
        let cost = store.info().cost;
        if !self.costs.contains(&cost) {
            self.costs.push(cost);
        }
        self.ranges += ranges.len() as u64;
        self.bytes_needed += ranges.iter().map(|stored| stored.size).sum::<u64>();
        self.vectors += fetch.vectors;
        self.requests += fetch.requests;
        self.bytes_read += fetch.bytes;
    }
}

/// The number of collections and variants above each slot.
fn depths(schema: &ReadSchema) -> Vec<u64> {
    let mut out: Vec<u64> = Vec::with_capacity(schema.slots.len());
    for slot in schema.slots.as_slice() {
        out.push(match slot.parent {
            SlotParent::Entries => 0,
            SlotParent::Index(parent) | SlotParent::Switch(parent, _) => {
                out.get(parent).map_or(0, |depth| depth + 1)
            }
        });
    }
    out
}
