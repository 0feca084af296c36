//! A tree as the storage behind a reader.

use std::any::Any;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::SlotData;
use femtobarn_rntuple::read::storage::{Cost, Progress, Storage};
use femtobarn_rntuple::read::{Part, ReadOptions, ReadSchema, Reader, Tick, VerifyReport};
use femtobarn_rntuple::schema::{FieldId, SlotKind};
use femtobarn_rntuple::spec::PageList;

use super::origin::{Origin, origin};
use super::{engine, pages, verify};
use crate::descriptor::{Data, Owner};
use crate::interp::Content;
use crate::model::{Basket, BranchId, Filling, TreeModel};
use crate::open::Common;

/// A tree: what its branches mean, what is in them, and the bytes of its own object if baskets are in there.
#[derive(Debug)]
pub(crate) struct TreeStorage {
    common: Arc<Common>,
    filling: Filling,
    object: Bytes,
}

impl TreeStorage {
    pub fn new(common: Arc<Common>, filling: Filling, object: Bytes) -> Self {
        let object = match filling.is_embedded {
            true => object,
            false => Bytes::new(),
        };
        Self {
            common,
            filling,
            object,
        }
    }

    pub fn common(&self) -> &Common {
        &self.common
    }

    pub fn model(&self) -> &TreeModel {
        &self.common.model
    }

    pub fn filling(&self) -> &Filling {
        &self.filling
    }

    /// Where the elements of a column come from.
    pub fn owner(&self, column: u32) -> Option<Owner> {
        self.common.described.owners.get(column as usize).copied()
    }

    pub fn data(&self, branch: BranchId) -> Option<&Data> {
        self.common.described.data.get(branch)?.as_ref()
    }

    /// The branches that are read for one: itself, and those that lengths of its lists are in.
    fn needed(&self, branch: BranchId) -> impl Iterator<Item = BranchId> + '_ {
        std::iter::successors(Some(branch), move |&id| match self.data(id)?.content {
            Content::Lists { lengths } => Some(lengths),
            Content::Counted { counter, .. } if id != branch => Some(counter),
            _ => None,
        })
    }

    /// The bases of the members of a record in which names meet.
    pub fn bases(&self, record: FieldId) -> Option<&[Vec<String>]> {
        self.common.described.bases.get(&record).map(Vec::as_slice)
    }

    /// The bytes of the tree's own object, if it has baskets.
    pub fn object(&self) -> &Bytes {
        &self.object
    }

    /// The baskets of a branch that hold entries of a range.
    pub fn baskets(
        &self,
        branch: BranchId,
        start: u64,
        stop: u64,
    ) -> impl Iterator<Item = Wanted> + use<> {
        let baskets = self.filling.contents(branch).baskets;
        let from = baskets.partition_point(|basket| basket.end() <= start);
        let rest = baskets.into_iter().enumerate().skip(from);
        rest.take_while(move |(_, basket)| basket.first_entry < stop)
            .filter(|(_, basket)| basket.n_entries > 0)
            .map(move |(number, basket)| Wanted {
                number,
                entries: start.max(basket.first_entry)..stop.min(basket.end()),
                basket,
            })
    }
}

/// A basket that holds wanted entries.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// The basket's number.
    pub number: usize,
    pub basket: Basket,
    /// The wanted entries in it, counted from the tree's first.
    pub entries: Range<u64>,
}

/// The tree that a part is of.
pub(crate) fn tree_of(part: &Part) -> Result<&TreeStorage, RNTupleError> {
    let storage = part.reader.storage();
    let tree = storage.and_then(|storage| storage.as_any().downcast_ref::<TreeStorage>());
    tree.ok_or_else(|| {
        let reason = "a TTree and an RNTuple are not read as one";
        part.reader.unsupported("", reason)
    })
}

impl Storage for TreeStorage {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn version(&self) -> String {
        self.model().class_name.clone()
    }

    fn read(
        &self,
        schema: &ReadSchema,
        parts: &[Part],
        options: &ReadOptions<'_>,
        progress: &Progress,
    ) -> Result<Vec<SlotData>, RNTupleError> {
        engine::read(schema, parts, options, progress)
    }

    fn costs(&self, schema: &ReadSchema, part: &Part) -> Result<Vec<Cost>, RNTupleError> {
        // what is read in both rounds, as a counter and for itself, is read twice
        let mut seen = BTreeSet::new();
        let mut out = Vec::with_capacity(schema.slots.len());
        let n_entries = part.stop - part.start;
        for (slot_id, slot) in schema.slots.as_slice().iter().enumerate() {
            let column = part.binding.columns(slot_id).first();
            let owner = column.and_then(|&column| self.owner(column));
            let mut cost = Cost::default();
            let branch_id = match owner {
                Some(Owner::Branch { branch, .. } | Owner::Counter(branch)) => branch,
                None => BranchId::MAX,
            };
            if self.model().branch(branch_id).is_none() {
                out.push(cost);
                continue;
            }
            cost.round = match origin(part, self, slot_id)? {
                Origin::Offsets(_) | Origin::Pieces { .. } => 0,
                Origin::Fixed { .. } | Origin::Counted { .. } => 1,
            };
            for needed in self.needed(branch_id) {
                if seen.insert((needed, cost.round)) {
                    let baskets = self.baskets(needed, part.start, part.stop);
                    cost.ranges
                        .extend(baskets.filter_map(|wanted| wanted.basket.place.range()));
                }
            }
            let share = || {
                let bytes = self.filling.contents(branch_id).total_bytes;
                let all = u128::from(self.filling.n_entries.max(1));
                let share = u128::from(bytes) * u128::from(n_entries) / all;
                u64::try_from(share).unwrap_or(u64::MAX)
            };
            cost.bytes_decoded = match (slot.kind, self.data(branch_id).map(|data| &data.content)) {
                (SlotKind::Index, _) => n_entries.saturating_mul(8),
                (_, Some(Content::Fixed { size })) => n_entries.saturating_mul(*size as u64),
                _ => share(),
            };
            out.push(cost);
        }
        Ok(out)
    }

    fn page_list(&self) -> Arc<PageList> {
        Arc::new(pages::list(self))
    }

    fn doubtful(&self) -> Vec<FieldId> {
        let data = self.common.described.data.iter().flatten();
        data.filter(|data| data.shape.has_versions())
            .map(|data| data.field)
            .collect()
    }

    fn verify(
        &self,
        reader: &Arc<Reader>,
        threads: usize,
        tick: Option<Tick<'_>>,
    ) -> Result<VerifyReport, RNTupleError> {
        verify::verify(self, reader, threads, tick)
    }
}
