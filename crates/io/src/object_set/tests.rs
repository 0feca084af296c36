use std::collections::BTreeMap;

use femtobarn_testkit::{Servers, can_store};

use super::*;
use crate::ByteSource;

/// A base in a directory and one in a bucket of MinIO, in both forms of its URL.
struct Stores {
    folder: tempfile::TempDir,
    server: Option<Servers>,
}

impl Stores {
    fn start() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            server: can_store("minio").then(|| Servers::start("minio")),
        }
    }

    /// URLs of bases with this name, and their settings.
    fn bases(&self, name: &str) -> Vec<(String, Settings)> {
        let folder = self.folder.path().display();
        let mut out = vec![(format!("ntpl+file://{folder}/{name}"), Settings::default())];
        if let Some(server) = &self.server {
            let with = |url: String, more: &[(&str, &str)]| {
                let keys = [
                    ("region", "us-east-1"),
                    ("access_key_id", &*server.keys.0),
                    ("secret_access_key", &*server.keys.1),
                    ("most_retries", "1"),
                ];
                let given = keys.iter().chain(more).copied().collect::<Vec<_>>();
                let settings = Settings::with(&url, &given).unwrap();
                (url, settings)
            };
            let endpoint = server.endpoint.as_str();
            out.push(with(format!("ntpl+s3+{endpoint}/private/a/{name}"), &[]));
            let given = [("endpoint", endpoint)];
            out.push(with(format!("ntpl+s3://private/b/{name}"), &given));
        }
        out
    }
}

fn read(source: &dyn ByteSource, id: u64, range: std::ops::Range<u32>) -> Result<Bytes, IoError> {
    let start = object_address(id, range.start).unwrap();
    let wanted = [start..start + u64::from(range.end - range.start)];
    Ok(source.read_ranges(&wanted)?.remove(0))
}

#[test]
fn addresses_of_objects_are_those_that_are_found_again() {
    for (id, offset) in [(0, 0), (7, 5), (LARGEST_OBJECT, u32::MAX)] {
        let address = object_address(id, offset).unwrap();
        assert_eq!(located(address), Some((id, offset.into())));
        assert!(address < ANCHOR);
    }
    assert_eq!(object_address(LARGEST_OBJECT + 1, 0), None);
    assert_eq!((located(5), located(ANCHOR)), (None, None));
}

#[test]
fn what_is_created_is_read_by_number_and_only_with_an_anchor() {
    let stores = Stores::start();
    for (url, settings) in stores.bases("n") {
        let set = Arc::new(ObjectSet::open(&url, &settings).unwrap());
        let mut uploads = Uploads::new(set.clone(), &settings).unwrap();
        assert!(uploads.claim(0, Bytes::from_static(b"header")).unwrap());
        for id in 1..100u64 {
            uploads
                .send(id, {
                    let n = u8::try_from(id).unwrap();
                    vec![
                        vec![n; 700 * usize::from(n)].into(),
                        vec![n; 300 * usize::from(n)].into(),
                    ]
                })
                .unwrap();
        }
        uploads.wait().unwrap();
        let mut names: Vec<String> = set.list().unwrap().into_iter().map(|o| o.name).collect();
        names.sort_by_key(|name| name.parse::<u64>().unwrap());
        let expected: Vec<String> = (0..100).map(|id| id.to_string()).collect();
        assert_eq!(names, expected);
        if url.starts_with("ntpl+s3") {
            // without a list, too
            let found = set.find(0..200).unwrap().into_iter();
            assert_eq!(found.map(|o| o.name).collect::<Vec<_>>(), expected);
        }
        assert!(set.anchor().unwrap().is_none());
        let error = ObjectSetSource::open(&url, &settings).unwrap_err();
        assert_eq!(error.kind(), "file-not-found", "{error}");
        set.publish(Bytes::from_static(b"{}"), None).unwrap();
        uploads.keep();
        drop(uploads);

        let source = ObjectSetSource::open(&url, &settings).unwrap();
        assert_eq!(source.meta().size, ANCHOR + 2);
        let before = source.traffic();
        let range = |id: u64, from: u32, n: u64| {
            let start = object_address(id, from).unwrap();
            start..start + n
        };
        let ranges = [range(99, 0, 99_000), range(0, 3, 3), range(7, 6990, 10)];
        let found = source.read_ranges(&ranges).unwrap();
        assert_eq!((found[0].len(), &*found[1]), (99_000, &b"der"[..]));
        assert!(found[2].iter().all(|&byte| byte == 7));
        if let (Some(before), Some(now)) = (before, source.traffic()) {
            assert_eq!((before.requests, now.requests), (1, 4));
        }
        let anchor = source.read_ranges(&[anchor_range(source.meta().size)]);
        assert_eq!(anchor.unwrap()[0], "{}");

        let missing = read(&*source, 100, 0..1).unwrap_err();
        assert_eq!(missing.kind(), "file-not-found");
        assert!(
            missing.to_string().contains(&format!("{url}/100")),
            "{missing}"
        );
        for range in [0..7, 3..7, 9..10] {
            let short = read(&*source, 0, range).unwrap_err();
            assert!(matches!(short, IoError::ShortRead { .. }), "{short}");
            assert!(short.to_string().contains(&format!("{url}/0")), "{short}");
        }
        let over = object_address(5, u32::MAX).unwrap();
        for outside in [5..10, over..over + 2, ANCHOR..ANCHOR + 3] {
            assert!(source.read_ranges(&[outside]).is_err());
        }
    }
}

