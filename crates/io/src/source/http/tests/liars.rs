//! Fake servers that send wrong data, break off or stall, which real ones do not do on command.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use femtobarn_testkit::content;

use super::*;
pub(super) use crate::tests::liar::Liar;
use crate::with_causes;

impl Liar {
    pub(super) fn url(&self) -> String {
        format!("{}/f?secret", self.place())
    }

    /// Opens its file, with short timeouts.
    fn open(&self) -> Result<Arc<HttpSource>, IoError> {
        let given = [("request_timeout", "0.5"), ("connect_timeout", "0.5")];
        HttpSource::open_ends(&self.url(), &Settings::with(&self.url(), &given)?, SMALL)
    }
}

/// The file of these servers.
pub(super) fn file() -> Vec<u8> {
    content(10_000)
}

/// The range that is requested, in a file of `size` bytes.
pub(super) fn range(head: &str, size: usize) -> Range<usize> {
    let text = head.to_lowercase();
    let text = text
        .split("range: bytes=")
        .nth(1)
        .unwrap()
        .split("\r\n")
        .next()
        .unwrap()
        .to_owned();
    let (first, last) = text.split_once('-').unwrap();
    match (first, last) {
        ("", last) => size.saturating_sub(last.parse().unwrap())..size,
        (first, last) => first.parse().unwrap()..size.min(last.parse::<usize>().unwrap() + 1),
    }
}

/// Whether a request is a read after opening.
pub(super) fn is_read(head: &str) -> bool {
    let range = range(head, 10_000);
    range != (0..16) && range != (9984..10_000)
}

pub(super) fn answer(stream: &mut TcpStream, head: &str, body: &[u8]) {
    let length = if head.to_lowercase().contains("content-length") {
        String::new()
    } else {
        format!("Content-Length: {}\r\n", body.len())
    };
    let _ = stream.write_all(format!("HTTP/1.1 {head}\r\n{length}\r\n").as_bytes());
    let _ = stream.write_all(body);
}

pub(super) fn honest(head: &str, stream: &mut TcpStream) {
    let (file, range) = (file(), range(head, 10_000));
    let said = format!(
        "206 Partial Content\r\nETag: \"a\"\r\nContent-Range: bytes {}-{}/10000",
        range.start,
        range.end - 1
    );
    answer(stream, &said, &file[range]);
}

/// A server that redirects to another URL.
pub(super) fn redirecting(place: &str) -> Liar {
    let place = place.to_owned();
    Liar::start(move |_, _, stream| answer(stream, &format!("302 Found\r\nLocation: {place}"), b""))
}

/// A server that answers correctly when a file is opened, but fails the first `times` reads.
pub(super) fn after_opening(
    times: usize,
    does: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static,
) -> Liar {
    let reads = Mutex::new(0);
    Liar::start(move |_, head, stream| {
        let mut reads = reads.lock().unwrap();
        *reads += usize::from(is_read(head));
        let lies = is_read(head) && *reads <= times;
        drop(reads);
        if lies {
            does(head, stream)
        } else {
            honest(head, stream)
        }
    })
}

