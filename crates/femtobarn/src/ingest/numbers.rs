//! The numbers of events: from fields, or given.

use std::collections::HashMap;

use arrow_array::{Array, ArrayRef, RecordBatch, downcast_integer_array};
use femtobarn_events::ABSENT;
use femtobarn_rntuple::schema::DType;

use super::IngestOptions;
use super::columns::Column;
use super::open::place;
use super::steps::Steps;
use crate::ntuple::NTuple;
use crate::transfer::{NUMBERS, TransferError, joined, quoted};

/// The fields of NanoAOD.
const USUAL: [&str; 3] = ["run", "luminosityBlock", "event"];

/// Bytes of numbers that are read together.
const STEP: u64 = 32 << 20;

/// Where one of the three numbers of events comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Number {
    /// A field.
    Field(String),
    /// The same number for all events; for `event`, that of the first one.
    Given(u128),
}

impl Number {
    fn of(text: &str) -> Self {
        match is_number(text) {
            true => Self::Given(text.parse().unwrap_or(u128::MAX)),
            false => Self::Field(text.to_owned()),
        }
    }

    /// The name of the field, if it is one.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Field(name) => Some(name),
            Self::Given(_) => None,
        }
    }
}

/// Whether a source of numbers is a number itself.
pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a type is an integer.
pub(super) fn is_integer(type_name: &str) -> bool {
    let mut numbers = DType::ALL.iter();
    numbers.any(|number| {
        !number.is_float() && *number != DType::Bool && number.type_name() == type_name
    })
}

/// The sources of run, subrun and event.
pub(super) fn find(
    ntuple: &NTuple,
    columns: &[Column],
    options: &IngestOptions,
) -> Result<[Number; 3], TransferError> {
    let wanted: [&str; 3] = std::array::from_fn(|i| {
        options
            .numbers
            .get(i)
            .and_then(|n| n.as_deref())
            .or(USUAL.get(i).copied())
            .unwrap_or("")
    });
    let recorded = NUMBERS.map(|number| {
        let own = columns
            .iter()
            .find(|column| column.number.as_deref() == Some(number));
        own.map(|column| Number::Field(column.field.clone()))
    });
    if let ([Some(run), Some(subrun), Some(event)], true) = (recorded, wanted == USUAL) {
        return Ok([run, subrun, event]);
    }
    let types: HashMap<&str, &str> = columns
        .iter()
        .map(|column| (column.field.as_str(), column.kind.name.as_str()))
        .collect();
    let numbers = wanted.map(Number::of);
    let fields: Vec<&str> = numbers.iter().filter_map(Number::field).collect();
    let mut different = fields.clone();
    different.sort_unstable();
    different.dedup();
    if different.len() < fields.len() {
        let given = joined(wanted.iter().map(|name| quoted(name)));
        return Err(TransferError::usage(format!(
            "give run, subrun and event as three fields or numbers, not ({given})"
        )));
    }
    let sources = || {
        NUMBERS
            .iter()
            .copied()
            .zip(&numbers)
            .filter_map(|(n, one)| Some((n, one.field()?)))
    };
    let missing: Vec<_> = sources()
        .filter(|(_, name)| !types.contains_key(name))
        .collect();
    if !missing.is_empty() {
        return Err(without(ntuple, &missing, columns, options));
    }
    for (number, name) in sources() {
        let type_name = types.get(name).copied().unwrap_or_default();
        if !is_integer(type_name) {
            return Err(TransferError::usage(format!(
                "{}: field {} is {type_name}, but numbers of {number}s must be integers; name the field with {}",
                place(ntuple),
                quoted(name),
                options.words.name(number)
            )));
        }
    }
    Ok(numbers)
}

