//! TLS errors name the cause and what to do; against real servers, skipped if there are none.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use femtobarn_redis::{Address, Client, Connection, Options, RedisError};
use femtobarn_testkit::{Servers, can_run, can_start_redis};

/// Options to connect to a server by TLS, trusting the certificates of a file.
fn by_tls(port: u16, ca: Option<&Path>) -> Options {
    let seed = Address::parse(&format!("localhost:{port}")).unwrap();
    Options {
        has_tls: true,
        connect_timeout: Duration::from_secs(3),
        ca: ca.map(Path::to_owned),
        ..Options::new("rediss://localhost/", vec![seed])
    }
}

fn with_identity(options: Options, cert: &Path, key: &Path) -> Options {
    Options {
        identity: (Some(cert.to_owned()), Some(key.to_owned())),
        ..options
    }
}

fn fails(options: Options, words: &[&str]) -> RedisError {
    let started = Instant::now();
    let error = Client::connect(options, Arc::new(())).unwrap_err();
    for word in words {
        assert!(error.to_string().contains(word), "{error} has no {word:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(8));
    error
}

fn is_unreachable(options: Options, words: &[&str]) {
    let error = fails(options, words);
    assert!(matches!(error, RedisError::Unreachable { .. }), "{error}");
}

/// Sends a server a command that must succeed.
fn tell(connection: &mut Connection, words: &[&str]) {
    let args: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
    let until = Instant::now() + Duration::from_secs(60);
    let said = connection.ask(&args, until, |reply| reply.text());
    assert_eq!(said.unwrap(), "OK", "{words:?}");
}

fn openssl(folder: &Path, words: &[&str]) {
    let done = Command::new("openssl")
        .args(words)
        .current_dir(folder)
        .output();
    let done = done.unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{words:?}: {said}");
}

/// Makes a self-signed certificate for a name and the key in the directory.
fn certify(folder: &Path, file: &str, name: &str, is_ca: &str) {
    let (subject, names) = (format!("/CN={name}"), format!("subjectAltName=DNS:{name}"));
    let is_ca = format!("basicConstraints=critical,CA:{is_ca}");
    let words = [
        "req", "-x509", "-key", "key.pem", "-days", "2", "-out", file,
    ];
    let more = ["-subj", &subject, "-addext", &names, "-addext", &is_ca];
    openssl(folder, &[&words[..], &more[..]].concat());
}

/// Makes a certificate that was valid for one day in 2020.
fn certify_late(folder: &Path, file: &str) {
    let config = "[ca]\ndefault_ca=here\n[here]\ndatabase=index\nnew_certs_dir=.\nrand_serial=yes\ndefault_md=sha256\n\
                  policy=policy\nx509_extensions=more\n[policy]\ncommonName=supplied\n\
                  [more]\nsubjectAltName=DNS:localhost\nbasicConstraints=critical,CA:FALSE\n";
    std::fs::write(folder.join("ca.conf"), config).unwrap();
    std::fs::write(folder.join("index"), "").unwrap();
    let subject = ["-subj", "/CN=localhost", "-key", "key.pem"];
    openssl(
        folder,
        &[&["req", "-new", "-out", "late.csr"][..], &subject[..]].concat(),
    );
    let from = [
        "-startdate",
        "20200101000000Z",
        "-enddate",
        "20200102000000Z",
    ];
    let words = [
        "ca",
        "-selfsign",
        "-batch",
        "-notext",
        "-config",
        "ca.conf",
        "-in",
        "late.csr",
    ];
    let files = ["-keyfile", "key.pem", "-out", file];
    openssl(folder, &[&words[..], &files[..], &from[..]].concat());
}

/// Errors did not name the cause: they were "is no event store", "Connection reset by peer", or an internal term of the
/// TLS library.
#[test]
fn errors_of_tls_name_the_cause_and_what_to_do() {
    if !can_start_redis() || !can_run("openssl", "openssl") {
        return;
    }
    let (servers, plain) = (Servers::start("redis-tls"), Servers::start("redis"));
    let folder = servers.folder.as_path();
    let at = |file: &str| -> PathBuf { folder.join(file) };
    certify(folder, "other.pem", "other.example", "FALSE");
    certify(folder, "authority.pem", "localhost", "TRUE");
    certify_late(folder, "late.pem");
    let stranger = at("stranger");
    std::fs::create_dir(&stranger).unwrap();
    openssl(&stranger, &["genrsa", "-out", "key.pem", "2048"]);
    certify(&stranger, "cert.pem", "localhost", "FALSE");

    let trusting = |file: &str| by_tls(servers.port, Some(&at(file)));
    let own = || with_identity(trusting("cert.pem"), &at("cert.pem"), &at("key.pem"));
    let mut admin = Connection::open(&own().seeds[0], &own()).unwrap();
    let mut set = |name: &str, value: &str| tell(&mut admin, &["CONFIG", "SET", name, value]);
    let path = |file: &str| at(file).display().to_string();

    // signed by an unknown authority, or by another one than the trusted
    is_unreachable(
        by_tls(servers.port, None),
        &["invalid peer certificate", "unknown authority", "ca=FILE"],
    );
    is_unreachable(
        trusting("stranger/cert.pem"),
        &["not signed by", "stranger/cert.pem", "ca=FILE"],
    );
    // for another name, expired, or the certificate of an authority
    set("tls-cert-file", &path("other.pem"));
    is_unreachable(
        trusting("other.pem"),
        &["other.example", "localhost", "subjectAltName"],
    );
    set("tls-cert-file", &path("late.pem"));
    is_unreachable(
        trusting("late.pem"),
        &["has expired: renew it on the server"],
    );
    set("tls-cert-file", &path("authority.pem"));
    is_unreachable(
        trusting("authority.pem"),
        &["that of an authority", "CA:FALSE"],
    );
    set("tls-cert-file", &path("cert.pem"));
    // a client certificate is required, and then not trusted
    set("tls-auth-clients", "yes");
    is_unreachable(
        trusting("cert.pem"),
        &["requires a client certificate", "cert=FILE and key=FILE"],
    );
    let (cert, key) = (stranger.join("cert.pem"), stranger.join("key.pem"));
    is_unreachable(
        with_identity(trusting("cert.pem"), &cert, &key),
        &["rejects the client certificate", "tls-ca-cert-file"],
    );
    Client::connect(own(), Arc::new(())).unwrap();
    set("tls-auth-clients", "no");
    Client::connect(trusting("cert.pem"), Arc::new(())).unwrap();
    // only one side uses TLS
    let without = Options {
        has_tls: false,
        ..trusting("cert.pem")
    };
    is_unreachable(without, &["TLS", "rediss://"]);
    is_unreachable(
        by_tls(plain.port, Some(&at("cert.pem"))),
        &["TLS", "redis://"],
    );
    // missing files, or files without certificates
    let alone = Options {
        identity: (Some(at("cert.pem")), None),
        ..trusting("cert.pem")
    };
    for (options, words) in [
        (
            by_tls(servers.port, Some(Path::new("nowhere.pem"))),
            ["nowhere.pem", "TLS"],
        ),
        (trusting("key.pem"), ["key.pem", "no certificates in"]),
        (alone, ["cert and key", "together"]),
    ] {
        let error = fails(options, &words);
        assert!(matches!(error, RedisError::Tls { .. }), "{error}");
    }
}
