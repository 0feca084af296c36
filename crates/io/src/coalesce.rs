//! Merges requested ranges into efficient requests. Pure.

use std::cmp::Reverse;
use std::ops::Range;

use bytes::Bytes;

use crate::SourceCost;

/// One request to a source, and the requested ranges that it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The bytes to read.
    pub range: Range<u64>,
    /// Indexes of the requested ranges in `range`.
    pub members: Vec<usize>,
}

impl Request {
    /// The part of the answer that belongs to `wanted`, without a copy; `None` if `wanted` is not inside `range`.
    #[must_use]
    pub fn slice(&self, answer: &Bytes, wanted: &Range<u64>) -> Option<Bytes> {
        part_of(&self.range, answer, wanted)
    }
}

/// The part of the bytes of `range` that belongs to `wanted`, without a copy; `None` if they do not have all of it.
pub(crate) fn part_of(range: &Range<u64>, bytes: &Bytes, wanted: &Range<u64>) -> Option<Bytes> {
    let start = usize::try_from(wanted.start.checked_sub(range.start)?).ok()?;
    let end = usize::try_from(wanted.end.checked_sub(range.start)?).ok()?;
    (start <= end && end <= bytes.len()).then(|| bytes.slice(start..end))
}

/// Merges `ranges` (in any order; duplicates and overlaps are allowed) into requests, sorted by their start.
///
/// - Ranges with gaps up to [`SourceCost::largest_gap`] share a request; the bytes of the gap are dropped. If all such
///   gaps together exceed [`SourceCost::most_gaps`], only the smallest ones within this limit are read.
/// - If the source [merges](SourceCost::merges) ranges itself, only ranges inside of others share a request.
/// - No request is larger than [`SourceCost::largest_request`], unless one of its ranges is.
/// - A range inside another one costs nothing: the same request serves both. Ranges that overlap partly share a request
///   if the limit allows it; otherwise the common bytes are read twice.
/// - Every range is a member of exactly one request. An empty range (an inverted one counts as empty) joins a request
///   that touches it, or becomes an empty request.
#[must_use]
pub fn coalesce(ranges: &[Range<u64>], cost: &SourceCost) -> Vec<Request> {
    let (mut wanted, empty): (Vec<_>, Vec<_>) = ranges
        .iter()
        .cloned()
        .enumerate()
        .partition(|(_, range)| !range.is_empty());
    // With equal starts, longer ranges first: a range always follows the ranges that contain it.
    wanted.sort_unstable_by_key(|(index, range)| (range.start, Reverse(range.end), *index));
    let largest_gap = largest_gap(&wanted, cost);
    let mut requests: Vec<Request> = Vec::new();
    for (index, range) in wanted {
        match requests.last_mut() {
            Some(last) if joins(&last.range, &range, largest_gap, cost) => {
                last.range.end = last.range.end.max(range.end);
                last.members.push(index);
            }
            _ => requests.push(Request {
                range,
                members: vec![index],
            }),
        }
    }
    for (index, range) in empty {
        place_empty(&mut requests, index, range.start);
    }
    requests
}

/// The largest gap between sorted ranges such that all gaps up to this size may be read.
fn largest_gap(sorted: &[(usize, Range<u64>)], cost: &SourceCost) -> u64 {
    let mut gaps = Vec::new();
    let mut wanted = 0_u64;
    let mut end = None;
    for (_, range) in sorted {
        let before = end.unwrap_or(range.start);
        wanted = wanted.saturating_add(range.end.saturating_sub(range.start.max(before)));
        let gap = range.start.saturating_sub(before);
        if (1..=cost.largest_gap).contains(&gap) {
            gaps.push(gap);
        }
        end = Some(before.max(range.end));
    }
    let allowed = match cost.most_gaps {
        None => return cost.largest_gap,
        Some(percent) => u128::from(wanted) * u128::from(percent) / 100,
    };
    gaps.sort_unstable();
    let mut all = 0_u128;
    for same in gaps.chunk_by(|a, b| a == b) {
        all += same.iter().map(|gap| u128::from(*gap)).sum::<u128>();
        if all > allowed {
            return same.first().map_or(0, |gap| gap - 1);
        }
    }
    cost.largest_gap
}

