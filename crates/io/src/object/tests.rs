//! Object stores other than S3; common behaviour is tested with S3.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use femtobarn_testkit::{Servers, can_store, content};

use super::testing::settings;
use crate::{ByteSink, ByteSource, IoError, ObjectSink, ObjectSource, Settings, list_folder};

const PART: usize = 5 << 20;

fn put(url: &str, replaces: bool, content: &[u8], settings: &Settings) -> Result<(), IoError> {
    let sink = ObjectSink::create(url, replaces, settings)?;
    // backwards, so that the first part waits
    for at in (0..content.len()).step_by(1 << 20).rev() {
        let end = content.len().min(at + (1 << 20));
        sink.write_at(at as u64, &content[at..end])?;
    }
    sink.commit()
}

fn reads_and_writes(scheme: &str, own: &Settings) {
    let number = AtomicUsize::new(0);
    crate::tests::conformance::check(&|content| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        let url = format!("{scheme}://private/folder/f {number}.root");
        put(&url, false, &content, own).unwrap();
        ObjectSource::open(&url, own).unwrap()
    });
    let url = format!("{scheme}://private/large");
    let all = content(2 * PART + 12_345);
    put(&url, false, &all, own).unwrap();
    let source = ObjectSource::open(&url, own).unwrap();
    assert!(source.read_ranges(&[0..all.len() as u64]).unwrap()[0] == all);
    for content in [&all[..], b"small"] {
        let error = put(&url, false, content, own).unwrap_err();
        assert!(matches!(error, IoError::Exists { .. }), "{error}");
    }
    put(&url, true, &vec![1; all.len()], own).unwrap();
    let error = source.read_ranges(&[1_000_000..2_000_000]).unwrap_err();
    assert!(matches!(error, IoError::Changed { .. }), "{error}");
    lists(scheme, own);
}

fn lists(scheme: &str, own: &Settings) {
    let found = list_folder(&format!("{scheme}://private/"), own).unwrap();
    let names: Vec<_> = found
        .iter()
        .map(|entry| (&*entry.name, entry.is_folder))
        .collect();
    assert_eq!(names, [("folder", true), ("large", false)]);
    let error = list_folder(&format!("{scheme}://private/none/"), own).unwrap_err();
    assert!(matches!(error, IoError::NotFound { .. }), "{error}");
    let error = ObjectSource::open(&format!("{scheme}://private/none"), own).unwrap_err();
    assert!(matches!(error, IoError::NotFound { .. }), "{error}");
}

#[test]
fn objects_of_azure_are_read_and_written() {
    if !can_store("azurite-blob") {
        return;
    }
    let server = Servers::start("azurite");
    let own = settings(&server, &[("part_size", "5 MiB")]);
    reads_and_writes("az", &own);
    let error = ObjectSource::open("abfs://nowhere/f", &own).unwrap_err();
    assert_eq!(error.kind(), "file-not-found");

    put("az://public/f", true, b"content", &own).unwrap();
    let nobody = settings(&server, &[("secret_access_key", ""), ("anonymous", "true")]);
    let source = ObjectSource::open("az://public/f", &nobody).unwrap();
    assert_eq!(source.read_ranges(&[0..7]).unwrap(), ["content"]);
    let error = ObjectSource::open("az://private/large", &nobody).unwrap_err();
    // Azure does not reveal whether a forbidden object exists
    assert!(
        ["permission-denied", "file-not-found"].contains(&error.kind()),
        "{error}"
    );
    let wrong = settings(&server, &[("secret_access_key", "bm8tc2VjcmV0")]);
    let error = ObjectSource::open("az://private/large", &wrong).unwrap_err();
    assert_eq!(error.kind(), "permission-denied", "{error}");
}

/// The test server supports neither Google's own upload protocol nor conditions; replaced objects are detected by their
/// answers.
#[test]
fn objects_of_google_are_read() {
    if !can_store("fake-gcs-server") {
        return;
    }
    let server = RefCell::new(Servers::start("fake-gcs"));
    let own = settings(&server.borrow(), &[("anonymous", "true")]);
    let number = AtomicUsize::new(0);
    crate::tests::conformance::check(&|content| {
        let name = format!("folder/f{}.root", number.fetch_add(1, Ordering::Relaxed));
        server
            .borrow_mut()
            .store(&format!("private/{name}"), &content);
        ObjectSource::open(&format!("gs://private/{name}"), &own).unwrap()
    });
    let mut server = server.into_inner();
    server.store("private/large", &content(1_000_000));
    let source = ObjectSource::open("gcs://private/large", &own).unwrap();
    let found = source.read_ranges(&[100_000..600_000]).unwrap();
    assert_eq!(found, [&content(600_000)[100_000..]]);
    server.store("private/large", &vec![1; 1_000_000]);
    let error = source.read_ranges(&[100_000..600_000]).unwrap_err();
    assert!(matches!(error, IoError::Changed { .. }), "{error}");
    lists("gs", &own);

    // the account is taken from the settings; a refusal of the server is reported
    let account =
        r#"{"client_email": "", "private_key": "", "private_key_id": "", "disable_oauth": true}"#;
    let own = settings(&server, &[("secret_access_key", account)]);
    let error = put("gs://private/small", true, b"small", &own).unwrap_err();
    assert_eq!(error.kind(), "create-failed", "{error}");
}
