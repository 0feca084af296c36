//! `fb migrate`: moves ntuples between stores.

use std::io::Write;
use std::time::Duration;

use femtobarn::cost::{AdviceOptions, Destination, advise};
use femtobarn::io::units::real;
use femtobarn::merge::{Level, MergeOptions};
use femtobarn::transfer::Words;
use femtobarn::{MigrateOptions, Migrated, plan_migration};

use crate::args::{AdviceArgs, MigrateArgs, Sizes, Threads};
use crate::convert::inputs;
use crate::cost;
use crate::failure::{Failure, code};
use crate::merge::{levels_text, sent};
use crate::open::one_file;
use crate::options::{compression, entries, size, usage, writing};
use crate::output::Output;
use crate::outputs::{Named, Position};
use crate::progress::{Show, end_gently};
use crate::proof;
use crate::table::printable;
use crate::units;

pub fn run(args: &MigrateArgs, out: &mut Output<'_>, err: &mut Output<'_>) -> Result<i32, Failure> {
    if args.advise {
        return advice(args, out);
    }
    if args.advice != AdviceArgs::default() {
        return Err(usage(
            "--columns, --trace, --prices, --round-trip, --bandwidth and --workers need --advise",
        ));
    }
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

/// Prints which shape suits the destination.
fn advice(args: &MigrateArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let (source, named) = Named::of_one(&args.names, args.output.as_deref())?;
    let target = one_file(source)?;
    let destination = Destination::of_url(&named.output);
    let mut options = AdviceOptions::new(cost::options(&args.advice.pass)?, destination);
    options.fields.clone_from(&args.fields);
    let threads = Threads {
        threads: args.threads,
    };
    options.threads = threads.number()?;
    if let Some(seconds) = args.advice.round_trip {
        options.round_trip = Duration::from_secs_f64(seconds);
    }
    if let Some(bandwidth) = &args.advice.bandwidth {
        options.bandwidth = real(size(bandwidth)?);
    }
    options.workers = args.advice.workers.unwrap_or(options.workers);
    let advice = advise(&target, &options);
    let advice = advice.map_err(|error| Failure::from(error).advise(&target))?;
    if out.is_json {
        out.json(&advice.to_json())?;
        return Ok(code::FINE);
    }
    write!(out, "{}", advice.text())?;
    let shape = advice.shape.options().into_iter();
    let shape: String = shape
        .map(|(name, value)| format!(" --{} {value}", name.replace('_', "-")))
        .collect();
    let names = format!("{} {}", shell_word(source), shell_word(&named.output));
    writeln!(out, "fb migrate {names}{shape}")?;
    Ok(code::FINE)
}

/// A word of a command line, in quotes if it needs them.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:+@%,=".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
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
