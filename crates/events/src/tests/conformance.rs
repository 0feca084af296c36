//! Tests of the guarantees of every backend: [`all`] runs them with empty stores from a function.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::seal::unseal;
use crate::{
    ABSENT, Backend, Batch, DataSet, DataSetEntry, DataSetPath, DataStore, Overwrite, Parent,
    Popped, ProductId, ProductName, Scan, Uuid, Wanted,
};

/// Runs all tests; `make` creates a new, empty store each time.
pub fn all(make: &dyn Fn() -> Arc<dyn Backend>) {
    let tests: [(&str, Test); 18] = [
        ("datasets", datasets_are_there_once_and_in_order),
        ("deletion", a_name_leads_where_it_was_expected_to),
        ("resumption", a_dataset_that_is_being_deleted_is_not_there),
        ("containers", containers_are_there_once_and_in_order),
        ("products", products_come_back),
        ("shapes", values_of_all_sizes_and_names_come_back),
        ("names", names_of_all_kinds_are_told_apart),
        ("overwrite", what_is_there_is_replaced_or_kept),
        ("later", the_later_of_two_counts),
        ("removal", what_is_removed_is_gone_and_nothing_else),
        (
            "removal by name",
            a_name_is_removed_of_all_events_and_of_nothing_else,
        ),
        ("nameless", what_has_no_name_is_removed),
        ("many", many_products_of_many_parents),
        ("any order", products_are_loaded_in_any_order),
        ("threads", threads_write_and_read_at_once),
        ("notes", the_first_note_counts),
        ("queues", queues_give_each_value_once),
        ("leases", who_does_not_push_any_more_is_not_waited_for),
    ];
    for (name, test) in tests {
        let store = make();
        eprintln!("conformance of {}: {name}", store.url());
        test(&store);
    }
}

type Test = fn(&Arc<dyn Backend>);

fn name(label: &str) -> ProductName {
    ProductName::new(label, "T").unwrap()
}

fn path(text: &str) -> DataSetPath {
    DataSetPath::new(text).unwrap()
}

fn store(backend: &dyn Backend, parent: Parent, event: u64, label: &str, value: &[u8]) {
    let mut batch = Batch::default();
    batch.store(parent, event, &name(label), value);
    backend.write(&batch).unwrap();
}

fn create(backend: &dyn Backend, parent: Parent, numbers: &[u64]) {
    let mut batch = Batch::default();
    for &number in numbers {
        batch.create(parent, number);
    }
    backend.write(&batch).unwrap();
}

fn numbers(backend: &dyn Backend, parent: Parent, from: u64, limit: usize) -> Vec<u64> {
    let scan = Scan {
        parent,
        from,
        limit,
    };
    backend.numbers(&[scan]).unwrap().remove(0)
}

/// The values of products of events.
fn load(
    backend: &dyn Backend,
    parent: Parent,
    name: &ProductName,
    events: &[u64],
) -> Vec<Option<Vec<u8>>> {
    let mut found = vec![None; events.len()];
    let mut n_visits = 0;
    let wanted = [Wanted {
        parent,
        name,
        events,
    }];
    let result = backend.load(&wanted, &mut |w, e, stored| {
        assert_eq!(w, 0);
        n_visits += 1;
        found[e] = stored.map(|stored| unseal(stored).unwrap().0.to_vec());
        Ok(())
    });
    result.unwrap();
    assert_eq!(n_visits, events.len());
    found
}

