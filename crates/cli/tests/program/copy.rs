//! `fb cp`.

use crate::support::{DIMUON, failure, fb, good, root};

#[test]
fn a_file_that_is_there_is_replaced_only_by_force() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("copy.root").to_str().unwrap().to_owned();
    std::fs::write(&to, b"old").unwrap();
    for place in [to.as_str(), folder.path().to_str().unwrap()] {
        std::fs::write(folder.path().join("dimuon.root"), b"old").unwrap();
        let error = failure(&["cp", DIMUON, place], 2);
        assert!(
            error["message"].as_str().unwrap().contains("already"),
            "{error}"
        );
        assert!(
            error["next"].as_str().unwrap().contains("--force"),
            "{error}"
        );
    }
    let said = fb(&["cp", DIMUON, &to]).err;
    assert!(said.contains("--force"), "{said}");
    assert_eq!(std::fs::read(&to).unwrap(), b"old");
    good(&["cp", "--force", DIMUON, &to]);
    let whole = std::fs::read(root().join(DIMUON)).unwrap();
    assert!(std::fs::read(&to).unwrap() == whole);
}

#[test]
fn copies_that_would_replace_one_another_are_refused_before_anything_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b, to] = ["a", "b", "to"].map(|name| folder.path().join(name));
    for place in [&a, &b] {
        std::fs::create_dir(place).unwrap();
        std::fs::copy(root().join(DIMUON), place.join("x.root")).unwrap();
    }
    let [a, b] = [a, b].map(|place| place.join("x.root").to_str().unwrap().to_owned());
    let to = format!("{}/", to.to_str().unwrap());
    let error = failure(&["cp", "--force", &a, &b, &to], 2);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("would both be copied to"),
        "{error}"
    );
    assert!(!std::path::Path::new(&to).join("x.root").exists());
    let url = "s3://bucket/a.root";
    let error = failure(&["cp", url, url], 2);
    assert!(
        error["message"].as_str().unwrap().contains("onto itself"),
        "{error}"
    );
}
