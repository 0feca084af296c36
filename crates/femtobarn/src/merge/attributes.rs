//! Attribute sets: attributes of ranges of entries are mapped to the same entries in the output, which have other
//! numbers there.

use std::ops::Range;

use arrow_array::UInt64Array;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::spec::LinkedAttributeSet;
use femtobarn_rntuple::write::{NTupleMerger, PageSink};

use super::MergedInput;
use crate::convert::{Attributes, left_set};
use crate::inputs::{OtherObjects, joined};

/// The attribute sets of an ntuple of the output.
#[derive(Debug, Default)]
pub(super) struct AttributeSets {
    /// Attribute sets of the inputs, with the first input that has each.
    sets: Vec<(Attributes, String)>,
    /// The ntuple that is continued.
    before: Option<Reader>,
}

/// Where the entries of an input are in the output.
pub(super) enum Places {
    /// They keep their order.
    InOrder {
        /// Those that are taken, in their order, and the entry of the output that is the first of each range.
        taken: Vec<(Range<u64>, u64)>,
        first: u64,
    },
    /// They may be in any order, and there several times: entries with the matching entries of the output, sorted.
    InAnyOrder(Vec<(u64, u64)>),
}

impl Places {
    /// Of entries by the numbers that they have in the input, from the first entry of the output on.
    pub fn of_entries(entries: &[u64]) -> Self {
        if entries.is_sorted_by(|a, b| a < b) {
            return Self::new(joined(entries.iter().map(|&entry| entry..entry + 1)), 0);
        }
        let mut places: Vec<(u64, u64)> = entries.iter().copied().zip(0..).collect();
        places.sort_unstable();
        Self::InAnyOrder(places)
    }

    /// Of the entries that are taken, from an entry of the output on.
    pub fn new(taken: Vec<Range<u64>>, first: u64) -> Self {
        let mut next = first;
        let taken = taken.into_iter().map(|entries| {
            let at = next;
            next += entries.end - entries.start;
            (entries, at)
        });
        Self::InOrder {
            taken: taken.collect(),
            first,
        }
    }

    /// The entries of the output for a range; none if none of them are taken. The error is that they are not adjacent.
    fn of(&self, range: &Range<u64>) -> Result<Option<Range<u64>>, String> {
        let (taken, first) = match self {
            Self::InOrder { taken, first } => (taken, *first),
            Self::InAnyOrder(places) => return of_any(places, range),
        };
        let before = |entry: u64| {
            let n = taken.partition_point(|(taken, _)| taken.start < entry);
            let last = n.checked_sub(1).and_then(|at| taken.get(at));
            last.map_or(first, |(taken, at)| {
                at + (taken.end.min(entry) - taken.start)
            })
        };
        let place = before(range.start)..before(range.end);
        Ok((range.is_empty() || !place.is_empty()).then_some(place))
    }
}

/// The same where entries may be in any order. An empty range is at the position of the entry after it.
fn of_any(places: &[(u64, u64)], range: &Range<u64>) -> Result<Option<Range<u64>>, String> {
    let start = places.partition_point(|&(entry, _)| entry < range.start);
    if range.is_empty() {
        let next = places.get(start).map(|&(_, place)| place..place);
        return Ok(next);
    }
    let end = places.partition_point(|&(entry, _)| entry < range.end);
    let own = places.get(start..end).unwrap_or_default();
    let each = own.iter().map(|&(_, place)| place);
    let (Some(first), Some(last)) = (each.clone().min(), each.max()) else {
        return Ok(None);
    };
    // one position belongs to one entry only
    if last - first == own.len() as u64 - 1 {
        return Ok(Some(first..last + 1));
    }
    let Range { start, end } = range;
    Err(format!(
        "the entries from {start} to {end} that it refers to are not adjacent in the output"
    ))
}

impl AttributeSets {
    /// Those of an ntuple that is continued.
    pub fn of(before: Reader) -> Self {
        Self {
            sets: Vec::new(),
            before: Some(before),
        }
    }

    /// Adds the attributes of an input.
    ///
    /// # Errors
    /// If one cannot be written again, or has other fields than one of its name before.
    pub fn add(
        &mut self,
        reader: &Reader,
        places: &Places,
        others: OtherObjects,
        merged: &mut MergedInput,
    ) -> Result<(), RNTupleError> {
        for link in &reader.descriptor().attribute_sets {
            let name = link.name.as_str();
            let Some(set) = placed(reader, link, places, others, merged)? else {
                continue;
            };
            self.begin(name)?;
            match self.sets.iter_mut().find(|(known, _)| known.name == name) {
                None => self.sets.push((set, reader.url().to_owned())),
                Some((known, url)) => known.join(set).map_err(|_| {
                    let reason = format!("its fields differ from {url}");
                    refused(reader, name, &reason)
                })?,
            }
        }
        Ok(())
    }

    /// Adds the attributes of an input whose entries are the same as those of the inputs before.
    ///
    /// # Errors
    /// If one cannot be written again, or another that is not equal has its name.
    pub fn add_beside(
        &mut self,
        reader: &Reader,
        places: &Places,
        others: OtherObjects,
        merged: &mut MergedInput,
    ) -> Result<(), RNTupleError> {
        for link in &reader.descriptor().attribute_sets {
            let Some(set) = placed(reader, link, places, others, merged)? else {
                continue;
            };
            match self.sets.iter().find(|(known, _)| known.name == set.name) {
                None => self.sets.push((set, reader.url().to_owned())),
                // as parts of one ntuple have it
                Some((known, _)) if *known == set => {}
                Some(_) if others == OtherObjects::First => {
                    merged.left.push(left_set(reader, link, others.why_left()))
                }
                Some((_, url)) => {
                    let reason = format!(
                        "{url} has another one with this name, which others=\"first\" (--others first) uses"
                    );
                    return Err(refused(reader, &link.name, &reason));
                }
            }
        }
        Ok(())
    }

