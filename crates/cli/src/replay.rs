//! `fb replay`: makes the recorded operations of a trace again, or shows them.

use std::io::{Write as _, stdin};

use femtobarn::Error;
use femtobarn::io::IoError;
use femtobarn::replay::{
    Input, InputState, ReplayOptions, Summary, Trace, check_inputs, figure, play,
};
use serde_json::{Value, json};

use crate::args::ReplayArgs;
use crate::failure::{Failure, code};
use crate::output::Output;
use crate::table::printable;
use crate::units::bytes;

pub fn run(args: &ReplayArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let mut trace = read(&args.trace)?;
    for text in &args.replace {
        let (old, new) = text
            .split_once(":=")
            .filter(|(old, _)| !old.is_empty())
            .ok_or_else(|| {
                let message = format!(
                    "invalid replacement {text:?}: expected OLD:=NEW, e.g. root://a//store/:=/data/"
                );
                Failure::new(code::USAGE, "usage", message)
            })?;
        trace.replace(old, new)?;
    }
    let options = ReplayOptions {
        speed: args.speed.0,
        ..ReplayOptions::default()
    };
    if args.verify || args.create {
        let inputs = check_inputs(&trace, &options, args.create)?;
        return show_inputs(&inputs, out);
    }
    let played = match args.print {
        true => None,
        false => Some(play(&trace, &options)?),
    };
    let summary = Summary::of(&trace, played.as_ref());
    if let Some(path) = &args.figure {
        let drawn = figure(&trace, played.as_ref());
        std::fs::write(path, drawn).map_err(|source| {
            let url = path.clone();
            Error::from(IoError::Create { url, source })
        })?;
    }
    match out.is_json {
        true => out.json(&summary.json())?,
        false => write!(out, "{}", printable_lines(&summary.text()))?,
    }
    let is_fine = summary.replay.is_none_or(|replay| replay.failed == 0);
    Ok(if is_fine { code::FINE } else { code::NOT_THERE })
}

/// Reads a trace, from standard input if its name is `-`.
pub fn read(name: &str) -> Result<Trace, Failure> {
    if name == "-" {
        return Ok(Trace::read("standard input", stdin().lock())?);
    }
    Ok(Trace::open(name)?)
}

fn show_inputs(inputs: &[Input], out: &mut Output<'_>) -> Result<i32, Failure> {
    let state = |input: &Input| match &input.state {
        InputState::Fine => ("ok", None),
        InputState::Created => ("created", None),
        InputState::TooSmall(size) => ("too small", Some(format!("it has {}", bytes(*size)))),
        InputState::Failed(error) => ("failed", Some(error.clone())),
    };
    let is_fine = |input: &Input| matches!(input.state, InputState::Fine | InputState::Created);
    if out.is_json {
        let inputs: Vec<Value> = inputs
            .iter()
            .map(|input| {
                let (state, note) = state(input);
                json!({"url": input.url, "needed": input.n_needed, "state": state, "note": note})
            })
            .collect();
        out.json(&json!({"inputs": inputs}))?;
    } else {
        for input in inputs {
            let (state, note) = state(input);
            let note = note.map_or_else(String::new, |note| format!(": {note}"));
            let line = format!("{state}  {}  {}{note}", bytes(input.n_needed), input.url);
            writeln!(out, "{}", printable(&line))?;
        }
    }
    Ok(match inputs.iter().all(is_fine) {
        true => code::FINE,
        false => code::DAMAGED,
    })
}

/// Text that is printed as it is, but for what a terminal would obey.
fn printable_lines(text: &str) -> String {
    let lines = text.lines().map(|line| format!("{}\n", printable(line)));
    lines.collect()
}
