//! Positions of 32 and 64 bits: five independent switches.

use super::builder::{Builder, DirectoryParts, Widths, directory};
use crate::{FreeSegment, RootFile};

const GB: u64 = 1_000_000_000;

/// A file with an object, and a subdirectory with another one. Targets of wide positions are beyond
/// 4 GB.
fn build(widths: Widths) -> (RootFile, FreeSegment) {
    let place = |wide: bool, far: u64, near: u64| if wide { far } else { near };
    let mut builder = Builder::default();
    let object = builder.record(
        place(widths.key, 5 * GB, 20_000),
        widths.key,
        ("TNamed", "object"),
        b"the object",
    );
    let inner = builder.record(
        place(widths.key, 5 * GB + 500, 50_000),
        widths.key,
        ("TNamed", "inner"),
        b"the inner object",
    );
    let seek_keys = place(widths.subdirectory, 7 * GB, 40_000);
    let n_bytes_keys = builder.key_list(seek_keys, &[&inner]);
    let wide = widths.subdirectory;
    let record = directory(&DirectoryParts {
        wide,
        n_bytes_keys,
        seek_dir: 30_000,
        seek_keys,
    });
    let subdirectory = builder.record(30_000, widths.key, ("TDirectory", "sub"), &record);
    let seek_free = place(widths.file, 8 * GB, 60_000);
    let segment = (
        place(widths.free, 9 * GB, GB),
        place(widths.free, 9 * GB + 5, GB + 5),
    );
    builder.free(seek_free, widths.free, segment);
    let end = place(widths.file, 10 * GB, 2 * GB);
    let keys = place(widths.root, 6 * GB, 10_000);
    builder.root(widths, (end, seek_free), keys, &[&object, &subdirectory]);
    let file = RootFile::open(builder.source(10 * GB)).unwrap();
    (
        file,
        FreeSegment {
            first: segment.0,
            last: segment.1,
        },
    )
}

#[test]
fn every_combination_of_the_five_width_switches_is_read() {
    for bits in 0..32_u8 {
        let set = |bit: u8| bits >> bit & 1 == 1;
        let widths = Widths {
            file: set(0),
            key: set(1),
            root: set(2),
            subdirectory: set(3),
            free: set(4),
        };
        let (file, segment) = build(widths);
        let object = |path| file.read_object(&file.find(path).unwrap()).unwrap();
        assert_eq!(object("object"), "the object", "{widths:?}");
        assert_eq!(object("sub/inner"), "the inner object", "{widths:?}");
        let paths: Vec<_> = file
            .walk()
            .unwrap()
            .into_iter()
            .map(|entry| entry.path)
            .collect();
        assert_eq!(paths, ["object", "sub", "sub/inner"], "{widths:?}");
        assert_eq!(file.free_segments().unwrap(), [segment], "{widths:?}");
    }
}

#[test]
fn a_process_id_in_the_parent_position_of_a_wide_key_is_left_out() {
    let mut builder = Builder::default();
    let mut object = builder.record(5 * GB, true, ("TNamed", "object"), b"the object");
    object.seek_parent |= 3 << 48;
    builder.root(Widths::default(), (2 * GB, 0), 10_000, &[&object]);
    let file = RootFile::open(builder.source(6 * GB)).unwrap();
    assert_eq!(file.find("object").unwrap().seek_parent, 100);
}
