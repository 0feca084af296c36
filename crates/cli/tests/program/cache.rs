//! The cache of remote files, and `fb cache`.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use femtobarn_testkit::{Servers, can_start};
use serde_json::Value;

use crate::support::{DIMUON, command, document, failure, fb, finish, good, root};

/// A server with a file that is not new, and a cache directory.
struct Trial {
    server: Servers,
    folder: tempfile::TempDir,
}

impl Trial {
    fn start() -> Option<Self> {
        if !can_start() {
            return None;
        }
        let server = Servers::start("xrootd");
        server.put("a.root", &fs::read(root().join(DIMUON)).unwrap());
        let file = fs::File::options()
            .write(true)
            .open(server.data[0].join("a.root"))
            .unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(1000))
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        Some(Self { server, folder })
    }

    fn dir(&self) -> String {
        self.folder
            .path()
            .join("cache")
            .to_string_lossy()
            .into_owned()
    }

    /// Prints the first entries by way of the cache; returns them, and what was said of the cache.
    fn head(&self, more: &[&str]) -> (String, String) {
        let (url, cache) = (
            self.server.url("a.root"),
            format!("cache={}:10MB", self.dir()),
        );
        let mut command = command(&["--stats", "--set", &cache]);
        command.args(more).args(["head", &url, "-n", "3"]);
        let done = finish(command);
        assert_eq!(done.code, 0, "{}", done.err);
        let line = done
            .err
            .lines()
            .find(|line| line.contains(" from the cache"));
        (done.out, line.unwrap_or_default().to_owned())
    }

    fn about(&self, verb: &[&str]) -> Value {
        document(&[&["cache"], verb, &["--dir", &self.dir()]].concat())
    }

    fn data(&self) -> Vec<PathBuf> {
        let mut all = vec![PathBuf::from(self.dir())];
        let mut found = Vec::new();
        while let Some(folder) = all.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => all.push(path),
                    false if path.extension().is_some_and(|end| end == "data") => found.push(path),
                    false => {}
                }
            }
        }
        found
    }
}

#[test]
fn a_second_run_reads_from_the_cache_which_can_be_shown_checked_and_cleared() {
    let Some(trial) = Trial::start() else {
        return;
    };
    let expected = good(&["head", DIMUON, "-n", "3"]);
    let (first, said) = trial.head(&[]);
    assert_eq!(first, expected);
    assert!(said.contains(": 256 kB read (100.0 %), "), "{said}");
    let (second, said) = trial.head(&[]);
    assert_eq!(second, expected);
    assert!(said.contains(": 0 B read (0.0 %), "), "{said}");
    let status = trial.about(&["status"]);
    assert_eq!(
        (&status["files"], &status["pinned"]),
        (&1.into(), &0.into())
    );
    assert!(status["bytes"].as_u64().unwrap() > 1000);
    let url = trial.server.url("a.root");
    let files = trial.about(&["ls"]);
    assert_eq!(files["files"][0]["url"], url);
    assert_eq!(trial.about(&["pin", &url])["pinned"][0], url);
    assert_eq!(trial.about(&["ls"])["files"][0]["pinned"], true);
    let named = format!("{url}:Events");
    assert_eq!(trial.about(&["pin", "--off", &named])["unpinned"][0], url);
    assert_eq!(trial.about(&["verify"])["ok"], true);
    assert!(trial.about(&["prune"])["bytes"].as_u64().unwrap() > 1000);
    assert_eq!(trial.about(&["verify"])["bad"], Value::Array(Vec::new()));
    assert_eq!(trial.head(&[]).0, expected);
    let dir = trial.dir();
    let nothing = fb(&["cache", "clear", "--dir", &dir, "root://elsewhere"]);
    assert_eq!(
        (nothing.code, nothing.err.contains("no cached file fits")),
        (3, true)
    );
    assert_eq!(trial.about(&["clear", "*/a.root"])["removed"][0], url);
    assert_eq!(trial.head(&[]).0, expected);
    assert_eq!(trial.about(&["clear", "--all"])["removed"][0], url);
    assert_eq!(trial.about(&["status"])["files"], 0);
    assert_eq!(trial.head(&[]).0, expected);
}

