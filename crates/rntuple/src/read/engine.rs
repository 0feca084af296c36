//! The rounds of a read: resolve, allocate, fetch, decode, finish.

use std::collections::HashMap;
use std::mem::take;

use super::options::{Progress, ReadOptions};
use super::plan::{self, Items, Part, Segment};
use super::rounds::{Extents, Rounds};
use super::selection::ReadSchema;
use crate::RNTupleError;
use crate::array::{Arrays, SlotData};
use crate::schema::{SlotId, Slots};

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

/// Reads only the wanted slots, and the slots that these depend on. The others get no data.
pub fn read_slots(
    schema: &ReadSchema,
    parts: &[Part],
    wanted: &[bool],
    options: &ReadOptions<'_>,
) -> Result<Vec<Option<SlotData>>, RNTupleError> {
    let mut needed = vec![false; schema.slots.len()];
    for id in Slots::marked(wanted) {
        schema.slots.mark_with_parents(id, &mut needed);
    }
    let mut partial = PartialRead::new(schema, parts)?;
    partial.read(schema, parts, &needed, options)?;
    if let Some(cache) = options.cache {
        cache.next_generation();
    }
    Ok(partial.found.data)
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
    let mut found = Found::new(schema);
    let how = (options, structure_only);
    found.read(schema, parts, segments, how, None)?;
    Ok(found.data.into_iter().flatten().collect())
}

/// The slots that were read so far.
#[derive(Debug)]
struct Found {
    items: Vec<Option<Vec<Items>>>,
    extents: Vec<Option<Extents>>,
    data: Vec<Option<SlotData>>,
    most: HashMap<SlotId, i64>,
}

impl Found {
    fn new(schema: &ReadSchema) -> Self {
        let n_slots = schema.slots.len();
        let mut most = HashMap::new();
        for (_, node) in &schema.columns {
            node.limits(&mut |slot, limit| {
                let known = most.entry(slot).or_insert(limit);
                *known = limit.min(*known);
            });
        }
        Self {
            items: vec![None; n_slots],
            extents: vec![None; n_slots],
            data: (0..n_slots).map(|_| None).collect(),
            most,
        }
    }

    /// Reads the wanted slots that were not read yet; all slots if `wanted` is none.
    fn read(
        &mut self,
        schema: &ReadSchema,
        parts: &[Part],
        segments: &[Segment],
        (options, structure_only): (&ReadOptions<'_>, bool),
        wanted: Option<&[bool]>,
    ) -> Result<(), RNTupleError> {
        let mut rounds = Rounds {
            schema,
            parts,
            segments,
            options,
            structure_only,
            wanted,
            progress: Progress::new(),
            items: take(&mut self.items),
            extents: take(&mut self.extents),
            data: take(&mut self.data),
            most: take(&mut self.most),
        };
        let mut result = Ok(());
        while result.is_ok() && (0..schema.slots.len()).any(|id| rounds.is_missing(id)) {
            result = rounds.next();
        }
        self.items = rounds.items;
        self.extents = rounds.extents;
        self.data = rounds.data;
        self.most = rounds.most;
        result
    }
}

/// A read of some slots after others: what was read before is not read again.
#[derive(Debug)]
pub(super) struct PartialRead {
    /// None for columns in another format.
    segments: Option<Vec<Segment>>,
    found: Found,
}

impl PartialRead {
    /// A read that has nothing yet. Reads page lists.
    pub fn new(schema: &ReadSchema, parts: &[Part]) -> Result<Self, RNTupleError> {
        let first = parts.first();
        let is_stored = first.is_none_or(|first| first.reader.storage().is_none());
        Ok(Self {
            segments: is_stored.then(|| plan::segments(parts)).transpose()?,
            found: Found::new(schema),
        })
    }

    /// The data of a slot, if they were read.
    pub fn data(&self, id: SlotId) -> Option<&SlotData> {
        self.found.data.get(id)?.as_ref()
    }

    /// Drops the data of a slot.
    pub fn drop_data(&mut self, id: SlotId) {
        if let Some(data) = self.found.data.get_mut(id) {
            *data = None;
        }
    }

    /// Reads the slots that are wanted and were not read yet; the parents of wanted slots are wanted, too.
    pub fn read(
        &mut self,
        schema: &ReadSchema,
        parts: &[Part],
        wanted: &[bool],
        options: &ReadOptions<'_>,
    ) -> Result<(), RNTupleError> {
        let Some(segments) = &self.segments else {
            return self.read_storage(schema, parts, wanted, options);
        };
        let how = (options, false);
        self.found.read(schema, parts, segments, how, Some(wanted))
    }

    /// The same for columns in another format, which are read with the counters that they depend on.
    fn read_storage(
        &mut self,
        schema: &ReadSchema,
        parts: &[Part],
        wanted: &[bool],
        options: &ReadOptions<'_>,
    ) -> Result<(), RNTupleError> {
        let Some(storage) = parts.first().and_then(|part| part.reader.storage()) else {
            return Err(RNTupleError::internal("a read without a storage"));
        };
        let mut needed = vec![false; schema.slots.len()];
        for (id, &wanted) in wanted.iter().enumerate() {
            if wanted && self.data(id).is_none() {
                schema.slots.mark_with_parents(id, &mut needed);
            }
        }
        let ids = Slots::marked(&needed);
        let (schema, parts) = plan::only(schema, parts, &ids);
        let data = storage.read(&schema, &parts, options, &Progress::new())?;
        for (id, data) in ids.into_iter().zip(data) {
            if let Some(known) = self.found.data.get_mut(id) {
                known.get_or_insert(data);
            }
        }
        Ok(())
    }
}
