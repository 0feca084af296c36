//! The output of a merge.

use std::ops::Range;
use std::sync::Arc;

use super::super::catalog::Catalog;
use super::super::payload::append_cluster;
use super::super::sink::PageSink;
use super::clusters::{Cluster, clusters, plan};
use super::mapping::Mapping;
use super::options::{Levels, MergeOptions, Merged, Rebuild, quick};
use super::pages::Remaker;
use super::rebuild::{Origin, Rebuilder};
use super::schema::{Fitting, MergedSchema, has_late_items};
use crate::RNTupleError;
use crate::read::Reader;
use crate::schema::FieldId;
use crate::spec::NESTED_DEFERRED_COLUMNS;

/// Selects the entries of a range of an input, in their order.
pub type Choose<'a> = &'a mut dyn FnMut(Range<u64>) -> Result<Vec<Range<u64>>, RNTupleError>;

/// Why clusters are rebuilt.
const CHOSEN: &str = "only some entries of the clusters are selected";
const GATHERED: &str = "pages or clusters get the requested size";

/// An input that is being added.
pub(super) struct Adding<'a> {
    pub reader: &'a Reader,
    pub mapping: &'a Mapping,
    pub tick: &'a (dyn Fn(u64) -> bool + Sync),
    pub merged: Merged,
}

/// Splits ranges after `n` elements; returns the second part.
fn split_off(ranges: &mut Vec<Range<u64>>, n: u64) -> Vec<Range<u64>> {
    let mut left = n.max(1);
    let is_within = |range: &&Range<u64>| {
        let fits = range.end - range.start <= left;
        left -= if fits { range.end - range.start } else { 0 };
        fits
    };
    let whole = ranges.iter().take_while(is_within).count();
    let mut rest = ranges.split_off(whole);
    if let Some(first) = rest.first_mut().filter(|_| left > 0) {
        ranges.push(first.start..first.start + left);
        first.start += left;
    }
    rest
}

