//! `fb clone`, `fb reshape` and `fb skim`: merges that change the layout, or take only a part.

use femtobarn::io::is_object_set;
use femtobarn::merge::{Entries, Level, MergeOptions};
use femtobarn::transfer::Words;

use crate::args::{CloneArgs, Copying, OutputArg, ReshapeArgs, Sizes, SkimArgs};
use crate::convert::AS_LIST;
use crate::failure::{Failure, code};
use crate::merge::bring;
use crate::options::{compression, condition, entries, precision, writing};
use crate::output::Output;
use crate::outputs::{Named, Position};

pub fn clone(args: &CloneArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let entries = args.entries.as_deref().map(entries).transpose()?;
    let options = MergeOptions {
        level: args.level,
        entries: entries.unwrap_or_default(),
        ..common(&args.copying, &Sizes::default(), None)?
    };
    let named = named(&args.names, &args.output, &args.copying)?;
    bring(named, &options, out)
}

pub fn reshape(args: &ReshapeArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let Sizes {
        cluster_size,
        page_size,
        object_size,
    } = &args.sizes;
    let named = named(&args.names, &args.output, &args.copying)?;
    let is_resized = cluster_size.is_some() || page_size.is_some();
    let has_new_objects = object_size.is_some() && is_object_set(&named.output);
    if !is_resized
        && !has_new_objects
        && args.compression.is_none()
        && args.encoding.is_none()
        && args.precision.is_empty()
    {
        let message = "no change requested: give --compression, --page-size, --cluster-size, --encoding or \
                       --precision; or --object-size, if the output is objects";
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
    bring(named, &options, out)
}

pub fn skim(args: &SkimArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let named = Named::new(&args.names, args.output.path.as_deref(), Position::Last)?;
    let expression = condition(&args.condition)?;
    let options = MergeOptions {
        entries: Entries::Where(expression),
        ..common(&args.copying, &args.sizes, args.compression.as_deref())?
    };
    bring(named, &options, out)
}

/// The input and the output. One of several fields may have been given as a further name.
fn named<'a>(
    names: &'a [String],
    output: &'a OutputArg,
    copying: &Copying,
) -> Result<Named<'a>, Failure> {
    let found = Named::of_one(names, output.path.as_deref());
    let (_, named) = found.map_err(|failure| Failure {
        next: (!copying.fields.is_empty()).then(|| AS_LIST.to_owned()),
        ..failure
    })?;
    Ok(named)
}

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
        words: Words::Shell,
        write: writing(&copying.threads, sizes, settings)?,
        ..MergeOptions::default()
    })
}
