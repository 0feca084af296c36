use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use femtobarn_testkit::{Servers, can_store, content, free_port, relay};

use super::*;
use crate::object::testing::settings;
use crate::{ByteSink, HeldSource, ObjectSink, with_causes};

fn put(server: &Servers, url: &str, content: &[u8]) {
    let sink = ObjectSink::create(url, true, &settings(server, &[])).unwrap();
    sink.write_at(0, content).unwrap();
    sink.commit().unwrap();
}

fn n_requests(source: &ObjectSource) -> u64 {
    source.traffic().unwrap().requests
}

#[test]
fn objects_are_sources() {
    if !can_store("minio") {
        return;
    }
    let server = Servers::start("minio");
    let number = AtomicUsize::new(0);
    crate::tests::conformance::check(&|content| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        let url = format!("s3://private/folder/f {number}%20.root");
        put(&server, &url, &content);
        ObjectSource::open(&url, &settings(&server, &[])).unwrap()
    });
}

#[test]
fn opening_costs_two_requests_at_once_and_the_ends_are_read_then() {
    if !can_store("minio") {
        return;
    }
    let server = Servers::start("minio");
    let own = settings(&server, &[]);
    for (size, requests) in [
        (0, 3), // a range without bytes is an error, so the size is requested
        (1, 2),
        (65_535, 2),
        (256 << 10, 2),
        (300_000, 2),
        (320 << 10, 2),
        (1_000_000, 2),
    ] {
        let all = content(size);
        put(&server, "s3://private/f", &all);
        let source = ObjectSource::open("s3://private/f", &own).unwrap();
        assert_eq!(n_requests(&source), requests, "{size}");
        assert_eq!(source.meta().size, size as u64);
        let held = HeldSource::with_ends(source.clone(), HEAD, TAIL).unwrap();
        let tail = size.min(200_000);
        let range = (size - tail) as u64..size as u64;
        assert_eq!(held.read_ranges(&[range]).unwrap()[0], all[size - tail..]);
        assert_eq!(n_requests(&source), requests, "{size}");
    }
    let source = ObjectSource::open("s3://private/f", &own).unwrap();
    let all = content(1_000_000);
    let found = source
        .read_ranges(&[100..200, 70_000..80_000, 300_000..300_001])
        .unwrap();
    assert_eq!(
        found,
        [&all[100..200], &all[70_000..80_000], &all[300_000..300_001]]
    );
    assert_eq!(n_requests(&source), 2 + 2);
}

#[test]
fn an_object_that_is_replaced_while_it_is_read_is_an_error() {
    if !can_store("minio") {
        return;
    }
    let server = Servers::start("minio");
    put(&server, "s3://private/f", &content(1_000_000));
    let source = ObjectSource::open("s3://private/f", &settings(&server, &[])).unwrap();
    put(&server, "s3://private/f", &vec![1; 1_000_000]);
    let error = source.read_ranges(&[100_000..200_000]).unwrap_err();
    assert!(matches!(error, IoError::Changed { .. }), "{error}");
}

#[test]
fn who_may_not_read_is_told_what_the_server_said() {
    if !can_store("minio") {
        return;
    }
    let server = Servers::start("minio");
    for bucket in ["private", "public"] {
        put(&server, &format!("s3://{bucket}/f"), b"content");
    }
    let nobody = settings(&server, &[("anonymous", "true")]);
    let source = ObjectSource::open("s3://public/f", &nobody).unwrap();
    assert_eq!(source.read_ranges(&[0..7]).unwrap(), ["content"]);
    let error = ObjectSource::open("s3://private/f", &nobody).unwrap_err();
    assert_eq!(error.kind(), "permission-denied");
    assert!(
        error.to_string().contains("AccessDenied: Access Denied."),
        "{error}"
    );
    let wrong = settings(&server, &[("secret_access_key", "no-secret")]);
    let error = ObjectSource::open("s3://private/f", &wrong).unwrap_err();
    assert_eq!(error.kind(), "permission-denied");
    let text = with_causes(&error);
    assert!(
        text.contains("SignatureDoesNotMatch") && !text.contains("no-secret"),
        "{text}"
    );
    let shown = format!("{source:?} {wrong:?}");
    assert!(
        !shown.contains("no-secret") && !shown.contains(&server.keys.1),
        "{shown}"
    );
}

#[test]
fn what_is_not_there_is_told() {
    if !can_store("minio") {
        return;
    }
    let server = Servers::start("minio");
    let own = settings(&server, &[]);
    let error = ObjectSource::open("s3://private/a/none", &own).unwrap_err();
    assert_eq!(error.to_string(), "no such file: s3://private/a/none");
    let error = ObjectSource::open("s3://nowhere/none", &own).unwrap_err();
    assert_eq!(error.kind(), "file-not-found");
    assert!(
        error.to_string().ends_with("bucket nowhere does not exist"),
        "{error}"
    );
    let error = ObjectSource::open("s3://private/a/", &own).unwrap_err();
    assert!(matches!(error, IoError::NotAFile { .. }), "{error}");

    let place = format!("http://127.0.0.1:{}", free_port());
    let nobody = settings(&server, &[("endpoint", &place), ("most_retries", "1")]);
    let error = ObjectSource::open("s3://private/f", &nobody).unwrap_err();
    assert_eq!(error.kind(), "remote-failed");
    let text = with_causes(&error);
    assert!(
        text.contains("refused") && text.contains("after 1 retries"),
        "{text}"
    );
}