#[test]
fn damage_is_found_by_verify_and_heals_by_reading() {
    let Some(trial) = Trial::start() else {
        return;
    };
    let (expected, _) = trial.head(&[]);
    for path in trial.data() {
        let mut bytes = fs::read(&path).unwrap();
        bytes.iter_mut().step_by(500).for_each(|byte| *byte ^= 4);
        fs::write(&path, bytes).unwrap();
    }
    let done = fb(&["cache", "verify", "--dir", &trial.dir()]);
    assert_eq!(done.code, 1);
    assert!(done.out.contains("bad: bytes "), "{}", done.out);
    let (again, said) = trial.head(&[]);
    assert_eq!(again, expected);
    assert!(!said.contains("; 0 damaged"), "{said}");
    assert_eq!(trial.about(&["verify"])["ok"], true);
}

#[test]
fn verify_and_copies_read_from_servers() {
    let Some(trial) = Trial::start() else {
        return;
    };
    let (url, cache) = (trial.server.url("a.root"), format!("cache={}", trial.dir()));
    let with = |args: &[&str]| fb(&[&["--set", &cache], args].concat());
    let copy = trial.folder.path().join("copy.root");
    assert_eq!(with(&["cp", &url, copy.to_str().unwrap()]).code, 0);
    assert_eq!(trial.about(&["ls"])["files"], Value::Array(Vec::new()));
    let skim = trial.folder.path().join("skim.root");
    assert_eq!(with(&["clone", &url, skim.to_str().unwrap()]).code, 0);
    assert_eq!(with(&["verify", &url]).code, 0);
    // in place, with the same time
    let path = trial.server.data[0].join("a.root");
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    let mut content = fs::read(&path).unwrap();
    let half = content.len() / 2;
    content[half..half + 2000].fill(7);
    fs::write(&path, content).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(time).unwrap();
    assert_eq!(with(&["head", &url]).code, 0);
    assert_eq!(with(&["verify", &url]).code, 1);
}

#[test]
fn a_run_that_the_cache_serves_alone_has_a_report() {
    let Some(trial) = Trial::start() else {
        return;
    };
    let (url, cache) = (trial.server.url("a.root"), format!("cache={}", trial.dir()));
    for from_servers in [": 256 kB read (100.0 %), ", ": 0 B read (0.0 %), "] {
        let mut run = command(&["--set", &cache, "--set", "immutable=true", "head", &url]);
        run.env("FEMTOBARN_REPORT", "1");
        let done = finish(run);
        assert!(done.err.contains("report of "), "{}", done.err);
        assert!(done.err.contains(from_servers), "{}", done.err);
    }
}

#[test]
fn the_cache_of_a_server_in_the_settings_file_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let file = folder.path().join("config.toml");
    let status = |more: &[&str]| {
        let mut status = command(&[&["cache", "status"], more].concat());
        status.env_remove("FEMTOBARN_CACHE");
        status.env("FEMTOBARN_CONFIG", &file);
        finish(status)
    };
    let one =
        format!("['root://a']\ncache = '{dir}/a:1GB'\n['https://b']\ncache = '{dir}/a:1GB'\n");
    fs::write(&file, &one).unwrap();
    assert!(status(&[]).out.contains("of 1.00 GB used"));
    fs::write(&file, format!("{one}['s3://c']\ncache = '{dir}/c:2GB'\n")).unwrap();
    let several = status(&[]);
    assert_eq!(several.code, 2);
    assert!(
        several.err.contains(&format!("{dir}/a, {dir}/c")),
        "{}",
        several.err
    );
    let named = status(&["--dir", &format!("{dir}/c")]);
    assert!(named.out.contains("of 2.00 GB used"), "{}", named.out);
}

#[test]
fn a_cache_must_be_named_and_files_to_clear_too() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    assert_eq!(
        failure(&["cache", "clear", "--dir", dir], 2)["kind"],
        "usage"
    );
    let mut without = command(&["cache", "status"]);
    without.env_remove("FEMTOBARN_CACHE");
    let done = finish(without);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("FEMTOBARN_CACHE"), "{}", done.err);
    let mut by_variable = command(&["cache", "status"]);
    by_variable.env("FEMTOBARN_CACHE", format!("{dir}:1GB"));
    assert!(finish(by_variable).out.contains("of 1.00 GB used"));
    // the limit of the directory, which is named once more
    let mut named = command(&["cache", "status", "--dir", dir]);
    named.env("FEMTOBARN_CACHE", format!("{dir}:1GB"));
    assert!(finish(named).out.contains("of 1.00 GB used"));
    let invalid = fb(&["cache", "status", "--dir", &format!("{dir}:10%")]);
    assert_eq!(invalid.code, 2);
    assert!(
        invalid.err.contains("setting: invalid cache"),
        "{}",
        invalid.err
    );
    assert_eq!(good(&["cache", "ls", "--dir", dir]), "no cached files\n");
}
