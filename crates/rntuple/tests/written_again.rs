//! Ntuples of ROOT, written again and merged, have the same values and types.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod files;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use femtobarn_io::MemorySink;
use femtobarn_rntuple::read::{Reader, verify};
use femtobarn_rntuple::write::{
    Digest, FieldKind, FieldModel, MergeOptions, NTupleMerger, NTupleWriter, Rebuild, WriteOptions,
};
use femtobarn_rootfile::{FileWriter, Uuid};
use files::{Golden, entries, goldens, in_memory};

fn file(write: impl FnOnce(&mut FileWriter)) -> Vec<u8> {
    let sink = Arc::new(MemorySink::default());
    let mut file = FileWriter::create(sink.clone(), "out.root", 505, Uuid::default()).unwrap();
    write(&mut file);
    file.finish().unwrap();
    sink.to_vec()
}

/// Those whose values Arrow can have, with the values.
fn all() -> impl Iterator<Item = (Golden, RecordBatch)> {
    goldens().filter_map(|golden| {
        let batch = entries(&golden.reader, None).ok()?;
        Some((golden, batch))
    })
}

/// The fields of an ntuple with their types, by name.
fn types(reader: &Reader) -> Vec<(String, String)> {
    let descriptor = reader.descriptor();
    let ids = descriptor.top_level.iter();
    let of = |&id| {
        let record = &descriptor.field(id).unwrap().record;
        (record.name.clone(), record.type_name.clone())
    };
    let mut types: Vec<_> = ids.map(of).collect();
    types.sort();
    types
}

/// The columns of these fields that are not views of others.
fn data(batch: &RecordBatch, fields: &[FieldModel]) -> RecordBatch {
    let fields = fields
        .iter()
        .filter(|field| !matches!(field.kind, FieldKind::Projected { .. }));
    let places = fields.map(|field| batch.schema().index_of(&field.name).unwrap());
    batch.project(&places.collect::<Vec<_>>()).unwrap()
}

#[test]
fn written_again_they_have_the_same_values_whatever_the_pages() {
    let mut n_written = 0;
    for (golden, all) in all() {
        let (name, descriptor) = (&golden.name, golden.reader.descriptor());
        let fields = FieldModel::from_descriptor(descriptor, &descriptor.top_level).unwrap();
        let batch = data(&all, &fields);
        let digests = |batches: &[RecordBatch]| {
            let mut digest = Digest::new(&fields).unwrap();
            batches.iter().for_each(|batch| digest.add(batch).unwrap());
            digest.finish()
        };
        // in small pages, small ntuples
        let is_small = batch.get_array_memory_size() < 1 << 20;
        let how = [
            (505, 1 << 20, 128 << 20, 1),
            (0, 64, 2000, 3),
            (404, 1000, 4000, 2),
        ];
        for (compression, page_bytes, cluster_bytes, threads) in
            how.into_iter().take(if is_small { 3 } else { 1 })
        {
            let options = WriteOptions {
                compression,
                page_bytes,
                cluster_bytes,
                threads,
                ..WriteOptions::default()
            };
            let bytes = file(|file| {
                let mut writer = NTupleWriter::new(file, 0, "again", &fields, options).unwrap();
                for start in (0..batch.num_rows()).step_by(7) {
                    let n = (batch.num_rows() - start).min(7);
                    writer.extend(file, &batch.slice(start, n)).unwrap();
                }
                writer.finish(file).unwrap();
            });
            let again = in_memory(bytes, "again");
            assert_eq!(types(&again), types(&golden.reader), "{name}");
            let found = entries(&again, None).unwrap();
            for (column, field) in all.columns().iter().zip(all.schema().fields()) {
                assert_eq!(found.column_by_name(field.name()), Some(column), "{name}");
            }
            assert_eq!(
                digests(&[data(&found, &fields)]),
                digests(std::slice::from_ref(&batch)),
                "{name}"
            );
            assert!(
                verify(&again, 1, None).unwrap().damages.is_empty(),
                "{name}"
            );
            n_written += 1;
        }
    }
    assert!(n_written > 150, "{n_written}");
}

#[test]
fn merged_with_itself_an_ntuple_has_its_entries_twice_at_every_level() {
    let kept = MergeOptions {
        share: false,
        ..MergeOptions::default()
    };
    let recompressed = MergeOptions {
        compression: Some(404),
        ..kept.clone()
    };
    let rebuilt = MergeOptions {
        rebuild: Rebuild::Always,
        ..kept.clone()
    };
    let mut n_merged = 0;
    for (golden, batch) in all() {
        let twice = concat_batches(&batch.schema(), [&batch, &batch]).unwrap();
        for options in [&kept, &recompressed, &rebuilt] {
            let merged = merged(&golden.reader, options, 2);
            let name = (&golden.name, options.rebuild, options.compression);
            assert_eq!(types(&merged), types(&golden.reader), "{name:?}");
            assert_eq!(entries(&merged, None).unwrap(), twice, "{name:?}");
            assert!(
                verify(&merged, 1, None).unwrap().damages.is_empty(),
                "{name:?}"
            );
            n_merged += 1;
        }
    }
    assert!(n_merged > 150, "{n_merged}");
}

#[test]
fn chosen_entries_are_taken_in_their_order() {
    for (golden, batch) in all() {
        let n = golden.reader.n_entries();
        let options = MergeOptions {
            share: false,
            chooses: true,
            ..MergeOptions::default()
        };
        // the second and the last quarter of each cluster
        let mut choose = |range: std::ops::Range<u64>| {
            let quarter = (range.end - range.start) / 4;
            Ok(vec![
                range.start + quarter..range.start + 2 * quarter,
                range.end - quarter..range.end,
            ])
        };
        let bytes = file(|file| {
            let top_level = &golden.reader.descriptor().top_level;
            let mut merger =
                NTupleMerger::new(file, (0, "part"), &golden.reader, top_level, options).unwrap();
            let all = &|_: &str| true;
            merger
                .add(file, &golden.reader, all, Some(&mut choose), &|_| true)
                .unwrap();
            merger.finish(file).unwrap();
        });
        let found = entries(&in_memory(bytes, "part"), None).unwrap();
        let mut parts = Vec::new();
        for (_, list) in golden.reader.page_lists(0..n).unwrap() {
            for cluster in list.clusters() {
                for range in choose(cluster.first_entry..cluster.end()).unwrap() {
                    let [start, end] = [range.start, range.end].map(|at| at.try_into().unwrap());
                    parts.push(batch.slice(start, end - start));
                }
            }
        }
        let expected = concat_batches(&batch.schema(), &parts).unwrap();
        assert_eq!(found, expected, "{}", golden.name);
    }
}

fn merged(reader: &Reader, options: &MergeOptions, times: usize) -> Arc<Reader> {
    let bytes = file(|file| {
        let top_level = &reader.descriptor().top_level;
        let mut merger =
            NTupleMerger::new(file, (0, "merged"), reader, top_level, options.clone()).unwrap();
        for _ in 0..times {
            merger
                .add(file, reader, &|_| true, None, &|_| true)
                .unwrap();
        }
        merger.finish(file).unwrap();
    });
    in_memory(bytes, "merged")
}
