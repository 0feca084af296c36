//! Drawings of histograms with one axis, as text.

use femtobarn_histogram::{AxisParts, Histogram};
use femtobarn_rntuple::RNTupleError;

use super::usage;

/// Lines of the drawing of an axis without labels.
const HEIGHT: usize = 16;
/// Eighths of a character, from below and from the left.
const UPWARDS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const RIGHTWARDS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// What is drawn of a histogram with one axis.
#[derive(Debug)]
pub(super) struct Drawn {
    pub title: String,
    pub axis: AxisParts,
    /// Contents of the bins, without under- and overflow.
    pub values: Vec<f64>,
    pub notes: Vec<String>,
}

impl Drawn {
    pub fn of(histogram: &Histogram) -> Result<Self, RNTupleError> {
        let damaged = |error: femtobarn_histogram::HistogramError| usage(error.to_string());
        let mut axes = histogram.axis_parts().map_err(damaged)?.into_iter();
        let (Some(axis), None) = (axes.next(), axes.next()) else {
            return Err(usage(format!(
                "only histograms with one axis can be drawn, and {:?} is a {}",
                histogram.name(),
                histogram.class()
            )));
        };
        let all = histogram.values().map_err(damaged)?;
        let n = axis.edges.len().saturating_sub(1);
        let mut notes = vec![format!(
            "{} entries",
            shown(histogram.entries().map_err(damaged)?)
        )];
        let sums = histogram.statistics().map_err(damaged)?;
        let sum = |name: &str| {
            sums.iter()
                .find(|(known, _)| *known == name)
                .map(|(_, it)| *it)
        };
        if let (Some(w), Some(x), Some(xx)) = (sum("fTsumw"), sum("fTsumwx"), sum("fTsumwx2"))
            && w != 0.0
            && axis.labels.is_empty()
        {
            let mean = x / w;
            let deviation = (xx / w - mean * mean).abs().sqrt();
            notes.push(format!("mean {}", shown(mean)));
            notes.push(format!("standard deviation {}", shown(deviation)));
        }
        if !histogram.is_profile() {
            for (name, at) in [("underflow", 0), ("overflow", n + 1)] {
                if let Some(outside) = all.get(at).filter(|outside| **outside != 0.0) {
                    notes.push(format!("{name} {}", shown(*outside)));
                }
            }
        }
        let title = histogram.title();
        Ok(Self {
            title: if title.is_empty() {
                String::new()
            } else {
                title
            },
            axis,
            values: all.into_iter().skip(1).take(n).collect(),
            notes,
        })
    }

    /// Limits of the contents; the lower limit is not above zero, unless it is the logarithm.
    pub fn limits(&self, log: bool) -> (f64, f64) {
        let finite = self
            .values
            .iter()
            .copied()
            .filter(|value| value.is_finite());
        if log {
            let positive = finite.filter(|value| *value > 0.0);
            let (low, high) = positive.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
                (low.min(value), high.max(value))
            });
            return match high > 0.0 {
                // so that the lowest bin can be seen
                true => (low / 2.0, high),
                false => (0.5, 1.0),
            };
        }
        let (low, high) = finite.fold((0.0_f64, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        (low, if high > low { high } else { low + 1.0 })
    }
}

/// The height of a value between two limits, from 0 to 1.
pub(super) fn height(value: f64, (low, high): (f64, f64), log: bool) -> f64 {
    let height = match log {
        true if value <= 0.0 => 0.0,
        true => (value / low).ln() / (high / low).ln(),
        false => (value - low) / (high - low),
    };
    if height.is_finite() {
        height.clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// A number with up to six digits.
pub(super) fn shown(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e9).contains(&size) {
        return format!("{value:.4e}");
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small"
    )]
    let decimals = (5.0 - size.log10().floor()).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Draws a histogram with one axis as text of at most `width` characters a line.
///
/// # Errors
/// If it has several axes.
pub fn text(histogram: &Histogram, width: usize, log: bool) -> Result<String, RNTupleError> {
    let drawn = Drawn::of(histogram)?;
    let mut lines = Vec::new();
    if !drawn.title.is_empty() {
        lines.push(drawn.title.clone());
    }
    match drawn.axis.labels.is_empty() {
        true => columns(&drawn, width, log, &mut lines),
        false => rows(&drawn, width, log, &mut lines),
    }
    lines.push(drawn.notes.join(", "));
    Ok(lines.join("\n") + "\n")
}

/// One line per bin, with its label.
fn rows(drawn: &Drawn, width: usize, log: bool, lines: &mut Vec<String>) {
    let limits = drawn.limits(log);
    let label = |bin: usize| {
        let mut labels = drawn.axis.labels.iter();
        let found = labels.find(|(at, _)| *at as usize == bin + 1);
        found.map_or("", |(_, label)| label)
    };
    let values = drawn.values.iter().enumerate();
    let texts: Vec<(&str, String, f64)> = values
        .map(|(bin, value)| (label(bin), shown(*value), *value))
        .collect();
    let widest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
    let n_label = widest(&mut texts.iter().map(|(label, ..)| label.chars().count())).min(width / 2);
    let n_value = widest(&mut texts.iter().map(|(_, value, _)| value.chars().count()));
    let room = width.saturating_sub(n_label + n_value + 2).max(1);
    for (label, text, value) in &texts {
        let label: String = label.chars().take(n_label).collect();
        let bar = bar(height(*value, limits, log), room);
        lines.push(format!("{label:n_label$} {text:>n_value$} {bar}"));
    }
}

/// A bar to the right.
fn bar(height: f64, room: usize) -> String {
    let eighths = eighths(height, room);
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.extend(RIGHTWARDS.get(eighths % 8));
    }
    bar
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "from 0 to 1"
)]
fn eighths(height: f64, room: usize) -> usize {
    let eighths = height * (8 * room) as f64;
    // something is not nothing
    if height > 0.0 {
        eighths.round().max(1.0) as usize
    } else {
        0
    }
}

