//! Metrics equal the transferred data: bytes counted between client and server, and the time of opening.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use femtobarn_testkit::{content, relay};

use super::kinds::Place;
use crate::{ByteSource, HeldSource, MeteredSource, NTupleSteps, Stage, examine};

/// The delay of each piece of an answer.
const DELAY: Duration = Duration::from_millis(20);

/// A proxy that delays answers and counts received bytes; returns its port and the counter.
fn counting(server: u16) -> (u16, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let own = count.clone();
    let port = relay(server, move |passing| {
        if passing.is_answer {
            std::thread::sleep(DELAY);
            own.fetch_add(passing.bytes.len() as u64, Relaxed);
        }
        ControlFlow::Continue(())
    });
    (port, count)
}

/// Waits until nothing is in flight any more.
fn settled(count: &AtomicU64) {
    let mut last = None;
    while last != Some(count.load(Relaxed)) {
        last = Some(count.load(Relaxed));
        std::thread::sleep(10 * DELAY);
    }
}

/// Opens files of several sizes, reads them, and compares.
fn agrees(kind: &'static str) {
    /// Maximum number of bytes besides file contents: heads of answers, and the login.
    const MOST_AROUND: u64 = 1500;
    let Some(mut place) = Place::start(kind) else {
        return;
    };
    let (port, count) = counting(place.server.port);
    // XRootD's HTTP sends the whole first file whose end is requested, so request the end of another one
    // first
    place.put("first", &content(1_000_000));
    place.open(port, "first", &[]).unwrap();
    settled(&count);
    for size in [1000, 86_153, 300_000, 1_000_000] {
        place.put("f", &content(size));
        let before = count.load(Relaxed);
        let source = place.open(port, "f", &[]).unwrap();
        let metered = MeteredSource::of(source, &place.settings(port, &[])).unwrap();
        let held = HeldSource::with_ends(metered.clone(), 64 << 10, 256 << 10).unwrap();
        let data = metered.at_stage(Stage::Data).unwrap();
        let size = size as u64;
        for range in [0..100, size / 3..size / 3 + 10, size - 5..size] {
            held.read_ranges(std::slice::from_ref(&range)).unwrap();
            data.read_ranges(&[range]).unwrap();
        }
        let (requests, meter) = (
            metered.traffic().unwrap().requests,
            metered.meter().unwrap(),
        );
        let (now, spans) = (meter.now(), meter.spans());
        let around = (count.load(Relaxed) - before).checked_sub(now.bytes);
        assert!(
            around.is_some_and(|around| around <= (requests + 2) * MOST_AROUND),
            "{kind}, {size}: {around:?} around {} in {requests} requests",
            now.bytes
        );
        let first = &spans[0];
        assert_eq!(first.stage, Stage::Open, "{kind}, {size}");
        assert!(
            first.duration >= DELAY && now.waiting >= DELAY,
            "{kind}, {size}: {now:?}"
        );
        let in_spans = spans.iter().flat_map(|span| &span.ranges);
        let in_spans: u64 = in_spans.map(|range| range.end - range.start).sum();
        assert_eq!(in_spans, now.bytes, "{kind}, {size}");
    }
}

#[test]
fn bytes_and_times_of_nginx_are_those_that_travel() {
    agrees("nginx");
}

#[test]
fn bytes_and_times_of_xrootds_http_are_those_that_travel() {
    agrees("xrdhttp");
}

#[test]
fn bytes_and_times_of_xrootd_are_those_that_travel() {
    agrees("xrootd");
}

#[test]
fn bytes_and_times_of_s3_are_those_that_travel() {
    agrees("minio");
}

#[test]
fn bytes_and_times_of_azure_are_those_that_travel() {
    agrees("azurite");
}

/// The doctor must not measure data in memory: this would make a file look fast.
#[test]
fn the_doctor_measures_nothing_of_what_came_whole() {
    for kind in ["nginx", "minio"] {
        let Some(mut place) = Place::start(kind) else {
            continue;
        };
        for (size, is_whole) in [(10_000, true), (1_000_000, false)] {
            place.put("f", &content(size));
            let port = place.server.port;
            let none = NTupleSteps {
                before: Vec::new(),
                open: Box::new(|| unreachable!()),
            };
            let settings = place.settings(port, &[]);
            let checks = examine(&place.url(port, "f"), &settings, 64 << 20, &none);
            for name in ["latency", "throughput"] {
                let check = checks.iter().find(|check| check.name == name).unwrap();
                let says_so = check
                    .note
                    .starts_with("not measured: opening has read the whole file");
                assert_eq!(says_so, is_whole, "{kind}: {check:?}");
                assert_eq!(check.time.is_none(), is_whole, "{kind}: {check:?}");
            }
        }
    }
}
