//! The entries of a basket: counts and values.

use std::ops::Range;

use femtobarn_rntuple::schema::DType;

use super::job::{Offsets, Opened};
use super::op::Op;
use super::values::{Decoder, Sink};
use crate::TreeError;
use crate::cursor::Cursor;
use crate::interp::{ListWire, Number, RecordWire};

pub(super) fn expect(found: usize, expected: Option<usize>) -> Result<(), TreeError> {
    match expected {
        Some(expected) if expected == found => Ok(()),
        expected => {
            let expected = expected.map_or("a valid size".into(), |n| n.to_string());
            Err(Cursor::new(&[]).corrupt("bytes of the values", expected, found))
        }
    }
}

/// Checks that entries begin where their counter says, if the basket has offsets.
pub(super) fn check_offsets(
    opened: Opened<'_>,
    n: usize,
    byte: &impl Fn(usize) -> Option<usize>,
) -> Result<(), TreeError> {
    if matches!(opened.offsets, Offsets::None) {
        return Ok(());
    }
    for entry in 0..n {
        let (expected, found) = (byte(entry), opened.offsets.get(entry));
        if found.is_some() && found != expected {
            let expected = format!("byte {}, according to its counter", expected.unwrap_or(0));
            let what = "beginning of an entry";
            return Err(Cursor::new(&[]).corrupt(what, expected, found.unwrap_or(0)));
        }
    }
    Ok(())
}

pub(super) fn counts(
    number: Number,
    values: Option<&[u8]>,
    out: &mut [u64],
) -> Result<(), TreeError> {
    let size = number.size().unwrap_or(4);
    let values = values.unwrap_or_default().chunks_exact(size);
    for (bytes, out) in values.zip(out) {
        let is_signed = matches!(
            number.dtype,
            DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64
        );
        let is_negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
        let value = bytes
            .iter()
            .fold(0u64, |sum, &byte| (sum << 8) | u64::from(byte));
        if is_signed && is_negative {
            // ROOT treats a negative number of items as zero
            *out = 0;
        } else {
            *out = value;
        }
    }
    Ok(())
}

/// The sizes of a basket's entries, if it has offsets.
pub(super) fn lengths(
    opened: Opened<'_>,
    size: usize,
    wanted: Range<usize>,
    n: usize,
    counts: &mut [u64],
) -> Result<(), TreeError> {
    for (entry, count) in wanted.zip(counts) {
        let end = match entry + 1 < n {
            true => opened.offsets.get(entry + 1),
            false => Some(opened.values.len()),
        };
        let (Some(start), Some(end)) = (opened.offsets.get(entry), end) else {
            return Ok(());
        };
        let length = end.checked_sub(start).filter(|n| n.is_multiple_of(size));
        let length = length.map(|n| (n / size.max(1)) as u64);
        match length.filter(|length| length <= count) {
            Some(length) => *count = length,
            None => {
                let what = "place of an entry";
                let expected = format!("at most {count} items of {size} bytes");
                return Err(Cursor::new(&[]).corrupt(what, expected, format!("{start}..{end}")));
            }
        }
    }
    Ok(())
}

/// Decodes all entries of a basket, which begin at `offsets` or are contiguous.
pub(crate) fn decode_entries(
    op: &Op,
    sinks: &mut [Sink],
    values: &[u8],
    offsets: Option<&[u32]>,
    n: usize,
) -> Result<(), TreeError> {
    let offsets = offsets.map_or(Offsets::None, Offsets::Known);
    let opened = Opened { values, offsets };
    pieces(op, None, &|_| &[], sinks, opened, 0..n, n)
}