/// The first of some names, and the number of others.
fn listed(names: &[String]) -> String {
    const MOST: usize = 5;
    let first = names.get(..MOST).unwrap_or(names).join(", ");
    match names.len().saturating_sub(MOST) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The checksum of an ntuple's header, if the footer does not extend the schema.
fn whole_header(reader: &Reader) -> Option<u64> {
    let descriptor = reader.descriptor();
    (!descriptor.extended).then_some(descriptor.header_checksum)
}

/// Merges ntuples into one.
#[derive(Debug)]
pub struct NTupleMerger {
    pub(super) schema: MergedSchema,
    pub(super) catalog: Catalog,
    pub(super) options: MergeOptions,
    /// Number of elements of each column so far.
    pub(super) n_elements: Vec<u64>,
    /// Number of columns in the page list of the last cluster.
    pub(super) n_listed: usize,
    /// One per thread that remakes pages.
    pub(super) workers: Vec<Remaker>,
    /// The cluster being rebuilt from others.
    pub(super) rebuilder: Rebuilder,
    pub(super) failed: bool,
    /// The header checksum of the last input, if its footer does not extend the schema, and the mapping of its columns.
    pub(super) last: Option<(u64, Arc<Mapping>)>,
    /// Before anything is added: the resulting schema, and the checksum of the last header checked.
    pub(super) trial: Option<(MergedSchema, Option<u64>)>,
}

impl NTupleMerger {
    /// Begins an ntuple with these top-level fields of its first input, which must then be added like all others.
    ///
    /// # Errors
    /// If writing the header fails.
    pub fn new(
        sink: &mut dyn PageSink,
        (directory, name): (usize, &str),
        first: &Reader,
        top_level: &[FieldId],
        options: MergeOptions,
    ) -> Result<Self, RNTupleError> {
        let is_rebuilt = matches!(options.rebuild, Rebuild::Pages | Rebuild::Always);
        let is_one = is_rebuilt || !options.encodings.is_none();
        let at_once = is_one || options.chooses || has_late_items(first.descriptor());
        let mut schema = MergedSchema::new(first, top_level, (at_once, is_one))?;
        schema.recode(&options.encodings)?;
        Self::of_schema(sink, (directory, name), schema, options)
    }

    /// Begins an ntuple with a schema.
    pub(super) fn of_schema(
        sink: &mut dyn PageSink,
        (directory, name): (usize, &str),
        schema: MergedSchema,
        options: MergeOptions,
    ) -> Result<Self, RNTupleError> {
        let catalog = Catalog::unwritten(sink, (directory, name), &quick(&options.write))?;
        let threads = options.write.threads.max(1);
        let mut merger = Self {
            n_elements: Vec::new(),
            n_listed: 0,
            workers: (0..threads).map(|_| Remaker::default()).collect(),
            rebuilder: Rebuilder::new(&options.write, options.compression),
            schema,
            catalog,
            options,
            failed: false,
            last: None,
            trial: None,
        };
        merger.grow();
        Ok(merger)
    }

    /// Writes the header, before anything is added: by then all inputs that may add members to collections were checked.
    pub(super) fn begin(&mut self, sink: &mut dyn PageSink) -> Result<(), RNTupleError> {
        if self.catalog.has_header() {
            return Ok(());
        }
        let trial = self.trial.take().map(|(schema, _)| schema);
        if let Some(schema) = trial.filter(|schema| schema.has_new_members) {
            self.schema = schema.at_once();
            self.rebuilder = Rebuilder::new(&self.options.write, self.options.compression);
            self.n_elements.clear();
            self.grow();
        }
        let (header, _) = self.schema.schema.split_at(self.schema.in_header);
        self.catalog.write_header(sink, &header)
    }

    /// Number of entries so far.
    pub fn n_entries(&self) -> u64 {
        self.catalog.n_entries() + self.rebuilder.n_entries()
    }

    /// Adds entries of an input, all or the selected ones. `takes` decides whether fields that no input had so far are
    /// wanted, consistently for all inputs. `tick` receives the number of bytes copied; if it returns `false`, merging
    /// stops.
    ///
    /// # Errors
    /// If its fields do not match (nothing is added then), or reading or writing fails.
    pub fn add(
        &mut self,
        sink: &mut dyn PageSink,
        reader: &Reader,
        takes: &dyn Fn(&str) -> bool,
        choose: Option<Choose<'_>>,
        tick: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<Merged, RNTupleError> {
        let clusters = clusters(reader)?;
        let mapping = self.mapping(sink, reader, takes)?;
        self.add_type_infos(reader);
        let mut adding = Adding {
            reader,
            mapping: &mapping,
            tick,
            merged: Merged::default(),
        };
        let added = self.add_clusters(sink, &mut adding, clusters, choose);
        self.failed |= added.is_err();
        added?;
        let mut merged = adding.merged;
        merged.why.extend(self.why(&mapping, &merged.levels));
        merged.left_out = Arc::clone(&mapping.left_out);
        merged.missing = Arc::clone(&mapping.missing);
        merged.n_fields = self.schema.schema.fields.len();
        Ok(merged)
    }

    /// Checks that the fields of an input match, after the inputs that were checked before. Nothing is added.
    ///
    /// # Errors
    /// If they do not.
    pub fn check(
        &mut self,
        reader: &Reader,
        takes: &dyn Fn(&str) -> bool,
    ) -> Result<(), RNTupleError> {
        let header = whole_header(reader);
        let takes_members = !self.catalog.has_header();
        let how = self.fitting();
        let trial = self.trial.get_or_insert_with(|| {
            let mut schema = self.schema.clone();
            schema.takes_members = takes_members;
            (schema, None)
        });
        if header.is_none() || trial.1 != header {
            let so_far = (self.catalog.n_entries(), self.n_elements.as_slice());
            trial.0.map(reader, how, takes, so_far)?;
            trial.1 = header;
        }
        Ok(())
    }

    fn fitting(&self) -> Fitting {
        Fitting {
            mode: self.options.mode,
            compatible: self.options.compatible,
            chooses: self.options.chooses,
        }
    }

    /// The mapping of an input's columns, reused from the last input if the header is equal.
    fn mapping(
        &mut self,
        sink: &mut dyn PageSink,
        reader: &Reader,
        takes: &dyn Fn(&str) -> bool,
    ) -> Result<Arc<Mapping>, RNTupleError> {
        self.begin(sink)?;
        self.trial = None;
        let header = whole_header(reader);
        if let Some((_, mapping)) = self.last.as_ref().filter(|(last, _)| header == Some(*last)) {
            return Ok(Arc::clone(mapping));
        }
        let how = self.fitting();
        // new fields begin with a cluster, as all readers support that
        if self.schema.may_grow(reader, how, takes) {
            self.flush(sink)?;
        }
        let so_far = (self.catalog.n_entries(), self.n_elements.as_slice());
        let mapping = Arc::new(self.schema.map(reader, how, takes, so_far)?);
        self.grow();
        self.last = header.map(|header| (header, Arc::clone(&mapping)));
        Ok(mapping)
    }

    fn add_clusters(
        &mut self,
        sink: &mut dyn PageSink,
        adding: &mut Adding<'_>,
        clusters: Vec<Cluster>,
        mut choose: Option<Choose<'_>>,
    ) -> Result<(), RNTupleError> {
        let mut kept = Vec::new();
        for cluster in clusters {
            let all = cluster.summary.first_entry..cluster.summary.end();
            let entries = match &mut choose {
                None => vec![all.clone()],
                Some(choose) => choose(all.clone())?,
            };
            let is_whole = entries.as_slice() == std::slice::from_ref(&all);
            let n_entries: u64 = entries.iter().map(|range| range.end - range.start).sum();
            if is_whole && self.stays(adding.mapping, &cluster) {
                kept.push(cluster);
            } else if n_entries > 0 {
                self.keep(sink, adding, std::mem::take(&mut kept))?;
                let why = if is_whole { GATHERED } else { CHOSEN };
                self.rebuild(sink, adding, &cluster, entries, why)?;
            }
        }
        self.keep(sink, adding, kept)
    }

    /// Whether a cluster with all entries selected can be kept.
    fn stays(&self, mapping: &Mapping, cluster: &Cluster) -> bool {
        // the number of zeros that are not stored depends on all preceding clusters
        if self.options.chooses && mapping.has_late_items {
            return false;
        }
        match self.options.rebuild {
            Rebuild::Never | Rebuild::Needed => true,
            Rebuild::Pages | Rebuild::Always => false,
            Rebuild::Gathered => {
                let is_large = cluster.n_bytes() >= self.options.write.cluster_bytes / 2;
                is_large || self.rebuilder.n_entries() == 0
            }
        }
    }

    /// Copies clusters whose pages are kept.
    fn keep(
        &mut self,
        sink: &mut dyn PageSink,
        adding: &mut Adding<'_>,
        clusters: Vec<Cluster>,
    ) -> Result<(), RNTupleError> {
        if clusters.is_empty() {
            return Ok(());
        }
        self.flush(sink)?;
        let (mut n_elements, mut n_listed) = (self.n_elements.clone(), self.n_listed);
        let planned = plan(
            adding.reader,
            &self.schema,
            adding.mapping,
            &clusters,
            (&mut n_elements, &mut n_listed),
            (self.options.compression, self.options.write.compression),
        );
        match planned {
            Ok(planned) => {
                self.n_elements = n_elements;
                self.n_listed = n_listed;
                for (n_entries, columns) in self.bring(sink, adding, (&planned, &clusters))? {
                    self.catalog.add_cluster(sink, n_entries, columns)?;
                }
                Ok(())
            }
            Err(RNTupleError::NeedsRebuild { name, reason, .. })
                if self.options.rebuild != Rebuild::Never =>
            {
                let why = format!("{name}: {reason}");
                for cluster in &clusters {
                    let all = cluster.summary.first_entry..cluster.summary.end();
                    self.rebuild(sink, adding, cluster, vec![all], &why)?;
                }
                Ok(())
            }
            Err(RNTupleError::NeedsRebuild {
                name, reason, url, ..
            }) => Err(RNTupleError::Usage {
                what: format!(
                    "the clusters of field {name:?} of {url} must be rebuilt, because {reason}: use level auto or L4"
                ),
            }),
            Err(error) => Err(error),
        }
    }

    /// Rebuilds clusters from some entries of another.
    fn rebuild(
        &mut self,
        sink: &mut dyn PageSink,
        adding: &mut Adding<'_>,
        cluster: &Cluster,
        entries: Vec<Range<u64>>,
        why: &str,
    ) -> Result<(), RNTupleError> {
        if adding.merged.why.iter().all(|(_, known)| known != why) {
            adding.merged.why.push(("L4", why.to_owned()));
        }
        adding.merged.n_clusters += 1;
        let first = cluster.summary.first_entry;
        let mut left: Vec<Range<u64>> = entries
            .into_iter()
            .map(|range| range.start - first..range.end - first)
            .collect();
        while !left.is_empty() {
            let is_kept = self.options.rebuild == Rebuild::Pages;
            let some = match is_kept {
                true => u64::MAX,
                false => self.rebuilder.room(adding.reader, cluster),
            };
            let rest = split_off(&mut left, some);
            let origin = Origin {
                reader: adding.reader,
                schema: &self.schema,
                mapping: adding.mapping,
                cluster,
            };
            adding.merged.levels.rebuilt += self.rebuilder.add(origin, &left, adding.tick)?;
            adding.merged.n_entries += left.iter().map(|r| r.end - r.start).sum::<u64>();
            if is_kept || self.rebuilder.is_full() {
                self.flush(sink)?;
            }
            left = rest;
        }
        Ok(())
    }

    /// Writes the cluster being rebuilt, if it has entries.
    pub(super) fn flush(&mut self, sink: &mut dyn PageSink) -> Result<(), RNTupleError> {
        let Some(cluster) = self.rebuilder.take()? else {
            return Ok(());
        };
        let options = &self.options.write;
        let written = append_cluster(sink, &cluster, options, &mut self.n_elements);
        self.failed |= written.is_err();
        let mut columns = written?;
        self.n_listed = columns.len();
        for (id, all) in (0u32..).zip(&self.schema.representations) {
            let used = self.schema.widest(id);
            let Some(first) = all.get(used) else {
                continue;
            };
            let others = all.iter().enumerate().filter(|(at, _)| *at != used);
            // all representations have the same number of elements
            for (&own, &other) in others.flat_map(|(_, columns)| first.iter().zip(columns)) {
                let n = self.n_elements.get(own as usize).copied().unwrap_or(0);
                if let Some(count) = self.n_elements.get_mut(other as usize) {
                    *count = n;
                }
                if let Some(column) = columns.get_mut(other as usize) {
                    column.element_offset = None;
                }
            }
        }
        self.catalog.add_cluster(sink, cluster.n_entries, columns)
    }

    /// Why pages were not shared, or not kept.
    pub(super) fn why(&self, mapping: &Mapping, levels: &Levels) -> Vec<(&'static str, String)> {
        let mut out = Vec::new();
        if levels.refused > 0 {
            let why = "the file system does not share its blocks with the output";
            out.push(("L1", why.to_owned()));
        }
        if levels.recompressed > 0 {
            let asked = self.options.compression.unwrap_or_default();
            out.push(("L2", format!("compression {asked} was requested")));
        }
        let reencoded = self.schema.reencoded(mapping);
        if levels.reencoded > 0 && !reencoded.is_empty() {
            let why = match self.options.encodings.is_none() {
                true => "different encoding than in the output",
                false => "other encoding or precision was requested",
            };
            out.push(("L3", format!("{why}: {}", listed(&reencoded))));
        }
        out
    }

    /// Adds counters for new columns, which begin where their fields do.
    fn grow(&mut self) {
        let new = self
            .schema
            .schema
            .columns
            .iter()
            .skip(self.n_elements.len());
        let begin: Vec<u64> = new
            .map(|column| column.first_element.unsigned_abs())
            .collect();
        // the first input's columns begin with it, whatever they leave out
        let is_first = self.n_elements.is_empty() && self.catalog.n_entries() == 0;
        self.rebuilder.grow(&self.schema);
        self.n_elements
            .extend(begin.iter().map(|&n| if is_first { 0 } else { n }));
    }

    pub(super) fn add_type_infos(&mut self, reader: &Reader) {
        let known = &mut self.catalog.extra_type_infos;
        for info in &reader.descriptor().extra_type_infos {
            if !known.contains(info) {
                known.push(info.clone());
            }
        }
    }

    /// The top-level fields that an input does not have, including those that later inputs have added.
    pub fn missing_in(&self, merged: &Merged) -> Arc<[String]> {
        let has = |id: u32| {
            (id as usize) < merged.n_fields && !merged.missing.contains(&self.schema.path(id))
        };
        // a projected field exists if its source does
        let is_shown = |id: u32| {
            let source = self.schema.record(id).and_then(|record| record.source_id);
            source.is_some_and(|source| has(self.schema.top_of(source)))
        };
        let later = self.schema.top_level();
        let later = later.filter(|&id| id as usize >= merged.n_fields && !is_shown(id));
        let later: Vec<String> = later.map(|id| self.schema.path(id)).collect();
        if later.is_empty() {
            return Arc::clone(&merged.missing);
        }
        merged.missing.iter().cloned().chain(later).collect()
    }

    /// Writes the remaining data and the anchor. Returns the number of entries.
    ///
    /// # Errors
    /// If writing fails or has failed.
    pub fn finish(mut self, sink: &mut dyn PageSink) -> Result<u64, RNTupleError> {
        if self.failed {
            let reason = "an input could not be added completely, so it cannot be finished";
            return Err(super::super::model::unwritable(self.catalog.name(), reason));
        }
        self.begin(sink)?;
        self.flush(sink)?;
        if self.schema.has_nested_deferred {
            self.catalog.feature_flags |= NESTED_DEFERRED_COLUMNS;
        }
        let (_, extension) = self.schema.schema.split_at(self.schema.in_header);
        let anchor = self.catalog.close(sink, extension)?;
        self.catalog.finish(sink, &anchor)
    }
}
