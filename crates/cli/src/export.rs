//! `fb export`: writes the events of a dataset to a file.

use std::io::Write;

use femtobarn::events::{DataStore, ObjectOptions};
use femtobarn::export::{ExportOptions, Exported, Wanted, export};
use femtobarn::products::Types;
use femtobarn::transfer::Words;
use femtobarn::write::WriteOptions;

use crate::args::{ExportArgs, Threads};
use crate::failure::{Failure, code};
use crate::ingest::interrupted;
use crate::options::compression;
use crate::output::Output;
use crate::progress::{Show, end_gently};
use crate::table::printable;

pub fn run(args: &ExportArgs, json: bool, out: &mut Output<'_>) -> Result<i32, Failure> {
    let options = options(args)?;
    // a directory is opened even while another process writes to it, and no store is created
    let store = DataStore::connect_to_read(&args.store, ObjectOptions::default())?;
    let dataset = store.root().dataset(&args.dataset)?;
    end_gently();
    let show = Show::new(1, json);
    let types = Types::new(&store);
    let report = export(
        Exported::DataSet(&dataset),
        &types,
        &args.output,
        &options,
        &|done, total| show.tick_share("exporting", done, total),
    );
    show.end();
    let report = report.map_err(|error| match error.kind() {
        "interrupted" => interrupted(&format!(
            "{} was not written",
            femtobarn::io::public(&args.output)
        )),
        _ => error.into(),
    })?;
    if json {
        out.json(&report.to_json())?;
    } else {
        for line in report.to_string().lines() {
            writeln!(out, "{}", printable(line))?;
        }
    }
    Ok(code::FINE)
}

fn options(args: &ExportArgs) -> Result<ExportOptions, Failure> {
    let wanted = |label: &String| Wanted {
        label: label.clone(),
        type_name: None,
    };
    let products = args.products.iter().map(wanted).collect();
    Ok(ExportOptions {
        products: (!args.products.is_empty()).then_some(products),
        runs: (!args.runs.is_empty()).then(|| args.runs.clone()),
        name: args.name.clone(),
        missing: args.missing.parse()?,
        write: WriteOptions {
            compression: compression(&args.compression)?,
            threads: Threads::default().number()?,
            ..WriteOptions::default()
        },
        overwrite: args.force,
        words: Words::Shell,
        ..ExportOptions::default()
    })
}
