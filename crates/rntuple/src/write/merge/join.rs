//! Joins fields of several ntuples side by side.
//!
//! If all have the same entries in the same clusters, pages are kept, and only the metadata are new. Otherwise clusters
//! are rebuilt from the matching entries of each ntuple.

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

use super::super::sink::PageSink;
use super::clusters::{Cluster, clusters, plan};
use super::mapping::Mapping;
use super::options::{MergeOptions, Merged};
use super::rebuild::{Origin, Ranges};
use super::schema::MergedSchema;
use super::writer::{Adding, NTupleMerger};
use crate::RNTupleError;
use crate::read::Reader;
use crate::schema::FieldId;
use crate::spec::WrittenColumn;

/// The smallest number of entries processed at a time.
const LEAST_STEP: u64 = 1000;

/// Size of the elements that are reordered at a time; each time, all pages with some of the entries are read.
const SORTED: RangeInclusive<u64> = 64 << 20..=512 << 20;

/// An ntuple to be joined with others.
#[derive(Debug)]
pub struct JoinedNTuple<'a> {
    /// The reader.
    pub reader: &'a Reader,
    /// The selected fields.
    pub top_level: Vec<FieldId>,
    /// For each entry of the output, the entry of this ntuple; none if they are the same.
    pub entries: Option<Vec<u64>>,
}

/// Why clusters are rebuilt.
const MATCHED: &str = "matching entries have different numbers";
const BORDERS: &str = "the ntuples have different clusters";

/// Clusters, with ranges of their entries.
type Pieces<'a> = Vec<(&'a Cluster, Vec<Range<u64>>)>;

/// An input that is being joined.
struct Part<'a> {
    reader: &'a Reader,
    mapping: Mapping,
    clusters: Vec<Cluster>,
    entries: Option<&'a [u64]>,
}

