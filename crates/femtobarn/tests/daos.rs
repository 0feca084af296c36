//! Ntuples in DAOS as ROOT writes them: with an object for each page, and before that with one for each cluster, also with
//! several pages in a value. The library is the stand-in of `femtobarn-daos`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    unsafe_code,
    reason = "tests; a variable names the library"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Once};

use arrow_array::{Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use femtobarn::cost::{CostOptions, Prices, cost};
use femtobarn::io::{Outcome, Settings as IoSettings};
use femtobarn::rootfile::FileWriter;
use femtobarn::spec::{Anchor, PageAddress};
use femtobarn::write::{DaosSink, NTupleWriter, ObjectSize, PageSink, SinkPlace, WriteOptions};
use femtobarn::{Error, NTuple, OpenOptions, Target, examine};
use femtobarn_daos::mapping::{DaosAnchor, LISTS, Layout, Places};
use femtobarn_daos::{
    Address, Container, Envelopes, Existing, NTupleValues, Settings, Update, ValueKey,
};

const CONTAINER: &str = "daos://pool/of-root";

/// Builds the stand-in, and has it used.
fn library() {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../daos/tests/standin/standin.c");
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libdaos-of-root.so");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let built = Command::new(compiler)
            .args(["-O2", "-std=gnu11", "-shared", "-fPIC", "-pthread", "-o"])
            .args([&library, &source])
            .status();
        assert!(built.unwrap().success());
        // SAFETY: tests that read variables wait for this.
        unsafe { std::env::set_var(femtobarn_daos::VARIABLE, &library) };
    });
}

/// Writes as ROOT does. Every column has pages in every cluster.
#[derive(Debug)]
struct OfRoot {
    values: NTupleValues,
    places: Places,
    layout: Layout,
    /// Number of pages in a value.
    cage: usize,
    payloads: Vec<Bytes>,
    n_pages: u64,
    cluster: u64,
    column: u64,
}

impl OfRoot {
    fn new(name: &str, layout: Layout, cage: usize) -> Self {
        let address = Address::parse(CONTAINER).unwrap();
        let container = Arc::new(Container::create(&address, Settings::default()).unwrap());
        let values = NTupleValues::new(container, name, "").unwrap();
        let places = Places {
            first_list: 0,
            ..*values.places()
        };
        Self {
            values,
            places,
            layout,
            cage,
            payloads: Vec::new(),
            n_pages: 0,
            cluster: 0,
            column: 0,
        }
    }

    fn put(&self, key: ValueKey, value: &[u8]) {
        let parts = vec![Bytes::copy_from_slice(value)];
        let update = vec![Update { key, parts }];
        let container = self.values.container();
        container.update(update, Existing::Refused).unwrap();
    }
}

impl PageSink for OfRoot {
    fn check_place(&self, _place: &SinkPlace<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn append_payload(&mut self, payload: &[u8], _: &WriteOptions) -> Result<PageAddress, Error> {
        // page lists are numbered from 0, as pages are; the header precedes them
        let id = (self.payloads.len() as u64).saturating_sub(1);
        self.payloads.push(Bytes::copy_from_slice(payload));
        Ok(PageAddress::Object { id, offset: 0 })
    }

    fn append_pages(
        &mut self,
        pages: &[Bytes],
        _options: &WriteOptions,
    ) -> Result<Vec<PageAddress>, Error> {
        let mut out = Vec::new();
        for pages in pages.chunks(self.cage) {
            let id = self.n_pages;
            self.n_pages += pages.len() as u64;
            let key = match self.layout {
                Layout::ObjectPerPage => self.places.numbered(id).unwrap(),
                Layout::ObjectPerCluster => {
                    self.places.page_of_cluster(self.cluster, self.column, id)
                }
            };
            self.put(key, &pages.concat());
            let mut offset = 0;
            for page in pages {
                out.push(PageAddress::Object { id, offset });
                offset += u32::try_from(page.len()).unwrap();
            }
        }
        self.column += 1;
        Ok(out)
    }

    fn end_cluster(&mut self) -> Result<(), Error> {
        assert_eq!(self.column, 2);
        (self.cluster, self.column) = (self.cluster + 1, 0);
        Ok(())
    }

    fn joins_pages(&self) -> bool {
        true
    }

    fn publish(&mut self, _place: &SinkPlace<'_>, anchor: &Anchor) -> Result<(), Error> {
        let (header, rest) = self.payloads.split_first().unwrap();
        let (footer, lists) = rest.split_last().unwrap();
        for (number, list) in (LISTS..).zip(lists) {
            self.put(self.places.numbered(number).unwrap(), list);
        }
        let envelopes = Envelopes {
            header: header.clone(),
            footer: footer.clone(),
        };
        let size = |size: u64| u32::try_from(size).unwrap();
        let anchor = DaosAnchor {
            version: anchor.version,
            header_size: size(anchor.header.stored.size),
            header_length: size(anchor.header.length),
            footer_size: size(anchor.footer.stored.size),
            footer_length: size(anchor.footer.length),
            class: String::new(),
            spliced: None,
        };
        let published = self.values.publish(&envelopes, &anchor, Existing::Refused);
        published.unwrap();
        Ok(())
    }

    fn attribute_set(&mut self, _name: &str) -> Result<&mut dyn PageSink, Error> {
        Ok(self)
    }

    fn file(&mut self) -> Option<&mut FileWriter> {
        None
    }
}

fn batch() -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("x", DataType::Int64, false),
        Field::new("y", DataType::Float64, false),
    ]);
    let x = Int64Array::from_iter_values(0..5000);
    let y = Float64Array::from_iter_values((0..5000).map(|n| f64::from(n) / 7.0));
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(x), Arc::new(y)]).unwrap()
}