/// The error that lists all missing fields.
fn without(
    ntuple: &NTuple,
    missing: &[(&str, &str)],
    columns: &[Column],
    options: &IngestOptions,
) -> TransferError {
    let there: Vec<&str> = columns.iter().map(|column| column.field.as_str()).collect();
    let fields = missing.iter().map(|(number, name)| {
        let mut near: Vec<String> = femtobarn_io::nearest(name, there.iter().copied());
        near.truncate(3);
        let alike = there
            .iter()
            .filter(|one| one.to_lowercase().contains(number));
        let alike: Vec<&str> = alike
            .copied()
            .filter(|one| !near.iter().any(|n| n == one))
            .take(3)
            .collect();
        near.extend(alike.into_iter().map(str::to_owned));
        let hint = match near.is_empty() {
            true => String::new(),
            false => format!(
                " (did you mean {}?)",
                joined(near.iter().map(|name| quoted(name)))
            ),
        };
        format!(
            "no field {}{hint} for the number of the {number}",
            quoted(name)
        )
    });
    let ways = missing.iter().map(|(number, _)| {
        let what = match *number {
            "event" => "the number of the first entry",
            _ => "a number for all entries",
        };
        format!(
            "name the field with {}, or give {what}",
            options.words.name(number)
        )
    });
    let [fields, ways] = [fields.collect::<Vec<_>>(), ways.collect()].map(|texts| texts.join("; "));
    TransferError::new(
        "key-not-found",
        format!("{}: there is {fields}; {ways}", place(ntuple)),
    )
}

/// The event numbers of a batch whose first entry is `start`.
pub(super) fn of_batch(
    ntuple: &NTuple,
    numbers: &[Number; 3],
    batch: &RecordBatch,
    start: u64,
) -> Result<[Vec<u64>; 3], TransferError> {
    let n = batch.num_rows();
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    for ((argument, number), own) in NUMBERS.iter().zip(numbers).zip(&mut all) {
        *own = match number {
            Number::Given(first) => given(ntuple, argument, *first, start, n)?,
            Number::Field(name) => {
                let column = batch.column_by_name(name);
                let values = column.and_then(integers).unwrap_or_default();
                checked(ntuple, argument, name, &values)?
            }
        };
    }
    Ok(all)
}

fn given(
    ntuple: &NTuple,
    argument: &str,
    number: u128,
    start: u64,
    n: usize,
) -> Result<Vec<u64>, TransferError> {
    let is_counted = argument == "event";
    let n_entries = if is_counted { ntuple.n_entries() } else { 0 };
    let first = u64::try_from(number).ok().filter(|first| {
        first
            .checked_add(n_entries)
            .is_some_and(|last| last != ABSENT)
    });
    let Some(first) = first else {
        return Err(TransferError::usage(format!(
            "{}: {argument}={number} is reserved for a missing {argument}",
            place(ntuple)
        )));
    };
    Ok(match is_counted {
        true => (first.saturating_add(start)..).take(n).collect(),
        false => vec![first; n],
    })
}

pub(super) fn integers(array: &ArrayRef) -> Option<Vec<i128>> {
    let array: &dyn Array = array;
    Some(downcast_integer_array!(
        array => array.values().iter().map(|value| i128::from(*value)).collect(),
        _ => return None
    ))
}

fn checked(
    ntuple: &NTuple,
    argument: &str,
    name: &str,
    values: &[i128],
) -> Result<Vec<u64>, TransferError> {
    let bad = |what: String| {
        TransferError::usage(format!(
            "{}: field {} holds {what}",
            place(ntuple),
            quoted(name)
        ))
    };
    if let Some(least) = values.iter().min().filter(|least| **least < 0) {
        return Err(bad(format!(
            "{least}: numbers of {argument}s must not be negative"
        )));
    }
    let numbers = values
        .iter()
        .map(|value| u64::try_from(*value).unwrap_or(ABSENT));
    let numbers: Vec<u64> = numbers.collect();
    match numbers.contains(&ABSENT) {
        true => Err(bad(format!(
            "{ABSENT}, which is reserved for a missing {argument}"
        ))),
        false => Ok(numbers),
    }
}

/// A number of 64 bits for an event, which is rarely that of another.
fn mixed(numbers: [u64; 3]) -> u64 {
    numbers.iter().fold(0, |mixed: u64, number| {
        let mixed = (mixed ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 32)
    })
}

/// Raises if two entries are one event. Takes 8 bytes of memory for each entry.
pub(super) fn check_different(
    ntuple: &std::sync::Arc<NTuple>,
    numbers: &[Number; 3],
    options: &IngestOptions,
    waiting: &mut dyn FnMut() -> bool,
) -> Result<(), TransferError> {
    check_different_by(mixed, ntuple, numbers, options, waiting)
}