/// Whether `next`, which does not start before `current`, should be read together with it.
fn joins(current: &Range<u64>, next: &Range<u64>, largest_gap: u64, cost: &SourceCost) -> bool {
    let near = cost.merges && next.start <= current.end.saturating_add(largest_gap);
    next.end <= current.end || (near && next.end - current.start <= cost.largest_request)
}

/// Adds the empty range at `start` to a request that touches it, or to a new one. Done last, so that it neither bridges
/// nor creates a gap.
fn place_empty(requests: &mut Vec<Request>, index: usize, start: u64) {
    let after = requests.partition_point(|request| request.range.start <= start);
    match after
        .checked_sub(1)
        .and_then(|before| requests.get_mut(before))
    {
        Some(request) if start <= request.range.end => request.members.push(index),
        _ => requests.insert(
            after,
            Request {
                range: start..start,
                members: vec![index],
            },
        ),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cost(largest_gap: u64, largest_request: u64) -> SourceCost {
        SourceCost {
            largest_gap,
            largest_request,
            most_gaps: None,
            ..SourceCost::default()
        }
    }

    #[test]
    fn of_gaps_that_are_too_many_the_smallest_are_read() {
        // 100 requested bytes of every 101 or 150: fifty gaps of 50 bytes are too much, gaps of 1 byte are not.
        let mut ranges = Vec::new();
        let mut at = 0;
        for n in 0..100 {
            ranges.push(at..at + 100);
            at += if n % 2 == 0 { 101 } else { 150 };
        }
        let limited = |most_gaps| SourceCost {
            most_gaps,
            ..cost(64, 1 << 20)
        };
        assert_eq!(coalesce(&ranges, &limited(None)).len(), 1);
        assert_eq!(coalesce(&ranges, &limited(Some(30))).len(), 1);
        assert_eq!(coalesce(&ranges, &limited(Some(4))).len(), 50);
        assert_eq!(coalesce(&ranges, &limited(Some(0))).len(), 100);
    }

    fn ranges_of(requests: &[Request]) -> Vec<Range<u64>> {
        requests
            .iter()
            .map(|request| request.range.clone())
            .collect()
    }

    #[test]
    fn ranges_within_the_gap_share_a_request() {
        let requests = coalesce(&[30..40, 0..10, 14..20], &cost(4, 100));
        assert_eq!(ranges_of(&requests), [0..20, 30..40]);
        assert_eq!(requests[0].members, [1, 2]);
        assert_eq!(requests[1].members, [0]);
    }

    #[test]
    fn no_request_grows_over_the_limit() {
        let requests = coalesce(&[0..10, 10..20, 20..30], &cost(0, 20));
        assert_eq!(ranges_of(&requests), [0..20, 20..30]);
    }

    #[test]
    fn a_single_range_over_the_limit_is_one_request_and_serves_what_is_inside() {
        let requests = coalesce(&[10..20, 0..100, 100..101], &cost(0, 50));
        assert_eq!(ranges_of(&requests), [0..100, 100..101]);
        assert_eq!(requests[0].members, [1, 0]);
    }

    #[test]
    fn identical_ranges_are_read_once() {
        let requests = coalesce(&[5..9, 5..9, 5..9], &cost(0, 1));
        assert_eq!(
            requests,
            [Request {
                range: 5..9,
                members: vec![0, 1, 2]
            }]
        );
    }

    #[test]
    fn ranges_at_the_end_of_the_address_space_do_not_overflow() {
        let requests = coalesce(&[0..1, u64::MAX - 1..u64::MAX], &cost(u64::MAX, u64::MAX));
        assert_eq!(ranges_of(&requests), [0..u64::MAX]);
    }

    #[test]
    fn an_empty_range_bridges_no_gap() {
        let requests = coalesce(&[0..10, 12..12], &cost(4, 100));
        assert_eq!(ranges_of(&requests), [0..10, 12..12]);
    }

    #[test]
    fn an_empty_range_in_a_gap_that_is_read_makes_no_request() {
        let requests = coalesce(&[12..12, 0..10, 13..20], &cost(4, 100));
        assert_eq!(
            requests,
            [Request {
                range: 0..20,
                members: vec![1, 2, 0]
            }]
        );
    }

    #[test]
    fn a_slice_outside_the_request_is_none() {
        let request = Request {
            range: 10..20,
            members: vec![0],
        };
        let answer = Bytes::from_static(b"0123456789");
        assert_eq!(request.slice(&answer, &(12..14)).unwrap(), "23");
        assert!(request.slice(&answer, &(9..12)).is_none());
        assert!(request.slice(&answer, &(19..21)).is_none());
    }

    fn any_ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
        proptest::collection::vec(
            (0_u64..500, 0_u64..60).prop_map(|(start, length)| start..start + length),
            0..40,
        )
    }

    /// Checks the rules in the documentation of `coalesce`.
    fn check(ranges: &[Range<u64>], cost: &SourceCost) {
        let requests = coalesce(ranges, cost);
        let mut seen = vec![0; ranges.len()];
        let mut gaps_read = 0;
        for request in &requests {
            let mut covered: Vec<bool> =
                vec![false; usize::try_from(request.range.end - request.range.start).unwrap()];
            for &member in &request.members {
                let range = &ranges[member];
                seen[member] += 1;
                assert!(request.range.start <= range.start && range.end <= request.range.end);
                for at in range.clone() {
                    covered[usize::try_from(at - request.range.start).unwrap()] = true;
                }
            }
            let longest = request
                .members
                .iter()
                .map(|&member| ranges[member].end - ranges[member].start)
                .max()
                .unwrap();
            let length = request.range.end - request.range.start;
            assert!(
                length <= cost.largest_request || length == longest,
                "{request:?}"
            );
            let gaps = covered
                .split(|&wanted| wanted)
                .map(<[bool]>::len)
                .max()
                .unwrap_or(0);
            gaps_read += covered.iter().filter(|&&wanted| !wanted).count();
            assert!(
                gaps as u64 <= cost.largest_gap,
                "a gap of {gaps} was read in {request:?}"
            );
            assert!(
                covered.first().is_none_or(|&wanted| wanted)
                    && covered.last().is_none_or(|&wanted| wanted)
            );
        }
        assert!(
            seen.iter().all(|&times| times == 1),
            "every range is in exactly one request"
        );
        let wanted: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let percent = cost.most_gaps.unwrap_or(u64::MAX);
        assert!(gaps_read as u64 * 100 <= wanted.saturating_mul(percent));
        assert!(
            requests
                .windows(2)
                .all(|pair| pair[0].range.start <= pair[1].range.start)
        );
    }

    proptest! {
        #[test]
        fn every_range_is_served_once_and_no_byte_is_read_without_need(
            ranges in any_ranges(), gap in 0_u64..30, limit in 1_u64..200, percent in 0_u64..100,
        ) {
            check(&ranges, &cost(gap, limit));
            check(&ranges, &SourceCost { most_gaps: Some(percent), ..cost(gap, limit) });
        }

        #[test]
        fn the_order_of_the_ranges_does_not_change_what_is_read(ranges in any_ranges(), gap in 0_u64..30) {
            let reversed: Vec<_> = ranges.iter().rev().cloned().collect();
            let (one, two) = (coalesce(&ranges, &cost(gap, 100)), coalesce(&reversed, &cost(gap, 100)));
            prop_assert_eq!(ranges_of(&one), ranges_of(&two));
        }
    }
}
