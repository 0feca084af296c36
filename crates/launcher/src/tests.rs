use femtobarn_testkit::can_start_redis;

use super::*;
use femtobarn_events::{Batch, Parent, ProductName, connect};

/// Stops the servers of a failed test.
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
    // a failover must not lose data
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
            error.contains("connect with") && error.contains("store.json"),
            "{error}"
        );
    }
    let mut batch = Batch::default();
    batch.create(parent, 3);
    batch.store(parent, 3, &name, b"value");
    store.write(&batch).unwrap();
    store.flush().unwrap();
    // only the owner can read the password, and it is not in the output
    let password = fs::read_to_string(path.join("password")).unwrap();
    assert!(!format!("{store:?}").contains(password.trim()));
    let address = &status_now.nodes[0].address;
    let error = connect(&format!("redis://{address}")).unwrap_err();
    assert_eq!(error.kind(), "store-denied");
    // a second call has nothing to do
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
    assert_eq!(store.contains(&[(parent, &[3])]).unwrap(), [[true]]);
    down(&path).unwrap();
    // options that are not given have the values of the cluster, and giving the same values is allowed
    let as_it_is = up(&path, &LocalOptions::default()).unwrap();
    assert_eq!(roles(&as_it_is), [3, 3]);
    for (options, words) in [
        (
            LocalOptions {
                nodes: Some(1),
                ..options.clone()
            },
            "--nodes 3 --replicas 1, not 1 and 1",
        ),
        (
            LocalOptions {
                replicas: Some(0),
                ..LocalOptions::default()
            },
            "--nodes 3 --replicas 1, not 3 and 0",
        ),
        (
            LocalOptions {
                memory: Some(5),
                fsync: Some("always".into()),
                ..LocalOptions::default()
            },
            "--memory 0, not 5, --fsync everysec, not always",
        ),
    ] {
        let error = up(&path, &options).unwrap_err();
        assert_eq!(error.kind(), "usage");
        assert!(error.to_string().contains(words), "{error}");
    }
    down(&path).unwrap();
}

/// `fb store status` printed "up" for some seconds after a server was killed, until the other servers had
/// noticed.
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

/// A server that is not in the directory.
struct Added {
    process: std::process::Child,
    port: u16,
    log: PathBuf,
}

impl Drop for Added {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("{}", fs::read_to_string(&self.log).unwrap());
        }
    }
}

