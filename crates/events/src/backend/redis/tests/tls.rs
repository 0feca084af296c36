//! What is wrong with TLS is said, and what to do.

use std::path::Path;
use std::process::Command;

use super::faults::refuses;
use super::*;

fn openssl(folder: &Path, words: &[&str]) {
    let done = Command::new("openssl")
        .args(words)
        .current_dir(folder)
        .output();
    let done = done.unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{words:?}: {said}");
}

/// A certificate that is its own authority, of a key in the folder, for a name.
fn certify(folder: &Path, file: &str, name: &str, is_ca: &str) {
    let (subject, names) = (format!("/CN={name}"), format!("subjectAltName=DNS:{name}"));
    let is_ca = format!("basicConstraints=critical,CA:{is_ca}");
    let words = [
        "req", "-x509", "-key", "key.pem", "-days", "2", "-out", file,
    ];
    let more = ["-subj", &subject, "-addext", &names, "-addext", &is_ca];
    openssl(folder, &[&words[..], &more[..]].concat());
}

/// One that was valid for a day of 2020.
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

/// The errors did not name the cause: they said "is no event store", "Connection reset by peer", or a term of the TLS library.
#[test]
fn errors_of_tls_name_the_cause_and_what_to_do() {
    let Some(servers) = start("redis-tls") else {
        return;
    };
    let Some(plain) = start("redis") else {
        return;
    };
    let folder = servers.folder.as_path();
    let at = |file: &str| folder.join(file).display().to_string();
    certify(folder, "other.pem", "other.example", "FALSE");
    certify(folder, "authority.pem", "localhost", "TRUE");
    certify_late(folder, "late.pem");
    let stranger = folder.join("stranger");
    std::fs::create_dir(&stranger).unwrap();
    openssl(&stranger, &["genrsa", "-out", "key.pem", "2048"]);
    certify(&stranger, "cert.pem", "localhost", "FALSE");

    let base = format!("rediss://localhost:{}/?connect_timeout=3", servers.port);
    let own = format!("&cert={}&key={}", at("cert.pem"), at("key.pem"));
    let admin = Settings::parse(&format!("{base}&ca={}{own}", at("cert.pem"))).unwrap();
    let config = super::super::tls::config(&admin).unwrap();
    let mut admin = Connection::open(&admin.seeds[0], &admin, Some(&config)).unwrap();
    let mut set = |name: &str, value: &str| {
        let said = ask(&mut admin, &["CONFIG", "SET", name, value]);
        assert_eq!(said, "OK", "{name} {value}");
    };
    let unreachable = |more: &str, words: &[&str]| {
        refuses(&format!("{base}{more}"), "store-unreachable", words);
    };
    let trusting = |file: &str| format!("&ca={}", at(file));

    // Who signed it is not known, or another was given.
    unreachable(
        "",
        &["invalid peer certificate", "unknown authority", "ca=FILE"],
    );
    unreachable(
        &trusting("stranger/cert.pem"),
        &["not signed by", "stranger/cert.pem", "ca=FILE"],
    );
    // It is for another name, has expired, or is an authority's.
    set("tls-cert-file", &at("other.pem"));
    unreachable(
        &trusting("other.pem"),
        &["other.example", "localhost", "subjectAltName"],
    );
    set("tls-cert-file", &at("late.pem"));
    unreachable(
        &trusting("late.pem"),
        &["has expired: renew it on the server"],
    );
    set("tls-cert-file", &at("authority.pem"));
    unreachable(
        &trusting("authority.pem"),
        &["that of an authority", "CA:FALSE"],
    );
    set("tls-cert-file", &at("cert.pem"));
    // It wants to see ours, and does not trust it.
    set("tls-auth-clients", "yes");
    let ca = trusting("cert.pem");
    unreachable(
        &ca,
        &["requires a client certificate", "cert=FILE and key=FILE"],
    );
    let strange = format!("&cert={0}/cert.pem&key={0}/key.pem", at("stranger"));
    unreachable(
        &format!("{ca}{strange}"),
        &["rejects the client certificate", "tls-ca-cert-file"],
    );
    RedisBackend::connect(&format!("{base}{ca}{own}")).unwrap();
    set("tls-auth-clients", "no");
    RedisBackend::connect(&format!("{base}{ca}")).unwrap();
    // One of the two does not speak TLS.
    let without = format!("redis://localhost:{}/?connect_timeout=3", servers.port);
    refuses(&without, "store-unreachable", &["TLS", "rediss://"]);
    let with = format!("rediss://localhost:{}/?connect_timeout=2{ca}", plain.port);
    refuses(&with, "store-unreachable", &["TLS", "redis://"]);
    // Its files are not there, or no certificates.
    for (more, words) in [
        ("&ca=nowhere.pem".to_owned(), ["nowhere.pem", "TLS"]),
        (trusting("key.pem"), ["key.pem", "no certificates in"]),
        (
            format!("{ca}&cert={}", at("cert.pem")),
            ["cert", "key together"],
        ),
    ] {
        refuses(&format!("{base}{more}"), "usage", &words);
    }
}