fn datasets_are_there_once_and_in_order(backend: &Arc<dyn Backend>) {
    let [a, b] = [1, 2].map(|n| Uuid([n; 16]));
    let [entry_a, entry_b] = [a, b].map(DataSetEntry::live);
    assert_eq!(find(&**backend, ["x"]), [None]);
    assert_eq!(backend.create_dataset(&path("x"), a).unwrap(), entry_a);
    assert_eq!(backend.create_dataset(&path("x"), b).unwrap(), entry_a);
    assert_eq!(find(&**backend, ["x"]), [Some(entry_a)]);
    let within = ["é", "a b", "a", "z\0", "z", "aa", "#", "{x}", "a}"];
    for name in within {
        backend
            .create_dataset(&path("x").join(name).unwrap(), b)
            .unwrap();
    }
    backend.create_dataset(&path("x/a/deeper"), b).unwrap();
    backend.create_dataset(&path("xy"), b).unwrap();
    let listed = |parent: &str, after: Option<&str>, limit| {
        let found = backend.datasets(&path(parent), after, limit).unwrap();
        found.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    let mut sorted = within.to_vec();
    sorted.sort_unstable();
    assert_eq!(listed("x", None, 100), sorted);
    assert_eq!(listed("x", None, 3), sorted[..3]);
    assert_eq!(listed("x", Some(sorted[2]), 3), sorted[3..6]);
    assert_eq!(listed("x", Some("a!"), 2), ["aa", "a}"]);
    assert_eq!(listed("", None, 100), ["x", "xy"]);
    assert_eq!(listed("x/a", None, 100), ["deeper"]);
    assert!(listed("nothing", None, 100).is_empty());
    let found = find(&**backend, ["x/a", "nothing", "x", "x/a"]);
    assert_eq!(found, [Some(entry_b), None, Some(entry_a), Some(entry_b)]);
    assert!(backend.find_datasets(&[]).unwrap().is_empty());
    for _ in 0..2 {
        backend
            .replace_dataset(&path("x/a"), entry_b, None)
            .unwrap();
    }
    assert_eq!(find(&**backend, ["x/a"]), [None]);
    sorted.retain(|name| *name != "a");
    assert_eq!(listed("x", None, 100), sorted);
    assert_eq!(listed("x/a", None, 100), ["deeper"]);
    assert_eq!(backend.create_dataset(&path("x/a"), a).unwrap(), entry_a);
}

fn find<const N: usize>(backend: &dyn Backend, names: [&str; N]) -> Vec<Option<DataSetEntry>> {
    backend.find_datasets(&names.map(path)).unwrap()
}

fn a_name_leads_where_it_was_expected_to(backend: &Arc<dyn Backend>) {
    let [a, b] = [1, 2].map(|n| Uuid([n; 16]));
    let x = path("x");
    let leads_to = |entry| assert_eq!(find(&**backend, ["x"]), [entry]);
    let replace = |from, to| backend.replace_dataset(&x, from, to).unwrap();
    let (live, deleting) = (DataSetEntry::live(a), DataSetEntry::deleting(a));
    // a missing dataset is not created
    replace(live, Some(deleting));
    leads_to(None);
    backend.create_dataset(&x, a).unwrap();
    for unexpected in [deleting, DataSetEntry::live(b), DataSetEntry::deleting(b)] {
        replace(unexpected, None);
        replace(unexpected, Some(DataSetEntry::live(b)));
        leads_to(Some(live));
    }
    replace(live, Some(deleting));
    leads_to(Some(deleting));
    // it is listed, and its name is taken
    let listed = backend.datasets(&path(""), None, 10).unwrap();
    assert_eq!(listed, [("x".to_owned(), deleting)]);
    assert_eq!(backend.create_dataset(&x, b).unwrap(), deleting);
    replace(live, None);
    leads_to(Some(deleting));
    replace(deleting, None);
    leads_to(None);
    assert_eq!(
        backend.create_dataset(&x, b).unwrap(),
        DataSetEntry::live(b)
    );
    // a late end of the old deletion does not affect the new dataset
    replace(deleting, None);
    let listed = backend.datasets(&path(""), None, 10).unwrap();
    assert_eq!(listed, [("x".to_owned(), DataSetEntry::live(b))]);
}

fn a_dataset_that_is_being_deleted_is_not_there(backend: &Arc<dyn Backend>) {
    let store = DataStore::new(backend.clone());
    let root = store.root();
    let old = root.create_dataset("a").unwrap();
    let within = root.create_dataset("a/b/c").unwrap();
    let event = within.create(1).unwrap().create(2).unwrap().create(3);
    let event = event.unwrap();
    event.store(&name("x"), b"x", Overwrite::Replace).unwrap();
    root.create_dataset("other").unwrap();
    // the state after a deletion that ended before anything was removed
    let [live, deleting] = [
        DataSetEntry::live(old.uuid()),
        DataSetEntry::deleting(old.uuid()),
    ];
    backend
        .replace_dataset(&path("a"), live, Some(deleting))
        .unwrap();
    let names = |dataset: &DataSet| {
        let names = dataset
            .datasets(None)
            .map(|found| found.unwrap().path().to_string());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&root), ["other"]);
    for gone in ["a", "a/b", "a/b/c"] {
        assert!(root.find_dataset(gone).unwrap().is_none());
        let error = root.dataset(gone).unwrap_err().to_string();
        assert!(error.contains("finish it by deleting \"a\""), "{error}");
    }
    for (dataset, new) in [(&root, "a"), (&root, "a/b/new"), (&within, "new")] {
        let error = dataset.create_dataset(new).unwrap_err();
        assert_eq!(error.kind(), "dataset-deleting", "{error}");
        assert!(
            error.to_string().contains("\"a\" is being deleted"),
            "{error}"
        );
    }
    root.delete_dataset("a").unwrap();
    assert_eq!(
        find(&**backend, ["a", "a/b", "a/b/c", "a/b/new", "a/b/c/new"]),
        [None; 5]
    );
    assert!(!event.exists().unwrap());
    let error = event.load(&name("x")).unwrap_err();
    assert_eq!(error.kind(), "not-in-store", "{error}");
    let error = root.delete_dataset("a").unwrap_err();
    assert_eq!(error.kind(), "not-in-store", "{error}");
    // the new dataset with the name stays, even if the old one is deleted once more
    let new = root.create_dataset("a/b").unwrap();
    old.remove().unwrap();
    assert_eq!(names(&root), ["a", "other"]);
    assert_eq!(root.find_dataset("a/b").unwrap(), Some(new));
    root.remove().unwrap();
    assert!(names(&root).is_empty());
}

