//! Reading and writing values, and what can go wrong.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::expect_used,
    reason = "tests"
)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use common::{Daos, key, object, unused};
use femtobarn_daos::{Address, Container, DaosError, Existing, Fetch, Settings, Update, ValueKey};
use femtobarn_testkit::in_a_fork;

fn value(key: ValueKey, bytes: impl Into<Bytes>) -> Update {
    Update {
        key,
        parts: vec![bytes.into()],
    }
}

fn write(container: &Container, values: &[Update]) {
    container
        .update(values.to_vec(), Existing::Replaced)
        .unwrap();
}

fn read(container: &Container, keys: &[ValueKey]) -> Vec<Option<Bytes>> {
    let fetches: Vec<_> = keys.iter().map(|&key| Fetch { key, room: 100 }).collect();
    container.fetch(&fetches).unwrap()
}

/// Bytes that differ from value to value.
fn bytes(number: u64, size: usize) -> Vec<u8> {
    (0..size as u64)
        .map(|at| (at * 7 + number * 31 + (at >> 8)) as u8)
        .collect()
}

#[test]
fn many_values_come_back_in_the_order_of_their_keys_and_missing_ones_as_none() {
    let daos = Daos::any();
    let container = daos.container();
    let (one, other) = (object(&container), object(&container));
    let keys: Vec<_> = (0..200u64)
        .map(|at| key(if at % 3 == 0 { one } else { other }, at % 5, at))
        .collect();
    let all: Vec<_> = keys
        .iter()
        .enumerate()
        .map(|(at, &key)| value(key, bytes(at as u64, 1 + 11 * at)))
        .collect();
    write(&container, &all);
    let mut wanted: Vec<_> = keys
        .iter()
        .rev()
        .map(|&key| Fetch { key, room: 5 })
        .collect();
    wanted.insert(
        7,
        Fetch {
            key: key(one, 77, 1),
            room: 0,
        },
    );
    wanted.insert(9, wanted[30]);
    let found = container.fetch(&wanted).unwrap();
    for (fetch, found) in wanted.iter().zip(&found) {
        let expected = keys.iter().position(|key| *key == fetch.key);
        assert_eq!(
            found.as_deref(),
            expected.map(|at| &all[at].parts[0][..]),
            "{}",
            fetch.key
        );
    }
    let sizes = container.sizes(&[keys[3], key(one, 77, 1)]).unwrap();
    assert_eq!(sizes, [Some(34), None]);
    container.punch_objects(&[one, other]).unwrap();
}

#[test]
fn pieces_become_one_value_and_large_values_are_whole() {
    let daos = Daos::any();
    let container = daos.container();
    let place = key(object(&container), 1, 2);
    let whole = bytes(1, 5 << 20);
    let cuts = [0, 1, 1000, 1000, 3 << 20, 5 << 20];
    let parts = cuts
        .windows(2)
        .map(|cut| Bytes::copy_from_slice(&whole[cut[0]..cut[1]]));
    write(
        &container,
        &[Update {
            key: place,
            parts: parts.collect(),
        }],
    );
    let fetch = |room| {
        container.fetch(&[Fetch { key: place, room }]).unwrap()[0]
            .clone()
            .unwrap()
    };
    for room in [0, 1, 5 << 20, 6 << 20] {
        assert_eq!(fetch(room), whole, "{room}");
    }
    container.punch_objects(&[place.object]).unwrap();
}

#[test]
fn a_short_buffer_is_noticed_by_the_size_of_the_value() {
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let container = daos.container();
    let place = object(&container);
    let keys = [0, 1, 2].map(|akey| key(place, 1, akey));
    let all = [5, 5000, 50].map(|size| Bytes::from(bytes(size, size as usize)));
    let updates: Vec<_> = keys
        .iter()
        .zip(&all)
        .map(|(&key, all)| value(key, all.clone()))
        .collect();
    write(&container, &updates);
    for quiet in [0, 1] {
        daos.set("quiet", quiet);
        assert_eq!(read(&container, &keys), all.clone().map(Some), "{quiet}");
    }
}

#[test]
fn requests_are_grouped_by_object_and_dkey() {
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let container = daos.container();
    let (one, other) = (object(&container), object(&container));
    let keys: Vec<_> = (0..40)
        .map(|at| key(if at < 20 { one } else { other }, at % 2, at))
        .collect();
    let before = daos.get("n_updates");
    write(
        &container,
        &keys.iter().map(|&key| value(key, "x")).collect::<Vec<_>>(),
    );
    assert_eq!(daos.get("n_updates") - before, 4);
    let before = daos.get("n_fetches");
    assert_eq!(read(&container, &keys).iter().flatten().count(), 40);
    assert_eq!(daos.get("n_fetches") - before, 4);
}

