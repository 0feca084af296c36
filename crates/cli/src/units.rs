//! Numbers for people, in the same forms as in the Python package.

pub use femtobarn::io::units::{bytes, decimals, parse_bytes};

/// The compression factor; none if nothing is stored.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn factor(uncompressed: u64, on_disk: u64) -> Option<f64> {
    (on_disk > 0 && uncompressed > 0).then(|| uncompressed as f64 / on_disk as f64)
}

/// The compression factor with three digits, empty where there is none.
pub fn factor_text(uncompressed: u64, on_disk: u64) -> String {
    factor(uncompressed, on_disk).map_or(String::new(), |f| format!("{f:.*}", decimals(f)))
}

/// The compression factor in JSON, to four decimals: more are not significant.
pub fn factor_json(uncompressed: u64, on_disk: u64) -> serde_json::Value {
    factor(uncompressed, on_disk).map_or(serde_json::Value::Null, |f| {
        ((f * 1e4).round() / 1e4).into()
    })
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
