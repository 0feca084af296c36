//! `fb head`: the first entries.

use std::io::Write;

use femtobarn::array::Arrays;
use femtobarn::schema::{Node, NodeKind};
use femtobarn::{Query, QueryReader, ReadOptions, Steps, StepsOptions};

use crate::args::HeadArgs;
use crate::failure::{Failure, code};
use crate::layout::{self, DEFAULT_WIDTH};
use crate::open::{Opened, missing, one_file, with_ntuple};
use crate::options::condition as expression;
use crate::output::Output;
use crate::selection::select;
use crate::table::{cut, line, printable};
use crate::value::{Style, Values, json_string};

/// Entries that are read at once for JSON, which is written while reading.
const STEP: u64 = 1000;

/// The most entries that are tested at once for a condition.
const MOST: u64 = 1 << 20;

/// A table with narrower columns than this is transposed: one line per value.
const NARROWEST: usize = 20;

pub fn run(args: &HeadArgs, out: &mut Output<'_>, err: &mut Output<'_>) -> Result<i32, Failure> {
    with_ntuple(&one_file(&args.target)?, |opened| {
        let code = head(opened, args, out)?;
        // print warnings about skipped fields after the output
        out.flush()?;
        for (name, reason) in opened.ntuple.left_out().unreadable() {
            let note = format!("skipped field {name:?}: {reason}");
            writeln!(err, "fb: {}", printable(&note))?;
        }
        Ok(code)
    })
}

fn head(opened: &Opened, args: &HeadArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let paths = select(&opened.reader, &args.fields)?;
    let threads = args.threads.number()?;
    if let Some(condition) = &args.condition {
        let query = Query {
            fields: paths,
            cut: Some(expression(condition)?),
            ..Query::default()
        };
        let reader = QueryReader::new(opened.ntuple.clone(), query, !args.fields.is_empty())?;
        return fulfilling(opened, &reader, (args, threads), out);
    }
    let n = args.entries.min(opened.ntuple.n_entries());
    if out.is_json {
        write_json(opened, paths.as_deref(), n, threads, out)?;
        return Ok(code::FINE);
    }
    let selection = opened.ntuple.select(paths.as_deref())?;
    let options = ReadOptions {
        threads,
        ..ReadOptions::default()
    };
    let arrays = opened.ntuple.read(&selection, 0..n, &options)?;
    let numbers: Vec<u64> = (0..n).collect();
    write_table(&arrays, &numbers, width(args), out)?;
    Ok(code::FINE)
}

fn width(args: &HeadArgs) -> usize {
    args.width.or_else(layout::width).unwrap_or(DEFAULT_WIDTH)
}

/// Prints the first entries that fulfil a condition. Steps grow as long as there are few.
fn fulfilling(
    opened: &Opened,
    reader: &QueryReader,
    (args, threads): (&HeadArgs, usize),
    out: &mut Output<'_>,
) -> Result<i32, Failure> {
    let (mut next, mut step, mut left) = (0u64, STEP, args.entries);
    let (mut numbers, mut parts) = (Vec::new(), Vec::new());
    let n_entries = opened.ntuple.n_entries();
    loop {
        let entries = next..n_entries.min(next.saturating_add(step));
        next = entries.end;
        let found = reader.read(entries, threads, None)?;
        step = step.saturating_mul(2).min(MOST);
        let n = found.arrays.n_entries().min(left);
        left -= n;
        if out.is_json {
            write_objects(&found.arrays, n, out)?;
        } else {
            numbers.extend(found.chosen.into_iter().flatten());
            parts.push(found.arrays);
        }
        if left == 0 || next == n_entries || out.is_closed() {
            break;
        }
    }
    if !out.is_json {
        numbers.truncate(usize::try_from(args.entries).unwrap_or(usize::MAX));
        write_table(&Arrays::joined(parts)?, &numbers, width(args), out)?;
    }
    Ok(code::FINE)
}

/// Writes one object per line, step by step: memory stays bounded for any number of entries.
fn write_json(
    opened: &Opened,
    paths: Option<&[String]>,
    n: u64,
    threads: usize,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let selection = opened.ntuple.select(paths)?;
    let options = StepsOptions {
        step: STEP,
        threads,
        prefetch: n > STEP,
        ..StepsOptions::default()
    };
    for step in Steps::new(opened.ntuple.clone(), selection, 0..n, options) {
        let (_, arrays) = step?;
        write_objects(&arrays, arrays.n_entries(), out)?;
        if out.is_closed() {
            break;
        }
    }
    Ok(())
}

