//! The values of an ntuple.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests"
)]

mod common;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use common::{Daos, unused};
use femtobarn_daos::mapping::{
    DaosAnchor, EarlierPage, EarlierPages, FOOTER, HEADER, LISTS, Layout, SPLICE_BYTES, Spliced,
    splice,
};
use femtobarn_daos::{
    Container, Envelopes, Existing, NTupleValues, ObjectClass, Update, ValueKey, add_name, names,
    names_and_classes, remove_name,
};

fn anchor(envelopes: &Envelopes) -> DaosAnchor {
    DaosAnchor {
        version: [1, 0, 0, 2],
        header_size: envelopes.header.len() as u32,
        header_length: 1000,
        footer_size: envelopes.footer.len() as u32,
        footer_length: 2000,
        class: String::new(),
        spliced: None,
    }
}

fn envelopes(of: &str) -> Envelopes {
    Envelopes {
        header: format!("header of {of}").into(),
        footer: format!("the footer of {of}").into(),
    }
}

/// A name that no other test uses.
fn name() -> String {
    format!("Events {}", unused())
}

fn find(container: &Arc<Container>, name: &str) -> Option<(NTupleValues, DaosAnchor)> {
    NTupleValues::find(container.clone(), name).unwrap()
}

#[test]
fn an_ntuple_is_found_by_its_name_with_its_pages_after_it_was_published() {
    let daos = Daos::any();
    let container = daos.shared();
    for class in ["", "S1", "SX"] {
        let name = name();
        let values = NTupleValues::new(container.clone(), &name, class).unwrap();
        let pages: Vec<Bytes> = (0..40u8)
            .map(|at| vec![at; 100_000 + at as usize].into())
            .collect();
        let sizes: Vec<u64> = pages.iter().map(|page| page.len() as u64).collect();
        let pieces = splice(&sizes, SPLICE_BYTES);
        let mut parts = vec![Vec::new(); 4];
        for (page, piece) in pages.iter().zip(&pieces) {
            parts[piece.value].push(page.clone());
        }
        assert_eq!([0, 3].map(|at| parts[at].len()), [10, 10]);
        values.write((10..).zip(parts)).unwrap();
        let lists = ["first list", "second"].map(|list| vec![Bytes::from(list)]);
        values.write((LISTS..).zip(lists)).unwrap();
        assert!(find(&container, &name).is_none());

        let envelopes = envelopes(&name);
        let largest_value = SPLICE_BYTES as u32;
        let anchor = DaosAnchor {
            class: class.into(),
            spliced: Some(Spliced {
                class: values.places().pages,
                largest_value,
                block: 0,
                index: 0,
            }),
            ..anchor(&envelopes)
        };
        values
            .publish(&envelopes, &anchor, Existing::Refused)
            .unwrap();

        let (found, read) = find(&container, &name).unwrap();
        assert_eq!(read, anchor);
        assert_eq!(found.places(), values.places());
        assert_eq!(found.read_envelopes(&read).unwrap(), envelopes);
        let metadata = [
            (LISTS + 1, 0..6),
            (HEADER, 0..6),
            (LISTS, 2..10),
            (FOOTER, 4..10),
        ];
        let read = found.read(&metadata).unwrap();
        assert_eq!(read, ["second", "header", "rst list", "footer"]);
        let ranges = pieces.iter().zip(&sizes).rev().map(|(piece, size)| {
            let start = u64::from(piece.offset);
            (10 + piece.value as u64, start..start + size)
        });
        let ranges: Vec<_> = ranges.collect();
        let back = found.read(&ranges).unwrap();
        assert!(back.iter().rev().eq(&pages));

        found.remove((10..14).chain([LISTS])).unwrap();
        found.remove_envelopes().unwrap();
        assert!(find(&container, &name).is_none());
        assert_eq!(found.read(&ranges[..1]).unwrap_err().kind(), "daos-missing");
    }
}

#[test]
fn a_value_with_many_pages_is_read_once_and_at_its_size() {
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let container = daos.shared();
    let name = name();
    let values = NTupleValues::new(container.clone(), &name, "").unwrap();
    values
        .write([(0, vec![Bytes::from(vec![1; 900_000])])])
        .unwrap();
    let envelopes = envelopes(&name);
    let spliced = Some(Spliced {
        class: values.places().pages,
        largest_value: 900_000,
        block: 0,
        index: 0,
    });
    values
        .publish(
            &envelopes,
            &DaosAnchor {
                spliced,
                ..anchor(&envelopes)
            },
            Existing::Refused,
        )
        .unwrap();
    let (found, _) = find(&container, &name).unwrap();
    for (reader, n) in [(&found, 1), (&values, 2)] {
        // a reader that does not know the largest value finds out its size by the first request
        let before = daos.get("n_fetches");
        let wanted: Vec<_> = (1..8).map(|at| (0, at * 1000..at * 1000 + 1000)).collect();
        assert_eq!(reader.read(&wanted).unwrap().len(), 7);
        assert_eq!(daos.get("n_fetches") - before, n);
    }
}

