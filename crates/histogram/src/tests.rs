//! Histograms that ROOT wrote (`testdata/make_histograms.py`), intact and damaged. Tests in Python compare sums with
//! hadd's.

use std::sync::Arc;

use femtobarn_rootfile::RootFile;

use crate::histogram::Histogram;
use crate::{HistogramError, Infos};

struct Stored {
    class: String,
    object: Vec<u8>,
    key_len: u16,
    infos: Arc<Infos>,
}

impl Stored {
    fn parse(&self) -> Histogram {
        self.with(&self.object).unwrap()
    }

    fn with(&self, object: &[u8]) -> Result<Histogram, HistogramError> {
        Histogram::parse(&self.class, object, self.key_len, &self.infos)
    }
}

fn stored() -> Vec<(String, Stored)> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/histograms.root"
    );
    let source = femtobarn_io::LocalSource::open(path.as_ref()).unwrap();
    let file = RootFile::open(source).unwrap();
    let infos = Arc::new(Infos::new(file.streamer_infos().unwrap()));
    let keys = file.keys().iter();
    keys.map(|key| {
        let stored = Stored {
            class: key.class_name.clone(),
            object: file.read_object(key).unwrap().to_vec(),
            key_len: key.key_len,
            infos: Arc::clone(&infos),
        };
        (key.name.clone(), stored)
    })
    .collect()
}

fn find(name: &str) -> Stored {
    let mut all = stored().into_iter();
    all.find(|(known, _)| known == name).unwrap().1
}

#[test]
fn what_is_added_to_itself_is_twice_and_nothing_else_changes() {
    for (name, stored) in stored() {
        let one = stored.parse();
        let mut sum = one.clone();
        sum.add(&one).unwrap();
        assert_eq!(sum.bytes.len(), one.bytes.len(), "{name}");
        for bin in 0..one.contents.n {
            let most = if name == "short" {
                32767.0
            } else {
                f64::INFINITY
            };
            assert_eq!(
                sum.content(bin),
                (2.0 * one.content(bin)).min(most),
                "{name}"
            );
        }
        let members = one.shape.statistics().into_iter().chain(["fEntries"]);
        // contents that were set directly have no sums until they are added
        for member in members.filter(|_| name != "short") {
            assert_eq!(
                sum.number(member).unwrap(),
                2.0 * one.number(member).unwrap(),
                "{name} {member}"
            );
        }
        assert_eq!(
            sum.buffered().unwrap(),
            2 * one.buffered().unwrap(),
            "{name}"
        );
        assert_eq!(sum.layout.title, one.layout.title);
    }
}

#[test]
fn references_are_put_right_where_bytes_move() {
    for (name, stored) in stored() {
        let one = stored.parse();
        assert_eq!(one.layout.opaque, Vec::<String>::new(), "{name}");
        let moved = one.object(stored.key_len + 8).unwrap().into_owned();
        let there =
            Histogram::parse(&stored.class, &moved, stored.key_len + 8, &stored.infos).unwrap();
        assert_eq!(there.layout.members, one.layout.members, "{name}");
        assert_eq!(there.axes().unwrap(), one.axes().unwrap(), "{name}");
        assert_eq!(moved != one.bytes, !one.layout.tags.is_empty(), "{name}");
        assert_eq!(there.object(stored.key_len).unwrap(), one.bytes, "{name}");
    }
}

#[test]
fn squares_that_only_one_has_are_made_and_what_is_behind_them_moves() {
    let (mut one, two) = (find("fitted").parse(), find("squares").parse());
    let before = one.clone();
    one.add(&two).unwrap();
    assert_eq!(one.bytes.len(), before.bytes.len() + 80);
    assert_eq!(one.layout.tags.len(), before.layout.tags.len());
    let squares = one.reals("fSumw2.fArray").unwrap();
    for (bin, square) in squares.iter().enumerate() {
        let more = if bin == 3 { 9.0 } else { 0.0 };
        assert_eq!(*square, before.content(bin) + more);
    }
}

#[test]
fn labels_come_together_and_the_axis_grows() {
    let (mut one, two) = (find("labels").parse(), find("other_labels").parse());
    one.add(&two).unwrap();
    let axis = one.axes().unwrap().remove(0);
    let texts: Vec<_> = axis
        .labels
        .iter()
        .map(|(_, text)| text.as_slice())
        .collect();
    assert_eq!(texts, [b"a", b"b", b"c", b"d", b"e", b"f"]);
    assert_eq!((axis.n_bins, axis.high), (8, 8.0));
    let contents: Vec<_> = (1..=8).map(|bin| one.content(bin)).collect();
    assert_eq!(contents, [1.0, 7.0, 4.0, 2.0, 3.0, 4.0, 0.0, 0.0]);
    assert_eq!(one.layout.opaque, Vec::<String>::new());
}

#[test]
fn what_does_not_belong_together_is_refused_and_left_alone() {
    let mut one = find("fitted").parse();
    for other in ["labels", "profile", "three", "buffered"] {
        let before = one.bytes.clone();
        let error = one.add(&find(other).parse()).unwrap_err().to_string();
        let expected = match other {
            "labels" => "the first is a TH1F and this one a TH1D",
            "profile" | "three" => "the first is a TH1F and this one a T",
            _ => "BufferEmpty",
        };
        assert!(error.contains(expected), "{other}: {error}");
        assert_eq!(one.bytes, before, "{other}");
    }
}

#[test]
fn damage_is_an_error_or_harmless() {
    for (name, stored) in stored() {
        let whole = stored.parse();
        for length in 0..stored.object.len() {
            let cut = stored.object.get(..length).unwrap();
            assert!(stored.with(cut).is_err(), "{name} of {length} bytes");
        }
        for at in 0..stored.object.len() {
            for flip in [1, 0x40, 0x80, 0xff] {
                let mut object = stored.object.clone();
                object[at] ^= flip;
                let Ok(mut damaged) = stored.with(&object) else {
                    continue;
                };
                let _ = whole.clone().add(&damaged);
                let _ = damaged.object(stored.key_len + 8);
                let _ = damaged.add(&whole);
            }
        }
    }
}
