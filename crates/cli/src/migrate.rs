//! `fb migrate`: moves ntuples between stores.

use std::io::Write;

use femtobarn::merge::{Level, MergeOptions};
use femtobarn::transfer::Words;
use femtobarn::{MigrateOptions, Migrated, plan_migration};

use crate::args::{MigrateArgs, Sizes, Threads};
use crate::convert::inputs;
use crate::failure::{Failure, code};
use crate::merge::{levels_text, sent};
use crate::options::{compression, entries, size, writing};
use crate::output::Output;
use crate::outputs::{Named, Position};
use crate::progress::{Show, end_gently};
use crate::proof;
use crate::table::printable;
use crate::units;

pub fn run(args: &MigrateArgs, out: &mut Output<'_>, err: &mut Output<'_>) -> Result<i32, Failure> {
    let named = Named::new(&args.names, args.output.as_deref(), Position::Last)?;
    let options = options(args)?;
    let inputs = inputs(named.inputs, !args.fields.is_empty())?;
    let migrations = plan_migration(&inputs, &named.output, &options)?;
    end_gently();
    let show = Show::new(migrations.len(), out.is_json);
    let mut worst = code::FINE;
    for migration in &migrations {
        let migrated = migration.run(&options, &|progress| show.tick_merge(progress));
        show.end();
        match migrated.map_err(Failure::from) {
            Ok(migrated) if out.is_json => out.json(&migrated.to_json())?,
            Ok(migrated) => print(&migrated, out)?,
            Err(failure) if migrations.len() == 1 || failure.code == code::INTERRUPTED => {
                return Err(failure);
            }
            Err(failure) => {
                // the other outputs may be made
                out.flush()?;
                failure.write(err)?;
                worst = failure.code;
            }
        }
    }
    Ok(worst)
}

fn options(args: &MigrateArgs) -> Result<MigrateOptions, Failure> {
    let Sizes {
        cluster_size,
        page_size,
        ..
    } = &args.sizes;
    let is_resized = cluster_size.is_some() || page_size.is_some();
    let threads = Threads {
        threads: args.threads,
    };
    let settings = args.compression.as_deref().map(compression).transpose()?;
    let wanted = args.entries.as_deref().map(entries).transpose()?;
    Ok(MigrateOptions {
        merge: MergeOptions {
            level: if is_resized { Level::L4 } else { Level::Auto },
            keep_clusters: cluster_size.is_none(),
            fields: args.fields.clone(),
            entries: wanted.unwrap_or_default(),
            compression: settings,
            overwrite: args.force,
            words: Words::Shell,
            verify: args.verify,
            write: writing(&threads, &args.sizes, settings)?,
            ..MergeOptions::default()
        },
        resume: args.resume,
        step_bytes: args.step_size.as_deref().map(size).transpose()?,
    })
}

fn print(migrated: &Migrated, out: &mut Output<'_>) -> Result<(), Failure> {
    let output = printable(&migrated.output);
    if migrated.was_complete {
        writeln!(out, "{output}: complete before")?;
    } else {
        writeln!(
            out,
            "{output}: {} in {:.2} s{}",
            units::bytes(migrated.bytes_out),
            migrated.seconds,
            levels_text(&migrated.levels)
        )?;
    }
    if let Some(delivery) = &migrated.delivery {
        writeln!(out, "  {}", sent(delivery))?;
    }
    for (path, n) in &migrated.n_entries {
        writeln!(out, "  {}: {n} entries", printable(path))?;
    }
    if migrated.n_before > 0 && !migrated.was_complete {
        let n = migrated.n_before;
        writeln!(out, "  {} were written before", units::plural(n, "entry"))?;
    }
    if let Some(proof) = &migrated.proof {
        proof::write_summary(proof, out)?;
    }
    for line in migrated.left_behind.lines(migrated.inputs.len()) {
        writeln!(out, "  {}", printable(&line))?;
    }
    Ok(())
}
