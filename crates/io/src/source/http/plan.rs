//! Plans the requests for ranges. Pure.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// Longer ranges are split into pieces for several connections.
pub(super) const LARGEST: u64 = 8 << 20;

/// Longer pieces do not gain from sharing a request.
const LARGEST_SHARED: u64 = 256 << 10;

/// Maximum number of pieces per request: the header then has 3 KB, and servers accept 4 to 8 KB.
const MOST_SHARED: usize = 128;

/// Maximum bytes of a request with several pieces, so that several connections are used.
const MOST_BYTES: u64 = 2 << 20;

/// A range within one request.
pub(super) type Piece = Range<u64>;

/// The pieces to read for ranges, which may overlap: each byte once, and no other bytes.
pub(super) fn pieces(ranges: &[Range<u64>]) -> Vec<Piece> {
    let mut sorted: Vec<&Range<u64>> = ranges.iter().filter(|range| !range.is_empty()).collect();
    sorted.sort_by_key(|range| (range.start, range.end));
    let mut apart: Vec<Piece> = Vec::new();
    for range in sorted {
        match apart.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => apart.push(range.clone()),
        }
    }
    apart.into_iter().flat_map(cut).collect()
}

fn cut(range: Range<u64>) -> impl Iterator<Item = Piece> {
    let starts = (range.start..range.end).step_by(usize::try_from(LARGEST).unwrap_or(usize::MAX));
    starts.map(move |start| start..range.end.min(start.saturating_add(LARGEST)))
}

/// The bytes of a range from sorted pieces; `None` if they are incomplete.
pub(super) fn assembled(range: &Range<u64>, pieces: &[(Piece, Bytes)]) -> Option<Bytes> {
    if range.is_empty() {
        return Some(Bytes::new());
    }
    let first = pieces.partition_point(|(piece, _)| piece.end <= range.start);
    let mut bytes = pieces.get(first..)?.iter().map_while(|(piece, bytes)| {
        let (start, end) = (piece.start.max(range.start), piece.end.min(range.end));
        let at = |place: u64| usize::try_from(place.checked_sub(piece.start)?).ok();
        (start < end).then(|| Some(bytes.slice(at(start)?..at(end)?)))?
    });
    let expected = usize::try_from(range.end - range.start).ok()?;
    let one = bytes.next()?;
    if one.len() == expected {
        return Some(one);
    }
    let mut all = BytesMut::with_capacity(expected);
    all.extend_from_slice(&one);
    bytes.for_each(|part| all.extend_from_slice(&part));
    (all.len() == expected).then(|| all.freeze())
}

/// Pieces with separate requests, pieces that share one, and pieces that wait for the result of the trial.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub single: Vec<Piece>,
    pub many: Vec<Vec<Piece>>,
    pub later: Vec<Piece>,
}

impl Plan {
    /// Number of requests, assuming that the server supports shared requests.
    pub fn n_requests(&self, at_once: usize) -> usize {
        let later = match self.later.is_empty() {
            true => 0,
            false => groups(self.later.clone(), at_once, Some(true)).n_requests(at_once),
        };
        self.single.len() + self.many.len() + later
    }
}

/// Groups pieces into requests. Separate requests cost one round trip per `at_once` pieces; a shared request costs one,
/// but is wasted on a server without support. So shared requests are tried if there are more pieces than `at_once`:
/// first with one request, next to separate ones in the same round trip, and for all others once the server has
/// answered it well.
pub(super) fn groups(pieces: Vec<Piece>, at_once: usize, does_well: Option<bool>) -> Plan {
    let is_small = |piece: &Piece| piece.end - piece.start <= LARGEST_SHARED;
    let (small, mut single): (Vec<_>, Vec<_>) = pieces.into_iter().partition(is_small);
    if does_well == Some(false) || small.len() <= at_once {
        single.extend(small);
        return Plan {
            single,
            ..Plan::default()
        };
    }
    let mut many: Vec<Vec<Piece>> = Vec::new();
    let mut bytes = 0;
    for piece in small {
        let length = piece.end - piece.start;
        match many.last_mut() {
            Some(last) if last.len() < MOST_SHARED && bytes + length <= MOST_BYTES => {
                bytes += length;
                last.push(piece);
            }
            _ => {
                bytes = length;
                many.push(vec![piece]);
            }
        }
    }
    let mut later = Vec::new();
    if does_well.is_none() {
        later.extend(many.drain(1..).flatten());
        let room = at_once.saturating_sub(many.len() + single.len());
        single.extend(later.drain(..room.min(later.len())));
    }
    Plan {
        single,
        many,
        later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_each_byte_once() {
        assert_eq!(
            pieces(&[5..9, 0..2, 7..12, 3..3, 12..13, 7..8]),
            [0..2, 5..12, 12..13]
        );
        assert_eq!(
            pieces(&[1..2 * LARGEST + 2]),
            [
                1..LARGEST + 1,
                LARGEST + 1..2 * LARGEST + 1,
                2 * LARGEST + 1..2 * LARGEST + 2
            ]
        );
        assert!(pieces(&[]).is_empty());
    }

    #[test]
    fn ranges_are_made_of_pieces() {
        let pieces = [
            (0..2, Bytes::from_static(b"01")),
            (5..8, Bytes::from_static(b"567")),
            (8..9, Bytes::from_static(b"8")),
        ];
        let made = |range| assembled(&range, &pieces);
        assert_eq!(made(0..2).unwrap(), "01");
        assert_eq!(made(6..9).unwrap(), "678");
        assert_eq!(made(5..6).unwrap(), "5");
        assert_eq!(made(3..3).unwrap(), "");
        assert_eq!((made(1..6), made(8..10), made(3..4)), (None, None, None));
    }

    #[test]
    fn many_small_pieces_share_requests_where_that_is_known_to_work() {
        let pieces: Vec<Piece> = (0..300).map(|i| i * 1000..i * 1000 + 10).collect();
        let plan = |known| groups(pieces.clone(), 16, known);
        let sizes = |known| {
            let plan = plan(known);
            (
                plan.single.len(),
                plan.many.iter().map(Vec::len).collect::<Vec<_>>(),
                plan.later.len(),
            )
        };
        assert_eq!(sizes(Some(true)), (0, vec![128, 128, 44], 0));
        assert_eq!(sizes(None), (15, vec![128], 157));
        assert_eq!(sizes(Some(false)), (300, vec![], 0));
        let requests = [Some(true), None, Some(false)].map(|known| plan(known).n_requests(16));
        assert_eq!(requests, [3, 18, 300]);
        assert_eq!(
            groups(pieces[..16].to_vec(), 16, Some(true)).single.len(),
            16
        );
        let large: Vec<Piece> = (0..20)
            .map(|i| i << 20..(i << 20) + LARGEST_SHARED)
            .collect();
        let sizes: Vec<usize> = groups(large, 16, Some(true))
            .many
            .iter()
            .map(Vec::len)
            .collect();
        assert_eq!(sizes, [8, 8, 4]);
    }
}
