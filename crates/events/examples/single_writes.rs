//! Measures how many products per second are written one at a time, by one thread and by several.
//!
//! `cargo run --release -p femtobarn-events --example single_writes -- DIRECTORY [bytes]`

#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that fails has nothing to say"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use femtobarn_events::{DataStore, Mode, Overwrite, ProductName, open_dir};

/// The duration of each measurement.
const TIME: Duration = Duration::from_secs(3);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let size: usize = args.get(1).map_or(100, |n| n.parse().unwrap());
    let store = DataStore::new(open_dir(Path::new(args.first().unwrap()), Mode::Append).unwrap());
    let value = vec![42; size];
    let name = ProductName::new("tracks", "std::vector<Track>").unwrap();
    let run = store
        .root()
        .create_dataset("bench")
        .unwrap()
        .create(1)
        .unwrap();
    for n_threads in [1, 2, 4, 8, 16] {
        let started = Instant::now();
        let write = |thread: u64| {
            let subrun = run.create(thread).unwrap();
            let mut n = 0;
            while started.elapsed() < TIME {
                let event = subrun.child(n).unwrap();
                event.store(&name, &value, Overwrite::Replace).unwrap();
                n += 1;
            }
            n
        };
        let n: u64 = std::thread::scope(|scope| {
            let write = &write;
            let threads: Vec<_> = (0..n_threads)
                .map(|n| scope.spawn(move || write(n)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        let rate = n as f64 / started.elapsed().as_secs_f64();
        println!("{n_threads:>2} threads {rate:>10.0} products/s");
    }
}
