//! Numbers for people, in the same forms as in the Python package.

pub use femtobarn::io::units::{bytes, count, decimals, parse_bytes, plural};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stored_has_no_factor() {
        assert_eq!(factor_text(10, 0), "");
        assert_eq!(factor_text(0, 10), "");
        assert_eq!(factor_text(300, 100), "3.00");
        assert_eq!(factor_json(1, 3), 0.3333);
    }
}
