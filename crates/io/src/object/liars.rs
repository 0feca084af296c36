//! Fake S3 servers that redirect elsewhere or send endless answers, which real ones do not do on
//! command.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::tests::liar::Liar;
use crate::{ByteSink, ByteSource, ObjectSink, ObjectSource, Settings, list_folder, with_causes};

const SECRET: &str = "the-session-token";

fn settings(place: &str, more: &[(&str, &str)]) -> Settings {
    let mut given = vec![
        ("endpoint", place),
        ("region", "us-east-1"),
        ("access_key_id", "the-key"),
        ("secret_access_key", "the-secret"),
        ("session_token", SECRET),
        ("most_retries", "0"),
        ("request_timeout", "1"),
    ];
    given.extend(more);
    Settings::with("s3://b", &given).unwrap()
}

/// An object of seven bytes, sent completely for any request.
fn object(_: usize, _: &str, stream: &mut TcpStream) {
    let said = "HTTP/1.1 206 Partial Content\r\nETag: \"a\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Range: bytes 0-6/7\r\nContent-Length: 7\r\n\r\ncontent";
    let _ = stream.write_all(said.as_bytes());
}

fn redirecting(place: &str) -> Liar {
    let place = place.to_owned();
    Liar::start(move |_, head, stream| {
        let path = head.split(' ').nth(1).unwrap();
        let said = format!(
            "HTTP/1.1 307 Elsewhere\r\nLocation: {place}{path}\r\nContent-Length: 0\r\n\r\n"
        );
        let _ = stream.write_all(said.as_bytes());
    })
}

#[test]
fn no_credential_follows_a_redirect() {
    let other = Liar::start(object);
    let first = redirecting(&other.place());
    let own = settings(&first.place(), &[]);
    let source = ObjectSource::open("s3://b/k", &own).unwrap();
    assert_eq!(source.read_ranges(&[0..7]).unwrap(), ["content"]);
    // the answer is not a valid list
    list_folder("s3://b/folder/", &own).unwrap_err();
    assert!(first.asked()[0].contains(SECRET));
    let asked = other.asked();
    assert!(asked.len() >= 3, "{asked:?}");
    for head in asked.iter().map(|head| head.to_lowercase()) {
        for secret in ["authorization", "x-amz", "the-key", SECRET] {
            assert!(!head.contains(secret), "{head}");
        }
    }
}

#[test]
fn what_is_sent_or_removed_is_not_redirected() {
    let other = Liar::start(object);
    let own = settings(&redirecting(&other.place()).place(), &[]);
    let sink = ObjectSink::create("s3://b/new", true, &own).unwrap();
    sink.write_at(0, b"content").unwrap();
    let error = sink.commit().unwrap_err();
    let text = with_causes(&error);
    assert!(
        text.contains(&format!("redirects to {}", other.place())),
        "{text}"
    );
    let sent = other.asked();
    assert!(!sent.iter().any(|head| head.starts_with("PUT")), "{sent:?}");
    assert!(!sent.iter().any(|head| head.contains(SECRET)), "{sent:?}");
}

#[test]
fn redirects_without_end_are_an_error() {
    let liar = Liar::start(|_, head, stream| {
        let path = head.split(' ').nth(1).unwrap();
        let said = format!("HTTP/1.1 302 Found\r\nLocation: {path}\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.write_all(said.as_bytes());
    });
    let own = settings(&liar.place(), &[("most_redirects", "2")]);
    let error = ObjectSource::open("s3://b/k", &own).unwrap_err();
    let text = with_causes(&error);
    assert!(
        text.contains("more than 2 redirects (most_redirects)"),
        "{text}"
    );
    assert!(liar.asked().len() <= 6);
}

/// A server whose answers with this head never end; also returns the number of bytes that it could
/// send.
fn endless(head: &'static str) -> (String, Arc<AtomicU64>) {
    let sent = Arc::new(AtomicU64::new(0));
    let own = sent.clone();
    let liar = Liar::start(move |_, _, stream| {
        let said = format!("HTTP/1.1 {head}\r\nTransfer-Encoding: chunked\r\n\r\n");
        let _ = stream.write_all(said.as_bytes());
        let chunk = [b"10000\r\n", &[b'x'; 1 << 16][..], b"\r\n"].concat();
        while stream.write_all(&chunk).is_ok() {
            let so_far = own.fetch_add(1 << 16, Ordering::Relaxed);
            assert!(so_far < 1 << 30, "somebody reads it all");
        }
    });
    (liar.place(), sent)
}

#[test]
fn what_a_server_says_of_an_error_is_cut() {
    // what the system buffers for some connections
    const MOST: u64 = 64 << 20;
    let (place, sent) = endless("403 Forbidden");
    let own = settings(&place, &[]);
    let error = ObjectSource::open("s3://b/k", &own).unwrap_err();
    assert_eq!(error.kind(), "permission-denied");
    assert!(with_causes(&error).len() < 1 << 17);
    list_folder("s3://b/folder/", &own).unwrap_err();
    let sink = ObjectSink::create("s3://b/new", true, &own).unwrap();
    sink.write_at(0, b"content").unwrap();
    sink.commit().unwrap_err();
    assert!(sent.load(Ordering::Relaxed) < MOST);
}

#[test]
fn a_list_without_end_is_an_error() {
    let (place, sent) = endless("200 OK");
    let error = list_folder("s3://b/folder/", &settings(&place, &[])).unwrap_err();
    let text = with_causes(&error);
    assert!(text.contains("too long for a list"), "{text}");
    assert!(sent.load(Ordering::Relaxed) < 128 << 20);
}

#[test]
fn a_store_that_trickles_is_given_up() {
    let liar = Liar::start(|_, _, stream| {
        let said = "HTTP/1.1 206 Partial Content\r\nETag: \"a\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Range: bytes 0-999/1000\r\nContent-Length: 1000\r\n\r\n";
        let _ = stream.write_all(said.as_bytes());
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    });
    let slow = settings(
        &liar.place(),
        &[("request_timeout", "0.3"), ("most_retries", "1")],
    );
    let error = ObjectSource::open("s3://b/k", &slow).unwrap_err();
    let text = with_causes(&error);
    assert!(text.contains("least_rate=100"), "{text}");
}
