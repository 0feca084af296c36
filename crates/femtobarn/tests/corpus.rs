//! Inputs that fuzzing found, run through the bodies of the fuzz targets: none may panic.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

fn replay(target: &str, body: fn(&[u8])) {
    let folder = common::root().join("fuzz/corpus").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        body(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}

#[test]
fn compression_records() {
    replay(
        "compression_record",
        femtobarn::codec::fuzz::compression_record,
    );
}

#[test]
fn element_decoders() {
    replay("element_decoders", femtobarn::codec::fuzz::element_decoders);
}

#[test]
fn containers() {
    replay("container", femtobarn::rootfile::fuzz::container);
}

#[test]
fn envelopes() {
    replay("envelopes", femtobarn::fuzz::envelopes);
}

#[test]
fn pages() {
    replay("page", femtobarn::fuzz::page);
}

#[test]
fn whole_files() {
    replay("whole_file", femtobarn::fuzz::whole_file);
}

#[test]
fn trees() {
    replay("tree", femtobarn::ttree::fuzz::tree);
}

#[test]
fn histograms() {
    replay("histogram", femtobarn_histogram::fuzz::histogram);
}

#[test]
fn baskets() {
    replay("basket", femtobarn::ttree::fuzz::basket);
}

#[test]
fn expressions() {
    replay("expression", femtobarn::expression::fuzz::expression);
}
