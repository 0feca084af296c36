//! Type names as written by several versions of ROOT.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, ListArray, RecordBatch, StructArray, types::Int32Type};
use femtobarn_rntuple::read::ReadOptions;
use femtobarn_rntuple::schema::DType;
use femtobarn_rntuple::write::{FieldModel, NTupleWriter, WriteOptions};

use super::{MergeOptions, merge};
use crate::convert::{ConvertOptions, Input, convert};
use crate::ntuple::NTuple;
use crate::open::OpenOptions;
use crate::writable::create_new_file;

/// Fields whose types are written as ROOT 6.36 normalizes them, or as they were in the source code.
fn fields(normalized: bool) -> Vec<FieldModel> {
    let numbers = FieldModel::number("_0", DType::Int32);
    let mut lists = FieldModel::vector("lists", numbers);
    let mut float = FieldModel::number("float", DType::Float32);
    let members = vec![FieldModel::number("x", DType::Float32)];
    let mut object = FieldModel::record("object", "A<B>", members);
    if !normalized {
        lists.type_name = "vector<Int_t >".to_owned();
        float.type_name = "Float_t".to_owned();
        object.type_name = "A<B >".to_owned();
    }
    vec![lists, float, object]
}

fn write(folder: &Path, name: &str, normalized: bool, first: f32) -> PathBuf {
    let path = folder.join(name);
    let floats: ArrayRef = Arc::new(Float32Array::from(vec![first, first + 1.0]));
    let lists = [Some(vec![Some(1), Some(2)]), Some(Vec::new())];
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
    let members = vec![("x", floats.clone())];
    let object: ArrayRef = Arc::new(StructArray::try_from(members).unwrap());
    let columns = [("lists", lists), ("float", floats), ("object", object)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut file = create_new_file(path.to_str().unwrap(), 505).unwrap();
    let options = WriteOptions::default();
    let mut writer =
        NTupleWriter::new(&mut file, 0, "Events", &fields(normalized), options).unwrap();
    writer.extend(&mut file, &batch).unwrap();
    writer.finish(&mut file).unwrap();
    file.finish().unwrap();
    path
}

fn inputs(paths: &[&PathBuf]) -> Vec<Input> {
    let input = |path: &&PathBuf| Input {
        url: path.to_str().unwrap().to_owned(),
        ..Input::default()
    };
    paths.iter().map(input).collect()
}

/// The values of the fields `float` and `object`.
fn floats(path: &Path) -> Vec<Vec<f32>> {
    let files = [(path.to_str().unwrap().to_owned(), None)];
    let ntuple = NTuple::open(&files, OpenOptions::default()).unwrap();
    let selection = ntuple.select(None).unwrap();
    let all = 0..ntuple.n_entries();
    let arrays = ntuple
        .read(&selection, all, &ReadOptions::default())
        .unwrap();
    let batch = arrays.to_arrow().unwrap();
    let object = batch.column(2).as_any().downcast_ref::<StructArray>();
    [batch.column(1), object.unwrap().column(0)]
        .map(|column| {
            let column = column.as_any().downcast_ref::<Float32Array>().unwrap();
            column.values().to_vec()
        })
        .to_vec()
}

#[test]
fn types_that_old_writers_have_not_normalized_go_together() {
    let folder = tempfile::tempdir().unwrap();
    let old = write(folder.path(), "old.root", false, 0.0);
    let new = write(folder.path(), "new.root", true, 10.0);
    for (at, (paths, values)) in [
        ([&old, &new], vec![0.0, 1.0, 10.0, 11.0]),
        ([&new, &old], vec![10.0, 11.0, 0.0, 1.0]),
    ]
    .into_iter()
    .enumerate()
    {
        let inputs = inputs(&paths);
        let merged = folder.path().join(format!("merged{at}.root"));
        let options = MergeOptions {
            verify: true,
            ..MergeOptions::default()
        };
        let report = merge(&inputs, &merged, &options, &|_| true).unwrap();
        let proof = report.proof.unwrap();
        assert!(proof.is_equal() && proof.ntuples[0].n_expected == 4);
        assert_eq!(floats(&merged), [values.clone(), values.clone()]);
        let converted = folder.path().join(format!("converted{at}.root"));
        let options = ConvertOptions {
            verify: true,
            ..ConvertOptions::default()
        };
        let report = convert(&inputs, &converted, &options, &|_| true).unwrap();
        let certificate = report.ntuples[0].certificate.as_ref();
        assert!(certificate.unwrap().is_equal());
        assert_eq!(floats(&converted), [values.clone(), values]);
    }
}

#[test]
fn types_that_are_others_do_not_go_together() {
    let folder = tempfile::tempdir().unwrap();
    let one = write(folder.path(), "one.root", true, 0.0);
    let path = folder.path().join("other.root");
    let mut file = create_new_file(path.to_str().unwrap(), 505).unwrap();
    let mut other = fields(true);
    other[2].type_name = "A<C>".to_owned();
    let options = WriteOptions::default();
    let writer = NTupleWriter::new(&mut file, 0, "Events", &other, options).unwrap();
    writer.finish(&mut file).unwrap();
    file.finish().unwrap();
    let output = folder.path().join("merged.root");
    let options = MergeOptions::default();
    let error = merge(&inputs(&[&one, &path]), &output, &options, &|_| true).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("\"A<C>\" here, and \"A<B>\" there"),
        "{message}"
    );
}
