//! Help, completion, streams.

use std::io::Read;
use std::process::{Command, Stdio};

use crate::support::{DIMUON, command, failure, fb, finish, good, root};

#[test]
fn help_states_the_exit_codes_and_every_verb() {
    let help = good(&["--help"]);
    for text in [
        "Exit codes:",
        "0  fine",
        "1  the data are bad",
        "ls",
        "info",
        "head",
        "verify",
        "explain",
        "ingest",
        "hdf5-schema",
        "export",
        "completion",
    ] {
        assert!(help.contains(text), "{text} in {help}");
    }
    assert_eq!(
        good(&["--version"]),
        format!("fb {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn wrong_usage_is_2_and_goes_to_standard_error() {
    for args in [
        &[][..],
        &["frobnicate"],
        &["ls"],
        &["head", DIMUON, "-n", "x"],
        &["verify", DIMUON, "--threads", "0"],
    ] {
        let done = fb(args);
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{args:?}");
        assert!(done.err.starts_with("fb: "), "{args:?}: {}", done.err);
    }
    assert_eq!(failure(&["frobnicate"], 2)["kind"], "usage");
    assert_eq!(
        failure(
            &[
                "explain",
                DIMUON,
                "--entry-start",
                "20",
                "--entry-stop",
                "10"
            ],
            2
        )["kind"],
        "entry-range"
    );
}

#[test]
fn verbs_that_run_in_python_say_where_they_are_to_be_had() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    std::fs::write(&path, b"\x89HDF\r\n\x1a\n").unwrap();
    let path = path.to_str().unwrap();
    for args in [
        &["ingest", path, "--into", "dir:store", "--dataset", "nova"][..],
        &["hdf5-schema", path],
    ] {
        let told = failure(args, 2);
        assert_eq!(told["kind"], "usage", "{args:?}");
        let next = told["next"].as_str().unwrap();
        assert!(next.contains("pip install 'femtobarn[hdf5]'"), "{next}");
    }
    // errors in the command line are reported by either program
    let told = failure(&["ingest", "a.h5", "--into", "dir:store"], 2);
    assert!(told["message"].as_str().unwrap().contains("--dataset"));
    let how = ["ingest", "a", "--into", "b", "--dataset", "c"];
    let told = failure(&[&how[..], &["--on-conflict", "drop"]].concat(), 2);
    assert!(
        told["message"]
            .as_str()
            .unwrap()
            .contains("raise, keep, replace")
    );
}

/// The variable was ignored without a message.
#[test]
fn a_misspelt_variable_is_told() {
    let mut command = command(&["info", DIMUON]);
    command.env("FEMTOBARN_REQUEST_TIMOUT", "5");
    let done = finish(command);
    assert_eq!((done.code, done.out.as_str()), (2, ""), "{}", done.err);
    let said = "FEMTOBARN_REQUEST_TIMOUT is not a setting; did you mean FEMTOBARN_REQUEST_TIMEOUT?";
    assert!(done.err.contains(said), "{}", done.err);
}

#[test]
fn completion_scripts_know_the_verbs() {
    for shell in ["bash", "zsh", "fish"] {
        let script = good(&["completion", shell]);
        assert!(
            script.contains("verify") && script.contains("explain"),
            "{shell}"
        );
    }
    assert_eq!(
        good(&["completions", "bash"]),
        good(&["completion", "bash"])
    );
    assert_eq!(fb(&["completion", "tcsh"]).code, 2);
}

#[test]
fn a_reader_that_leaves_ends_the_program_quietly() {
    for args in [
        &["head", "--json", "-n", "12000", DIMUON][..],
        &["info", DIMUON],
        &["completion", "bash"],
    ] {
        let mut command = command(args);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut err = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut err)
            .unwrap();
        assert_eq!(
            (child.wait().unwrap().code(), err.as_str()),
            (Some(0), ""),
            "{args:?}"
        );
    }
}

#[test]
fn a_closed_standard_output_is_no_panic() {
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "\"$0\" ls testdata/dimuon.root >&-",
            env!("CARGO_BIN_EXE_fb"),
        ])
        .current_dir(root());
    let done = finish(command);
    assert!(!done.err.contains("panic"), "{}", done.err);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported() {
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "\"$0\" ls testdata/dimuon.root >/dev/full",
            env!("CARGO_BIN_EXE_fb"),
        ])
        .current_dir(root());
    let done = finish(command);
    assert_eq!(done.code, 3);
    assert!(
        done.err.starts_with("fb: cannot write to standard output"),
        "{}",
        done.err
    );
}

#[test]
fn global_options_are_listed_last_under_their_own_heading() {
    for command in ["ls", "merge", "skim", "export"] {
        let help = good(&[command, "--help"]);
        let (own, global) = help.split_once("Global options:").unwrap();
        assert!(!own.contains("--stats") && !own.contains("--json"), "{own}");
        for option in ["--json", "--stats", "--set"] {
            assert!(global.contains(option), "{global}");
        }
    }
}
