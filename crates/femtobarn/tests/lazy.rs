//! Columns that are read when they are touched: the same values, few round trips, a record of what steps touch.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

mod common;

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use common::{Distant, all_ntuples, random, root, shared, test_files};
use femtobarn::io::{ByteSource, MemorySource, RecordSource, SourceCost};
use femtobarn::read::{Accesses, LazyArrays, LazyOptions};
use femtobarn::{LazyReader, LazySteps, NTuple, OpenOptions, StepSize, accesses_of};

/// A source with latency, whose vector reads have any number of ranges, and their record.
fn far(memory: Arc<MemorySource>) -> Arc<RecordSource> {
    let cost = SourceCost {
        concurrency: 4,
        most_ranges: 10_000,
        largest_vector: 1 << 30,
        in_flight: 1 << 30,
        ..SourceCost::default()
    };
    RecordSource::new(Arc::new(Distant { memory, cost }))
}

/// An ntuple far away, and the record of its vector reads; metadata are read already.
fn distant(file: &Path, path: Option<&str>) -> (Arc<NTuple>, Arc<RecordSource>) {
    let memory = MemorySource::new(file.to_str().unwrap(), std::fs::read(file).unwrap());
    let source = far(memory);
    let ntuple = NTuple::open_source(source.clone(), path, OpenOptions::default()).unwrap();
    ntuple
        .explain(&ntuple.select(None).unwrap(), 0..ntuple.n_entries())
        .unwrap();
    source.clear();
    (Arc::new(ntuple), source)
}

fn reader(ntuple: &Arc<NTuple>, accesses: &Arc<Accesses>, small: u64) -> Arc<LazyReader> {
    let options = LazyOptions {
        small,
        ..LazyOptions::default()
    };
    let selection = ntuple.select(None).unwrap();
    Arc::new(LazyReader::new(ntuple.clone(), selection, accesses.clone(), options).unwrap())
}

fn column(arrays: &LazyArrays, name: &str) -> RecordBatch {
    arrays.column(name).unwrap().to_arrow().unwrap()
}

/// Touches columns, and returns how many vector reads that takes.
fn touch(arrays: &LazyArrays, source: &RecordSource, names: &[&str]) -> usize {
    source.clear();
    for name in names {
        arrays.column(name).unwrap();
    }
    source.log().len()
}

fn main_set(accesses: &Accesses) -> Vec<String> {
    let columns = accesses.columns().into_iter();
    let main = columns.filter(|column| column.is_main);
    main.map(|column| column.name).collect()
}

#[test]
fn touched_columns_are_those_of_a_read_in_any_order() {
    let mut next = random(7);
    let trees = std::fs::read_dir(root().join("testdata/ttree")).unwrap();
    let trees = trees.map(|tree| tree.unwrap().path());
    let trees = trees.map(|tree| {
        let ntuple = NTuple::open_files(&[tree.to_str().unwrap()], OpenOptions::default());
        (tree.display().to_string(), ntuple)
    });
    let trees = trees.filter_map(|(name, tree)| Some((name, tree.ok()?)));
    let mut n_columns = 0;
    for (name, ntuple) in all_ntuples().into_iter().chain(trees) {
        let (n, ntuple) = (ntuple.n_entries(), Arc::new(ntuple));
        let selection = ntuple.select(None).unwrap();
        let Ok(settled) = ntuple.without_unreadable(&selection, &(0..n)) else {
            continue;
        };
        for (small, range) in [(0, 0..n), (1000, n / 3..n / 2), (u64::MAX, n / 5..n)] {
            let options = LazyOptions {
                small,
                ..LazyOptions::default()
            };
            let accesses = Arc::new(Accesses::default());
            let (ntuple, selection) = (ntuple.clone(), settled.clone());
            let lazy = LazyReader::new(ntuple.clone(), selection, accesses, options).unwrap();
            let whole = ntuple.read(&settled, range.clone(), &Default::default());
            let Ok(whole) = whole else {
                continue; // of an unreadable branch, the first entries of some files are readable
            };
            let whole = whole.to_arrow().unwrap();
            let names = whole.schema();
            for _ in 0..2 {
                let arrays = lazy.read(range.clone()).unwrap();
                for _ in 0..names.fields().len().min(20) {
                    let at = next(names.fields().len() as u64) as usize;
                    let found = column(&arrays, names.field(at).name());
                    assert_eq!(found.column(0), whole.column(at), "{name} {range:?} {at}");
                    n_columns += 1;
                }
            }
        }
    }
    assert!(n_columns > 1000);
}

