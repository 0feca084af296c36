//! `fb explain`: the plan of a read.

use std::io::{self, Write};

use femtobarn::Plan;
use femtobarn::documents::{self, extended};
use serde_json::{Value, json};

use crate::args::ExplainArgs;
use crate::failure::{Failure, code};
use crate::layout;
use crate::open::{Opened, one_file, with_ntuple};
use crate::output::Output;
use crate::schema::type_text;
use crate::selection::select;
use crate::table::{Table, printable};
use crate::units::{bytes, plural};

pub fn run(args: &ExplainArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    with_ntuple(&one_file(&args.target)?, |opened| {
        let paths = select(&opened.reader, &args.fields)?;
        let selection = opened.ntuple.select(paths.as_deref())?;
        let n_entries = opened.ntuple.n_entries();
        let stop = args
            .entry_stop
            .map_or(n_entries, |stop| entry(stop, n_entries));
        let entries = entry(args.entry_start, n_entries)..stop;
        let plan = opened.ntuple.explain(&selection, entries.clone())?;
        if out.is_json {
            out.json(&document(opened, &plan, entries))?;
        } else {
            write(opened, &plan, entries, out)?;
        }
        Ok(code::FINE)
    })
}

/// An entry, counted from the end if negative.
fn entry(number: i64, n_entries: u64) -> u64 {
    match u64::try_from(number) {
        Ok(number) => number,
        Err(_) => n_entries.saturating_sub(number.unsigned_abs()),
    }
}

fn document(opened: &Opened, plan: &Plan, entries: std::ops::Range<u64>) -> Value {
    let request = json!({
        "file": opened.reader.url(),
        "ntuple": opened.reader.path(),
        "entry_start": entries.start,
        "entry_stop": entries.end,
    });
    extended(request, documents::plan(plan))
}

fn write(
    opened: &Opened,
    plan: &Plan,
    entries: std::ops::Range<u64>,
    out: &mut Output<'_>,
) -> io::Result<()> {
    let title = format!(
        "{}:{}, entries {}..{}: {}, {}, {} in {}",
        opened.reader.url(),
        opened.reader.path(),
        entries.start,
        entries.end,
        plural(plan.clusters, "cluster"),
        plural(plan.pages, "page"),
        plural(plan.ranges, "page range"),
        plural(plan.requests, "request"),
    );
    writeln!(out, "{}", printable(&title))?;
    writeln!(
        out,
        "{} needed, {} read, {} decoded",
        bytes(plan.bytes_needed),
        bytes(plan.bytes_read),
        bytes(plan.bytes_decoded)
    )?;
    for line in plan.cutting() {
        writeln!(out, "{line}")?;
    }
    let table = columns(plan);
    if !table.is_empty() {
        writeln!(out)?;
        table.write(layout::width(), out)?;
    }
    for note in plan.notes() {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
}

fn columns(plan: &Plan) -> Table {
    let header = [
        "field", "C++ type", "columns", "pages", "on disk", "decoded",
    ];
    let mut table = Table::new(&header, &[3, 4, 5], &[1]);
    for column in &plan.columns {
        table.push(vec![
            column.field.clone(),
            type_text(&column.type_name, ""),
            column.column_types.join(", "),
            crate::units::count(column.pages),
            bytes(column.bytes_on_disk),
            bytes(column.bytes_decoded),
        ]);
    }
    table
}
