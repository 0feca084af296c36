//! Ntuples as objects of a set, in a directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use femtobarn_io::{ObjectSetSource, RecordSource, Settings};

use super::*;
use crate::read::explain;
use crate::spec::{ObjectAnchor, Page, PageAddress};
use crate::write::object_sink::CHECK_AFTER;
use crate::write::{ObjectSink, ObjectSize, sweep_objects};

fn options(object_size: ObjectSize) -> WriteOptions {
    WriteOptions {
        page_bytes: 100,
        cluster_bytes: 4000,
        clusters_per_group: 2,
        threads: 2,
        object_size: Some(object_size),
        ..WriteOptions::default()
    }
}

fn base(folder: &Path, name: &str) -> String {
    format!("ntpl+file://{}/{name}", folder.display())
}

fn fill(sink: &mut ObjectSink, whole: &RecordBatch, object_size: ObjectSize) {
    let schema = whole.schema();
    let mut writer =
        NTupleWriter::from_arrow(sink, 0, "Events", &schema, options(object_size)).unwrap();
    writer.extend(sink, &whole.slice(0, 700)).unwrap();
    writer.extend(sink, &whole.slice(700, 300)).unwrap();
    assert_eq!(writer.finish(sink).unwrap(), 1000);
    let again = NTupleWriter::from_arrow(sink, 0, "Events", &schema, options(object_size));
    assert_eq!(again.unwrap_err().kind(), "unwritable-field");
}

fn write(url: &str, whole: &RecordBatch, object_size: ObjectSize) {
    let mut sink = ObjectSink::create(url, true, &Settings::default()).unwrap();
    fill(&mut sink, whole, object_size);
    sink.finish().unwrap();
}

fn open(url: &str) -> Result<(Arc<RecordSource>, Arc<Reader>), RNTupleError> {
    let source = ObjectSetSource::open(url, &Settings::default())?;
    let source = RecordSource::new(source);
    let (store, anchor) = SourceStore::open_objects(source.clone(), "Events")?;
    let options = ReaderOptions::default();
    let reader = Reader::open(Arc::new(store.clone()), &store, "Events", anchor, options)?;
    Ok((source, Arc::new(reader)))
}

fn pages(reader: &Reader) -> Vec<Page> {
    let lists = reader.page_lists(0..reader.n_entries()).unwrap();
    let each = lists.iter().flat_map(|(_, list)| list.all_pages().to_vec());
    each.collect()
}

fn place(page: &Page) -> (u64, u32) {
    match page.body.address {
        PageAddress::Object { id, offset } => (id, offset),
        other => panic!("{other}"),
    }
}

/// Names and sizes of the files of a base.
fn files(folder: &Path) -> BTreeMap<String, u64> {
    let files = std::fs::read_dir(folder).unwrap().flatten();
    let file = |file: std::fs::DirEntry| {
        let name = file.file_name().into_string().unwrap();
        // an incomplete file may get its name meanwhile
        Some((name, file.metadata().ok()?.len()))
    };
    files.filter_map(file).collect()
}

#[test]
fn pages_are_objects_as_root_numbers_them() {
    let folder = tempfile::tempdir().unwrap();
    let whole = batch(1000);
    let url = base(folder.path(), "n");
    write(&url, &whole, ObjectSize::Page);
    let (_, reader) = open(&url).unwrap();
    assert_eq!(all_of(&reader).unwrap(), whole);
    assert!(verify(&reader, 2, None).unwrap().damages.is_empty());
    // the header, then pages and page lists as they were written, and the footer
    let files = files(&folder.path().join("n"));
    let anchor = std::fs::read(folder.path().join("n/anchor")).unwrap();
    let anchor = ObjectAnchor::parse(&anchor).unwrap();
    let usual = ObjectAnchor {
        maker: anchor.maker.clone(),
        ..ObjectAnchor::new(anchor.anchor)
    };
    assert_eq!(anchor, usual);
    let id = |address| match address {
        PageAddress::Object { id, offset: 0 } => id,
        other => panic!("{other}"),
    };
    let n_objects = files.len() as u64 - 1;
    assert_eq!(id(anchor.anchor.header.stored.address), 0);
    assert_eq!(id(anchor.anchor.footer.stored.address), n_objects - 1);
    let mut used = std::collections::BTreeSet::from([0, n_objects - 1]);
    for page in pages(&reader) {
        let (id, offset) = place(&page);
        // a page has its checksum, which the locator does not count
        assert_eq!((offset, files[&id.to_string()]), (0, page.body.size + 8));
        used.insert(id);
    }
    let groups = &reader.descriptor().cluster_groups;
    used.extend(
        groups
            .iter()
            .map(|group| id(group.page_list.stored.address)),
    );
    assert_eq!(used, (0..n_objects).collect());
    assert!(groups.len() > 2);
}

