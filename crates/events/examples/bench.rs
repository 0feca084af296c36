//! How fast the backends are: events a second.
//!
//! `cargo run --release -p femtobarn-events --example bench -- URL [bytes [batch]]`

#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that fails has nothing to say"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use femtobarn_events::{
    BatchOptions, DataStore, MemoryBackend, Mode, ProductName, Wanted, WriteBatch, open_dir,
};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let url = args.first().unwrap();
    let size: usize = args.get(1).map_or(100, |n| n.parse().unwrap());
    let max_items = args.get(2).map_or(16_384, |n| n.parse().unwrap());
    let store = match url.strip_prefix("dir:") {
        Some(path) => DataStore::new(open_dir(Path::new(path), Mode::Append).unwrap()),
        None => DataStore::new(Arc::new(MemoryBackend::new(url))),
    };
    let value = vec![42; size];
    let name = ProductName::new("tracks", "std::vector<Track>").unwrap();
    let n = 100_000.;
    for round in 0..3 {
        let dataset = store
            .root()
            .create_dataset(&format!("bench{round}"))
            .unwrap();
        let started = Instant::now();
        let options = BatchOptions {
            max_items,
            ..BatchOptions::default()
        };
        let mut batch = WriteBatch::new(&store, options);
        for run in 0..10 {
            let run = dataset.child(run).unwrap();
            batch.create(run.descriptor()).unwrap();
            for subrun in 0..10 {
                let subrun = run.child(subrun).unwrap();
                batch.create(subrun.descriptor()).unwrap();
                let parent = subrun.descriptor().placed_by();
                for event in 0..1000 {
                    let event = parent.child(event);
                    batch.create(event).unwrap();
                    batch.store(event, &name, &value).unwrap();
                }
            }
        }
        batch.finish().unwrap();
        let written = n / started.elapsed().as_secs_f64();
        let started = Instant::now();
        let mut bytes = 0;
        for chunk in dataset.events() {
            let chunk = chunk.unwrap();
            let wanted = [Wanted {
                parent: chunk.parent,
                name: &name,
                events: &chunk.events,
            }];
            store
                .load_many(&wanted, &mut |_, _, value| {
                    bytes += value.unwrap().len();
                    Ok(())
                })
                .unwrap();
        }
        assert_eq!(bytes, 100_000 * size);
        let loaded = n / started.elapsed().as_secs_f64();
        let started = Instant::now();
        for chunk in dataset.events() {
            let chunk = chunk.unwrap();
            for event in chunk.events {
                bytes += store
                    .load(chunk.parent.child(event), &name)
                    .unwrap()
                    .unwrap()
                    .len();
            }
        }
        let single = n / started.elapsed().as_secs_f64();
        assert_eq!(bytes, 200_000 * size);
        println!(
            "batch store {written:>10.0}  bulk load {loaded:>10.0}  single loads {single:>10.0} events/s"
        );
    }
}
