//! Files of later format versions, made by patching current files: unknown features are named, and the
//! rest is read.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

mod common;

use common::{read, root, top_level};
use femtobarn::codec::xxh3;
use femtobarn::convert::Input;
use femtobarn::io::MemorySource;
use femtobarn::proof::{ProofOptions, prove};
use femtobarn::rootfile::RootFile;
use femtobarn::spec::{Anchor, Footer};
use femtobarn::{Error, NTuple, OpenOptions};

/// An uncompressed file whose metadata can be patched.
struct Patched {
    bytes: Vec<u8>,
    anchor: Anchor,
    path: String,
}

impl Patched {
    fn new(name: &str, path: &str) -> Self {
        let bytes = std::fs::read(root().join("testdata/rntuple").join(name)).unwrap();
        let file = RootFile::open(MemorySource::new(name, bytes.clone())).unwrap();
        let anchor = Anchor::parse(&file.read_object(&file.find(path).unwrap()).unwrap()).unwrap();
        assert_eq!(
            (anchor.header.stored.size, anchor.footer.stored.size),
            (anchor.header.length, anchor.footer.length),
            "uncompressed"
        );
        Self {
            bytes,
            anchor,
            path: path.to_owned(),
        }
    }

    fn header(&mut self) -> &mut [u8] {
        let header = self.anchor.header.stored.range();
        &mut self.bytes[header.start as usize..header.end as usize]
    }

    /// Opens the file.
    fn open(mut self) -> Result<NTuple, Error> {
        self.mend();
        NTuple::open_source(
            MemorySource::new("future.root", self.bytes),
            Some(&self.path),
            OpenOptions::default(),
        )
    }

    /// Corrects all checksums after the header was changed.
    fn mend(&mut self) {
        let checksum = seal(self.header());
        let footer = self.anchor.footer.stored.range();
        let footer_range = footer.start as usize..footer.end as usize;
        let footer = Footer::parse(&self.bytes[footer_range.clone()]).unwrap();
        for group in footer.cluster_groups {
            let start = group.page_list.stored.address.offset() as usize;
            let list = &mut self.bytes[start..start + group.page_list.stored.size as usize];
            list[8..16].copy_from_slice(&checksum.to_le_bytes());
            seal(list);
        }
        let footer = &mut self.bytes[footer_range];
        footer[16..24].copy_from_slice(&checksum.to_le_bytes());
        seal(footer);
    }

    /// Position of a field's structural role in the header.
    fn role_of(&mut self, field: &str) -> usize {
        let pattern = [&(field.len() as u32).to_le_bytes()[..], field.as_bytes()].concat();
        find(self.header(), &pattern) - 4
    }

    /// Position of the type of a column of `field` in the header.
    fn column_of(&mut self, field: u32) -> usize {
        let header = self.header();
        (0..header.len() - 20)
            .find(|&at| {
                header[at..at + 8] == 20i64.to_le_bytes()
                    && header[at + 12..at + 16] == field.to_le_bytes()
            })
            .unwrap()
            + 8
    }
}

fn find(bytes: &[u8], pattern: &[u8]) -> usize {
    bytes
        .windows(pattern.len())
        .position(|window| window == pattern)
        .unwrap()
}

