//! Pictures of histograms with one axis: SVG, and PNG.

use std::fmt::Write;

use embedded_graphics::mono_font::MonoTextStyle;
use embedded_graphics::mono_font::iso_8859_1::FONT_9X15;
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::{Line, PrimitiveStyle, Rectangle};
use embedded_graphics::text::{Alignment, Text};
use femtobarn_histogram::Histogram;
use femtobarn_rntuple::RNTupleError;
use libdeflater::{CompressionLvl, Compressor, Crc};

use super::draw::{Drawn, height, shown};

// the picture, and its frame
const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 780.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 400.0;

/// Marks of an axis: about so many.
const MARKS: f64 = 6.0;
/// Labels of bins that are written: at most so many.
const MOST_LABELS: usize = 20;

const FILL: &str = "#7fb2dc";
const INK: &str = "#202020";

/// Draws a histogram with one axis as SVG.
///
/// # Errors
/// If it has several axes.
pub fn svg(histogram: &Histogram, log: bool) -> Result<String, RNTupleError> {
    let mut out = Svg(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         font-family=\"sans-serif\" font-size=\"14\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    ));
    draw(&Drawn::of(histogram)?, log, &mut out);
    out.0.push_str("</svg>\n");
    Ok(out.0)
}

/// Draws a histogram with one axis as PNG.
///
/// # Errors
/// If it has several axes.
pub fn png(histogram: &Histogram, log: bool) -> Result<Vec<u8>, RNTupleError> {
    let mut out = Pixels(vec![
        255;
        3 * PIXELS.width as usize * PIXELS.height as usize
    ]);
    draw(&Drawn::of(histogram)?, log, &mut out);
    png_of(&out.0).ok_or_else(|| RNTupleError::internal("the picture cannot be compressed"))
}

/// The pixels as a PNG file: a header, the compressed rows, each after a zero for no filter, and an end.
fn png_of(pixels: &[u8]) -> Option<Vec<u8>> {
    let rows = pixels.chunks(3 * PIXELS.width as usize);
    let raw: Vec<u8> = rows
        .flat_map(|row| [0].into_iter().chain(row.iter().copied()))
        .collect();
    let mut compressor = Compressor::new(CompressionLvl::default());
    let mut packed = vec![0; compressor.zlib_compress_bound(raw.len())];
    let length = compressor.zlib_compress(&raw, &mut packed).ok()?;
    let sizes = [PIXELS.width, PIXELS.height].map(u32::to_be_bytes);
    // 8 bits a colour, colours of three parts; the only ways to compress and to filter; not interlaced
    let header = [sizes.as_flattened(), &[8, 2, 0, 0, 0]].concat();
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, content) in [
        (b"IHDR", header.as_slice()),
        (b"IDAT", packed.get(..length)?),
        (b"IEND", &[]),
    ] {
        let mut crc = Crc::new();
        crc.update(name);
        crc.update(content);
        out.extend(u32::try_from(content.len()).ok()?.to_be_bytes());
        out.extend(name);
        out.extend(content);
        out.extend(crc.sum().to_be_bytes());
    }
    Some(out)
}

/// Something to draw on. Positions count from the left and from the top.
trait Canvas {
    fn bar(&mut self, corner: (f64, f64), size: (f64, f64));
    fn line(&mut self, from: (f64, f64), to: (f64, f64));
    /// Writes text whose base line is at a position: that of its end, its middle or its start.
    fn text(&mut self, at: (f64, f64), side: Side, text: &str);
}

#[derive(Clone, Copy)]
enum Side {
    End,
    Middle,
    Start,
}

fn draw(drawn: &Drawn, log: bool, out: &mut impl Canvas) {
    let limits = drawn.limits(log);
    let (Some(&low), Some(&high)) = (drawn.axis.edges.first(), drawn.axis.edges.last()) else {
        return;
    };
    let across = |x: f64| LEFT + (RIGHT - LEFT) * (x - low) / (high - low);
    let up = |value: f64| BOTTOM - (BOTTOM - TOP) * height(value, limits, log);
    let base = if log { BOTTOM } else { up(0.0) };
    let bins = drawn.values.iter().zip(drawn.axis.edges.windows(2));
    for (value, edges) in bins {
        if let ([from, to], true) = (edges, value.is_finite()) {
            let (top, from) = (up(*value), across(*from));
            let size = (across(*to) - from, (base - top).abs());
            out.bar((from, top.min(base)), size);
        }
    }
    for (from, to) in [
        ((LEFT, BOTTOM), (RIGHT, BOTTOM)),
        ((LEFT, TOP), (LEFT, BOTTOM)),
    ] {
        out.line(from, to);
    }
    for value in marks(limits, log) {
        let y = up(value);
        out.line((LEFT - 5.0, y), (LEFT, y));
        out.text((LEFT - 8.0, y + 5.0), Side::End, &shown(value));
    }
    if drawn.axis.labels.is_empty() {
        for value in marks((low, high), false) {
            let x = across(value);
            out.line((x, BOTTOM), (x, BOTTOM + 5.0));
            out.text((x, BOTTOM + 20.0), Side::Middle, &shown(value));
        }
    } else {
        for (bin, label) in drawn.axis.labels.iter().take(MOST_LABELS) {
            let edges = drawn.axis.edges.get((*bin as usize).saturating_sub(1)..);
            if let Some([from, to, ..]) = edges {
                let x = across(f64::midpoint(*from, *to));
                out.text((x, BOTTOM + 20.0), Side::Middle, label);
            }
        }
    }
    out.text((RIGHT, BOTTOM + 42.0), Side::End, &drawn.axis.title);
    out.text((LEFT, HEIGHT - 12.0), Side::Start, &drawn.notes.join(", "));
    out.text(
        (f64::midpoint(LEFT, RIGHT), 24.0),
        Side::Middle,
        &drawn.title,
    );
}

