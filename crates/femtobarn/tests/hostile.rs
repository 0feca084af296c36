//! Malicious files: values of metadata and data are changed and checksums are corrected. Any operation on such a file
//! ends soon, in bounded memory, with a result or an error. A file that passes verification can be read.
//!
//! `FEMTOBARN_HOSTILE` sets the number of files (2000 by default), `FEMTOBARN_HOSTILE_FIRST` the first one, which is the
//! seed of its changes. The last file tried is `hostile/current.*` in Cargo's directory of temporary files.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests"
)]

mod common;
mod operations;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::root;
use femtobarn::convert::{ConvertOptions, Replace, convert};
use femtobarn::merge::{Level, MergeOptions, merge};
use femtobarn_testkit::{Mutator, edited, inflated};
use operations::{bounded, check_one, input, open, read, subjects};

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().unwrap())
}

#[test]
fn changed_files_give_errors_or_values_in_bounded_time_and_memory() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let subjects = subjects(&root().join("testdata"), &folder);
    assert!(subjects.len() > 40);
    let (first, n) = (
        number("FEMTOBARN_HOSTILE_FIRST", 0),
        number("FEMTOBARN_HOSTILE", 2000),
    );
    // one minute by default; FEMTOBARN_HOSTILE sets a number of seeds
    let is_asked = std::env::var_os("FEMTOBARN_HOSTILE").is_some();
    let (start, mut tried) = (Instant::now(), 0);
    for seed in first..first + n {
        if !is_asked && start.elapsed() > Duration::from_secs(60) {
            break;
        }
        check_one(&mut Mutator::new(seed), &subjects, &folder, |name| {
            if is_asked {
                eprintln!("change {seed} of {name}");
            }
        });
        tried += 1;
    }
    eprintln!("{tried} changed files in {:?}", start.elapsed());
}

#[test]
fn objects_that_were_moved_behind_a_file_are_read_as_before() {
    // files that changes of trees are based on
    for file in ["objects_split99", "leaves_many_baskets", "counted"] {
        let file = fs::read(root().join(format!("testdata/ttree/{file}.root"))).unwrap();
        let moved = inflated(&file);
        assert!(moved.len() > file.len());
        let (was, is) = (open(&file).unwrap(), open(&moved).unwrap());
        let n = was.n_entries();
        let values = read(&was, 0, n).unwrap();
        assert!(values.is_some());
        assert_eq!(values, read(&is, 0, n).unwrap());
        let reports = is.verify(1, None).unwrap();
        assert!(reports.iter().all(|report| report.damages.is_empty()));
    }
}

/// Replaces bytes that occur exactly once.
fn replace(bytes: &mut [u8], was: &[u8], is: &[u8]) {
    let places = bytes.windows(was.len()).enumerate();
    let places: Vec<usize> = places
        .filter(|(_, window)| *window == was)
        .map(|(at, _)| at)
        .collect();
    assert_eq!(places.len(), 1, "{was:?}");
    bytes[places[0]..places[0] + is.len()].copy_from_slice(is);
}

