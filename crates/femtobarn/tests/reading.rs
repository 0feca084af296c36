//! Reading a part gives the same values as that part of a read of the whole, for all read options.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

mod common;

use std::sync::Arc;

use common::{Distant, all_ntuples, ntuples_of, random, read, read_with, test_files, top_level};
use femtobarn::io::{MemorySource, SourceCost};
use femtobarn::{ReadOptions, Steps, StepsOptions};

#[test]
fn any_entry_range_equals_the_slice_of_the_whole() {
    for (name, ntuple) in all_ntuples() {
        let n = ntuple.n_entries();
        let whole = read(&ntuple, None, 0, n);
        assert_eq!(whole.num_rows() as u64, n);
        let mut random = random(7);
        let mut ranges = vec![(0, n), (n, n), (0, n.min(1)), (n.saturating_sub(1), n)];
        for _ in 0..if n > 1000 { 12 } else { 40 } {
            let start = random(n + 1);
            ranges.push((start, start + random(n - start + 1)));
        }
        for (start, stop) in ranges {
            let part = read(&ntuple, None, start, stop);
            let slice = whole.slice(start as usize, (stop - start) as usize);
            assert_eq!(part, slice, "{name} {start}..{stop}");
        }
    }
}

#[test]
fn any_columns_equal_those_of_the_whole() {
    for (name, ntuple) in all_ntuples() {
        let n = ntuple.n_entries();
        let whole = read(&ntuple, None, 0, n);
        let names = top_level(&ntuple);
        let mut random = random(11);
        for _ in 0..8 {
            let mut some: Vec<String> = names.iter().filter(|_| random(3) == 0).cloned().collect();
            if random(2) == 0 {
                some.reverse();
            }
            let part = read(&ntuple, Some(&some), n / 3, n);
            assert_eq!(part.num_columns(), some.len());
            for column in &some {
                let expected = whole
                    .column_by_name(column)
                    .unwrap()
                    .slice((n / 3) as usize, (n - n / 3) as usize);
                assert_eq!(
                    part.column_by_name(column).unwrap(),
                    &expected,
                    "{name} {column}"
                );
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_arrays() {
    for (name, ntuple) in all_ntuples() {
        let n = ntuple.n_entries();
        let whole = read(&ntuple, None, 0, n);
        for threads in [2, 3, 16] {
            let options = ReadOptions {
                threads,
                ..ReadOptions::default()
            };
            assert_eq!(
                read_with(&ntuple, None, 0, n, &options),
                whole,
                "{name} with {threads} threads"
            );
        }
    }
}

#[test]
fn requests_in_flight_give_the_same_arrays_within_any_budget() {
    for file in test_files() {
        let memory = MemorySource::new(file.to_str().unwrap(), std::fs::read(&file).unwrap());
        let far = ntuples_of(Arc::new(Distant {
            memory: memory.clone(),
            cost: SourceCost {
                largest_gap: 100,
                largest_request: 2000,
                most_ranges: 3,
                concurrency: 4,
                ..SourceCost::default()
            },
        }));
        for ((name, near), (_, far)) in ntuples_of(memory).into_iter().zip(far) {
            let n = near.n_entries();
            let whole = read(&near, None, 0, n);
            for (threads, in_flight) in [(1, 1), (2, 5000), (3, 64 << 20)] {
                let options = ReadOptions {
                    threads,
                    in_flight: Some(in_flight),
                    ..ReadOptions::default()
                };
                assert_eq!(
                    read_with(&far, None, 0, n, &options),
                    whole,
                    "{} {name}",
                    file.display()
                );
            }
        }
    }
}

#[test]
fn steps_are_the_slices_of_the_whole() {
    for (name, ntuple) in all_ntuples() {
        let n = ntuple.n_entries();
        let whole = read(&ntuple, None, 0, n);
        let ntuple = Arc::new(ntuple);
        let selection = ntuple.select(None).unwrap();
        for (step, page_cache, prefetch) in [
            (n / 7 + 1, 0, false),
            (n / 13 + 1, 1 << 20, true),
            (n + 1, 3000, false),
        ] {
            let options = StepsOptions {
                step,
                page_cache,
                prefetch,
                ..StepsOptions::default()
            };
            let mut next = 0;
            for step in Steps::new(ntuple.clone(), selection.clone(), 0..n, options) {
                let (entries, arrays) = step.unwrap();
                assert_eq!(entries.start, next);
                let slice = whole.slice(
                    entries.start as usize,
                    (entries.end - entries.start) as usize,
                );
                assert_eq!(arrays.to_arrow().unwrap(), slice, "{name} {entries:?}");
                next = entries.end;
            }
            assert_eq!(next, n);
        }
    }
}

#[test]
fn an_iteration_decompresses_no_page_twice_while_the_cache_has_room() {
    let ntuple = Arc::new(
        common::ntuples_in(&common::root().join("testdata/dimuon.root"))
            .remove(0)
            .1,
    );
    let selection = ntuple.select(None).unwrap();
    let pages = ntuple
        .explain(&selection, 0..ntuple.n_entries())
        .unwrap()
        .pages;
    let options = StepsOptions {
        step: 100,
        prefetch: false,
        ..StepsOptions::default()
    };
    assert!(
        Steps::new(ntuple.clone(), selection, 0..ntuple.n_entries(), options)
            .all(|step| step.is_ok())
    );
    let decoded = ntuple
        .metrics()
        .into_iter()
        .find(|(name, _)| *name == "pages")
        .unwrap()
        .1;
    // the last offset of a page that ends with a step is read again
    assert!(
        decoded <= pages + pages / 4,
        "{decoded} pages decoded of {pages}"
    );
}