fn containers_are_there_once_and_in_order(backend: &Arc<dyn Backend>) {
    let dataset = Uuid([3; 16]);
    let parents = [
        Parent::dataset(dataset),
        Parent::run(dataset, 1),
        Parent::subrun(dataset, 1, 1),
        Parent::subrun(dataset, 1, 256),
        Parent::subrun(Uuid([0x7d; 16]), 0x7d7b, 0x7b7d),
    ];
    let some = [5, 0, 300, ABSENT - 1, 256, 255, 1 << 40, 5, 1];
    for parent in parents {
        assert!(numbers(&**backend, parent, 0, 10).is_empty());
        create(&**backend, parent, &some);
        create(&**backend, parent, &some[..3]);
    }
    let mut sorted = some.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    for parent in parents {
        assert_eq!(numbers(&**backend, parent, 0, usize::MAX), sorted);
        assert_eq!(numbers(&**backend, parent, 5, 2), [5, 255]);
        assert_eq!(numbers(&**backend, parent, 6, 2), [255, 256]);
        assert_eq!(numbers(&**backend, parent, ABSENT - 1, 9), [ABSENT - 1]);
        let asked = [256, 2, 0, ABSENT - 1, 77];
        let there = backend.contains(&[(parent, &asked)]).unwrap().concat();
        assert_eq!(there, [true, false, true, true, false]);
        assert!(
            backend
                .contains(&[(parent, &[])])
                .unwrap()
                .concat()
                .is_empty()
        );
    }
    let asked = parents.map(|parent| (parent, [5, 77, 255].as_slice()));
    let there = backend.contains(&asked).unwrap();
    assert_eq!(there, vec![vec![true, false, true]; parents.len()]);
    let scans = parents.map(|parent| Scan {
        parent,
        from: 1,
        limit: 3,
    });
    assert_eq!(backend.numbers(&scans).unwrap(), vec![vec![1, 5, 255]; 5]);
    assert!(backend.numbers(&[]).unwrap().is_empty());
    backend.remove(&parents[1], &[5, 9, 300]).unwrap();
    assert_eq!(numbers(&**backend, parents[1], 1, 2), [1, 255]);
    assert_eq!(numbers(&**backend, parents[0], 1, 2), [1, 5]);
    assert_eq!(numbers(&**backend, parents[2], 1, 2), [1, 5]);
}

fn products_come_back(backend: &Arc<dyn Backend>) {
    let dataset = Uuid([4; 16]);
    // of each of the four kinds of containers, with two types of one label
    let containers = [
        (Parent::dataset(dataset), ABSENT),
        (Parent::run(dataset, 7), ABSENT),
        (Parent::subrun(dataset, 7, 8), ABSENT),
        (Parent::subrun(dataset, 7, 8), 9),
        (Parent::subrun(dataset, 7, 8), 10),
    ];
    let names = [name("a"), ProductName::new("a", "U").unwrap(), name("")];
    let value = |c: usize, n: usize| format!("container {c}, name {n}").into_bytes();
    let mut batch = Batch::default();
    for (c, (parent, event)) in containers.iter().enumerate() {
        for (n, name) in names.iter().enumerate() {
            batch.store(*parent, *event, name, &value(c, n));
        }
    }
    assert!(backend.write(&batch).unwrap().kept.is_empty());
    for (c, (parent, event)) in containers.iter().enumerate() {
        for (n, name) in names.iter().enumerate() {
            assert_eq!(
                load(&**backend, *parent, name, &[*event]),
                [Some(value(c, n))]
            );
        }
        assert_eq!(load(&**backend, *parent, &name("b"), &[*event]), [None]);
        let mut sorted = names.to_vec();
        sorted.sort_unstable();
        assert_eq!(backend.names(parent, *event, None).unwrap(), sorted);
    }
    // in any order, twice, and with gaps
    let parent = containers[3].0;
    let events = [10, 11, 9, 8, 9, 10, ABSENT];
    let expected = [Some(4), None, Some(3), None, Some(3), Some(4), Some(2)];
    let expected = expected.map(|c| c.map(|c| value(c, 0)));
    assert_eq!(load(&**backend, parent, &names[0], &events), expected);
    // several parents and names in one call; some requests have no events
    let wanted = containers.map(|(parent, _)| Wanted {
        parent,
        name: &names[1],
        events: &[ABSENT, 9],
    });
    let empty = Wanted {
        events: &[],
        ..wanted[0]
    };
    let wanted = [&wanted[..], &[empty]].concat();
    let mut found = vec![[None, None]; 6];
    let result = backend.load(&wanted, &mut |w, e, stored| {
        found[w][e] = stored.map(|stored| unseal(stored).unwrap().0.to_vec());
        Ok(())
    });
    result.unwrap();
    let expected = [
        (Some(0), None),
        (Some(1), None),
        (Some(2), Some(3)),
        (Some(2), Some(3)),
        (Some(2), Some(3)),
        (None, None),
    ];
    let expected = expected.map(|(a, b)| [a, b].map(|c| c.map(|c| value(c, 1))));
    assert_eq!(found, expected);
    assert!(
        backend
            .load(&[], &mut |_, _, _| panic!("nothing was wanted"))
            .is_ok()
    );
    // the visitor may stop the load
    let stopped = backend.load(&wanted, &mut |_, _, _| {
        let what = "stop".into();
        Err(crate::EventsError::Usage { what })
    });
    assert_eq!(stopped.unwrap_err().to_string(), "stop");
    assert!(backend.names(&parent, 77, None).unwrap().is_empty());
    backend.flush().unwrap();
}

