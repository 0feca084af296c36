//! `fb rm`: deletes ntuples as objects, or in DAOS.

use std::collections::BTreeMap;
use std::io::Write as _;

use femtobarn::Target;
use femtobarn::io::public;
use femtobarn::write::delete_ntuple;
use serde_json::json;

use crate::failure::{Failure, code};
use crate::output::Output;
use crate::table::printable;
use crate::units;

pub fn run(target: &Target, out: &mut Output<'_>) -> Result<i32, Failure> {
    let n = delete_ntuple(target, &BTreeMap::new())?;
    let url = public(&target.to_string());
    match out.is_json {
        true => out.json(&json!({"url": url, "objects": n}))?,
        false => {
            let n = units::plural(n, "object");
            writeln!(out, "deleted {}: {n}", printable(&url))?;
        }
    }
    Ok(code::FINE)
}
