//! `fb convert`: converts files of one format into another.

use std::io::{ErrorKind, Write};
use std::path::Path;

use femtobarn::convert::{
    Batch, ConvertOptions, Converted, FileReport, Input, Outcome, Replace, advice, convert,
    convert_many,
};
use femtobarn::documents::extended;
use femtobarn::io::{is_object_set, is_remote, public};
use femtobarn::is_pattern;
use femtobarn::rootfile::without_cycle;
use femtobarn::write::WriteOptions;
use serde_json::{Value, json};

use crate::args::ConvertArgs;
use crate::failure::{Failure, code};
use crate::merge::sent;
use crate::options::{compression, object_size, size};
use crate::output::Output;
use crate::outputs::{Named, Position};
use crate::progress::{Show, end_gently, is_interrupted};
use crate::table::printable;
use crate::units;
use femtobarn::kinds::exit_code;
use femtobarn::{Destination, Target};

/// Advice if one of several fields was taken for a file.
pub const AS_LIST: &str = "give several fields as one argument: --fields 'a,b_*'";

/// Checks the names of converted files.
const ENDINGS: [&str; 3] = [".root", ".parquet", ".arrow"];

pub fn run(args: &ConvertArgs, out: &mut Output<'_>, err: &mut Output<'_>) -> Result<i32, Failure> {
    let named = Named::new(&args.names, args.output.as_deref(), Position::Last)?;
    let output = &*named.output;
    let options = options(args)?;
    // the query of a URL is not part of the name
    let shown = public(output);
    let path = Path::new(&shown);
    check_output(&shown, &named)?;
    if let Some(report) = &args.skip_bad_files {
        check_report(report)?;
    }
    let is_choosing = !args.fields.is_empty() || !args.drop.is_empty();
    let inputs = inputs(named.inputs, is_choosing)?;
    if args.force {
        named.check_order(&inputs)?;
    }
    end_gently();
    let is_folder = match is_object_set(output) {
        true => shown.ends_with('/'),
        false => shown.ends_with('/') || path.is_dir() || path.extension().is_none(),
    };
    if is_folder && is_remote(output) && !shown.ends_with('/') {
        return Err(usage(&format!(
            "invalid output {shown}: a file must end with .root, .parquet or .arrow, the URL of a directory with a slash: {shown}/"
        )));
    }
    if !is_folder {
        if args.resume || args.skip_bad_files.is_some() {
            let message =
                "--resume and --skip-bad-files need an output directory: end its name with /";
            return Err(usage(message));
        }
        let show = Show::new(1, out.is_json);
        let done = convert(&inputs, Path::new(output), &options, &|progress| {
            show.tick(0, progress)
        });
        let done = done.map_err(|error| Failure {
            next: advice(&error).map(str::to_owned),
            ..error.into()
        })?;
        show.end();
        if out.is_json {
            out.json(&document(&inputs, &done))?;
        } else {
            print(&done, inputs.len(), out)?;
            let n_left_out = done.left_behind.fields().count();
            if n_left_out > 0 {
                writeln!(out, "{}", left_out(n_left_out))?;
            }
        }
        return Ok(code::FINE);
    }
    many(&inputs, output, args, &options, out, err)
}