#[test]
fn as_many_requests_are_in_flight_as_the_settings_say() {
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let objects = daos.container();
    let keys: Vec<_> = (0..50).map(|_| key(object(&objects), 0, 0)).collect();
    daos.set("delay_us", 2000);
    for in_flight in [1, 6] {
        let container = daos.container_with(Settings {
            in_flight,
            ..daos.settings()
        });
        daos.set("most_in_flight", 0);
        write(
            &container,
            &keys.iter().map(|&key| value(key, "x")).collect::<Vec<_>>(),
        );
        assert_eq!(daos.get("most_in_flight"), in_flight as i64);
        assert_eq!(read(&container, &keys).iter().flatten().count(), 50);
        assert_eq!(daos.get("most_in_flight"), in_flight as i64);
    }
}

#[test]
fn empty_and_repeated_values_are_refused_before_anything_is_written() {
    let daos = Daos::any();
    let container = daos.container();
    let place = object(&container);
    let good = value(key(place, 1, 1), "x");
    for wrong in [value(key(place, 1, 2), ""), good.clone()] {
        let error = container
            .update(vec![good.clone(), wrong.clone()], Existing::Replaced)
            .unwrap_err();
        assert_eq!(error.kind(), "daos-unwritable");
        assert!(
            error.to_string().contains(&wrong.key.to_string()),
            "{error}"
        );
    }
    assert_eq!(read(&container, &[good.key]), [None]);
}

#[test]
fn an_error_of_an_event_is_the_error_of_the_call_and_names_the_value() {
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let container = daos.container();
    let keys: Vec<_> = (0..30).map(|_| key(object(&container), 4, 2)).collect();
    let all: Vec<_> = keys.iter().map(|&key| value(key, "x")).collect();
    write(&container, &all);
    let fail = |skip| {
        daos.set("event_error", -1007);
        daos.set("event_error_skip", skip);
        daos.set("event_error_count", 1);
    };
    fail(17);
    let error = container
        .update(all.clone(), Existing::Replaced)
        .unwrap_err();
    assert!(error.to_string().contains(&keys[17].to_string()), "{error}");
    assert!(matches!(&error, DaosError::Failed { code: -1007, name, .. } if name == "DER_NOSPACE"));
    fail(29);
    let fetches: Vec<_> = keys.iter().map(|&key| Fetch { key, room: 1 }).collect();
    let error = container.fetch(&fetches).unwrap_err();
    assert!(error.to_string().contains(&keys[29].to_string()), "{error}");
    assert_eq!(read(&container, &keys).iter().flatten().count(), 30);
    daos.set("start_error", -1003);
    assert!(matches!(
        container.fetch(&fetches),
        Err(DaosError::Failed { code: -1003, .. })
    ));
    assert!(matches!(
        container.sizes(&keys),
        Err(DaosError::Failed { code: -1003, .. })
    ));
    daos.set("start_error", 0);
    assert_eq!(daos.get("n_objects"), 0);
}

#[test]
fn after_an_error_nothing_further_is_started() {
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let container = daos.container_with(Settings {
        in_flight: 4,
        ..daos.settings()
    });
    let all: Vec<_> = (0..50)
        .map(|_| value(key(object(&container), 4, 2), "x"))
        .collect();
    daos.set("event_error", -1007);
    daos.set("event_error_count", 1);
    let before = daos.get("n_updates");
    container
        .update(all.clone(), Existing::Replaced)
        .unwrap_err();
    assert!(
        daos.get("n_updates") - before <= 3 + 64,
        "{}",
        daos.get("n_updates") - before
    );
    assert_eq!(daos.get("n_in_flight"), 0);
}

#[test]
fn a_full_pool_is_an_error_with_advice_and_keeps_what_it_has() {
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let container = daos.container();
    let (old, new) = (key(object(&container), 1, 1), key(object(&container), 1, 1));
    write(&container, &[value(old, "kept")]);
    daos.set("pool_bytes", daos.get("bytes") + 1000);
    let error = container
        .update(vec![value(new, vec![1; 2000])], Existing::Replaced)
        .unwrap_err();
    assert!(error.to_string().contains("extend the pool"), "{error}");
    assert_eq!(read(&container, &[old, new]), [Some("kept".into()), None]);
}

