//! Tests of all kinds of sources together: real servers of every kind, bad connections, and replaced files.

mod cached;
pub(crate) mod conformance;
mod kinds;
mod layers;
pub(crate) mod liar;
mod metered;
mod origin;
mod replaced;
mod several;
mod ways;

use std::ops::Range;

use crate::{ByteSource, IoError};

/// Ranges of all shapes: many, unsorted, overlapping, equal, empty, up to the last byte, and everything.
fn shapes(size: u64) -> Vec<Range<u64>> {
    let many = (0..400).map(|i| i * size / 400..i * size / 400 + 1 + i % 900);
    let mut ranges: Vec<_> = many.map(|range| range.start..range.end.min(size)).collect();
    ranges.reverse();
    let half = size / 2;
    ranges.extend([half..size, 0..size, 7..half, 7..half, 0..0, size..size]);
    ranges
}

/// Reads ranges of all shapes, and compares each with the content.
fn check_reads(source: &dyn ByteSource, content: &[u8]) -> Result<(), IoError> {
    let ranges = shapes(content.len() as u64);
    let found = source.read_ranges(&ranges)?;
    assert_eq!(found.len(), ranges.len());
    for (range, found) in ranges.iter().zip(found) {
        let place = |place: u64| usize::try_from(place).unwrap();
        let expected = &content[place(range.start)..place(range.end)];
        assert!(found == expected, "{range:?} of {}", source.url());
    }
    Ok(())
}
