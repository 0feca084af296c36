//! Makes damaged files: changes values in metadata and pages and corrects checksums, so that the code after the checksum
//! tests is reached.

use std::collections::VecDeque;

use femtobarn_codec::{Decompressor, xxh3};
use femtobarn_rntuple::encoding::packed_size;
use femtobarn_rntuple::spec::{
    Anchor, Envelope, EnvelopeKind, EnvelopeLink, Footer, Header, PageList,
};

/// The beginning of an anchor: byte count, class version, epoch.
const ANCHOR: [u8; 8] = [0x40, 0, 0, 0x42, 0, 2, 0, 1];
/// Offset and size of the anchor's members.
const MEMBERS: (usize, usize) = (6, 64);

/// Changes files. The same seed or choices give the same changes.
#[derive(Debug, Clone)]
pub struct Mutator {
    state: u64,
    /// Choices to use first, four bytes each.
    choices: VecDeque<u8>,
}

/// The uncompressed metadata of an RNTuple.
struct Parts {
    anchor_at: usize,
    anchor: Anchor,
    header: Vec<u8>,
    footer: Vec<u8>,
    lists: Vec<(EnvelopeLink, Vec<u8>)>,
}

impl Mutator {
    /// Starts with a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            choices: VecDeque::new(),
        }
    }

    /// Starts with choices of four bytes each, made for example by a fuzzer.
    pub fn with_choices(choices: &[u8]) -> Self {
        Self {
            choices: choices.to_vec().into(),
            ..Self::new(choices.len() as u64)
        }
    }

    /// A random number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        if self.choices.len() >= 4 {
            let word = self.choices.drain(..4);
            return word.fold(0, |word, byte| word << 8 | usize::from(byte)) % n.max(1);
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 11).unwrap() % n.max(1)
    }

    /// Changes one or several values anywhere.
    pub(crate) fn bytes(&mut self, original: &[u8]) -> Vec<u8> {
        let mut out = original.to_vec();
        self.change(&mut out, 0);
        out
    }

    /// Changes a ROOT file: data that are compressed or have checksums, and sometimes its raw bytes.
    pub fn root(&mut self, original: &[u8]) -> Vec<u8> {
        match self.below(12) {
            0 => self.bytes(original),
            1 => self.object(original),
            _ => self.ntuple(original),
        }
    }

    /// Changes a table file: in half of the cases the metadata at its end.
    pub fn table(&mut self, original: &[u8]) -> Vec<u8> {
        let mut out = original.to_vec();
        let from = self.below(2) * (out.len() / 8 * 7);
        self.change(&mut out, from);
        out
    }

    /// Changes metadata or a page of an ntuple; a file without ntuples as [`object`](Self::object) does.
    fn ntuple(&mut self, original: &[u8]) -> Vec<u8> {
        let Some(mut parts) = parts(original, self) else {
            return self.object(original);
        };
        let mut out = original.to_vec();
        match self.below(12) {
            0 => self.anchor(&mut out, &parts),
            1 | 2 => {
                self.change(&mut parts.header, 8);
                assemble(&mut out, parts);
            }
            3..=5 => {
                self.change(&mut parts.footer, 8);
                assemble(&mut out, parts);
            }
            6..=8 => {
                let at = self.below(parts.lists.len());
                if let Some((_, list)) = parts.lists.get_mut(at) {
                    self.change(list, 16);
                }
                assemble(&mut out, parts);
            }
            _ => {
                self.page(&mut out, &mut parts);
                assemble(&mut out, parts);
            }
        }
        out
    }

    fn anchor(&mut self, out: &mut [u8], parts: &Parts) {
        let start = parts.anchor_at + MEMBERS.0;
        let mut members = out[start..start + MEMBERS.1].to_vec();
        self.change(&mut members, 8);
        out[start..start + MEMBERS.1].copy_from_slice(&members);
        let sum = xxh3(&members).to_be_bytes();
        out[start + MEMBERS.1..start + MEMBERS.1 + 8].copy_from_slice(&sum);
    }

    /// Changes the elements of a page, which is appended to the file.
    fn page(&mut self, out: &mut Vec<u8>, parts: &mut Parts) {
        let Some(list_at) = Some(self.below(parts.lists.len())).filter(|_| !parts.lists.is_empty())
        else {
            return;
        };
        let header = Header::parse(&parts.header).unwrap();
        let (_, stored) = &mut parts.lists[list_at];
        let list = PageList::parse(stored, header.checksum).unwrap();
        let cluster = self.below(list.clusters().len());
        let column = self.below(list.n_columns(cluster).min(header.schema.columns.len()));
        let pages = u32::try_from(column)
            .ok()
            .and_then(|column| list.column(cluster, column));
        let pages = pages.map_or(&[][..], |pages| list.pages(pages));
        let Some(page) = pages.get(self.below(pages.len())) else {
            return;
        };
        let start = usize::try_from(page.body.address.offset()).unwrap();
        let size = usize::try_from(page.body.size).unwrap();
        let Some(body) = out.get(start..start + size) else {
            return;
        };
        let record = &header.schema.columns[column];
        let Ok(packed) = packed_size(record, u64::from(page.n_elements), page.body.size) else {
            return;
        };
        let mut elements = vec![0; packed];
        if packed == size {
            elements.copy_from_slice(body);
        } else if Decompressor::new().decompress(body, &mut elements).is_err() {
            return;
        }
        self.change(&mut elements, 0);
        let was = locator(page.body.size, page.body.address.offset());
        let is = locator(elements.len() as u64, out.len() as u64);
        replace(stored, &was, &is);
        let sum = xxh3(&elements).to_le_bytes();
        out.extend(elements);
        out.extend(sum);
    }

    /// Changes some values, sometimes to values that are critical in computations.
    pub(crate) fn change(&mut self, bytes: &mut [u8], from: usize) {
        for _ in 0..=self.below(3) {
            let width = [1, 2, 4, 8][self.below(4)];
            let Some(room) = bytes.len().checked_sub(from + width) else {
                return;
            };
            let at = from + self.below(room + 1);
            let place = &mut bytes[at..at + width];
            let mut word = [0; 8];
            word[..width].copy_from_slice(place);
            let now = u64::from_le_bytes(word);
            let bit = 1u64 << self.below(8 * width);
            let new = match self.below(8) {
                0 => 0,
                1 => u64::MAX,
                2 => u64::MAX >> (65 - 8 * width).min(63),
                3 => now.wrapping_add(1),
                4 => now.wrapping_sub(1),
                5 => bit,
                6 => now ^ bit,
                _ => now.wrapping_mul(2),
            };
            place.copy_from_slice(&new.to_le_bytes()[..width]);
        }
    }
}

