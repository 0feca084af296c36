//! Real servers: nginx and XRootD.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use femtobarn_testkit::{Servers, can_start, can_start_nginx, content};

use crate::HeldSource;

use super::*;
use crate::with_causes;

/// The requests to nginx since `from`, once there are `count`.
fn asked(server: &Servers, from: usize, count: usize) -> Vec<String> {
    for _ in 0..500 {
        let log = std::fs::read_to_string(server.folder.join("access.log")).unwrap_or_default();
        let lines: Vec<String> = log.lines().skip(from).map(str::to_owned).collect();
        if lines.len() >= count {
            return lines;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let log = std::fs::read_to_string(server.folder.join("access.log"));
    panic!("nginx was asked less than {count} times: {log:?}");
}

fn conforms(server: &Servers, url: impl Fn(&str) -> String, given: &[(&str, &str)], ends: Ends) {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    crate::tests::conformance::check(&|content| {
        let name = format!("f{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        server.put(&name, &content);
        let url = url(&name);
        HttpSource::open_ends(&url, &Settings::with(&url, given).unwrap(), ends).unwrap()
    });
}

#[test]
fn files_of_nginx_are_sources() {
    if !can_start_nginx() {
        return;
    }
    let server = Servers::start("nginx");
    conforms(&server, |name| server.http_url(name), &[], SMALL);
    conforms(&server, |name| server.http_url(name), &[], ENDS);
    for folder in ["few", "whole", "dav"] {
        let url = |name: &str| server.http_url(&format!("{folder}/{name}"));
        conforms(&server, url, &[], SMALL);
    }
    let log = asked(&server, 0, 1);
    assert!(log.iter().all(|line| line.starts_with("GET ")), "{log:?}");
}

#[test]
fn files_under_tls_are_sources() {
    if !can_start_nginx() {
        return;
    }
    let server = Servers::start("nginx-tls");
    let authority = server.folder.join("cert.pem");
    let given = [("authorities", authority.to_str().unwrap())];
    conforms(&server, |name| server.https_url(name), &given, SMALL);
    let davs = |name: &str| server.https_url(name).replace("https", "davs");
    conforms(&server, davs, &given, SMALL);

    let url = server.https_url("f0");
    let error = HttpSource::open(&url, &Settings::default()).unwrap_err();
    assert_eq!(error.kind(), "remote-failed");
    assert!(
        with_causes(&error).contains("no TLS: invalid peer certificate")
            && with_causes(&error).contains("set authorities"),
        "{}",
        with_causes(&error)
    );
    assert_eq!(
        with_causes(&error).matches("no TLS").count(),
        1,
        "it does not pass"
    );
}

#[test]
fn files_of_xrootd_by_http_are_sources() {
    if !can_start() {
        return;
    }
    let server = Servers::start("xrdhttp");
    conforms(&server, |name| server.http_url(name), &[], SMALL);
    conforms(&server, |name| server.http_url(name), &[], ENDS);
}

#[test]
fn opening_costs_one_round_trip() {
    if !can_start_nginx() {
        return;
    }
    let server = Servers::start("nginx");
    let content = content(1 << 20);
    server.put("f", &content);
    let url = server.http_url("f");
    let source = HttpSource::open(&url, &Settings::default()).unwrap();
    let held = HeldSource::with_ends(source.clone(), ENDS.head, ENDS.tail).unwrap();
    assert_eq!(held.read_ranges(&[5..9]).unwrap()[0], content[5..9]);
    assert!(source.held.lock().unwrap().is_empty(), "it is held once");
    assert_eq!(
        source.read_ranges(&[400_000..400_001]).unwrap()[0],
        content[400_000..400_001]
    );
    let etag = source.meta().etag.clone().unwrap().replace('"', "\\x22");
    let mut log = asked(&server, 0, 3);
    log[..2].sort();
    assert_eq!(
        log,
        [
            "GET /f 206 \"bytes=-262144\" \"-\" \"-\"".to_owned(),
            "GET /f 206 \"bytes=0-65535\" \"-\" \"-\"".to_owned(),
            format!("GET /f 206 \"bytes=400000-400000\" \"{etag}\" \"-\""),
        ]
    );
    assert!(source.meta().modified.is_some());
}

#[test]
fn many_ranges_share_requests_where_servers_do_that() {
    if !can_start_nginx() {
        return;
    }
    let server = Servers::start("nginx");
    let content = content(1 << 20);
    server.put("f", &content);
    let ranges: Vec<Range<u64>> = (0..300).map(|i| i * 3000..i * 3000 + 100).collect();
    // the numbers of requests of the first and the second read
    for (folder, first, second) in [("", 1 + 15 + 2, 3), ("few/", 1 + 300, 300)] {
        let url = server.http_url(&format!("{folder}f"));
        // knowledge about the server is shared by sources with the same settings
        let settings = Settings::with(&url, &[("longest_wait", &first.to_string())]).unwrap();
        let source = HttpSource::open_ends(&url, &settings, SMALL).unwrap();
        for requests in [first, second] {
            // a request is logged when it has ended
            std::thread::sleep(Duration::from_millis(100));
            let before = asked(&server, 0, 0).len();
            let found = source.read_ranges(&ranges).unwrap();
            for (range, found) in ranges.iter().zip(found) {
                assert_eq!(found, part(&content, range));
            }
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(asked(&server, before, requests).len(), requests, "{folder}");
        }
    }
}

#[test]
fn xrootd_gives_many_ranges_by_one_request() {
    if !can_start() {
        return;
    }
    let server = Servers::start("xrdhttp");
    let content = content(1 << 20);
    server.put("f", &content);
    let url = server.http_url("f");
    let source = HttpSource::open(&url, &Settings::of(&url)).unwrap();
    let client = Client::shared(&source.limits, &url).unwrap();
    let host = client.host(&source.target.place());
    assert_eq!((host.suffixes.get(), host.many.get()), (Some(false), None));
    for ranges in [20, 1000] {
        let places = (0..ranges).map(|i| 70_000 + i * 700);
        let ranges: Vec<Range<u64>> = places.map(|place| place..place + 100).collect();
        let found = source.read_ranges(&ranges).unwrap();
        for (range, found) in ranges.iter().zip(found) {
            assert_eq!(found, part(&content, range));
        }
        assert_eq!(host.many.get(), Some(true));
    }
}

#[test]
fn redirects_are_followed_and_remembered() {
    if !can_start_nginx() {
        return;
    }
    let server = Servers::start("nginx");
    let content = content(10_000);
    server.put("f", &content);
    let url = server.http_url("moved/signed/f?sig=a%2Fb%3D");
    let source = HttpSource::open_ends(&url, &Settings::of(&url), SMALL).unwrap();
    assert_eq!(source.url(), server.http_url("moved/signed/f"));
    assert_eq!(source.read_ranges(&[50..60]).unwrap()[0], content[50..60]);
    std::thread::sleep(Duration::from_millis(100));
    // the end is requested at the same time as the beginning, or at the redirected URL
    let log = asked(&server, 0, 4);
    let moved = log
        .iter()
        .filter(|line| line.starts_with("GET /moved/signed/f?sig=a%2Fb%3D 302"));
    assert!(
        (1..=2).contains(&moved.count()) && log.len() <= 5,
        "{log:?}"
    );
    let last = log.last().unwrap();
    assert!(
        last.starts_with("GET /signed/f?sig=a%2Fb%3D 206 \"bytes=50-59\""),
        "{log:?}"
    );

    let none = Settings::with(&url, &[("most_redirects", "0")]).unwrap();
    let error = HttpSource::open(&url, &none).unwrap_err();
    assert!(
        with_causes(&error).contains("more than 0 redirects"),
        "{}",
        with_causes(&error)
    );
}

#[test]
fn what_cannot_be_read_is_told_as_of_other_files() {
    if !can_start_nginx() {
        return;
    }
    let server = Servers::start("nginx");
    std::fs::create_dir(server.data[0].join("folder")).unwrap();
    server.put("f", b"content");
    for (name, kind) in [
        ("none?secret", "file-not-found"),
        ("folder", "not-a-file"),
        ("folder/?secret", "not-a-file"),
        ("signed/f?sig=secret", "permission-denied"),
        ("token/f?secret", "permission-denied"),
        ("private/f?secret", "permission-denied"),
    ] {
        let error = HttpSource::open(&server.http_url(name), &Settings::default()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(
            !with_causes(&error).contains("secret"),
            "{}",
            with_causes(&error)
        );
    }
    let free = femtobarn_testkit::free_port();
    let url = format!("http://127.0.0.1:{free}/f");
    let error = HttpSource::open(&url, &Settings::default()).unwrap_err();
    let said = with_causes(&error);
    assert_eq!(
        (
            error.kind(),
            said.matches("refused (os error 111) (2 times)").count()
        ),
        ("remote-failed", 1),
        "{said}"
    );
    for url in ["http://", "http://h:x/f"] {
        assert_eq!(
            HttpSource::open(url, &Settings::default())
                .unwrap_err()
                .kind(),
            "usage"
        );
    }
}

#[test]
fn large_files_of_servers_that_give_no_parts_are_told() {
    if !can_start_nginx() {
        return;
    }
    let server = Servers::start("nginx");
    server.put("f", &vec![1; (16 << 20) + 1]);
    let error = HttpSource::open(&server.http_url("whole/f"), &Settings::default()).unwrap_err();
    let said = with_causes(&error);
    assert_eq!(error.kind(), "remote-failed");
    assert!(
        said.contains("16777217 bytes): download it first"),
        "{said}"
    );
}

#[test]
fn a_file_that_was_replaced_is_told() {
    if !can_start_nginx() {
        return;
    }
    let server = Servers::start("nginx");
    server.put("f", &content(10_000));
    let source = HttpSource::open_ends(&server.http_url("f"), &Settings::default(), SMALL).unwrap();
    source.read_ranges(&[100..200]).unwrap();
    let path = server.data[0].join("f");
    std::fs::write(&path, vec![0; 10_000]).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(1000))
        .unwrap();
    let error = source.read_ranges(&[100..200]).unwrap_err();
    assert_eq!(error.kind(), "file-changed", "{error}");
    let many: Vec<Range<u64>> = (0..100).map(|i| i * 50 + 20..i * 50 + 30).collect();
    assert_eq!(
        source.read_ranges(&many).unwrap_err().kind(),
        "file-changed"
    );
    file.set_len(10).unwrap();
    assert_eq!(
        source.read_ranges(&[100..200]).unwrap_err().kind(),
        "file-changed"
    );
}

#[test]
fn credentials_are_sent_where_they_belong() {
    if !can_start_nginx() {
        return;
    }
    let server = Servers::start("nginx");
    server.put("f", b"content");
    let open =
        |url: &str, given: &[(&str, &str)]| HttpSource::open(url, &Settings::with(url, given)?);
    let url = server.http_url("token/f");
    let source = open(&url, &[("bearer_token", "good")]).unwrap();
    assert_eq!(source.read_ranges(&[0..3]).unwrap()[0], "con");
    let error = open(&url, &[("bearer_token", "bad")]).unwrap_err();
    assert_eq!(error.kind(), "permission-denied");
    assert!(error.to_string().contains("401 Unauthorized"), "{error}");
    let with_login = |login: &str| {
        server
            .http_url("private/f")
            .replace("://", &format!("://{login}@"))
    };
    let source = open(&with_login("me:secret"), &[]).unwrap();
    assert_eq!(source.url(), with_login("me"));
    assert_eq!(source.read_ranges(&[0..7]).unwrap()[0], "content");
    assert!(!format!("{source:?}").contains("secret"));
    assert_eq!(
        open(&with_login("me:wrong"), &[]).unwrap_err().kind(),
        "permission-denied"
    );

    // another port is another server, which gets no credentials
    let other = Servers::start("nginx");
    other.put("f", b"content");
    let moved = super::liars::redirecting(&other.http_url("f"));
    for (login, given) in [("", vec![("bearer_token", "good")]), ("me:secret@", vec![])] {
        let url = format!("http://{login}127.0.0.1:{}/f", moved.port);
        open(&url, &given).unwrap();
        assert!(
            moved
                .asked()
                .iter()
                .all(|head| head.to_lowercase().contains("\r\nauthorization: "))
        );
        moved.forget();
    }
    for line in asked(&other, 0, 4) {
        assert!(line.ends_with("\"-\""), "{line}");
    }
}

#[test]
fn folders_are_listed() {
    let entry = |name: &str, is_folder, size| (name.to_owned(), is_folder, size);
    let sized = [
        entry("a b%2.root", false, Some(7)),
        entry("a&b.root", false, Some(0)),
        entry("sub", true, None),
    ];
    let check = |server: &Servers, folder: &str, expected: &[(String, bool, Option<u64>)]| {
        let url = server.http_url(folder);
        let found = crate::list_folder(&url, &Settings::of(&url)).unwrap();
        let found: Vec<_> = found
            .into_iter()
            .map(|e| (e.name, e.is_folder, e.size))
            .collect();
        assert_eq!(found, expected, "{url}");
    };
    let fill = |server: &Servers| {
        server.put("a&b.root", b"");
        server.put("a b%2.root", b"content");
        std::fs::create_dir_all(server.data[0].join("sub/empty")).unwrap();
        server.put("sub/c", b"");
    };
    if can_start_nginx() {
        let server = Servers::start("nginx");
        fill(&server);
        check(&server, "dav/", &sized);
        check(&server, "dav", &sized);
        check(&server, "dav/sub/empty/", &[]);
        for (folder, kind) in [
            ("dav/none/", "file-not-found"),
            ("token/", "permission-denied"),
            ("", "remote-failed"),
        ] {
            let url = server.http_url(folder);
            assert_eq!(
                crate::list_folder(&url, &Settings::of(&url))
                    .unwrap_err()
                    .kind(),
                kind,
                "{url}"
            );
        }
    }
    if can_start() {
        let server = Servers::start("xrdhttp");
        fill(&server);
        check(&server, "", &sized);
        check(&server, "sub/empty", &[]);
        let url = server.http_url("sub/c");
        let error = crate::list_folder(&url, &Settings::of(&url)).unwrap_err();
        assert_eq!(
            error.kind(),
            "remote-failed",
            "it is a file: {}",
            with_causes(&error)
        );
    }
}