fn values_of_all_sizes_and_names_come_back(backend: &Arc<dyn Backend>) {
    let parent = Parent::subrun(Uuid([5; 16]), 0, 0);
    let sizes = [0, 1, 7, 100, 1000, 4096, 65_536, 3_000_000];
    for (event, size) in (0..).zip(sizes) {
        let value: Vec<u8> = (0..size)
            .map(|i: usize| i.to_le_bytes()[0] ^ 0x5a)
            .collect();
        store(&**backend, parent, event, "x", &value);
        assert_eq!(
            load(&**backend, parent, &name("x"), &[event]),
            [Some(value)]
        );
    }
    let long = "ä".repeat(700);
    let labels = [
        "a/b",
        "a\0b",
        "\0",
        "ünïcode 漢字",
        "{a}",
        "a}b",
        " ",
        "\r\n",
        &long,
    ];
    for label in labels {
        store(&**backend, parent, 100, label, label.as_bytes());
    }
    for label in labels {
        let found = load(&**backend, parent, &name(label), &[100]);
        assert_eq!(found, [Some(label.as_bytes().to_vec())]);
    }
    let mut sorted: Vec<_> = labels.iter().map(|label| name(label)).collect();
    sorted.sort_unstable();
    assert_eq!(backend.names(&parent, 100, None).unwrap(), sorted);
}

/// Names that are easily confused.
fn odd_names() -> Vec<String> {
    let odd = [
        "\u{e9}",   // one character,
        "e\u{301}", // and the same as a letter and an accent: names are bytes
        "\u{212b}",
        "\u{c5}",
        "E",
        "e",
        "\0",
        "\0\0",
        "e\0",
        " ",
        "  ",
        "\t\r\n",
        "%2F",
        "{}",
        "*",
        "[e]",
        "\\",
        "\"",
        "\u{feff}",
        "\u{202e}",
        "\u{10ffff}",
    ];
    odd.map(str::to_owned).to_vec()
}

fn names_of_all_kinds_are_told_apart(backend: &Arc<dyn Backend>) {
    let parent = Parent::subrun(Uuid([11; 16]), 0, 0);
    let longest = crate::LONGEST_NAME;
    // labels: any characters except those that end them; types: any
    let mut labels = odd_names();
    labels.extend(["", "a/b", "/", "//", ".."].map(str::to_owned));
    let mut names: Vec<_> = labels.iter().map(|label| name(label)).collect();
    names.extend(
        ["", "#", "T#", "std::map<int,std::string>"].map(|of| ProductName::new("e", of).unwrap()),
    );
    names.push(ProductName::new(&"l".repeat(longest - 2), "T").unwrap());
    names.push(ProductName::new(&"l".repeat(longest - 3), "T").unwrap());
    names.push(ProductName::new("", &"\u{e9}".repeat((longest - 1) / 2)).unwrap());
    let mut batch = Batch::default();
    for name in &names {
        batch.store(parent, 1, name, name.as_str().as_bytes());
    }
    backend.write(&batch).unwrap();
    for name in &names {
        let expected = name.as_str().as_bytes().to_vec();
        assert_eq!(load(&**backend, parent, name, &[1]), [Some(expected)]);
    }
    names.sort_unstable();
    assert_eq!(backend.names(&parent, 1, None).unwrap(), names);
    for label in labels
        .iter()
        .map(String::as_str)
        .chain(["none", "l", "e#", "e#T"])
    {
        let own: Vec<_> = names.iter().filter(|name| name.label() == label).collect();
        let found = backend.names(&parent, 1, Some(label)).unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), own, "{label:?}");
    }
    for bad in ["#", "a#b", &"l".repeat(longest)] {
        assert_eq!(ProductName::new(bad, "T").unwrap_err().kind(), "bad-name");
    }
    // datasets: any characters between slashes
    let mut names = odd_names();
    names.extend(["#".into(), "..".into(), "d".repeat(longest - 2)]);
    for (name, n) in names.iter().zip(1..) {
        let path = path("o").join(name).unwrap();
        backend.create_dataset(&path, Uuid([n; 16])).unwrap();
        let found = backend.find_datasets(&[path]).unwrap();
        assert_eq!(found, [Some(DataSetEntry::live(Uuid([n; 16])))]);
    }
    names.sort_unstable();
    let found = backend.datasets(&path("o"), None, 100).unwrap();
    let found: Vec<_> = found.into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, names);
    let deepest = path(&["x"; crate::DEEPEST].join("/"));
    backend.create_dataset(&deepest, Uuid([1; 16])).unwrap();
    let above = path(deepest.split().0);
    let found = backend.datasets(&above, None, 9).unwrap();
    assert_eq!(found, [("x".to_owned(), DataSetEntry::live(Uuid([1; 16])))]);
    for bad in [
        "a//b",
        &"d".repeat(longest + 1),
        &["x"; crate::DEEPEST + 1].join("/"),
    ] {
        assert_eq!(DataSetPath::new(bad).unwrap_err().kind(), "bad-name");
    }
    // queues and notes: any characters
    let queues = backend.queues();
    let mut names = odd_names();
    names.extend(["".into(), "/".into(), "a#b".into(), "q".repeat(longest)]);
    for name in &names {
        assert!(queues.create(name).unwrap(), "{name:?}");
        assert!(queues.push(name, name.as_bytes()).unwrap());
        let note = format!("objects/{name}");
        assert_eq!(
            backend.note(&note, name.as_bytes()).unwrap(),
            name.as_bytes()
        );
    }
    for name in &names {
        let value = name.as_bytes().to_vec();
        assert_eq!(
            backend.noted(&format!("objects/{name}")).unwrap(),
            Some(value.clone())
        );
        assert_eq!(queues.pop(name, LONG).unwrap(), Popped::Value(value));
        assert!(queues.destroy(name).unwrap());
    }
}

