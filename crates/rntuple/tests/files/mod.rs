//! The ntuples of `testdata/rntuple` with what ROOT read of them, as PROVENANCE.md describes.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use femtobarn_io::{ByteSource, LocalSource, MemorySource};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{
    Part, ReadOptions, ReadSchema, Reader, ReaderOptions, SourceStore, read,
};
use femtobarn_rntuple::spec::Anchor;
use femtobarn_rootfile::RootFile;
use serde_json::Value;

pub struct Golden {
    /// The name of the golden.
    pub name: String,
    pub golden: Value,
    pub reader: Arc<Reader>,
}

/// All that have a golden.
pub fn goldens() -> impl Iterator<Item = Golden> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/rntuple");
    let entries = std::fs::read_dir(&folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".json")).collect();
    names.sort();
    assert!(names.len() > 60);
    names.into_iter().map(move |name| {
        let golden = std::fs::read(folder.join(&name)).unwrap();
        let golden: Value = serde_json::from_slice(&golden).unwrap();
        let (file, _) = name.split_once(".root.").unwrap();
        let source = LocalSource::open(&folder.join(format!("{file}.root"))).unwrap();
        let path = golden["ntuple"].as_str().unwrap();
        let reader = open(source, path);
        Golden {
            name,
            golden,
            reader,
        }
    })
}

pub fn open(source: Arc<dyn ByteSource>, path: &str) -> Arc<Reader> {
    let file = RootFile::open(source.clone()).unwrap();
    let key = file.find(path).unwrap();
    let anchor = Anchor::parse(&file.read_object(&key).unwrap()).unwrap();
    let store = Arc::new(SourceStore::new(source, path, anchor.max_key_size));
    let options = ReaderOptions::default();
    Arc::new(Reader::open(store.clone(), &*store, path, anchor, options).unwrap())
}

pub fn in_memory(bytes: Vec<u8>, path: &str) -> Arc<Reader> {
    open(MemorySource::new("mem:written.root", bytes), path)
}

/// All entries of some fields, or of all; the error is Arrow's, as of strings that are not UTF-8.
pub fn entries(reader: &Arc<Reader>, fields: Option<&[String]>) -> Result<RecordBatch, String> {
    let read_all = || -> Result<_, RNTupleError> {
        let (schema, bindings) = ReadSchema::new(std::slice::from_ref(reader), fields)?;
        let part = Part {
            reader: reader.clone(),
            binding: bindings[0].clone(),
            start: 0,
            stop: reader.n_entries(),
        };
        read(&schema, &[part], &ReadOptions::default())
    };
    let arrays = read_all().unwrap();
    arrays.to_arrow().map_err(|error| error.to_string())
}
