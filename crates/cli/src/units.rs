//! Numbers as people read them; the same forms as in the Python package.

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

/// A number of bytes from text as `128MiB`, `1.5 GB` or `1000`; none if it is no such thing.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit() && c != '.');
    let unit = text.get(digits.len()..)?.trim().to_ascii_lowercase();
    let (letters, base) = match unit.strip_suffix("ib") {
        Some(letters) if !letters.is_empty() => (letters, 1024.0f64),
        _ => (unit.trim_end_matches('b'), 1000.0),
    };
    let power = match letters {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    let value: f64 = digits.parse().ok()?;
    let bytes = value * base.powi(power);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked right before"
    )]
    (bytes.is_finite() && (0.0..1e18).contains(&bytes)).then_some(bytes as u64)
}

/// The compression factor; none where nothing is stored.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn factor(uncompressed: u64, on_disk: u64) -> Option<f64> {
    (on_disk > 0 && uncompressed > 0).then(|| uncompressed as f64 / on_disk as f64)
}

/// The compression factor with three digits, empty where there is none.
pub fn factor_text(uncompressed: u64, on_disk: u64) -> String {
    factor(uncompressed, on_disk).map_or(String::new(), |f| format!("{f:.*}", decimals(f)))
}

/// The compression factor in JSON, to four decimals: more say nothing.
pub fn factor_json(uncompressed: u64, on_disk: u64) -> serde_json::Value {
    factor(uncompressed, on_disk).map_or(serde_json::Value::Null, |f| {
        ((f * 1e4).round() / 1e4).into()
    })
}

fn decimals(value: f64) -> usize {
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

/// A number with its noun: "1 page", "12,000 entries".
pub fn plural(n: u64, noun: &str) -> String {
    let n_text = count(n);
    match noun.strip_suffix('y') {
        _ if n == 1 => format!("{n_text} {noun}"),
        Some(stem) => format!("{n_text} {stem}ies"),
        None => format!("{n_text} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn counts_are_grouped_and_nouns_agree() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(plural(1, "entry"), "1 entry");
        assert_eq!(plural(12_000, "entry"), "12,000 entries");
        assert_eq!(plural(0, "page"), "0 pages");
    }

    #[test]
    fn nothing_stored_has_no_factor() {
        assert_eq!(factor_text(10, 0), "");
        assert_eq!(factor_text(0, 10), "");
        assert_eq!(factor_text(300, 100), "3.00");
        assert_eq!(factor_json(1, 3), 0.3333);
    }
}
