//! The cost of opening and reading, in requests and bytes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

mod common;

use common::{recorded, root, shared};
use femtobarn::io::ByteSource;
use femtobarn::{NTuple, OpenOptions, ReadOptions};

#[test]
fn opening_costs_at_most_two_reads() {
    let mut files = common::test_files();
    files.extend(shared(
        "rntuple/cmsopendata2015_ttbar_19980_NANOAOD_RNTupleImporter_rntuple_v1-0-0-1.root",
    ));
    for file in files {
        let source = recorded(&file);
        let listed = femtobarn::rootfile::RootFile::open(source.clone())
            .unwrap()
            .walk()
            .unwrap();
        let Some(entry) = listed
            .iter()
            .find(|entry| entry.key.class_name == femtobarn::RNTUPLE_CLASS)
        else {
            continue;
        };
        let path = entry.path.split(';').next().unwrap();
        source.clear();
        let ntuple =
            NTuple::open_source(source.clone(), Some(path), OpenOptions::default()).unwrap();
        assert!(
            source.log().len() <= 2,
            "{}: {:?}",
            file.display(),
            source.log()
        );
        // names and number of entries cost nothing more
        let _ = (ntuple.n_entries(), common::top_level(&ntuple));
        assert!(source.log().len() <= 2);
        // page lists: at most one more read, and a second one if a list is split over several keys
        source.clear();
        ntuple
            .explain(&ntuple.select(None).unwrap(), 0..ntuple.n_entries())
            .unwrap();
        let descriptor = ntuple.readers()[0].descriptor();
        let largest = descriptor.anchor.max_key_size;
        let split = descriptor
            .cluster_groups
            .iter()
            .any(|group| group.page_list.stored.size > largest);
        let reads = source.log().len();
        assert!(
            reads <= 1 + usize::from(split),
            "{}: {:?}",
            file.display(),
            source.log()
        );
    }
}

#[test]
fn a_read_costs_what_its_plan_says() {
    let file = root().join("testdata/dimuon.root");
    let source = recorded(&file);
    let ntuple = NTuple::open_source(source.clone(), None, OpenOptions::default()).unwrap();
    for names in [
        &["Muon_pt"][..],
        &["Muon_eta", "nMuon"],
        &["Muon_pt", "Muon_charge", "Muon_phi"],
    ] {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let selection = ntuple.select(Some(&names)).unwrap();
        let plan = ntuple.explain(&selection, 0..ntuple.n_entries()).unwrap();
        assert!(plan.exact && plan.rounds == 1);
        source.clear();
        ntuple
            .read(&selection, 0..ntuple.n_entries(), &ReadOptions::default())
            .unwrap();
        assert_eq!(source.log().len() as u64, plan.requests, "{names:?}");
        assert_eq!(source.bytes_asked(), plan.bytes_read, "{names:?}");
        assert!(plan.bytes_read >= plan.bytes_needed && plan.bytes_needed < source.meta().size);
    }
}

#[test]
fn a_range_of_entries_reads_only_its_pages() {
    let file = root().join("testdata/dimuon.root");
    let source = recorded(&file);
    let ntuple = NTuple::open_source(source.clone(), None, OpenOptions::default()).unwrap();
    let names = ["Muon_pt".to_owned()];
    let selection = ntuple.select(Some(&names)).unwrap();
    let cluster = ntuple.readers()[0].page_lists(0..1).unwrap()[0]
        .1
        .clusters()[0];
    ntuple.explain(&selection, 0..ntuple.n_entries()).unwrap();
    source.clear();
    ntuple
        .read(
            &selection,
            0..cluster.n_entries / 10 + 1,
            &ReadOptions::default(),
        )
        .unwrap();
    let few = source.bytes_asked();
    source.clear();
    ntuple
        .read(&selection, 0..0, &ReadOptions::default())
        .unwrap();
    assert_eq!(source.log().len(), 0, "no entries, no reads");
    source.clear();
    ntuple
        .read(&selection, 0..ntuple.n_entries(), &ReadOptions::default())
        .unwrap();
    assert!(few <= source.bytes_asked());
}

#[test]
fn uncompressed_pages_are_given_out_of_the_map_without_a_copy() {
    let bytes = bytes::Bytes::from(
        std::fs::read(root().join("testdata/rntuple/encodings_none.root")).unwrap(),
    );
    let read = |memory_map| {
        let mut options = OpenOptions::default();
        options.reader.memory_map = memory_map;
        let source = femtobarn::io::MemorySource::new("map.root", bytes.clone());
        let ntuple = NTuple::open_source(source, None, options).unwrap();
        let first = ntuple.readers()[0].page_lists(0..1).unwrap()[0]
            .1
            .clusters()[0]
            .n_entries;
        let selection = ntuple.select(None).unwrap();
        let arrays = ntuple
            .read(&selection, 0..first, &ReadOptions::default())
            .unwrap();
        let inside =
            |data: &bytes::Bytes| !data.is_empty() && bytes.as_ptr_range().contains(&data.as_ptr());
        let slots = 0..selection.schema().slots.len();
        let shared = slots
            .filter(|&slot| arrays.leaf(slot).is_some_and(|(_, data)| inside(data)))
            .count();
        (shared, arrays.to_arrow().unwrap())
    };
    let (mapped, with_map) = read(true);
    let (copied, without) = read(false);
    assert!(
        mapped > 0 && copied == 0,
        "{mapped} and {copied} columns share the file's memory"
    );
    assert_eq!(with_map, without);
}

#[test]
fn what_says_where_data_are_is_needed_of_trees_as_of_ntuples() {
    for file in ["testdata/dimuon.root", "testdata/ttree/leaves_lz4.root"] {
        let source = recorded(&root().join(file));
        let ntuple = NTuple::open_source(source, None, OpenOptions::default()).unwrap();
        let stats = ntuple.readers()[0].stats().snapshot();
        let (_, needed) = stats
            .iter()
            .find(|(name, _)| *name == "bytes_needed")
            .unwrap();
        assert!(*needed > 0, "{file}: {stats:?}");
    }
}

#[test]
fn a_plan_says_what_opening_has_cost() {
    let file = root().join("testdata/dimuon.root");
    let named = [(file.to_str().unwrap().to_owned(), None)];
    let ntuple = NTuple::open(&named, OpenOptions::default()).unwrap();
    let all = || ntuple.explain(&ntuple.select(None).unwrap(), 0..ntuple.n_entries());
    let opening = all().unwrap().opening.unwrap();
    let size = std::fs::metadata(&file).unwrap().len();
    assert_eq!(
        (opening.vectors, opening.ranges, opening.bytes),
        (1, 1, size)
    );
    // later reads do not count as opening
    let selection = ntuple.select(None).unwrap();
    let options = ReadOptions::default();
    ntuple.read(&selection, 0..10, &options).unwrap();
    assert_eq!(all().unwrap().opening, Some(opening));
}