fn what_is_there_is_replaced_or_kept(backend: &Arc<dyn Backend>) {
    let parent = Parent::subrun(Uuid([6; 16]), 1, 2);
    store(&**backend, parent, 3, "x", b"old");
    let mut batch = Batch::new(Overwrite::Keep);
    for event in [2, 3, 4] {
        batch.create(parent, event);
        batch.store(parent, event, &name("x"), b"new");
    }
    let kept = ProductId {
        container: parent.member(3),
        name: name("x"),
    };
    assert_eq!(backend.write(&batch).unwrap().kept, [kept]);
    let all = |value: &[u8]| Some(value.to_vec());
    let found = load(&**backend, parent, &name("x"), &[2, 3, 4]);
    assert_eq!(found, [all(b"new"), all(b"old"), all(b"new")]);
    assert_eq!(numbers(&**backend, parent, 0, 9), [2, 3, 4]);
    assert_eq!(backend.write(&batch).unwrap().kept.len(), 3);
    store(
        &**backend,
        parent,
        3,
        "x",
        b"newer, and longer than it was before",
    );
    let found = load(&**backend, parent, &name("x"), &[3]);
    assert_eq!(found, [all(b"newer, and longer than it was before")]);
}

fn the_later_of_two_counts(backend: &Arc<dyn Backend>) {
    let parent = Parent::subrun(Uuid([7; 16]), 1, 2);
    let mut batch = Batch::default();
    for value in [b"first", b"again", b"third"] {
        batch.store(parent, 1, &name("x"), value);
        batch.store(parent, 2, &name("x"), b"other");
    }
    backend.write(&batch).unwrap();
    let found = load(&**backend, parent, &name("x"), &[1]);
    assert_eq!(found, [Some(b"third".to_vec())]);
}

fn products_are_loaded_in_any_order(backend: &Arc<dyn Backend>) {
    let dataset = Uuid([9; 16]);
    let parents = [2, 1].map(|subrun| Parent::subrun(dataset, 1, subrun));
    let names = ["c", "a", "bb", "b", "none"].map(name);
    let value = |parent: usize, event: u64, n: usize| {
        let is_there = event < 300 || event == 1 << 40 || event == ABSENT - 1;
        let has = is_there && n < 4 && (event % 3 + n as u64 + parent as u64).is_multiple_of(3);
        has.then(|| format!("{parent} {event} {n}").into_bytes())
    };
    let mut batch = Batch::default();
    for (p, parent) in parents.iter().enumerate() {
        for event in (0..300).chain([1 << 40, ABSENT - 1]) {
            for (n, name) in names.iter().enumerate() {
                if let Some(value) = value(p, event, n) {
                    batch.store(*parent, event, name, &value);
                }
            }
        }
    }
    backend.write(&batch).unwrap();
    let orders: [Vec<u64>; 6] = [
        (0..300).collect(),
        (0..300).rev().collect(),
        vec![5, 5, 5, 6, 6, 300, 1 << 40, 1 << 40, ABSENT - 1],
        vec![0, 100, 101, 250, 299, 1000, 1 << 40, ABSENT - 1],
        vec![ABSENT - 1, 0],
        vec![],
    ];
    for (a, first) in orders.iter().enumerate() {
        for second in orders.iter().skip(a % 2) {
            let mut wanted = Vec::new();
            for (n, name) in names.iter().enumerate() {
                for (p, parent) in parents.iter().enumerate() {
                    let events = if n == 2 { second } else { first };
                    let parent = *parent;
                    wanted.push((
                        p,
                        n,
                        Wanted {
                            parent,
                            name,
                            events,
                        },
                    ));
                }
            }
            // one name twice
            wanted.push(wanted[0]);
            let all: Vec<Wanted<'_>> = wanted.iter().map(|(_, _, wanted)| *wanted).collect();
            let mut n_visits = 0;
            let result = backend.load(&all, &mut |w, e, stored| {
                let (p, n, wanted) = &wanted[w];
                let found = stored.map(|stored| unseal(stored).unwrap().0.to_vec());
                assert_eq!(found, value(*p, wanted.events[e], *n));
                n_visits += 1;
                Ok(())
            });
            result.unwrap();
            assert_eq!(n_visits, all.iter().map(|w| w.events.len()).sum::<usize>());
        }
    }
}