fn words(values: &[u64]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// Checks that verifying, reading, converting, merging and rebuilding reject a file in the same way.
fn is_refused(changed: &[u8], kind: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hostile.root");
    fs::write(&path, changed).unwrap();
    let ntuple = open(changed).unwrap();
    let reports = bounded(kind, || ntuple.verify(1, None)).unwrap();
    assert!(!reports[0].damages.is_empty(), "{kind}: verified as good");
    assert!(
        bounded(kind, || read(&ntuple, 0, ntuple.n_entries())).is_err(),
        "{kind}: read"
    );
    let output = folder.path().join("out.root");
    let options = ConvertOptions::default();
    let converted = bounded(kind, || {
        convert(&[input(&path)], &output, &options, &|_| true)
    });
    assert!(converted.is_err(), "{kind}: converted");
    let options = MergeOptions {
        level: Level::L4,
        ..MergeOptions::default()
    };
    let rebuilt = bounded(kind, || {
        merge(&[input(&path)], &output, &options, &|_| true)
    });
    assert!(rebuilt.is_err(), "{kind}: rebuilt");
    assert!(!output.exists(), "{kind}: an output appeared");
}

#[test]
fn clusters_and_pages_that_contradict_each_other_are_refused_by_all() {
    let file = fs::read(root().join("testdata/rntuple/clusters.root")).unwrap();
    let ntuple = open(&file).unwrap();
    let list = ntuple.readers()[0].page_list(0).unwrap().unwrap();
    let clusters = list.clusters();
    let (first, second) = (clusters[0], clusters[1]);
    let summary = |first: u64, n: u64| words(&[first, n]);
    let was = summary(second.first_entry, second.n_entries);
    for (kind, is) in [
        ("a cluster far behind", summary(1 << 61, second.n_entries)),
        ("a gap", summary(second.first_entry + 1, second.n_entries)),
        (
            "an overlap",
            summary(second.first_entry - 1, second.n_entries),
        ),
        (
            "too few entries",
            summary(second.first_entry, second.n_entries - 1),
        ),
        (
            "10^12 entries",
            summary(second.first_entry, 1_000_000_000_000),
        ),
    ] {
        let changed = edited(&file, 0, |list| replace(list, &was, &is), |_| {});
        is_refused(&changed, kind);
    }
    // the cluster group agrees, the pages do not
    let column = list.column(0, 0).unwrap();
    let page = list.pages(column)[0];
    let size = u32::try_from(page.body.size).unwrap().to_le_bytes();
    let with_elements = |n: u32| {
        let n = if page.has_checksum {
            n.wrapping_neg()
        } else {
            n
        };
        [
            &n.to_le_bytes()[..],
            &size,
            &page.body.address.offset().to_le_bytes(),
        ]
        .concat()
    };
    assert!(first.n_entries > 1);
    for (kind, n) in [
        ("a page that claims 2^31 - 1 elements", u32::MAX >> 1),
        ("a page with an element too few", page.n_elements - 1),
        ("a page with an element too many", page.n_elements + 1),
    ] {
        let (was, is) = (with_elements(page.n_elements), with_elements(n));
        let changed = edited(&file, 0, |list| replace(list, &was, &is), |_| {});
        is_refused(&changed, kind);
    }
}

#[test]
fn pages_of_unknown_compression_settings_are_copied_and_made_anew() {
    let file = fs::read(root().join("testdata/rntuple/clusters.root")).unwrap();
    let ntuple = open(&file).unwrap();
    let list = ntuple.readers()[0].page_list(0).unwrap().unwrap();
    let column = list.column(0, 0).unwrap();
    let page = list.pages(column)[0];
    // the settings follow the last page of a column, and the index of the first element
    let end = |settings: u32| {
        let offset = page.body.address.offset().to_le_bytes();
        [
            &offset[..],
            &column.element_offset.to_le_bytes(),
            &settings.to_le_bytes(),
        ]
        .concat()
    };
    let (was, is) = (end(column.compression), end(1010));
    let changed = edited(&file, 0, |list| replace(list, &was, &is), |_| {});
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.root");
    fs::write(&path, changed).unwrap();
    for (level, split) in [
        (Level::L1, None),
        (Level::L2, None),
        (Level::L3, Some(false)),
        (Level::L4, None),
    ] {
        let options = MergeOptions {
            level,
            split,
            compression: (level == Level::L2).then_some(505),
            overwrite: true,
            verify: true,
            ..MergeOptions::default()
        };
        let output = folder.path().join("out.root");
        merge(&[input(&path)], &output, &options, &|_| true).unwrap();
    }
}

#[test]
fn elements_that_a_page_list_counts_wrongly_are_told_by_verification() {
    // ROOT finds elements by these numbers; a reader that counts pages does not notice them
    let file = fs::read(root().join("testdata/rntuple/clusters.root")).unwrap();
    let ntuple = open(&file).unwrap();
    let list = ntuple.readers()[0].page_list(0).unwrap().unwrap();
    let column = list.column(1, 0).unwrap();
    let page = list.pages(column).last().unwrap();
    let end = |first: i64| {
        let numbers = [page.body.address.offset().cast_signed(), first];
        numbers.map(i64::to_le_bytes).concat()
    };
    let was = end(column.element_offset);
    for by in [-1, 1] {
        let is = end(column.element_offset + by);
        let changed = edited(&file, 0, |list| replace(list, &was, &is), |_| {});
        let reports = open(&changed).unwrap().verify(1, None).unwrap();
        let [damage] = &reports[0].damages[..] else {
            panic!("{:?}", reports[0].damages);
        };
        assert_eq!(damage.cluster, 1);
        assert!(
            damage.problem.contains("first element in a cluster"),
            "{}",
            damage.problem
        );
    }
}

#[test]
fn zeros_that_no_page_holds_are_in_proportion_to_what_pages_hold() {
    // fields were added late: earlier clusters have zeros for them, as many as the array length says
    let file = fs::read(root().join("testdata/rntuple/extension_late.root")).unwrap();
    let sized = |n: u64| [b"std::array<float,2>", &[0; 8][..], &n.to_le_bytes()].concat();
    for n in [1 << 27, 1 << 50, 1 << 58, u64::MAX] {
        let changed = edited(
            &file,
            0,
            |_| {},
            |footer| replace(footer, &sized(2), &sized(n)),
        );
        is_refused(&changed, &format!("an array of {n} items"));
    }
}

#[test]
fn arrow_files_that_claim_more_than_is_there_are_errors_that_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let (table, output) = (
        folder.path().join("table.arrow"),
        folder.path().join("out.root"),
    );
    let given = input(&root().join("testdata/rntuple/lists.root"));
    convert(&[given], &table, &ConvertOptions::default(), &|_| true).unwrap();
    let intact = fs::read(&table).unwrap();
    let end = intact.len() - 10;
    let mut refused = 0;
    // each aligned word of the footer and of the first messages is set to impossible values
    let places = (8..intact.len().min(4096))
        .step_by(8)
        .chain((end - end % 8 - 2048..end).step_by(8));
    for at in places {
        let mut changed = intact.clone();
        changed[at..at + 8].copy_from_slice(&(1u64 << 62 | 8).to_le_bytes());
        fs::write(&table, &changed).unwrap();
        let options = ConvertOptions {
            replace: Replace::Anything,
            ..ConvertOptions::default()
        };
        let done = bounded("an Arrow file", || {
            convert(&[input(&table)], &output, &options, &|_| true)
        });
        if let Err(error) = done {
            refused += 1;
            assert!(error.to_string().contains("table.arrow"), "{at}: {error}");
        }
    }
    assert!(refused > 50, "{refused}");
}

