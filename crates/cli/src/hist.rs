//! `fb hist`: draws a histogram of a column, or one that is stored in the file.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use femtobarn::histogram::{
    Filling, Histogram, HistogramFile, fill, png, svg, text, write_histogram,
};
use femtobarn::io::{Settings, public};
use femtobarn::{Error, NTuple, OpenOptions, Target, create_file};
use serde_json::{Value, json};

use crate::args::HistArgs;
use crate::failure::{Failure, code};
use crate::layout;
use crate::options::{condition, usage};
use crate::output::Output;
use crate::progress::is_interrupted;
use crate::table::printable;
use crate::units::count;

/// Width of a drawing that does not go to a terminal.
const WIDTH: usize = 80;

/// The name of a histogram in a file of its own.
const NAME: &str = "histogram";

/// What is shown.
pub struct Shown {
    pub histogram: Histogram,
    /// Values that are not in it.
    pub n_nan: u64,
}

pub fn run(args: &HistArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let picture = args.output.as_deref().map(Picture::of).transpose()?;
    let found = match &args.values {
        Some(values) => filled(args, values).or_else(|failure| {
            let targets = named(args, values).ok_or(failure)?;
            stored(args, &targets)
        })?,
        None => stored(args, &Target::find(&args.target, None)?)?,
    };
    if let (Some(picture), Some(path)) = (&picture, &args.output) {
        picture.write(&found.histogram, path, args.log)?;
    }
    if out.is_json {
        out.json(&document(&found)?)?;
    } else if picture.is_none() {
        let width = args.width.or_else(layout::width).unwrap_or(WIDTH);
        let mut drawing = text(&found.histogram, width, args.log)?;
        if found.n_nan > 0 {
            drawing += &format!("{} values are NaN\n", count(found.n_nan));
        }
        for line in drawing.lines() {
            writeln!(out, "{}", printable(line))?;
        }
    }
    Ok(code::FINE)
}

/// A histogram of the values of an expression, of all files.
fn filled(args: &HistArgs, values: &str) -> Result<Shown, Failure> {
    let targets = Target::find(&args.target, None)?;
    let files = targets.iter().map(|it| (it.file.clone(), it.name.clone()));
    let files: Vec<(String, Option<String>)> = files.collect();
    let advise = |error: Error| match targets.first() {
        Some(target) => Failure::from(error).advise(target),
        None => error.into(),
    };
    let filling = Filling {
        values: condition(values)?,
        condition: args.condition.as_deref().map(condition).transpose()?,
        bins: args.bins,
        range: args.range.as_deref().map(range).transpose()?,
        threads: args.threads.number()?,
    };
    let ntuple = NTuple::open(&files, OpenOptions::default()).map_err(advise)?;
    let filled = fill(&Arc::new(ntuple), &filling, &|| !is_interrupted()).map_err(advise)?;
    Ok(Shown {
        histogram: filled.histogram,
        n_nan: filled.n_nan,
    })
}

/// The histogram of the file that is meant by the name of a column: `fb hist FILE NAME`.
fn named(args: &HistArgs, name: &str) -> Option<Vec<Target>> {
    let mut targets = Target::find(&args.target, None).ok()?;
    let first = targets.first()?;
    let settings = Settings::of(&first.file);
    let file = HistogramFile::open(&first.file, &settings).ok()?;
    let is_there = first.name.is_none() && file.paths().any(|(path, _)| path == name);
    let own = targets.iter_mut().filter(|target| target.name.is_none());
    own.for_each(|target| target.name = Some(name.to_owned()));
    is_there.then_some(targets)
}

