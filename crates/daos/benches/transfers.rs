//! Throughput of this client beside that of a bare loop in C over the same library, with the same keys and sizes:
//! `cargo bench -p femtobarn-daos`. It uses the stand-in of the tests, or a real DAOS with
//! `FEMTOBARN_TEST_DAOS=POOL`. The stand-in is one thread that copies; `DAOS_STANDIN_FAULTS=delay_us=500`
//! makes it answer later.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    unsafe_code,
    clippy::indexing_slicing,
    reason = "a benchmark may panic"
)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::ffi::{CString, c_char, c_int};
use std::time::Instant;

use bytes::Bytes;
use common::{Daos, compiled, key, unused};
use femtobarn_daos::{Container, Existing, Fetch, Settings, Update, ValueKey};

/// Rounds of each side in a turn (the best one counts), and turns (their median counts).
const ROUNDS: usize = 2;
const TURNS: usize = 7;

/// Values, their size, and how many akeys an object has.
const CASES: [(usize, usize, usize); 4] = [
    (256, 1 << 20, 1),
    (2048, 1 << 16, 1),
    (2048, 1 << 16, 16),
    (8192, 4096, 64),
];

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let daos = Daos::any();
    println!("MB/s of writing and reading; ratio to the bare loop, median of {TURNS} turns\n");
    println!(" values   bytes akeys in flight |  write  ratio |   read  ratio");
    for (n, size, akeys) in CASES {
        for in_flight in [1, 8, 16] {
            let mut rates = [const { Vec::new() }; 2];
            let mut ratios = [const { Vec::new() }; 2];
            for _ in 0..TURNS {
                let bare = bare(&daos, n, size, akeys, in_flight);
                let ours = ours(&daos, n, size, akeys, in_flight);
                for at in [0, 1] {
                    rates[at].push(ours[at]);
                    ratios[at].push(ours[at] / bare[at]);
                }
            }
            let [write, read] = rates.map(median);
            let [of_write, of_read] = ratios.map(median);
            println!(
                "{n:7} {size:7} {akeys:5} {in_flight:9} | {write:6.0} {of_write:6.2} | {read:6.0} {of_read:6.2}"
            );
        }
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// The rates of the bare loop: writing and reading, and both by the time of processors.
fn bare(daos: &Daos, n: usize, size: usize, akeys: usize, in_flight: usize) -> [f64; 4] {
    type Loop = unsafe extern "C" fn(
        *const c_char,
        *const c_char,
        *const c_char,
        c_int,
        usize,
        c_int,
        c_int,
        c_int,
        u64,
        *mut f64,
    ) -> c_int;
    let library = daos.settings().library;
    let library = library.unwrap_or_else(|| "libdaos.so.2".into());
    let (pool, container) = (daos.address().pool(), daos.address().container());
    let names =
        [library.to_str().unwrap(), pool, container].map(|name| CString::new(name).unwrap());
    let [n, akeys, in_flight] = [n, akeys, in_flight].map(|number| number as c_int);
    let (first, mut rates) = (u64::from(unused()) << 20, [0.0; 4]);
    let path = compiled(
        "bare_loop.c",
        "libdaos-bare-loop.so",
        &["-shared", "-fPIC", "-ldl"],
    );
    // SAFETY: the type is that of the source that was just compiled.
    let code = unsafe {
        let loaded = libloading::Library::new(path).unwrap();
        let bare_loop = loaded.get::<Loop>("bare_loop").unwrap();
        let [library, pool, container] = names.each_ref().map(|name| name.as_ptr());
        let rounds = ROUNDS as c_int;
        bare_loop(
            library,
            pool,
            container,
            n,
            size,
            akeys,
            in_flight,
            rounds,
            first,
            rates.as_mut_ptr(),
        )
    };
    assert_eq!(code, 0);
    rates
}

/// The rates of this client.
fn ours(daos: &Daos, n: usize, size: usize, akeys: usize, in_flight: usize) -> [f64; 2] {
    let settings = Settings {
        in_flight,
        ..daos.settings()
    };
    let container = Container::create(daos.address(), settings).unwrap();
    let (class, index) = (container.class("").unwrap(), unused());
    let keys: Vec<ValueKey> = (0..n as u64)
        .map(|at| {
            let object = class.object(at / akeys as u64, index);
            key(object, 1, at % akeys as u64)
        })
        .collect();
    let fetches: Vec<Fetch> = keys
        .iter()
        .map(|&key| Fetch {
            key,
            room: size as u64,
        })
        .collect();
    let megabytes = 1e-6 * (n * size) as f64;
    let mut best = [0f64; 2];
    for _ in 0..ROUNDS {
        let value = |(at, &key)| Update {
            key,
            parts: vec![Bytes::from(vec![at as u8; size])],
        };
        let updates: Vec<Update> = keys.iter().enumerate().map(value).collect();
        // as in the bare loop, the memory of values is freed afterwards
        let kept = updates.clone();
        let since = Instant::now();
        container.update(updates, Existing::Replaced).unwrap();
        best[0] = best[0].max(megabytes / since.elapsed().as_secs_f64());
        drop(kept);
        let since = Instant::now();
        let found = container.fetch(&fetches).unwrap();
        best[1] = best[1].max(megabytes / since.elapsed().as_secs_f64());
        assert!(
            found
                .iter()
                .all(|found| found.as_ref().is_some_and(|found| found.len() == size))
        );
    }
    let objects: Vec<_> = keys.iter().step_by(akeys).map(|key| key.object).collect();
    container.punch_objects(&objects).unwrap();
    best
}
