//! `fb store verify`: reads everything in a store.
//!
//! The engine of a store in a folder trusts its pages, so that damage in one may end the process that reads it. It is read
//! by another process, whose end is an error here.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use femtobarn::events::{DataStore, ObjectOptions, Verified};
use serde_json::json;

use crate::args::StoreVerifyArgs;
use crate::failure::{Failure, code};
use crate::output::Output;
use crate::table::printable;
use crate::units;

/// Says to a process that it is the one that reads.
const READS: &str = "FEMTOBARN_STORE_VERIFY_READS";
/// Signals that processes get which read what is not there: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
const OF_DAMAGE: [i32; 5] = [4, 6, 7, 8, 11];

pub fn run(args: &StoreVerifyArgs, json: bool, out: &mut Output<'_>) -> Result<i32, Failure> {
    match same_program() {
        Some(program) if std::env::var_os(READS).is_none() => by_another(program, &args.store, out),
        _ => read(&args.store, json, out),
    }
}

/// The command by which this program was started; none if it is a part of another one.
fn same_program() -> Option<Command> {
    let words: Vec<_> = std::env::args_os().collect();
    let is_ours = words.windows(2).any(|pair| pair == ["store", "verify"]);
    let (program, rest) = words.split_first().filter(|_| is_ours)?;
    let mut command = Command::new(program);
    command.args(rest);
    Some(command)
}

fn by_another(mut program: Command, store: &str, out: &mut Output<'_>) -> Result<i32, Failure> {
    out.flush()?;
    let failed = |why: String| Failure::new(code::NOT_THERE, "store-engine", why);
    let ended = program.env(READS, "1").status();
    let ended =
        ended.map_err(|error| failed(format!("cannot start a process that reads: {error}")))?;
    match (ended.code(), ended.signal()) {
        (Some(code), _) => Ok(code),
        (None, Some(signal)) if OF_DAMAGE.contains(&signal) => {
            let message = format!(
                "{}: reading it ended the process by signal {signal}: pages of its file are damaged, so that they lead \
                 nowhere, and what is found in it may be wrong: take a copy that is whole",
                printable(store)
            );
            Err(Failure::new(code::CORRUPT, "store-layout", message))
        }
        (None, _) => Err(failed("the process that reads was ended".into())),
    }
}

fn read(store: &str, json: bool, out: &mut Output<'_>) -> Result<i32, Failure> {
    let store = DataStore::connect_to_read(store, ObjectOptions::default())?;
    let found = store.verify()?;
    let Verified {
        n_containers,
        n_products,
        n_objects,
        n_bytes,
        n_damaged,
        damaged,
    } = &found;
    let code = match n_damaged {
        0 => code::FINE,
        _ => code::DAMAGED,
    };
    if json {
        out.json(&json!({
            "store": store.url(),
            "containers": n_containers,
            "products": n_products,
            "objects": n_objects,
            "bytes": n_bytes,
            "damaged": n_damaged,
            "damages": damaged,
        }))?;
        return Ok(code);
    }
    for damage in damaged {
        writeln!(out, "{}", printable(damage))?;
    }
    let more = n_damaged - damaged.len() as u64;
    if more > 0 {
        writeln!(out, "… and {}", units::plural(more, "other"))?;
    }
    let verdict = match n_damaged {
        0 => "all as they were stored".to_owned(),
        n => format!("DAMAGED: {}", units::count(*n)),
    };
    writeln!(
        out,
        "{}, {} ({}), {} beside the store: {verdict}",
        units::plural(*n_containers, "container"),
        units::plural(*n_products, "product"),
        units::bytes(*n_bytes),
        units::count(*n_objects),
    )?;
    Ok(code)
}