/// From servers, all of a small step is fetched at once, and decoded slot by slot.
#[test]
fn slots_that_are_held_are_decoded_in_any_order() {
    let mut next = random(11);
    let trees = std::fs::read_dir(root().join("testdata/ttree")).unwrap();
    let trees = trees.map(|tree| tree.unwrap().path());
    let (mut n_slots, mut n_far) = (0, 0);
    for file in test_files().into_iter().chain(trees) {
        let memory = MemorySource::new(file.to_str().unwrap(), std::fs::read(&file).unwrap());
        let open = |source: Arc<dyn ByteSource>| {
            NTuple::open_source(source, None, OpenOptions::default()).ok()
        };
        let record = far(memory.clone());
        let (Some(near), Some(distant)) = (open(memory), open(record.clone())) else {
            continue; // it has several ntuples
        };
        let n = near.n_entries();
        let selection = near.select(None).unwrap();
        let Ok(settled) = near.without_unreadable(&selection, &(0..n)) else {
            continue;
        };
        let lazy = |ntuple: NTuple, small| {
            let options = LazyOptions {
                small,
                ..LazyOptions::default()
            };
            let (ntuple, settled) = (Arc::new(ntuple), settled.clone());
            LazyReader::new(ntuple, settled, Arc::default(), options).unwrap()
        };
        let (near, distant) = (lazy(near, 0), lazy(distant, u64::MAX));
        for range in [0..n, n / 3..n / 2, n / 5..n] {
            let (expected, found) = (
                near.read(range.clone()).unwrap(),
                distant.read(range.clone()).unwrap(),
            );
            record.clear();
            let all = expected.columns().schema().slots.len();
            for _ in 0..all.min(20) {
                let slot = next(all as u64) as usize;
                let Ok(expected) = expected.touch(slot, None) else {
                    continue; // of an unreadable branch
                };
                let found = found.touch(slot, None).unwrap();
                let shown = |data| format!("{data:?}");
                assert_eq!(
                    shown(found),
                    shown(expected),
                    "{} {range:?} {slot}",
                    file.display()
                );
                n_slots += 1;
            }
            n_far += record.log().len();
        }
    }
    assert!(n_slots > 1000 && n_far > 0, "{n_slots} {n_far}");
}

#[test]
fn the_first_touch_of_a_small_step_fetches_everything_at_once() {
    for (file, path) in [
        ("testdata/dimuon.root", None),
        ("testdata/ttree/counted.root", None),
    ] {
        let (ntuple, source) = distant(&root().join(file), path);
        let lazy = reader(&ntuple, &Arc::default(), u64::MAX);
        let arrays = lazy.read(0..ntuple.n_entries()).unwrap();
        assert_eq!(source.log().len(), 0);
        let names = common::top_level(&ntuple);
        let first = touch(&arrays, &source, &[&names[0]]);
        assert!((1..=2).contains(&first), "{file}: {first}");
        let others: Vec<&str> = names[1..].iter().map(String::as_str).collect();
        assert_eq!(touch(&arrays, &source, &others), 0, "{file}");
    }
}

#[test]
fn a_large_first_step_takes_a_round_trip_for_each_collection_and_later_ones_one() {
    let (ntuple, source) = distant(&root().join("testdata/dimuon.root"), None);
    let accesses = Arc::new(Accesses::default());
    // enough for the collection of muons, too little for everything
    let lazy = reader(&ntuple, &accesses, 100_000);
    let names = common::top_level(&ntuple);
    assert!(names.contains(&"event".to_owned()), "{names:?}");
    let first = lazy.read(0..4000).unwrap();
    assert_eq!(touch(&first, &source, &["Muon_pt"]), 1);
    assert_eq!(
        touch(&first, &source, &["Muon_eta", "nMuon", "Muon_charge"]),
        0
    );
    let flat = touch(&first, &source, &["event", "run"]);
    assert!(flat <= 2, "{flat}");
    drop(first);
    assert_eq!(accesses.steps(), 1);
    let set = main_set(&accesses);
    assert!(set.contains(&"event".to_owned()), "{set:?}");
    for start in [4000, 8000] {
        let later = lazy.read(start..start + 4000).unwrap();
        assert_eq!(
            touch(
                &later,
                &source,
                &[
                    "Muon_pt",
                    "event",
                    "run",
                    "nMuon",
                    "Muon_eta",
                    "Muon_charge"
                ]
            ),
            1
        );
    }
    let counts = accesses.counts();
    assert_eq!(counts.steps, 3);
    assert!(counts.bytes_unused < counts.bytes_fetched, "{counts:?}");
}

