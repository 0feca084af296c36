//! Running the program, and files to run it on.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use femtobarn::{NTuple, OpenOptions};
use serde_json::Value;

pub const DIMUON: &str = "testdata/dimuon.root";
pub const MIXED: &str = "testdata/rntuple/mixed_zstd.root";
pub const OBJECTS: &str = "testdata/container/objects_zstd.root";

/// The directory that contains `testdata`.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The result of a run.
pub struct Done {
    pub code: i32,
    pub out: String,
    pub err: String,
}

pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fb"));
    command
        .args(args)
        .current_dir(root())
        .env_remove("COLUMNS")
        .stdin(Stdio::null());
    command
}

pub fn finish(mut command: Command) -> Done {
    let output = command.output().unwrap();
    Done {
        code: output.status.code().expect("the program was not killed"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs `fb` in the project's directory.
pub fn fb(args: &[&str]) -> Done {
    finish(command(args))
}

/// Runs `fb`, which must succeed without messages; returns its output.
pub fn good(args: &[&str]) -> String {
    let done = fb(args);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{args:?}");
    done.out
}

/// Runs `fb … --json`, which must succeed; returns the document.
pub fn document(args: &[&str]) -> Value {
    let text = good(&[args, &["--json"]].concat());
    serde_json::from_str(&text).unwrap()
}

/// Runs `fb … --json`, which must fail with `code`; returns the error. Only `head` may have printed something
/// before.
pub fn failure(args: &[&str], code: i32) -> Value {
    let done = fb(&[args, &["--json"]].concat());
    assert_eq!(done.code, code, "{args:?}: {}", done.err);
    assert!(
        done.out.is_empty() || args.first() == Some(&"head"),
        "{args:?}: {}",
        done.out
    );
    let document: Value = serde_json::from_str(&done.err).unwrap();
    document["error"].clone()
}

/// A changed copy of a file, in a directory that lives as long as it.
pub struct Copy {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Copy {
    pub fn of(file: &str, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = std::fs::read(root().join(file)).unwrap();
        change(&mut bytes);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy.root");
        std::fs::write(&path, bytes).unwrap();
        Self {
            _folder: folder,
            path,
        }
    }

    pub fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

/// A page of `testdata/dimuon.root`.
pub struct PageOf {
    pub offset: u64,
    pub size: u64,
    pub cluster: u64,
    pub entries: (u64, u64),
}

/// The first page of a column in the cluster `index` of a file's only ntuple.
pub fn page(file: &str, column: u32, index: usize) -> PageOf {
    let url = root().join(file).to_str().unwrap().to_owned();
    let ntuple = NTuple::open(&[(url, None)], OpenOptions::default()).unwrap();
    let (_, list) = ntuple.readers()[0]
        .page_lists(0..u64::MAX)
        .unwrap()
        .remove(0);
    let page = list.pages(list.column(index, column).unwrap())[0];
    let cluster = list.clusters()[index];
    PageOf {
        offset: page.body.address.offset(),
        size: page.body.size,
        cluster: index as u64,
        entries: (cluster.first_entry, cluster.end()),
    }
}

/// A copy of `testdata/dimuon.root` with one bit of one page flipped.
pub fn with_bad_page(page: &PageOf) -> Copy {
    let at = usize::try_from(page.offset + page.size / 2).unwrap();
    Copy::of(DIMUON, |bytes| bytes[at] ^= 1)
}

/// Position of the header envelope of a file's only ntuple.
pub fn header_offset(file: &str) -> usize {
    let url = root().join(file).to_str().unwrap().to_owned();
    let ntuple = NTuple::open(&[(url, None)], OpenOptions::default()).unwrap();
    let anchor = ntuple.readers()[0].descriptor().anchor;
    usize::try_from(anchor.header.stored.address.offset()).unwrap()
}
