//! Reads stored pages.

use bytes::Bytes;

use crate::RNTupleError;
use crate::read::{Reader, part_of, requests_of};
use crate::spec::{Page, StoredRange};

/// The stored bytes of pages, in as few reads as possible. Those of a mapped file are not copied.
pub(super) fn read_pages(reader: &Reader, pages: &[Page]) -> Result<Vec<Bytes>, RNTupleError> {
    let store = reader.store();
    let wanted: Vec<StoredRange> = pages.iter().map(Page::stored).collect();
    let requests = requests_of(store, &wanted);
    let stored: Vec<StoredRange> = requests.iter().map(|request| request.stored).collect();
    let map = |wanted: &StoredRange| reader.options().memory_map.then(|| store.map(wanted))?;
    if let Some(mapped) = wanted.iter().map(map).collect() {
        store.will_need(&stored);
        wanted
            .iter()
            .for_each(|wanted| reader.note_used(wanted.size));
        return Ok(mapped);
    }
    let answers = store.read(&stored)?;
    let mut out = vec![Bytes::new(); pages.len()];
    for (request, answer) in requests.iter().zip(&answers) {
        for &at in &request.members {
            if let (Some(slot), Some(wanted)) = (out.get_mut(at), wanted.get(at)) {
                let part = part_of(&request.stored, answer, wanted);
                *slot = answer.slice_ref(part.unwrap_or_default());
                reader.note_used(wanted.size);
            }
        }
    }
    Ok(out)
}
