//! The report of `fb verify` for people.

use std::io::{self, Write};
use std::ops::Range;

use femtobarn::VerifyReport;

use crate::output::Output;
use crate::proof;
use crate::table::{Table, printable};
use crate::units::{bytes, count, plural};
use crate::verify::{Verdict, Verified};

/// Maximum number of damaged pages, and of unchecked branches, that are listed; `--json` lists all.
const MOST_LISTED: usize = 20;

/// Maximum number of lost ranges that are listed.
const MOST_RANGES: usize = 8;

pub fn write(verdict: &Verdict, out: &mut Output<'_>) -> io::Result<()> {
    if let Some(error) = &verdict.error {
        let next = error.next.iter().map(|next| format!("; {next}"));
        let line = format!(
            "{}: DAMAGED: {}{}",
            verdict.file,
            error.message,
            next.collect::<String>()
        );
        writeln!(out, "{}", printable(&line))?;
    }
    for verified in &verdict.ntuples {
        ntuple(verified, &verdict.file, out)?;
    }
    match &verdict.against {
        Some(report) => proof::write(report, &verdict.file, out),
        None => Ok(()),
    }
}

fn ntuple(verified: &Verified, file: &str, out: &mut Output<'_>) -> io::Result<()> {
    let mut name = format!("{file}:{}", verified.ntuple);
    if let Some(of) = &verified.attribute_set_of {
        name = format!("{file}:{of}, attribute set {}", verified.ntuple);
    }
    let report = &verified.report;
    let checked = format!(
        "{}, {} ({}) in {}",
        plural(verified.n_entries, "entry"),
        plural(report.pages, "page"),
        bytes(report.bytes),
        plural(report.clusters, "cluster"),
    );
    let verdict = match &verified.error {
        Some(error) => format!("DAMAGED: {}", error.message),
        None if report.damages.is_empty() && report.nothing_checked => {
            format!("NOT CHECKED: none of its fields can be read: {checked}")
        }
        None if report.damages.is_empty() => match report.not_checked.len() {
            0 => format!("good: {checked}"),
            1 => format!("good, except for a field that cannot be read: {checked}"),
            n => format!("good, except for {n} fields that cannot be read: {checked}"),
        },
        None => {
            // a contradiction in the metadata has no page, and so no bytes
            let are_pages = report.damages.iter().all(|damage| damage.n_bytes > 0);
            let what = if are_pages { "damaged page" } else { "fault" };
            let n = plural(report.damages.len() as u64, what);
            format!("DAMAGED: {n}; checked {checked}")
        }
    };
    writeln!(out, "{}", printable(&format!("{name}: {verdict}")))?;
    if report.pages_without_checksum > 0 {
        let n = plural(report.pages_without_checksum, "page");
        writeln!(
            out,
            "  {n} without checksum: verified only size and compression"
        )?;
    }
    for (field, reason) in report.not_checked.iter().take(MOST_LISTED) {
        let line = format!("  not checked: {field}: {reason}");
        writeln!(out, "{}", printable(&line))?;
    }
    if let more @ 1.. = report.not_checked.len().saturating_sub(MOST_LISTED) {
        writeln!(out, "  … and {more} more; --json lists all")?;
    }
    if verified.is_ok() {
        return Ok(());
    }
    lost(verified, out)?;
    damages(report, out)
}

/// The entries that cannot be read completely.
fn lost(verified: &Verified, out: &mut Output<'_>) -> io::Result<()> {
    let lost = verified.lost();
    let n: u64 = lost.iter().map(|range| range.end - range.start).sum();
    if n == 0 {
        return Ok(());
    }
    let of = plural(verified.n_entries, "entry");
    let mut fields: Vec<&str> = verified
        .report
        .damages
        .iter()
        .map(|damage| damage.field.as_str())
        .collect();
    fields.sort_unstable();
    fields.dedup();
    let columns = match fields.as_slice() {
        [] => "all fields".to_owned(),
        fields => plural(fields.len() as u64, "field"),
    };
    writeln!(
        out,
        "  lost: {} of {of}, in {columns}: {}",
        count(n),
        ranges(&lost)
    )
}

fn ranges(ranges: &[Range<u64>]) -> String {
    let shown = ranges.iter().take(MOST_RANGES);
    let shown: Vec<String> = shown
        .map(|range| format!("{}..{}", range.start, range.end))
        .collect();
    let more = if ranges.len() > MOST_RANGES {
        ", …"
    } else {
        ""
    };
    shown.join(", ") + more
}

fn damages(report: &VerifyReport, out: &mut Output<'_>) -> io::Result<()> {
    let header = [
        "  field", "column", "cluster", "entries", "offset", "bytes", "problem",
    ];
    let mut table = Table::new(&header, &[1, 2, 4, 5], &[6]);
    for damage in report.damages.iter().take(MOST_LISTED) {
        table.push(vec![
            format!("  {}", damage.field),
            damage.column.to_string(),
            damage.cluster.to_string(),
            format!("{}..{}", damage.entries.0, damage.entries.1),
            damage.address.offset().to_string(),
            damage.n_bytes.to_string(),
            damage.problem.clone(),
        ]);
    }
    if !report.damages.is_empty() {
        // the problem is the result that users need: it is never cut
        table.write(None, out)?;
    }
    match report.damages.len().saturating_sub(MOST_LISTED) {
        0 => Ok(()),
        more => writeln!(out, "  … and {more} more; --json lists all"),
    }
}
