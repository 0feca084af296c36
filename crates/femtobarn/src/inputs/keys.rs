//! Matches entries by their keys, which are integer fields.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{ReadOptions, Reader, Tick};

use crate::ntuple::NTuple;

/// The keys of all entries of an ntuple.
pub(super) struct Keys {
    place: String,
    names: Vec<String>,
    /// Whether a field has unsigned integers of 64 bits.
    wide: Vec<bool>,
    /// The keys of all entries, concatenated.
    values: Vec<i128>,
}

impl Keys {
    fn key(&self, entry: u64) -> &[i128] {
        let n = self.names.len();
        let start = usize::try_from(entry)
            .unwrap_or(usize::MAX)
            .saturating_mul(n);
        self.values
            .get(start..start.saturating_add(n))
            .unwrap_or_default()
    }

    fn n_entries(&self) -> u64 {
        (self.values.len() / self.names.len().max(1)) as u64
    }

    /// The entries, sorted by their keys; equal keys in the order of the entries.
    fn sorted(&self) -> Vec<u64> {
        let mut order: Vec<u64> = (0..self.n_entries()).collect();
        order.sort_unstable_by(|&a, &b| self.key(a).cmp(self.key(b)).then(a.cmp(&b)));
        order
    }

    /// The first entry with a key.
    fn find(&self, order: &[u64], key: &[i128]) -> Option<u64> {
        let at = order.partition_point(|&entry| self.key(entry) < key);
        let entry = order.get(at).copied()?;
        (self.key(entry) == key).then_some(entry)
    }

    /// A key for messages.
    pub fn describe(&self, entry: u64) -> String {
        let parts = self.names.iter().zip(self.key(entry));
        let parts: Vec<String> = parts
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        parts.join(", ")
    }
}

/// Reads the keys of an ntuple.
///
/// # Errors
/// If a field does not exist or is not an integer per entry.
pub(super) fn keys_of(
    reader: &Arc<Reader>,
    on: &[String],
    threads: usize,
    tick: Tick<'_>,
) -> Result<Keys, RNTupleError> {
    let ntuple = NTuple::of(vec![reader.clone()]);
    keys_of_all(&ntuple, on, threads, Some(tick))
}

fn keys_of_all(
    ntuple: &NTuple,
    on: &[String],
    threads: usize,
    tick: Option<Tick<'_>>,
) -> Result<Keys, RNTupleError> {
    let selection = ntuple.select(Some(on)).map_err(|error| match error {
        RNTupleError::NoSuchField {
            url,
            ntuple,
            name,
            hint,
        } if name.contains(',') => RNTupleError::NoSuchField {
            hint: format!(
                "{hint}; give several names as a list, [\"a\", \"b\"], or in a shell as a,b"
            ),
            url,
            ntuple,
            name,
        },
        other => other,
    })?;
    let options = ReadOptions {
        threads,
        tick,
        ..ReadOptions::default()
    };
    let arrays = ntuple.read(&selection, 0..ntuple.n_entries(), &options)?;
    let batch = ntuple.to_arrow(&arrays)?;
    let place = ntuple.readers().first();
    let place = place.map_or_else(String::new, |reader| {
        format!("{}:{}", reader.url(), reader.path())
    });
    let mut columns = Vec::with_capacity(on.len());
    let mut wide = Vec::with_capacity(on.len());
    for name in on {
        let column = batch.column_by_name(name);
        wide.push(column.is_some_and(|column| *column.data_type() == DataType::UInt64));
        columns.push(column.and_then(integers).ok_or_else(|| {
            let what = format!(
                "{name:?} of {place} cannot be a key: it does not hold one integer per entry"
            );
            RNTupleError::Usage { what }
        })?);
    }
    let mut values = Vec::with_capacity(batch.num_rows().saturating_mul(on.len()));
    for entry in 0..batch.num_rows() {
        values.extend(columns.iter().filter_map(|column| column.get(entry)));
    }
    Ok(Keys {
        place,
        names: on.to_vec(),
        wide,
        values,
    })
}

fn integers(array: &ArrayRef) -> Option<Vec<i128>> {
    fn of<T: ArrowPrimitiveType<Native: Into<i128>>>(array: &ArrayRef) -> Option<Vec<i128>> {
        let values = array.as_primitive_opt::<T>()?.values();
        Some(values.iter().map(|&value| value.into()).collect())
    }
    if array.null_count() > 0 {
        return None;
    }
    match array.data_type() {
        DataType::Int8 => of::<Int8Type>(array),
        DataType::Int16 => of::<Int16Type>(array),
        DataType::Int32 => of::<Int32Type>(array),
        DataType::Int64 => of::<Int64Type>(array),
        DataType::UInt8 => of::<UInt8Type>(array),
        DataType::UInt16 => of::<UInt16Type>(array),
        DataType::UInt32 => of::<UInt32Type>(array),
        DataType::UInt64 => of::<UInt64Type>(array),
        _ => None,
    }
}

/// For each key, the matching entry of the other ntuple; `None` if there is none.
///
/// # Errors
/// If several entries of the other ntuple have the same key.
pub(super) fn match_keys(wanted: &Keys, others: &Keys) -> Result<Vec<Option<u64>>, RNTupleError> {
    if wanted.values == others.values {
        // if they are sorted, nothing needs sorting, unless a key is duplicated
        let is_rising = others
            .values
            .chunks(others.names.len().max(1))
            .is_sorted_by(|a, b| a < b);
        if is_rising {
            return Ok((0..wanted.n_entries()).map(Some).collect());
        }
    }
    let order = others.sorted();
    let equal = |pair: &&[u64]| matches!(pair, [a, b] if others.key(*a) == others.key(*b));
    if let Some(&[a, b]) = order.windows(2).find(equal) {
        let what = format!(
            "{} has a duplicate key in the entries {} and {} ({})",
            others.place,
            a.min(b),
            a.max(b),
            others.describe(a)
        );
        return Err(RNTupleError::Usage { what });
    }
    let find = |entry| others.find(&order, wanted.key(entry));
    Ok((0..wanted.n_entries()).map(find).collect())
}

