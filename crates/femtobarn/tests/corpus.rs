//! Inputs that fuzzing found, run through the bodies of the fuzz targets: none may panic.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

#[path = "../../../fuzz/bodies/codec.rs"]
mod codec;
#[path = "../../../fuzz/bodies/expression.rs"]
mod expression;
#[path = "../../../fuzz/bodies/histogram.rs"]
mod histogram;
#[path = "../../../fuzz/bodies/rntuple.rs"]
mod rntuple;

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
    replay("compression_record", codec::compression_record);
}

#[test]
fn element_decoders() {
    replay("element_decoders", codec::element_decoders);
}

#[test]
fn containers() {
    replay("container", femtobarn_rootfile::fuzz::container);
}

#[test]
fn envelopes() {
    replay("envelopes", rntuple::envelopes);
}

#[test]
fn pages() {
    replay("page", rntuple::page);
}

#[test]
fn whole_files() {
    replay("whole_file", rntuple::whole_file);
}

#[test]
fn trees() {
    replay("tree", femtobarn_ttree::fuzz::tree);
}

#[test]
fn histograms() {
    replay("histogram", histogram::histogram);
}

#[test]
fn baskets() {
    replay("basket", femtobarn_ttree::fuzz::basket);
}

#[test]
fn expressions() {
    replay("expression", expression::expression);
}