fn what_is_removed_is_gone_and_nothing_else(backend: &Arc<dyn Backend>) {
    let dataset = Uuid([8; 16]);
    let [a, b] = [Parent::subrun(dataset, 1, 1), Parent::subrun(dataset, 1, 2)];
    let run = Parent::run(dataset, 1);
    let fill = || {
        for parent in [a, b] {
            create(&**backend, parent, &[1, 2, 3]);
            for event in [1, 2, 3, ABSENT] {
                store(&**backend, parent, event, "x", b"x");
                store(&**backend, parent, event, "y", b"y");
            }
        }
        create(&**backend, run, &[1, 2]);
        store(&**backend, run, ABSENT, "x", b"x");
    };
    fill();
    backend.remove_products(&a, 1, Some(&name("x"))).unwrap();
    backend.remove_products(&a, 2, None).unwrap();
    backend.remove_products(&a, 77, None).unwrap();
    backend.remove_products(&a, 77, Some(&name("z"))).unwrap();
    let there = |parent, label: &str| {
        let found = load(&**backend, parent, &name(label), &[1, 2, 3, ABSENT]);
        found.iter().map(Option::is_some).collect::<Vec<_>>()
    };
    assert_eq!(there(a, "x"), [false, false, true, true]);
    assert_eq!(there(a, "y"), [true, false, true, true]);
    assert_eq!(there(b, "x"), [true; 4]);
    let counted = |parent| {
        let counts = backend.name_counts(&parent).unwrap().into_iter();
        counts
            .map(|count| (count.name, count.n_events, count.is_own))
            .collect::<Vec<_>>()
    };
    assert_eq!(counted(a), [(name("x"), 1, true), (name("y"), 2, true)]);
    assert_eq!(counted(b), [(name("x"), 3, true), (name("y"), 3, true)]);
    assert_eq!(counted(run), [(name("x"), 0, true)]);
    assert!(counted(Parent::run(dataset, 2)).is_empty());
    backend.remove_products(&b, ABSENT, None).unwrap();
    assert_eq!(counted(b), [(name("x"), 3, false), (name("y"), 3, false)]);
    store(&**backend, b, ABSENT, "x", b"x");
    store(&**backend, b, ABSENT, "y", b"y");
    assert_eq!(backend.names(&a, 1, None).unwrap(), [name("y")]);
    assert!(backend.names(&a, 2, None).unwrap().is_empty());
    assert_eq!(numbers(&**backend, a, 0, 9), [1, 2, 3]);
    backend.clear(&a).unwrap();
    backend.clear(&a).unwrap();
    assert_eq!(there(a, "x"), [false; 4]);
    assert!(numbers(&**backend, a, 0, 9).is_empty());
    assert_eq!(
        (there(b, "x"), there(b, "y")),
        (vec![true; 4], vec![true; 4])
    );
    assert_eq!(numbers(&**backend, run, 0, 9), [1, 2]);
    backend.clear(&run).unwrap();
    assert!(numbers(&**backend, run, 0, 9).is_empty());
    assert_eq!(load(&**backend, run, &name("x"), &[ABSENT]), [None]);
    assert_eq!(there(b, "x"), [true; 4]);
    // removed products can be stored again
    fill();
    assert_eq!(there(a, "y"), [true; 4]);
    assert_eq!(backend.names(&a, 2, None).unwrap(), [name("x"), name("y")]);
}

fn a_name_is_removed_of_all_events_and_of_nothing_else(backend: &Arc<dyn Backend>) {
    let dataset = Uuid([12; 16]);
    let [a, b] = [Parent::subrun(dataset, 1, 1), Parent::subrun(dataset, 1, 2)];
    // more than one command takes, and labels that are prefixes of others
    let events: Vec<u64> = (0..2500).map(|n| 7 * n).chain([ABSENT]).collect();
    let labels = ["x", "x2", "y", "x\0"];
    let mut batch = Batch::default();
    for parent in [a, b] {
        for event in &events {
            for label in labels {
                batch.store(parent, *event, &name(label), label.as_bytes());
            }
        }
    }
    backend.write(&batch).unwrap();
    let there = |parent, label: &str| {
        let found = load(&**backend, parent, &name(label), &events);
        found.iter().flatten().count()
    };
    let own = |parent| load(&**backend, parent, &name("x"), &[ABSENT]);
    assert_eq!(backend.remove_named(&a, &name("x")).unwrap(), 2500);
    assert_eq!(there(a, "x"), 1);
    assert_eq!(own(a), [Some(b"x".to_vec())]);
    for (parent, label) in [(a, "x2"), (a, "y"), (a, "x\0"), (b, "x"), (b, "y")] {
        assert_eq!(there(parent, label), 2501, "{label}");
    }
    // again, and for missing products
    for (parent, label) in [(a, "x"), (a, "z"), (Parent::subrun(dataset, 3, 3), "x")] {
        assert_eq!(backend.remove_named(&parent, &name(label)).unwrap(), 0);
    }
    assert_eq!(own(a), [Some(b"x".to_vec())]);
    backend
        .remove_products(&b, ABSENT, Some(&name("y")))
        .unwrap();
    assert_eq!(backend.remove_named(&b, &name("y")).unwrap(), 2500);
    let counts = backend.name_counts(&b).unwrap();
    assert!(
        counts.iter().all(|count| count.name != name("y")),
        "{counts:?}"
    );
    // removed products can be stored again
    store(&**backend, a, 7, "x", b"again");
    assert_eq!(
        load(&**backend, a, &name("x"), &[0, 7]),
        [None, Some(b"again".to_vec())]
    );
}