#[test]
fn a_value_that_is_returned_too_short_is_never_taken_for_whole() {
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let container = daos.container();
    let place = key(object(&container), 1, 1);
    write(&container, &[value(place, "0123456789")]);
    daos.set("lost_bytes", 3);
    assert_eq!(read(&container, &[place]), [Some("0123456".into())]);
}

#[test]
fn a_connection_that_was_evicted_is_an_error_and_the_next_call_makes_a_new_one() {
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let container = daos.container();
    let place = key(object(&container), 1, 1);
    write(&container, &[value(place, "x")]);
    daos.set("gone", 1);
    let error = container
        .fetch(&[Fetch {
            key: place,
            room: 1,
        }])
        .unwrap_err();
    assert!(
        matches!(error, DaosError::Failed { code: -1002, .. }),
        "{error}"
    );
    let error = container
        .fetch(&[Fetch {
            key: place,
            room: 1,
        }])
        .unwrap_err();
    assert!(
        error.is_missing() && error.to_string().contains("daos cont list"),
        "{error}"
    );
    daos.set("gone", 0);
    assert_eq!(read(&container, &[place]), [Some("x".into())]);
}

#[test]
fn a_server_that_does_not_answer_ends_the_call_and_not_the_process() {
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let timeout = Duration::from_millis(300);
    let container = daos.container_with(Settings {
        timeout,
        ..daos.settings()
    });
    let keys: Vec<_> = (0..40).map(|_| key(object(&container), 1, 1)).collect();
    write(
        &container,
        &keys
            .iter()
            .map(|&key| value(key, "old"))
            .collect::<Vec<_>>(),
    );
    daos.set("hang", 1);
    let new: Vec<_> = keys
        .iter()
        .map(|&key| value(key, bytes(key.akey, 1000)))
        .collect();
    let error = container
        .update(new.clone(), Existing::Replaced)
        .unwrap_err();
    assert!(
        matches!(&error, DaosError::TimedOut { after, .. } if *after == timeout),
        "{error}"
    );
    drop(new);
    let fetches: Vec<_> = keys.iter().map(|&key| Fetch { key, room: 1000 }).collect();
    assert_eq!(
        container.fetch(&fetches).unwrap_err().kind(),
        "daos-timeout"
    );
    assert_eq!(
        container.dkeys(keys[0].object).unwrap_err().kind(),
        "daos-timeout"
    );
    // what was in flight is written when the server answers again: its memory is still there
    daos.set("hang", 0);
    let found = read(&container, &keys);
    for (found, key) in found.into_iter().flatten().zip(&keys) {
        assert!(found == "old" || found == bytes(key.akey, 1000));
    }
    assert_eq!(daos.get("n_objects"), 0);
}

#[test]
fn a_caller_can_end_a_call() {
    static GOES_ON: AtomicBool = AtomicBool::new(true);
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let goes_on = || GOES_ON.load(Ordering::Relaxed);
    let container = daos.container_with(Settings {
        goes_on,
        ..daos.settings()
    });
    let place = key(object(&container), 1, 1);
    daos.set("hang", 1);
    let stop = std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(200));
        GOES_ON.store(false, Ordering::Relaxed);
    });
    let error = container
        .fetch(&[Fetch {
            key: place,
            room: 1,
        }])
        .unwrap_err();
    assert_eq!(error.kind(), "interrupted");
    stop.join().unwrap();
    // the operation ends some day, and then its memory is freed
    daos.set("hang", 0);
    drop(container);
    assert_eq!([daos.get("n_objects"), daos.get("n_pools")], [0, 0]);
}

#[test]
fn of_two_writers_of_a_key_one_wins() {
    let daos = Daos::any();
    let container = daos.container();
    let place = key(object(&container), 1, 1);
    let won = std::thread::scope(|scope| {
        let write =
            |number: u8| container.update(vec![value(place, vec![number])], Existing::Refused);
        let writers: Vec<_> = (0..8)
            .map(|number| scope.spawn(move || write(number)))
            .collect();
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect::<Vec<_>>()
    });
    let winner = won.iter().position(Result::is_ok).unwrap();
    for (number, result) in won
        .iter()
        .enumerate()
        .filter(|(number, _)| *number != winner)
    {
        let error = result.as_ref().unwrap_err();
        assert_eq!(error.kind(), "daos-exists", "{number}");
        assert!(error.to_string().contains(&place.to_string()), "{error}");
    }
    assert_eq!(
        read(&container, &[place]),
        [Some(vec![winner as u8].into())]
    );
    container.punch_objects(&[place.object]).unwrap();
}

