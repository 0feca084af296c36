//! A second kind of store, to prove that the code above stores and sinks does not depend on where pages are: values in a
//! map, each with a key.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use femtobarn_io::{ByteSource, SourceCost, SourceInfo, SourceMeta};

use super::*;
use crate::read::{NotStored, PageStore, explain};
use crate::spec::{PageAddress, StoredRange};
use crate::write::SinkPlace;

/// Values by key, and the anchors of ntuples by name.
#[derive(Debug, Default)]
struct Keyed {
    values: Mutex<BTreeMap<u64, Bytes>>,
    anchors: BTreeMap<String, Anchor>,
    meta: SourceMeta,
    /// The keys requested by each vector read.
    log: Mutex<Vec<Vec<u64>>>,
}

impl Keyed {
    fn values(&self) -> MutexGuard<'_, BTreeMap<u64, Bytes>> {
        self.values.lock().unwrap()
    }

    fn put(&mut self, value: &[u8]) -> PageAddress {
        let mut values = self.values();
        let id = values.len() as u64;
        values.insert(id, Bytes::copy_from_slice(value));
        drop(values);
        self.meta.size += value.len() as u64;
        PageAddress::Object { id, offset: 0 }
    }

    fn get(&self, stored: &StoredRange) -> Result<Bytes, RNTupleError> {
        let PageAddress::Object { id, .. } = stored.address else {
            return Err(RNTupleError::internal("an address of a file"));
        };
        let range = stored.range();
        let (start, end) = (usize::try_from(range.start), usize::try_from(range.end));
        let found = self.values().get(&id).cloned();
        let found = found.filter(|value| value.len() as u64 >= range.end);
        let missing = || RNTupleError::Inconsistent {
            url: "keyed:".into(),
            ntuple: "Events".into(),
            what: stored.address.to_string(),
            expected: format!("{} bytes", range.end),
            found: "fewer".into(),
        };
        Ok(found
            .ok_or_else(missing)?
            .slice(start.unwrap()..end.unwrap()))
    }

    fn open(self: &Arc<Self>, name: &str) -> Result<Arc<Reader>, RNTupleError> {
        let anchor = self.anchors[name];
        let options = ReaderOptions::default();
        Reader::open(self.clone(), &**self, name, anchor, options).map(Arc::new)
    }
}

impl PageStore for Keyed {
    fn info(&self) -> SourceInfo<'_> {
        let cost = SourceCost {
            most_ranges: 5,
            ..SourceCost::default()
        };
        SourceInfo::new("keyed:", &self.meta, cost)
    }

    fn file(&self) -> Option<&Arc<dyn ByteSource>> {
        None
    }

    fn check(&self, stored: &StoredRange) -> Result<(), NotStored> {
        match stored.address {
            PageAddress::Object { .. } => Ok(()),
            PageAddress::File(_) | PageAddress::Unknown(_) => Err(NotStored::Elsewhere),
        }
    }

    fn read(&self, stored: &[StoredRange]) -> Result<Vec<Bytes>, RNTupleError> {
        let ids = stored.iter().map(|stored| match stored.address {
            PageAddress::Object { id, .. } => id,
            _ => u64::MAX,
        });
        self.log.lock().unwrap().push(ids.collect());
        stored.iter().map(|stored| self.get(stored)).collect()
    }
}

impl PageSink for Keyed {
    fn check_place(&self, place: &SinkPlace<'_>) -> Result<(), RNTupleError> {
        match self.anchors.contains_key(place.name) {
            true => Err(super::super::unwritable(place.name, "it exists")),
            false => Ok(()),
        }
    }

    fn append_payload(
        &mut self,
        payload: &[u8],
        _options: &WriteOptions,
    ) -> Result<PageAddress, RNTupleError> {
        Ok(self.put(payload))
    }

    fn append_pages(
        &mut self,
        pages: &[Bytes],
        _options: &WriteOptions,
    ) -> Result<Vec<PageAddress>, RNTupleError> {
        Ok(pages.iter().map(|page| self.put(page)).collect())
    }

    fn publish(&mut self, place: &SinkPlace<'_>, anchor: &Anchor) -> Result<(), RNTupleError> {
        self.check_place(place)?;
        self.anchors.insert(place.name.to_owned(), *anchor);
        Ok(())
    }

    fn attribute_set(&mut self, _name: &str) -> Result<&mut dyn PageSink, RNTupleError> {
        Ok(self)
    }

    fn file(&mut self) -> Option<&mut FileWriter> {
        None
    }
}

fn options() -> WriteOptions {
    WriteOptions {
        page_bytes: 100,
        cluster_bytes: 4000,
        clusters_per_group: 2,
        threads: 2,
        ..WriteOptions::default()
    }
}