fn what_has_no_name_is_removed(backend: &Arc<dyn Backend>) {
    let [first, live, deleting, last] = [0, 3, 4, 255].map(|n| Uuid([n; 16]));
    let fill = |dataset: Uuid| {
        let parent = Parent::subrun(dataset, 1, 2);
        store(&**backend, parent, 3, "x", b"x");
        store(&**backend, Parent::run(dataset, 1), ABSENT, "x", b"x");
        for (parent, number) in [
            (Parent::dataset(dataset), 1),
            (Parent::run(dataset, 1), 2),
            (parent, 3),
        ] {
            create(&**backend, parent, &[number]);
        }
    };
    backend.create_dataset(&path("a/b"), live).unwrap();
    let entry = backend.create_dataset(&path("c"), deleting).unwrap();
    backend
        .replace_dataset(&path("c"), entry, Some(DataSetEntry::deleting(deleting)))
        .unwrap();
    [live, deleting].into_iter().for_each(fill);
    assert!(backend.remove_nameless().unwrap().is_empty());
    [first, last].into_iter().for_each(fill);
    // a deletion removes data that was written after it began
    let late = Uuid([7; 16]);
    create(&**backend, Parent::subrun(late, 1, 2), &[3]);
    let only_product = Uuid([8; 16]);
    store(&**backend, Parent::dataset(only_product), ABSENT, "y", b"");

    let removed = backend.remove_nameless().unwrap();
    assert!(removed.iter().eq([first, late, only_product, last].iter()));
    assert!(backend.remove_nameless().unwrap().is_empty());
    for dataset in [first, late, live, deleting, last] {
        let stays = [live, deleting].contains(&dataset);
        let parent = Parent::subrun(dataset, 1, 2);
        let found = load(&**backend, parent, &name("x"), &[3]).remove(0);
        assert_eq!(found.is_some(), stays);
        assert_eq!(!numbers(&**backend, parent, 0, 9).is_empty(), stays);
        let runs = numbers(&**backend, Parent::dataset(dataset), 0, 9);
        assert_eq!(!runs.is_empty(), stays);
    }
    let products = load(
        &**backend,
        Parent::dataset(only_product),
        &name("y"),
        &[ABSENT],
    );
    assert_eq!(products, [None]);
}

fn many_products_of_many_parents(backend: &Arc<dyn Backend>) {
    let dataset = Uuid([9; 16]);
    let parents: Vec<_> = (0..7).map(|n| Parent::subrun(dataset, n / 3, n)).collect();
    let names = [name("p"), name("q")];
    let events: Vec<u64> = (0..1500).map(|n| n * 3).collect();
    let value = |parent: Parent, event: u64| {
        format!("{} {event}", parent.subrun)
            .repeat(usize::try_from(event % 5).unwrap())
            .into_bytes()
    };
    let mut batch = Batch::default();
    for event in &events {
        for parent in &parents {
            batch.create(*parent, *event);
            for name in &names {
                batch.store(*parent, *event, name, &value(*parent, *event));
            }
        }
    }
    backend.write(&batch).unwrap();
    let mut n = 0;
    let wanted: Vec<_> = parents
        .iter()
        .flat_map(|&parent| names.iter().map(move |name| (parent, name)))
        .map(|(parent, name)| Wanted {
            parent,
            name,
            events: &events,
        })
        .collect();
    let result = backend.load(&wanted, &mut |w, e, stored| {
        n += 1;
        let value = value(wanted[w].parent, events[e]);
        assert_eq!(unseal(stored.unwrap()).unwrap().0, value);
        Ok(())
    });
    result.unwrap();
    assert_eq!(n, 7 * 2 * 1500);
    let scans: Vec<_> = parents
        .iter()
        .map(|&parent| Scan {
            parent,
            from: 0,
            limit: 5000,
        })
        .collect();
    assert!(
        backend
            .numbers(&scans)
            .unwrap()
            .iter()
            .all(|found| *found == events)
    );
    let n_targets = backend.n_targets();
    assert!(
        parents
            .iter()
            .all(|parent| backend.target(parent) < n_targets)
    );
}

fn threads_write_and_read_at_once(backend: &Arc<dyn Backend>) {
    let parent = Parent::subrun(Uuid([10; 16]), 0, 0);
    thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                for chunk in 0..20 {
                    let mut batch = Batch::default();
                    for n in 0..25 {
                        let event = (chunk * 25 + n) * 4 + thread;
                        batch.create(parent, event);
                        batch.store(parent, event, &name("x"), &event.to_le_bytes());
                    }
                    backend.write(&batch).unwrap();
                }
            });
        }
        scope.spawn(move || {
            let started = Instant::now();
            loop {
                // if an event is found, its product is found as well
                let events = numbers(&**backend, parent, 0, usize::MAX);
                for (event, value) in
                    events
                        .iter()
                        .zip(load(&**backend, parent, &name("x"), &events))
                {
                    assert_eq!(value.as_deref(), Some(&event.to_le_bytes()[..]));
                }
                if events.len() == 2000 {
                    break;
                }
                assert!(started.elapsed() < Duration::from_secs(60));
            }
        });
    });
}

