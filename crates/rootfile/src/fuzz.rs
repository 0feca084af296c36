//! The body of the fuzz target, as a function so that tests can replay its corpus.

use bytes::Bytes;
use femtobarn_io::MemorySource;

use crate::{RootFile, RootFileError};

/// How many bytes of objects are read: many keys may name one record that expands a lot.
const MOST_OBJECT_BYTES: usize = 64 << 20;

/// Opens `data` as a file, reads all there is to read in it, and forgets it. Must neither panic nor
/// take long, whatever the bytes are.
pub fn container(data: &[u8]) {
    // What the errors say is not of interest here, only that there is nothing worse.
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