#[test]
fn missing_short_and_long_values_are_errors_that_name_the_key() {
    let daos = Daos::any();
    let container = daos.shared();
    let values = NTupleValues::new(container, &name(), "").unwrap();
    values
        .write([(0, vec![Bytes::from("0123456789")])])
        .unwrap();
    let key = |number| values.places().numbered(number).unwrap().to_string();
    let cases = [
        (vec![(0, 5..11)], "daos-size", key(0)),
        (vec![(0, 20..21)], "daos-size", key(0)),
        (vec![(0, 0..1), (1, 0..1)], "daos-missing", key(1)),
        (vec![(LISTS, 0..5)], "daos-missing", key(LISTS)),
        (vec![(HEADER, 0..5)], "daos-missing", key(HEADER)),
        (
            vec![(u64::from(u32::MAX), 0..5)],
            "daos-number",
            "4294967295".into(),
        ),
    ];
    for (wanted, kind, named) in cases {
        let error = values.read(&wanted).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(&named), "{error}");
    }
    let (stored, wrong) = (envelopes("stored"), envelopes("another"));
    values
        .publish(&stored, &anchor(&stored), Existing::Refused)
        .unwrap();
    assert_eq!(values.read_envelopes(&anchor(&stored)).unwrap(), stored);
    let error = values.read_envelopes(&anchor(&wrong)).unwrap_err();
    assert_eq!(error.kind(), "daos-size");
    values.remove([0]).unwrap();
    values.remove_envelopes().unwrap();
}

#[test]
fn an_existing_ntuple_is_refused_or_replaced_as_a_whole() {
    let daos = Daos::any();
    let container = daos.shared();
    let name = name();
    let values = NTupleValues::new(container.clone(), &name, "").unwrap();
    let (old, new) = (envelopes("old"), envelopes("a new one"));
    values
        .publish(&old, &anchor(&old), Existing::Refused)
        .unwrap();
    let error = values
        .publish(&new, &anchor(&new), Existing::Refused)
        .unwrap_err();
    assert_eq!(error.kind(), "daos-exists");
    let (found, read) = find(&container, &name).unwrap();
    assert_eq!(found.read_envelopes(&read).unwrap(), old);
    let is_standin = daos.settings().library.is_some();
    let before = if is_standin { daos.get("n_updates") } else { 0 };
    values
        .publish(&new, &anchor(&new), Existing::Replaced)
        .unwrap();
    if is_standin {
        assert_eq!(daos.get("n_updates") - before, 1);
    }
    let (found, read) = find(&container, &name).unwrap();
    assert_eq!(found.read_envelopes(&read).unwrap(), new);
    found.remove_envelopes().unwrap();
}

#[test]
fn header_and_footer_are_those_of_the_anchor_also_of_one_that_is_being_replaced() {
    let daos = Daos::any();
    let container = daos.shared();
    let name = name();
    let values = NTupleValues::new(container.clone(), &name, "").unwrap();
    let all: Vec<Envelopes> = (1..20).map(|n| envelopes(&"long ".repeat(n))).collect();
    let publish = |own: &Envelopes| {
        let published = values.publish(own, &anchor(own), Existing::Replaced);
        published.unwrap();
    };
    publish(&all[0]);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for own in all.iter().cycle().take(300) {
                publish(own);
                std::thread::sleep(Duration::from_millis(2));
            }
            is_done.store(true, Ordering::Relaxed);
        });
        let mut seen = HashSet::new();
        while !is_done.load(Ordering::Relaxed) {
            let (found, read) = find(&container, &name).unwrap();
            let own = found.envelopes().unwrap();
            assert!(all.contains(own));
            assert_eq!(read, anchor(own));
            seen.insert(own.header.len());
        }
        assert!(seen.len() > 10, "{seen:?}");
    });
    values.remove_envelopes().unwrap();
}

