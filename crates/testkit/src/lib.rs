//! Shared parts of the tests of several crates: real servers, which `scripts/servers.py` starts, corpora of fuzzing, and
//! damaged files. For tests only.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::missing_panics_doc,
    reason = "it is for tests"
)]

use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

mod corpus;
mod fork;
mod mutate;
mod objects;
mod relay;
mod ways;

pub use corpus::{corpus_has, read_corpus};
pub use fork::in_a_fork;
pub use mutate::{Mutator, edited};
pub use objects::inflated;
pub use relay::{Passing, relay};
pub use ways::Ways;

/// Whether XRootD servers can be started. If not, prints what is missing, or fails if tests may not be skipped.
pub fn can_start() -> bool {
    is_there("xrootd", "xrootd-server")
}

/// Whether nginx can be started. If not, prints what is missing, or fails if tests may not be skipped.
pub fn can_start_nginx() -> bool {
    is_there("nginx", "nginx-light libnginx-mod-http-dav-ext")
}

/// Whether Redis can be started. If not, prints what is missing, or fails if tests may not be skipped.
pub fn can_start_redis() -> bool {
    is_there("redis-server", "redis-server")
}

/// Whether the test may create networks that it can cut, which requires root. If not, prints so, or fails if tests may
/// not be skipped.
pub fn can_cut() -> bool {
    let name = format!("fb-probe-{}", std::process::id());
    let ip = |verb: &str| {
        let done = Command::new("ip").args(["netns", verb, &name]).output();
        done.is_ok_and(|done| done.status.success())
    };
    (ip("add") && ip("del"))
        || is_missing(
            "right to make network namespaces",
            "be root, with Debian's iproute2",
        )
}

/// Whether a server's program is there, and Python, which starts it.
fn is_there(program: &str, packages: &str) -> bool {
    can_run("python3", "python3") && can_run(program, packages)
}

/// Whether a program is there. If not, prints what is missing, or fails if tests may not be skipped.
pub fn can_run(program: &str, packages: &str) -> bool {
    let found = Command::new(program)
        .arg("-v")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    found.is_ok() || is_missing(program, &format!("Debian: apt-get install {packages}"))
}

/// Whether an object store (`minio`, `azurite-blob` or `fake-gcs-server`) or `toxiproxy-server` can be started. If not,
/// prints what is missing, or fails if tests may not be skipped.
pub fn can_store(program: &str) -> bool {
    let found = Command::new("python3")
        .arg(script("installed.py"))
        .arg(program)
        .stdout(Stdio::null())
        .status();
    found.is_ok_and(|status| status.success())
        || is_missing(program, "scripts/setup_stores.sh makes it")
}

fn script(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts");
    folder.join(name)
}

/// Prints that a program is missing; returns false.
fn is_missing(program: &str, how: &str) -> bool {
    let message = format!("there is no {program} ({how})");
    assert!(
        std::env::var_os("FEMTOBARN_REQUIRE_ALL").is_none(),
        "{message}"
    );
    eprintln!("skipped: {message}");
    false
}

/// A port that is free at the moment. The system does not give it to connections, or to whoever asks for any port.
pub fn free_port() -> u16 {
    loop {
        let random = RandomState::new().hash_one(0);
        let port = 10_000 + u16::try_from(random % 22_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Servers that end with the test.
#[derive(Debug)]
pub struct Servers {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// The port to connect to.
    pub port: u16,
    /// The directories with the files of each server.
    pub data: Vec<PathBuf>,
    /// The directory with everything that the servers have.
    pub folder: PathBuf,
    /// The ports of the servers that hold files.
    pub servers: Vec<u16>,
    /// The endpoint of an object store, or the addresses of a cluster.
    pub endpoint: String,
    /// The access key of an object store, and its secret.
    pub keys: (String, String),
}

impl Servers {
    /// Starts servers of a kind that `scripts/servers.py` knows.
    pub fn start(kind: &str) -> Self {
        let mut child = Command::new("python3")
            .arg(script("servers.py"))
            .arg(kind)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let about: serde_json::Value = serde_json::from_str(&line).expect("a server that is up");
        let port = |value: &serde_json::Value| u16::try_from(value.as_u64().unwrap()).unwrap();
        let path = |value: &serde_json::Value| PathBuf::from(value.as_str().unwrap());
        let text = |name: &str| about[name].as_str().unwrap_or_default().to_owned();
        Self {
            input: child.stdin.take(),
            output,
            port: port(&about["port"]),
            data: about["data"].as_array().unwrap().iter().map(path).collect(),
            folder: path(&about["folder"]),
            servers: about["servers"]
                .as_array()
                .unwrap()
                .iter()
                .map(port)
                .collect(),
            endpoint: text("endpoint"),
            keys: (text("access_key_id"), text("secret_access_key")),
            child,
        }
    }

    fn tell(&mut self, command: &str) {
        writeln!(self.input.as_mut().unwrap(), "{command}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n", "{command}");
    }

    /// Kills the servers, as in a crash.
    pub fn kill(&mut self) {
        self.tell("kill");
    }

    /// Starts the servers again on the same port.
    pub fn restart(&mut self) {
        self.tell("restart");
    }

    /// Kills one server, as in a crash.
    pub fn kill_one(&mut self, server: usize) {
        self.tell(&format!("kill_server {server}"));
    }

    /// Stops the process of one server, while its connections stay open.
    pub fn stop_one(&mut self, server: usize) {
        self.tell(&format!("stop_server {server}"));
    }

    /// Continues the process of a stopped server.
    pub fn continue_one(&mut self, server: usize) {
        self.tell(&format!("continue_server {server}"));
    }

    /// Starts a killed server again with its data.
    pub fn start_one(&mut self, server: usize) {
        self.tell(&format!("start_server {server}"));
    }

    /// Cuts the network between one server and the others; clients still reach it.
    pub fn cut_one(&mut self, server: usize) {
        self.tell(&format!("cut_server {server}"));
    }

    /// Restores the network of a server.
    pub fn heal_one(&mut self, server: usize) {
        self.tell(&format!("heal_server {server}"));
    }

    /// Stores an object; its name is bucket, slash and key.
    pub fn store(&mut self, name: &str, content: &[u8]) {
        let place = self.folder.join("content");
        std::fs::write(&place, content).unwrap();
        self.tell(&format!("put {name} {}", place.display()));
    }

    /// The URL of a file.
    pub fn url(&self, path: &str) -> String {
        format!("root://127.0.0.1:{}//{path}", self.port)
    }

    /// The HTTP URL of a file.
    pub fn http_url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// The HTTPS URL of a file.
    pub fn https_url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}/{path}", self.port)
    }

    /// Writes a file to one server.
    pub fn put_on(&self, server: usize, name: &str, content: &[u8]) {
        std::fs::write(self.data[server].join(name), content).unwrap();
    }

    /// Writes a file to the first server.
    pub fn put(&self, name: &str, content: &[u8]) {
        self.put_on(0, name, content);
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // the process ends when its input is closed
        self.input = None;
        let _ = self.child.wait();
    }
}

/// Bytes without short periods.
pub fn content(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u8::try_from(state >> 56).unwrap()
    };
    std::iter::repeat_with(next).take(size).collect()
}
