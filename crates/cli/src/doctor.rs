//! `fb doctor`: diagnoses the access to a file.

use std::io::Write;
use std::time::Duration;

use femtobarn::io::{Check, Outcome};
use femtobarn::{Target, examine};
use serde_json::{Value, json};

use crate::failure::{Failure, code};
use crate::output::Output;
use crate::table::printable;

pub fn run(target: &Target, n_bytes: u64, out: &mut Output<'_>) -> Result<i32, Failure> {
    let checks = examine(target, n_bytes);
    let is_fine = checks.iter().all(|check| check.outcome == Outcome::Fine);
    if out.is_json {
        let checks: Vec<Value> = checks.iter().map(document).collect();
        out.json(&json!({"url": target.shown(), "ok": is_fine, "checks": checks}))?;
    } else {
        let widest = |text: fn(&Check) -> String| {
            let lengths = checks.iter().map(|check| text(check).chars().count());
            lengths.max().unwrap_or(0)
        };
        let widths = [
            widest(|check| check.name.to_owned()),
            widest(|check| result(check.outcome).to_owned()),
            widest(time),
        ];
        for check in &checks {
            write(check, widths, out)?;
        }
    }
    Ok(if is_fine { code::FINE } else { code::DAMAGED })
}

fn result(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Fine => "ok",
        Outcome::Failed => "FAILED",
        Outcome::NotReached => "not reached",
    }
}

fn time(check: &Check) -> String {
    let milliseconds = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    check.time.map_or_else(String::new, milliseconds)
}

/// Writes a line without cutting it: its note is the result that the user wants.
fn write(check: &Check, widths: [usize; 3], out: &mut Output<'_>) -> std::io::Result<()> {
    let [names, results, times] = widths;
    let (result, time) = (result(check.outcome), time(check));
    let note = printable(&check.note);
    let line = format!(
        "{:names$}  {result:results$}  {time:>times$}  {note}",
        check.name
    );
    writeln!(out, "{}", line.trim_end())?;
    if let Some(advice) = &check.advice {
        let place = names + results + times + 6;
        writeln!(out, "{:place$}{}", "", printable(advice))?;
    }
    Ok(())
}

fn document(check: &Check) -> Value {
    json!({
        "name": check.name,
        "result": result(check.outcome),
        "seconds": check.time.map(|time| time.as_secs_f64()),
        "note": check.note,
        "advice": check.advice,
    })
}
