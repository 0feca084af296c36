//! Bodies of the fuzz targets. They may return errors, but must not panic, hang or allocate without limit.

use std::sync::Arc;

use femtobarn_codec::xxh3;
use femtobarn_io::MemorySource;

use femtobarn_rntuple::encoding::{PageDecoder, Target};
use femtobarn_rntuple::read::{Reader, SourceStore};
use femtobarn_rntuple::schema::DType;
use femtobarn_rntuple::spec::{
    Anchor, ColumnFlags, ColumnRecord, ColumnType, Cursor, Footer, Header, PageList,
    SchemaDescription,
};

/// Parses bytes as each of the metadata structures, with a corrected checksum, so that parsing continues
/// after it.
pub fn envelopes(data: &[u8]) {
    let _ = Anchor::parse(data);
    let _ = SchemaDescription::parse(&mut Cursor::new(data));
    for kind in 1u64..=3 {
        let length = data.len() as u64 + 16;
        let mut bytes = (kind | length << 16).to_le_bytes().to_vec();
        bytes.extend(data);
        let checksum = xxh3(&bytes);
        bytes.extend(checksum.to_le_bytes());
        let _ = Header::parse(&bytes);
        let _ = Footer::parse(&bytes);
        let header_checksum = data
            .first_chunk::<8>()
            .map_or(0, |b| u64::from_le_bytes(*b));
        let _ = PageList::parse(&bytes, header_checksum);
    }
}

/// Decodes bytes as a page of every column type.
pub fn page(data: &[u8]) {
    let Some((&[kind, bits, n, wide], stored)) = data.split_first_chunk::<4>() else {
        return;
    };
    let n = usize::from(n) << (wide % 8);
    let column_type = ColumnType::from_code(u16::from(kind % 30));
    let column = ColumnRecord {
        column_type,
        bits: u16::from(bits % 97),
        field_id: 0,
        flags: ColumnFlags(0),
        representation: 0,
        first_element: 0,
        range: Some((-1.0, 1.0)),
    };
    if !column_type.allows_bits(column.bits) {
        return;
    }
    let target = match DType::of_column(column_type) {
        Some(dtype) => Target::Leaf(dtype),
        None if column_type.is_index() => Target::Index,
        None => Target::Switch,
    };
    // aligned to 8 bytes, like the buffers of results
    let mut out = vec![0; n * target.size() + 8];
    let start = out.as_ptr().align_offset(8);
    let out = out
        .get_mut(start..start + n * target.size())
        .unwrap_or_default();
    let _ = PageDecoder::default().decode(&column, n, stored, target, out);
}

/// Opens bytes as a ROOT file and reads everything in it.
pub fn whole_file(data: &[u8]) {
    let source = MemorySource::new("memory:fuzz", data.to_vec());
    let Ok(file) = femtobarn_rootfile::RootFile::open(source.clone()) else {
        return;
    };
    let Ok(entries) = file.walk() else { return };
    for entry in entries {
        let Ok(payload) = file.read_object(&entry.key) else {
            continue;
        };
        let Ok(anchor) = Anchor::parse(&payload) else {
            continue;
        };
        let options = femtobarn_rntuple::read::ReaderOptions::default();
        let store = SourceStore::new(source.clone(), &entry.path, anchor.max_key_size);
        let store = Arc::new(store);
        let Ok(reader) = Reader::open(store.clone(), &*store, &entry.path, anchor, options) else {
            continue;
        };
        read_everything(&Arc::new(reader));
    }
}

fn read_everything(reader: &Arc<femtobarn_rntuple::read::Reader>) {
    let Ok((schema, bindings)) =
        femtobarn_rntuple::read::ReadSchema::new(std::slice::from_ref(reader), None)
    else {
        return;
    };
    let Some(binding) = bindings.into_iter().next() else {
        return;
    };
    let stop = reader.n_entries().min(1000);
    let read = |start: u64, stop: u64| {
        let part = femtobarn_rntuple::read::Part {
            reader: reader.clone(),
            binding: binding.clone(),
            start,
            stop,
        };
        let _ = femtobarn_rntuple::read::explain(&schema, std::slice::from_ref(&part));
        let arrays = femtobarn_rntuple::read::read(
            &schema,
            &[part],
            &femtobarn_rntuple::read::ReadOptions::default(),
        );
        arrays.ok()?.to_arrow().ok()
    };
    let (from, to) = (stop / 3, stop - stop / 5);
    if let (Some(whole), Some(part)) = (read(0, stop), read(from, to)) {
        let at = |entry: u64| usize::try_from(entry).unwrap_or(0);
        assert_eq!(
            whole.slice(at(from), at(to - from)),
            part,
            "a range is the part of the whole"
        );
    }
    let _ = femtobarn_rntuple::read::verify(reader, 1, None);
    for link in &reader.descriptor().attribute_sets {
        let _ = reader.attribute_set(link).map(|set| set.n_entries());
    }
}
