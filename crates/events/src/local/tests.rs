use femtobarn_testkit::can_start_redis;

use super::*;
use crate::{Batch, Parent, ProductName, connect};

/// Ends what a test that failed has left.
struct Ended(PathBuf);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = down(&self.0);
    }
}

#[test]
fn a_local_cluster_keeps_its_data_when_it_is_started_again() {
    if !can_start_redis() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a folder with \"quotes\"");
    let _ended = Ended(path.clone());
    let options = LocalOptions {
        replicas: Some(1),
        ..LocalOptions::default()
    };
    let parent = Parent::subrun(Uuid([1; 16]), 1, 2);
    let name = ProductName::new("x", "T").unwrap();
    let status_now = up(&path, &options).unwrap();
    assert!(status_now.is_up);
    let roles = |status: &LocalStatus| {
        let role = |role| {
            status
                .nodes
                .iter()
                .filter(|node| node.role == Some(role))
                .count()
        };
        [Role::Master, Role::Replica].map(role)
    };
    assert_eq!(roles(&status_now), [3, 3]);
    let config = status_now.config.to_str().unwrap().to_owned();
    // A failover is to lose nothing.
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.contains("\"write_concern\": \"replicas:1\""), "{text}");
    let store = connect(&config).unwrap();
    assert_eq!((store.n_targets(), store.is_durable()), (3, true));
    for folder in [
        path.display().to_string(),
        format!("dir:{}", path.display()),
    ] {
        let error = connect(&folder).unwrap_err().to_string();
        assert!(
            error.contains("connect by") && error.contains("store.json"),
            "{error}"
        );
    }
    let mut batch = Batch::default();
    batch.create(parent, 3);
    batch.store(parent, 3, &name, b"value");
    store.write(&batch).unwrap();
    store.flush().unwrap();
    // Who is not its owner has no password, and none is in what is printed.
    let password = fs::read_to_string(path.join("password")).unwrap();
    assert!(!format!("{store:?}").contains(password.trim()));
    let address = &status_now.nodes[0].address;
    let error = connect(&format!("redis://{address}")).unwrap_err();
    assert_eq!(error.kind(), "store-denied");
    // Again: nothing is to be done.
    let processes = |status: &LocalStatus| {
        let all = status.nodes.iter().map(|node| node.process);
        all.collect::<Vec<_>>()
    };
    assert_eq!(
        processes(&up(&path, &options).unwrap()),
        processes(&status_now)
    );
    drop(store);
    assert_eq!(down(&path).unwrap(), 6);
    assert_eq!(down(&path).unwrap(), 0);
    let ended = status(&path).unwrap();
    assert!(!ended.is_up && ended.nodes.iter().all(|node| node.process.is_none()));
    let error = connect(&config).unwrap_err().to_string();
    let advice = format!("`fb store up {}`", path.display());
    assert!(
        error.contains(": cannot connect: ") && error.contains(&advice),
        "{error}"
    );
    assert!(up(&path, &options).unwrap().is_up);
    let store = connect(&config).unwrap();
    assert_eq!(store.contains(&parent, &[3]).unwrap(), [true]);
    down(&path).unwrap();
    // What nobody says is as it was made, by whom the same is said, too.
    let as_it_is = up(&path, &LocalOptions::default()).unwrap();
    assert_eq!(roles(&as_it_is), [3, 3]);
    for (options, words) in [
        (
            LocalOptions {
                nodes: Some(1),
                ..options.clone()
            },
            "--nodes 3 --replicas 1, and not 1 and 1",
        ),
        (
            LocalOptions {
                replicas: Some(0),
                ..LocalOptions::default()
            },
            "--nodes 3 --replicas 1, and not 3 and 0",
        ),
        (
            LocalOptions {
                memory: Some(5),
                fsync: Some("always".into()),
                ..LocalOptions::default()
            },
            "--memory 0, and not 5, --fsync everysec, and not always",
        ),
    ] {
        let error = up(&path, &options).unwrap_err();
        assert_eq!(error.kind(), "usage");
        assert!(error.to_string().contains(words), "{error}");
    }
    down(&path).unwrap();
}

/// `fb store status` said "up" for the seconds in which the other servers did not know yet that one was dead.
#[test]
fn a_server_that_was_killed_is_missed_before_the_others_know() {
    if !can_start_redis() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (nodes, replicas, is_served) in [(3, 0, false), (1, 1, true)] {
        let path = folder.path().join(format!("of {nodes}"));
        let _ended = Ended(path.clone());
        let options = LocalOptions {
            nodes: Some(nodes),
            replicas: Some(replicas),
            ..LocalOptions::default()
        };
        let before = up(&path, &options).unwrap();
        assert!(before.is_up && before.is_served);
        let process = before.nodes.last().unwrap().process.unwrap();
        let process = rustix::process::Pid::from_raw(process.try_into().unwrap()).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
        while rustix::process::test_kill_process(process).is_ok() && !is_zombie(process) {
            std::thread::yield_now();
        }
        let found = status(&path).unwrap();
        assert_eq!((found.is_up, found.is_served), (false, is_served));
        let missing = found.nodes.iter().filter(|node| node.role.is_none());
        assert_eq!(missing.count(), 1);
        let again = up(&path, &LocalOptions::default()).unwrap();
        assert!(again.is_up && again.is_served);
        down(&path).unwrap();
    }
}

/// Whether a process has ended, although nobody has waited for it.
fn is_zombie(process: rustix::process::Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    stat.is_ok_and(|stat| stat.contains(") Z "))
}

#[test]
fn what_cannot_become_a_cluster_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("make.py");
    fs::write(&file, "").unwrap();
    let error = up(&file, &LocalOptions::default()).unwrap_err();
    assert_eq!(error.kind(), "usage");
    assert!(error.to_string().contains("this is a file"), "{error}");
    fs::remove_file(&file).unwrap();
    assert_eq!(status(folder.path()).unwrap_err().kind(), "not-in-store");
    assert_eq!(down(folder.path()).unwrap_err().kind(), "not-in-store");
    let options = LocalOptions {
        program: Some("no-such-server".into()),
        ..LocalOptions::default()
    };
    let error = up(folder.path(), &options).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("apt-get install redis-server"), "{cause}");
    fs::write(folder.path().join("other"), "").unwrap();
    fs::remove_file(folder.path().join("lock")).unwrap();
    let error = up(folder.path(), &options).unwrap_err();
    assert_eq!(error.kind(), "store-layout");
}