#[test]
fn pages_of_a_cluster_share_objects_up_to_a_size() {
    let folder = tempfile::tempdir().unwrap();
    let whole = batch(1000);
    for (name, size) in [
        ("some", ObjectSize::Bytes(1000)),
        ("small", ObjectSize::Bytes(1)),
        ("clusters", ObjectSize::Cluster),
    ] {
        let url = base(folder.path(), name);
        write(&url, &whole, size);
        let (source, reader) = open(&url).unwrap();
        assert_eq!(all_of(&reader).unwrap(), whole);
        assert!(verify(&reader, 2, None).unwrap().damages.is_empty());
        let sizes = files(&folder.path().join(name));
        let pages = pages(&reader);
        let ids: std::collections::BTreeSet<u64> = pages.iter().map(|page| place(page).0).collect();
        let largest = ids.iter().map(|id| sizes[&id.to_string()]).max().unwrap();
        let is_packed = reader.store().objects().unwrap().is_packed;
        match size {
            ObjectSize::Bytes(1) => assert!(!is_packed && ids.len() > 100),
            ObjectSize::Bytes(most) => assert!(is_packed && largest <= most && largest > most / 2),
            _ => {
                let n_clusters = reader.page_lists(0..1000).unwrap();
                let n: usize = n_clusters
                    .iter()
                    .map(|(_, list)| list.clusters().len())
                    .sum();
                assert_eq!(ids.len(), n);
            }
        }
        // what is read are ranges of objects, as the plan says
        let names = ["lists".to_owned()];
        let (schema, bindings) =
            ReadSchema::new(std::slice::from_ref(&reader), Some(&names)).unwrap();
        let part = Part {
            reader: reader.clone(),
            binding: bindings.into_iter().next().unwrap(),
            start: 0,
            stop: 1000,
        };
        let parts = [part];
        let plan = explain(&schema, &parts).unwrap();
        source.clear();
        let arrays = read(&schema, &parts, &ReadOptions::default()).unwrap();
        assert_eq!(arrays.to_arrow().unwrap(), whole.project(&[3]).unwrap());
        let requests: usize = source.log().iter().map(Vec::len).sum();
        assert_eq!(requests as u64, plan.requests, "{name}");
    }
}

#[test]
fn nothing_is_visible_or_left_before_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let url = base(folder.path(), "n");
    let whole = batch(1000);
    let mut sink = ObjectSink::create(&url, false, &Settings::default()).unwrap();
    fill(&mut sink, &whole, ObjectSize::Page);
    assert_eq!(open(&url).unwrap_err().kind(), "file-not-found");
    assert!(!files(&folder.path().join("n")).is_empty());
    drop(sink);
    assert!(!folder.path().join("n").exists());
    let sink = ObjectSink::create(&url, false, &Settings::default()).unwrap();
    let error = sink.finish().unwrap_err().with_causes();
    assert!(error.contains("no ntuple was written"), "{error}");
}

#[test]
fn a_writer_whose_objects_were_swept_publishes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let url = base(folder.path(), "n");
    let mut sink = ObjectSink::create(&url, false, &Settings::default()).unwrap();
    fill(&mut sink, &batch(1000), ObjectSize::Page);
    sink.complete().unwrap();
    sink.created -= 2 * CHECK_AFTER;
    let swept = sweep_objects(&url, &Settings::default(), Duration::ZERO, true).unwrap();
    assert!(!swept.names.is_empty());
    let error = sink.finish().unwrap_err().with_causes();
    assert!(error.contains("a sweep has deleted"), "{error}");
    assert_eq!(open(&url).unwrap_err().kind(), "file-not-found");
}

#[test]
fn a_replaced_ntuple_is_whole_until_the_other_is_and_then_gone() {
    let folder = tempfile::tempdir().unwrap();
    let url = base(folder.path(), "n");
    let (first, second) = (batch(1000), batch(1000).slice(0, 400));
    let settings = Settings::default();
    write(&url, &first, ObjectSize::Page);
    let refused = ObjectSink::create(&url, false, &settings).unwrap_err();
    assert_eq!(refused.kind(), "create-failed");
    let before = files(&folder.path().join("n"));

    let create = || ObjectSink::create(&url, true, &settings).unwrap();
    let (mut sink, mut late) = (create(), create());
    let schema = second.schema();
    for sink in [&mut sink, &mut late] {
        let usual = options(ObjectSize::Bytes(1000));
        let mut writer = NTupleWriter::from_arrow(sink, 0, "Events", &schema, usual).unwrap();
        writer.extend(sink, &second).unwrap();
        writer.finish(sink).unwrap();
    }
    let (_, old) = open(&url).unwrap();
    assert_eq!(all_of(&old).unwrap(), first);
    sink.finish().unwrap();
    let (_, new) = open(&url).unwrap();
    assert_eq!(all_of(&new).unwrap(), second);
    // who was slower has changed nothing, and leaves nothing
    let error = late.finish().unwrap_err();
    assert!(error.to_string().contains("another writer has"), "{error}");
    let (_, new) = open(&url).unwrap();
    assert_eq!(all_of(&new).unwrap(), second);
    let after = files(&folder.path().join("n"));
    let numbers = after.keys().filter_map(|name| name.parse::<u64>().ok());
    assert!(numbers.clone().all(|id| id >> 20 == 1) && numbers.count() == after.len() - 1);
    assert!(before.len() > after.len());
}