/// Begins an ntuple with the fields of all inputs, in a directory of the file, and writes all of its entries. It must
/// then be finished. Also returns what was done with each input.
///
/// # Errors
/// If two inputs have a field of the same name, or reading or writing fails.
pub fn join_columns(
    sink: &mut dyn PageSink,
    place: (usize, &str),
    ntuples: &[JoinedNTuple<'_>],
    options: MergeOptions,
    tick: &(dyn Fn(u64) -> bool + Sync),
) -> Result<(NTupleMerger, Vec<Merged>), RNTupleError> {
    let Some((first, others)) = ntuples.split_first() else {
        return Err(RNTupleError::internal("nothing to join"));
    };
    let mut schema = MergedSchema::new(first.reader, &first.top_level, (true, false))?;
    let mut ends = vec![schema.schema.fields.len()];
    for other in others {
        schema.extend(other.reader, &other.top_level)?;
        ends.push(schema.schema.fields.len());
    }
    let mut parts = Vec::with_capacity(ntuples.len());
    let mut begin = 0;
    for (ntuple, end) in ntuples.iter().zip(ends) {
        let own = begin..end;
        let is_own = |id: &u32| own.contains(&(*id as usize));
        let fields: Vec<u32> = schema.top_level().filter(is_own).collect();
        parts.push(Part {
            reader: ntuple.reader,
            mapping: schema.map_own(ntuple.reader, &fields)?,
            clusters: clusters(ntuple.reader)?,
            entries: ntuple.entries.as_deref(),
        });
        begin = end;
    }
    let mut merger = NTupleMerger::of_schema(sink, place, schema, options)?;
    merger.begin(sink)?;
    for part in &parts {
        merger.add_type_infos(part.reader);
    }
    let why = why_anew(&parts);
    let mut merged: Vec<Merged> = parts.iter().map(|_| Merged::default()).collect();
    match why {
        None => merger.side_by_side(sink, &parts, &mut merged, tick)?,
        Some(why) => {
            merger.entry_by_entry(sink, &parts, &mut merged, tick)?;
            for merged in &mut merged {
                merged.why.push(("L4", why.to_owned()));
            }
        }
    }
    Ok((merger, merged))
}

/// Why pages cannot be kept, if so.
fn why_anew(parts: &[Part<'_>]) -> Option<&'static str> {
    let borders = |part: &Part<'_>| -> Vec<u64> {
        let clusters = part.clusters.iter();
        clusters.map(|cluster| cluster.summary.end()).collect()
    };
    let first = parts.first().map(borders).unwrap_or_default();
    if parts.iter().any(|part| part.entries.is_some()) {
        Some(MATCHED)
    } else if parts.iter().any(|part| borders(part) != first) {
        Some(BORDERS)
    } else {
        let mut late = parts.iter().filter(|part| part.mapping.has_late_items);
        late.next()
            .map(|_| "zeros of fields that were added later are not stored")
    }
}

impl NTupleMerger {
    /// Copies the pages of all inputs, cluster by cluster.
    fn side_by_side(
        &mut self,
        sink: &mut dyn PageSink,
        parts: &[Part<'_>],
        merged: &mut [Merged],
        tick: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<(), RNTupleError> {
        let n_columns = self.schema.schema.columns.len();
        let mut all: Vec<(u64, Vec<WrittenColumn>)> = Vec::new();
        for (part, merged) in parts.iter().zip(merged) {
            let settings = (self.options.compression, self.options.write.compression);
            let planned = plan(
                part.reader,
                &self.schema,
                &part.mapping,
                &part.clusters,
                (&mut self.n_elements, &mut 0),
                settings,
            )?;
            let mut adding = Adding {
                reader: part.reader,
                mapping: &part.mapping,
                tick,
                merged: std::mem::take(merged),
            };
            let written = self.bring(sink, &mut adding, (&planned, &part.clusters))?;
            *merged = adding.merged;
            merged.why.extend(self.why(&part.mapping, &merged.levels));
            let own = self.schema.columns_of(&part.mapping);
            all.resize_with(written.len(), || {
                (0, vec![WrittenColumn::default(); n_columns])
            });
            for ((n_entries, columns), (n, mut written)) in all.iter_mut().zip(written) {
                *n_entries = n;
                for &id in &own {
                    let from = written.get_mut(id as usize);
                    if let (Some(to), Some(from)) = (columns.get_mut(id as usize), from) {
                        *to = std::mem::take(from);
                    }
                }
            }
        }
        for (n_entries, columns) in all {
            self.catalog.add_cluster(sink, n_entries, columns)?;
        }
        Ok(())
    }

    /// Rebuilds clusters from matching entries.
    fn entry_by_entry(
        &mut self,
        sink: &mut dyn PageSink,
        parts: &[Part<'_>],
        merged: &mut [Merged],
        tick: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<(), RNTupleError> {
        let n_entries = parts.first().map_or(0, |part| match part.entries {
            Some(entries) => entries.len() as u64,
            None => part.clusters.last().map_or(0, |last| last.summary.end()),
        });
        let per_entry: u64 = parts.iter().map(Part::bytes_of_entry).sum();
        let is_sorted = parts.iter().all(Part::is_sorted);
        let mut taken: Vec<HashSet<u64>> = parts.iter().map(|_| HashSet::new()).collect();
        let mut at = 0;
        while at < n_entries {
            let mut left = self.rebuilder.left();
            if !is_sorted {
                left = left.clamp(*SORTED.start(), *SORTED.end());
            }
            let room = left / per_entry.max(1);
            let end = n_entries.min(at + room.max(LEAST_STEP));
            let before = self.rebuilder.n_waiting();
            let each = parts.iter().zip(merged.iter_mut()).zip(&mut taken);
            for ((part, merged), taken) in each {
                let (runs, order) = part.runs(at..end);
                let origin = |cluster| Origin {
                    reader: part.reader,
                    schema: &self.schema,
                    mapping: &part.mapping,
                    cluster,
                };
                let pieces = part.pieces(runs)?;
                taken.extend(pieces.iter().map(|(cluster, _)| cluster.number));
                let pieces = pieces.into_iter();
                let pieces: Vec<_> = pieces
                    .map(|(cluster, entries)| (origin(cluster), entries))
                    .collect();
                let n_bytes = match order {
                    Some(order) => self.rebuilder.add_in_order(&pieces, &order, tick)?,
                    None => self.rebuilder.add_pieces(&pieces, tick)?,
                };
                merged.levels.rebuilt += n_bytes;
                merged.n_entries += end - at;
                merged.n_clusters = taken.len() as u64;
            }
            self.rebuilder.added(end - at, before)?;
            if self.rebuilder.is_full() {
                self.flush(sink)?;
            }
            at = end;
        }
        Ok(())
    }
}

impl Part<'_> {
    /// Approximate uncompressed size of an entry.
    fn bytes_of_entry(&self) -> u64 {
        let n_bytes: u64 = self.clusters.iter().map(|c| c.n_packed(self.reader)).sum();
        let n_entries = self.clusters.last().map_or(0, |last| last.summary.end());
        n_bytes / n_entries.max(1)
    }

    /// Whether its entries keep their order.
    fn is_sorted(&self) -> bool {
        self.entries.is_none_or(<[u64]>::is_sorted)
    }

    /// The entries of this ntuple for some of the output, sorted and unique; and, if the output has another order, the
    /// position of each of its entries among them.
    fn runs(&self, entries: Range<u64>) -> (Ranges, Option<Ranges>) {
        let Some(own) = self.entries else {
            return (std::iter::once(entries).collect(), None);
        };
        let place = |entry| usize::try_from(entry).unwrap_or(usize::MAX);
        let own = own.get(place(entries.start)..place(entries.end));
        let own = own.unwrap_or_default();
        let single = |&entry: &u64| entry..entry + 1;
        if own.is_sorted() {
            return (own.iter().map(single).collect(), None);
        }
        let mut by_entry: Vec<(u64, usize)> = own.iter().copied().zip(0..).collect();
        by_entry.sort_unstable();
        let mut sorted = Vec::with_capacity(own.len());
        let mut order = vec![0; own.len()];
        for (entry, at) in by_entry {
            if sorted.last() != Some(&entry) {
                sorted.push(entry);
            }
            if let Some(place) = order.get_mut(at) {
                *place = sorted.len() as u64 - 1;
            }
        }
        let order = order.iter().map(single).collect();
        (sorted.iter().map(single).collect(), Some(order))
    }

    /// The clusters with these entries, and the ranges in each, in their order.
    fn pieces(&self, entries: Ranges) -> Result<Pieces<'_>, RNTupleError> {
        let mut out: Pieces<'_> = Vec::new();
        for run in entries.iter() {
            let mut at = run.start;
            while at < run.end {
                let behind = self
                    .clusters
                    .partition_point(|cluster| cluster.summary.first_entry <= at);
                let cluster = behind
                    .checked_sub(1)
                    .and_then(|index| self.clusters.get(index));
                let cluster = cluster.filter(|cluster| at < cluster.summary.end());
                let cluster = cluster
                    .ok_or_else(|| self.reader.inconsistent("entry", "one of a cluster", at))?;
                let end = run.end.min(cluster.summary.end());
                let first = cluster.summary.first_entry;
                let range = at - first..end - first;
                match out.last_mut() {
                    Some((last, ranges)) if last.number == cluster.number => ranges.push(range),
                    _ => out.push((cluster, vec![range])),
                }
                at = end;
            }
        }
        Ok(out)
    }
}