/// Decodes entries into sinks. `lengths` are those of lists whose lengths are in another branch.
pub(super) fn pieces<'l>(
    op: &Op,
    fixed: Option<usize>,
    lengths: &dyn Fn(usize) -> &'l [u64],
    sinks: &mut [Sink],
    opened: Opened<'_>,
    wanted: Range<usize>,
    n: usize,
) -> Result<(), TreeError> {
    let values = opened.values;
    let is_rest = matches!(
        op,
        Op::List {
            wire: ListWire::Rest | ListWire::Marked,
            ..
        } | Op::Record {
            wire: RecordWire::Maybe { .. },
            ..
        }
    );
    let known = !matches!(opened.offsets, Offsets::None);
    let even = match fixed {
        Some(size) => {
            expect(values.len(), n.checked_mul(size))?;
            Some(size)
        }
        None if is_rest && n > 0 && values.len().is_multiple_of(n) => Some(values.len() / n),
        None if is_rest && !known => {
            return Err(Cursor::new(&[]).corrupt("basket", "the offsets of its entries", "none"));
        }
        None => None,
    };
    let mut decoder = Decoder {
        sinks,
        lengths: &[],
    };
    if !known && even.is_none() {
        // entries are contiguous
        let mut cursor = Cursor::new(values);
        for entry in 0..wanted.end {
            if entry == wanted.start {
                decoder.sinks.iter_mut().for_each(|sink| sink.bytes.clear());
            }
            decoder
                .one(op, &mut cursor)
                .map_err(|error| error.in_entry(entry as u64))?;
        }
        return match (wanted.end == n, cursor.remaining()) {
            (true, left) if left > 0 => Err(cursor.corrupt(
                "basket",
                "the end of the values",
                format_args!("{left} bytes"),
            )),
            _ => Ok(()),
        };
    }
    for entry in wanted {
        let (start, end) = match (known, even) {
            (true, _) => (
                opened.offsets.get(entry).unwrap_or(usize::MAX),
                if entry + 1 < n {
                    opened.offsets.get(entry + 1).unwrap_or(0)
                } else {
                    values.len()
                },
            ),
            (false, Some(size)) => (entry * size, (entry + 1) * size),
            (false, None) => (0, 0),
        };
        let Some(bytes) = values.get(start..end) else {
            let range = format!("{start}..{end}");
            let within = format!("within {} bytes", values.len());
            return Err(Cursor::new(&[]).corrupt("place of an entry", within, range));
        };
        let mut cursor = Cursor::new(bytes);
        decoder.lengths = lengths(entry);
        let mut done = decoder.one(op, &mut cursor);
        if done.is_ok() && !decoder.lengths.is_empty() {
            let left = format!("{} more", decoder.lengths.len());
            done = Err(cursor.corrupt("items", "as many as lengths", left));
        }
        if done.is_ok() && cursor.remaining() > 0 {
            let left = format!("{} bytes", cursor.remaining());
            done = Err(cursor.corrupt("values", "the end of the entry", left));
        }
        done.map_err(|error| error.in_entry(entry as u64))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::{Cpp, Shapes};
    use crate::object::Infos;

    /// Values after the parsed part of a byte count were lost without an error.
    #[test]
    fn bytes_left_over_within_a_byte_count_are_an_error() {
        let infos = Infos::default();
        let cpp = Cpp::parse("vector<short>").unwrap();
        let shape = Shapes::new(&infos).of_type(&cpp, true).unwrap();
        let op = Op::new(&shape, &[true, true]);
        let vector = |n_bytes: u8, items: &[u8]| {
            let header = [0x40, 0, 0, n_bytes, 0, 10, 0, 0, 0, 1];
            [&header[..], items].concat()
        };
        let decoded = |second: &[u8]| {
            let first = vector(8, &[0, 7]);
            let values = [&first[..], second].concat();
            let offsets = [0, u32::try_from(first.len()).unwrap()];
            let mut sinks = vec![Sink::default(); 2];
            decode_entries(&op, &mut sinks, &values, Some(&offsets), 2)
        };
        assert_eq!(decoded(&vector(8, &[0, 7])), Ok(()));
        for (n_bytes, items, expected) in [
            (
                9,
                &[0, 7, 1][..],
                "expected 13 bytes according to its byte count, found 12 bytes",
            ),
            (
                7,
                &[0, 7][..],
                "expected 11 bytes according to its byte count, found 12 bytes",
            ),
        ] {
            let error = decoded(&vector(n_bytes, items)).unwrap_err().to_string();
            assert_eq!(error, format!("entry 1: collection at byte 12: {expected}"));
        }
    }
}
