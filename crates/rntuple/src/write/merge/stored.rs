//! Stored bytes of pages.

use std::ops::Range;

use bytes::Bytes;
use femtobarn_io::{coalesce, note_used};

use crate::RNTupleError;
use crate::read::Reader;
use crate::spec::Page;

/// The stored bytes of pages, in as few reads as possible.
pub(super) fn read_pages(reader: &Reader, pages: &[Page]) -> Result<Vec<Bytes>, RNTupleError> {
    let split = |page: &Page| reader.is_split(page.stored_size());
    let whole: Vec<Range<u64>> = pages
        .iter()
        .map(|page| if split(page) { 0..0 } else { page.range() })
        .collect();
    let source = reader.source();
    let requests = coalesce(&whole, &source.cost());
    let ranges: Vec<Range<u64>> = requests
        .iter()
        .map(|request| request.range.clone())
        .collect();
    let answers = source.read_ranges(&ranges)?;
    let mut out = vec![Bytes::new(); pages.len()];
    for (request, answer) in requests.iter().zip(&answers) {
        for &at in &request.members {
            if let (Some(slot), Some(range)) = (out.get_mut(at), whole.get(at)) {
                *slot = request.slice(answer, range).unwrap_or_default();
                note_used(&**source, slot.len() as u64);
            }
        }
    }
    for (page, slot) in pages.iter().zip(&mut out) {
        if split(page) {
            *slot = reader.read_blob(page.locator.offset, page.stored_size())?;
        }
    }
    Ok(out)
}
