//! Ranges and bits of Float16_t and Double32_t in titles: `[low,high,bits]`. They determine how ROOT stores values.
//! This code follows ROOT exactly, also in odd cases.

use femtobarn_rntuple::schema::DType;

use super::shape::{Number, NumberWire};

/// A Double32_t with this title.
pub(crate) fn double32(title: &str) -> Number {
    Number {
        dtype: DType::Float64,
        wire: wire(title).unwrap_or(NumberWire::Single),
    }
}

/// A Float16_t with this title.
pub(crate) fn float16(title: &str) -> Number {
    Number {
        dtype: DType::Float32,
        wire: wire(title).unwrap_or(NumberWire::Truncated { bits: 12 }),
    }
}

/// The part of a leaf's title with the range: after the slash; the whole title if it was written by ROOT before
/// 6.18, without a slash.
pub(super) fn of_leaf(title: &str) -> &str {
    match title.split_once('/') {
        Some((_, range)) if title.contains("/[") => range,
        _ => title,
    }
}

/// The storage of values with the range of a title; none if the title has no range.
fn wire(title: &str) -> Option<NumberWire> {
    let (low, high, bits) = parts(title)?;
    if low < high {
        let steps = if bits < 32 { 1 << bits } else { u32::MAX };
        let factor = f64::from(steps) / (high - low);
        return Some(NumberWire::Steps { low, factor });
    }
    // up to 14 bits are used as they are; from 15 on, ROOT uses the lower limit as the number of bits
    #[expect(clippy::cast_possible_truncation, reason = "as ROOT does")]
    let bits = match bits {
        0..=14 => i32::try_from(bits).ok()?,
        _ => low as i32,
    };
    (bits != 0).then_some(NumberWire::Truncated { bits })
}

/// Both limits and the bits. They are in the first brackets or, if these have no comma, in the second.
fn parts(title: &str) -> Option<(f64, f64, u32)> {
    let (_, rest) = title.split_once('[')?;
    let (first, rest) = rest.split_once(']')?;
    let inner = if first.contains(',') {
        first
    } else {
        let (_, rest) = rest.split_once('[')?;
        rest.split_once(']')?.0
    };
    let (low, rest) = inner.split_once(',')?;
    let (high, bits) = match rest.split_once(',') {
        Some((high, bits)) => (high, integer(bits).unwrap_or(32)),
        None => (rest, 32),
    };
    let bits = if (2..=32).contains(&bits) { bits } else { 32 };
    Some((limit(low), limit(high), bits))
}

/// A limit: a number, or one of the multiples of π that ROOT recognizes.
fn limit(text: &str) -> f64 {
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI, TAU};
    let text = text.to_lowercase().replace(' ', "");
    let multiples = [
        ("2pi", TAU),
        ("2*pi", TAU),
        ("twopi", TAU),
        ("pi/2", FRAC_PI_2),
        ("pi/4", FRAC_PI_4),
        ("pi", PI),
    ];
    match multiples.iter().find(|(name, _)| text.contains(name)) {
        Some((_, value)) if text.contains('-') => -value,
        Some((_, value)) => *value,
        None => number(&text),
    }
}

/// The number at the beginning of a text; zero if there is none.
fn number(text: &str) -> f64 {
    let text = text.trim_start();
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e');
    let mut text = text
        .split_once(|c| !is_part(c))
        .map_or(text, |(text, _)| text);
    while !text.is_empty() {
        if let Ok(value) = text.parse() {
            return value;
        }
        text = text.get(..text.len().saturating_sub(1)).unwrap_or_default();
    }
    0.0
}

/// The integer at the beginning of a text.
fn integer(text: &str) -> Option<u32> {
    let text = text.trim_start();
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit());
    let digits = text.get(..end.unwrap_or(text.len()))?;
    match digits.parse() {
        Ok(value) => Some(value),
        // negative and too large numbers are invalid
        Err(_) => (text.starts_with('-') || !digits.is_empty()).then_some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::{FRAC_PI_2, PI, TAU};

    /// The expected limits and factors are those that ROOT 6.40 computes for these titles.
    #[test]
    fn ranges_in_titles() {
        let steps = |low, factor| Some(NumberWire::Steps { low, factor });
        let bits = |bits| Some(NumberWire::Truncated { bits });
        for (title, expected) in [
            ("x", None),
            ("x[n]", None),
            ("[]", None),
            ("[0]", None),
            ("[0,0,1]", None),
            ("[0,0,2]", bits(2)),
            ("[0,0,14]", bits(14)),
            ("[0,0,15]", None),
            ("[0,0,16]", None),
            ("[0,0,32]", None),
            ("[10,0]", bits(10)),
            ("[10,0,14]", bits(14)),
            ("[10,0,15]", bits(10)),
            ("[5,5]", bits(5)),
            ("[0,-pi]", None),
            ("[0,10]", steps(0.0, 429496729.5)),
            ("[0,10,32]", steps(0.0, 429496729.5)),
            ("[0,1,0]", steps(0.0, 4294967295.0)),
            ("[0,1,1]", steps(0.0, 4294967295.0)),
            ("[0,1,33]", steps(0.0, 4294967295.0)),
            ("[0,1,-4]", steps(0.0, 4294967295.0)),
            ("[0,1,x]", steps(0.0, 4294967295.0)),
            ("[0,1,2,3]", steps(0.0, 4.0)),
            ("[0,1,31]", steps(0.0, 2147483648.0)),
            ("x[3][0,1,5]", steps(0.0, 32.0)),
            ("x[2][3][0,1,5]", None),
            ("text [0,1] and [a,b]", steps(0.0, 4294967295.0)),
            ("[ 0 , 1 , 8 ]", steps(0.0, 256.0)),
            ("[-pi,pi,31]", steps(-PI, 341782637.7882158)),
            ("[0,twopi]", steps(0.0, 683565275.4172766)),
            ("[-2pi,2*PI]", steps(-TAU, 341782637.7086383)),
            ("[0,pi/4]", steps(0.0, 5468522203.338213)),
            ("[-pi/2, pi/2]", steps(-FRAC_PI_2, 1367130550.8345532)),
            ("[0,3*pi]", steps(0.0, 1367130550.8345532)),
            ("[1e-3,1E3,16]", steps(0.001, 65.53606553606554)),
            ("[abc,3]", steps(0.0, 1431655765.0)),
        ] {
            assert_eq!(wire(title), expected, "{title}");
        }
        assert_eq!(double32("x[0,0,16]").wire, NumberWire::Single);
        assert_eq!(float16("x").wire, NumberWire::Truncated { bits: 12 });
        assert_eq!(float16("[0,0,16]").wire, NumberWire::Truncated { bits: 12 });
        assert_eq!(of_leaf("x[2][3]/[0,1,5]"), "[0,1,5]");
        assert_eq!(of_leaf("x[0,1,5]"), "x[0,1,5]");
    }
}
