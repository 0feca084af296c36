//! Finding by path.

use super::open;
use crate::RootFileError;

fn nearest(file: &str, path: &str) -> Vec<String> {
    match open(file).find(path).unwrap_err() {
        RootFileError::KeyNotFound { nearest, .. } => nearest,
        error => panic!("{error}"),
    }
}

#[test]
fn without_a_cycle_the_highest_is_found() {
    let file = open("cycles.root");
    assert_eq!(file.find("often").unwrap().title, "cycle 12");
    assert_eq!(file.find("often;9").unwrap().title, "cycle 9");
    assert_eq!(file.find("dir/often").unwrap().title, "in dir, again");
    assert_eq!(file.find("dir;1/often;1").unwrap().title, "in dir");
}

#[test]
fn a_deleted_cycle_is_not_found_and_others_are_named() {
    let error = open("cycles.root").find("often;11").unwrap_err();
    assert_eq!(error.kind(), "key-not-found");
    assert!(error.to_string().contains("\"often;1\""), "{error}");
}

#[test]
fn paths_lead_through_directories_with_or_without_extra_slashes() {
    let file = open("directories.root");
    for path in [
        "a/b/c/deep",
        "/a/b/c/deep",
        "a//b/c/deep",
        "a;1/b;1/c;1/deep;1",
    ] {
        assert_eq!(file.find(path).unwrap().title, "in a/b/c", "{path}");
    }
    assert!(file.find("a/b").unwrap().is_directory());
}

#[test]
fn names_may_contain_slashes_semicolons_and_any_letters() {
    let file = open("directories.root");
    assert_eq!(
        file.find("with/slash").unwrap().title,
        "a name with a slash"
    );
    assert_eq!(file.find("with/slash;1").unwrap().cycle, 1);
    assert_eq!(file.find("grüße").unwrap().class_name, "TNamed");
    assert_eq!(
        file.find(&format!("long_{}", "x".repeat(300)))
            .unwrap()
            .title,
        "long"
    );
}

#[test]
fn a_miss_lists_the_nearest_names_wherever_they_are() {
    assert_eq!(nearest("directories.root", "a/b/c/dep")[0], "a/b/c/deep");
    assert_eq!(nearest("directories.root", "Deep")[0], "a/b/c/deep");
    assert_eq!(nearest("directories.root", "tpo")[0], "top");
    assert_eq!(nearest("directories.root", "with_slash")[0], "with/slash");
    assert_eq!(nearest("cycles.root", "oftn").len(), 3, "names, each once");
    assert!(nearest("empty.root", "Events").is_empty());
    let message = open("directories.root")
        .find("topp")
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("directories.root; did you mean \"top\""),
        "{message}"
    );
    let message = open("empty.root").find("Events").unwrap_err().to_string();
    assert!(message.ends_with("empty.root; it has no keys"), "{message}");
}

#[test]
fn directories_are_read_by_path() {
    let file = open("directories.root");
    assert_eq!(file.directory("").unwrap(), *file.root());
    assert_eq!(file.directory("/").unwrap().keys(), file.keys());
    let directory = file.directory("a/b").unwrap();
    assert_eq!((directory.path(), directory.keys().len()), ("a/b", 1));
    assert_eq!(directory.get("c").unwrap().title, "a deep directory");
    assert!(file.directory("empty").unwrap().keys().is_empty());
}

#[test]
fn an_object_is_no_directory() {
    let error = open("directories.root").directory("a/shallow").unwrap_err();
    assert_eq!(error.kind(), "not-a-directory");
    assert!(
        error
            .to_string()
            .ends_with("expected a directory, found a TNamed"),
        "{error}"
    );
    assert_eq!(
        open("directories.root").find("top/x").unwrap_err().kind(),
        "key-not-found"
    );
}
