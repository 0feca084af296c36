//! The program `fb`: shows and processes ROOT files and their RNTuples.
//!
//! One module per subcommand. `python` runs what reads HDF5 files, which is written in Python; `reshape` has `clone`,
//! `reshape` and `skim`, which are special merges. Shared modules: arguments, `FILE:NAME`, options, tables, units,
//! values. The program calls only the facade and prints; it knows neither formats nor I/O.
//!
//! **Invariant.** Standard output gets results and nothing else: with `--json` one document per file (one per line for
//! `head`). Errors go to standard error. If the reader closes the pipe, the program ends quietly, with the exit code of
//! its work.

mod args;
mod cache;
mod completion;
mod convert;
mod copy;
mod cost;
mod doctor;
mod explain;
mod export;
mod failure;
mod head;
mod hist;
mod info;
mod ingest;
mod join;
mod layout;
mod ls;
mod merge;
mod migrate;
mod open;
mod options;
mod output;
mod outputs;
mod progress;
mod proof;
mod python;
mod remarks;
mod replay;
mod reshape;
mod rm;
mod schema;
mod selection;
mod stats;
mod store;
mod store_ls;
mod store_rm;
mod store_verify;
mod sweep;
mod table;
mod target;
mod units;
mod value;
mod verify;
mod verify_text;
mod view;

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;

use clap::Parser;
use clap::error::ErrorKind;
use femtobarn::io::{public, tell_notices_by};

use args::{Cli, Verb};
use failure::{Failure, code};
use femtobarn::Target;
pub use info::info_text;
use output::Output;
pub use python::Python;
use table::printable;

/// Runs the program with these arguments (without the program's name) on the standard streams; returns its exit code.
/// `python` runs the subcommands that are written in Python.
pub fn run(args: Vec<String>, python: Option<Python<'_>>) -> i32 {
    let before = tell_notices_by(tell);
    let mut out = Output::new(std::io::stdout().lock());
    let mut err = Output::new(std::io::stderr().lock());
    let code = run_with(args, python, &mut out, &mut err);
    // the process may belong to Python, and continue
    if let Some(before) = before {
        tell_notices_by(before);
    }
    code
}

/// Prints notices on standard error. Another thread may hold the lock of stderr until the end, so this writes to a
/// duplicate of the file descriptor.
fn tell(text: &str) {
    let stderr = std::io::stderr();
    let start = if stderr.is_terminal() { "\r\x1b[K" } else { "" };
    let line = format!("{start}fb: {}\n", printable(text));
    if let Ok(own) = stderr.as_fd().try_clone_to_owned() {
        // if stderr is closed, nobody can read the notice
        let _ = std::fs::File::from(own).write_all(line.as_bytes());
    }
}

fn run_with(
    args: Vec<String>,
    python: Option<Python<'_>>,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> i32 {
    out.is_json = args.iter().any(|arg| arg == "--json");
    err.is_json = out.is_json;
    let chooses_fields = args.iter().any(|arg| arg == "--fields");
    // clap takes the second of several fields for a further file
    let advice = match args.first().map(String::as_str) {
        Some("head" | "explain") if chooses_fields => Some(options::BEHIND_THE_FILE),
        _ if chooses_fields => Some(convert::AS_LIST),
        Some("merge") => Some(merge::OF_HADD),
        _ => None,
    };
    let is_told_otherwise = |arg: &&String| shown(arg) != **arg;
    let others: Vec<String> = args.iter().filter(is_told_otherwise).cloned().collect();
    let result = match Cli::try_parse_from(std::iter::once("fb".to_owned()).chain(args)) {
        Ok(cli) => {
            (out.is_json, err.is_json) = (cli.json, cli.json);
            options::set_all(&cli.set)
                .and_then(|()| stats::observe(&cli))
                .and_then(|()| match cli.stats {
                    true => stats::run(&cli, python, out, err),
                    false => dispatch(&cli, python, out, err),
                })
        }
        Err(error) => usage(&error, &others, advice, out),
    };
    let result = result.and_then(|code| out.flush().map(|()| code).map_err(Failure::from));
    let code = result.unwrap_or_else(|failure| {
        // output that was printed before the error stays before it
        let _ = out.flush();
        let _ = failure.write(err);
        failure.code
    });
    // if stderr is closed, nobody can read the errors
    let _ = err.flush();
    code
}

