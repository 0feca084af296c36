//! Replaces bytes by others of a different length, and corrects what spans or refers across them.

use femtobarn_rootfile::BYTE_COUNT;

use crate::HistogramError;
use crate::Infos;
use crate::error::unsupported;
use crate::histogram::Histogram;
use crate::layout::Layout;
use crate::walk::{CLASS_MASK, MAP_OFFSET, named_classes, walk};

/// Replacement of some bytes.
#[derive(Debug)]
pub(crate) struct Splice {
    pub range: std::ops::Range<usize>,
    pub bytes: Vec<u8>,
}

/// The object with replaced bytes in some places, which do not overlap.
pub(crate) fn splice(
    histogram: &Histogram,
    mut splices: Vec<Splice>,
) -> Result<Vec<u8>, HistogramError> {
    splices.sort_by_key(|splice| splice.range.start);
    let key_len = histogram.key_len;
    let object = (&*histogram.bytes, &histogram.layout);
    rewritten(object, &splices, (key_len, key_len))
}

/// The object for a key of another length.
pub(crate) fn moved(histogram: &Histogram, key_len: u16) -> Result<Vec<u8>, HistogramError> {
    let object = (&*histogram.bytes, &histogram.layout);
    rewritten(object, &[], (histogram.key_len, key_len))
}

/// Rewrites an object of any class for a record whose key has another length: references within the object count from the
/// key.
///
/// Objects that name no class contain nothing that could be referred to. They stay unchanged, even if their class is not
/// supported.
///
/// `key_lens` are the lengths of the old and the new key in bytes.
///
/// # Errors
/// If it is damaged, or a part of it is not supported.
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
            "it contains a {opaque}, which is not supported, and bytes before it move"
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
            return unsupported("it would exceed the maximum size of an object");
        };
        put(&mut out, shift(at), length | BYTE_COUNT);
    }
    for &at in &layout.tags {
        let tag = word(old, at);
        let (mask, target) = (tag & CLASS_MASK, (tag & !CLASS_MASK) as usize);
        let before = usize::from(old_key_len) + MAP_OFFSET;
        // smaller numbers stand for the object itself, or for null
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

/// The new position of something at `at`, which is in none of the replaced places, or at the end of one.
fn shifted(splices: &[Splice], at: usize) -> usize {
    let before = splices.iter().filter(|splice| splice.range.end <= at);
    before.fold(at, |at, splice| {
        at + splice.bytes.len() - splice.range.len()
    })
}

/// Appends a TString; none if it is too long.
pub(crate) fn put_string(out: &mut Vec<u8>, text: &[u8]) -> Option<()> {
    let length = u32::try_from(text.len()).ok()?;
    match u8::try_from(length) {
        Ok(short) if short < 255 => out.push(short),
        _ => {
            out.push(255);
            out.extend(length.to_be_bytes());
        }
    }
    out.extend(text);
    Some(())
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
