//! `fb verify --against`: whether a file has the entries of its inputs.

use std::io::{self, Write};

use femtobarn::convert::Input;
use femtobarn::merge::{Entries, JoinOptions};
use femtobarn::proof::{NTupleProof, ProofOptions, ProofReport, prove};

use crate::args::VerifyArgs;
use crate::convert::inputs;
use crate::failure::{Failure, code};
use crate::options::{condition, entries, patterns, patterns_of_each};
use crate::output::Output;
use crate::progress::Show;
use crate::remarks::{FILES, Remarks, missing};
use crate::table::printable;
use crate::units::{bytes, plural};
use femtobarn::Target;

/// Maximum number of differences, and of fields of each kind, that are listed; `--json` lists all.
const MOST_LISTED: usize = 20;

/// Checks that the options fit together.
pub fn check(args: &VerifyArgs) -> Result<(), Failure> {
    let usage = |message: &str| Err(Failure::new(code::USAGE, "usage", message));
    let is_alone = args.values
        || args.entries.is_some()
        || args.condition.is_some()
        || args.since.is_some()
        || args.beside
        || !args.fields.is_empty();
    match (args.against.is_empty(), args.targets.as_slice()) {
        (true, _) if is_alone => usage(
            "--values, --entries, --where, --since, --beside and --fields need inputs: give them with --against",
        ),
        (false, targets) if targets.len() != 1 => {
            usage("--against needs one output: fb verify OUTPUT --against INPUT…")
        }
        _ => Ok(()),
    }
}

/// Compares a file with its inputs; none if no inputs are given.
pub fn against(
    target: &Target,
    args: &VerifyArgs,
    threads: usize,
    show: &Show,
) -> Result<Option<ProofReport>, Failure> {
    if args.against.is_empty() {
        return Ok(None);
    }
    let output = Input {
        url: target.file.clone(),
        path: target.name.clone(),
        ..Input::default()
    };
    let wanted = match (&args.entries, &args.condition) {
        (Some(text), _) => entries(text)?,
        (None, Some(text)) => Entries::Where(condition(text)?),
        (None, None) => Entries::All,
    };
    let join = args.beside.then(|| JoinOptions {
        on: args.on.clone(),
        unmatched: args.unmatched.unwrap_or_default(),
        fields: patterns_of_each(&args.fields),
        ..JoinOptions::default()
    });
    let options = ProofOptions {
        values: args.values,
        entries: wanted,
        since: args.since.unwrap_or(0),
        fields: match join {
            Some(_) => Vec::new(),
            None => patterns(&args.fields),
        },
        join,
        threads,
    };
    let inputs = inputs(&args.against, args.beside && !args.fields.is_empty())?;
    let tick = |done, total| show.tick_share("comparing with the inputs", done, total);
    Ok(Some(prove(&output, &inputs, &options, Some(&tick))?))
}

/// The report for people.
pub fn write(report: &ProofReport, file: &str, out: &mut Output<'_>) -> io::Result<()> {
    for proof in &report.ntuples {
        ntuple(proof, file, out)?;
    }
    Ok(())
}

/// Prints the proof that a merge made.
pub fn write_summary(report: &ProofReport, out: &mut Output<'_>) -> io::Result<()> {
    for proof in &report.ntuples {
        let line = format!("  {}: as in the inputs: {}", proof.ntuple, compared(proof));
        writeln!(out, "{}", printable(&line))?;
    }
    Ok(())
}

/// The comparison's method and extent.
fn compared(proof: &NTupleProof) -> String {
    let (n, size) = (plural(proof.pages_equal, "page"), bytes(proof.bytes_equal));
    match proof.by_value.len() as u64 {
        0 => format!("{n} ({size}) the same"),
        fields => {
            let fields = plural(fields, "field");
            format!("{n} ({size}) the same, {fields} compared by value")
        }
    }
}

fn ntuple(proof: &NTupleProof, file: &str, out: &mut Output<'_>) -> io::Result<()> {
    let verdict = match proof.is_equal() {
        true => "as in the inputs",
        false => "NOT AS IN THE INPUTS",
    };
    let line = format!(
        "{file}:{}: {verdict}: {} of {}, {}",
        proof.ntuple,
        plural(proof.n_expected, "entry"),
        plural(proof.inputs.len() as u64, "input"),
        compared(proof)
    );
    writeln!(out, "{}", printable(&line))?;
    let differences = proof.differences.iter();
    let differences = differences.map(|it| format!("differs: {}", it.describe()));
    list(differences, out)?;
    let not_compared = proof.not_compared.iter();
    list(
        not_compared.map(|(field, reason)| format!("not compared: {field}: {reason}")),
        out,
    )?;
    let mut remarks = Remarks::default();
    for (field, input) in &proof.missing {
        remarks.add(missing(field), input);
    }
    for (field, input) in &proof.left_out {
        remarks.add(format!("left out: {field} of {FILES}"), input);
    }
    list(remarks.lines().into_iter(), out)
}

fn list(lines: impl ExactSizeIterator<Item = String>, out: &mut Output<'_>) -> io::Result<()> {
    let more = lines.len().saturating_sub(MOST_LISTED);
    for line in lines.take(MOST_LISTED) {
        writeln!(out, "  {}", printable(&line))?;
    }
    match more {
        0 => Ok(()),
        more => writeln!(out, "  … and {more} more; --json lists all"),
    }
}
