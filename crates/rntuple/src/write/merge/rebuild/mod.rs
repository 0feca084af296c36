//! Rebuilds clusters (L4): from selected entries, from several clusters, or with pages of another size.
//!
//! It works on columns rather than values: whatever the type of a field is, its elements are copied by ranges. The
//! elements of a column determine the ranges of a collection's items, of a string's characters and of a variant's values.
//! So a cluster is read in as many rounds as its fields are nested.

mod column;
mod ranges;
mod reorder;

use std::collections::HashMap;
use std::ops::Range;

use femtobarn_codec::Algorithm;
use femtobarn_io::on_threads;

use self::column::{Below, Given, Job, Source, Stored, Worker};
pub(super) use self::ranges::Ranges;
use super::clusters::Cluster;
use super::mapping::{FieldMapping, Mapping};
use super::pages::{Encoding, element_type, is_of_double};
use super::schema::MergedSchema;
use super::stored::read_pages;
use crate::RNTupleError;
use crate::read::{Reader, check_pages};
use crate::spec::{Page, Role};
use crate::write::column::ColumnBuffer;
use crate::write::filling::{FilledCluster, Filling};
use crate::write::options::WriteOptions;

/// Stored size of pages that are read at a time.
const BATCH: u64 = 32 << 20;

/// Stored size of pages per additional thread.
const WORTH_THREADS: u64 = 256 << 10;

/// The most steps in which a cluster is processed.
const MOST_STEPS: u64 = 64;

/// A cluster being rebuilt from parts of others.
#[derive(Debug)]
pub(super) struct Rebuilder {
    filling: Filling,
    /// Type and limits of the waiting leaves of each column.
    encodings: Vec<Encoding>,
    workers: Vec<Worker>,
    /// Entries that wait to be taken in another order.
    sorted: Vec<ColumnBuffer>,
    /// Settings of all pages; none: those of the first input that has some.
    compression: Option<u32>,
}

/// The origin of entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    pub reader: &'a Reader,
    pub schema: &'a MergedSchema,
    pub mapping: &'a Mapping,
    pub cluster: &'a Cluster,
}

/// Selected elements of a field, or of one of its further columns.
struct Wanted {
    field: u32,
    position: usize,
    ranges: Ranges,
    /// Total number of these elements in the cluster, if known.
    total: Option<u64>,
}

impl Rebuilder {
    pub fn new(options: &WriteOptions, compression: Option<u32>) -> Self {
        let threads = options.threads.max(1);
        Self {
            filling: Filling::new(options),
            encodings: Vec::new(),
            workers: (0..threads).map(|_| Worker::default()).collect(),
            sorted: Vec::new(),
            compression,
        }
    }

    /// Number of waiting entries.
    pub fn n_entries(&self) -> u64 {
        self.filling.n_entries
    }

    /// Whether the cluster has its size.
    pub fn is_full(&self) -> bool {
        self.filling.is_full()
    }

    /// Size of the waiting elements.
    pub fn n_waiting(&self) -> u64 {
        self.filling.n_waiting()
    }

    /// Size of the elements that the cluster lacks.
    pub fn left(&self) -> u64 {
        self.filling.left()
    }

    /// Counts entries whose elements were added, where `before` bytes waited until then.
    pub fn added(&mut self, n_entries: u64, before: u64) -> Result<(), RNTupleError> {
        self.filling.added(n_entries, before)
    }

    /// Number of entries of a cluster to take at once: approximately what fits, but at least a minimum.
    pub fn room(&self, reader: &Reader, cluster: &Cluster) -> u64 {
        let n_entries = cluster.summary.n_entries;
        let per_entry = cluster.n_packed(reader) / n_entries.max(1);
        let fitting = self.filling.left() / per_entry.max(1);
        // limits how much is read twice, at the boundaries of steps
        fitting.max(n_entries / MOST_STEPS).max(1)
    }

    /// Adds the columns that are new in the schema. Nothing may be waiting.
    pub fn grow(&mut self, schema: &MergedSchema) {
        let all = (0u32..).zip(&schema.schema.columns);
        for (id, record) in all.skip(self.encodings.len()) {
            let dtype = element_type(&schema.schema, record);
            let settings = self.filling.options.compression;
            let buffer = ColumnBuffer::new(record, Some(dtype), settings);
            self.filling.columns.push(buffer);
            self.encodings.push(Encoding {
                dtype,
                limits: schema.limits(id),
            });
        }
    }