/// Writes values as ROOT does.
fn write(container: &Container, values: Vec<(ValueKey, Bytes)>) {
    let update = |(key, value)| Update {
        key,
        parts: vec![value],
    };
    container
        .update(values.into_iter().map(update).collect(), Existing::Replaced)
        .unwrap();
}

#[test]
fn ntuples_that_root_wrote_at_different_times_are_found_with_their_layout() {
    let daos = Daos::any();
    let container = daos.shared();
    let [chosen, all, two] = ["", "SX", "S2"].map(|class| container.class(class).unwrap());
    // until June 2026 metadata had SX, since then the anchor has the class that DAOS chooses, and the rest that of pages
    for (anchors, metadata, pages, class, layout) in [
        (all, all, two, "S2", Layout::ObjectPerCluster),
        (all, all, all, "SX", Layout::ObjectPerCluster),
        (chosen, chosen, chosen, "", Layout::ObjectPerPage),
        (chosen, all, all, "SX", Layout::ObjectPerPage),
        (chosen, two, two, "S2", Layout::ObjectPerPage),
    ] {
        let name = name();
        let mut places = *NTupleValues::new(container.clone(), &name, "")
            .unwrap()
            .places();
        (places.anchor, places.metadata, places.pages) = (anchors, metadata, pages);
        places.first_list = 0;
        let envelopes = envelopes(&name);
        let anchor = DaosAnchor {
            class: class.into(),
            ..anchor(&envelopes)
        };
        let page = match layout {
            Layout::ObjectPerPage => places.numbered(42).unwrap(),
            Layout::ObjectPerCluster => places.page_of_cluster(3, 5, 42),
        };
        let bytes = Bytes::copy_from_slice(&anchor.to_bytes().unwrap());
        let metadata = [
            (places.anchor(), bytes),
            (places.header(), envelopes.header.clone()),
        ];
        write(
            &container,
            [
                &metadata[..],
                &[
                    (places.footer(), envelopes.footer.clone()),
                    (page, "page".into()),
                ],
            ]
            .concat(),
        );

        let (found, read) = find(&container, &name).unwrap();
        assert_eq!(
            (found.places(), &read),
            (&places, &anchor),
            "{class} {layout:?}"
        );
        assert_eq!(found.read_envelopes(&read).unwrap(), envelopes);
        assert_eq!(found.layout(42, 3, 5).unwrap(), layout);
        assert_eq!(found.layout(41, 3, 5).unwrap_err().kind(), "daos-missing");
        let part = match layout {
            Layout::ObjectPerPage => found.read(&[(42, 1..4)]),
            Layout::ObjectPerCluster => {
                let mut pages = EarlierPages::default();
                let page = pages.add(&EarlierPage {
                    cluster: 3,
                    column: 5,
                    number: 42,
                    offset: 0,
                    size: 4,
                });
                found.read_earlier(&pages, &[(page.value as u64, 1..4)])
            }
        };
        assert_eq!(part.unwrap(), ["age"]);
        found.remove_envelopes().unwrap();
        container.punch_objects(&[page.object]).unwrap();
    }
}

#[test]
fn pages_in_cages_are_read_as_whole_cages_with_one_request_for_a_column() {
    let daos = Daos::any();
    let container = daos.shared();
    let values = NTupleValues::new(container.clone(), &name(), "").unwrap();
    let (mut pages, mut wanted, mut expected) = (EarlierPages::default(), Vec::new(), Vec::new());
    let mut cages = Vec::new();
    for cage in 0..6u64 {
        let (cluster, column) = (cage / 4, cage % 2);
        let key = values.places().page_of_cluster(cluster, column, cage);
        let mut whole = Vec::new();
        for at in 0..16 {
            let page = vec![(16 * cage + at) as u8; 1000 + at as usize];
            let size = page.len() as u64;
            let place = pages.add(&EarlierPage {
                cluster,
                column,
                number: cage,
                offset: whole.len() as u32,
                size,
            });
            let start = u64::from(place.offset);
            wanted.push((place.value as u64, start..start + size));
            whole.extend(&page);
            expected.push(page);
        }
        cages.push((key, whole.into()));
    }
    let objects: Vec<_> = cages.iter().map(|(key, _)| key.object).collect();
    write(&container, cages);
    let is_standin = daos.settings().library.is_some();
    let before = if is_standin { daos.get("n_fetches") } else { 0 };
    wanted.reverse();
    let found = values.read_earlier(&pages, &wanted).unwrap();
    assert!(found.iter().rev().eq(&expected));
    if is_standin {
        // two columns in each of two clusters
        assert_eq!(daos.get("n_fetches") - before, 4);
    }
    let error = values.read_earlier(&pages, &[(6, 0..1)]).unwrap_err();
    assert_eq!(error.kind(), "daos-number");
    container.punch_objects(&objects).unwrap();
}

