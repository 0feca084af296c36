//! Histograms that ROOT wrote (`testdata/make_histograms.py`), intact and damaged. Tests in Python compare sums with
//! hadd's.

use std::sync::Arc;

use femtobarn_rootfile::RootFile;

use crate::classes::known;
use crate::histogram::Histogram;
use crate::{AxisParts, Bins, HistogramError, Infos, Moments, Parts};

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
        assert_eq!(sum.title(), one.title());
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

#[test]
fn classes_are_described_as_root_describes_them() {
    let (own, roots) = (known(), find("labels").infos);
    let mut compared = 0;
    for info in roots.all() {
        let Some(known) = own.newest(&info.name) else {
            continue;
        };
        compared += 1;
        let head = |info: &femtobarn_rootfile::StreamerInfo| (info.version, info.checksum);
        assert_eq!(head(known), head(info), "{}", info.name);
        assert_eq!(known.elements.len(), info.elements.len(), "{}", info.name);
        for (one, two) in known.elements.iter().zip(&info.elements) {
            // only the beginnings of comments have a meaning
            let mut two = two.clone();
            two.title.clone_from(&one.title);
            assert_eq!(*one, two, "{}", info.name);
        }
    }
    assert!(compared > 20, "{compared}");
}

fn axis(title: &str, edges: &[f64]) -> AxisParts {
    AxisParts::new(title.to_owned(), edges.to_vec(), Vec::new())
}

fn parts(axes: Vec<AxisParts>, bins: Bins) -> Parts {
    Parts {
        name: "made".to_owned(),
        title: "a title".to_owned(),
        axes,
        bins,
        sums: None,
    }
}

#[test]
fn what_is_made_of_parts_has_them() {
    let sizes = [
        ("i1", 1),
        ("i2", 2),
        ("i4", 4),
        ("i8", 8),
        ("f4", 4),
        ("f8", 8),
    ];
    let edges: [&[f64]; 3] = [&[0.0, 1.0, 2.0], &[-1.0, 0.0, 5.0], &[0.0, 0.5]];
    for n in 1..=3 {
        for (dtype, size) in sizes {
            let axes: Vec<_> = edges.iter().take(n).map(|edges| axis("x", edges)).collect();
            let n_cells: usize = axes.iter().map(|axis| axis.edges.len() + 1).product();
            let contents: Vec<u8> = (0..64).cycle().take(n_cells * size).collect();
            let squares = vec![2.0; n_cells];
            let bins = Bins::Counts {
                dtype: dtype.to_owned(),
                contents: contents.clone(),
                squares: Some(squares.clone()),
            };
            let made = Histogram::build(&parts(axes.clone(), bins)).unwrap();
            assert_eq!(made.axis_parts().unwrap(), axes);
            assert_eq!(made.contents().unwrap(), (dtype, contents.as_slice()));
            assert_eq!(made.variances().unwrap(), squares);
            assert_eq!(
                (made.name(), made.title()),
                ("made".to_owned(), "a title".to_owned())
            );
            let renamed = made.renamed(&"n".repeat(300)).unwrap();
            assert_eq!(renamed.name(), "n".repeat(300));
            assert_eq!(renamed.contents().unwrap(), made.contents().unwrap());
            assert!(made.streamer_infos().len() > 10);
        }
    }
}

#[test]
fn moments_of_profiles_come_back() {
    let moments = Moments {
        weights: vec![0.0, 2.0, 3.0, 1.0],
        weight_squares: vec![0.0, 2.0, 4.0, 1.0],
        means: vec![0.0, 1.5, -2.0, 4.0],
        deltas: vec![0.0, 0.5, 6.0, 0.0],
    };
    let bins = Bins::Means(moments.clone());
    let made = Histogram::build(&parts(vec![axis("", &[0.0, 1.0, 2.0])], bins)).unwrap();
    assert_eq!(made.class(), "TProfile");
    assert_eq!(made.moments().unwrap(), Some(moments));
    let errors = made.variances().unwrap();
    assert_eq!(errors, [0.0, 0.125, 6.0 / 3.0 / (9.0 / 4.0), 0.0]);
}

#[test]
fn what_root_does_not_have_is_refused() {
    let counts = |dtype: &str, n: usize| Bins::Counts {
        dtype: dtype.to_owned(),
        contents: vec![0; n],
        squares: None,
    };
    let ordinary = axis("", &[0.0, 1.0]);
    let cases = [
        (vec![], counts("f8", 8), "1 to 3 axes, not 0"),
        (
            vec![ordinary.clone(); 4],
            counts("f8", 8 * 81),
            "1 to 3 axes, not 4",
        ),
        (
            vec![ordinary.clone()],
            counts("f2", 6),
            "no histograms of the type",
        ),
        (vec![ordinary.clone()], counts("f8", 16), "expected 3 bins"),
        (vec![axis("", &[0.0])], counts("f8", 16), "has no bins"),
        (
            vec![axis("", &[1.0, 0.0])],
            counts("f8", 24),
            "not finite and increasing",
        ),
        (
            vec![axis("", &[0.0, f64::INFINITY])],
            counts("f8", 24),
            "not finite and increasing",
        ),
    ];
    for (axes, bins, expected) in cases {
        let error = Histogram::build(&parts(axes, bins))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
}
