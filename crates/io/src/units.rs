//! Formats and parses numbers of bytes and other quantities.

const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];

/// A number of bytes with three digits and a decimal unit.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn bytes(n: u64) -> String {
    if n < 1000 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1000.0;
    let mut units = UNITS.iter();
    let mut unit = units.next().unwrap_or(&"");
    while value >= 999.5 {
        let Some(next) = units.next() else { break };
        value /= 1000.0;
        unit = next;
    }
    format!("{value:.*} {unit}", decimals(value))
}

/// Parses a number of bytes such as `128MiB`, `1.5 GB`, `2k` or `1000`: powers of 1000, or of 1024 with an `i`. `None`
/// if the string is invalid, or the number exceeds 2⁶³.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let (unit, exponent) = exponent(unit);
    let digits = text.get(..text.len() - unit.len())?;
    let digits = digits.strip_suffix(exponent)?;
    let unit = unit.trim();
    let (letters, base) = match unit.strip_suffix("ib") {
        Some(letters) if !letters.is_empty() => (letters, 1024.0f64),
        _ => (unit.strip_suffix('b').unwrap_or(unit), 1000.0),
    };
    let power = ["", "k", "m", "g", "t", "p", "e"]
        .iter()
        .position(|known| *known == letters)?;
    let value: f64 = format!("{digits}{exponent}").parse().ok()?;
    let bytes = value * base.powi(i32::try_from(power).ok()?);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked right before"
    )]
    (bytes.is_finite() && (0.0..=9.3e18).contains(&bytes)).then_some(bytes as u64)
}

/// Splits off a decimal exponent, such as `e3` or `e-2`.
fn exponent(text: &str) -> (&str, &str) {
    let signed = text
        .strip_prefix('e')
        .map(|rest| rest.trim_start_matches(['+', '-']));
    let Some(signed) = signed else {
        return (text, "");
    };
    let rest = signed.trim_start_matches(|c: char| c.is_ascii_digit());
    match rest.len() < signed.len() {
        true => (
            rest,
            text.get(..text.len() - rest.len()).unwrap_or_default(),
        ),
        false => (text, ""),
    }
}

/// Number of decimals for three significant digits.
pub fn decimals(value: f64) -> usize {
    if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    }
}

/// A number with a comma before every third digit.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number as a float, for rates and drawings.
#[expect(clippy::cast_precision_loss, reason = "few digits are shown")]
pub fn real(n: u64) -> f64 {
    n as f64
}

/// A number with its noun: "1 page", "12,000 entries".
pub fn plural(n: u64, noun: &str) -> String {
    let n_text = count(n);
    match noun.strip_suffix('y') {
        _ if n == 1 => format!("{n_text} {noun}"),
        Some(stem) => format!("{n_text} {stem}ies"),
        None => format!("{n_text} {noun}s"),
    }
}

/// A time with three digits and a unit.
pub fn seconds(seconds: f64) -> String {
    let units = [("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)];
    let unit = units.iter().find(|(_, size)| seconds >= *size);
    let (unit, size) = unit.copied().unwrap_or(("µs", 1e-6));
    let value = seconds / size;
    if value >= 10.0 {
        return format!("{value:.1} {unit}");
    }
    let digits = format!("{value:.2}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_and_nouns_agree() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(plural(1, "entry"), "1 entry");
        assert_eq!(plural(12_000, "entry"), "12,000 entries");
        assert_eq!(plural(0, "page"), "0 pages");
    }

    #[test]
    fn times_have_three_digits() {
        for (time, text) in [
            (75.0, "75.0 s"),
            (0.01234, "12.3 ms"),
            (2.5, "2.5 s"),
            (3e-6, "3 µs"),
        ] {
            assert_eq!(seconds(time), text);
        }
    }

    #[test]
    fn bytes_have_three_digits() {
        for (n, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (1536, "1.54 kB"),
            (9_999, "10.0 kB"),
            (255_567, "256 kB"),
            (999_500, "1.00 MB"),
            (2_500_000_000, "2.50 GB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(bytes(n), text);
        }
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("12", 12),
            ("16 MiB", 16 << 20),
            ("2k", 2000),
            ("1GiB", 1 << 30),
            ("1.5 MB", 1_500_000),
            ("1 PB", 1_000_000_000_000_000),
            ("2 EiB", 2 << 60),
            ("1e3 kB", 1_000_000),
            ("5e-1kB", 500),
            (".5 k", 500),
        ] {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
        for text in [
            "",
            "-1",
            "1 X",
            "MiB",
            "99999999999999999999",
            "1 kBb",
            "1 ZB",
        ] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }
}
