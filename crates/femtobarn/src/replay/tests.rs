//! Replays of traces that XRootD's recorder has written, and of made ones.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use femtobarn_io::{end_record, record};

use super::*;
use crate::open_source;

fn recorded(name: &str) -> Trace {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces");
    let text = std::fs::read(folder.join(name)).unwrap();
    Trace::read(name, text.as_slice()).unwrap()
}

/// A trace of reads of one file: start, stop and range of each, in milliseconds and bytes.
fn of_reads(path: &str, reads: &[(u64, u64, std::ops::Range<u64>)]) -> Trace {
    let mut rows =
        format!("\"1\",\"Open\",\"0.0\",\"{path};16;0;0\",\"0.000000001\",\"[SUCCESS]\",\"\"\n");
    for (start, stop, range) in reads {
        let seconds = |ms: &u64| format!("{}.{:03}", ms / 1000, ms % 1000);
        let (offset, length) = (range.start, range.end - range.start);
        rows.push_str(&format!(
            "\"1\",\"Read\",\"{}\",\"{offset};{length};0\",\"{}\",\"[SUCCESS]\",\"{length}\"\n",
            seconds(start),
            seconds(stop)
        ));
    }
    Trace::read("made", rows.as_bytes()).unwrap()
}

fn file_of(size: usize) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), femtobarn_testkit::content(size)).unwrap();
    file
}

fn at_speed(speed: Option<f64>) -> ReplayOptions {
    ReplayOptions {
        speed,
        ..ReplayOptions::default()
    }
}

#[test]
fn a_trace_of_xrootds_recorder_is_replayed_on_a_local_file() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/dimuon.root");
    for (name, operations, n_files, n_bytes, skipped) in [
        ("uproot.csv", [9, 0, 0], 1, 3997, 0),
        ("xrdcp.csv", [0, 0, 1], 1, 255_567, 4),
        ("root.csv", [12, 1, 0], 2, 217_668, 0),
    ] {
        let mut trace = recorded(name);
        trace
            .replace("root://127.0.0.1:1094//dimuon.root", data)
            .unwrap();
        assert!(trace.replace("root://127.0.0.2", data).is_err());
        let played = play(&trace, &at_speed(None)).unwrap();
        let summary = Summary::of(&trace, Some(&played));
        let replay = summary.replay.clone().unwrap();
        assert_eq!(
            (replay.failed, replay.skipped),
            (0, skipped),
            "{name}: {replay:?}"
        );
        assert_eq!(
            (replay.n_bytes, summary.read.total()),
            (n_bytes, n_bytes),
            "{name}"
        );
        assert_eq!(
            (summary.read.operations, summary.read.files),
            (operations, n_files),
            "{name}"
        );
        assert_eq!(summary.synchronicity[0], Some(100.0), "{name}");
        let drawn = figure(&trace, Some(&played));
        assert!(
            drawn.starts_with("<svg") && drawn.contains("dimuon.root"),
            "{drawn}"
        );
    }
}

#[test]
fn writes_and_failures_are_counted_and_not_replayed() {
    let trace = recorded("client.csv");
    let summary = Summary::of(&trace, None);
    assert_eq!((summary.read.files, summary.written.files), (1, 1));
    assert_eq!(
        (summary.read.operations, summary.read.n_bytes),
        ([1, 1, 0], [100, 30, 0])
    );
    assert_eq!((summary.written.operations, summary.failed), ([1, 0, 0], 1));
    assert_eq!(summary.synchronicity, [Some(100.0), Some(100.0)]);
    let text = summary.text();
    assert!(
        !text.contains("secret") && !summary.json().to_string().contains("secret"),
        "{text}"
    );
    let data = file_of(1000);
    let mut trace = trace;
    trace
        .replace(
            "root://127.0.0.1:1094//dimuon.root?authz=secret",
            data.path().to_str().unwrap(),
        )
        .unwrap();
    let played = play(&trace, &at_speed(None)).unwrap();
    // the written file has five operations, and one file does not exist
    assert_eq!((played.skipped, played.actions.len()), (6, 5));
    assert!(played.actions.iter().all(|action| action.error.is_none()));
}

#[test]
fn reads_keep_their_times_divided_by_the_speed() {
    let data = file_of(1000);
    let trace = of_reads(
        data.path().to_str().unwrap(),
        &[(300, 301, 0..10), (600, 601, 10..20)],
    );
    for (speed, expected) in [(Some(1.0), 600), (Some(4.0), 150), (None, 0)] {
        let played = play(&trace, &at_speed(speed)).unwrap();
        let last = played.actions.last().unwrap().start.as_millis();
        assert!(
            (expected..expected + 140).contains(&last),
            "{speed:?}: {last}"
        );
    }
}