#[test]
fn a_number_is_given_to_one_writer_and_dropped_ones_leave_nothing() {
    let stores = Stores::start();
    for (url, settings) in stores.bases("n") {
        let open = || {
            let set = Arc::new(ObjectSet::open(&url, &settings).unwrap());
            Uploads::new(set, &settings).unwrap()
        };
        let (mut one, mut other) = (open(), open());
        assert!(one.claim(0, Bytes::from_static(b"one")).unwrap());
        assert!(!other.claim(0, Bytes::from_static(b"other")).unwrap());
        assert!(other.claim(1 << 20, Bytes::from_static(b"other")).unwrap());
        // an object that must not be there is an error of the next call, which names it
        other.send(0, vec![Bytes::from_static(b"other")]).unwrap();
        let error = other.wait().unwrap_err();
        assert!(error.to_string().contains(&format!("{url}/0")), "{error}");
        assert!(other.wait().is_err() && other.send(5, vec![Bytes::new()]).is_err());
        one.send(1, vec![Bytes::from_static(b"more")]).unwrap();
        drop(one);
        drop(other);
        let left = ObjectSet::open(&url, &settings).unwrap().list().unwrap();
        assert_eq!(left, [], "{url}");
    }
}

#[test]
fn of_several_anchors_one_is_written_and_replacing_needs_the_known_one() {
    let stores = Stores::start();
    for (url, settings) in stores.bases("n") {
        let open = || ObjectSet::open(&url, &settings).unwrap();
        let written = std::thread::scope(|scope| {
            let write = |n: usize| {
                let set = open();
                scope.spawn(move || set.publish(format!("{{\"n\": {n}}}").into(), None))
            };
            let all: Vec<_> = (0..8).map(write).collect();
            all.into_iter()
                .map(|one| one.join().unwrap())
                .collect::<Vec<_>>()
        });
        let kinds: Vec<&str> = written
            .iter()
            .filter_map(|it| Some(it.as_ref().err()?.kind()))
            .collect();
        assert_eq!(kinds.len(), 7, "{url}: {written:?}");
        let (known, first) = open().anchor().unwrap().unwrap();
        open()
            .publish("{\"replaced\": true}".into(), Some(&known))
            .unwrap();
        let again = open()
            .publish("{\"n\": 9}".into(), Some(&known))
            .unwrap_err();
        assert!(matches!(again, IoError::Overtaken { .. }), "{again}");
        let (_, second) = open().anchor().unwrap().unwrap();
        assert!(first != second && second == "{\"replaced\": true}");
    }
}

#[test]
fn objects_of_other_bases_are_read_where_they_are() {
    let stores = Stores::start();
    let ours: BTreeMap<_, _> = stores.bases("in/one").into_iter().collect();
    for (url, settings) in stores.bases("all") {
        let other = url.replace("/all", "/in/one");
        assert!(ours.contains_key(&other));
        let set = ObjectSet::open(&url, &settings).unwrap();
        let base = set.sees(&other, "", &settings).unwrap();
        assert_eq!(base, "../in/one");
        let inputs = ObjectSet::open(&other, &settings).unwrap();
        assert!(
            inputs
                .create(3, Bytes::from_static(b"theirs").into())
                .unwrap()
        );
        assert!(set.create(3, Bytes::from_static(b"own").into()).unwrap());
        let anchor =
            format!(r#"{{"femtobarnBases": [{{"first": 2147483648, "base": "{base}"}}]}}"#);
        set.publish(anchor.into(), None).unwrap();
        let source = ObjectSetSource::open(&url, &settings).unwrap();
        assert_eq!(read(&*source, 3, 0..3).unwrap(), "own");
        assert_eq!(read(&*source, (1 << 31) + 3, 0..6).unwrap(), "theirs");
        let missing = read(&*source, (1 << 31) + 4, 0..6).unwrap_err();
        assert!(
            missing.to_string().contains(&format!("{other}/4")),
            "{missing}"
        );
    }
}

#[test]
fn root_names_its_keys_by_its_own_variables() {
    let address = crate::object::Address::parse("ntpl+s3+https://h:9/b/n").unwrap();
    let environment: BTreeMap<String, String> = [
        ("S3_ACCESS_KEY", "id"),
        ("S3_SECRET_KEY", "secret"),
        ("S3_REGION", "cern"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let with = |address: &crate::object::Address| {
        crate::object::Options::with(address, &Settings::default(), &environment).unwrap()
    };
    let found = with(&address).config;
    let has = |name: &str, value: &str| found.get(name).is_some_and(|found| found == value);
    assert!(has("aws_access_key_id", "id") && has("aws_secret_access_key", "secret"));
    assert!(has("aws_region", "cern") && has("aws_endpoint_url_s3", "https://h:9"));
    // of other objects, they say nothing
    let other = crate::object::Address::parse("s3://b/n").unwrap();
    assert!(!with(&other).config.contains_key("aws_access_key_id"));
}
