//! Cutting ranges into pieces that sources share, and joining what came of them. Pure.

use std::ops::Range;

use bytes::Bytes;

/// The largest piece, in bytes: what one source may take while the others read the rest.
pub(super) const LARGEST: u64 = 256 << 10;

/// A part of a wanted range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// The index of the wanted range.
    pub wanted: usize,
    pub range: Range<u64>,
}

/// Parts that one source reads together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub parts: Vec<Part>,
    pub n_bytes: u64,
}

/// Cuts wanted ranges into pieces of at most `largest` bytes: small ranges share a piece, large ones are cut. Empty ranges are
/// in no piece.
pub(super) fn cut(wanted: &[Range<u64>], largest: u64) -> Vec<Piece> {
    let largest = largest.max(1);
    let mut pieces = Vec::new();
    let mut open = Piece::default();
    for (index, range) in wanted.iter().enumerate() {
        let mut start = range.start;
        while start < range.end {
            let left = range.end - start;
            if open.n_bytes > 0 && open.n_bytes + left > largest {
                pieces.push(std::mem::take(&mut open));
            }
            let end = start + left.min(largest);
            open.parts.push(Part {
                wanted: index,
                range: start..end,
            });
            open.n_bytes += end - start;
            start = end;
        }
    }
    if open.n_bytes > 0 {
        pieces.push(open);
    }
    pieces
}

/// The parts of pieces; neighbours of the same wanted range are one part.
pub(super) fn merged<'a>(pieces: impl IntoIterator<Item = &'a Piece>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for part in pieces.into_iter().flat_map(|piece| &piece.parts) {
        match parts.last_mut() {
            Some(last) if last.wanted == part.wanted && last.range.end == part.range.start => {
                last.range.end = part.range.end;
            }
            _ => parts.push(part.clone()),
        }
    }
    parts
}

/// The bytes of `part`, which lies in one of these parts.
pub(super) fn slice(part: &Part, read: &[(Part, Bytes)]) -> Option<Bytes> {
    let is_around = |(other, _): &&(Part, Bytes)| {
        other.wanted == part.wanted
            && other.range.start <= part.range.start
            && part.range.end <= other.range.end
    };
    let (around, bytes) = read.iter().find(is_around)?;
    let start = usize::try_from(part.range.start - around.range.start).ok()?;
    let end = usize::try_from(part.range.end - around.range.start).ok()?;
    (end <= bytes.len()).then(|| bytes.slice(start..end))
}

/// The bytes of each wanted range; none if a part of one is missing.
pub(super) fn joined(wanted: &[Range<u64>], mut parts: Vec<(Part, Bytes)>) -> Option<Vec<Bytes>> {
    parts.sort_by_key(|(part, _)| (part.wanted, part.range.start));
    let mut parts = parts.into_iter().peekable();
    let mut out = Vec::with_capacity(wanted.len());
    for (index, range) in wanted.iter().enumerate() {
        let mut own = Vec::new();
        let mut end = range.start;
        while let Some((part, bytes)) = parts.next_if(|(part, _)| part.wanted == index) {
            if part.range.start != end || bytes.len() as u64 != part.range.end - part.range.start {
                return None;
            }
            end = part.range.end;
            own.push(bytes);
        }
        if end != range.end {
            return None;
        }
        out.push(match own.len() {
            0 => Bytes::new(),
            1 => own.pop()?,
            _ => own.concat().into(),
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
        let range = (0..5000u64, 0..900u64).prop_map(|(start, length)| start..start + length);
        prop::collection::vec(range, 0..40)
    }

    proptest! {
        #[test]
        fn pieces_are_all_of_the_ranges_and_nothing_twice(wanted in ranges(), largest in 1..400u64) {
            let content: Vec<u8> = (0..6000u32).map(|i| (i * i % 251) as u8).collect();
            let place = |at: u64| usize::try_from(at).unwrap();
            let read = |range: &Range<u64>| Bytes::copy_from_slice(
                &content[place(range.start)..place(range.end)]);
            let pieces = cut(&wanted, largest);
            let sizes: Vec<u64> = pieces.iter().map(|piece| piece.n_bytes).collect();
            prop_assert!(sizes.iter().all(|size| (1..=largest).contains(size)));
            prop_assert_eq!(sizes.iter().sum::<u64>(), wanted.iter().map(|r| r.end - r.start).sum::<u64>());
            // read as several groups, in any order
            let mut found = Vec::new();
            for group in pieces.chunks(3).rev() {
                let parts = merged(group);
                let read: Vec<_> = parts.iter().map(|part| (part.clone(), read(&part.range))).collect();
                for part in group.iter().flat_map(|piece| &piece.parts) {
                    found.push((part.clone(), slice(part, &read).unwrap()));
                }
            }
            let expected: Vec<Bytes> = wanted.iter().map(read).collect();
            prop_assert_eq!(joined(&wanted, found.clone()), Some(expected));
            if found.pop().is_some() {
                prop_assert_eq!(joined(&wanted, found), None);
            }
        }
    }

    #[test]
    fn pieces_of_one_source_are_the_ranges_that_were_wanted() {
        let wanted = [0..10, 20..1000, 2000..2001];
        let parts = merged(&cut(&wanted, 100));
        let ranges: Vec<_> = parts.into_iter().map(|part| part.range).collect();
        assert_eq!(ranges, wanted);
    }
}
