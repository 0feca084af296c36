//! Records of accesses by schema and function: in memory, and on request in a directory, for the next run.
//!
//! A record is a JSON file of its own, which is replaced as a whole whenever its sets change. Of two processes that write
//! the same record, the last one wins.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use femtobarn_codec::xxh3;
use femtobarn_fork::lock;
use femtobarn_io::{TempSibling, notice};
use femtobarn_rntuple::read::{AccessedColumn, Accesses};
use serde_json::{Map, Value, json};

use crate::ntuple::NTuple;

/// For more records than this, those that nobody uses are forgotten.
const MOST: usize = 256;

/// The schema, the function, and the directory.
type Key = (u64, String, Option<PathBuf>);

static RECORDS: Mutex<BTreeMap<Key, Arc<Accesses>>> = Mutex::new(BTreeMap::new());

/// The record of what a function touches in ntuples with the schema of this one. With a directory, the record of earlier
/// runs is continued there; other files with its name are ignored and replaced.
pub fn accesses_of(ntuple: &NTuple, function: &str, directory: Option<&Path>) -> Arc<Accesses> {
    let schema = schema_id(ntuple);
    let key = (schema, function.to_owned(), directory.map(Path::to_owned));
    let mut records = lock(&RECORDS);
    if let Some(known) = records.get(&key) {
        return known.clone();
    }
    let made = match directory {
        None => Accesses::default(),
        Some(directory) => kept_in(directory, schema, function),
    };
    if records.len() >= MOST {
        records.retain(|_, known| Arc::strong_count(known) > 1);
    }
    let made = Arc::new(made);
    records.insert(key, made.clone());
    made
}

/// A hash of the names and types of all fields.
pub fn schema_id(ntuple: &NTuple) -> u64 {
    let mut text = String::new();
    if let Some(first) = ntuple.readers().first() {
        let descriptor = first.descriptor();
        text.push_str(&descriptor.name);
        for field in &descriptor.fields {
            text.push('\n');
            let parent = field.parent.map_or(-1, i64::from);
            text.push_str(&parent.to_string());
            for part in [&field.record.name, &field.record.type_name] {
                text.push(' ');
                text.push_str(part);
            }
        }
    }
    xxh3(text.as_bytes())
}

fn kept_in(directory: &Path, schema: u64, function: &str) -> Accesses {
    let name = format!("{schema:016x}-{:016x}.json", xxh3(function.as_bytes()));
    let path = directory.join(name);
    let known = std::fs::read(&path).ok();
    let known = known.and_then(|text| serde_json::from_slice(&text).ok());
    let known: Option<(u64, Vec<(String, u64)>)> = known.as_ref().and_then(parsed);
    let (steps, columns) = known.unwrap_or_default();
    let function = function.to_owned();
    Accesses::of_run(steps, columns).kept_by(move |steps, columns| {
        if let Err(error) = write(&path, schema, &function, steps, columns) {
            let text = format!("the record of accesses cannot be written: {error}");
            notice(&path.to_string_lossy(), &text);
        }
    })
}

fn parsed(record: &Value) -> Option<(u64, Vec<(String, u64)>)> {
    let steps = record.get("steps")?.as_u64()?;
    let columns = record.get("columns")?.as_object()?.iter();
    let columns = columns.map(|(name, history)| Some((name.clone(), history.as_u64()?)));
    Some((steps, columns.collect::<Option<_>>()?))
}

fn write(
    path: &Path,
    schema: u64,
    function: &str,
    steps: u64,
    columns: &[AccessedColumn],
) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let columns = columns.iter();
    let columns = columns.map(|column| (column.name.clone(), column.history.into()));
    let record = json!({
        "schema": format!("{schema:016x}"),
        "function": function,
        "steps": steps,
        "columns": columns.collect::<Map<_, _>>(),
    });
    let mut sibling = TempSibling::create(path, true)?;
    sibling
        .file()?
        .write_all(&serde_json::to_vec_pretty(&record)?)?;
    Ok(sibling.appear()?)
}