#[test]
fn keys_are_listed_and_removed() {
    let daos = Daos::any();
    if daos.settings().library.is_some() {
        daos.set("list_keys", 3);
    }
    let container = daos.container();
    let place = object(&container);
    let keys: Vec<_> = (0..20).map(|at| key(place, at / 10, 100 + at)).collect();
    write(
        &container,
        &keys.iter().map(|&key| value(key, "x")).collect::<Vec<_>>(),
    );
    assert_eq!(container.dkeys(place).unwrap(), [0, 1]);
    assert_eq!(
        container.akeys(place, 1).unwrap(),
        (110..120).collect::<Vec<_>>()
    );
    assert!(container.akeys(place, 5).unwrap().is_empty());
    assert!(container.dkeys(object(&container)).unwrap().is_empty());
    container
        .punch_values(&[keys[3], keys[11], key(place, 9, 9)])
        .unwrap();
    let left = read(&container, &keys)
        .iter()
        .map(Option::is_some)
        .collect::<Vec<_>>();
    assert_eq!(left.iter().filter(|is| **is).count(), 18);
    assert!(!left[3] && !left[11]);
    container.punch_objects(&[place]).unwrap();
    assert!(container.dkeys(place).unwrap().is_empty());
    assert_eq!(read(&container, &keys), vec![None; 20]);
}

#[test]
fn an_object_class_is_resolved_by_the_pool() {
    let daos = Daos::any();
    let container = daos.container();
    let all = container.class("SX").unwrap();
    let one = container.class("S1").unwrap();
    assert_eq!(container.class_name(one).unwrap().as_deref(), Some("S1"));
    assert!(container.class_name(all).unwrap().unwrap().starts_with('S'));
    assert_eq!(one.bits(), 0x0401_0001);
    assert_eq!(container.class("no such").unwrap_err().kind(), "daos-class");
    if let Some(daos) = daos.settings().library.is_some().then_some(&daos) {
        // 8 targets
        assert_eq!(container.class_name(all).unwrap().as_deref(), Some("S8"));
        assert!(matches!(
            container.class("S16"),
            Err(DaosError::Failed { code: -1003, .. })
        ));
        assert_eq!(daos.get("n_objects"), 0);
    }
}

#[test]
fn a_container_is_opened_once_and_closed_with_its_last_user() {
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let before = daos.get("n_connects");
    let one = daos.container();
    let other = daos.container();
    let third = Address::parse("daos://pool/third").unwrap();
    let third = Container::create(&third, daos.settings()).unwrap();
    assert_eq!(daos.get("n_connects") - before, 1);
    assert_eq!([daos.get("n_pools"), daos.get("n_containers")], [1, 2]);
    assert_eq!(one.uuid().unwrap(), other.uuid().unwrap());
    assert_ne!(one.uuid().unwrap(), third.uuid().unwrap());
    drop((one, third));
    assert_eq!([daos.get("n_pools"), daos.get("n_containers")], [1, 1]);
    drop(other);
    let open = ["n_pools", "n_containers", "n_queues", "n_objects"].map(|name| daos.get(name));
    assert_eq!(open, [0; 4]);
}

#[test]
fn many_threads_share_few_queues() {
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let container = daos.container();
    daos.set("delay_us", 500);
    std::thread::scope(|scope| {
        for _ in 0..24 {
            let container = &container;
            scope.spawn(move || {
                let place = object(container);
                for at in 0..20 {
                    write(container, &[value(key(place, 1, at), bytes(at, 500))]);
                    assert_eq!(
                        read(container, &[key(place, 1, at)]),
                        [Some(bytes(at, 500).into())]
                    );
                }
            });
        }
    });
    assert!(daos.get("n_queues") <= 8);
    daos.set("no_queue", 1);
    assert_eq!(read(&container, &[key(object(&container), 1, 1)]), [None]);
}

#[test]
fn what_does_not_exist_is_an_error_with_advice() {
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let open =
        |address| Container::open(&Address::parse(address).unwrap(), daos.settings()).unwrap_err();
    for missing in ["daos://no-pool/c", "daos://pool/no-such-container"] {
        let error = open(missing);
        assert!(
            error.is_missing() && error.to_string().contains("daos cont list"),
            "{error}"
        );
    }
    assert!(open("daos://closed-pool/c").to_string().contains("get-acl"));
    assert_eq!(daos.get("n_pools"), 0);
}