fn dispatch(
    cli: &Cli,
    python: Option<Python<'_>>,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<i32, Failure> {
    match &cli.verb {
        Verb::Ls(args) => each(&args.files, true, out, err, |target, out| {
            ls::run(target, args.rntuples, out)
        }),
        Verb::Info(args) => each(&args.targets, true, out, err, |target, out| {
            info::run(target, args, out)
        }),
        Verb::Head(args) => head::run(args, out, err),
        Verb::Hist(args) => hist::run(args, out),
        Verb::View(args) => view::run(args, out),
        Verb::Verify(args) => {
            proof::check(args)?;
            each(&args.targets, false, out, err, |target, out| {
                verify::run(target, args, out)
            })
        }
        Verb::Explain(args) => explain::run(args, out),
        Verb::Cost(args) => cost::run(args, out),
        Verb::Convert(args) => convert::run(args, out, err),
        Verb::Merge(args) => merge::run(args, out),
        Verb::Join(args) => join::run(args, out),
        Verb::Clone(args) => reshape::clone(args, out),
        Verb::Reshape(args) => reshape::reshape(args, out),
        Verb::Skim(args) => reshape::skim(args, out),
        Verb::Migrate(args) => migrate::run(args, out, err),
        Verb::Cp(args) => copy::run(args, out, err),
        Verb::Replay(args) => replay::run(args, out),
        Verb::Rm(args) => each(&args.urls, false, out, err, rm::run),
        Verb::Sweep(args) => sweep::run(args, out),
        Verb::Doctor(args) => each(&args.urls, true, out, err, |target, out| {
            doctor::run(target, args.bytes, out)
        }),
        Verb::Ingest(args) => ingest::run(args, python, out, err),
        Verb::Hdf5Schema(args) => python::hdf5_schema(args, python, out),
        Verb::Export(args) => export::run(args, out),
        Verb::Store(action) => store::run(action, out),
        Verb::Cache(action) => cache::run(action, out),
        Verb::Completion(args) => completion::run(args, out),
    }
}

/// Does `work` for each target, also after errors; returns 1 if any is damaged, else the highest exit code. With
/// `titles`, each of several targets gets a title in text output; in JSON, an error is a document as well.
fn each(
    targets: &[String],
    titles: bool,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
    mut work: impl FnMut(&Target, &mut Output<'_>) -> Result<i32, Failure>,
) -> Result<i32, Failure> {
    let mut expanded = Vec::new();
    for target in &convert::listed(targets)? {
        match Target::find(target, None) {
            Ok(found) => {
                let found = found.into_iter();
                expanded.extend(found.map(|target| (target.to_string(), Ok(target))));
            }
            Err(error) => expanded.push((public(target), Err(Failure::from(error)))),
        }
    }
    let is_one = expanded.len() == 1;
    let mut highest = code::FINE;
    for (i, (title, target)) in expanded.into_iter().enumerate() {
        if is_one {
            return work(&target?, out);
        }
        if titles && !out.is_json {
            let space = if i > 0 { "\n" } else { "" };
            writeln!(out, "{space}{}:", printable(&title))?;
        }
        let done = target.and_then(|target| work(&target, out));
        let code = done.or_else(|failure| {
            if out.is_json {
                out.json(&failure.document(Some(&title)))?;
            } else {
                out.flush()?;
                failure.write(err)?;
                err.flush()?;
            }
            Ok::<i32, Failure>(failure.code)
        })?;
        let worse = highest != code::DAMAGED && (code == code::DAMAGED || code > highest);
        highest = if worse { code } else { highest };
        if out.is_closed() {
            break;
        }
    }
    Ok(highest)
}

/// An argument as messages show it.
fn shown(arg: &str) -> String {
    printable(&public(arg)).into_owned()
}

/// Help and version go to standard output; everything else is a usage error.
fn usage(
    error: &clap::Error,
    others: &[String],
    advice: Option<&str>,
    out: &mut Output<'_>,
) -> Result<i32, Failure> {
    let rendered = error.render().to_string();
    // a misspelt option is not meant as a file
    let is_tip = |line: &&str| line.trim_start().starts_with("tip: to pass ");
    let lines: Vec<&str> = rendered.lines().collect();
    let tip = lines.iter().position(is_tip);
    let kept = lines.iter().enumerate().filter(|(at, _)| {
        // with the empty line behind it
        tip.is_none_or(|tip| !(tip..=tip + 1).contains(at))
    });
    let kept: Vec<&str> = kept.map(|(_, line)| *line).collect();
    let mut text = kept.join("\n") + "\n";
    for arg in others {
        text = text.replace(arg.as_str(), &shown(arg));
    }
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            out.write_all(text.as_bytes())?;
            Ok(code::FINE)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if !out.is_json => Err(Failure::new(
            code::USAGE,
            "usage",
            format!("subcommand missing\n\n{text}"),
        )),
        _ => {
            let message = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
            let failure = Failure::new(code::USAGE, "usage", message.to_owned());
            let advice = advice.filter(|_| error.kind() == ErrorKind::UnknownArgument);
            let next = advice.map(str::to_owned);
            Err(Failure { next, ..failure })
        }
    }
}