/// The file with an edited footer and an edited page list, selected by its number, of the first ntuple. The checksums are
/// correct.
///
/// # Panics
///
/// If the ntuple has no page list of this number.
pub fn edited(
    original: &[u8],
    list: usize,
    edit_list: impl FnOnce(&mut [u8]),
    edit_footer: impl FnOnce(&mut [u8]),
) -> Vec<u8> {
    let mut parts = parts(original, &mut Mutator::new(0)).unwrap();
    edit_list(&mut parts.lists[list].1);
    edit_footer(&mut parts.footer);
    let mut out = original.to_vec();
    assemble(&mut out, parts);
    out
}

fn locator(size: u64, offset: u64) -> Vec<u8> {
    let size = u32::try_from(size).unwrap_or(u32::MAX >> 1);
    [&size.to_le_bytes()[..], &offset.to_le_bytes()].concat()
}

fn replace(bytes: &mut [u8], was: &[u8], is: &[u8]) {
    let at = bytes.windows(was.len()).position(|window| window == was);
    if let Some(at) = at {
        bytes[at..at + is.len()].copy_from_slice(is);
    }
}

fn uncompressed(file: &[u8], link: &EnvelopeLink) -> Option<Vec<u8>> {
    let start = usize::try_from(link.stored.address.offset()).ok()?;
    let stored = file.get(start..start.checked_add(usize::try_from(link.stored.size).ok()?)?)?;
    if link.length == link.stored.size {
        return Some(stored.to_vec());
    }
    let mut out = vec![0; usize::try_from(link.length).ok()?];
    Decompressor::new().decompress(stored, &mut out).ok()?;
    Some(out)
}

/// The parts of one of the ntuples in a file.
fn parts(file: &[u8], mutator: &mut Mutator) -> Option<Parts> {
    let places = file.windows(ANCHOR.len()).enumerate();
    let places = places.filter(|(_, window)| *window == ANCHOR);
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    let &anchor_at = places.get(mutator.below(places.len()))?;
    let anchor = Anchor::parse(file.get(anchor_at..)?).ok()?;
    let header = uncompressed(file, &anchor.header)?;
    let footer = uncompressed(file, &anchor.footer)?;
    Envelope::parse(&header, EnvelopeKind::Header).ok()?;
    let groups = Footer::parse(&footer).ok()?.cluster_groups;
    let list = |link: EnvelopeLink| Some((link, uncompressed(file, &link)?));
    let lists = groups.iter().map(|group| list(group.page_list));
    Some(Parts {
        anchor_at,
        anchor,
        lists: lists.collect::<Option<Vec<_>>>()?,
        header,
        footer,
    })
}

/// Appends an envelope with a correct checksum to a file. Returns its offset, size and checksum.
fn append(out: &mut Vec<u8>, mut envelope: Vec<u8>) -> (u64, u64, u64) {
    let end = envelope.len() - 8;
    let sum = xxh3(&envelope[..end]);
    envelope[end..].copy_from_slice(&sum.to_le_bytes());
    let place = out.len() as u64;
    out.extend(&envelope);
    (place, envelope.len() as u64, sum)
}

/// Appends changed, uncompressed metadata to a file, and updates the references to them.
fn assemble(out: &mut Vec<u8>, mut parts: Parts) {
    let end = parts.header.len() - 8;
    let was = parts.header[end..].to_vec();
    let (header_at, header_size, sum) = append(out, parts.header);
    let sum = sum.to_le_bytes();
    replace(&mut parts.footer, &was, &sum);
    for (link, mut list) in parts.lists {
        replace(&mut list, &was, &sum);
        let (at, size, _) = append(out, list);
        let with_length =
            |length: u64, size, at| [&length.to_le_bytes()[..], &locator(size, at)].concat();
        let was = with_length(link.length, link.stored.size, link.stored.address.offset());
        replace(&mut parts.footer, &was, &with_length(size, size, at));
    }
    let (footer_at, footer_size, _) = append(out, parts.footer);
    let start = parts.anchor_at + MEMBERS.0;
    let places = [
        header_at,
        header_size,
        header_size,
        footer_at,
        footer_size,
        footer_size,
    ];
    for (number, value) in places.into_iter().enumerate() {
        let at = start + 8 + 8 * number;
        out[at..at + 8].copy_from_slice(&value.to_be_bytes());
    }
    // the changed metadata have no keys
    debug_assert!(parts.anchor.max_key_size == 0 || footer_size <= parts.anchor.max_key_size);
    let sum = xxh3(&out[start..start + MEMBERS.1]).to_be_bytes();
    out[start + MEMBERS.1..start + MEMBERS.1 + 8].copy_from_slice(&sum);
}
