//! Bodies of the fuzz targets. They may return errors, but must not panic, hang or allocate without
//! limit.

use std::sync::Arc;

use femtobarn_io::{ByteSource, MemorySource};
use femtobarn_rntuple::array::SlotData;
use femtobarn_rntuple::read::{Part, ReadOptions, ReadSchema, Reader, ReaderOptions, read, verify};
use femtobarn_rootfile::RootFile;

use crate::cursor::Cursor;
use crate::interp::{Cpp, Shape, Shapes, rest};
use crate::object::Infos;
use crate::read::{Op, Sink, decode_entries};

/// The most entries that are read.
const MOST_ENTRIES: u64 = 1000;

/// Opens bytes as a ROOT file, and reads every branch of every tree.
pub fn tree(data: &[u8]) {
    let source: Arc<dyn ByteSource> = MemorySource::new("memory:fuzz", data.to_vec());
    let Ok(file) = RootFile::open(source.clone()) else {
        return;
    };
    for entry in file.walk().unwrap_or_default() {
        if !crate::is_tree(&entry.key.class_name) {
            continue;
        }
        let options = ReaderOptions::default();
        if let Ok(reader) = crate::open(source.clone(), &file, &entry.key, &entry.path, options) {
            everything(&Arc::new(reader));
        }
    }
}

/// Reads a tree branch by branch, and checks that a range equals that part of the whole.
fn everything(reader: &Arc<Reader>) {
    let stop = reader.n_entries().min(MOST_ENTRIES);
    let (from, to) = (stop / 3, stop - stop / 5);
    let fields = reader.descriptor().top_level.clone();
    for field in fields {
        let name = reader.descriptor().field_name(field).to_owned();
        let (Some(whole), Some(part)) = (
            fixed(reader, &name, 0, stop),
            fixed(reader, &name, from, to),
        ) else {
            continue;
        };
        let each = whole.len().checked_div(usize::try_from(stop).unwrap_or(1));
        let at = |entry: u64| usize::try_from(entry).unwrap_or(0) * each.unwrap_or(0);
        let same = whole.get(at(from)..at(to));
        assert_eq!(
            same,
            Some(part.as_slice()),
            "a range of {name} is the part of the whole"
        );
    }
    if reader.n_entries() <= MOST_ENTRIES {
        let _ = verify(reader, 1, None);
    }
}

/// The first column of a branch, if all entries have the same size.
fn fixed(reader: &Arc<Reader>, name: &str, start: u64, stop: u64) -> Option<Vec<u8>> {
    let names = [name.to_owned()];
    let (schema, mut bindings) =
        ReadSchema::new(std::slice::from_ref(reader), Some(&names)).ok()?;
    let part = Part {
        reader: reader.clone(),
        binding: bindings.pop()?,
        start,
        stop,
    };
    let arrays = read(&schema, &[part], &ReadOptions::default()).ok()?;
    let _ = arrays.to_arrow();
    match arrays.slot(0)? {
        SlotData::Leaf { values, .. } => Some(values.to_vec()),
        _ => None,
    }
}

/// Types whose values are decoded.
const TYPES: [&str; 12] = [
    "vector<vector<int> >",
    "map<string,vector<string> >",
    "vector<TNamed>",
    "TRefArray",
    "string",
    "bitset<8>",
    "array<array<string,3>,2>",
    "vector<ElementLink<X> >",
    "map<int,map<short,vector<TDatime> > >",
    "vector<Double32_t>",
    "TRef",
    "TArrayD",
];

/// Decodes bytes as baskets of several types.
pub fn basket(data: &[u8]) {
    let Some((&[kind, n, flags], values)) = data.split_first_chunk::<3>() else {
        return;
    };
    let infos = Infos::default();
    let types = TYPES.get(usize::from(kind) % TYPES.len());
    let Some(Ok(cpp)) = types.map(|name| Cpp::parse(name)) else {
        return;
    };
    let Ok(mut shape) = Shapes::new(&infos).of_type(&cpp, flags & 1 != 0) else {
        return;
    };
    if flags & 2 != 0 {
        shape = rest(shape);
    }
    let wanted: Vec<bool> = (0..shape.n_columns())
        .map(|at| flags & 4 == 0 || at % 2 == 0)
        .collect();
    let mut sinks = vec![Sink::default(); wanted.len()];
    let offsets = (flags & 8 != 0).then(|| even(values.len(), usize::from(n)));
    let done = decode_entries(
        &Op::new(&shape, &wanted),
        &mut sinks,
        values,
        offsets.as_deref(),
        usize::from(n),
    );
    if done.is_ok() && flags & 4 == 0 {
        complete(&shape, usize::from(n), &mut sinks.iter());
    }
    let _ = crate::read::parse_embedded(&mut Cursor::new(values));
}

/// Offsets of `n` entries of nearly equal size.
fn even(length: usize, n: usize) -> Vec<u32> {
    let each = length.checked_div(n).unwrap_or(0);
    (0..n)
        .map(|entry| u32::try_from(entry * each).unwrap_or(0))
        .collect()
}

/// Checks that every decoded column has the number of values that its lists state.
fn complete(shape: &Shape, n: usize, sinks: &mut std::slice::Iter<'_, Sink>) {
    let lengths = |sinks: &mut std::slice::Iter<'_, Sink>| {
        let bytes = sinks.next().map_or(&[][..], |sink| sink.bytes.as_slice());
        let (lengths, _) = bytes.as_chunks::<8>();
        assert_eq!(lengths.len(), n, "a length for each list");
        let lengths = lengths.iter().map(|length| i64::from_ne_bytes(*length));
        usize::try_from(lengths.sum::<i64>()).unwrap_or(usize::MAX)
    };
    match shape {
        Shape::Number(number) => {
            let found = sinks.next().map_or(0, |sink| sink.bytes.len());
            assert_eq!(found, n * number.dtype.size(), "a number for each place");
        }
        Shape::Text(_) => {
            let n_chars = lengths(sinks);
            let found = sinks.next().map_or(0, |sink| sink.bytes.len());
            assert_eq!(found, n_chars, "the letters of all texts");
        }
        Shape::Array { n: size, item } => {
            complete(item, n * usize::try_from(*size).unwrap_or(0), sinks);
        }
        Shape::List { item, .. } => {
            let n_items = lengths(sinks);
            complete(item, n_items, sinks);
        }
        Shape::Record(record) => {
            for member in &record.members {
                complete(&member.shape, n, sinks);
            }
        }
        Shape::Hidden(_) => {}
    }
}