fn the_first_note_counts(backend: &Arc<dyn Backend>) {
    assert_eq!(backend.noted("a").unwrap(), None);
    assert_eq!(backend.note("a", b"1").unwrap(), b"1");
    assert_eq!(backend.note("a", b"2").unwrap(), b"1");
    assert_eq!(backend.noted("a").unwrap(), Some(b"1".to_vec()));
    assert_eq!(backend.noted("b").unwrap(), None);
    // unless the caller replaces it
    backend.replace_note("a", b"3").unwrap();
    backend.replace_note("c", b"4").unwrap();
    assert_eq!(backend.noted("a").unwrap(), Some(b"3".to_vec()));
    assert_eq!(backend.note("c", b"5").unwrap(), b"4");
    // or is removed: then the next is the first
    backend.remove_note("a").unwrap();
    backend.remove_note("a").unwrap();
    assert_eq!(backend.noted("a").unwrap(), None);
    assert_eq!(backend.note("a", b"6").unwrap(), b"6");
}

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(20);

fn queues_give_each_value_once(backend: &Arc<dyn Backend>) {
    let producer = Uuid([1; 16]);
    assert!(!backend.queues().produce("q", producer, LONG).unwrap());
    assert!(!backend.queues().push("q", b"x").unwrap());
    assert_eq!(backend.queues().pop("q", SHORT).unwrap(), Popped::NoQueue);
    assert_eq!(backend.queues().n_values("q").unwrap(), None);
    assert!(!backend.queues().destroy("q").unwrap());
    assert!(backend.queues().create("q").unwrap());
    assert!(!backend.queues().create("q").unwrap());
    assert_eq!(backend.queues().pop("q", LONG).unwrap(), Popped::Ended);
    assert!(backend.queues().produce("q", producer, LONG).unwrap());
    assert_eq!(backend.queues().pop("q", SHORT).unwrap(), Popped::Nothing);
    for value in [&b"one"[..], b"", b"three"] {
        assert!(backend.queues().push("q", value).unwrap());
    }
    assert_eq!(backend.queues().n_values("q").unwrap(), Some(3));
    for value in [&b"one"[..], b"", b"three"] {
        assert_eq!(
            backend.queues().pop("q", LONG).unwrap(),
            Popped::Value(value.to_vec())
        );
    }
    // a returned value is the next, even if others were pushed meanwhile
    assert!(backend.queues().put_back("q", b"three").unwrap());
    assert_eq!(backend.queues().n_values("q").unwrap(), Some(1));
    assert!(backend.queues().push("q", b"four").unwrap());
    assert!(backend.queues().put_back("q", b"").unwrap());
    assert!(backend.queues().put_back("q", b"one").unwrap());
    for value in [&b"one"[..], b"", b"three", b"four"] {
        assert_eq!(
            backend.queues().pop("q", SHORT).unwrap(),
            Popped::Value(value.to_vec())
        );
    }
    assert_eq!(
        backend.queues().pop("q", Duration::ZERO).unwrap(),
        Popped::Nothing
    );
    assert!(!backend.queues().put_back("none", b"x").unwrap());
    // two producers push and two consumers take. All four begin before the first producer ends, so the queue
    // does not end in between
    let (begun, all_begun) = channel();
    let taken = thread::scope(|scope| {
        let takers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut taken = Vec::new();
                    loop {
                        match backend.queues().pop("q", LONG).unwrap() {
                            Popped::Value(value) => taken.push(value[0]),
                            Popped::Ended => return taken,
                            other => panic!("{other:?}"),
                        }
                    }
                })
            })
            .collect();
        for thread in 0..2u8 {
            let begun = begun.clone();
            scope.spawn(move || {
                let producer = Uuid([2 + thread; 16]);
                assert!(backend.queues().produce("q", producer, LONG).unwrap());
                begun.send(()).unwrap();
                for n in 0..50 {
                    assert!(backend.queues().push("q", &[n * 2 + thread]).unwrap());
                }
                thread::sleep(SHORT);
                backend.queues().end_producing("q", producer).unwrap();
            });
        }
        for _ in 0..2 {
            all_begun.recv_timeout(LONG).unwrap();
        }
        backend.queues().end_producing("q", producer).unwrap();
        takers
            .into_iter()
            .flat_map(|taker| taker.join().unwrap())
            .collect::<Vec<_>>()
    });
    let mut sorted = taken;
    sorted.sort_unstable();
    assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    // one name is a prefix of another
    assert!(backend.queues().create("qq").unwrap());
    assert!(backend.queues().push("qq", b"other").unwrap());
    assert!(backend.queues().push("q", b"mine").unwrap());
    assert!(backend.queues().destroy("q").unwrap());
    assert!(!backend.queues().push("q", b"x").unwrap());
    assert_eq!(
        backend.queues().pop("qq", LONG).unwrap(),
        Popped::Value(b"other".to_vec())
    );
    assert!(backend.queues().create("q").unwrap());
    assert_eq!(backend.queues().n_values("q").unwrap(), Some(0));
}

fn who_does_not_push_any_more_is_not_waited_for(backend: &Arc<dyn Backend>) {
    let producer = Uuid([1; 16]);
    assert!(backend.queues().create("q").unwrap());
    assert!(
        backend
            .queues()
            .produce("q", producer, Duration::from_millis(300))
            .unwrap()
    );
    let started = Instant::now();
    assert_eq!(backend.queues().pop("q", LONG).unwrap(), Popped::Ended);
    assert!(started.elapsed() < LONG / 2);
    backend.queues().end_producing("q", producer).unwrap();
    backend.queues().end_producing("nothing", producer).unwrap();
}
