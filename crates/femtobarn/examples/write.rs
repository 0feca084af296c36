//! Writes an ntuple of a few columns into a new file.
//!
//!     write FILE

use std::error::Error;
use std::sync::Arc;

use arrow_array::types::Float32Type;
use arrow_array::{Array, Int64Array, LargeListArray, LargeStringArray, RecordBatch};
use arrow_schema::{Field, Schema};
use femtobarn::create_file;
use femtobarn::write::{NTupleWriter, WriteOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("which file?")?;
    let number = Int64Array::from_iter_values(0..1000);
    let text = LargeStringArray::from_iter_values((0..1000).map(|i| format!("event {i}")));
    let lists = LargeListArray::from_iter_primitive::<Float32Type, _, _>((0..1000u16).map(|i| {
        let values = (0..i % 4).map(move |k| Some(f32::from(i) + f32::from(k) / 4.0));
        Some(values.collect::<Vec<_>>())
    }));
    // items that are never missing: without this they would be std::optional
    let (_, offsets, values, nulls) = lists.into_parts();
    let item = Arc::new(Field::new("item", values.data_type().clone(), false));
    let lists = LargeListArray::try_new(item, offsets, values, nulls)?;
    let fields = vec![
        Field::new("number", number.data_type().clone(), false),
        Field::new("text", text.data_type().clone(), false),
        Field::new("lists", lists.data_type().clone(), false),
    ];
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(
        schema.clone(),
        vec![Arc::new(number), Arc::new(text), Arc::new(lists)],
    )?;

    let mut file = create_file(&path, 505)?;
    let mut events =
        NTupleWriter::from_arrow(&mut file, 0, "Events", &schema, WriteOptions::default())?;
    events.extend(&mut file, &batch)?;
    let n_entries = events.finish(&mut file)?;
    file.finish()?;
    println!("{n_entries} entries in {path}");
    Ok(())
}
