//! The rules for every source and layer, as a test suite that gets a function for creating sources.

#![expect(
    clippy::cast_possible_truncation,
    reason = "a suite that knows its sizes"
)]

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::{ByteSource, IoError};

/// Creates a source with the given content.
pub type MakeSource<'a> = &'a dyn Fn(Bytes) -> Arc<dyn ByteSource>;

/// Runs the whole suite on sources from `make`.
///
/// # Panics
/// If a source breaks one of the rules.
pub fn check(make: MakeSource<'_>) {
    for size in [1, 2, 100, 4096, 100_000, 500_000] {
        let content = content(size);
        let source = make(content.clone());
        assert_eq!(
            source.meta().size,
            size as u64,
            "the size is that of the content"
        );
        assert!(!source.url().is_empty(), "a source has a name");
        reads_are_exact(&*source, &content);
        many_ranges_are_one_read(&*source, &content);
        reads_beyond_the_end_are_errors(&*source, size as u64);
        threads_can_read_at_once(&source, &content);
        hints_do_no_harm(&*source, &content);
        if let Some(map) = source.map() {
            assert_eq!(map, content, "the map is the content");
        }
        costs_are_usable(&*source);
    }
    an_empty_source_has_nothing_to_read(&*make(Bytes::new()));
}

/// Bytes without short periods, so that a read from a wrong position is detected.
fn content(size: usize) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(size).collect()
}

fn reads_are_exact(source: &dyn ByteSource, content: &Bytes) {
    let size = content.len() as u64;
    let (third, half) = (size / 3, size / 2);
    // Unsorted, overlapping, equal, empty, up to the last byte.
    let ranges = [
        half..size,
        0..size,
        third..half,
        third..half,
        0..1,
        size - 1..size,
        0..0,
        size..size,
        0..half,
    ];
    let answers = source.read_ranges(&ranges).unwrap();
    assert_eq!(answers.len(), ranges.len(), "an answer for each range");
    for (range, answer) in ranges.iter().zip(&answers) {
        assert_eq!(
            answer,
            &content[as_usize(range)],
            "the bytes of {range:?} of {size}"
        );
        let mut buffer = vec![0xAA; answer.len()];
        source.read_into(range.start, &mut buffer).unwrap();
        assert_eq!(
            &buffer, answer,
            "reading {range:?} into memory gives the same"
        );
    }
    assert!(
        source.read_ranges(&[]).unwrap().is_empty(),
        "no range, no answer"
    );
}

/// Thousands of ranges in any order, some of them equal, overlapping or empty; a few hundred are beyond the end.
fn many_ranges_are_one_read(source: &dyn ByteSource, content: &Bytes) {
    let size = content.len() as u64;
    let count = if size > 100_000 { 300 } else { 3000 };
    let range = |i: u64| {
        let start = i * 7919 % size;
        start..size.min(start + i % 40)
    };
    let ranges: Vec<Range<u64>> = (0..count).map(range).collect();
    let answers = source.read_ranges(&ranges).unwrap();
    assert_eq!(answers.len(), ranges.len(), "an answer for each range");
    for (range, answer) in ranges.iter().zip(&answers) {
        assert_eq!(answer, &content[as_usize(range)], "{range:?} of {size}");
    }
}

fn reads_beyond_the_end_are_errors(source: &dyn ByteSource, size: u64) {
    for range in [
        0..size + 1,
        size..size + 1,
        size - 1..size + 1,
        size + 5..size + 7,
        0..u64::MAX,
    ] {
        let Err(error) = source.read_ranges(&[0..1, range.clone()]) else {
            panic!("{range:?} of {size} bytes could be read");
        };
        let IoError::OutOfRange {
            url,
            offset,
            expected,
            found,
            ..
        } = &error
        else {
            panic!("{range:?} of {size} bytes: another error was expected: {error}");
        };
        assert_eq!((url.as_str(), *offset), (source.url(), range.start));
        assert_eq!(
            (*expected, *found),
            (range.end - range.start, size.saturating_sub(range.start))
        );
    }
    let inverted = Range { start: 1, end: 0 };
    assert_eq!(
        source.read_ranges(&[inverted]).unwrap_err().kind(),
        "inverted-range"
    );
    for offset in [size, size + 1, u64::MAX] {
        assert_eq!(
            source.read_into(offset, &mut [0]).unwrap_err().kind(),
            "read-out-of-range"
        );
    }
}

fn threads_can_read_at_once(source: &Arc<dyn ByteSource>, content: &Bytes) {
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            scope.spawn(move || {
                for step in 0..50 {
                    let start = (thread * 7919 + step * 104_729) % content.len();
                    let end = content.len().min(start + 1 + step * 13);
                    let answer = source.read_ranges(&[start as u64..end as u64]).unwrap();
                    assert_eq!(answer[0], content[start..end]);
                }
            });
        }
    });
}

fn hints_do_no_harm(source: &dyn ByteSource, content: &Bytes) {
    let size = content.len() as u64;
    source.will_need(&[
        0..size,
        size / 2..size,
        size..size + 100,
        u64::MAX - 1..u64::MAX,
        Range { start: 9, end: 3 },
    ]);
    source.will_need(&[]);
    assert_eq!(source.read_ranges(&[0..size]).unwrap()[0], content);
}

fn costs_are_usable(source: &dyn ByteSource) {
    let cost = source.cost();
    assert!(
        cost.largest_request > 0 && cost.most_ranges > 0 && cost.concurrency > 0,
        "{cost:?}"
    );
}

fn an_empty_source_has_nothing_to_read(source: &dyn ByteSource) {
    assert_eq!(source.meta().size, 0);
    assert_eq!(source.read_ranges(&[0..0]).unwrap(), [Bytes::new()]);
    source.read_into(0, &mut []).unwrap();
    assert_eq!(
        source.read_ranges(&[0..1]).unwrap_err().kind(),
        "read-out-of-range"
    );
    assert!(source.map().is_none_or(|map| map.is_empty()));
}

fn as_usize(range: &Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}

mod tests {
    use std::io::Write;

    use super::*;
    use crate::{HeldSource, LocalSource, MemorySource, RecordSource};

    fn local(content: &Bytes) -> Arc<dyn ByteSource> {
        // The file is gone once this returns; the source holds it open.
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        LocalSource::open(file.path()).unwrap()
    }

    #[test]
    fn local_files_conform() {
        check(&|content| local(&content));
    }

    #[test]
    fn memory_conforms() {
        check(&|content| MemorySource::new("mem:test", content));
    }

    #[test]
    fn the_record_layer_conforms() {
        check(&|content| RecordSource::new(local(&content)));
    }

    #[test]
    fn the_layer_of_held_ends_conforms() {
        for (head, tail) in [(0, 0), (10, 20), (1, 50_000), (1 << 20, 1 << 20)] {
            check(&|content| HeldSource::with_ends(local(&content), head, tail).unwrap());
            check(&|content| {
                HeldSource::with_ends(MemorySource::new("mem:test", content), head, tail).unwrap()
            });
        }
    }

    #[test]
    fn layers_on_layers_conform() {
        check(&|content| {
            let record = RecordSource::new(local(&content));
            HeldSource::with_ends(HeldSource::with_ends(record, 30, 30).unwrap(), 10, 100).unwrap()
        });
    }
}