#[test]
fn lies_are_no_data() {
    type Lie = (&'static str, Vec<u8>, &'static str, &'static str);
    let ok = "206 Partial Content\r\nContent-Range: bytes";
    let body = || file()[5000..6000].to_vec();
    let lies: Vec<Lie> = vec![
        ("another place", body(), "4000-4999/10000", "remote-failed"),
        (
            "a range that is longer",
            file()[5000..6001].to_vec(),
            "5000-6000/10000",
            "remote-failed",
        ),
        (
            "more than its range",
            file()[5000..6001].to_vec(),
            "5000-5999/10000",
            "remote-failed",
        ),
        (
            "less than its range",
            file()[5000..5999].to_vec(),
            "5000-5999/10000",
            "remote-failed",
        ),
        ("another size", body(), "5000-5999/10001", "file-changed"),
        (
            "another tag",
            body(),
            "5000-5999/10000\r\nETag: \"b\"",
            "file-changed",
        ),
        ("no range", body(), "*/10000", "remote-failed"),
        (
            "a chunk too many",
            b"3e8\r\n"
                .iter()
                .copied()
                .chain(body())
                .chain(*b"\r\n1\r\nx\r\n0\r\n\r\n")
                .collect(),
            "5000-5999/10000\r\nTransfer-Encoding: chunked\r\nX: content-length",
            "remote-failed",
        ),
        (
            "packed bytes",
            body(),
            "5000-5999/10000\r\nContent-Encoding: gzip",
            "remote-failed",
        ),
        (
            "nothing at all",
            Vec::new(),
            "5000-5999/10000\r\nContent-Length: 0",
            "remote-failed",
        ),
    ];
    for (name, body, range, kind) in lies {
        let liar = after_opening(usize::MAX, move |_, stream| {
            answer(stream, &format!("{ok} {range}"), &body)
        });
        let source = liar.open().unwrap();
        let error = source.read_ranges(&[5000..6000]).unwrap_err();
        assert_eq!(error.kind(), kind, "{name}: {}", with_causes(&error));
        assert!(
            !with_causes(&error).contains("secret"),
            "{}",
            with_causes(&error)
        );
        assert_eq!(liar.asked().len(), 3, "{name} does not pass");
    }
}

#[test]
fn a_whole_file_instead_of_a_range_is_not_read() {
    let liar = after_opening(usize::MAX, |_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n");
        let mut sent = 0_u64;
        while stream.write_all(&[0; 1 << 16]).is_ok() {
            sent += 1 << 16;
            assert!(sent < 1 << 28, "somebody reads it all");
        }
    });
    let source = liar.open().unwrap();
    let error = source.read_ranges(&[5000..6000]).unwrap_err();
    assert!(
        with_causes(&error).contains("wrong answer: 200 OK"),
        "{}",
        with_causes(&error)
    );
}

#[test]
fn what_passes_is_tried_again() {
    // how a server fails, and the range that is requested then
    type Fails = (&'static str, fn(&str, &mut TcpStream), &'static str);
    let fails: [Fails; 4] = [
        (
            "503",
            |_, stream| answer(stream, "503 Service Unavailable\r\nRetry-After: 0", b""),
            "5000-5999",
        ),
        (
            "429",
            |_, stream| answer(stream, "429 Too Many Requests", b"slowly"),
            "5000-5999",
        ),
        (
            "reset",
            |_, stream| stream.shutdown(Shutdown::Both).unwrap(),
            "5000-5999",
        ),
        (
            "cut",
            |head, stream| {
                // each time less than half of the rest
                let range = range(head, 10_000);
                let (start, length) = (range.start, range.len());
                let said = format!(
                    "206 Partial Content\r\nETag: \"a\"\r\nContent-Range: bytes {start}-5999/10000\r\nContent-Length: {length}"
                );
                answer(stream, &said, &file()[start..start + length * 2 / 5]);
                stream.shutdown(Shutdown::Both).unwrap();
            },
            "5400-5999",
        ),
    ];
    for (name, does, again) in fails {
        let liar = after_opening(1, does);
        let source = liar.open().unwrap();
        assert_eq!(
            source.read_ranges(&[5000..6000]).unwrap()[0],
            file()[5000..6000],
            "{name}"
        );
        let last = liar.asked().pop().unwrap().to_lowercase();
        assert!(
            last.contains(&format!("range: bytes={again}\r\n")),
            "{name}: {last}"
        );
        assert!(last.contains("if-match: \"a\"\r\n"), "{last}");

        let liar = after_opening(usize::MAX, does);
        let error = liar.open().unwrap().read_ranges(&[5000..6000]).unwrap_err();
        let (text, server) = (with_causes(&error), format!("127.0.0.1:{}: ", liar.port));
        assert_eq!(error.kind(), "remote-failed", "{name}");
        // a repeated error is counted
        let numbers = text
            .split('(')
            .filter_map(|part| part.split_once(" times)"));
        let again: usize = numbers.map(|(n, _)| n.parse::<usize>().unwrap() - 1).sum();
        assert_eq!(text.matches(&server).count() + again, 4, "{text}");
    }
}