/// A histogram of the files: the sum of all of this name.
fn stored(args: &HistArgs, targets: &[Target]) -> Result<Shown, Failure> {
    if args.bins.is_some() || args.range.is_some() || args.condition.is_some() {
        return Err(usage(
            "--bins, --range and --where are for a column: `fb hist FILE COLUMN`",
        ));
    }
    let mut sum: Option<Histogram> = None;
    for target in targets {
        let histogram = stored_in(target)?;
        match &mut sum {
            Some(sum) => sum
                .add(&histogram)
                .map_err(|error| usage(&format!("{}: {error}", public(&target.file))))?,
            None => sum = Some(histogram),
        }
    }
    let histogram = sum.ok_or_else(|| crate::open::missing("the histogram"))?;
    Ok(Shown {
        histogram,
        n_nan: 0,
    })
}

fn stored_in(target: &Target) -> Result<Histogram, Failure> {
    let advise = |error: Error| Failure::from(error).advise(target);
    let settings = Settings::of(&target.file);
    let file = HistogramFile::open(&target.file, &settings).map_err(advise)?;
    if target.name.is_none() && file.paths().next().is_none() {
        return Err(usage(
            "give a column: `fb hist FILE COLUMN`; the file has no histograms",
        ));
    }
    let mut read = file
        .read(std::slice::from_ref(&target.name))
        .map_err(advise)?;
    match read.pop() {
        Some((_, histogram)) => Ok(histogram),
        None => Err(crate::open::missing("the histogram")),
    }
}

/// The limits of an axis, as in `0:100`.
fn range(text: &str) -> Result<(f64, f64), Failure> {
    let limits = text.split_once(':').and_then(|(low, high)| {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        Some((number(low)?, number(high)?))
    });
    limits.ok_or_else(|| {
        usage(&format!(
            "invalid range {text:?}: use LOW:HIGH, as in 0:100"
        ))
    })
}

/// The format of a file that is written.
enum Picture {
    Svg,
    Png,
    Root,
}

impl Picture {
    fn of(path: &str) -> Result<Self, Failure> {
        let ending = Path::new(path).extension().unwrap_or_default();
        match ending.to_string_lossy().to_lowercase().as_str() {
            "svg" => Ok(Self::Svg),
            "png" => Ok(Self::Png),
            "root" => Ok(Self::Root),
            _ => Err(usage(&format!(
                "unknown format of {path}: its name must end with .svg, .png or .root"
            ))),
        }
    }

    fn write(&self, histogram: &Histogram, path: &str, log: bool) -> Result<(), Failure> {
        let bytes = match self {
            Self::Svg => svg(histogram, log)?.into_bytes(),
            Self::Png => png(histogram, log)?,
            Self::Root => {
                let mut file = create_file(path, 505)?;
                write_histogram(&mut file, 0, NAME, histogram, 505)?;
                file.finish().map_err(Error::from)?;
                return Ok(());
            }
        };
        std::fs::write(path, bytes).map_err(|error| {
            let message = format!("cannot write {path}: {error}");
            Failure::new(code::NOT_THERE, "write-failed", message)
        })
    }
}

/// The document of `fb hist --json`.
pub fn document(found: &Shown) -> Result<Value, Failure> {
    let histogram = &found.histogram;
    let damaged = |error: femtobarn::histogram::HistogramError| usage(&error.to_string());
    let axes = histogram.axis_parts().map_err(damaged)?.into_iter();
    let axes = axes.map(|axis| {
        let labels = axis.labels.iter();
        json!({
            "title": axis.title,
            "edges": axis.edges,
            "labels": labels.map(|(bin, label)| json!([bin, label])).collect::<Vec<_>>(),
        })
    });
    let statistics = histogram.statistics().map_err(damaged)?.into_iter();
    let statistics = statistics.map(|(name, value)| (name.to_owned(), Value::from(value)));
    Ok(json!({
        "class": histogram.class(),
        "title": histogram.title(),
        "axes": axes.collect::<Vec<_>>(),
        "values": histogram.values().map_err(damaged)?,
        "variances": histogram.variances().map_err(damaged)?,
        "entries": histogram.entries().map_err(damaged)?,
        "statistics": Value::Object(statistics.collect()),
        "nan": found.n_nan,
    }))
}
