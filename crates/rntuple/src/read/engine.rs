//! The rounds of a read: resolve, allocate, fetch, decode, finish.

use std::collections::HashMap;

use super::options::{Progress, ReadOptions};
use super::plan::{self, Part, Segment};
use super::rounds::Rounds;
use super::selection::ReadSchema;
use crate::RNTupleError;
use crate::array::{Arrays, SlotData};

/// Reads the entries of all parts, one after another, into arrays.
pub fn read(
    schema: &ReadSchema,
    parts: &[Part],
    options: &ReadOptions<'_>,
) -> Result<Arrays, RNTupleError> {
    if let Some(first) = parts.first()
        && let Some(storage) = first.reader.storage()
    {
        let progress = Progress::new();
        let slots = storage.read(schema, parts, options, &progress)?;
        if let Some(cache) = options.cache {
            cache.next_generation();
        }
        let n_entries = parts.iter().map(|part| part.stop - part.start).sum();
        return Ok(Arrays::new(n_entries, schema.columns.clone(), slots));
    }
    let segments = plan::segments(parts)?;
    let slots = all_slots(schema, parts, &segments, options, false)?;
    if let Some(cache) = options.cache {
        cache.next_generation();
    }
    let n_entries = segments.iter().map(Segment::n_entries).sum();
    Ok(Arrays::new(n_entries, schema.columns.clone(), slots))
}

/// Checks that all columns of a segment have the elements that entries and offsets require. Only offsets and tags of
/// variants are read.
pub(super) fn check_structure(
    schema: &ReadSchema,
    part: &Part,
    segment: &Segment,
) -> Result<(), RNTupleError> {
    let (parts, segments) = (std::slice::from_ref(part), std::slice::from_ref(segment));
    all_slots(schema, parts, segments, &ReadOptions::default(), true).map(drop)
}

fn all_slots(
    schema: &ReadSchema,
    parts: &[Part],
    segments: &[Segment],
    options: &ReadOptions<'_>,
    structure_only: bool,
) -> Result<Vec<SlotData>, RNTupleError> {
    let n_slots = schema.slots.len();
    let mut rounds = Rounds {
        schema,
        parts,
        segments,
        options,
        structure_only,
        progress: Progress::new(),
        items: vec![None; n_slots],
        extents: vec![None; n_slots],
        data: (0..n_slots).map(|_| None).collect(),
        most: HashMap::new(),
    };
    for (_, node) in &schema.columns {
        node.limits(&mut |slot, most| {
            let known = rounds.most.entry(slot).or_insert(most);
            *known = most.min(*known);
        });
    }
    while rounds.data.iter().any(Option::is_none) {
        rounds.next()?;
    }
    Ok(rounds.data.into_iter().flatten().collect())
}
