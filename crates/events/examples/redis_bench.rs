//! How fast the store in a Redis is, beside what `redis-benchmark` does with the same commands on the same machine.
//!
//! ```sh
//! redis-server --port 7999 --save '' --appendonly no &
//! cargo run --release -p femtobarn-events --example redis_bench -- redis://127.0.0.1:7999 100 800
//! ```
//!
//! 100,000 events in 10 runs of 10 subruns, with one product each, in batches of 1024; medians of five rounds. The server
//! is emptied before each round: it must be one for this.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "it is an example")]

use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use femtobarn_events::{Backend, Batch, Parent, ProductName, RedisBackend, Scan, Uuid, Wanted};

const RUNS: u64 = 10;
const SUBRUNS: u64 = 10;
const EVENTS: u64 = 1000;
const N: u64 = RUNS * SUBRUNS * EVENTS;
const BATCH: usize = 1024;
/// How many events are loaded one by one.
const SINGLE: u64 = 20_000;
const ROUNDS: usize = 5;
const DATASET: Uuid = Uuid([7; 16]);

fn main() {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or("redis://127.0.0.1:7999".into());
    let sizes: Vec<usize> = args.map(|size| size.parse().unwrap()).collect();
    let sizes = if sizes.is_empty() {
        vec![100, 800]
    } else {
        sizes
    };
    for size in sizes {
        let mut all: Vec<Vec<f64>> = vec![Vec::new(); 5];
        for _ in 0..ROUNDS {
            empty(&url);
            let store: Arc<dyn Backend> = RedisBackend::connect(&url).unwrap();
            let figures = [
                write(&*store, size),
                load_all(&*store, size, 10),
                load_all(&*store, size, 1),
                iterate(&*store, size),
                load_one(&*store),
            ];
            all.iter_mut()
                .zip(figures)
                .for_each(|(all, figure)| all.push(figure));
        }
        let names = [
            "batch store",
            "load of all, 10 subruns a call",
            "load of all, a subrun a call",
            "iterate, and load one by one",
            "load one by one",
        ];
        for (name, mut figures) in names.iter().zip(all) {
            figures.sort_by(f64::total_cmp);
            println!(
                "{size} B: {name}: {:.0} k events/s",
                figures.get(ROUNDS / 2).unwrap() / 1e3
            );
        }
    }
    raw(&url);
}

fn empty(url: &str) {
    redis_cli(url, &["flushall"]);
}

fn redis_cli(url: &str, words: &[&str]) {
    let port = url.rsplit(':').next().unwrap().trim_end_matches('/');
    let done = Command::new("redis-cli")
        .args(["-p", port])
        .args(words)
        .output()
        .unwrap();
    assert!(done.status.success());
}

fn name() -> ProductName {
    ProductName::new("particles", "std::vector<Particle>").unwrap()
}

fn parents() -> Vec<Parent> {
    let all = (0..RUNS).flat_map(|run| (0..SUBRUNS).map(move |subrun| (run, subrun)));
    all.map(|(run, subrun)| Parent::subrun(DATASET, run, subrun))
        .collect()
}

fn rate(n: u64, started: Instant) -> f64 {
    f64::from(u32::try_from(n).unwrap()) / started.elapsed().as_secs_f64()
}

fn write(store: &dyn Backend, size: usize) -> f64 {
    let (name, value) = (name(), vec![0x5a; size]);
    let started = Instant::now();
    let mut batch = Batch::default();
    for parent in parents() {
        batch.create(Parent::run(DATASET, parent.run), parent.subrun);
        for event in 0..EVENTS {
            batch.create(parent, event);
            batch.store(parent, event, &name, &value);
            if batch.len() >= 2 * BATCH {
                store.write(&batch).unwrap();
                batch.clear();
            }
        }
    }
    store.write(&batch).unwrap();
    rate(N, started)
}

fn load_all(store: &dyn Backend, size: usize, n_parents: usize) -> f64 {
    let (name, events) = (name(), (0..EVENTS).collect::<Vec<_>>());
    let started = Instant::now();
    let mut n = 0;
    for parents in parents().chunks(n_parents) {
        let wanted: Vec<_> = parents
            .iter()
            .map(|&parent| Wanted {
                parent,
                name: &name,
                events: &events,
            })
            .collect();
        let loaded = store.load(&wanted, &mut |_, _, stored| {
            n += u64::from(stored.is_some_and(|stored| stored.len() > size));
            Ok(())
        });
        loaded.unwrap();
    }
    assert_eq!(n, N);
    rate(N, started)
}