fn many(
    inputs: &[Input],
    folder: &str,
    args: &ConvertArgs,
    options: &ConvertOptions,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<i32, Failure> {
    let batch = Batch {
        jobs: usize::from(args.jobs),
        resume: args.resume,
        skip_bad_files: args.skip_bad_files.is_some(),
        format: args.format,
    };
    let show = Show::new(inputs.len(), out.is_json);
    let tick = |at, progress| show.tick(at, progress);
    let reports = convert_many(inputs, Path::new(folder), options, batch, &tick)?;
    show.end();
    let documents: Vec<Value> = reports.iter().map(FileReport::to_json).collect();
    if let Some(path) = &args.skip_bad_files {
        let text = serde_json::to_string_pretty(
            &json!({"files": documents, "summary": summary(&reports)}),
        );
        let written = std::fs::write(path, text.unwrap_or_default() + "\n");
        written.map_err(|error| {
            Failure::new(code::NOT_THERE, "create-failed", format!("{path}: {error}"))
        })?;
    }
    let mut worst = code::FINE;
    for (report, document) in reports.iter().zip(&documents) {
        if out.is_json {
            out.json(document)?;
        }
        match &report.outcome {
            Outcome::Converted(done) if !out.is_json => print(done, 1, out)?,
            Outcome::Kept if !out.is_json => {
                writeln!(
                    out,
                    "{}: already exists",
                    printable(&report.output.to_string_lossy())
                )?;
            }
            Outcome::Failed { error, n_entries } => {
                if args.skip_bad_files.is_some() {
                    worst = code::DAMAGED;
                } else if worst == code::FINE {
                    worst = exit_code(error);
                }
                if !out.is_json {
                    let why = document
                        .get("error")
                        .and_then(Value::as_str)
                        .unwrap_or_default();
                    let lost = n_entries.filter(|&n| n > 0);
                    let lost = lost.map_or(String::new(), |n| format!(" ({n} entries)"));
                    writeln!(err, "fb: not converted{lost}: {}", printable(why))?;
                    if let Some(next) = advice(error) {
                        writeln!(err, "fb: {next}")?;
                    }
                }
            }
            Outcome::Interrupted if !out.is_json && is_interrupted() => {
                let name = report.input.shown();
                let name = printable(&name);
                writeln!(err, "fb: not converted: interrupted at {name}")?;
            }
            _ => {}
        }
    }
    if !out.is_json && (reports.len() > 1 || n_left_out(&reports) > 0) {
        writeln!(out, "{}", summary_text(&reports))?;
    }
    let is_done =
        |report: &FileReport| !matches!(report.outcome, Outcome::Interrupted | Outcome::NotTried);
    if !reports.iter().all(is_done) {
        if is_interrupted() {
            return Ok(code::INTERRUPTED);
        }
        if !out.is_json {
            let next =
                "use --skip-bad-files REPORT to convert the other files and get a report of each";
            writeln!(err, "fb: {next}")?;
        }
    }
    Ok(worst)
}

/// An output is a path: not the name of an object in a file, not a stream, not a device.
fn check_output(output: &str, named: &Named<'_>) -> Result<(), Failure> {
    let path = Path::new(output);
    Destination::split(output)?;
    if output == "-" {
        return Err(usage(
            "cannot write to standard output: give the path of a file or directory",
        ));
    }
    if path.exists() {
        let is_either = path.is_file() || path.is_dir();
        let message = format!("invalid output {output}: neither a file nor a directory");
        return is_either.then_some(()).ok_or_else(|| usage(&message));
    }
    if is_pattern(output) {
        let message = format!(
            "invalid output {output:?}: an output cannot be a pattern{}",
            named.told()
        );
        return Err(Failure {
            next: Some(AS_LIST.to_owned()),
            ..usage(&message)
        });
    }
    if is_object_set(output) {
        return Ok(());
    }
    let lower = output.to_ascii_lowercase();
    let ends = ENDINGS.iter().find_map(|ending| {
        let at = lower.find(&format!("{ending}:"))?;
        Some(at + ending.len())
    });
    if let Some((file, name)) = ends.and_then(|at| output.split_at_checked(at)) {
        let name = name.trim_start_matches(':');
        return Err(usage(&format!(
            "invalid output {output:?}: give the path {file}, and --name {name}"
        )));
    }
    Ok(())
}

/// Checks that the report can be written before hours of work. An existing file of this name must be an earlier report
/// and is kept until the end.
fn check_report(path: &str) -> Result<(), Failure> {
    let made = !Path::new(path).exists();
    let is_report = || {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let document: Option<Value> = serde_json::from_str(&text).ok();
        text.trim().is_empty() || document.is_some_and(|it| it.get("summary").is_some())
    };
    let is_data = ENDINGS
        .iter()
        .any(|ending| path.to_ascii_lowercase().ends_with(ending));
    if is_data || (!made && !is_report()) {
        return Err(usage(&format!(
            "{path} exists and is not a report of --skip-bad-files: give a new name, e.g. report.json"
        )));
    }
    let opened = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path);
    opened.map_err(|error| usage(&format!("cannot write the report {path}: {error}")))?;
    if made {
        // the check has created this empty file
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

fn usage(message: &str) -> Failure {
    Failure::new(code::USAGE, "usage", message)
}

fn options(args: &ConvertArgs) -> Result<ConvertOptions, Failure> {
    let compression = compression(&args.compression)?;
    let cluster_bytes = size(&args.cluster_size)?;
    let is_with_cycle = |name: &&String| without_cycle(name) != name.as_str();
    if let Some(name) = args.name.as_ref().filter(is_with_cycle) {
        return Err(usage(&format!(
            "invalid ntuple name {name:?}: ';' is reserved for the cycle number, which is set automatically"
        )));
    }
    Ok(ConvertOptions {
        fields: args.fields.clone(),
        drop: args.drop.clone(),
        name: args.name.clone(),
        group: args.group,
        verify: !args.no_verify,
        replace: match (args.force, args.resume) {
            (true, _) => Replace::Anything,
            (false, true) => Replace::Own,
            (false, false) => Replace::Nothing,
        },
        write: WriteOptions {
            compression,
            cluster_bytes,
            threads: args.threads.number()?,
            object_size: object_size(args.object_size.as_deref())?,
            ..WriteOptions::default()
        },
        ..ConvertOptions::default()
    })
}

/// Expands names and patterns to files; `is_choosing` says whether fields are selected elsewhere.
pub fn inputs(names: &[String], is_choosing: bool) -> Result<Vec<Input>, Failure> {
    let mut out = Vec::new();
    for name in &listed(names)? {
        let found = Target::find(name, None).map_err(|error| {
            let is_list = is_choosing && error.kind() == "file-not-found";
            let failure = Failure::from(error);
            let next = is_list.then(|| AS_LIST.to_owned());
            Failure {
                next: next.or(failure.next),
                ..failure
            }
        })?;
        out.extend(found.into_iter().map(|target| Input {
            url: target.file,
            path: target.name,
            ..Input::default()
        }));
    }
    Ok(out)
}

/// Expands lists in the names: `@FILE` stands for the names in a text file, one per line, as in hadd; lines that begin
/// with # are comments.
pub fn listed(names: &[String]) -> Result<Vec<String>, Failure> {
    let mut out = Vec::with_capacity(names.len());
    for name in names {
        match name.strip_prefix('@') {
            Some(list) if !Path::new(name).exists() => {
                let text = std::fs::read_to_string(list).map_err(|error| {
                    let kind = match error.kind() {
                        ErrorKind::NotFound => "file-not-found",
                        _ => "open-failed",
                    };
                    let message = format!("cannot read the list of files {list}: {error}");
                    Failure::new(code::NOT_THERE, kind, message)
                })?;
                let before = out.len();
                let text = text.trim_start_matches('\u{feff}');
                let lines = text.lines().map(str::trim);
                let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
                out.extend(lines.map(str::to_owned));
                if out.len() == before {
                    return Err(usage(&format!(
                        "the list of files {list} is empty: write one file name per line"
                    )));
                }
            }
            _ => out.push(name.clone()),
        }
    }
    Ok(out)
}

fn document(inputs: &[Input], done: &Converted) -> Value {
    let inputs: Vec<String> = inputs.iter().map(Input::shown).collect();
    extended(json!({"inputs": inputs}), done.to_json())
}

fn print(done: &Converted, n_inputs: usize, out: &mut Output<'_>) -> Result<(), Failure> {
    let converted = match done.left_behind.is_empty() {
        true => "",
        false => " that were converted",
    };
    let proof = match done.n_compared() {
        Some(1) => "; its one column is equal".to_owned(),
        Some(n) => format!("; all {n} columns{converted} are equal"),
        None => String::new(),
    };
    writeln!(
        out,
        "{}: {} entries, {} from {} in {:.1} s{proof}",
        printable(&done.output.to_string_lossy()),
        done.n_entries(),
        units::bytes(done.bytes_out),
        units::bytes(done.bytes_in()),
        done.seconds
    )?;
    if let Some(delivery) = &done.delivery {
        writeln!(out, "  {}", sent(delivery))?;
    }
    if done.ntuples.len() > 1 {
        for ntuple in &done.ntuples {
            let (name, n) = (printable(&ntuple.name), ntuple.n_entries);
            writeln!(out, "  {name}: {n} entries")?;
        }
    }
    for (name, note) in done.notes() {
        writeln!(out, "  {}: {}", printable(&name), printable(note))?;
    }
    for line in done.left_behind.lines(n_inputs) {
        writeln!(out, "  {}", printable(&line))?;
    }
    Ok(())
}

fn left_out(n: usize) -> String {
    let s = if n == 1 { "" } else { "es" };
    format!("{n} branch{s} left out")
}

/// How many branches the converted files have lost.
fn n_left_out(reports: &[FileReport]) -> usize {
    let each = reports.iter().map(|report| match &report.outcome {
        Outcome::Converted(done) => done.left_behind.fields().count(),
        _ => 0,
    });
    each.sum()
}

fn counts(reports: &[FileReport]) -> (usize, usize, usize, usize) {
    let count = |is: &dyn Fn(&Outcome) -> bool| reports.iter().filter(|r| is(&r.outcome)).count();
    (
        count(&|outcome| matches!(outcome, Outcome::Converted(_))),
        count(&|outcome| matches!(outcome, Outcome::Kept)),
        count(&|outcome| matches!(outcome, Outcome::Failed { .. })),
        count(&|outcome| matches!(outcome, Outcome::NotTried | Outcome::Interrupted)),
    )
}

fn lost(reports: &[FileReport]) -> (u64, bool) {
    let mut sum = 0;
    let mut all_known = true;
    for report in reports {
        if let Outcome::Failed { n_entries, .. } = &report.outcome {
            sum += n_entries.unwrap_or(0);
            all_known &= n_entries.is_some();
        }
    }
    (sum, all_known)
}

fn summary(reports: &[FileReport]) -> Value {
    let (converted, kept, failed, not_tried) = counts(reports);
    let (n_lost, all_known) = lost(reports);
    json!({
        "converted": converted,
        "kept": kept,
        "failed": failed,
        "not_tried": not_tried,
        "branches_left_out": n_left_out(reports),
        "entries_lost": n_lost,
        "entries_lost_is_complete": all_known,
    })
}

fn summary_text(reports: &[FileReport]) -> String {
    let (converted, kept, failed, not_tried) = counts(reports);
    let is_ntuple = |report: &FileReport| is_object_set(&report.output.to_string_lossy());
    let what = match reports.iter().any(is_ntuple) {
        true => "ntuple",
        false => "file",
    };
    let mut parts = vec![format!(
        "{} converted",
        units::plural(converted as u64, what)
    )];
    let (n_lost, all_known) = lost(reports);
    for (n, what) in [
        (kept, "already existed"),
        (failed, "not converted"),
        (not_tried, "not tried"),
    ] {
        if n > 0 {
            parts.push(format!("{n} {what}"));
        }
    }
    let n_left_out = n_left_out(reports);
    if n_left_out > 0 {
        parts.push(left_out(n_left_out));
    }
    if failed > 0 {
        parts.push(match (n_lost, all_known) {
            (0, true) => "no entries lost".to_owned(),
            (_, true) => format!("{n_lost} entries lost"),
            (0, false) => "number of lost entries unknown".to_owned(),
            (_, false) => format!("at least {n_lost} entries lost"),
        });
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_told_as_far_as_it_is_known() {
        // "at least 0 entries lost" was no help to anybody
        let failed = |n_entries| FileReport {
            input: Input {
                url: "in.root".into(),
                path: None,
                ..Input::default()
            },
            output: "out.root".into(),
            outcome: Outcome::Failed {
                error: femtobarn::Error::Interrupted,
                n_entries,
            },
        };
        let text = |all: &[Option<u64>]| {
            let reports: Vec<FileReport> = all.iter().map(|&n| failed(n)).collect();
            summary_text(&reports)
        };
        assert!(text(&[Some(3)]).ends_with(", 3 entries lost"));
        assert!(text(&[Some(3), None]).ends_with(", at least 3 entries lost"));
        assert!(text(&[Some(0)]).ends_with(", no entries lost"));
        assert!(text(&[None]).ends_with(", number of lost entries unknown"));
    }
}
