//! `fb merge`: merges files into one, and reuses the pages of the inputs wherever possible.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::path::Path;

use femtobarn::convert::Input;
use femtobarn::io::is_object_set;
use femtobarn::merge::{self, Levels, MergeOptions, MergeReport};
use femtobarn::transfer::Words;
use femtobarn::{Delivery, Error, Target};

use crate::args::MergeArgs;
use crate::convert::{AS_LIST, inputs};
use crate::failure::{Failure, code};
use crate::options::{compression, writing};
use crate::output::Output;
use crate::outputs::{Named, Position};
use crate::progress::{Show, end_gently};
use crate::proof;
use crate::remarks::{FILES, Remarks, missing};
use crate::table::printable;

use crate::target::exists;
use crate::units;

pub fn run(args: &MergeArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let named = Named::new(&args.names, args.output.path.as_deref(), Position::First)?;
    bring(named, &options(args)?, out)
}

/// Merges inputs into an output, and prints a report.
pub fn bring(
    named: Named<'_>,
    options: &MergeOptions,
    out: &mut Output<'_>,
) -> Result<i32, Failure> {
    check_output(&named)?;
    let inputs = inputs(named.inputs, !options.fields.is_empty())?;
    if options.overwrite {
        named.check_order(&inputs)?;
    }
    end_gently();
    let show = Show::new(1, out.is_json);
    let report = merge::merge(&inputs, Path::new(&*named.output), options, &|progress| {
        show.tick_merge(progress)
    });
    let report = report.map_err(|error| advised(error, &inputs, !options.fields.is_empty()))?;
    show.end();
    if out.is_json {
        out.json(&report.to_json())?;
    } else {
        print(&report, out)?;
    }
    Ok(code::FINE)
}

/// Advice for unknown options.
pub const OF_HADD: &str = "options of hadd: -fN is --force --compression N, -fk is --force (pages keep their compression), -a is --append, -j N is --threads N, -O is --level L4, -T is --others drop; -n, -k, -v and -cachesize have no counterpart";

/// The failure of a merge, with the next step. One of several selected fields may have been taken for a file.
pub fn advised(error: Error, inputs: &[Input], is_choosing: bool) -> Failure {
    let failure = Failure::from(error);
    let targets = inputs.iter().map(|input| Target {
        file: input.url.clone(),
        name: input.path.clone(),
    });
    let mut targets = targets.filter(|target| match &*failure.kind {
        "file-not-found" => !exists(target),
        _ => inputs.len() == 1 || failure.message.contains(&target.shown()),
    });
    let Some(target) = targets.next() else {
        return failure;
    };
    if failure.kind == "file-not-found" && is_choosing && !target.file.contains(".root") {
        let next = Some(AS_LIST.to_owned());
        return Failure { next, ..failure };
    }
    failure.advise(&target)
}

/// Checks that the output is one ROOT file.
pub fn check_output(named: &Named<'_>) -> Result<(), Failure> {
    let path = Path::new(&*named.output);
    let checked = match path.exists() && !path.is_file() {
        true => Err(Failure::new(
            code::USAGE,
            "usage",
            format!("invalid output {}: not a file", named.output),
        )),
        false => merge::check_output(&named.output).map_err(Failure::from),
    };
    checked.map_err(|failure| {
        let message = format!("{}{}", failure.message, named.told());
        Failure { message, ..failure }
    })
}

fn options(args: &MergeArgs) -> Result<MergeOptions, Failure> {
    let compression = args.compression.as_deref().map(compression).transpose()?;
    Ok(MergeOptions {
        level: args.level,
        mode: args.mode,
        others: args.others,
        fields: args.fields.clone(),
        compression,
        compatible: !args.not_compatible,
        overwrite: args.force,
        append: args.append,
        takes_append: true,
        words: Words::Shell,
        verify: args.verify,
        write: writing(&args.threads, &args.sizes, compression)?,
        ..MergeOptions::default()
    })
}

