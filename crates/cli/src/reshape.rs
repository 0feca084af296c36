//! `fb clone`, `fb reshape` and `fb skim`: merges that change the layout, or take only a part.

use femtobarn::merge::{Entries, Level, MergeOptions};

use crate::args::{CloneArgs, Copying, ReshapeArgs, Sizes, SkimArgs};
use crate::failure::{Failure, code};
use crate::merge::bring;
use crate::options::{compression, condition, entries, precision, writing};
use crate::output::Output;

pub fn clone(args: &CloneArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let entries = args.entries.as_deref().map(entries).transpose()?;
    let options = MergeOptions {
        level: args.level,
        entries: entries.unwrap_or_default(),
        ..common(&args.copying, &Sizes::default(), None)?
    };
    let names = std::slice::from_ref(&args.source);
    bring((names, &args.output, LAST), &options, out)
}

pub fn reshape(args: &ReshapeArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let Sizes {
        cluster_size,
        page_size,
    } = &args.sizes;
    let is_resized = cluster_size.is_some() || page_size.is_some();
    if !is_resized
        && args.compression.is_none()
        && args.encoding.is_none()
        && args.precision.is_empty()
    {
        let message = "no change requested: give --compression, --page-size, --cluster-size, --encoding or --precision";
        return Err(Failure::new(code::USAGE, "usage", message));
    }
    let options = MergeOptions {
        level: if is_resized { Level::L4 } else { Level::Auto },
        keep_clusters: cluster_size.is_none(),
        split: args.encoding.as_deref().map(|encoding| encoding == "split"),
        precision: args
            .precision
            .iter()
            .map(|text| precision(text))
            .collect::<Result<_, _>>()?,
        ..common(&args.copying, &args.sizes, args.compression.as_deref())?
    };
    let names = std::slice::from_ref(&args.source);
    bring((names, &args.output, LAST), &options, out)
}

pub fn skim(args: &SkimArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let Some((output, names @ [_, ..])) = args.names.split_last() else {
        let given = args.names.first().map_or("", String::as_str);
        let message =
            format!("output missing: the last argument is the output, and only {given:?} is given");
        return Err(Failure::new(code::USAGE, "usage", message));
    };
    let expression = condition(&args.condition)?;
    let options = MergeOptions {
        entries: Entries::Where(expression),
        ..common(&args.copying, &args.sizes, args.compression.as_deref())?
    };
    bring((names, output, LAST), &options, out)
}

/// Position of the output among the names.
const LAST: &str = "last";

/// The shared options.
fn common(
    copying: &Copying,
    sizes: &Sizes,
    settings: Option<&str>,
) -> Result<MergeOptions, Failure> {
    let settings = settings.map(compression).transpose()?;
    Ok(MergeOptions {
        compression: settings,
        fields: copying.fields.clone(),
        others: copying.others,
        overwrite: copying.force,
        verify: copying.verify,
        write: writing(&copying.threads, sizes, settings)?,
        ..MergeOptions::default()
    })
}
