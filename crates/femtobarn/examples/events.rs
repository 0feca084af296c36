//! Stores products by event, and calls a function for all events, on all cores.
//!
//! ```sh
//! cargo run --release -p femtobarn --example events -- dir:./mystore
//! ```

use std::error::Error;

use femtobarn::events::{
    BatchOptions, DataStore, LoadOptions, ProcessOptions, ProductName, WriteBatch, connect, process,
};

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let store = DataStore::new(connect(&url)?);
    let dataset = store.root().create_dataset("fermilab/nova")?;
    let energy = ProductName::new("energy", "double")?;

    let mut batch = WriteBatch::new(&store, BatchOptions::default());
    let run = dataset.child(43)?;
    let subrun = run.child(56)?;
    batch.create(run.descriptor())?;
    batch.create(subrun.descriptor())?;
    for number in 0..1000_u32 {
        let event = subrun.child(number.into())?.descriptor();
        batch.create(event)?;
        batch.store(event, &energy, &(f64::from(number) / 8.0).to_le_bytes())?;
    }
    batch.finish()?;

    let load = LoadOptions {
        names: vec![energy],
        ..LoadOptions::default()
    };
    let options = ProcessOptions {
        load,
        ..ProcessOptions::default()
    };
    let mut selected = Vec::new();
    let n = process(
        &dataset,
        options,
        |event| {
            let bytes = event.product(0).ok_or("it has no energy")?;
            let energy = f64::from_le_bytes(bytes.try_into().map_err(|_| "it is no double")?);
            Ok::<_, &str>((energy > 120.0).then(|| event.descriptor()))
        },
        |found| selected.extend(found),
    )
    .map_err(|error| error.to_string())?;
    println!(
        "{} of {n} events, the first is {:?}",
        selected.len(),
        selected.first().map(ToString::to_string)
    );
    Ok(())
}