/// A store with an ntuple.
fn stored(whole: &RecordBatch) -> Arc<Keyed> {
    let mut keyed = Keyed::default();
    let schema = whole.schema();
    let mut writer = NTupleWriter::from_arrow(&mut keyed, 0, "Events", &schema, options()).unwrap();
    writer.extend(&mut keyed, &whole.slice(0, 700)).unwrap();
    writer.extend(&mut keyed, &whole.slice(700, 300)).unwrap();
    assert_eq!(writer.finish(&mut keyed).unwrap(), 1000);
    let again = NTupleWriter::from_arrow(&mut keyed, 0, "Events", &schema, options());
    assert_eq!(again.unwrap_err().kind(), "unwritable-field");
    Arc::new(keyed)
}

#[test]
fn an_ntuple_in_values_by_key_is_written_read_explained_and_verified() {
    let whole = batch(1000);
    let keyed = stored(&whole);
    let reader = keyed.open("Events").unwrap();
    assert_eq!(all_of(&reader).unwrap(), whole);
    let report = verify(&reader, 2, None).unwrap();
    assert!(report.damages.is_empty() && report.pages > 100);
    assert_eq!(
        report.bytes,
        reader
            .page_lists(0..1000)
            .unwrap()
            .iter()
            .flat_map(|(_, list)| list.all_pages())
            .map(|page| page.stored_size())
            .sum::<u64>()
    );

    // reading some entries and columns requests only their pages, as the plan says
    let names = ["lists".to_owned()];
    let (schema, bindings) = ReadSchema::new(std::slice::from_ref(&reader), Some(&names)).unwrap();
    let part = Part {
        reader: reader.clone(),
        binding: bindings.into_iter().next().unwrap(),
        start: 0,
        stop: 1000,
    };
    let parts = [part];
    let plan = explain(&schema, &parts).unwrap();
    keyed.log.lock().unwrap().clear();
    let arrays = read(&schema, &parts, &ReadOptions::default()).unwrap();
    assert_eq!(arrays.to_arrow().unwrap(), whole.project(&[3]).unwrap());
    let log = keyed.log.lock().unwrap().clone();
    let asked: usize = log.iter().map(Vec::len).sum();
    assert_eq!(
        (asked as u64, log.len() as u64),
        (plan.requests, plan.vectors)
    );
    assert!(log.iter().all(|ids| ids.len() <= 5) && plan.requests == plan.pages);
}

#[test]
fn a_value_that_is_damaged_cut_or_missing_is_named() {
    let keyed = stored(&batch(1000));
    let reader = keyed.open("Events").unwrap();
    let (_, list) = reader.page_lists(0..1).unwrap().remove(0);
    let PageAddress::Object { id, .. } = list.all_pages()[7].body.address else {
        panic!("not an object");
    };
    let good = keyed.values()[&id].clone();
    let mut bad = good.to_vec();
    bad[1] ^= 1;
    for value in [Some(bad.into()), Some(good.slice(..3)), None] {
        match value {
            Some(value) => drop(keyed.values().insert(id, value)),
            None => drop(keyed.values().remove(&id)),
        }
        let error = all_of(&reader).unwrap_err().to_string();
        assert!(error.contains(&format!("object {id}")), "{error}");
        let report = verify(&reader, 1, None).unwrap();
        let at: Vec<PageAddress> = report.damages.iter().map(|damage| damage.address).collect();
        assert_eq!(at, [PageAddress::Object { id, offset: 0 }]);
    }
}

#[test]
fn addresses_of_another_kind_of_store_are_refused() {
    let keyed = stored(&batch(1000));
    let source = MemorySource::new("mem:other.root", vec![0; 1 << 20]);
    let store = Arc::new(SourceStore::new(source, "Events", 0));
    let anchor = keyed.anchors["Events"];
    let opened = Reader::open(
        store.clone(),
        &*store,
        "Events",
        anchor,
        ReaderOptions::default(),
    );
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), "unsupported-format");
    assert!(
        error.with_causes().contains("object 0"),
        "{}",
        error.with_causes()
    );
}

#[test]
fn ntuples_are_merged_from_values_to_a_file_and_back() {
    let whole = batch(1000);
    let keyed = stored(&whole);
    let inside = keyed.open("Events").unwrap();
    let (_, in_file) = read_back(written(&whole, &[400], &options()));
    let merge = |sink: &mut dyn PageSink| {
        let how = MergeOptions {
            write: options(),
            ..MergeOptions::default()
        };
        for levels in merged(sink, "merged", &[inside.clone(), in_file.clone()], how) {
            // compressed pages are not decompressed
            assert!(levels.copied > 0 && levels.recompressed + levels.reencoded == 0);
        }
    };
    let twice = |found: &RecordBatch| {
        assert_eq!(found.slice(0, 1000), whole);
        assert_eq!(found.slice(1000, 1000), whole);
    };
    let mut other = Keyed::default();
    merge(&mut other);
    let reader = Arc::new(other).open("merged").unwrap();
    twice(&all_of(&reader).unwrap());
    assert!(verify(&reader, 1, None).unwrap().damages.is_empty());

    let sink = Arc::new(MemorySink::default());
    let mut file = FileWriter::create(sink.clone(), "m.root", 505, Uuid::default()).unwrap();
    merge(&mut file);
    file.finish().unwrap();
    twice(&open(sink.to_vec(), "merged").0);
}