#[test]
fn ntuples_of_root_are_read_in_all_of_its_layouts() {
    library();
    let whole = batch();
    for (name, layout, cage) in [
        ("pages", Layout::ObjectPerPage, 1),
        ("clusters", Layout::ObjectPerCluster, 1),
        ("cages", Layout::ObjectPerCluster, 16),
    ] {
        let mut sink = OfRoot::new(name, layout, cage);
        let options = WriteOptions {
            page_bytes: 400,
            clusters_per_group: 2,
            same_page_merging: false,
            ..WriteOptions::default()
        };
        write(&mut sink, &whole, name, options);
        let url = format!("{CONTAINER}:{name}");
        let ntuple = NTuple::open_files(&[&url], OpenOptions::default()).unwrap();
        let selection = ntuple.select(None).unwrap();
        let read = ntuple.read(&selection, 0..5000, &Default::default());
        assert_eq!(read.unwrap().to_arrow().unwrap(), whole, "{name}");
        let (column, n) = (vec!["y".to_owned()], 1500..3500);
        let selection = ntuple.select(Some(&column)).unwrap();
        let read = ntuple.read(&selection, n, &Default::default());
        let part = whole.slice(1500, 2000).project(&[1]).unwrap();
        assert_eq!(read.unwrap().to_arrow().unwrap(), part, "{name}");
        for reader in ntuple.readers() {
            let report = femtobarn::read::verify(reader, 1, None).unwrap();
            assert!(report.damages.is_empty() && report.pages > 20);
        }
    }
}

/// Writes clusters of 1000 entries.
fn write(sink: &mut dyn PageSink, whole: &RecordBatch, name: &str, options: WriteOptions) {
    let schema = whole.schema();
    let mut writer = NTupleWriter::from_arrow(sink, 0, name, &schema, options).unwrap();
    for at in 0..5 {
        let part = whole.slice(at * 1000, 1000);
        writer.extend(sink, &part).unwrap();
        writer.commit_cluster(sink).unwrap();
    }
    writer.finish(sink).unwrap();
}

#[test]
fn costs_are_the_counted_requests_and_each_ntuple_is_examined() {
    library();
    let url = "daos://pool/counted";
    let whole = batch();
    for (name, object_size) in [("joined", None), ("pages", Some(ObjectSize::Page))] {
        let mut sink = DaosSink::create(url, false, &IoSettings::default()).unwrap();
        let options = WriteOptions {
            page_bytes: 400,
            clusters_per_group: 2,
            object_size,
            ..WriteOptions::default()
        };
        write(&mut sink, &whole, name, options);
        let written = sink.finish().unwrap();
        let options = CostOptions {
            columns: Vec::new(),
            trace: None,
            prices: Prices::usual().unwrap(),
            settings: BTreeMap::new(),
        };
        let target = Target {
            file: url.to_owned(),
            name: Some(name.to_owned()),
        };
        let present = cost(&target, &options).unwrap().layouts[0];
        let write = present.write;
        assert_eq!(write.puts + write.gets, written.requests, "{name}");
        let url = format!("{url}:{name}");
        let ntuple = NTuple::open_files(&[&url], OpenOptions::default()).unwrap();
        let selection = ntuple.select(None).unwrap();
        let read = ntuple.read(&selection, 0..5000, &Default::default());
        assert_eq!(read.unwrap().to_arrow().unwrap(), whole, "{name}");
        let traffic = ntuple.readers()[0].store().traffic().unwrap();
        assert_eq!(present.pass.all_requests(), traffic.requests, "{name}");
    }
    let target = Target {
        file: url.to_owned(),
        name: None,
    };
    let checks = examine(&target, 1 << 20);
    assert!(checks.iter().all(|check| check.outcome == Outcome::Fine));
    let count = |name| checks.iter().filter(|check| check.name == name).count();
    assert_eq!(
        (count("container"), count("ntuple"), count("throughput")),
        (1, 2, 2)
    );
    for name in ["joined", "pages"] {
        assert!(
            checks
                .iter()
                .any(|check| check.note.starts_with(&format!("{name}: ")))
        );
    }
}