#[test]
fn a_server_that_is_silent_is_given_up() {
    let liar = after_opening(usize::MAX, |_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5000-5999/10000\r\nContent-Length: 1000\r\n\r\n");
    });
    let source = liar.open().unwrap();
    let start = Instant::now();
    let error = source.read_ranges(&[5000..6000]).unwrap_err();
    assert!(
        with_causes(&error).contains("no data for 0.5 s"),
        "{}",
        with_causes(&error)
    );
    let elapsed = start.elapsed();
    assert!(
        elapsed > Duration::from_secs(2) && elapsed < Duration::from_secs(10),
        "{elapsed:?}"
    );
}

#[test]
fn a_read_that_is_given_up_ends_its_connection() {
    let (sender, ended) = std::sync::mpsc::channel();
    let sender = Mutex::new(sender);
    let liar = after_opening(usize::MAX, move |_, stream| {
        let rest = stream.read(&mut [0]);
        let _ = sender.lock().unwrap().send(matches!(rest, Ok(0) | Err(_)));
    });
    let source = liar.open().unwrap();
    let client = Client::shared(&source.limits, source.url()).unwrap();
    let call = Call {
        client: &client,
        target: &source.target,
        traffic: &source.traffic,
    };
    let reading = Reading {
        call,
        version: &source.version,
    };
    let soon = async {
        tokio::time::timeout(Duration::from_millis(100), reading.pieces(vec![5000..6000])).await
    };
    assert!(wait_for(source.url(), soon).unwrap().is_err());
    assert!(ended.recv_timeout(Duration::from_secs(5)).unwrap());
}

#[test]
fn a_place_that_is_not_valid_any_more_is_left() {
    // the file's own URL redirects to /one, which expires after opening, and then to /two
    let has_expired = AtomicBool::new(false);
    let liar = Liar::start(move |_, head, stream| {
        if head.starts_with("GET /f?secret ") {
            let is_first = !has_expired.load(Ordering::SeqCst);
            let place = if is_first {
                "/one?signed"
            } else {
                "/two?signed"
            };
            let said = format!("307 Elsewhere\r\nLocation: {place}");
            answer(stream, &said, b"");
        } else if head.starts_with("GET /one?signed ") && is_read(head) {
            has_expired.store(true, Ordering::SeqCst);
            answer(stream, "403 Forbidden", b"expired");
        } else {
            honest(head, stream);
        }
    });
    let source = liar.open().unwrap();
    liar.forget();
    assert_eq!(
        source.read_ranges(&[5000..6000]).unwrap()[0],
        file()[5000..6000]
    );
    let asked = liar.asked();
    let places: Vec<&str> = asked
        .iter()
        .map(|head| head.split(' ').nth(1).unwrap())
        .collect();
    assert_eq!(places, ["/one?signed", "/f?secret", "/two?signed"]);
}

#[test]
fn servers_that_know_little_are_read() {
    // no end of a file of unknown size; one range although two were requested; no tags
    let liar = Liar::start(|_, head, stream| {
        if head.contains("bytes=-") {
            return answer(stream, "416 Range Not Satisfiable", b"");
        }
        let first = head
            .split("\r\n")
            .map(|line| line.split(',').next().unwrap())
            .collect::<Vec<_>>()
            .join("\r\n");
        honest(&first, stream);
    });
    let source = liar.open().unwrap();
    let ranges: Vec<Range<u64>> = (0..50).map(|i| 20 + i * 100..25 + i * 100).collect();
    for _ in 0..2 {
        let found = source.read_ranges(&ranges).unwrap();
        for (range, found) in ranges.iter().zip(found) {
            assert_eq!(found, part(&file(), range));
        }
    }
    let many = liar
        .asked()
        .iter()
        .filter(|head| head.contains(','))
        .count();
    assert_eq!(many, 1, "it is tried once");
}

