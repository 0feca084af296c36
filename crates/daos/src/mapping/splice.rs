//! Splicing: pages of a column that become one value.

/// The size that values with pages should have.
pub const SPLICE_BYTES: u64 = 1 << 20;

/// The most pieces of a value that is written.
pub const MOST_PIECES: usize = 4096;

/// A page in a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The number of the value, from 0.
    pub value: usize,
    /// The offset of the page in it.
    pub offset: u32,
}

/// Splices the pages of a column in a cluster, given by their sizes with checksums. As in ROOT's cages, they are joined in their
/// order while their value has at most `most` bytes; a larger page has its own value. With `most` 0, each page has its own value.
pub fn splice(sizes: &[u64], most: u64) -> Vec<Piece> {
    let (mut value, mut used, mut n) = (0, 0u64, 0);
    let place = |&size: &u64| {
        let offset = u32::try_from(used).ok();
        let fits = used.saturating_add(size) <= most && n < MOST_PIECES;
        let offset = match offset.filter(|_| fits || n == 0) {
            Some(offset) => offset,
            None => {
                (value, used, n) = (value + 1, 0, 0);
                0
            }
        };
        used = used.saturating_add(size);
        n += 1;
        Piece { value, offset }
    };
    sizes.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(sizes: &[u64], most: u64) -> Vec<(usize, u32)> {
        let pieces = splice(sizes, most);
        let place = |piece: &Piece| (piece.value, piece.offset);
        pieces.iter().map(place).collect()
    }

    #[test]
    fn pages_of_a_column_are_joined_up_to_the_size() {
        let expected = [(0, 0), (0, 40), (0, 90), (1, 0), (2, 0), (3, 0), (3, 60)];
        assert_eq!(places(&[40, 50, 10, 1, 200, 60, 40], 100), expected);
        assert_eq!(places(&[200, 1], 100), [(0, 0), (1, 0)]);
    }

    #[test]
    fn without_splicing_each_page_has_its_value() {
        assert_eq!(places(&[10, 20, 30], 0), [(0, 0), (1, 0), (2, 0)]);
        assert!(places(&[], SPLICE_BYTES).is_empty());
    }

    #[test]
    fn a_value_has_a_limited_number_of_pieces() {
        let pieces = splice(&[1; MOST_PIECES + 1], SPLICE_BYTES);
        let last = Piece {
            value: 1,
            offset: 0,
        };
        assert_eq!(pieces.last(), Some(&last));
        assert_eq!(pieces[MOST_PIECES - 1].value, 0);
    }
}