fn seal(envelope: &mut [u8]) -> u64 {
    let end = envelope.len() - 8;
    let checksum = xxh3(&envelope[..end]);
    envelope[end..].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

/// Reads everything in the patched file and in the original: the remaining fields are equal.
fn check(patched: Patched, field: &str, reason: &str) {
    let path = patched.path.clone();
    let original = NTuple::open_source(
        MemorySource::new(
            "now.root",
            std::fs::read(root().join("testdata/rntuple/mixed_none.root")).unwrap(),
        ),
        Some(&path),
        OpenOptions::default(),
    )
    .unwrap();
    let ntuple = patched.open().unwrap();
    let skipped = &ntuple.readers()[0].descriptor().skipped;
    assert!(
        skipped
            .iter()
            .any(|s| s.name == field && s.reason.contains(reason)),
        "{skipped:?}"
    );
    let reports = ntuple.verify(1, None).unwrap();
    let not_checked = reports[0].not_checked.first().unwrap();
    assert!(
        not_checked.0 == field && not_checked.1.contains(reason) && reports[0].damages.is_empty(),
        "{reports:?}"
    );
    let names = top_level(&ntuple);
    assert!(
        !names.contains(&field.to_owned())
            && names.len() + skipped.len() == top_level(&original).len()
    );
    let n = ntuple.n_entries();
    assert_eq!(
        read(&ntuple, None, 0, n),
        read(&original, Some(&names), 0, n)
    );
    let error = ntuple.select(Some(&[field.to_owned()])).unwrap_err();
    assert_eq!(error.kind(), "unsupported-field");
    assert!(error.to_string().contains(reason), "{error}");
}

/// A top-level field with one column of its own, and its ID.
fn plain_field(patched: &Patched) -> (String, u32) {
    let source = MemorySource::new("now.root", patched.bytes.clone());
    let ntuple = NTuple::open_source(source, Some(&patched.path), OpenOptions::default()).unwrap();
    let descriptor = ntuple.readers()[0].descriptor();
    let projected: Vec<u32> = descriptor
        .fields
        .iter()
        .filter_map(|field| field.record.source_id)
        .collect();
    let id = descriptor.top_level.iter().find(|&&id| {
        let field = descriptor.field(id).unwrap();
        field.columns.len() == 1
            && field.children.is_empty()
            && field.record.source_id.is_none()
            && !projected.contains(&id)
    });
    (descriptor.field_name(*id.unwrap()).to_owned(), *id.unwrap())
}

#[test]
fn a_field_of_an_unknown_role_is_skipped_by_name() {
    let mut patched = Patched::new("mixed_none.root", "mixed");
    let (name, _) = plain_field(&patched);
    let at = patched.role_of(&name);
    patched.header()[at..at + 2].copy_from_slice(&77u16.to_le_bytes());
    check(patched, &name, "unknown structural role 77");
}

#[test]
fn a_field_of_an_unknown_column_type_is_skipped_by_name() {
    let mut patched = Patched::new("mixed_none.root", "mixed");
    let (name, id) = plain_field(&patched);
    let at = patched.column_of(id);
    patched.header()[at..at + 2].copy_from_slice(&0x99u16.to_le_bytes());
    check(patched, &name, "unknown column type 0x99");
}

#[test]
fn a_field_whose_representations_are_not_numbered_from_0_is_skipped_by_name() {
    let mut patched = Patched::new("mixed_none.root", "mixed");
    let (name, id) = plain_field(&patched);
    // after type, bits, field and flags
    let at = patched.column_of(id) + 10;
    patched.header()[at..at + 2].copy_from_slice(&128u16.to_le_bytes());
    check(
        patched,
        &name,
        "representations that are not numbered from 0",
    );
}

#[test]
fn a_number_that_has_subfields_is_skipped_by_name() {
    let mut patched = Patched::new("mixed_none.root", "mixed");
    let (name, id) = plain_field(&patched);
    // moves a float of a record below itself; the parent ID precedes the role
    let at = patched.role_of("y") - 4;
    patched.header()[at..at + 4].copy_from_slice(&id.to_le_bytes());
    patched.mend();
    let ntuple = patched.open().unwrap();
    let skipped = &ntuple.readers()[0].descriptor().skipped;
    let reason = skipped.iter().find(|field| field.name == name);
    let reason = reason.map(|field| field.reason.as_str());
    assert!(
        reason.is_some_and(|reason| reason.contains("both columns and subfields")),
        "{skipped:?}"
    );
}

#[test]
fn a_record_whose_members_share_a_name_is_skipped_by_name() {
    let mut patched = Patched::new("mixed_none.root", "mixed");
    // gives "y" the name of the preceding member
    let at = patched.role_of("y") + 8;
    patched.header()[at..at + 1].copy_from_slice(b"x");
    patched.mend();
    let ntuple = patched.open().unwrap();
    let skipped = &ntuple.readers()[0].descriptor().skipped;
    let reasons: Vec<&str> = skipped.iter().map(|field| field.reason.as_str()).collect();
    assert!(
        reasons
            .iter()
            .any(|reason| reason.contains("two subfields \"x\"")),
        "{reasons:?}"
    );
}

#[test]
fn a_field_that_is_skipped_is_not_proven() {
    let mut patched = Patched::new("mixed_none.root", "mixed");
    let (name, _) = plain_field(&patched);
    let at = patched.role_of(&name);
    patched.header()[at..at + 2].copy_from_slice(&77u16.to_le_bytes());
    patched.mend();
    let folder = tempfile::tempdir().unwrap();
    let [output, input] = ["output.root", "input.root"].map(|name| {
        let path = folder.path().join(name);
        std::fs::write(&path, &patched.bytes).unwrap();
        Input {
            url: path.to_str().unwrap().to_owned(),
            path: None,
            ..Input::default()
        }
    });
    let report = prove(
        &output,
        std::slice::from_ref(&input),
        &ProofOptions::default(),
        None,
    )
    .unwrap();
    assert!(!report.is_equal());
    assert!(report.differences().next().is_none());
    assert_eq!(report.ntuples[0].not_compared[0].0, name);
}

#[test]
fn unknown_column_and_field_flags_are_ignored() {
    let mut patched = Patched::new("mixed_none.root", "mixed");
    let (name, id) = plain_field(&patched);
    let at = patched.role_of(&name);
    patched.header()[at + 3] |= 0x40;
    let at = patched.column_of(id);
    patched.header()[at + 9] |= 0x40;
    let ntuple = patched.open().unwrap();
    assert!(top_level(&ntuple).contains(&name));
    read(&ntuple, None, 0, ntuple.n_entries());
}

#[test]
fn a_header_that_belongs_to_another_footer_is_refused() {
    let mut patched = Patched::new("mixed_none.root", "mixed");
    let (name, _) = plain_field(&patched);
    let at = patched.role_of(&name);
    patched.header()[at + 3] |= 0x40;
    seal(patched.header());
    let source = MemorySource::new("odd.root", patched.bytes);
    let error = NTuple::open_source(source, Some("mixed"), OpenOptions::default()).unwrap_err();
    assert_eq!(error.kind(), "envelope-checksum");
}
