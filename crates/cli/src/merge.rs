//! `fb merge`: files into one, whose pages are those of the inputs wherever they can be.

use std::io::Write;
use std::path::Path;

use femtobarn::merge::{Level, MergeOptions, MergeReport, Others, merge};
use femtobarn::write::{Mode, WriteOptions};

use crate::args::MergeArgs;
use crate::convert::{compression, inputs};
use crate::failure::{Failure, code};
use crate::output::Output;
use crate::progress::{Show, end_gently};
use crate::table::printable;
use crate::units;

pub fn run(args: &MergeArgs, json: bool, out: &mut Output<'_>) -> Result<i32, Failure> {
    let options = options(args)?;
    check_output(&args.output)?;
    let inputs = inputs(&args.inputs, !args.fields.is_empty())?;
    end_gently();
    let show = Show::new(1, json);
    let report = merge(&inputs, Path::new(&args.output), &options, &|pulse| {
        show.tick_merge(pulse)
    })?;
    show.end();
    if json {
        out.json(&report.to_json())?;
    } else {
        print(&report, out)?;
    }
    Ok(code::FINE)
}

/// The output is one file.
fn check_output(output: &str) -> Result<(), Failure> {
    let path = Path::new(output);
    let message = if path.exists() {
        (!path.is_file()).then(|| format!("{output} is not a file: the first name is the output"))
    } else if output.contains(['*', '?', '[']) {
        Some(format!(
            "{output:?} is where to write, and a pattern is no place: the first name is the output"
        ))
    } else if output.to_ascii_lowercase().contains(".root:") || !output.contains(".root") {
        Some(format!(
            "{output:?} is no name of a ROOT file, as out.root is: the first name is the output"
        ))
    } else {
        None
    };
    match message {
        None => Ok(()),
        Some(message) => Err(Failure::new(code::USAGE, "usage", message)),
    }
}

fn options(args: &MergeArgs) -> Result<MergeOptions, Failure> {
    let compression = args.compression.as_deref().map(compression).transpose()?;
    let mut write = WriteOptions {
        threads: args.threads.number()?,
        ..WriteOptions::default()
    };
    write.compression = compression.unwrap_or(write.compression);
    Ok(MergeOptions {
        level: match args.level.as_str() {
            "L0" => Level::L0,
            "L1" => Level::L1,
            "L2" => Level::L2,
            _ => Level::Auto,
        },
        mode: match args.mode.as_str() {
            "union" => Mode::Union,
            "strict" => Mode::Strict,
            _ => Mode::Filter,
        },
        others: match args.others.as_str() {
            "first" => Others::First,
            "drop" => Others::Drop,
            _ => Others::Error,
        },
        fields: args.fields.clone(),
        compression,
        compatible: !args.not_compatible,
        overwrite: args.force,
        write,
    })
}

fn print(report: &MergeReport, out: &mut Output<'_>) -> Result<(), Failure> {
    let levels = report.levels();
    let parts = [
        ("shared", levels.shared),
        ("copied", levels.copied),
        ("recompressed", levels.recompressed),
        ("encoded anew", levels.reencoded),
        ("zeros", levels.zeros),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(what, n)| format!("{} {what}", units::bytes(*n)))
        .collect();
    let n = report.inputs.len();
    writeln!(
        out,
        "{}: {}, from {n} file{} in {:.2} s ({})",
        printable(&report.output.to_string_lossy()),
        units::bytes(report.bytes_out),
        if n == 1 { "" } else { "s" },
        report.seconds,
        parts.join(", ")
    )?;
    for (path, ntuple) in &report.ntuples {
        writeln!(out, "  {}: {} entries", printable(path), ntuple.n_entries)?;
    }
    for input in &report.inputs {
        let url = printable(&input.url);
        for (path, merged) in &input.ntuples {
            for name in &merged.left_out {
                let (path, name) = (printable(path), printable(name));
                writeln!(
                    out,
                    "  left out: {name} of {url}:{path}, which the first file does not have"
                )?;
            }
            for name in &merged.missing {
                let (path, name) = (printable(path), printable(name));
                writeln!(
                    out,
                    "  zero or empty: {name} in the entries of {url}:{path}, which does not have it"
                )?;
            }
        }
        for (path, class) in &input.dropped {
            writeln!(
                out,
                "  left out: {} {} of {url}",
                printable(class),
                printable(path)
            )?;
        }
    }
    Ok(())
}