    /// Starts with the existing attribute set of the ntuple, if there is one.
    fn begin(&mut self, name: &str) -> Result<(), RNTupleError> {
        let is_known = self.sets.iter().any(|(known, _)| known.name == name);
        if let Some(reader) = self.before.as_ref().filter(|_| !is_known) {
            let mut links = reader.descriptor().attribute_sets.iter();
            if let Some(link) = links.find(|link| link.name == name) {
                let set = Attributes::read(reader, link);
                let set = set.map_err(|reason| refused(reader, name, &reason))?;
                self.sets.push((set, reader.url().to_owned()));
            }
        }
        Ok(())
    }

    /// Writes them. All entries must be there.
    pub fn write(
        &self,
        sink: &mut dyn PageSink,
        ntuple: &mut NTupleMerger,
    ) -> Result<(), RNTupleError> {
        for (set, _) in &self.sets {
            let what = (set.name.as_str(), set.fields.as_slice());
            ntuple.write_attribute_set(sink, what, &set.ranges, &set.values)?;
        }
        Ok(())
    }
}

/// An attribute set with the entries of the output; none if it is left out, as reported then.
fn placed(
    reader: &Reader,
    link: &LinkedAttributeSet,
    places: &Places,
    others: OtherObjects,
    merged: &mut MergedInput,
) -> Result<Option<Attributes>, RNTupleError> {
    if others == OtherObjects::Drop {
        merged.left.push(left_set(reader, link, others.why_left()));
        return Ok(None);
    }
    let refused = |reason: String| refused(reader, &link.name, &reason);
    let mut set = Attributes::read(reader, link).map_err(refused)?;
    let n_lost = set.place(places).map_err(refused)?;
    if n_lost > 0 {
        let reason = format!("{n_lost} of its ranges have no entries in the output");
        merged.left.push(left_set(reader, link, &reason));
    }
    Ok(Some(set))
}

impl Attributes {
    /// Gives ranges the entries that they are in the output; those without any are taken out, and counted. The error is why
    /// one cannot be given any.
    fn place(&mut self, places: &Places) -> Result<usize, String> {
        let (mut rows, mut ranges) = (Vec::new(), Vec::with_capacity(self.ranges.len()));
        for (row, range) in (0u64..).zip(&self.ranges) {
            if let Some(place) = places.of(range)? {
                rows.push(row);
                ranges.push(place);
            }
        }
        let n_lost = self.ranges.len() - ranges.len();
        if n_lost > 0 {
            let values = take_record_batch(&self.values, &UInt64Array::from(rows));
            self.values = values.map_err(|error| error.to_string())?;
        }
        self.ranges = ranges;
        Ok(n_lost)
    }

    /// Adds the rows of another one. The error is that it has other fields.
    fn join(&mut self, other: Self) -> Result<(), ()> {
        if self.fields != other.fields || self.values.schema() != other.values.schema() {
            return Err(());
        }
        let both = concat_batches(&self.values.schema(), [&self.values, &other.values]);
        self.values = both.map_err(|_| ())?;
        self.ranges.extend(other.ranges);
        Ok(())
    }
}

fn refused(reader: &Reader, name: &str, reason: &str) -> RNTupleError {
    RNTupleError::Usage {
        what: format!(
            "cannot merge the attribute set {name:?} of {}:{}: {reason}; drop attribute sets with others=\"drop\" \
             (--others drop)",
            reader.url(),
            reader.path()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_the_entries_that_are_left_of_them() {
        let by_number = Places::of_entries(&[2, 3, 7, 8, 9]);
        for (places, first) in [
            (Places::new(vec![2..4, 7..8, 8..10], 100), 100),
            (by_number, 0),
        ] {
            let of = |range| places.of(&range).unwrap();
            let at = |start: u64, end: u64| Some(first + start..first + end);
            assert_eq!(of(0..20), at(0, 5));
            assert_eq!(of(3..8), at(1, 3));
            assert_eq!(of(8..9), at(3, 4));
            assert_eq!(of(4..7), None);
            assert_eq!(of(0..2), None);
            assert_eq!(of(12..30), None);
            assert_eq!(of(7..7), at(2, 2));
        }
        assert_eq!(Places::new(Vec::new(), 9).of(&(0..5)), Ok(None));
        assert_eq!(Places::of_entries(&[]).of(&(0..5)), Ok(None));
    }

    #[test]
    fn entries_in_another_order_are_a_range_if_they_are_in_one_place() {
        let places = Places::of_entries(&[7, 6, 6, 8, 1, 3]);
        let of = |range| places.of(&range).unwrap();
        assert_eq!(of(6..9), Some(0..4));
        assert_eq!(of(6..7), Some(1..3));
        assert_eq!(of(1..5), Some(4..6));
        assert_eq!(of(4..6), None);
        assert_eq!(of(3..3), Some(5..5));
        assert_eq!(of(9..9), None);
        let message = places.of(&(3..8)).unwrap_err();
        assert!(message.contains("entries from 3 to 8"), "{message}");
    }
}
