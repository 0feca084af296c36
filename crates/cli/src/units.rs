//! Numbers for people, in the same forms as in the Python package.

use femtobarn::inspect::Bytes;
pub use femtobarn::io::units::{bytes, count, decimals, parse_bytes, plural};

/// The compression factor with three digits, empty where there is none.
pub fn factor_text(bytes: Bytes) -> String {
    bytes
        .factor()
        .map_or(String::new(), |f| format!("{f:.*}", decimals(f)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stored_has_no_factor() {
        let text = |uncompressed, on_disk| {
            factor_text(Bytes {
                on_disk,
                uncompressed,
            })
        };
        assert_eq!((text(10, 0), text(0, 10)), (String::new(), String::new()));
        assert_eq!(text(300, 100), "3.00");
    }
}
