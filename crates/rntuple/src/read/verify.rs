//! Verification of all checksums and pages of an ntuple.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use femtobarn_codec::Decompressor;

use super::engine::check_structure;
use super::invariants::check_offset;
use super::options::Tick;
use super::plan::{Part, Segment, segments};
use super::reader::Reader;
use super::report::{Damage, VerifyReport};
use super::selection::{Binding, ReadSchema};
use super::store::soundly;
use crate::RNTupleError;
use crate::encoding::packed_size;
use crate::schema::FieldId;
use crate::spec::{Page, PageAddress, PageList};

struct Check<'a> {
    cluster: u64,
    entries: (u64, u64),
    column: u32,
    page: &'a Page,
}

/// Reads every page of every column in all representations, and checks checksums, sizes and decompression. Then checks
/// that clusters contain each entry once, and that every column has the elements that entries, offsets and variants
/// require, by the checks of any read: an ntuple without errors can be read.
///
/// Header and footer were verified when they were read. A page list that cannot be read is reported as damage of all
/// entries of its cluster group.
pub fn verify(
    reader: &Arc<Reader>,
    threads: usize,
    tick: Option<Tick<'_>>,
) -> Result<VerifyReport, RNTupleError> {
    if let Some(storage) = reader.storage() {
        return storage.verify(reader, threads, tick);
    }
    let mut report = VerifyReport::new(reader);
    let lists = readable_lists(reader, &mut report);
    let mut checks = Vec::new();
    for (first, list) in &lists {
        collect(*first, list, &mut checks, &mut report);
    }
    let total: u64 = checks.iter().map(|check| check.page.stored_size()).sum();
    let (next, done, stopped) = (
        AtomicUsize::new(0),
        AtomicU64::new(0),
        AtomicBool::new(false),
    );
    let damages = Mutex::new(Vec::new());
    let work = |tick: Option<Tick<'_>>| {
        let mut decompressor = Decompressor::new();
        let mut last = Instant::now();
        while let Some(check) = checks
            .get(next.fetch_add(1, Relaxed))
            .filter(|_| !stopped.load(Relaxed))
        {
            if let Err(problem) = verify_page(reader, check, &mut decompressor) {
                let damage = describe(reader, check, problem);
                damages
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(damage);
            }
            let so_far = done.fetch_add(check.page.stored_size(), Relaxed);
            if let Some(tick) = tick.filter(|_| last.elapsed() > Duration::from_millis(50)) {
                last = Instant::now();
                stopped.fetch_or(!tick(so_far, total), Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(|| work(None));
        }
        work(tick);
    });
    if stopped.load(Relaxed) {
        return Err(RNTupleError::Interrupted);
    }
    report
        .damages
        .extend(damages.into_inner().unwrap_or_else(PoisonError::into_inner));
    check_columns(reader, &mut report, tick)?;
    report
        .damages
        .sort_by_key(|damage| (damage.cluster, damage.column, damage.address));
    report.pages = checks.len() as u64;
    let n_fields = reader.descriptor().top_level.len() as u64;
    report.note_checked(reader, n_fields.saturating_add(report.pages));
    report.bytes = total;
    Ok(report)
}

/// Adds missing elements of columns: see [`check_structure`]. Columns that are known to be damaged are not checked again.
fn check_columns(
    reader: &Arc<Reader>,
    report: &mut VerifyReport,
    tick: Option<Tick<'_>>,
) -> Result<(), RNTupleError> {
    // clusters in an unreadable page list are unknown
    if report.damages.iter().any(|damage| damage.field.is_empty()) {
        return Ok(());
    }
    let (total, all) = (report.bytes, 0..reader.n_entries());
    let Ok((schema, binding)) = schema_of(reader, None) else {
        return Ok(());
    };
    let part = Part {
        reader: reader.clone(),
        binding,
        start: all.start,
        stop: all.end,
    };
    let segments = match segments(std::slice::from_ref(&part)) {
        Ok(segments) => segments,
        Err(error) => {
            let damage = structural((0, String::new()), (all.start, all.end), &error);
            report.damages.push(damage);
            return Ok(());
        }
    };
    for segment in &segments {
        if tick.is_some_and(|tick| !tick(total, total)) {
            return Err(RNTupleError::Interrupted);
        }
        if let Err(error) = check_structure(&schema, &part, segment) {
            if matches!(error, RNTupleError::Memory { .. }) {
                return Err(error);
            }
            find_broken(reader, segment, &mut report.damages)?;
        }
    }
    check_offsets(reader, &segments, &mut report.damages);
    Ok(())
}

