//! The body of the fuzz target, a function so that tests can replay its corpus.

use bytes::Bytes;
use femtobarn_io::MemorySource;

use crate::{RootFile, RootFileError};

/// How many bytes of objects are read: many keys may name one record that expands to a large
/// object.
const MOST_OBJECT_BYTES: usize = 64 << 20;

/// Opens `data` as a file, and reads everything in it. Must neither panic nor take long, whatever
/// the bytes are.
pub fn container(data: &[u8]) {
    // errors are expected; only panics and endless loops are failures
    let _outcome = read_everything(Bytes::copy_from_slice(data));
}

fn read_everything(data: Bytes) -> Result<(), RootFileError> {
    let file = RootFile::open(MemorySource::new("mem:fuzz", data))?;
    let _streamer_infos = file.streamer_infos();
    let _free_segments = file.free_segments();
    let _missing = file.find("no/such;1");
    let mut read = 0;
    for entry in file.walk()? {
        if read > MOST_OBJECT_BYTES {
            break;
        }
        let _found = file.find(&format!("{};{}", entry.path, entry.key.cycle));
        read += file
            .read_object(&entry.key)
            .map_or(0, |object| object.len());
    }
    Ok(())
}