fn check_different_by(
    mixed: fn([u64; 3]) -> u64,
    ntuple: &std::sync::Arc<NTuple>,
    numbers: &[Number; 3],
    options: &IngestOptions,
    waiting: &mut dyn FnMut() -> bool,
) -> Result<(), TransferError> {
    let mut hashes = Vec::with_capacity(usize::try_from(ntuple.n_entries()).unwrap_or(0));
    each(ntuple, numbers, options, waiting, &mut |_, event| {
        hashes.push(mixed(event));
        Ok(())
    })?;
    hashes.sort_unstable();
    let pairs = hashes.windows(2);
    let mut twice: Vec<u64> = pairs
        .filter_map(|pair| match pair {
            [a, b] if a == b => Some(*a),
            _ => None,
        })
        .collect();
    twice.dedup();
    if twice.is_empty() {
        return Ok(());
    }
    // different events may have one hash
    let mut seen: HashMap<[u64; 3], u64> = HashMap::new();
    each(ntuple, numbers, options, waiting, &mut |entry, event| {
        if twice.binary_search(&mixed(event)).is_err() {
            return Ok(());
        }
        let Some(first) = seen.insert(event, entry) else {
            return Ok(());
        };
        let names = numbers.each_ref().map(|number| match number {
            Number::Field(name) => name.clone(),
            Number::Given(number) => number.to_string(),
        });
        let ([run, subrun, event], [runs, subruns, events]) = (event, &names);
        Err(TransferError::usage(format!(
            "{}: entries {first} and {entry} are both {events} {event} of {runs} {run}, {subruns} {subrun}: a store \
             can have each event only once",
            place(ntuple)
        )))
    })
}

/// Calls a function with each entry and its numbers.
fn each(
    ntuple: &std::sync::Arc<NTuple>,
    numbers: &[Number; 3],
    options: &IngestOptions,
    waiting: &mut dyn FnMut() -> bool,
    found: &mut dyn FnMut(u64, [u64; 3]) -> Result<(), TransferError>,
) -> Result<(), TransferError> {
    let fields: Vec<String> = numbers
        .iter()
        .filter_map(Number::field)
        .map(str::to_owned)
        .collect();
    let mut steps = Steps::new(ntuple, &fields, STEP, options)?;
    let mut entry = 0;
    while let Some(batch) = steps.next(waiting)? {
        let [runs, subruns, events] = of_batch(ntuple, numbers, &batch, entry)?;
        for ((run, subrun), event) in runs.into_iter().zip(subruns).zip(events) {
            found(entry, [run, subrun, event])?;
            entry += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use femtobarn_rntuple::write::{NTupleWriter, WriteOptions};

    use super::*;
    use crate::open::OpenOptions;

    /// An ntuple with these runs and events.
    fn written(folder: &std::path::Path, runs: [i64; 3], events: [i64; 3]) -> Arc<NTuple> {
        let path = folder.join("a.root");
        let path = path.to_str().unwrap();
        let column = |values: [i64; 3]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        let columns = [
            ("run", runs),
            ("luminosityBlock", [7, 7, 1]),
            ("event", events),
        ];
        let columns = columns.map(|(name, values)| (name, column(values)));
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut file = crate::create_file(path, 505).unwrap();
        let options = WriteOptions::default();
        let mut writer =
            NTupleWriter::from_arrow(&mut file, 0, "Events", &batch.schema(), options).unwrap();
        writer.extend(&mut file, &batch).unwrap();
        writer.finish(&mut file).unwrap();
        file.finish().unwrap();
        Arc::new(NTuple::open_files(&[path], OpenOptions::default()).unwrap())
    }

    #[test]
    fn different_events_of_one_hash_are_different() {
        let folder = tempfile::tempdir().unwrap();
        let check = |runs, events| {
            let (ntuple, numbers) = (written(folder.path(), runs, events), USUAL.map(Number::of));
            check_different_by(
                |_| 0,
                &ntuple,
                &numbers,
                &IngestOptions::default(),
                &mut || true,
            )
        };
        check([1, 1, 2], [5, 4, 9]).unwrap();
        // of two subruns
        check([1, 1, 1], [5, 4, 5]).unwrap();
        let error = check([1, 1, 1], [5, 5, 4]).unwrap_err().to_string();
        assert!(
            error.contains("entries 0 and 1 are both event 5 of run 1, luminosityBlock 7"),
            "{error}"
        );
    }

    #[test]
    fn integers_are_known_by_their_types() {
        assert!(
            ["std::int8_t", "std::uint64_t"]
                .iter()
                .all(|name| is_integer(name))
        );
        assert!(
            !["std::int128_t", "int", "double", "std::uuint8_t"]
                .iter()
                .any(|name| is_integer(name))
        );
    }
}
