//! Splicing: pages of a column that become one value.

/// The size that values with pages should have.
pub const SPLICE_BYTES: u32 = 1 << 20;

/// A page in a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The number of the value, from 0.
    pub value: usize,
    /// The offset of the page in it.
    pub offset: u32,
}

/// How pages become values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Splice {
    /// For each page, where it is.
    pub pages: Vec<Piece>,
    /// The sizes of the values.
    pub values: Vec<u64>,
}

/// Splices the pages of a cluster, given by their sizes with checksums, column by column. As in ROOT's cages, pages of a
/// column are joined in their order while their value has at most `most` bytes; a larger page has its own value, and pages of
/// two columns are never in one. With `most` 0, each page has its own value.
pub fn splice<'p>(columns: impl IntoIterator<Item = &'p [u64]>, most: u32) -> Splice {
    let mut out = Splice::default();
    for column in columns {
        let mut open = None;
        for &size in column {
            let room = open.filter(|&used: &u64| used.saturating_add(size) <= u64::from(most));
            let offset = match room.and_then(|used| Some((used, out.values.last_mut()?))) {
                Some((used, value)) => {
                    *value += size;
                    used
                }
                None => {
                    out.values.push(size);
                    0
                }
            };
            out.pages.push(Piece {
                value: out.values.len() - 1,
                // offsets are smaller than `most`
                offset: u32::try_from(offset).unwrap_or(u32::MAX),
            });
            open = Some(offset.saturating_add(size));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(spliced: &Splice) -> Vec<(usize, u32)> {
        spliced
            .pages
            .iter()
            .map(|page| (page.value, page.offset))
            .collect()
    }

    #[test]
    fn pages_of_a_column_are_joined_up_to_the_size() {
        let spliced = splice([&[40, 50, 10, 1, 200, 60, 40][..]], 100);
        let expected = [(0, 0), (0, 40), (0, 90), (1, 0), (2, 0), (3, 0), (3, 60)];
        assert_eq!(places(&spliced), expected);
        assert_eq!(spliced.values, [100, 1, 200, 100]);
    }

    #[test]
    fn columns_are_never_joined_and_empty_ones_have_no_value() {
        let spliced = splice([&[10, 10][..], &[], &[10]], 100);
        assert_eq!(places(&spliced), [(0, 0), (0, 10), (1, 0)]);
        assert_eq!(spliced.values, [20, 10]);
    }

    #[test]
    fn without_splicing_each_page_has_its_value() {
        let spliced = splice([&[10, 20][..], &[30]], 0);
        assert_eq!(places(&spliced), [(0, 0), (1, 0), (2, 0)]);
        assert_eq!(spliced.values, [10, 20, 30]);
        assert_eq!(splice([], SPLICE_BYTES), Splice::default());
    }
}
