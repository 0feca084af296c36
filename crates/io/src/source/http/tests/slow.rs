//! Servers that send slowly, stop in the middle, or refuse several ranges by a status.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::liars::{Liar, after_opening, answer, file, honest, range};
use super::*;
use crate::with_causes;

/// Opens a fake server's file with settings.
fn open(liar: &Liar, given: &[(&str, &str)]) -> Result<Arc<HttpSource>, IoError> {
    HttpSource::open_ends(&liar.url(), &Settings::with(&liar.url(), given)?, SMALL)
}

fn head(range: &Range<usize>) -> String {
    let (start, last, length) = (range.start, range.end - 1, range.len());
    format!(
        "HTTP/1.1 206 Partial Content\r\nETag: \"a\"\r\nContent-Range: bytes {start}-{last}/10000\r\nContent-Length: {length}\r\n\r\n"
    )
}

#[test]
fn a_server_that_trickles_is_given_up() {
    let liar = after_opening(usize::MAX, |head_, stream| {
        let range = range(head_, 10_000);
        let _ = stream.write_all(head(&range).as_bytes());
        for byte in &file()[range] {
            if stream.write_all(&[*byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let given = [("request_timeout", "0.3"), ("most_retries", "2")];
    let source = open(&liar, &given).unwrap();
    liar.forget();
    let error = source.read_ranges(&[5000..6000]).unwrap_err();
    let text = with_causes(&error);
    assert!(text.contains("least_rate=100 bytes per second"), "{text}");
    assert_eq!(liar.asked().len(), 3, "{text}");

    // the limit of the whole read ends a slow answer whose rate is allowed
    let given = [
        ("request_timeout", "0.3"),
        ("least_rate", "0"),
        ("total_timeout", "1"),
    ];
    let error = open(&liar, &given)
        .unwrap()
        .read_ranges(&[5000..6000])
        .unwrap_err();
    let text = with_causes(&error);
    assert!(text.contains("total_timeout=1 s"), "{text}");
}

/// Each attempt transfers half of the rest, which is progress; attempts that transfer too little
/// count as failures.
#[test]
fn a_server_that_stops_in_the_middle_of_each_answer_is_given_up() {
    let liar = after_opening(usize::MAX, |head_, stream| {
        let range = range(head_, 10_000);
        let _ = stream.write_all(head(&range).as_bytes());
        let half = range.start + range.len() / 2;
        let _ = stream.write_all(&file()[range.start..half]);
    });
    let given = [
        ("request_timeout", "0.2"),
        ("most_retries", "1"),
        ("least_rate", "1000"),
    ];
    let source = open(&liar, &given).unwrap();
    liar.forget();
    let error = source.read_ranges(&[5000..6000]).unwrap_err();
    assert!(with_causes(&error).contains("request_timeout"), "{error}");
    // 500 and 250 bytes are enough for 0.2 s, unless the machine is busy; 125 and 62 never are
    assert!((2..=4).contains(&liar.asked().len()));
}

#[test]
fn a_416_to_several_ranges_has_each_asked_for_by_itself() {
    for said in ["", "\r\nContent-Range: bytes */10000", "\r\nETag: \"page\""] {
        let liar = Liar::start(move |_, head, stream| match head.contains(',') {
            true => answer(stream, &format!("416 Range Not Satisfiable{said}"), b"no"),
            false => honest(head, stream),
        });
        let source = open(&liar, &[]).unwrap();
        let ranges: Vec<Range<u64>> = (0..50).map(|i| 20 + i * 100..25 + i * 100).collect();
        for _ in 0..2 {
            let found = source.read_ranges(&ranges).unwrap();
            for (start, found) in (20..).step_by(100).zip(found) {
                assert_eq!(found, file()[start..start + 5]);
            }
        }
        let asked = liar.asked();
        let many = asked.iter().filter(|head| head.contains(',')).count();
        assert_eq!(many, 1, "it is tried once");
    }
}

#[test]
fn the_size_that_a_416_says_is_compared() {
    for (size, kind) in [("10000", "remote-failed"), ("5000", "file-changed")] {
        let liar = after_opening(usize::MAX, move |_, stream| {
            let said = format!("416 Range Not Satisfiable\r\nContent-Range: bytes */{size}");
            answer(stream, &said, b"");
        });
        let error = open(&liar, &[])
            .unwrap()
            .read_ranges(&[5000..6000])
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{}", with_causes(&error));
    }
}

#[test]
fn a_size_that_parts_do_not_say_is_asked_for() {
    let heads = Arc::new(AtomicUsize::new(0));
    let own = heads.clone();
    let liar = Liar::start(move |_, head, stream| {
        if head.starts_with("HEAD ") {
            own.fetch_add(1, Ordering::Relaxed);
            return answer(stream, "200 OK\r\nContent-Length: 10000", b"");
        }
        let range = range(head, 10_000);
        let (start, last) = (range.start, range.end - 1);
        let said = format!("206 Partial Content\r\nContent-Range: bytes {start}-{last}/*");
        answer(stream, &said, &file()[range]);
    });
    let source = open(&liar, &[]).unwrap();
    assert_eq!(
        (source.meta().size, heads.load(Ordering::Relaxed)),
        (10_000, 1)
    );
    let found = source.read_ranges(&[5000..6000, 9990..10_000]).unwrap();
    assert_eq!(found, [&file()[5000..6000], &file()[9990..]]);
}
