//! Verification: every checksum and every page of an ntuple.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use femtobarn_codec::Decompressor;

use super::engine::Tick;
use super::reader::Reader;
use crate::RNTupleError;
use crate::encoding::packed_size;
use crate::spec::{LocatorKind, Page, PageList};

/// Something that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by their types")]
pub struct Damage {
    pub field: String,
    pub column: u32,
    pub cluster: u64,
    /// First and one past the last of the entries that need the page's cluster.
    pub entries: (u64, u64),
    pub offset: u64,
    pub n_bytes: u64,
    pub problem: String,
}

/// What verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by their types")]
pub struct VerifyReport {
    pub clusters: u64,
    pub pages: u64,
    pub pages_without_checksum: u64,
    pub bytes: u64,
    pub damages: Vec<Damage>,
}

struct Check<'a> {
    cluster: u64,
    entries: (u64, u64),
    column: u32,
    page: &'a Page,
}

/// Reads every page of every column, whatever their representation: checksums, sizes and decompression.
///
/// Envelopes were verified when they were read; a page list that cannot be read is an error.
pub fn verify(
    reader: &Arc<Reader>,
    threads: usize,
    tick: Option<Tick<'_>>,
) -> Result<VerifyReport, RNTupleError> {
    let lists = reader.page_lists(0..u64::MAX)?;
    let mut checks = Vec::new();
    let mut report = VerifyReport::default();
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
    report.damages = damages.into_inner().unwrap_or_else(PoisonError::into_inner);
    report
        .damages
        .sort_by_key(|damage| (damage.cluster, damage.column, damage.offset));
    report.pages = checks.len() as u64;
    report.bytes = total;
    Ok(report)
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
    let page = check.page;
    if let LocatorKind::Other(kind) = page.locator.kind {
        return Err(format!("locator of unknown type {kind:#x}"));
    }
    let stored = reader
        .read_blob(page.locator.offset, page.stored_size())
        .map_err(|error| error.to_string())?;
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
        _ => &stored,
    };
    let Some(record) = reader.descriptor().column(check.column) else {
        return Err("a column that the header does not have".into());
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
    let descriptor = reader.descriptor();
    let field = descriptor
        .column(check.column)
        .map_or("?", |column| descriptor.field_name(column.field_id));
    Damage {
        field: field.to_owned(),
        column: check.column,
        cluster: check.cluster,
        entries: check.entries,
        offset: check.page.locator.offset,
        n_bytes: check.page.stored_size(),
        problem,
    }
}
