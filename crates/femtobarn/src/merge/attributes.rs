//! Attribute sets: what is said of ranges of entries is said of the same entries in the output, which have other numbers there.

use std::ops::Range;

use arrow_array::UInt64Array;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::write::NTupleMerger;
use femtobarn_rootfile::FileWriter;

use super::{MergedInput, Others};
use crate::convert::Attributes;

/// The attribute sets of an ntuple of the output.
#[derive(Debug, Default)]
pub(super) struct AttributeSets {
    /// Those of which an input has something, and the first that has it.
    sets: Vec<(Attributes, String)>,
    /// The ntuple that is continued.
    before: Option<Reader>,
}

/// Where the entries of an input are in the output.
pub(super) struct Places {
    /// Those that are taken, in their order, and the entry of the output that is the first of each range.
    taken: Vec<(Range<u64>, u64)>,
    first: u64,
}

impl Places {
    /// Of the entries that are taken, from an entry of the output on.
    pub fn new(taken: Vec<Range<u64>>, first: u64) -> Self {
        let mut next = first;
        let taken = taken.into_iter().map(|entries| {
            let at = next;
            next += entries.end - entries.start;
            (entries, at)
        });
        Self {
            taken: taken.collect(),
            first,
        }
    }

    /// The entries of the output that are those of a range; none if none of them are taken.
    fn of(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let before = |entry: u64| {
            let n = self.taken.partition_point(|(taken, _)| taken.start < entry);
            let last = n.checked_sub(1).and_then(|at| self.taken.get(at));
            last.map_or(self.first, |(taken, at)| {
                at + (taken.end.min(entry) - taken.start)
            })
        };
        let place = before(range.start)..before(range.end);
        (range.is_empty() || !place.is_empty()).then_some(place)
    }
}

impl AttributeSets {
    /// Those of an ntuple that is continued.
    pub fn of(before: Reader) -> Self {
        Self {
            sets: Vec::new(),
            before: Some(before),
        }
    }

    /// Adds those of an input.
    ///
    /// # Errors
    /// If one cannot be written again, or has other fields than one of its name before.
    pub fn add(
        &mut self,
        reader: &Reader,
        places: &Places,
        others: Others,
        merged: &mut MergedInput,
    ) -> Result<(), RNTupleError> {
        for link in &reader.descriptor().attribute_sets {
            let label = format!("{} {}", reader.path(), link.name);
            if others == Others::Drop {
                merged.dropped.push((label, "attribute set".to_owned()));
                continue;
            }
            let name = link.name.as_str();
            let set = Attributes::read(reader, link);
            let mut set = set.map_err(|reason| refused(reader, name, &reason))?;
            let n_lost = set.place(places)?;
            if n_lost > 0 {
                let what = format!("{n_lost} ranges without entries of the attribute set");
                merged.dropped.push((label, what));
            }
            self.begin(name)?;
            match self.sets.iter_mut().find(|(known, _)| known.name == name) {
                None => self.sets.push((set, reader.url().to_owned())),
                Some((known, url)) => known.join(set).map_err(|_| {
                    let reason = format!("it has other fields than in {url}");
                    refused(reader, name, &reason)
                })?,
            }
        }
        Ok(())
    }

    /// Begins with what the ntuple had before, if it had such a set.
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
        file: &mut FileWriter,
        ntuple: &mut NTupleMerger,
    ) -> Result<(), RNTupleError> {
        for (set, _) in &self.sets {
            let what = (set.name.as_str(), set.fields.as_slice());
            ntuple.write_attribute_set(file, what, &set.ranges, &set.values)?;
        }
        Ok(())
    }
}

impl Attributes {
    /// Gives ranges the entries that they are in the output; those without any are taken out, and counted.
    fn place(&mut self, places: &Places) -> Result<usize, RNTupleError> {
        let placed = (0u64..).zip(&self.ranges);
        let placed = placed.filter_map(|(row, range)| Some((row, places.of(range)?)));
        let (rows, ranges): (Vec<u64>, Vec<Range<u64>>) = placed.unzip();
        let n_lost = self.ranges.len() - ranges.len();
        if n_lost > 0 {
            let values = take_record_batch(&self.values, &UInt64Array::from(rows));
            self.values = values.map_err(RNTupleError::internal)?;
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
            "the attribute set {name:?} of {}:{} cannot be merged: {reason}; leave attribute sets out with others=\"drop\" (--others drop)",
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
        let places = Places::new(vec![2..4, 7..8, 8..10], 100);
        assert_eq!(places.of(&(0..20)), Some(100..105));
        assert_eq!(places.of(&(3..8)), Some(101..103));
        assert_eq!(places.of(&(8..9)), Some(103..104));
        assert_eq!(places.of(&(4..7)), None);
        assert_eq!(places.of(&(0..2)), None);
        assert_eq!(places.of(&(12..30)), None);
        assert_eq!(places.of(&(7..7)), Some(102..102));
        assert_eq!(Places::new(Vec::new(), 9).of(&(0..5)), None);
    }
}
