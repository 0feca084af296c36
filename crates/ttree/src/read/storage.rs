//! A tree as the storage of a reader.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::SlotData;
use femtobarn_rntuple::read::storage::{Cost, Progress, Storage};
use femtobarn_rntuple::read::{Part, ReadOptions, ReadSchema, Reader, Tick, VerifyReport};
use femtobarn_rntuple::schema::{FieldId, SlotKind};
use femtobarn_rntuple::spec::PageList;

use super::origin::{Origin, origin};
use super::tree::TreeStorage;
use super::{engine, pages, verify};
use crate::descriptor::Owner;
use crate::interp::Content;
use crate::model::BranchId;

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
        // a counter that is also wanted itself is read in both rounds
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
                let bytes = self.filling().contents(branch_id).total_bytes;
                let all = u128::from(self.filling().n_entries.max(1));
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
        let data = self.common().described.data.iter().flatten();
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
