//! The last pass over offsets and variant positions: converts them from cluster to result, and checks them.

use super::plan::{Extent, Items};

/// An error found by the last pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    /// Index of the segment.
    pub segment: usize,
    /// What was expected, and what was found.
    pub expected: String,
    pub found: String,
}

/// Converts end offsets to Arrow offsets.
///
/// `offsets` has room for a 0, followed by the stored end offsets of each segment. `before` has each segment's offset
/// before its first element, `after` that at the end of the cluster, if it was read. A list may have at most `most`
/// items. Returns the items of each segment.
pub(super) fn offsets(
    offsets: &mut [i64],
    segments: &[Extent],
    before: &[u64],
    after: &[Option<u64>],
    whole: &[bool],
    most: Option<i64>,
) -> Result<Vec<Items>, Broken> {
    let (zero, mut rest) = offsets.split_at_mut_checked(1).unwrap_or_default();
    zero.fill(0);
    let mut base = 0i64;
    let mut items = Vec::with_capacity(segments.len());
    for (segment, extent) in segments.iter().enumerate() {
        let broken = |expected: &str, found: String| Broken {
            segment,
            expected: expected.into(),
            found,
        };
        let length = usize::try_from(extent.length).unwrap_or(usize::MAX);
        let Some((own, left)) = std::mem::take(&mut rest).split_at_mut_checked(length) else {
            return Err(broken(
                "an offset for each element",
                format!("{} elements", extent.length),
            ));
        };
        rest = left;
        let first = before.get(segment).copied().unwrap_or(0);
        let first =
            i64::try_from(first).map_err(|_| broken("offsets below 2^63", first.to_string()))?;
        let is_whole = whole.get(segment).copied().unwrap_or(false);
        let last = own.last().copied().unwrap_or(first);
        let ordered = own.first().is_none_or(|&value| value >= first)
            && own.windows(2).all(|w| w.first() <= w.get(1));
        if !ordered {
            return Err(broken("ascending offsets", "a smaller one".into()));
        }
        if let Some(most) = most {
            let mut previous = first;
            for &end in &*own {
                if end - previous > most {
                    let expected = format!("at most {most} in a list");
                    return Err(broken(&expected, (end - previous).to_string()));
                }
                previous = end;
            }
        }
        let length = last - first;
        let next = base
            .checked_add(length)
            .ok_or_else(|| broken("at most 2^63 items", "more".into()))?;
        let shift = base - first;
        if shift != 0 {
            own.iter_mut().for_each(|value| *value += shift);
        }
        base = next;
        let total = after
            .get(segment)
            .copied()
            .flatten()
            .or(is_whole.then_some(last.unsigned_abs()));
        items.push(Items {
            first: first.unsigned_abs(),
            length: length.unsigned_abs(),
            total,
        });
    }
    Ok(items)
}

/// Converts stored Switch elements to tags (0: no value) and positions among the values of the alternative.
///
/// Returns the items of each alternative, for each segment.
pub(super) fn switch(
    raw: &[u8],
    segments: &[Extent],
    whole: &[bool],
    n_alternatives: usize,
    tags: &mut [u8],
    positions: &mut [i64],
) -> Result<Vec<Items>, Broken> {
    let mut bases = vec![0u64; n_alternatives];
    let mut out = Vec::with_capacity(segments.len() * n_alternatives);
    let elements = raw.as_chunks::<12>().0;
    let mut at = 0usize;
    for (segment, extent) in segments.iter().enumerate() {
        let broken = |expected: String, found: String| Broken {
            segment,
            expected,
            found,
        };
        let length = usize::try_from(extent.length).unwrap_or(usize::MAX);
        let range = at..at.saturating_add(length);
        let (Some(own), Some(tags), Some(positions)) = (
            elements.get(range.clone()),
            tags.get_mut(range.clone()),
            positions.get_mut(range.clone()),
        ) else {
            return Err(broken(
                "an element for each value".into(),
                format!("{} values", extent.length),
            ));
        };
        at = range.end;
        let mut spans: Vec<Option<(u64, u64)>> = vec![None; n_alternatives];
        for (element, tag) in own.iter().zip(tags.iter_mut()) {
            let (position, number) = split(element);
            *tag = u8::try_from(number).unwrap_or(u8::MAX);
            let Some(alternative) = (number as usize).checked_sub(1) else {
                continue;
            };
            let Some(span) = spans.get_mut(alternative) else {
                return Err(broken(
                    format!("a tag of at most {n_alternatives}"),
                    number.to_string(),
                ));
            };
            let (low, high) = span.unwrap_or((position, position));
            *span = Some((low.min(position), high.max(position)));
        }
        for (element, place) in own.iter().zip(positions) {
            let (position, number) = split(element);
            let alternative = (number as usize).wrapping_sub(1);
            let low = spans
                .get(alternative)
                .copied()
                .flatten()
                .map_or(0, |(low, _)| low);
            let base = bases.get(alternative).copied().unwrap_or(0);
            let moved = if number == 0 {
                Some(0)
            } else {
                (position - low).checked_add(base)
            };
            *place = moved
                .and_then(|p| i64::try_from(p).ok())
                .ok_or_else(|| broken("positions below 2^63".into(), position.to_string()))?;
        }
        for (span, base) in spans.iter().zip(&mut bases) {
            let (first, length) = match span {
                Some((low, high)) => (
                    *low,
                    (high - low)
                        .checked_add(1)
                        .ok_or_else(|| broken("positions below 2^63".into(), high.to_string()))?,
                ),
                None => (0, 0),
            };
            *base = base.saturating_add(length);
            let is_whole = whole.get(segment).copied().unwrap_or(false);
            out.push(Items {
                first,
                length,
                total: is_whole.then_some(first.saturating_add(length)),
            });
        }
    }
    Ok(out)
}

