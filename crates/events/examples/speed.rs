//! Measures a store: seconds for 100,000 events in 10 runs of 10 subruns, with one product each, as JSON.
//!
//! ```sh
//! cargo run --release -p femtobarn-events --example speed -- dir:STORE 100
//! ```
//!
//! `benchmarks/event_store.py` runs this program and compares the results with other engines. The events go into new
//! datasets, `speed/N`, which must not exist.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "it is an example")]

use std::convert::Infallible;
use std::time::Instant;

use femtobarn_events::{
    BatchOptions, DataSet, DataStore, LoadOptions, Loader, Overwrite, ProcessOptions, ProductName,
    Wanted, WriteBatch, connect, process,
};

const RUNS: u64 = 10;
const SUBRUNS: u64 = 10;
const EVENTS: u64 = 1000;
const N: usize = 100_000;
/// How many events are stored and loaded one by one.
const SINGLE: usize = 2000;

struct Speed {
    store: DataStore,
    name: ProductName,
    value: Vec<u8>,
    figures: serde_json::Map<String, serde_json::Value>,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or("memory:".into());
    let size = args.next().map_or(100, |size| size.parse().unwrap());
    let mut speed = Speed {
        store: DataStore::new(connect(&url).unwrap()),
        name: ProductName::new("particles", "std::vector<Particle>").unwrap(),
        value: noise(size),
        figures: serde_json::Map::new(),
    };
    speed.write_one_by_one();
    for (label, max_items, threads) in [
        ("batch of 128", 128, 0),
        ("batch of 1024", 1024, 0),
        ("batch", BatchOptions::default().max_items, 0),
        ("asynchronous batch of 1024", 1024, 1),
        ("asynchronous batch of 1024, two threads", 1024, 2),
    ] {
        speed.write(label, max_items, threads);
    }
    speed.read();
    println!("{}", serde_json::Value::Object(speed.figures));
}

/// Bytes that cannot be compressed.
fn noise(size: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(size).collect()
}

impl Speed {
    /// Records the seconds that `n` events take, scaled to all events.
    fn note(&mut self, label: &str, started: Instant, n: usize) {
        let scale = N as f64 / n as f64;
        let seconds = started.elapsed().as_secs_f64() * scale;
        self.figures.insert(label.into(), seconds.into());
    }

    fn dataset(&self, name: &str) -> DataSet {
        let root = self.store.root();
        root.create_dataset(&format!("speed/{name}")).unwrap()
    }

    fn write_one_by_one(&mut self) {
        let dataset = self.dataset("one by one");
        let subrun = dataset.create(1).unwrap().create(1).unwrap();
        let started = Instant::now();
        for event in 0..SINGLE as u64 {
            let event = subrun.create(event).unwrap();
            event
                .store(&self.name, &self.value, Overwrite::Replace)
                .unwrap();
        }
        self.store.flush().unwrap();
        self.note("store one by one", started, SINGLE);
    }

    fn write(&mut self, label: &str, max_items: usize, threads: usize) {
        let dataset = self.dataset(label);
        let options = BatchOptions {
            max_items,
            threads,
            ..BatchOptions::default()
        };
        let started = Instant::now();
        let mut batch = WriteBatch::new(&self.store, options);
        for run in 0..RUNS {
            let run = dataset.child(run).unwrap();
            batch.create(run.descriptor()).unwrap();
            for subrun in 0..SUBRUNS {
                let subrun = run.child(subrun).unwrap();
                batch.create(subrun.descriptor()).unwrap();
                let parent = subrun.descriptor().placed_by();
                for event in 0..EVENTS {
                    let event = parent.child(event);
                    batch.create(event).unwrap();
                    batch.store(event, &self.name, &self.value).unwrap();
                }
            }
        }
        batch.finish().unwrap();
        self.note(&format!("store, {label}"), started, N);
    }

    fn read(&mut self) {
        let dataset = self.dataset("batch");
        let started = Instant::now();
        let mut bytes = 0;
        for chunk in dataset.events() {
            let chunk = chunk.unwrap();
            let wanted = [Wanted {
                parent: chunk.parent,
                name: &self.name,
                events: &chunk.events,
            }];
            let visit = &mut |_, _, value: Option<&[u8]>| {
                bytes += value.unwrap().len();
                Ok(())
            };
            self.store.load_many(&wanted, visit).unwrap();
        }
        assert_eq!(bytes, N * self.value.len());
        self.note("load, by subrun", started, N);

        let options = LoadOptions {
            names: vec![self.name.clone()],
            ..LoadOptions::default()
        };
        let started = Instant::now();
        let loaded = Loader::start(&self.store, dataset.events(), options.clone());
        let n: usize = loaded
            .map(|loaded| loaded.unwrap().products.first().unwrap().n_bytes())
            .sum();
        assert_eq!(n, bytes);
        self.note("load, ahead", started, N);

        let started = Instant::now();
        let all = dataset.events().flat_map(|chunk| {
            let chunk = chunk.unwrap();
            let parent = chunk.parent;
            chunk
                .events
                .into_iter()
                .map(move |event| parent.child(event))
        });
        for event in all.take(10 * SINGLE) {
            assert!(self.store.load(event, &self.name).unwrap().is_some());
        }
        self.note("load one by one", started, 10 * SINGLE);

        for (label, names) in [
            ("process, nothing", Vec::new()),
            ("process, product", vec![self.name.clone()]),
        ] {
            let load = LoadOptions {
                names,
                ..LoadOptions::default()
            };
            let options = ProcessOptions {
                load,
                ..ProcessOptions::default()
            };
            let started = Instant::now();
            let n = process(&dataset, options, |_| Ok::<_, Infallible>(()), drop).unwrap();
            assert_eq!(n, N);
            self.note(label, started, N);
        }
    }
}
