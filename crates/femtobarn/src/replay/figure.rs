//! A drawing of a trace and of its replay, as SVG: positions in the files against time, and the rate over time.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;
use std::time::Duration;

use femtobarn_io::units::real;
use femtobarn_io::{Action, printable};

use super::summary::{is_read, rates, replayed_reads};
use super::{Played, Trace};

/// Size of the drawing, of its margins, and of its two parts.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 20.0;
const FILES: Range<f64> = 30.0..380.0;
const RATES: Range<f64> = 410.0..540.0;
const HEIGHT: f64 = 580.0;

/// Points of the curves of rates.
const POINTS: usize = 200;

/// Files that are named.
const MOST_NAMES: usize = 20;

/// Colours of what was recorded, and of what was replayed.
const COLORS: [&str; 2] = ["#9a9a9a", "#1f6fb4"];

/// Draws a trace, and its replay if it was replayed, from the same beginning.
#[must_use]
pub fn figure(trace: &Trace, played: Option<&Played>) -> String {
    let (first, last) = trace.extent().unwrap_or_default();
    let recorded: Vec<Drawn<'_>> = {
        let reads = trace.actions().iter().filter(|action| is_read(action));
        reads
            .map(|action| {
                (
                    action.start.saturating_sub(first),
                    action.duration(),
                    action,
                )
            })
            .collect()
    };
    let replayed: Vec<Drawn<'_>> = {
        let played = played.iter().flat_map(|played| &played.actions);
        played
            .filter(|replayed| replayed.error.is_none())
            .filter_map(|r| Some((r.start, r.duration, trace.actions().get(r.action)?)))
            .filter(|(_, _, action)| is_read(action))
            .collect()
    };
    let runtime = played.map_or(Duration::ZERO, |played| played.runtime);
    let end = last
        .saturating_sub(first)
        .max(runtime)
        .as_secs_f64()
        .max(1e-9);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    let places = places(trace, &mut out);
    for (reads, color) in [&recorded, &replayed].into_iter().zip(COLORS) {
        boxes(reads, &places, end, color, &mut out);
    }
    let curves = [
        rates(
            recorded
                .iter()
                .map(|(start, duration, a)| (*start, *duration, a.n_bytes())),
        ),
        played.and_then(|played| rates(replayed_reads(trace, played))),
    ];
    let curves = curves.map(|rates| rates.and_then(|rates| rates.over(POINTS)));
    let most = curves
        .iter()
        .flatten()
        .flat_map(|(_, rates)| rates)
        .copied()
        .fold(1.0, f64::max);
    let starts = [&recorded, &replayed].map(|reads| reads.iter().map(|(start, ..)| *start).min());
    for ((curve, start), color) in curves.into_iter().zip(starts).zip(COLORS) {
        if let (Some((width, rates)), Some(start)) = (curve, start) {
            line(
                &rates,
                start.as_secs_f64(),
                width,
                (end, most),
                color,
                &mut out,
            );
        }
    }
    axes((end, most), played.is_some(), &mut out);
    out.push_str("</svg>\n");
    out
}

/// A read: its start, its duration, and what was read.
type Drawn<'a> = (Duration, Duration, &'a Action);

fn across(seconds: f64, end: f64) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * seconds / end
}

/// Where the files are: the part of the height of each open file, and how high a byte of it is.
fn places(trace: &Trace, out: &mut String) -> BTreeMap<u64, (f64, f64)> {
    let mut sizes: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    let files = trace.files();
    for file in &files {
        let next = sizes.len();
        let (_, size) = sizes.entry(file.shown()).or_insert((next, 0));
        *size = file.n_needed().max(*size);
    }
    let all: u64 = sizes.values().map(|(_, size)| size).sum();
    let unit = (FILES.end - FILES.start) / real(all.max(1));
    let mut in_order: Vec<_> = sizes.iter().collect();
    in_order.sort_by_key(|(_, (number, _))| *number);
    let mut below = 0;
    let mut tops = BTreeMap::new();
    for (name, (_, size)) in in_order.iter().copied() {
        let top = FILES.start + real(below) * unit;
        tops.insert(name.clone(), top);
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{top:.1}\" y2=\"{top:.1}\" stroke=\"#dddddd\"/>",
            WIDTH - RIGHT
        );
        if in_order.len() <= MOST_NAMES {
            let middle = top + real(*size) * unit / 2.0 + 4.0;
            let short = name.rsplit('/').next().unwrap_or_default();
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                escaped(short)
            );
        }
        below += size;
    }
    let number = |file: &super::OpenFile<'_>| file.actions.first().map(|(_, action)| action.file);
    let place = |file| Some((number(file)?, (tops.get(&file.shown()).copied()?, unit)));
    files.iter().filter_map(place).collect()
}

/// Draws reads. Reads that look the same are drawn once.
fn boxes(
    reads: &[Drawn<'_>],
    places: &BTreeMap<u64, (f64, f64)>,
    end: f64,
    color: &str,
    out: &mut String,
) {
    let _ = writeln!(out, "<g fill=\"{color}\" fill-opacity=\"0.8\">");
    let mut drawn = BTreeSet::new();
    for (start, duration, action) in reads {
        let Some((top, unit)) = places.get(&action.file) else {
            continue;
        };
        let x = across(start.as_secs_f64(), end);
        let width = (across((*start + *duration).as_secs_f64(), end) - x).max(1.0);
        for range in action.ranges() {
            let y = top + real(range.start) * unit;
            let height = (real(range.end - range.start) * unit).max(1.0);
            let shape = format!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
            );
            if drawn.insert(shape.clone()) {
                let _ = writeln!(out, "{shape}");
            }
        }
    }
    out.push_str("</g>\n");
}

fn line(
    rates: &[f64],
    start: f64,
    width: f64,
    (end, most): (f64, f64),
    color: &str,
    out: &mut String,
) {
    let mut points = String::new();
    for (at, rate) in rates.iter().enumerate() {
        let y = RATES.end - (RATES.end - RATES.start) * rate / most;
        // as steps
        for side in [at, at + 1] {
            let x = across(start + real(side as u64) * width, end);
            let _ = write!(points, "{x:.1},{y:.1} ");
        }
    }
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.5\"/>",
        points.trim_end()
    );
}

fn axes((end, most): (f64, f64), is_played: bool, out: &mut String) {
    for part in [FILES, RATES] {
        let _ = writeln!(
            out,
            "<rect x=\"{LEFT}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"black\"/>",
            part.start,
            WIDTH - LEFT - RIGHT,
            part.end - part.start
        );
    }
    let mut text = |x: f64, y: f64, anchor: &str, color: &str, text: &str| {
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"{color}\">{}</text>",
            escaped(text)
        );
    };
    text(LEFT, RATES.end + 16.0, "middle", "black", "0");
    text(
        WIDTH - RIGHT,
        RATES.end + 16.0,
        "end",
        "black",
        &format!("{end:.3} s"),
    );
    text(
        LEFT - 8.0,
        RATES.start + 10.0,
        "end",
        "black",
        &format!("{:.2} MB/s", most / 1e6),
    );
    text(LEFT - 8.0, RATES.end, "end", "black", "rate 0");
    text(
        LEFT,
        20.0,
        "start",
        "black",
        "positions in the files against time:",
    );
    text(LEFT + 230.0, 20.0, "start", COLORS[0], "as recorded");
    if is_played {
        text(LEFT + 320.0, 20.0, "start", COLORS[1], "as replayed");
    }
}

/// Text in which characters of markup are escaped.
fn escaped(text: &str) -> String {
    printable(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