impl Added {
    fn start(folder: &Path, password: &str) -> Self {
        fs::create_dir(folder).unwrap();
        // the bus uses the port plus 10,000
        let ports = std::iter::repeat_with(femtobarn_testkit::free_port);
        let port = ports.take(1000).find(|port| *port < 50_000).unwrap();
        let config = format!(
            "bind 127.0.0.1\nport {port}\ndir {}\nsave ''\nappendonly yes\ncluster-enabled yes\n\
             requirepass {password}\nmasterauth {password}\nrepl-diskless-sync-delay 0\n",
            folder.display()
        );
        let file = folder.join("redis.conf");
        fs::write(&file, config).unwrap();
        let log = folder.join("log");
        let mut command = std::process::Command::new("redis-server");
        let command = command.arg(file).stdout(fs::File::create(&log).unwrap());
        let process = command.spawn().unwrap();
        Self { process, port, log }
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

/// Whether `redis-cli` succeeded, and its output.
fn redis_cli(password: &str, words: &[&str]) -> (bool, String) {
    let mut command = std::process::Command::new("redis-cli");
    let done = command.args(words).env("REDISCLI_AUTH", password).output();
    let done = done.unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    (done.status.success(), said)
}

/// Waits until a condition holds, as servers of a cluster learn of changes with a delay.
#[track_caller]
fn until(is_so: impl Fn() -> bool) {
    assert!(is_soon(60, is_so));
}

/// Waits for at most so many seconds until a condition holds.
fn is_soon(seconds: u64, is_so: impl Fn() -> bool) -> bool {
    let began = std::time::Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if began.elapsed().as_secs() >= seconds {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// `fb store status` printed "NOT up" when a server outside the directory had some of the slots.
#[test]
fn a_server_that_is_added_and_one_that_takes_the_place_of_another_count() {
    if !can_start_redis() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let _ended = Ended(path.clone());
    let before = up(&path, &LocalOptions::default()).unwrap();
    let config = before.config.to_str().unwrap().to_owned();
    let first = before.nodes[0].address.clone();
    let password = fs::read_to_string(path.join("password")).unwrap();
    let password = password.trim();
    let cli = |words: &[&str]| {
        let (is_good, said) = redis_cli(password, words);
        assert!(is_good, "{words:?}: {said}");
        said
    };
    let store = connect(&config).unwrap();
    let parents: Vec<_> = (0..50).map(|run| Parent::run(Uuid([1; 16]), run)).collect();
    let mut batch = Batch::default();
    parents.iter().for_each(|parent| batch.create(*parent, 3));
    store.write(&batch).unwrap();
    let has_all = || {
        let has = |parent: &Parent| store.contains(&[(*parent, &[3])]).unwrap() == [[true]];
        parents.iter().all(has)
    };

    // adds a server as the guide describes
    let added = Added::start(&folder.path().join("added"), password);
    until(|| std::net::TcpStream::connect(added.address()).is_ok());
    cli(&["--cluster", "add-node", &added.address(), &first]);
    until(|| status(&path).unwrap().nodes.len() == 4);
    assert!(status(&path).unwrap().is_up);
    // slots can be moved when all servers know the new one and it serves, which takes some seconds
    let all_say = |words: &str| {
        let said = cli(&["--cluster", "call", &first, "CLUSTER", "INFO"]);
        said.matches(words).count() == 4
    };
    until(|| all_say("cluster_known_nodes:4") && all_say("cluster_state:ok"));
    until(|| redis_cli(password, &["--cluster", "check", &first]).0);
    let id = |address: &str| {
        let port = address.rsplit_once(':').unwrap().1;
        cli(&["-p", port, "CLUSTER", "MYID"]).trim().to_owned()
    };
    let old = id(&added.address());
    let reshard = ["--cluster", "reshard", &first, "--cluster-from", "all"];
    let to = [
        "--cluster-to",
        &old,
        "--cluster-slots",
        "400",
        "--cluster-yes",
    ];
    cli(&[&reshard[..], &to[..]].concat());
    let found = status(&path).unwrap();
    assert!(found.is_up && found.is_served, "{found:?}");
    assert_eq!(found.nodes[3].address, added.address());
    assert_eq!(found.nodes[3].role, Some(Role::Master));
    assert!(has_all());
    assert_eq!(connect(&config).unwrap().n_targets(), 4);
    assert!(up(&path, &LocalOptions::default()).unwrap().is_up);

    // another server replaces it
    let new = Added::start(&folder.path().join("new"), password);
    until(|| std::net::TcpStream::connect(new.address()).is_ok());
    let add = ["--cluster", "add-node", &new.address(), &first];
    cli(&[&add[..], &["--cluster-slave", "--cluster-master-id", &old]].concat());
    let port = new.port.to_string();
    until(|| cli(&["-p", &port, "INFO", "replication"]).contains("master_link_status:up"));
    assert_eq!(status(&path).unwrap().nodes.len(), 5);
    // as all servers vote, all must know that it is a replica, and then that it has the slots
    let all_say = |role: &str| {
        let known = cli(&["--cluster", "call", &first, "CLUSTER", "NODES"]);
        let place = format!("{}@", new.address());
        let mut lines = known.lines().filter(|line| line.contains(&place));
        lines.clone().count() == 5 && lines.all(|line| line.contains(role))
    };
    until(|| all_say("slave"));
    // a server gives up after 5 s, and refuses while it reconnects to its master
    until(|| {
        let said = cli(&["-p", &port, "CLUSTER", "FAILOVER"]);
        eprint!("{said}");
        is_soon(8, || all_say("master"))
    });
    cli(&["--cluster", "del-node", &first, &old]);
    drop(added);
    until(|| status(&path).unwrap().nodes.len() == 4);
    assert!(status(&path).unwrap().is_up);
    assert!(has_all());

    // a server that was added and has disappeared is missing
    drop(new);
    let found = status(&path).unwrap();
    assert_eq!((found.is_up, found.is_served), (false, false));
    assert_eq!(found.nodes[3].role, None);
}

/// Whether a process has ended without being waited for.
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
    assert!(error.to_string().contains("is a file"), "{error}");
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
