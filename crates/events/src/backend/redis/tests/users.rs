//! Redis users with the rights in the guide.

use super::*;
use crate::{DataStore, ObjectOptions};

/// The rights of a user in the guide, without the password.
fn lines(user: &str) -> Vec<Vec<String>> {
    let folder = env!("CARGO_MANIFEST_DIR");
    let guide = format!("{folder}/../../docs/guides/event-store-admin.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let begin = format!("ACL SETUSER {user} ");
    let found = guide.lines().filter_map(|line| {
        let rights = line.trim().strip_prefix(&begin)?;
        let rights = rights.split("  #").next().unwrap();
        Some(rights.split_whitespace().map(str::to_owned).collect())
    });
    found.collect()
}

fn allow(port: u16, user: &str, rights: &[String]) -> String {
    let rights = rights.iter().map(|right| match right.as_str() {
        ">password" => ">p@ss/word",
        right => right,
    });
    let words = ["ACL", "SETUSER", user].into_iter().chain(rights);
    tell(port, &words.collect::<Vec<_>>())
}

/// Creates a user with the rights in the guide.
fn make(servers: &Servers, user: &str) -> String {
    let lines = lines(user);
    assert!(!lines.is_empty(), "the guide has no line for {user}");
    for (n, rights) in lines.iter().enumerate() {
        let said = allow(servers.port, user, rights);
        // only the first line is for all versions
        let is_too_new = n > 0 && said.contains("waitaof") && !has_waitaof(servers.port);
        assert!(said == "OK" || is_too_new, "{rights:?}: {said}");
    }
    format!("redis://{user}:p%40ss%2Fword@127.0.0.1:{}/", servers.port)
}

fn has_waitaof(port: u16) -> bool {
    !tell(port, &["COMMAND", "INFO", "WAITAOF"]).contains("nothing")
}

#[test]
fn a_user_with_the_rights_of_the_guide_can_do_all() {
    let Some(servers) = start("redis") else {
        return;
    };
    let url = make(&servers, "nova");
    let n = AtomicUsize::new(0);
    conformance::all(&|| {
        let n = n.fetch_add(1, Ordering::Relaxed);
        RedisBackend::connect(&format!("{url}?prefix=nova:{n}:")).unwrap()
    });
    let error = RedisBackend::connect(&format!("{url}?prefix=lep:")).unwrap_err();
    assert_eq!(error.kind(), "store-denied", "{error}");
}

#[test]
fn a_user_who_reads_can_read_all_and_write_nothing() {
    let Some(servers) = start("redis") else {
        return;
    };
    let url = make(&servers, "nova");
    let written = format!("{url}?prefix=nova:");
    let store = DataStore::connect(&written, ObjectOptions::default()).unwrap();
    let dataset = store.root().create_dataset("a/b").unwrap();
    let parent = Parent::subrun(dataset.uuid(), 1, 2);
    dataset.create(1).unwrap().create(2).unwrap();
    let name = ProductName::new("x", "T").unwrap();
    let mut batch = Batch::default();
    for event in 0..3000 {
        batch.create(parent, event);
        batch.store(parent, event, &name, b"value");
    }
    store.write(&batch).unwrap();
    store.backend().note("key", b"noted").unwrap();
    store.create_queue("q").unwrap();

    let url = make(&servers, "nova-reader");
    let url = format!("{url}?prefix=nova:");
    let to_read = DataStore::connect_to_read(&url, ObjectOptions::default()).unwrap();
    let to_write = DataStore::connect(&url, ObjectOptions::default()).unwrap();
    for (store, kind) in [(to_read, "read-only"), (to_write, "store-denied")] {
        let found = store.root().datasets(None).map(|one| one.unwrap());
        let paths: Vec<_> = found.map(|one| one.path().to_string()).collect();
        assert_eq!(paths, ["a"]);
        let dataset = store.root().dataset("a/b").unwrap();
        let subrun = dataset.get(1).unwrap().get(2).unwrap();
        assert_eq!(subrun.numbers(.., usize::MAX).unwrap().len(), 3000);
        let event = subrun.get(2999).unwrap();
        assert_eq!(event.load(&name).unwrap().unwrap(), b"value");
        assert_eq!(event.names(None).unwrap(), vec![name.clone()]);
        let backend = store.backend();
        assert_eq!(backend.name_counts(&parent).unwrap()[0].n_events, 3000);
        assert_eq!(backend.noted("key").unwrap().unwrap(), b"noted");
        assert_eq!(backend.queues().n_values("q").unwrap(), Some(0));
        let n_bytes = dataset.stored_bytes().unwrap();
        assert!((3000 * 20..3000 * 500).contains(&n_bytes), "{n_bytes}");
        store.flush().unwrap();
        let fails = |error: EventsError| {
            assert_eq!(error.kind(), kind, "{error}");
            if kind == "store-denied" {
                assert!(error.to_string().contains("mode=r"), "{error}");
            }
        };
        fails(store.write(&batch).unwrap_err());
        fails(store.root().create_dataset("c").unwrap_err());
        fails(dataset.create(7).unwrap_err());
        fails(event.remove_products(None).unwrap_err());
        fails(event.remove().unwrap_err());
        fails(dataset.remove().unwrap_err());
        fails(backend.note("new", b"x").unwrap_err());
    }
    assert_eq!(store.root().dataset("a/b").unwrap().uuid(), dataset.uuid());
    assert_eq!(
        dataset
            .get(1)
            .unwrap()
            .get(2)
            .unwrap()
            .numbers(.., usize::MAX)
            .unwrap()
            .len(),
        3000
    );
    let elsewhere = url.replace("prefix=nova:", "prefix=lep:");
    let error = RedisBackend::connect(&elsewhere).unwrap_err();
    assert_eq!(error.kind(), "store-denied", "{error}");
}