#[test]
fn an_object_that_is_damaged_cut_or_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let whole = batch(1000);
    let url = base(folder.path(), "n");
    write(&url, &whole, ObjectSize::Page);
    let (_, reader) = open(&url).unwrap();
    let (id, _) = place(&pages(&reader)[7]);
    let path = folder.path().join(format!("n/{id}"));
    let good = std::fs::read(&path).unwrap();
    let mut bad = good.clone();
    bad[1] ^= 1;
    let swapped = std::fs::read(folder.path().join(format!("n/{}", id + 1))).unwrap();
    for (value, said) in [
        (Some(bad), format!("object {id}")),
        (Some(good[..3].to_vec()), format!("{url}/{id}")),
        (Some(swapped), format!("{id}")),
        (None, format!("{url}/{id}")),
    ] {
        match value {
            Some(value) => std::fs::write(&path, value).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let error = all_of(&reader).unwrap_err().to_string();
        assert!(error.contains(&said), "{error}");
        let report = verify(&reader, 1, None).unwrap();
        let at: Vec<PageAddress> = report.damages.iter().map(|damage| damage.address).collect();
        assert_eq!(at, [PageAddress::Object { id, offset: 0 }]);
    }
    let anchor = folder.path().join("n/anchor");
    let text = std::fs::read_to_string(&anchor).unwrap();
    std::fs::write(&anchor, text.replace("\"lenHeader\": ", "\"lenHeader\": 1")).unwrap();
    let error = open(&url).unwrap_err();
    assert!(
        error.with_causes().contains("checksum"),
        "{}",
        error.with_causes()
    );
}

#[test]
fn ntuples_are_merged_by_metadata_alone_or_copied_to_a_file_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let whole = batch(1000);
    let settings = Settings::default();
    let (one, two) = (base(folder.path(), "in/one"), base(folder.path(), "in/two"));
    write(&one, &whole, ObjectSize::Page);
    write(&two, &whole, ObjectSize::Bytes(1000));
    let merge = |sink: &mut dyn PageSink, inputs: &[&str], share| {
        let inputs: Vec<Arc<Reader>> = inputs.iter().map(|url| open(url).unwrap().1).collect();
        let how = MergeOptions {
            write: options(ObjectSize::Cluster),
            refers: share,
            ..MergeOptions::default()
        };
        let levels = merged(sink, "Events", &inputs, how).into_iter();
        levels
            .map(|done| (done.shared > 0, done.copied > 0))
            .collect::<Vec<_>>()
    };
    let times = |found: &RecordBatch, n: usize| {
        assert_eq!(found.num_rows(), n * 1000);
        for at in 0..n {
            assert_eq!(found.slice(at * 1000, 1000), whole);
        }
    };
    let all = base(folder.path(), "all");
    let mut sink = ObjectSink::create(&all, false, &settings).unwrap();
    let levels = merge(&mut sink, &[&one, &two], true);
    assert_eq!(levels, [(true, false), (true, false)]);
    sink.finish().unwrap();
    let (_, reader) = open(&all).unwrap();
    times(&all_of(&reader).unwrap(), 2);
    assert!(verify(&reader, 1, None).unwrap().damages.is_empty());
    // only metadata
    let n_groups = reader.descriptor().cluster_groups.len();
    assert_eq!(files(&folder.path().join("all")).len(), n_groups + 3);
    // a merged one is an input like others, and nothing refers to its objects in a chain
    let more = base(folder.path(), "deeper/more");
    let mut sink = ObjectSink::create(&more, false, &settings).unwrap();
    merge(&mut sink, &[&all, &one, &all], true);
    sink.finish().unwrap();
    let (_, reader) = open(&more).unwrap();
    times(&all_of(&reader).unwrap(), 5);
    let bases = &reader.store().objects().unwrap().bases;
    let bases: Vec<&str> = bases.iter().map(|base| base.base.as_str()).collect();
    assert_eq!(
        bases,
        ["../../all", "../../in/one", "../../in/two", "../../in/one"]
    );

    let copy = base(folder.path(), "copy");
    let mut sink = ObjectSink::create(&copy, false, &settings).unwrap();
    assert_eq!(merge(&mut sink, &[&more], false), [(false, true)]);
    sink.finish().unwrap();
    let (_, reader) = open(&copy).unwrap();
    times(&all_of(&reader).unwrap(), 5);
    assert!(reader.store().objects().unwrap().bases.is_empty());

    let sink = Arc::new(MemorySink::default());
    let mut file = FileWriter::create(sink.clone(), "m.root", 505, Uuid::default()).unwrap();
    assert_eq!(merge(&mut file, &[&one, &two], true), [(false, true); 2]);
    file.finish().unwrap();
    times(&super::open(sink.to_vec(), "Events").0, 2);
}