/// Columns side by side, with an axis below and one at the left.
fn columns(drawn: &Drawn, width: usize, log: bool, lines: &mut Vec<String>) {
    let limits = drawn.limits(log);
    let (low, high) = limits;
    let middle = match log {
        true => (low * high).sqrt(),
        false => f64::midpoint(low, high),
    };
    let marks = [(0, high), (HEIGHT / 2, middle), (HEIGHT, low)];
    let marks = marks.map(|(line, value)| (line, shown(value)));
    let left = marks
        .iter()
        .map(|(_, mark)| mark.chars().count())
        .max()
        .unwrap_or(0);
    let room = width.saturating_sub(left + 2).max(8);
    let values = &drawn.values;
    // several characters per bin, or several bins per character
    let each = (room / values.len().max(1)).max(1);
    let together = values.len().div_ceil(room).max(1);
    let heights = values.chunks(together).map(|bins| {
        let highest = bins.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        eighths(height(highest, limits, log), HEIGHT)
    });
    let heights: Vec<usize> = heights.collect();
    for line in 0..HEIGHT {
        let mark = marks.iter().find(|(at, _)| *at == line);
        let mark = mark.map_or("", |(_, mark)| mark);
        let below = 8 * (HEIGHT - 1 - line);
        let mut row = String::new();
        for height in &heights {
            let part = height.saturating_sub(below).min(8);
            let letter = UPWARDS.get(part).copied().unwrap_or(' ');
            row.extend(std::iter::repeat_n(letter, each));
        }
        lines.push(format!("{mark:>left$} │{row}").trim_end().to_owned());
    }
    let length = heights.len() * each;
    let mark = marks.last().map_or("", |(_, mark)| mark);
    lines.push(format!("{mark:>left$} └{}", "─".repeat(length)));
    lines.push(format!("{:left$}  {}", "", below(&drawn.axis, length)));
    if !drawn.axis.title.is_empty() {
        lines.push(
            format!("{:left$}  {:^length$}", "", drawn.axis.title)
                .trim_end()
                .to_owned(),
        );
    }
}

/// The limits and the middle of an axis.
fn below(axis: &AxisParts, length: usize) -> String {
    let (Some(low), Some(high)) = (axis.edges.first(), axis.edges.last()) else {
        return String::new();
    };
    let (left, right) = (shown(*low), shown(*high));
    let middle = match axis.is_regular {
        true => shown(f64::midpoint(*low, *high)),
        false => String::new(),
    };
    let room = length.saturating_sub(left.len() + right.len());
    if middle.len() + 2 > room {
        return format!("{left}{}{right}", " ".repeat(room.max(1)));
    }
    let before = (length / 2).saturating_sub(left.len() + middle.len() / 2);
    let behind = room.saturating_sub(before + middle.len());
    format!(
        "{left}{}{middle}{}{right}",
        " ".repeat(before),
        " ".repeat(behind)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_up_to_six_digits() {
        let found = [0.0, 1.0, -2.5, 12345.678, 123_456_789.0, 1e-9, 0.1, 1e12].map(shown);
        let expected = [
            "0",
            "1",
            "-2.5",
            "12345.7",
            "123456789",
            "1.0000e-9",
            "0.1",
            "1.0000e12",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn bars_have_eighths_and_are_seen_if_there_is_anything() {
        assert_eq!(bar(0.0, 4), "");
        assert_eq!(bar(1e-9, 4), "▏");
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!(bar(1.0, 4), "████");
    }
}