    /// Takes the cluster; none if it has no entries.
    pub fn take(&mut self) -> Result<Option<FilledCluster>, RNTupleError> {
        self.filling.take()
    }

    /// Adds entries of a cluster, by their indices in it. Returns the number of stored bytes that were read.
    pub fn add(
        &mut self,
        origin: Origin<'_>,
        entries: &[Range<u64>],
        tick: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<u64, RNTupleError> {
        let before = self.n_waiting();
        let n_bytes = self.add_fields(origin, entries, tick)?;
        let ranges: Ranges = entries.iter().cloned().collect();
        self.added(ranges.n_elements(), before)?;
        Ok(n_bytes)
    }

    /// Adds the elements of one origin's fields; the caller counts the entries.
    pub fn add_fields(
        &mut self,
        origin: Origin<'_>,
        entries: &[Range<u64>],
        tick: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<u64, RNTupleError> {
        let n_entries = origin.cluster.summary.n_entries;
        let ranges = entries.iter().cloned().collect();
        let mut wanted = entries_of(origin.mapping, &ranges, Some(n_entries));
        let mut n_bytes = 0;
        while !wanted.is_empty() {
            let sources = Sources {
                schema: origin.schema,
                want_totals: origin.mapping.has_late_items,
                of: &|wanted, output| source(origin, wanted, output),
            };
            let jobs = jobs(sources, wanted)?;
            let mut below = Vec::new();
            let mut rest = jobs.as_slice();
            while !rest.is_empty() {
                let (these, others) = rest.split_at(at_once(rest));
                let read = these.iter().map(stored_bytes).sum();
                below.extend(self.run(origin.reader, these)?);
                n_bytes += read;
                if !tick(read) {
                    return Err(RNTupleError::Interrupted);
                }
                rest = others;
            }
            wanted = next(origin.schema, &jobs, below);
        }
        Ok(n_bytes)
    }

    /// The same for several clusters, one after another.
    pub fn add_pieces(
        &mut self,
        pieces: &[(Origin<'_>, Vec<Range<u64>>)],
        tick: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<u64, RNTupleError> {
        let mut each = pieces.iter();
        each.try_fold(0, |sum, (origin, entries)| {
            Ok(sum + self.add_fields(*origin, entries, tick)?)
        })
    }

    /// The same for entries in another order than in their clusters: `pieces` are the clusters, and `order` the positions
    /// of the selected entries among them. Each page is read and decoded once; all elements of the pieces wait in memory.
    pub fn add_in_order(
        &mut self,
        pieces: &[(Origin<'_>, Vec<Range<u64>>)],
        order: &Ranges,
        tick: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<u64, RNTupleError> {
        let Some(&(
            Origin {
                reader,
                schema,
                mapping,
                ..
            },
            _,
        )) = pieces.first()
        else {
            return Ok(0);
        };
        let known = self.sorted.len();
        let new = self.filling.columns.iter().skip(known);
        let new: Vec<ColumnBuffer> = new.map(ColumnBuffer::another).collect();
        self.sorted.extend(new);
        std::mem::swap(&mut self.filling.columns, &mut self.sorted);
        let n_bytes = self.add_pieces(pieces, tick);
        std::mem::swap(&mut self.filling.columns, &mut self.sorted);
        let mut sorted = std::mem::take(&mut self.sorted);
        let reordered = n_bytes.and_then(|n_bytes| {
            let mut wanted = entries_of(mapping, order, None);
            while !wanted.is_empty() {
                let sources = Sources {
                    schema,
                    want_totals: false,
                    of: &|_, output| {
                        let column = sorted.get(output as usize);
                        Ok(column.map_or(Source::Zeros, Source::Waiting))
                    },
                };
                let jobs = jobs(sources, wanted)?;
                let below = self.run(reader, &jobs)?;
                wanted = next(schema, &jobs, below);
            }
            Ok(n_bytes)
        });
        for column in &mut sorted {
            column.clear(&self.filling.blocks);
        }
        self.sorted = sorted;
        reordered
    }

    /// Reads the pages of jobs, and appends their elements, with all threads.
    fn run(&mut self, reader: &Reader, jobs: &[Job<'_>]) -> Result<Vec<Below>, RNTupleError> {
        let needed: Vec<Vec<usize>> = jobs.iter().map(Job::needed).collect();
        let page = |job: &Job<'_>, number: &usize| {
            let given = job.given();
            given.and_then(|given| given.pages.get(*number).copied())
        };
        let pages = jobs.iter().zip(&needed);
        let pages: Vec<Page> = pages
            .flat_map(|(job, numbers)| numbers.iter().filter_map(move |n| page(job, n)))
            .collect();
        let mut stored = read_pages(reader, &pages)?.into_iter();
        let mut buffers: HashMap<u32, (&mut ColumnBuffer, Encoding)> = HashMap::new();
        let columns = self.filling.columns.iter_mut().zip(&self.encodings);
        for (id, (buffer, encoding)) in (0u32..).zip(columns) {
            buffers.insert(id, (buffer, *encoding));
        }
        let mut tasks = Vec::with_capacity(jobs.len());
        for (job, numbers) in jobs.iter().zip(needed) {
            let bytes: Stored = numbers.into_iter().zip(stored.by_ref()).collect();
            let Some((buffer, encoding)) = buffers.remove(&job.output) else {
                return Err(RNTupleError::internal("a column that is not there"));
            };
            // pages with unknown settings can be read, but not made
            let settings = job.source.settings();
            let settings = settings.filter(|&known| Algorithm::of_settings(known).is_some());
            if let Some(settings) = self
                .compression
                .or(settings)
                .filter(|_| buffer.n_elements == 0)
            {
                buffer.settings = settings;
            }
            tasks.push((job, bytes, buffer, encoding));
        }
        let blocks = &self.filling.blocks;
        // for little data, starting a thread takes longer
        let n_stored: u64 = pages.iter().map(Page::stored_size).sum();
        let n_bytes = n_stored + jobs.iter().map(Job::n_waiting).sum::<u64>();
        let n_workers = if n_bytes < WORTH_THREADS {
            1
        } else {
            self.workers.len()
        };
        on_threads(
            self.workers.get_mut(..n_workers).unwrap_or_default(),
            tasks,
            |worker, (job, bytes, buffer, encoding)| {
                worker.run(job, &bytes, (buffer, encoding), blocks)
            },
        )
    }
}

/// Number of jobs processed at once.
fn at_once(jobs: &[Job<'_>]) -> usize {
    let mut n_bytes = 0;
    let fits = |job: &&Job<'_>| {
        n_bytes += stored_bytes(job);
        n_bytes <= BATCH
    };
    jobs.iter().take_while(fits).count().max(1)
}

/// Stored size of the pages that a job needs.
fn stored_bytes(job: &Job<'_>) -> u64 {
    let Some(given) = job.given() else { return 0 };
    let pages = job.needed();
    let pages = pages.iter().filter_map(|&number| given.pages.get(number));
    pages.map(Page::stored_size).sum()
}

/// Entries of all fields.
fn entries_of(mapping: &Mapping, ranges: &Ranges, total: Option<u64>) -> Vec<Wanted> {
    let entry = |&field: &u32| Wanted {
        field,
        position: 0,
        ranges: ranges.clone(),
        total,
    };
    mapping.output.iter().map(entry).collect()
}

/// The sources of elements.
#[derive(Clone, Copy)]
struct Sources<'s, 'a> {
    schema: &'s MergedSchema,
    /// Whether total numbers of items are needed as well.
    want_totals: bool,
    /// Returns the source for a column of the output.
    of: &'s dyn Fn(&Wanted, u32) -> Result<Source<'a>, RNTupleError>,
}

/// The columns of fields, and of descendants without a column in between.
fn jobs<'a>(sources: Sources<'_, 'a>, wanted: Vec<Wanted>) -> Result<Vec<Job<'a>>, RNTupleError> {
    let schema = sources.schema;
    let mut out = Vec::new();
    let mut pending = wanted;
    pending.reverse();
    while let Some(mut wanted) = pending.pop() {
        if wanted.position > 0 {
            out.extend(job(sources, wanted)?);
            continue;
        }
        let Some(record) = schema.record(wanted.field) else {
            continue;
        };
        if let Some(size) = record.array_size {
            wanted.ranges = wanted.ranges.times(size);
            wanted.total = wanted.total.map(|total| total.saturating_mul(size));
        }
        // projected fields have no columns, but may have projected subfields
        if schema.has_columns(wanted.field) {
            out.extend(job(sources, wanted)?);
        } else {
            let children = schema.children(wanted.field).iter().rev();
            pending.extend(children.map(|&field| Wanted {
                field,
                position: 0,
                ranges: wanted.ranges.clone(),
                total: wanted.total,
            }));
        }
    }
    Ok(out)
}

/// The job for the column of a field at a position.
fn job<'a>(sources: Sources<'_, 'a>, wanted: Wanted) -> Result<Option<Job<'a>>, RNTupleError> {
    let schema = sources.schema;
    let first = schema.representations.get(wanted.field as usize);
    let first = first.and_then(|all| all.get(schema.widest(wanted.field)));
    let Some(&output) = first.and_then(|columns| columns.get(wanted.position)) else {
        return Ok(None);
    };
    let source = (sources.of)(&wanted, output)?;
    let is_variant = schema
        .record(wanted.field)
        .is_some_and(|r| r.role == Role::Variant);
    Ok(Some(Job {
        output,
        field: wanted.field,
        position: wanted.position,
        source,
        ranges: wanted.ranges,
        wants_total: sources.want_totals,
        n_alternatives: if is_variant {
            schema.children(wanted.field).len()
        } else {
            0
        },
    }))
}

/// The source of a column of the output in an input's cluster.
fn source<'a>(
    origin: Origin<'a>,
    wanted: &Wanted,
    output: u32,
) -> Result<Source<'a>, RNTupleError> {
    let mapping = origin.mapping.field(wanted.field);
    let given = mapping.map(|mapping| given(origin, mapping, wanted.position, wanted.total));
    let Some(given) = given.transpose()?.flatten() else {
        let field = origin.schema.schema.fields.get(wanted.field as usize);
        let name = field.map_or("", |field| field.name.as_str());
        let n = wanted.ranges.n_elements();
        origin.cluster.check_zeros(origin.reader, name, n)?;
        return Ok(Source::Zeros);
    };
    origin
        .schema
        .insist(origin.reader, (wanted.field, output), given.record)?;
    Ok(Source::Pages(given))
}

/// The input's column for a column of the output; none if it does not exist in this cluster.
fn given<'a>(
    origin: Origin<'a>,
    mapping: &FieldMapping,
    position: usize,
    total: Option<u64>,
) -> Result<Option<Given<'a>>, RNTupleError> {
    let Origin {
        reader, cluster, ..
    } = origin;
    let way = mapping.ways.iter().find(|way| cluster.uses(way));
    let column = way.and_then(|way| way.input.get(position).copied());
    let listed = column.and_then(|column| Some((column, cluster.column(column)?)));
    let Some((column, listed)) = listed else {
        return Ok(None);
    };
    let record = reader.descriptor().column(column);
    let record = record.ok_or_else(|| RNTupleError::internal("a page of no column"))?;
    let pages = cluster.list.pages(listed);
    check_pages(reader, cluster.number, column, pages)?;
    let n_there: u64 = pages.iter().map(|page| u64::from(page.n_elements)).sum();
    let n_zeros = total.map_or(0, |total| total.saturating_sub(n_there));
    // missing elements are zeros only before the column begins
    let wrong = |&total: &u64| total < n_there || (total > n_there && record.first_element == 0);
    if let Some(total) = total.filter(wrong) {
        let what = format!(
            "number of elements of {:?} in a cluster",
            reader.label(record.field_id)
        );
        return Err(reader.inconsistent(&what, total, n_there));
    }
    cluster.check_zeros(reader, &reader.label(record.field_id), n_zeros)?;
    let mut next = n_zeros;
    let starts = pages.iter().map(|page| {
        next += u64::from(page.n_elements);
        next - u64::from(page.n_elements)
    });
    Ok(Some(Given {
        reader,
        column,
        record,
        cluster: cluster.number,
        starts: starts.collect(),
        pages,
        n_zeros,
        settings: listed.compression,
        of_double: is_of_double(reader, record),
    }))
}

/// What to take of the subfields.
fn next(schema: &MergedSchema, jobs: &[Job<'_>], below: Vec<Below>) -> Vec<Wanted> {
    let mut out = Vec::new();
    for (job, below) in jobs.iter().zip(below) {
        if below.ranges.is_empty() {
            continue;
        }
        let children = schema.children(job.field);
        let each = |at: usize| {
            below
                .ranges
                .get(if job.n_alternatives > 0 { at } else { 0 })
        };
        for (at, &field) in children.iter().enumerate() {
            out.push(Wanted {
                field,
                position: 0,
                ranges: each(at).cloned().unwrap_or_default(),
                total: below.total,
            });
        }
        // the characters of strings
        if children.is_empty() {
            out.push(Wanted {
                field: job.field,
                position: job.position + 1,
                ranges: each(0).cloned().unwrap_or_default(),
                total: below.total,
            });
        }
    }
    out
}
