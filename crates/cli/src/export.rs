//! `fb export`: writes the events of a dataset to a file.

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
use crate::outputs::Named;
use crate::progress::{Show, end_gently};

pub fn run(args: &ExportArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let (store, named) = Named::of_one(&args.names, args.output.path.as_deref())?;
    let output = &*named.output;
    let options = options(args)?;
    // a directory is opened even while another process writes to it, and no store is created
    let store = DataStore::connect_to_read(store, ObjectOptions::default())?;
    let dataset = store.root().dataset(&args.dataset)?;
    end_gently();
    let show = Show::new(1, out.is_json);
    let types = Types::new(&store);
    let report = export(
        Exported::DataSet(&dataset),
        &types,
        output,
        &options,
        &|done, total| show.tick_share("exporting", done, total),
    );
    show.end();
    let report = report.map_err(|error| match error.kind() {
        "interrupted" => interrupted(&format!(
            "{} was not written",
            femtobarn::io::public(output)
        )),
        _ => error.into(),
    })?;
    if out.is_json {
        out.json(&report.to_json())?;
    } else {
        out.lines(&report.to_string())?;
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
        missing: args.missing,
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