/// A file with an uncompressed tree, and the position of bytes that occur exactly once in it.
fn with_tree(name: &str, bytes: &[u8]) -> (Vec<u8>, usize) {
    let path = root().join(format!("testdata/ttree/{name}.root"));
    let file = inflated(&fs::read(path).unwrap());
    let places = file.windows(bytes.len()).enumerate();
    let places: Vec<usize> = places
        .filter(|(_, window)| *window == bytes)
        .map(|(at, _)| at)
        .collect();
    assert_eq!(places.len(), 1, "{name}");
    (file, places[0])
}

/// A file whose tree states this number of entries.
fn tree_of(n_entries: u64) -> Vec<u8> {
    // after five counters: fWeight, fTimerInterval, fScanField, fUpdate, fDefaultEntryOffsetLen
    let mut rest = 1f64.to_be_bytes().to_vec();
    rest.extend([0, 25, 0, 1000u32].map(u32::to_be_bytes).concat());
    let (mut file, at) = with_tree("objects_split0", &rest);
    assert_eq!(file[at - 40..at - 32], 30u64.to_be_bytes());
    file[at - 40..at - 32].copy_from_slice(&n_entries.to_be_bytes());
    file
}

#[test]
fn trees_with_more_entries_than_their_files_can_hold_are_refused() {
    let intact = open(&tree_of(30)).unwrap();
    assert_eq!(intact.n_entries(), 30);
    assert!(intact.verify(1, None).unwrap()[0].is_good());
    // branches without entries take no bytes: such a file may claim as many entries as an ntuple without fields
    for n in [
        (1 << 24) + 1,
        1 << 32,
        (255 << 40) + 30,
        i64::MAX.cast_unsigned(),
    ] {
        let error = bounded("opening", || open(&tree_of(n))).unwrap_err();
        assert_eq!(error.kind(), "inconsistent", "{error}");
        assert!(error.to_string().contains("number of entries"), "{error}");
    }
}