#[test]
fn columns_that_are_touched_after_a_cut_are_fetched_together() {
    let (ntuple, source) = distant(&root().join("testdata/dimuon.root"), None);
    let accesses = Arc::new(Accesses::default());
    let lazy = reader(&ntuple, &accesses, 0);
    let step = |trigger: bool| {
        let arrays = lazy.read(0..4000).unwrap();
        let main = touch(&arrays, &source, &["event"]);
        let late = if trigger {
            touch(&arrays, &source, &["Muon_eta", "run", "Muon_phi"])
        } else {
            0
        };
        (main, late)
    };
    assert_eq!(step(false), (1, 0));
    assert_eq!(step(false), (1, 0));
    assert_eq!(step(false), (1, 0));
    assert_eq!(step(true), (1, 2), "without a record by collections");
    assert_eq!(step(false), (1, 0));
    assert_eq!(step(true), (1, 1), "with it all at once");
    assert_eq!(step(false), (1, 0));
    assert_eq!(main_set(&accesses), ["event"]);
    assert_eq!(accesses.columns().len(), 5);
}

#[test]
fn steps_read_the_main_set_of_the_next_one_ahead() {
    let (ntuple, source) = distant(&root().join("testdata/dimuon.root"), None);
    let whole = common::read(&ntuple, Some(&["Muon_pt".to_owned()]), 0, 12_000);
    for size in [
        StepSize::Bytes(1),
        StepSize::Entries(4000),
        StepSize::Entries(900),
    ] {
        let lazy = reader(&ntuple, &Arc::default(), 0);
        source.clear();
        let (mut n, mut next) = (0, 0);
        for step in LazySteps::new(lazy, 0..12_000, size, true) {
            let (entries, arrays) = step.unwrap();
            assert_eq!(entries.start, next);
            next = entries.end;
            let n_entries = (entries.end - entries.start) as usize;
            let expected = whole.slice(entries.start as usize, n_entries);
            assert_eq!(column(&arrays, "Muon_pt"), expected);
            n += 1;
        }
        assert_eq!(next, 12_000);
        match size {
            StepSize::Entries(900) => assert_eq!(n, 14),
            _ => assert_eq!((n, source.log().len()), (3, 3), "{size:?}"),
        }
    }
}

#[test]
fn threads_that_touch_at_the_same_time_get_the_same_values() {
    let (ntuple, _) = distant(&root().join("testdata/dimuon.root"), None);
    let whole = common::read(&ntuple, None, 0, 12_000);
    let accesses = Arc::new(Accesses::default());
    let lazy = reader(&ntuple, &accesses, 0);
    for _ in 0..5 {
        let arrays = lazy.read(0..12_000).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (arrays, whole) = (&arrays, &whole);
                scope.spawn(move || {
                    let mut next = random(thread);
                    for _ in 0..10 {
                        let at = next(whole.num_columns() as u64) as usize;
                        let found = column(arrays, whole.schema().field(at).name());
                        assert_eq!(found.column(0), whole.column(at));
                    }
                    arrays.finish();
                });
            }
        });
    }
    assert_eq!(accesses.steps(), 5);
}