fn split(element: &[u8; 12]) -> (u64, u32) {
    let mut position = [0u8; 8];
    let mut tag = [0u8; 4];
    for (to, from) in position.iter_mut().chain(tag.iter_mut()).zip(element) {
        *to = *from;
    }
    (u64::from_le_bytes(position), u32::from_le_bytes(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(lengths: &[u64]) -> Vec<Extent> {
        lengths
            .iter()
            .map(|&length| Extent { first: 0, length })
            .collect()
    }

    #[test]
    fn offsets_are_rebased_across_clusters_and_partial_ones() {
        // cluster 0 from its second entry on (3 items before), all of cluster 1
        let mut values = [99, 5, 5, 2, 6];
        let items = offsets(
            &mut values,
            &extents(&[2, 2]),
            &[3, 0],
            &[None, None],
            &[false, true],
            Some(4),
        )
        .unwrap();
        assert_eq!(values, [0, 2, 2, 4, 8]);
        assert_eq!(
            items[0],
            Items {
                first: 3,
                length: 2,
                total: None
            }
        );
        assert_eq!(
            items[1],
            Items {
                first: 0,
                length: 6,
                total: Some(6)
            }
        );
    }

    #[test]
    fn decreasing_and_huge_offsets_are_refused() {
        for mut values in [[0, 5, 4], [0, -1, 4], [0, 2, -2]] {
            assert!(offsets(&mut values, &extents(&[2]), &[0], &[None], &[true], None).is_err());
        }
        assert!(
            offsets(
                &mut [0, 5, 6],
                &extents(&[2]),
                &[6],
                &[None],
                &[false],
                None
            )
            .is_err()
        );
    }

    #[test]
    fn lists_that_are_too_long_are_refused() {
        let check = |most| {
            offsets(
                &mut [0, 2, 3, 5],
                &extents(&[3]),
                &[1],
                &[None],
                &[false],
                most,
            )
        };
        assert!(check(None).is_ok() && check(Some(2)).is_ok());
        assert_eq!(check(Some(1)).unwrap_err().found, "2");
    }

    /// Found by fuzzing: the sum of two clusters of 2^62 items each overflowed.
    #[test]
    fn more_items_than_offsets_can_count_are_refused() {
        let mut values = [0, i64::MAX - 1, i64::MAX - 1];
        let whole = [true, true];
        let result = offsets(
            &mut values,
            &extents(&[1, 1]),
            &[0, 0],
            &[None, None],
            &whole,
            None,
        );
        assert!(result.is_err());
    }

    #[test]
    fn switch_positions_are_rebased_for_each_alternative() {
        let element =
            |position: u64, tag: u32| [&position.to_le_bytes()[..], &tag.to_le_bytes()].concat();
        let raw = [
            element(4, 1),
            element(0, 0),
            element(7, 2),
            element(5, 1),
            element(0, 1),
        ]
        .concat();
        let (mut tags, mut positions) = ([9; 5], [9; 5]);
        let items = switch(
            &raw,
            &extents(&[4, 1]),
            &[false, true],
            2,
            &mut tags,
            &mut positions,
        )
        .unwrap();
        assert_eq!(tags, [1, 0, 2, 1, 1]);
        assert_eq!(positions, [0, 0, 0, 1, 2]);
        assert_eq!(
            (
                items[0].first,
                items[0].length,
                items[1].first,
                items[2].length
            ),
            (4, 2, 7, 1)
        );
        assert!(
            switch(
                &element(0, 3),
                &extents(&[1]),
                &[true],
                2,
                &mut [0],
                &mut [0]
            )
            .is_err()
        );
    }
}
