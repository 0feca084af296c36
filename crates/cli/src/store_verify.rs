//! `fb store verify`: reads everything in a store.

use std::io::Write;

use femtobarn::events::{DataStore, ObjectOptions, Verified};
use serde_json::json;

use crate::args::StoreVerifyArgs;
use crate::failure::{Failure, code};
use crate::output::Output;
use crate::table::printable;
use crate::units;

pub fn run(args: &StoreVerifyArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let store = DataStore::connect_to_read(&args.store, ObjectOptions::default())?;
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
    if out.is_json {
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
        0 => "no damage".to_owned(),
        n => format!("DAMAGED: {}", units::count(*n)),
    };
    writeln!(
        out,
        "{}, {} ({}), {} as objects: {verdict}",
        units::plural(*n_containers, "container"),
        units::plural(*n_products, "product"),
        units::bytes(*n_bytes),
        units::count(*n_objects),
    )?;
    Ok(code)
}