#[test]
fn damage_of_a_column_concerns_only_those_who_touch_it() {
    let file = root().join("testdata/dimuon.root");
    let (ntuple, source) = distant(&file, None);
    ntuple.select(Some(&["Muon_eta".to_owned()])).unwrap();
    let eta = ntuple.select(Some(&["Muon_eta".to_owned()])).unwrap();
    let offsets = ntuple.select(Some(&["nMuon".to_owned()])).unwrap();
    ntuple
        .read(&offsets, 0..12_000, &Default::default())
        .unwrap();
    let known = source.log().concat();
    source.clear();
    ntuple.read(&eta, 0..12_000, &Default::default()).unwrap();
    let log = source.log().concat();
    let of_eta = log.iter().max_by_key(|range| range.end - range.start);
    let of_eta = of_eta.filter(|range| !known.contains(range)).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let at = (of_eta.start + (of_eta.end - of_eta.start) / 2) as usize;
    bytes[at] ^= 0xff;
    let memory = MemorySource::new("mem:damaged", bytes);
    let damaged = NTuple::open_source(memory, None, OpenOptions::default()).unwrap();
    let lazy = reader(&Arc::new(damaged), &Arc::default(), u64::MAX);
    let arrays = lazy.read(0..12_000).unwrap();
    let whole = common::read(&ntuple, Some(&["Muon_pt".to_owned()]), 0, 12_000);
    assert_eq!(column(&arrays, "Muon_pt"), whole);
    arrays.column("Muon_eta").unwrap_err();
    assert_eq!(column(&arrays, "Muon_pt"), whole);
}

#[test]
fn a_record_in_a_directory_is_continued_by_the_next_run() {
    let directory = tempfile::tempdir().unwrap();
    let (ntuple, source) = distant(&root().join("testdata/dimuon.root"), None);
    let of = |function: &str| accesses_of(&ntuple, function, Some(directory.path()));
    for _ in 0..3 {
        let arrays = reader(&ntuple, &of("first"), 0).read(0..4000).unwrap();
        touch(&arrays, &source, &["Muon_pt", "event"]);
    }
    let files = || std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(files(), 1);
    assert_eq!(of("second").steps(), 0);
    // as another process would: by a link to the same directory, which this one does not know
    let link = directory.path().join("again");
    std::os::unix::fs::symlink(directory.path(), &link).unwrap();
    let again = accesses_of(&ntuple, "first", Some(&link));
    assert!(again.steps() > 0);
    let arrays = reader(&ntuple, &again, 0).read(4000..8000).unwrap();
    assert_eq!(touch(&arrays, &source, &["event", "Muon_pt"]), 1);
    // a file that is not a record is replaced
    for file in std::fs::read_dir(directory.path()).unwrap() {
        let file = file.unwrap().path();
        if file.is_file() {
            std::fs::write(file, b"{\"steps\": 3, \"columns\": {\"event\": -1}}").unwrap();
        }
    }
    let other = directory.path().join("again/../.");
    assert_eq!(accesses_of(&ntuple, "first", Some(&other)).steps(), 0);
}

#[test]
fn nanoaod_takes_three_round_trips_in_the_first_step_and_one_in_later_ones() {
    let agc = [
        "Electron_pt",
        "Electron_eta",
        "Electron_cutBased",
        "Electron_sip3d",
        "Muon_pt",
        "Muon_eta",
        "Muon_tightId",
        "Muon_sip3d",
        "Muon_pfRelIso04_all",
        "Jet_pt",
        "Jet_eta",
        "Jet_phi",
        "Jet_mass",
        "Jet_btagCSVV2",
        "Jet_jetId",
    ];
    let Some(file) = shared("ttree/nanoaod_v5_1000.root") else {
        return;
    };
    let (ntuple, source) = distant(&file, None);
    let accesses = Arc::new(Accesses::default());
    let lazy = reader(&ntuple, &accesses, 500_000);
    let n = ntuple.n_entries();
    for (step, expected) in [(0, 3), (1, 1), (2, 1)] {
        let arrays = lazy.read(0..n).unwrap();
        source.clear();
        let whole = common::read(&ntuple, Some(&agc.map(str::to_owned)), 0, n);
        source.clear();
        let mut fetches = 0;
        for (at, name) in agc.iter().enumerate() {
            let before = source.log().len();
            assert_eq!(column(&arrays, name).column(0), whole.column(at));
            fetches += usize::from(source.log().len() > before);
        }
        assert_eq!(fetches, expected, "step {step}");
    }
}
