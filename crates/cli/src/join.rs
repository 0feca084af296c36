//! `fb join`: joins fields of several ntuples side by side.

use std::path::Path;

use femtobarn::merge::{JoinOptions, join};
use femtobarn::transfer::Words;
use femtobarn::write::WriteOptions;

use crate::args::JoinArgs;
use crate::convert::inputs;
use crate::failure::{Failure, code};
use crate::merge::{advised, check_output, print};
use crate::options::{compression, patterns_of_each};
use crate::output::Output;
use crate::outputs::{Named, Position};
use crate::progress::{Show, end_gently};

pub fn run(args: &JoinArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let named = Named::new(&args.names, args.output.path.as_deref(), Position::First)?;
    check_output(&named)?;
    let inputs = inputs(named.inputs, !args.fields.is_empty())?;
    if args.force {
        named.check_order(&inputs)?;
    }
    let compression = args.compression.as_deref().map(compression).transpose()?;
    let mut write = WriteOptions {
        threads: args.threads.number()?,
        ..WriteOptions::default()
    };
    write.compression = compression.unwrap_or(write.compression);
    let options = JoinOptions {
        name: args.name.clone(),
        on: args.on.clone(),
        unmatched: args.unmatched,
        fields: patterns_of_each(&args.fields),
        others: args.others,
        compression,
        overwrite: args.force,
        verify: args.verify,
        words: Words::Shell,
        write,
        ..JoinOptions::default()
    };
    end_gently();
    let show = Show::new(1, out.is_json);
    let report = join(&inputs, Path::new(&*named.output), &options, &|progress| {
        show.tick_merge(progress)
    });
    let report = report.map_err(|error| advised(error, &inputs, !args.fields.is_empty()))?;
    show.end();
    if out.is_json {
        out.json(&report.to_json())?;
    } else {
        print(&report, out)?;
    }
    Ok(code::FINE)
}
