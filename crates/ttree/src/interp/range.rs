//! Ranges and bits of Float16_t and Double32_t, which stand in titles: `[low,high,bits]`.

use femtobarn_rntuple::schema::DType;

use super::shape::{Number, NumberWire};

/// A Double32_t whose title is `title`.
pub(crate) fn double32(title: &str) -> Number {
    let dtype = DType::Float64;
    let wire = wire(title).unwrap_or(NumberWire::Single);
    Number { dtype, wire }
}

/// A Float16_t whose title is `title`.
pub(crate) fn float16(title: &str) -> Number {
    let dtype = DType::Float32;
    let wire = wire(title).unwrap_or(NumberWire::Truncated { bits: 12 });
    Number { dtype, wire }
}

fn wire(title: &str) -> Option<NumberWire> {
    // the range is in the last brackets: those in front are the sizes of an array
    let ranges = title.split('[').skip(1);
    let inner = ranges
        .filter_map(|part| part.split_once(']').map(|(inner, _)| inner))
        .find(|inner| inner.contains(','))?;
    let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
    let (low, high) = (value(parts.first()?)?, value(parts.get(1)?)?);
    let bits = match parts.get(2) {
        Some(text) => text.parse::<u32>().ok()?,
        None => 32,
    };
    let bits = if (2..=32).contains(&bits) { bits } else { 32 };
    if low == 0.0 && high == 0.0 {
        return Some(NumberWire::Truncated { bits: bits.min(16) });
    }
    if low >= high {
        return None;
    }
    let step = (high - low) / 2f64.powi(i32::try_from(bits).ok()?);
    Some(NumberWire::Steps { low, step })
}

/// A number, or a product or quotient with π.
fn value(text: &str) -> Option<f64> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix('-') {
        return value(rest).map(|value| -value);
    }
    if let Some((left, right)) = text.rsplit_once('*') {
        return Some(value(left)? * value(right)?);
    }
    if let Some((left, right)) = text.rsplit_once('/') {
        return Some(value(left)? / value(right)?);
    }
    match text.to_lowercase().as_str() {
        "pi" => Some(std::f64::consts::PI),
        "twopi" => Some(std::f64::consts::TAU),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_in_titles() {
        let steps = |low, step| NumberWire::Steps { low, step };
        assert_eq!(double32("x").wire, NumberWire::Single);
        assert_eq!(double32("x[0,8,8]").wire, steps(0.0, 8.0 / 256.0));
        assert_eq!(double32("x[3][0,8,8]").wire, steps(0.0, 8.0 / 256.0));
        assert_eq!(double32("x[n]").wire, NumberWire::Single);
        assert_eq!(
            double32("angle [-pi/2, 2*pi]").wire,
            steps(
                -std::f64::consts::PI / 2.0,
                2.5 * std::f64::consts::PI / 4294967296.0
            )
        );
        assert_eq!(
            float16("x[0,0,10]").wire,
            NumberWire::Truncated { bits: 10 }
        );
        assert_eq!(float16("x").wire, NumberWire::Truncated { bits: 12 });
    }
}