#[test]
fn files_that_differ_from_their_ends_are_not_mixed() {
    // the end belongs to another version than the beginning
    let liar = Liar::start(|_, head, stream| match head.contains("bytes=-") {
        true => answer(
            stream,
            "206 Partial Content\r\nETag: \"b\"\r\nContent-Range: bytes 9984-9999/10000",
            &[0; 16],
        ),
        false => honest(head, stream),
    });
    let source = liar.open().unwrap();
    assert_eq!(
        source.read_ranges(&[9984..10_000]).unwrap()[0],
        file()[9984..]
    );
}

#[test]
fn sizes_that_are_said_are_not_believed() {
    for (said, kind) in [
        (
            "206 Partial Content\r\nContent-Range: bytes 0-15/18446744073709551615",
            "ok",
        ),
        (
            "206 Partial Content\r\nContent-Range: bytes 0-15/*",
            "remote-failed",
        ),
        (
            "206 Partial Content\r\nContent-Range: bytes 1-16/100",
            "remote-failed",
        ),
        ("206 Partial Content", "remote-failed"),
        ("204 No Content", "remote-failed"),
        (
            "416 Range Not Satisfiable\r\nContent-Range: bytes */0",
            "ok",
        ),
        (
            "416 Range Not Satisfiable\r\nContent-Range: bytes */7",
            "remote-failed",
        ),
        (
            "200 OK\r\nContent-Length: 18446744073709551615",
            "remote-failed",
        ),
    ] {
        let liar = Liar::start(move |_, _, stream| answer(stream, said, &[7; 16]));
        let found = liar
            .open()
            .map(|source| source.read_ranges(&[0..0]).unwrap());
        let found = found.map_err(|error| error.kind());
        assert_eq!(found.err().unwrap_or("ok"), kind, "{said}");
    }
}

/// Regression: after a truncated answer with many ranges, each range was requested separately for the lifetime of
/// the process.
#[test]
fn an_answer_of_many_ranges_that_is_cut_teaches_nothing() {
    fn parts(head: &str) -> Vec<u8> {
        let text = head.to_lowercase();
        let text = text.split("range: bytes=").nth(1).unwrap();
        let mut body = Vec::new();
        for one in text.split("\r\n").next().unwrap().split(',') {
            let (first, last) = one.trim().split_once('-').unwrap();
            let range = first.parse().unwrap()..last.parse::<usize>().unwrap() + 1;
            let said = format!("--x\r\nContent-Range: bytes {first}-{last}/10000\r\n\r\n");
            body.extend(said.into_bytes());
            body.extend(&file()[range]);
            body.extend(b"\r\n");
        }
        body.extend(b"--x--\r\n");
        body
    }
    let cuts = AtomicBool::new(true);
    let liar = Liar::start(move |_, head, stream| {
        if !head.contains(',') {
            let range = range(head, 10_000);
            let (start, last) = (range.start, range.end - 1);
            let said = format!(
                "206 Partial Content\r\nETag: \"a\"\r\nContent-Range: bytes {start}-{last}/10000"
            );
            return answer(stream, &said, &file()[range]);
        }
        let body = parts(head);
        let said =
            "206 Partial Content\r\nETag: \"a\"\r\nContent-Type: multipart/byteranges; boundary=x";
        if cuts.swap(false, Ordering::Relaxed) {
            let said = format!("{said}\r\nContent-Length: {}", body.len());
            answer(stream, &said, &body[..body.len() / 2]);
            stream.shutdown(Shutdown::Both).unwrap();
        } else {
            answer(stream, said, &body);
        }
    });
    let source = liar.open().unwrap();
    let ranges: Vec<Range<u64>> = (0..100).map(|n| 100 + n * 90..110 + n * 90).collect();
    let read = || {
        liar.forget();
        let found = source.read_ranges(&ranges).unwrap();
        for (range, found) in ranges.iter().zip(found) {
            let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
            assert_eq!(found, file()[range]);
        }
        liar.asked().len()
    };
    read();
    read();
    assert_eq!(read(), 1);
}