#[test]
fn a_pool_that_may_only_be_read_is_read() {
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let address = Address::parse("daos://read-pool/container").unwrap();
    let container = Container::create(&address, daos.settings()).unwrap();
    let place = key(object(&container), 1, 1);
    assert_eq!(read(&container, &[place]), [None]);
    assert!(container.dkeys(place.object).unwrap().is_empty());
    let error = container
        .update(vec![value(place, "x")], Existing::Replaced)
        .unwrap_err();
    assert!(error.to_string().contains("get-acl"), "{error}");
}

#[test]
fn a_missing_library_is_an_error_that_says_what_to_install() {
    let address = Address::parse("daos://pool/container").unwrap();
    let open = |library: &str| {
        let library = Some(library.into());
        Container::open(
            &address,
            Settings {
                library,
                ..Settings::default()
            },
        )
        .unwrap_err()
    };
    let error = open("/nowhere/libdaos.so.2");
    assert_eq!(error.kind(), "daos-library");
    let message = error.to_string();
    assert!(
        message.contains("daos-client") && message.contains("FEMTOBARN_LIBDAOS"),
        "{message}"
    );
    let error = open("libc.so.6");
    assert!(
        matches!(&error, DaosError::WrongLibrary { function, .. } if function == "daos_init"),
        "{error}"
    );
}

#[test]
fn a_forked_process_makes_its_own_connection_and_leaves_that_of_its_parent() {
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let container = daos.container();
    let place = key(object(&container), 1, 1);
    let other = key(place.object, 1, 2);
    write(&container, &[value(place, "of the parent")]);
    let mut of_both = Some(container);
    assert!(in_a_fork(|| {
        let container = of_both.take().unwrap();
        let found = read(&container, &[place]);
        write(&container, &[value(other, "of the child")]);
        let is_right = found == [Some("of the parent".into())]
            && read(&container, &[other]) == [Some("of the child".into())]
            && daos.get("n_connects") == 1;
        drop(container);
        is_right && daos.get("n_pools") == 0
    }));
    let container = of_both.unwrap();
    assert_eq!(read(&container, &[place]), [Some("of the parent".into())]);
}

#[test]
fn a_process_is_not_forked_while_a_library_is_being_loaded() {
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let container = daos.container();
    let place = key(object(&container), 1, 1);
    write(&container, &[value(place, "of the parent")]);
    let goes_on = AtomicBool::new(true);
    let is_read = std::thread::scope(|scope| {
        scope.spawn(|| {
            let library = Some("/nowhere/libdaos.so.2".into());
            let settings = Settings {
                library,
                ..Settings::default()
            };
            while goes_on.load(Ordering::Relaxed) {
                Container::open(daos.address(), settings.clone()).unwrap_err();
            }
        });
        let read = || read(&container, &[place]) == [Some("of the parent".into())];
        let is_read = (0..30).all(|_| in_a_fork(read));
        goes_on.store(false, Ordering::Relaxed);
        is_read
    });
    assert!(is_read);
}

/// What another process does in `processes_share_a_container`.
#[test]
#[ignore = "runs in another process"]
fn another_process() {
    let index: u32 = std::env::var("FEMTOBARN_TEST_INDEX")
        .unwrap()
        .parse()
        .unwrap();
    let daos = Daos::any();
    let container = daos.container();
    let place = container.class("").unwrap().object(7, index);
    let found = read(&container, &[key(place, 1, 1)])[0].clone();
    let next = found.map_or(1, |found| found[0] + 1);
    write(&container, &[value(key(place, 1, 1), vec![next; 1 << 16])]);
}

#[test]
fn processes_share_a_container() {
    let folder = tempfile::tempdir().unwrap();
    let index = unused();
    for _ in 0..3 {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "another_process"])
            .env("DAOS_STANDIN_DIR", folder.path())
            .env("FEMTOBARN_TEST_INDEX", index.to_string())
            .output()
            .unwrap();
        assert!(
            status.status.success(),
            "{}",
            String::from_utf8_lossy(&status.stderr)
        );
    }
    if std::env::var_os("FEMTOBARN_TEST_DAOS").is_none() {
        let values = walk(folder.path());
        assert_eq!(values, [vec![3; 1 << 16]]);
    }
}

fn walk(folder: &std::path::Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                walk(&path)
            } else {
                vec![std::fs::read(path).unwrap()]
            }
        })
        .collect()
}