#[test]
fn a_tree_of_which_no_field_can_be_checked_is_not_good() {
    let ntuple = open(&tree_of(31)).unwrap();
    assert_eq!(ntuple.n_entries(), 31);
    let reports = ntuple.verify(1, None).unwrap();
    let [report] = &reports[..] else {
        panic!("one file");
    };
    assert!(report.nothing_checked && !report.not_checked.is_empty() && !report.is_good());
    // nor is it left out of a merge
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("more.root");
    fs::write(&path, tree_of(31)).unwrap();
    let (output, options) = (folder.path().join("out.root"), MergeOptions::default());
    let error = merge(&[input(&path)], &output, &options, &|_| true).unwrap_err();
    assert_eq!(error.kind(), "inconsistent", "{error}");
    assert!(!output.exists());
    // without entries there is nothing to check
    let reports = open(&tree_of(0)).unwrap().verify(1, None).unwrap();
    assert!(reports[0].is_good(), "{reports:?}");
}

#[test]
fn what_cannot_be_read_without_a_damaged_counter_is_left_out() {
    let lengths = b"\x08counts.m\nm[counts_]\x40\0\0\x06";
    let (intact, at) = with_tree("arrays_split1", lengths);
    // then: version and members of TAttFill, fCompress, fBasketSize, fEntryOffsetLen, fWriteBasket
    let at = at + lengths.len() + 6 + 12;
    assert_eq!(intact[at..at + 4], 1u32.to_be_bytes());
    let mut changed = intact.clone();
    changed[at..at + 4].copy_from_slice(&0u32.to_be_bytes());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changed.root");
    fs::write(&path, &changed).unwrap();
    let (intact, changed) = (open(&intact).unwrap(), open(&changed).unwrap());
    let skipped = |name: &str| {
        let mut skipped = changed.readers()[0].descriptor().skipped.iter();
        skipped.find(|skipped| skipped.name == name).unwrap()
    };
    assert!(skipped("counts.m").is_damage && !skipped("counts.p").is_damage);
    assert!(
        skipped("counts.p")
            .reason
            .contains("its lengths are in branch")
    );
    let report = &changed.verify(1, None).unwrap()[0];
    assert_eq!(report.damages.len(), 1);
    assert_eq!(report.damages[0].field, "counts.m");
    assert!(!report.is_good());
    // the rest is unchanged
    let n = changed.n_entries();
    let (was, is) = (read(&intact, 0, n).unwrap(), read(&changed, 0, n).unwrap());
    let (was, is) = (was.unwrap(), is.unwrap());
    assert!(is.num_columns() > 20);
    assert_eq!(is.num_columns() + 2, was.num_columns());
    for (field, column) in is.schema().fields().iter().zip(is.columns()) {
        assert_eq!(was.column_by_name(field.name()), Some(column), "{field}");
    }
    let output = folder.path().join("out.root");
    let converted = convert(
        &[input(&path)],
        &output,
        &ConvertOptions::default(),
        &|_| true,
    );
    assert!(converted.is_ok(), "{converted:?}");
}