/// Adds fields with wrong element counts in page lists: see [`check_offset`].
fn check_offsets(reader: &Reader, segments: &[Segment], damages: &mut Vec<Damage>) {
    let descriptor = reader.descriptor();
    let fields = (0..).zip(&descriptor.fields).map(|(id, _)| id);
    for id in fields.filter(|&id: &FieldId| descriptor.physical(id) == id) {
        for position in 0..descriptor.n_columns(id) {
            let columns = descriptor.representations(id, position);
            let mut before = 0;
            for segment in segments {
                let listed = columns.iter().filter_map(|&column| {
                    let pages = segment.list.column(segment.index, column)?;
                    (!pages.suppressed()).then_some((column, pages))
                });
                for (column, pages) in listed {
                    let offset = pages.element_offset.unsigned_abs();
                    let begin = descriptor
                        .column(column)
                        .map_or(0, |column| column.first_element.unsigned_abs());
                    match check_offset(offset, before, begin) {
                        Ok(()) => before = offset,
                        Err(wrong) => damages.push(structural(
                            (segment.cluster, reader.label(id)),
                            (segment.summary.first_entry, segment.summary.end()),
                            &reader.contradicted(wrong),
                        )),
                    }
                    for page in segment.list.pages(pages) {
                        before = before.saturating_add(page.n_elements.into());
                    }
                }
            }
        }
    }
}

fn schema_of(
    reader: &Arc<Reader>,
    paths: Option<&[String]>,
) -> Result<(ReadSchema, Arc<Binding>), RNTupleError> {
    let (schema, bindings) = ReadSchema::new(std::slice::from_ref(reader), paths)?;
    let binding = bindings.into_iter().next();
    let binding = binding.ok_or_else(|| RNTupleError::internal("a file without columns"))?;
    Ok((schema, binding))
}