fn write_objects(arrays: &Arrays, n: u64, out: &mut Output<'_>) -> Result<(), Failure> {
    let values = Values {
        arrays,
        style: Style::Json,
    };
    let mut text = String::new();
    for entry in 0..usize::try_from(n).unwrap_or(usize::MAX) {
        object(values, entry, &mut text)?;
    }
    out.write_all(text.as_bytes())?;
    Ok(())
}

fn object(values: Values<'_>, entry: usize, out: &mut String) -> Result<(), Failure> {
    out.push('{');
    for (i, (name, node)) in values.arrays.columns().iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        json_string(name, out);
        out.push(':');
        values
            .write(node, entry, out)
            .ok_or_else(|| missing(name))?;
    }
    out.push_str("}\n");
    Ok(())
}

/// A column of the table.
struct Column {
    name: String,
    is_number: bool,
    cells: Vec<String>,
    width: usize,
}

/// Prints the first entries of arrays, which have these numbers.
fn write_table(
    arrays: &Arrays,
    numbers: &[u64],
    width: usize,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let n = numbers.len();
    let mut columns = vec![Column::new(
        "entry",
        true,
        numbers.iter().map(u64::to_string).collect(),
    )];
    for (name, node) in arrays.columns() {
        let cells = (0..n).map(|entry| cell(arrays, name, node, entry, width));
        columns.push(Column::new(
            name,
            is_number(node),
            cells.collect::<Result<_, _>>()?,
        ));
    }
    let fits = |cap: &usize| {
        let total: usize = columns
            .iter()
            .map(|c| c.width.min(*cap).max(c.title_width()) + 2)
            .sum();
        total <= width + 2
    };
    match (NARROWEST.min(width)..=width).rev().find(fits) {
        Some(cap) => table(&columns, cap, n, out)?,
        None => blocks(&columns, width, n, out)?,
    }
    Ok(())
}

impl Column {
    fn new(name: &str, is_number: bool, cells: Vec<String>) -> Self {
        let widest = cells.iter().map(|cell| cell.chars().count()).max();
        Self {
            name: printable(name).into_owned(),
            is_number,
            width: widest.unwrap_or(0),
            cells,
        }
    }

    fn title_width(&self) -> usize {
        self.name.chars().count()
    }
}

/// One line per entry.
fn table(columns: &[Column], cap: usize, n: usize, out: &mut Output<'_>) -> std::io::Result<()> {
    let widths: Vec<usize> = columns
        .iter()
        .map(|column| column.width.min(cap).max(column.title_width()))
        .collect();
    let numbers = columns
        .iter()
        .enumerate()
        .filter(|(_, column)| column.is_number);
    let right: Vec<usize> = numbers.map(|(i, _)| i).collect();
    let header: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let rules: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
    writeln!(
        out,
        "{}\n{}",
        line(&header, &widths, &right),
        line(&rules, &widths, &right)
    )?;
    for entry in 0..n {
        let cells = columns
            .iter()
            .map(|column| column.cells.get(entry).cloned().unwrap_or_default());
        writeln!(out, "{}", line(&cells.collect::<Vec<_>>(), &widths, &right))?;
    }
    Ok(())
}

/// One line per value.
fn blocks(columns: &[Column], width: usize, n: usize, out: &mut Output<'_>) -> std::io::Result<()> {
    let (first, rest) = columns
        .split_first()
        .map_or((None, columns), |(first, rest)| (Some(first), rest));
    let names = rest
        .iter()
        .map(Column::title_width)
        .max()
        .unwrap_or(0)
        .min(width / 2);
    for entry in 0..n {
        let number = first.and_then(|column| column.cells.get(entry));
        writeln!(out, "entry {}", number.map_or("", String::as_str))?;
        for column in rest {
            let name = cut(&column.name, names);
            let value = column.cells.get(entry).map_or("", String::as_str);
            let value = cut(value, width.saturating_sub(names + 4).max(NARROWEST));
            writeln!(out, "  {name:names$}  {value}")?;
        }
    }
    Ok(())
}

fn cell(
    arrays: &Arrays,
    name: &str,
    node: &Node,
    entry: usize,
    width: usize,
) -> Result<String, Failure> {
    // a character has up to four bytes; long values are cut by characters
    let style = Style::Text(width.saturating_mul(4));
    let mut text = String::new();
    let values = Values { arrays, style };
    values
        .write(node, entry, &mut text)
        .ok_or_else(|| missing(name))?;
    Ok(printable(&cut(&text, width)).into_owned())
}

fn is_number(node: &Node) -> bool {
    matches!(
        node.kind,
        NodeKind::Leaf { .. } | NodeKind::Cardinality { .. }
    )
}