/// Round numbers between two limits; powers of ten for logarithms.
fn marks((low, high): (f64, f64), log: bool) -> Vec<f64> {
    let step = match log {
        true => (high / low).log10().ceil() / MARKS,
        false => (high - low) / MARKS,
    };
    if !(step > 0.0 && step.is_finite()) {
        return Vec::new();
    }
    if log {
        let step = step.ceil();
        let first = (low.log10() / step).ceil() * step;
        let exponents = std::iter::successors(Some(first), |it| Some(it + step));
        let marks = exponents.map(|it| 10_f64.powf(it));
        return marks
            .take_while(|mark| *mark <= high * 1.000_001)
            .take(20)
            .collect();
    }
    let power = 10_f64.powf(step.log10().floor());
    let rounded = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = rounded
        .into_iter()
        .find(|it| *it >= step * 0.999)
        .unwrap_or(step);
    let first = (low / step).ceil();
    let counts = std::iter::successors(Some(first), |it| Some(it + 1.0));
    let marks = counts.map(|it| it * step);
    marks
        .take_while(|mark| *mark <= high + 1e-9 * step)
        .take(20)
        .collect()
}

struct Svg(String);

impl Canvas for Svg {
    fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let _ = writeln!(
            self.0,
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" fill=\"{FILL}\"/>"
        );
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64)) {
        let _ = writeln!(
            self.0,
            "<path d=\"M{:.2} {:.2}L{:.2} {:.2}\" stroke=\"{INK}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    fn text(&mut self, (x, y): (f64, f64), side: Side, text: &str) {
        let anchor = match side {
            Side::End => "end",
            Side::Middle => "middle",
            Side::Start => "start",
        };
        let text = text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.2}\" y=\"{y:.2}\" text-anchor=\"{anchor}\" fill=\"{INK}\">{text}</text>"
        );
    }
}

/// Size of a picture of pixels, which are drawn as they are in the drawing.
const PIXELS: Size = Size::new(800, 480);

/// Pixels, row by row, each of three bytes.
struct Pixels(Vec<u8>);

impl OriginDimensions for Pixels {
    fn size(&self) -> Size {
        PIXELS
    }
}

impl DrawTarget for Pixels {
    type Color = Rgb888;
    type Error = std::convert::Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(
        &mut self,
        pixels: I,
    ) -> Result<(), Self::Error> {
        for Pixel(Point { x, y }, color) in pixels {
            let place = (usize::try_from(x), usize::try_from(y));
            let (Ok(x), Ok(y)) = place else {
                continue;
            };
            let width = PIXELS.width as usize;
            let at = 3 * (y.saturating_mul(width).saturating_add(x));
            if x < width
                && let Some(place) = self.0.get_mut(at..at.saturating_add(3))
            {
                place.copy_from_slice(&[color.r(), color.g(), color.b()]);
            }
        }
        Ok(())
    }
}

const FILL_COLOR: Rgb888 = Rgb888::new(0x7f, 0xb2, 0xdc);
const INK_COLOR: Rgb888 = Rgb888::new(0x20, 0x20, 0x20);

#[expect(clippy::cast_possible_truncation, reason = "within the picture")]
fn point((x, y): (f64, f64)) -> Point {
    Point::new(x.round() as i32, y.round() as i32)
}

impl Canvas for Pixels {
    fn bar(&mut self, corner: (f64, f64), size: (f64, f64)) {
        let (from, to) = (point(corner), point((corner.0 + size.0, corner.1 + size.1)));
        let bar = Rectangle::with_corners(from, to - Point::new(1, 1));
        // adjacent bars share an edge, and a bar without height has no pixels
        if from.x < to.x && from.y < to.y {
            let Ok(()) = bar
                .into_styled(PrimitiveStyle::with_fill(FILL_COLOR))
                .draw(self);
        }
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64)) {
        let line = Line::new(point(from), point(to));
        let Ok(()) = line
            .into_styled(PrimitiveStyle::with_stroke(INK_COLOR, 1))
            .draw(self);
    }

    fn text(&mut self, at: (f64, f64), side: Side, text: &str) {
        let alignment = match side {
            Side::End => Alignment::Right,
            Side::Middle => Alignment::Center,
            Side::Start => Alignment::Left,
        };
        let style = MonoTextStyle::new(&FONT_9X15, INK_COLOR);
        let text = Text::with_alignment(text, point(at), style, alignment);
        let Ok(_) = text.draw(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_numbers_within_the_limits() {
        assert_eq!(marks((0.0, 10.0), false), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(marks((-1.0, 1.2), false), [-1.0, -0.5, 0.0, 0.5, 1.0]);
        assert_eq!(marks((0.5, 1000.0), true).len(), 4);
        assert_eq!(marks((1.0, 1.0), false), Vec::<f64>::new());
    }
}
