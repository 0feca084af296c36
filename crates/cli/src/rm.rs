//! `fb rm`: deletes ntuples as objects, or in DAOS.

use std::io::Write as _;

use femtobarn::io::{Settings, public};
use femtobarn::write::delete_ntuple;
use serde_json::{Value, json};

use crate::args::RmArgs;
use crate::failure::{Failure, code};
use crate::output::Output;
use crate::table::printable;
use crate::units;

pub fn run(args: &RmArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let mut documents = Vec::new();
    for url in &args.urls {
        let n = delete_ntuple(url, &Settings::of(url))?;
        let url = public(url);
        if !out.is_json {
            writeln!(
                out,
                "deleted {}: {}",
                printable(&url),
                units::plural(n, "object")
            )?;
        }
        documents.push(json!({"url": url, "objects": n}));
    }
    if out.is_json {
        out.json(&Value::Array(documents))?;
    }
    Ok(code::FINE)
}