/// Prints the report.
pub fn print(report: &MergeReport, out: &mut Output<'_>) -> Result<(), Failure> {
    let n = report.inputs.len();
    let parts = levels_text(&report.levels());
    writeln!(
        out,
        "{}: {}, from {n} file{} in {:.2} s{parts}",
        printable(&report.output.to_string_lossy()),
        units::bytes(report.bytes_out),
        if n == 1 { "" } else { "s" },
        report.seconds
    )?;
    if let Some(delivery) = &report.delivery {
        writeln!(out, "  {}", sent(delivery))?;
    }
    if is_object_set(&report.output.to_string_lossy()) && report.levels().shared > 0 {
        writeln!(
            out,
            "  refers to objects of its inputs: keep these as long as it is used"
        )?;
    }
    for (path, ntuple) in &report.ntuples {
        let before = match report.bytes_before {
            Some(_) => format!(" ({} before)", ntuple.n_before),
            None => String::new(),
        };
        let (path, n) = (printable(path), ntuple.n_entries);
        let whole = match ntuple.is_whole {
            true => ", as a whole (it lacks columns of the condition)",
            false => "",
        };
        writeln!(out, "  {path}: {n} entries{before}{whole}")?;
    }
    if let Some(proof) = &report.proof {
        proof::write_summary(proof, out)?;
    }
    if report.histograms > 0 {
        let n = report.histograms;
        let given: usize = report.inputs.iter().map(|input| input.histograms).sum();
        let added = if given > n || report.bytes_before.is_some() {
            ", added up"
        } else {
            ""
        };
        writeln!(out, "  {}{added}", units::plural(n as u64, "histogram"))?;
    }
    for ((level, reason), n) in reasons(report) {
        let inputs = report.inputs.len();
        let of = match n < inputs {
            true => format!(" ({n} of {inputs} files)"),
            false => String::new(),
        };
        writeln!(out, "  {level}: {}{of}", printable(reason))?;
    }
    let left_behind = report.left_behind.lines(n);
    for remark in remarks(report).iter().chain(&left_behind) {
        writeln!(out, "  {}", printable(remark))?;
    }
    Ok(())
}

/// How much was handled at which level, in parentheses; empty for nothing.
pub fn levels_text(levels: &Levels) -> String {
    let parts = [
        ("shared", levels.shared),
        ("copied", levels.copied),
        ("recompressed", levels.recompressed),
        ("re-encoded", levels.reencoded),
        ("rebuilt", levels.rebuilt),
        ("zeros", levels.zeros),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(what, n)| format!("{} {what}", units::bytes(*n)))
        .collect();
    match parts.join(", ") {
        none if none.is_empty() => none,
        parts => format!(" ({parts})"),
    }
}

/// How the output was sent to its server.
pub fn sent(delivery: &Delivery) -> String {
    if let Some(written) = delivery.objects {
        let objects = units::plural(written.objects, "object");
        let requests = units::plural(written.requests, "request");
        return format!("sent as {objects} with {requests}");
    }
    let how = match delivery.compared.as_str() {
        "size" => "of the same size there",
        "bytes" => "with the same bytes there",
        kind => {
            return format!(
                "sent in {:.2} s, with the same {kind} there",
                delivery.seconds
            );
        }
    };
    format!("sent in {:.2} s, {how}", delivery.seconds)
}

/// Remarks on files.
fn remarks(report: &MergeReport) -> Vec<String> {
    let mut out = Remarks::default();
    for input in &report.inputs {
        for (path, class) in &input.converted {
            out.add(format!("converted: {class} {path} of {FILES}"), &input.url);
        }
        for (name, note) in &input.notes {
            out.add(format!("{name} of {FILES}: {note}"), &input.url);
        }
        for (path, merged) in &input.ntuples {
            for name in merged.missing.iter() {
                out.add(missing(&format!("{name} of {path}")), &input.url);
            }
        }
    }
    out.lines()
}

/// Levels that were not the cheapest and their reasons, with the number of files for each.
fn reasons(report: &MergeReport) -> BTreeMap<(&str, &str), usize> {
    let mut out = BTreeMap::new();
    for input in &report.inputs {
        let why = input.ntuples.iter().flat_map(|(_, merged)| &merged.why);
        let why: HashSet<(&str, &str)> = why.map(|(level, why)| (*level, why.as_str())).collect();
        for reason in why {
            *out.entry(reason).or_insert(0) += 1;
        }
    }
    out
}
