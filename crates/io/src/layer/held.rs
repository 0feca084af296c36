//! A layer that keeps parts of a source in memory.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::coalesce::part_of;
use crate::source::check_answers;
use crate::{ByteSource, IoError, SourceInfo, Stage};

/// Serves ranges inside its held ranges from memory. Other ranges are passed on, in one vector read per call.
#[derive(Debug)]
pub struct HeldSource {
    inner: Arc<dyn ByteSource>,
    held: Vec<Held>,
}

impl HeldSource {
    /// Holds ranges with their bytes. A range is ignored if its bytes have another length.
    pub fn new(inner: Arc<dyn ByteSource>, mut held: Vec<(Range<u64>, Bytes)>) -> Self {
        held.retain(|(range, bytes)| {
            range.end.checked_sub(range.start) == Some(bytes.len() as u64)
        });
        Self { inner, held }
    }

    /// Reads `head` bytes at the start and `tail` bytes at the end of `inner`, or all of it as one range if it is not
    /// larger. Formats with metadata at both ends then open without further requests.
    ///
    /// # Errors
    /// If the read fails.
    pub fn with_ends(
        inner: Arc<dyn ByteSource>,
        head: u64,
        tail: u64,
    ) -> Result<Arc<Self>, IoError> {
        let size = inner.meta().size;
        let mut ranges = match head.checked_add(tail) {
            Some(both) if both < size => vec![0..head, size - tail..size],
            _ => vec![Range {
                start: 0,
                end: size,
            }],
        };
        ranges.retain(|range| !range.is_empty());
        let answers = if ranges.is_empty() {
            Vec::new()
        } else {
            inner.read_ranges(&ranges)?
        };
        check_answers(inner.url(), &ranges, &answers)?;
        let held = ranges.into_iter().zip(answers).collect();
        Ok(Arc::new(Self::new(inner, held)))
    }

    /// The bytes of `range` if they are held.
    fn held(&self, range: &Range<u64>) -> Option<Bytes> {
        let (_, bytes) = find_held(&self.held, range)?;
        Some(bytes)
    }
}

/// A range whose bytes are in memory.
pub(crate) type Held = (Range<u64>, Bytes);

/// The bytes of `range` if it is inside a held range, and the index of that range.
pub(crate) fn find_held(held: &[Held], range: &Range<u64>) -> Option<(usize, Bytes)> {
    let is_around = |(at, _): &Held| at.start <= range.start && range.end <= at.end;
    let number = held.iter().position(is_around)?;
    let (at, bytes) = held.get(number)?;
    Some((number, part_of(at, bytes, range)?))
}

/// The two ends of a source; one range if they touch.
pub(crate) fn joined_ends(head: Held, tail: Held) -> Vec<Held> {
    let before = tail.0.start.checked_sub(head.0.start);
    let meet = tail.0.start <= head.0.end && head.0.end <= tail.0.end;
    let before = before
        .filter(|_| meet)
        .and_then(|n| usize::try_from(n).ok());
    match before.and_then(|before| head.1.get(..before)) {
        Some(first) => vec![(head.0.start..tail.0.end, [first, &tail.1].concat().into())],
        None => vec![head, tail],
    }
}

impl ByteSource for HeldSource {
    fn info(&self) -> SourceInfo<'_> {
        self.inner.info()
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        Some(&*self.inner)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        let held: Vec<Option<Bytes>> = ranges.iter().map(|range| self.held(range)).collect();
        let missing: Vec<Range<u64>> = ranges
            .iter()
            .zip(&held)
            .filter(|(_, held)| held.is_none())
            .map(|(range, _)| range.clone())
            .collect();
        if missing.is_empty() {
            return Ok(held.into_iter().flatten().collect());
        }
        let answers = self.inner.read_ranges(&missing)?;
        check_answers(self.url(), &missing, &answers)?;
        let mut answers = answers.into_iter();
        Ok(held
            .into_iter()
            .filter_map(|held| held.or_else(|| answers.next()))
            .collect())
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<(), IoError> {
        let range = self.meta().range_at(self.url(), offset, buffer.len())?;
        match self.held(&range) {
            Some(bytes) => buffer.copy_from_slice(&bytes),
            None => self.inner.read_into(offset, buffer)?,
        }
        Ok(())
    }

    fn peek(&self, range: &Range<u64>) -> Option<Bytes> {
        self.held(range).or_else(|| self.inner.peek(range))
    }

    fn at_stage(&self, stage: Stage) -> Option<Arc<dyn ByteSource>> {
        Some(Arc::new(Self {
            inner: self.inner.at_stage(stage)?,
            held: self.held.clone(),
        }))
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        let missing: Vec<Range<u64>> = ranges
            .iter()
            .filter(|range| self.held(range).is_none())
            .cloned()
            .collect();
        if !missing.is_empty() {
            self.inner.will_need(&missing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemorySource, RecordSource};

    fn recorded() -> Arc<RecordSource> {
        RecordSource::new(MemorySource::new("mem:digits", b"0123456789".to_vec()))
    }

    #[test]
    fn head_and_tail_are_one_vector_read_and_then_cost_nothing() {
        let record = recorded();
        let source = HeldSource::with_ends(Arc::clone(&record) as _, 3, 4).unwrap();
        assert_eq!(record.log(), [vec![0..3, 6..10]]);
        record.clear();
        assert_eq!(source.read_ranges(&[0..3, 7..9]).unwrap(), ["012", "78"]);
        let mut two = [0; 2];
        source.read_into(8, &mut two).unwrap();
        assert_eq!(&two, b"89");
        assert!(record.log().is_empty());
    }

    #[test]
    fn only_what_is_missing_is_passed_on_in_one_vector_read() {
        let record = recorded();
        let source = HeldSource::with_ends(Arc::clone(&record) as _, 3, 4).unwrap();
        record.clear();
        assert_eq!(
            source.read_ranges(&[2..4, 0..1, 4..6, 9..10]).unwrap(),
            ["23", "0", "45", "9"]
        );
        assert_eq!(record.log(), [vec![2..4, 4..6]]);
    }

    #[test]
    fn a_small_source_is_read_whole() {
        for (head, tail) in [(5, 5), (100, 100), (u64::MAX, 1), (0, 10)] {
            let record = recorded();
            HeldSource::with_ends(Arc::clone(&record) as _, head, tail).unwrap();
            assert_eq!(record.log(), [vec![0..10]]);
        }
    }

    #[test]
    fn no_head_or_no_tail_is_not_asked_for() {
        let record = recorded();
        HeldSource::with_ends(Arc::clone(&record) as _, 0, 2).unwrap();
        HeldSource::with_ends(Arc::clone(&record) as _, 2, 0).unwrap();
        HeldSource::with_ends(Arc::clone(&record) as _, 0, 0).unwrap();
        assert_eq!(record.log(), [vec![8..10], vec![0..2]]);
    }

    #[test]
    fn ranges_that_are_known_are_not_read() {
        let record = recorded();
        let held = vec![
            (2..5, Bytes::from_static(b"234")),
            (6..9, Bytes::from_static(b"too long")),
        ];
        let source = HeldSource::new(Arc::clone(&record) as _, held);
        assert_eq!(source.read_ranges(&[3..5, 7..9]).unwrap(), ["34", "78"]);
        assert_eq!(record.log(), [vec![7..9]]);
    }
}