#[test]
fn folders_are_listed() {
    if !can_store("minio") {
        return;
    }
    let server = Servers::start("minio");
    for key in ["a/b.root", "a/c/d.root", "a/c/e.root", "ab"] {
        put(&server, &format!("s3://private/{key}"), key.as_bytes());
    }
    let own = settings(&server, &[]);
    let names = |url: &str| {
        let found = crate::list_folder(url, &own).unwrap();
        let entry = |entry: RemoteEntry| (entry.name, entry.is_folder, entry.size);
        found.into_iter().map(entry).collect::<Vec<_>>()
    };
    for url in ["s3://private/a", "s3://private/a/"] {
        let expected = [("b.root".into(), false, Some(8)), ("c".into(), true, None)];
        assert_eq!(names(url), expected);
    }
    assert_eq!(
        names("s3://private"),
        [("a".into(), true, None), ("ab".into(), false, Some(2))]
    );
    assert_eq!(names("s3://public/"), []);
    let error = crate::list_folder("s3://private/none/", &own).unwrap_err();
    assert!(matches!(error, IoError::NotFound { .. }), "{error}");
    let error = crate::list_folder("s3://nowhere/", &own).unwrap_err();
    assert!(matches!(error, IoError::NoBucket { .. }), "{error}");
}

#[test]
fn servers_with_tls_are_asked_if_their_authority_is_known() {
    if !can_store("minio") {
        return;
    }
    let server = Servers::start("minio-tls");
    let place = server.folder.join("cert.pem");
    let known = settings(&server, &[("authorities", place.to_str().unwrap())]);
    let all = content(500_000);
    let sink = ObjectSink::create("s3://private/f", false, &known).unwrap();
    sink.write_at(0, &all).unwrap();
    sink.commit().unwrap();
    let source = ObjectSource::open("s3://private/f", &known).unwrap();
    assert_eq!(source.read_ranges(&[0..500_000]).unwrap(), [all]);
    let error = ObjectSource::open("s3://private/f", &settings(&server, &[])).unwrap_err();
    assert!(
        with_causes(&error).contains("certificate"),
        "{}",
        with_causes(&error)
    );
}

/// A profile's credentials are sufficient, and missing credentials are reported without waiting.
#[test]
fn credentials_come_from_profiles_or_are_missed() {
    if !can_store("minio") {
        return;
    }
    let server = Servers::start("minio");
    put(&server, "s3://private/f", b"content");
    let (id, secret) = &server.keys;
    let text = format!(
        "[mine]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\nendpoint_url = {}\n",
        server.endpoint
    );
    let place = server.folder.join("credentials");
    std::fs::write(&place, text).unwrap();
    let nowhere = format!("http://127.0.0.1:{}", free_port());
    let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let mut environment = [
        ("AWS_SHARED_CREDENTIALS_FILE", place.to_str().unwrap()),
        ("AWS_PROFILE", "mine"),
        ("AWS_METADATA_ENDPOINT", &nowhere),
    ]
    .map(pair)
    .into();
    let address = Address::parse("s3://private/f").unwrap();
    let usual = Settings::of("s3://private/f");
    let options = Options::with(&address, &usual, &environment).unwrap();
    let store = object::store(&address, &options).unwrap();
    let (meta, held, _) = wait_for("", opened(&store, &address, &Arc::default(), false))
        .unwrap()
        .unwrap();
    assert_eq!((meta.size, &*held[0].1), (7, &b"content"[..]));

    environment.remove("AWS_PROFILE");
    let options = Options::with(&address, &usual, &environment).unwrap();
    let Err(error) = object::store(&address, &options) else {
        panic!("nobody has given credentials");
    };
    assert_eq!(error.kind(), "permission-denied");
    assert!(error.to_string().contains("anonymous=true"), "{error}");
}

/// A proxy that closes each of the first connections after some bytes; returns its port.
fn cutting(server: u16, cuts: usize, limit: u64) -> u16 {
    relay(server, move |passing| {
        if passing.is_answer && passing.connection < cuts {
            let left = usize::try_from(limit - passing.at).unwrap();
            if passing.bytes.len() >= left {
                passing.bytes.truncate(left);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })
}

#[test]
fn what_is_missing_of_a_body_that_breaks_is_asked_for_again() {
    if !can_store("minio") {
        return;
    }
    let server = Servers::start("minio");
    let all = content(4_000_000);
    put(&server, "s3://private/f", &all);
    // the first one belongs to opening, whose two requests are sent at once
    let port = cutting(server.port, 8, 1_000_000);
    let place = format!("http://127.0.0.1:{port}");
    // each with its own connection, because it is closed
    let own = settings(&server, &[("endpoint", &place), ("most_retries", "3")]);
    let source = ObjectSource::open("s3://private/f", &own).unwrap();
    let before = n_requests(&source);
    let found = source.read_ranges(&[70_000..3_700_000]).unwrap();
    assert_eq!(found, [&all[70_000..3_700_000]]);
    let requests = n_requests(&source) - before;
    assert!(
        (4..=8).contains(&requests),
        "a request for each megabyte: {requests}"
    );
}