/// Finds the fields of a cluster that cannot be read.
fn find_broken(
    reader: &Arc<Reader>,
    segment: &Segment,
    damages: &mut Vec<Damage>,
) -> Result<(), RNTupleError> {
    let summary = segment.summary;
    for &field in &reader.descriptor().top_level {
        let label = reader.label(field);
        let is_known = |damage: &Damage| {
            let below = damage.field.strip_prefix(label.as_str());
            damage.cluster == segment.cluster
                && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if damages.iter().any(is_known) {
            continue;
        }
        let Ok((schema, binding)) = schema_of(reader, Some(std::slice::from_ref(&label))) else {
            continue;
        };
        let part = Part {
            reader: reader.clone(),
            binding,
            start: summary.first_entry,
            stop: summary.end(),
        };
        match check_structure(&schema, &part, segment) {
            Ok(()) => {}
            Err(error @ RNTupleError::Memory { .. }) => return Err(error),
            Err(error) => damages.push(structural(
                (segment.cluster, label),
                (summary.first_entry, summary.end()),
                &error,
            )),
        }
    }
    Ok(())
}

/// Damage that does not belong to a page.
fn structural(
    (cluster, field): (u64, String),
    entries: (u64, u64),
    error: &RNTupleError,
) -> Damage {
    Damage {
        field,
        column: 0,
        cluster,
        entries,
        address: PageAddress::File(0),
        n_bytes: 0,
        problem: describe_error(error),
    }
}

/// The readable page lists, each with the ID of its first cluster; the others are reported.
fn readable_lists(reader: &Reader, report: &mut VerifyReport) -> Vec<(u64, Arc<PageList>)> {
    let mut lists = Vec::new();
    let mut cluster = 0u64;
    for (index, group) in reader.descriptor().cluster_groups.iter().enumerate() {
        match reader.page_list(index) {
            Ok(list) => lists.extend(list.map(|list| (cluster, list))),
            Err(error) => report.damages.push(Damage {
                field: String::new(),
                column: 0,
                cluster,
                entries: (
                    group.min_entry,
                    group.min_entry.saturating_add(group.entry_span),
                ),
                address: group.page_list.stored.address,
                n_bytes: group.page_list.stored.size,
                problem: describe_error(&error),
            }),
        }
        cluster = cluster.saturating_add(u64::from(group.n_clusters));
    }
    lists
}

fn describe_error(error: &RNTupleError) -> String {
    let cause = std::error::Error::source(error).map(|source| format!(": {source}"));
    format!("{error}{}", cause.unwrap_or_default())
}

fn collect<'a>(
    first: u64,
    list: &'a PageList,
    checks: &mut Vec<Check<'a>>,
    report: &mut VerifyReport,
) {
    for (index, summary) in list.clusters().iter().enumerate() {
        report.clusters += 1;
        let cluster = first.saturating_add(index as u64);
        for column in 0..u32::try_from(list.n_columns(index)).unwrap_or(u32::MAX) {
            for page in list
                .column(index, column)
                .map_or(&[][..], |pages| list.pages(pages))
            {
                report.pages_without_checksum += u64::from(!page.has_checksum);
                checks.push(Check {
                    cluster,
                    entries: (summary.first_entry, summary.end()),
                    column,
                    page,
                });
            }
        }
    }
}

fn verify_page(
    reader: &Reader,
    check: &Check<'_>,
    decompressor: &mut Decompressor,
) -> Result<(), String> {
    let page = check.page.stored();
    let stored = reader
        .read_stored(&page)
        .map_err(|error| error.to_string())?;
    let verify = |stored: &[u8]| verify_stored(reader, check, stored, decompressor);
    let verified = soundly(reader.store(), (&page, &page), &stored, verify);
    verified.map_err(|error| error.to_string())?.0
}

fn verify_stored(
    reader: &Reader,
    check: &Check<'_>,
    stored: &[u8],
    decompressor: &mut Decompressor,
) -> Result<(), String> {
    let page = check.page;
    let body = match stored.split_last_chunk::<8>() {
        Some((body, checksum)) if page.has_checksum => {
            let (expected, found) = (u64::from_le_bytes(*checksum), femtobarn_codec::xxh3(body));
            if expected != found {
                return Err(format!(
                    "checksum mismatch: expected {expected:#018x}, found {found:#018x}"
                ));
            }
            body
        }
        _ => stored,
    };
    let Some(record) = reader.descriptor().column(check.column) else {
        return Err("a column that is not in the header".into());
    };
    if matches!(record.column_type, crate::spec::ColumnType::Unknown(_)) {
        return Ok(());
    }
    let size = packed_size(record, u64::from(page.n_elements), body.len() as u64)
        .map_err(|error| error.to_string())?;
    if size == body.len() {
        return Ok(());
    }
    decompressor
        .decompress(body, &mut vec![0; size])
        .map_err(|error| error.to_string())
}

fn describe(reader: &Reader, check: &Check<'_>, problem: String) -> Damage {
    let column = reader.descriptor().column(check.column);
    let field = column.map(|column| reader.label(column.field_id));
    Damage {
        field: field.unwrap_or_default(),
        column: check.column,
        cluster: check.cluster,
        entries: check.entries,
        address: check.page.body.address,
        n_bytes: check.page.stored_size(),
        problem,
    }
}
