//! `fb store`: servers that go on when the program has ended.

use femtobarn_testkit::can_start_redis;

use crate::support::{document, failure, fb, good};

#[test]
fn a_local_cluster_is_started_and_ended() {
    if !can_start_redis() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let path = path.to_str().unwrap();
    let up = document(&["store", "up", "--nodes", "1", "--replicas", "1", path]);
    let done = std::panic::catch_unwind(|| {
        assert_eq!(up["up"], true);
        let config = up["config"].as_str().unwrap();
        assert!(config.ends_with("/store/store.json"));
        let roles: Vec<_> = up["nodes"].as_array().unwrap().iter().collect();
        assert_eq!(
            (&roles[0]["role"], &roles[1]["role"]),
            (&"master".into(), &"replica".into())
        );
        let text = good(&["store", "status", path]);
        assert!(
            text.contains("replica") && text.contains("connect by"),
            "{text}"
        );
        let error = failure(&["store", "up", "--nodes", "3", path], 2);
        assert_eq!(error["kind"], "usage");
    });
    let ended = document(&["store", "down", path]);
    done.unwrap();
    assert_eq!(ended["ended"], 2);
    let status = fb(&["store", "status", path]);
    assert_eq!(status.code, 1);
    assert!(status.out.contains("does not run") && status.out.contains("NOT up"));
}

#[test]
fn a_folder_without_a_cluster_is_said_to_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for action in ["down", "status"] {
        let error = failure(&["store", action, path], 3);
        assert_eq!(error["kind"], "not-in-store");
        assert!(
            error["message"]
                .as_str()
                .unwrap()
                .contains("no local cluster")
        );
    }
    let error = failure(&["store", "up", "--server", "no-such-server", path], 3);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("apt-get install redis-server")
    );
}
