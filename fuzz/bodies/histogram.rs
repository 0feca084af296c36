//! The body of the fuzz target, a function so that tests can replay its corpus.

use std::sync::Arc;

use femtobarn_io::MemorySource;
use femtobarn_rootfile::RootFile;

use femtobarn_histogram::{Histogram, Infos, is_histogram, moved_object};

/// By how many bytes keys become longer.
const LONGER: u16 = 8;

/// Opens bytes as a ROOT file, adds every histogram to itself, and moves every other object to a longer key.
pub fn histogram(data: &[u8]) {
    let Ok(file) = RootFile::open(MemorySource::new("memory:fuzz", data.to_vec())) else {
        return;
    };
    let infos = Arc::new(Infos::new(file.streamer_infos().unwrap_or_default()));
    for entry in file.walk().unwrap_or_default() {
        let (class, key_len) = (&entry.key.class_name, entry.key.key_len);
        let Ok(object) = file.read_object(&entry.key) else {
            continue;
        };
        let longer = key_len.saturating_add(LONGER);
        if is_histogram(class) {
            if let Ok(one) = Histogram::parse(class, &object, key_len, &infos) {
                let mut two = one.clone();
                let _ = two.add(&one);
                let _ = two.object(longer);
            }
        } else if let Ok(moved) = moved_object(class, &object, (key_len, longer), &infos) {
            assert_eq!(moved.len(), object.len(), "only positions change");
        }
    }
}