fn iterate(store: &dyn Backend, size: usize) -> f64 {
    let name = name();
    let started = Instant::now();
    let mut n = 0;
    for parent in parents() {
        let scan = Scan {
            parent,
            from: 0,
            limit: 128,
        };
        let mut scans = vec![scan];
        while let Some(scan) = scans.pop() {
            let events = store.numbers(&[scan]).unwrap().remove(0);
            for event in &events {
                n += one(store, parent, &name, *event, size);
            }
            scans.extend(events.last().map(|last| Scan {
                from: last + 1,
                ..scan
            }));
        }
        if n >= SINGLE {
            break;
        }
    }
    rate(n, started)
}

fn load_one(store: &dyn Backend) -> f64 {
    let (name, parents) = (name(), parents());
    let started = Instant::now();
    let mut n = 0;
    for event in 0..SINGLE {
        let at = usize::try_from(event * 7919 % 100).unwrap();
        n += one(store, *parents.get(at).unwrap(), &name, event % EVENTS, 0);
    }
    rate(n, started)
}

fn one(store: &dyn Backend, parent: Parent, name: &ProductName, event: u64, size: usize) -> u64 {
    let wanted = [Wanted {
        parent,
        name,
        events: &[event],
    }];
    let mut n = 0;
    let loaded = store.load(&wanted, &mut |_, _, stored| {
        n += u64::from(stored.is_some_and(|stored| stored.len() > size));
        Ok(())
    });
    loaded.unwrap();
    n
}

/// The same commands by `redis-benchmark`, by one connection: HSET and HMGET of 1000 fields of 8 bytes, ZADD of as many.
/// What is stored goes into new keys, as above. "both" is HSET and ZADD one after another, which is a batch store.
fn raw(url: &str) {
    let port = url
        .rsplit(':')
        .next()
        .unwrap()
        .trim_end_matches('/')
        .to_owned();
    let bench = |name: &str, n_fields: f64, n: &str, words: &[String]| {
        let mut command = Command::new("redis-benchmark");
        command
            .args(["-p", &port, "-c", "1", "-r", "1000000000", "-n", n, "--csv"])
            .args(words);
        let mut all = Vec::new();
        for _ in 0..ROUNDS {
            let done = command.output().unwrap();
            let text = String::from_utf8_lossy(&done.stdout).into_owned();
            let line = text.lines().last().unwrap_or_default();
            // The arguments, which hold no quotes, come before the figures.
            let figure = line.rsplit("\",\"").nth(6).unwrap_or_default();
            all.push(figure.trim_matches('"').parse().unwrap_or(f64::NAN) * n_fields / 1e3);
        }
        all.sort_by(f64::total_cmp);
        let rate = all.get(ROUNDS / 2).copied().unwrap_or_default();
        println!("redis-benchmark: {name}: {rate:.0} k fields/s");
        rate
    };
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    let mut zadd = words(&["ZADD", "z:__rand_int__"]);
    zadd.extend((0..EVENTS).flat_map(|field| ["0".into(), format!("{field:08}")]));
    let zadd = bench("ZADD", 1000.0, "200", &zadd);
    for size in [105, 805] {
        redis_cli(url, &["flushall"]);
        let value = "z".repeat(size);
        let mut hset = words(&["HSET", "h:__rand_int__"]);
        let mut hmget = words(&["HMGET", "h"]);
        for field in 0..EVENTS {
            hset.extend([format!("{field:08}"), value.clone()]);
            hmget.push(format!("{field:08}"));
        }
        let rate = bench(&format!("HSET {size} B"), 1000.0, "200", &hset);
        println!(
            "redis-benchmark: both {size} B: {:.0} k/s",
            1.0 / (1.0 / rate + 1.0 / zadd)
        );
        hset.splice(1..2, ["h".into()]);
        let hset: Vec<_> = hset.iter().map(String::as_str).collect();
        redis_cli(url, &hset);
        bench(&format!("HMGET {size} B"), 1000.0, "1000", &hmget);
        bench(
            "HMGET of one",
            1.0,
            "20000",
            &words(&["HMGET", "h", "00000007"]),
        );
    }
}
