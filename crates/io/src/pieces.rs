//! Splits a file into pieces of equal size.

use std::ops::Range;

/// The bytes 0 to `size` as consecutive ranges of `piece` bytes; the last one may be shorter, and none is
/// empty.
///
/// # Panics
///
/// If `piece` is 0.
pub fn pieces(size: u64, piece: u64) -> impl Iterator<Item = Range<u64>> {
    (0..size.div_ceil(piece)).map(move |number| {
        let start = number * piece;
        start..start.saturating_add(piece).min(size)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_all_of_a_file() {
        let of = |size, piece| pieces(size, piece).collect::<Vec<_>>();
        assert_eq!(of(0, 4), []);
        assert_eq!(of(4, 4), [0..4]);
        assert_eq!(of(5, 4), [0..4, 4..5]);
        assert_eq!(of(u64::MAX, u64::MAX), [0..u64::MAX]);
    }
}