#[test]
fn reads_overlap_as_they_did_and_wait_for_the_answers_that_were_known() {
    static READING: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);
    // each answer takes 100 ms
    let slow = femtobarn_testkit::Servers::start("nginx");
    slow.put("f", &femtobarn_testkit::content(1_000_000));
    let port = femtobarn_testkit::relay(slow.port, |passing| {
        if !passing.is_answer {
            MOST.fetch_max(READING.fetch_add(1, SeqCst) + 1, SeqCst);
            std::thread::sleep(Duration::from_millis(100));
            READING.fetch_sub(1, SeqCst);
        }
        std::ops::ControlFlow::Continue(())
    });
    let url = format!("http://127.0.0.1:{port}/f");
    let one_by_one: Vec<_> = (0..4)
        .map(|i| (i * 2 + 1, i * 2 + 2, i * 100_000..i * 100_000 + 10))
        .collect();
    let at_once: Vec<_> = (0..4)
        .map(|i| (1, 9, 400_000 + i * 50_000..400_010 + i * 50_000))
        .collect();
    let time = |reads: &[_]| {
        let start = Instant::now();
        let played = play(&of_reads(&url, reads), &at_speed(Some(1.0))).unwrap();
        assert!(
            played.actions.iter().all(|action| action.error.is_none()),
            "{played:?}"
        );
        start.elapsed()
    };
    let (slow_ones, quick_ones) = (time(&one_by_one), time(&at_once));
    assert!(slow_ones > Duration::from_millis(400), "{slow_ones:?}");
    assert!(
        quick_ones < slow_ones - Duration::from_millis(100),
        "{quick_ones:?} {slow_ones:?}"
    );
}

#[test]
fn inputs_are_checked_and_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    let trace = of_reads(path.to_str().unwrap(), &[(1, 2, 5..3_000_003)]);
    let state = |create| {
        let inputs = check_inputs(&trace, &ReplayOptions::default(), create).unwrap();
        assert_eq!((inputs.len(), inputs[0].n_needed), (1, 3_000_003));
        inputs[0].state.clone()
    };
    assert!(matches!(state(false), InputState::Failed(_)));
    assert!(!path.exists());
    assert_eq!(state(true), InputState::Created);
    assert_eq!(state(false), InputState::Fine);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 3_000_003);
    let number = |at: usize| u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap());
    assert_eq!((number(0), number(7), number(200_000)), (0, 7, 200_000));
    std::fs::write(&path, b"short").unwrap();
    assert_eq!(state(true), InputState::TooSmall(5));
    assert_eq!(std::fs::read(&path).unwrap(), b"short");
}

#[test]
fn errors_of_reads_are_parts_of_the_result() {
    let data = file_of(100);
    let path = data.path().to_str().unwrap();
    let trace = of_reads(path, &[(1, 2, 0..10), (3, 4, 90..110)]);
    let played = play(&trace, &at_speed(None)).unwrap();
    let replay = Summary::of(&trace, Some(&played)).replay.unwrap();
    assert_eq!((replay.failed, replay.n_bytes), (1, 10));
    let trace = of_reads("/no/such/file", &[(1, 2, 0..10)]);
    let played = play(&trace, &at_speed(None)).unwrap();
    assert_eq!((played.skipped, played.actions.len()), (1, 1));
    assert!(
        played.actions[0]
            .error
            .as_ref()
            .unwrap()
            .contains("/no/such/file")
    );
}

#[test]
fn what_is_not_a_trace_is_refused_with_its_line() {
    let error = Trace::read("t.csv", "\n\"1\",\"Close\"\n".as_bytes()).unwrap_err();
    assert!(error.to_string().contains("t.csv: line 2 "), "{error}");
    let empty = Trace::read("t.csv", "".as_bytes()).unwrap();
    let played = play(&empty, &at_speed(Some(1.0))).unwrap();
    let summary = Summary::of(&empty, Some(&played));
    assert!(summary.text().contains("recorded in"));
    assert!(figure(&empty, None).ends_with("</svg>\n"));
}

/// One test, as what is recorded is a matter of the whole process.
#[test]
fn what_is_recorded_is_replayed_with_the_same_reads() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first.csv", "second.csv"].map(|name| folder.path().join(name));
    let data = file_of(10_000);
    let url = data.path().to_str().unwrap();
    let of_data = |trace: &Path| {
        let text = std::fs::read(trace).unwrap();
        let trace = Trace::read("trace", text.as_slice()).unwrap();
        let file = trace
            .files()
            .into_iter()
            .find(|file| file.url() == Some(url));
        let operations = file.unwrap().actions.into_iter();
        operations
            .map(|(_, action)| action.operation.clone())
            .collect::<Vec<_>>()
    };
    record(first.to_str().unwrap()).unwrap();
    let source = open_source(url).unwrap();
    source.read_ranges(&[5..10, 500..700]).unwrap();
    source.read_into(9_000, &mut [0; 100]).unwrap();
    drop(source);
    record(second.to_str().unwrap()).unwrap();
    let text = std::fs::read(&first).unwrap();
    let trace = Trace::read("trace", text.as_slice()).unwrap();
    play(&trace, &at_speed(None)).unwrap();
    end_record(second.to_str().unwrap());
    // the one before goes on
    let rows = || std::fs::read_to_string(&first).unwrap().lines().count();
    let before = rows();
    drop(open_source(url).unwrap());
    assert!(rows() > before);
    end_record(first.to_str().unwrap());
    let after = rows();
    drop(open_source(url).unwrap());
    assert_eq!(rows(), after);
    let names: Vec<_> = of_data(&first).iter().map(Operation::name).collect();
    assert_eq!(names, ["Open", "Stat", "VectorRead", "Read", "Close"]);
    assert_eq!(of_data(&first), of_data(&second));
}