/// Finds entries by the values of integer fields, such as run, luminosity block and event. Takes 8 bytes per entry, and
/// 16 more per field.
pub struct EntryIndex {
    keys: Keys,
    order: Vec<u64>,
}

impl EntryIndex {
    /// Reads the fields of all entries, and sorts them.
    ///
    /// # Errors
    /// If a field does not exist or is not an integer per entry, and errors of reading.
    pub fn new(ntuple: &NTuple, on: &[String], threads: usize) -> Result<Self, RNTupleError> {
        let keys = keys_of_all(ntuple, on, threads, None)?;
        let order = keys.sorted();
        Ok(Self { keys, order })
    }

    /// Number of fields.
    pub fn n_fields(&self) -> usize {
        self.keys.names.len()
    }

    /// The first entry with these values of the fields. Values of unsigned fields of 64 bits have the same bits.
    pub fn find(&self, values: &[i64]) -> Option<u64> {
        let each = values.iter().zip(&self.keys.wide);
        let key: Vec<i128> = each
            .map(|(&value, &wide)| match wide {
                true => value.cast_unsigned().into(),
                false => value.into(),
            })
            .collect();
        self.keys.find(&self.order, &key)
    }
}

/// Entries of the first ntuple, and the matching entries of the others.
pub(super) struct Matches {
    n_entries: u64,
    others: Vec<(Vec<Option<u64>>, u64)>,
}

impl Matches {
    pub fn new(n_entries: u64) -> Self {
        Self {
            n_entries,
            others: Vec::new(),
        }
    }

    /// Adds the matching entries of another ntuple with a given length.
    pub fn add(&mut self, found: Vec<Option<u64>>, n_entries: u64) {
        self.others.push((found, n_entries));
    }

    /// The first entry without a match, and the index of the ntuple that lacks it.
    pub fn first_without(&self) -> Option<(u64, usize)> {
        let each = self.others.iter().enumerate();
        let missing = each.filter_map(|(at, (found, _))| {
            let entry = found.iter().position(Option::is_none)?;
            Some((entry as u64, at))
        });
        missing.min()
    }

    /// For each ntuple, its entry numbers (`None` if all are in order), and how many entries are left out.
    pub fn finish(self) -> (Vec<Option<Vec<u64>>>, Vec<u64>) {
        let place = |entry: u64| usize::try_from(entry).unwrap_or(usize::MAX);
        let is_there = |entry: &u64| {
            let found = |found: &Vec<Option<u64>>| found.get(place(*entry)).copied().flatten();
            self.others.iter().all(|(all, _)| found(all).is_some())
        };
        let first: Vec<u64> = (0..self.n_entries).filter(is_there).collect();
        let mut unused = vec![self.n_entries - first.len() as u64];
        let mut entries = Vec::with_capacity(self.others.len() + 1);
        for (found, n_entries) in &self.others {
            let own = first
                .iter()
                .filter_map(|&entry| found.get(place(entry)).copied().flatten());
            let own: Vec<u64> = own.collect();
            let mut used = own.clone();
            used.sort_unstable();
            used.dedup();
            unused.push(n_entries - used.len() as u64);
            entries.push((own, *n_entries));
        }
        entries.insert(0, (first, self.n_entries));
        let is_all = |entries: &[u64], n: u64| {
            entries.len() as u64 == n && entries.iter().zip(0..).all(|(&a, b)| a == b)
        };
        let entries = entries.into_iter();
        let entries = entries.map(|(own, n)| (!is_all(&own, n)).then_some(own));
        (entries.collect(), unused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(values: &[[i128; 2]]) -> Keys {
        Keys {
            place: "f.root:t".to_owned(),
            names: vec!["run".to_owned(), "event".to_owned()],
            wide: vec![false; 2],
            values: values.concat(),
        }
    }

    #[test]
    fn entries_are_found_by_their_keys_in_any_order() {
        let wanted = keys(&[[1, 5], [1, 6], [2, 5]]);
        let others = keys(&[[2, 5], [1, 5], [9, 9]]);
        let found = match_keys(&wanted, &others).unwrap();
        assert_eq!(found, [Some(1), None, Some(0)]);
        let mut matches = Matches::new(3);
        matches.add(found, 3);
        assert_eq!(matches.first_without(), Some((1, 0)));
        let (entries, unused) = matches.finish();
        assert_eq!(entries, [Some(vec![0, 2]), Some(vec![1, 0])]);
        assert_eq!(unused, [1, 1]);
    }

    #[test]
    fn equal_keys_need_no_other_numbers_and_a_key_twice_is_an_error() {
        let wanted = keys(&[[1, 5], [1, 6]]);
        let mut matches = Matches::new(2);
        matches.add(match_keys(&wanted, &keys(&[[1, 5], [1, 6]])).unwrap(), 2);
        assert_eq!(matches.finish(), (vec![None, None], vec![0, 0]));
        let twice = keys(&[[1, 5], [1, 5]]);
        let message = match_keys(&wanted, &twice).err().unwrap().to_string();
        assert!(
            message.contains("entries 0 and 1 (run 1, event 5)"),
            "{message}"
        );
        assert!(match_keys(&twice, &twice).is_err());
    }
}