#[test]
fn a_pool_that_does_not_allow_all_targets_is_no_obstacle() {
    let Some(daos) = Daos::with_faults() else {
        return;
    };
    let container = daos.shared();
    daos.set("no_class", 1);
    let name = name();
    let values = NTupleValues::new(container.clone(), &name, "").unwrap();
    let envelopes = envelopes(&name);
    values
        .publish(&envelopes, &anchor(&envelopes), Existing::Refused)
        .unwrap();
    assert!(find(&container, &name).is_some());
    let error = NTupleValues::new(container, &name, "SX").unwrap_err();
    assert!(error.to_string().contains("may not allow"), "{error}");
}

#[test]
fn names_are_listed_until_they_are_removed() {
    let daos = Daos::any();
    let container = daos.container();
    let mut own = [name(), name()];
    own.sort();
    let [chosen, other] = ["", "S2"].map(|class| container.class(class).unwrap());
    for name in own.iter().chain(&own[..1]) {
        add_name(&container, name, chosen).unwrap();
    }
    // each class of a name is known, and attribute sets are not among ntuples
    let set = format!("{}/0/_clone/runs", own[0]);
    for name in [&own[0], &set] {
        add_name(&container, name, other).unwrap();
    }
    let all = names_and_classes(&container).unwrap();
    for known in [(&own[0], chosen), (&own[0], other), (&set, other)] {
        let is_it = |(name, class): &&(String, ObjectClass)| (name, *class) == known;
        assert_eq!(all.iter().filter(is_it).count(), 1, "{known:?}");
    }
    let is_own = |name: &String| own.contains(name);
    let found = |container| names(container).unwrap().into_iter().filter(is_own);
    assert!(found(&container).eq(own.clone()));
    remove_name(&container, &own[0], other).unwrap();
    remove_name(&container, &set, other).unwrap();
    assert!(found(&container).eq(own.clone()));
    remove_name(&container, &own[0], chosen).unwrap();
    assert!(found(&container).eq(own[1..].iter().cloned()));
    remove_name(&container, &own[1], chosen).unwrap();
}

#[test]
fn a_number_is_claimed_by_one_writer() {
    let daos = Daos::any();
    let values = NTupleValues::new(daos.shared(), &name(), "").unwrap();
    assert_eq!(values.sizes(&[LISTS, 7]).unwrap(), [None, None]);
    assert!(values.claim(LISTS, "one".into()).unwrap());
    assert!(!values.claim(LISTS, "other".into()).unwrap());
    values.write([(LISTS + 9, vec!["list".into()])]).unwrap();
    assert_eq!(values.sizes(&[LISTS, 7]).unwrap(), [Some(3), None]);
    assert_eq!(values.lists().unwrap(), [LISTS, LISTS + 9]);
    assert_eq!(values.read(&[(LISTS, 0..3)]).unwrap(), ["one"]);
    values.remove([LISTS, LISTS + 9]).unwrap();
    assert!(values.lists().unwrap().is_empty());
}

#[test]
fn an_ntuple_can_refer_to_the_values_of_another() {
    let daos = Daos::any();
    let container = daos.shared();
    let (own, other) = (name(), name());
    let values = NTupleValues::new(container.clone(), &own, "").unwrap();
    let pages = [(3, vec!["page".into()]), (LISTS, vec!["list".into()])];
    values.write(pages).unwrap();
    let envelopes = envelopes(&other);
    let anchor = DaosAnchor {
        spliced: Some(Spliced {
            class: values.places().pages,
            largest_value: 4,
            block: 0,
            index: values.places().values,
        }),
        ..anchor(&envelopes)
    };
    let named = values.named(&other);
    named
        .publish(&envelopes, &anchor, Existing::Refused)
        .unwrap();
    assert!(find(&container, &own).is_none());
    let (found, read) = find(&container, &other).unwrap();
    assert_eq!(found.read_envelopes(&read).unwrap(), envelopes);
    assert_eq!(
        found.read(&[(3, 0..4), (LISTS, 0..4)]).unwrap(),
        ["page", "list"]
    );
    named.remove_envelopes().unwrap();
    assert!(find(&container, &other).is_none());
    assert_eq!(values.read(&[(3, 0..4)]).unwrap(), ["page"]);
    values.remove([3, LISTS]).unwrap();
}
