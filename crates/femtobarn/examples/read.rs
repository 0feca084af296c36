//! Reads columns of an ntuple step by step, and prints what they are.
//!
//!     read FILE:NTUPLE FIELD...

use std::error::Error;
use std::sync::Arc;

use femtobarn::{NTuple, OpenOptions, Steps, StepsOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(file) = arguments.next() else {
        return Err("give a file, as events.root:Events or run*.root:Events".into());
    };
    let fields: Vec<String> = arguments.collect();

    let ntuple = Arc::new(NTuple::open_files(&[file], OpenOptions::default())?);
    let selection = ntuple.select((!fields.is_empty()).then_some(&fields))?;
    println!("{} entries", ntuple.n_entries());

    let options = StepsOptions {
        step: 5000,
        threads: 2,
        ..StepsOptions::default()
    };
    for step in Steps::new(ntuple.clone(), selection, 0..ntuple.n_entries(), options) {
        let (entries, arrays) = step?;
        let batch = arrays.to_arrow()?;
        println!(
            "entries {entries:?}: {} columns, {} bytes",
            batch.num_columns(),
            arrays.n_bytes()
        );
    }
    Ok(())
}
