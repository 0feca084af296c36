//! Bytes of other lengths: what spans or points beyond them is put right.

use femtobarn_rootfile::BYTE_COUNT;

use crate::HistogramError;
use crate::Infos;
use crate::error::unsupported;
use crate::histogram::Histogram;
use crate::layout::Layout;
use crate::walk::{CLASS_MASK, MAP_OFFSET, named_classes, walk};

/// Bytes that take the place of others.
#[derive(Debug)]
pub(crate) struct Splice {
    pub range: std::ops::Range<usize>,
    pub bytes: Vec<u8>,
}

/// The object with other bytes in some places, which do not overlap.
pub(crate) fn splice(
    histogram: &Histogram,
    mut splices: Vec<Splice>,
) -> Result<Vec<u8>, HistogramError> {
    splices.sort_by_key(|splice| splice.range.start);
    let key_len = histogram.key_len;
    let object = (&*histogram.bytes, &histogram.layout);
    rewritten(object, &splices, (key_len, key_len))
}

/// The object behind a key of another length.
pub(crate) fn moved(histogram: &Histogram, key_len: u16) -> Result<Vec<u8>, HistogramError> {
    let object = (&*histogram.bytes, &histogram.layout);
    rewritten(object, &[], (histogram.key_len, key_len))
}

/// An object of any class for a record whose key has another length: positions within that it refers to count from the key.
///
/// What names no class has nothing that could be referred to, and stays as it is, also if its class is not understood.
///
/// `key_lens` are the length of the key that it was stored behind, and that of the new one, both in bytes.
///
/// # Errors
/// If it is damaged, or something in it is not understood.
pub fn moved_object(
    class: &str,
    object: &[u8],
    key_lens: (u16, u16),
    infos: &Infos,
) -> Result<Vec<u8>, HistogramError> {
    if key_lens.0 == key_lens.1 || named_classes(object).next().is_none() {
        return Ok(object.to_vec());
    }
    let layout = walk(class, object, key_lens.0, infos)?;
    rewritten((object, &layout), &[], key_lens)
}

fn rewritten(
    (old, layout): (&[u8], &Layout),
    splices: &[Splice],
    (old_key_len, key_len): (u16, u16),
) -> Result<Vec<u8>, HistogramError> {
    if let Some(opaque) = layout.opaque.first() {
        return unsupported(format!(
            "there is a {opaque} in it, which is not understood, and bytes in front of it move"
        ));
    }
    let mut out = Vec::with_capacity(old.len());
    let mut at = 0;
    for splice in splices {
        out.extend(old.get(at..splice.range.start).unwrap_or_default());
        out.extend(&splice.bytes);
        at = splice.range.end;
    }
    out.extend(old.get(at..).unwrap_or_default());
    let shift = |at: usize| shifted(splices, at);
    for &at in &layout.counts {
        let count = word(old, at) & !BYTE_COUNT;
        let end = at.saturating_add(4).saturating_add(count as usize);
        let length = shift(end).saturating_sub(shift(at)).saturating_sub(4);
        let Some(length) = u32::try_from(length).ok().filter(|&n| n < BYTE_COUNT) else {
            return unsupported("it would be larger than an object can be");
        };
        put(&mut out, shift(at), length | BYTE_COUNT);
    }
    for &at in &layout.tags {
        let tag = word(old, at);
        let (mask, target) = (tag & CLASS_MASK, (tag & !CLASS_MASK) as usize);
        let before = usize::from(old_key_len) + MAP_OFFSET;
        // below are the object itself and what stands for none
        if let Some(target) = target.checked_sub(before) {
            let target = shift(target) + usize::from(key_len) + MAP_OFFSET;
            put(
                &mut out,
                shift(at),
                mask | u32::try_from(target).unwrap_or(0),
            );
        }
    }
    Ok(out)
}

/// Where something is that was at `at`, and in none of the places that change, or at the end of one.
fn shifted(splices: &[Splice], at: usize) -> usize {
    let before = splices.iter().filter(|splice| splice.range.end <= at);
    before.fold(at, |at, splice| {
        at + splice.bytes.len() - splice.range.len()
    })
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.copied().map_or(0, u32::from_be_bytes)
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    let place = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut());
    if let Some(place) = place {
        *place = value.to_be_bytes();
    }
}
