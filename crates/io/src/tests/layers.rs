//! Layers over files of servers.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::kinds::Place;
use crate::{HeldSource, MeteredSource, RecordSource};

/// Runs the conformance suite on files of a server, with layers over them.
fn conforms(kind: &'static str, more: &[(&str, &str)]) {
    let Some(place) = Place::start(kind) else {
        return;
    };
    let (place, number) = (RefCell::new(place), AtomicUsize::new(0));
    crate::tests::conformance::check(&|content| {
        let name = format!("f{}", number.fetch_add(1, Ordering::Relaxed));
        place.borrow_mut().put(&name, &content);
        let place = place.borrow();
        let source = place.open(place.server.port, &name, more).unwrap();
        let settings = place.settings(place.server.port, more);
        let metered = MeteredSource::of(RecordSource::new(source), &settings).unwrap();
        HeldSource::with_ends(metered, 100, 1000).unwrap()
    });
}

#[test]
fn layers_over_xrootd_conform() {
    conforms("xrootd", &[]);
}

#[test]
fn layers_over_xrootd_with_checksums_conform() {
    conforms("xrootd", &[("checksums", "true")]);
}

#[test]
fn layers_over_a_cache_of_xrootd_conform() {
    conforms("cache", &[]);
}

#[test]
fn layers_over_xrootds_http_conform() {
    conforms("xrdhttp", &[]);
}

#[test]
fn layers_over_nginx_conform() {
    conforms("nginx", &[]);
}

#[test]
fn layers_over_s3_conform() {
    conforms("minio", &[]);
}

#[test]
fn layers_over_azure_conform() {
    conforms("azurite", &[]);
}

#[test]
fn layers_over_google_conform() {
    conforms("fake-gcs", &[]);
}
