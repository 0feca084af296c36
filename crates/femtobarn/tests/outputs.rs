//! How outputs appear: files that others created in the meantime are kept, and links to missing files are
//! refused.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use common::{input, root};
use femtobarn::convert::{ConvertOptions, Input, Replace, convert};
use femtobarn::merge::{Entries, JoinOptions, MergeOptions, join, merge};
use femtobarn::{Error, OpenOptions};

fn given(name: &str) -> Input {
    input(&root().join("testdata/rntuple").join(name))
}

/// The first ten entries of a file.
fn ten(name: &str, folder: &Path) -> Input {
    let options = MergeOptions {
        entries: Entries::Slice {
            start: None,
            stop: Some(10),
        },
        overwrite: true,
        ..MergeOptions::default()
    };
    let path = folder.join(name);
    merge(&[given(name)], &path, &options, &|_| true).unwrap();
    input(&path)
}

fn n_entries(path: &Path) -> u64 {
    let file = [(path.to_str().unwrap().to_owned(), None)];
    let ntuple = femtobarn::NTuple::open(&file, OpenOptions::default()).unwrap();
    ntuple.n_entries()
}

/// Creates an output, and calls the given function meanwhile.
type Maker<'m> = &'m dyn Fn(&Path, &(dyn Fn() + Sync)) -> Result<(), Error>;

/// All operations with outputs; `overwrite` tells whether they replace existing files.
fn with_all(folder: &Path, overwrite: bool, check: &dyn Fn(&str, Maker<'_>)) {
    let (one, two) = (ten("double32.root", folder), ten("clusters.root", folder));
    let merging = |append: bool| {
        let options = MergeOptions {
            overwrite,
            append,
            ..MergeOptions::default()
        };
        let inputs = [one.clone()];
        move |output: &Path, meanwhile: &(dyn Fn() + Sync)| {
            let tick = |_| {
                meanwhile();
                true
            };
            merge(&inputs, output, &options, &tick).map(drop)
        }
    };
    check("merge", &merging(false));
    if !overwrite {
        check("append", &merging(true));
    }
    check("join", &|output, meanwhile| {
        let options = JoinOptions {
            overwrite,
            ..JoinOptions::default()
        };
        let tick = |_| {
            meanwhile();
            true
        };
        join(&[one.clone(), two.clone()], output, &options, &tick).map(drop)
    });
    let replaces = if overwrite {
        &[Replace::Anything][..]
    } else {
        &[Replace::Nothing, Replace::Own, Replace::Left]
    };
    for &replace in replaces {
        check("convert", &|output, meanwhile| {
            let options = ConvertOptions {
                replace,
                ..ConvertOptions::default()
            };
            let tick = |_| {
                meanwhile();
                true
            };
            convert(std::slice::from_ref(&one), output, &options, &tick).map(drop)
        });
    }
}

fn partial(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    all.filter(|path| path.to_str().unwrap().contains(".partial-"))
        .collect()
}

/// Regression: outputs that must not replace files replaced files that others had created after the check.
#[test]
fn what_others_made_in_the_meantime_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.root");
    with_all(folder.path(), false, &|name, make| {
        let made = make(&output, &|| fs::write(&output, "another's").unwrap());
        let message = made.expect_err(name).to_string();
        assert!(message.contains("already exists"), "{name}: {message}");
        assert_eq!(fs::read(&output).unwrap(), b"another's", "{name}");
        assert_eq!(partial(folder.path()), [""; 0].map(PathBuf::from), "{name}");
        fs::remove_file(&output).unwrap();
    });
    with_all(folder.path(), true, &|name, make| {
        make(&output, &|| fs::write(&output, "another's").unwrap()).expect(name);
        assert_eq!(n_entries(&output), 10, "{name}");
    });
}

/// Any user can create a link to a missing file in a shared directory, and so decide where the output goes.
#[test]
fn links_to_what_is_not_there_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("out.root");
    symlink("target.root", &link).unwrap();
    for overwrite in [false, true] {
        with_all(folder.path(), overwrite, &|name, make| {
            let message = format!("{:?}", make(&link, &|| {}).expect_err(name));
            assert!(
                message.contains("symbolic link to target.root"),
                "{name}: {message}"
            );
            assert!(link.is_symlink() && !folder.path().join("target.root").exists());
            assert_eq!(partial(folder.path()), [""; 0].map(PathBuf::from), "{name}");
        });
    }
}
