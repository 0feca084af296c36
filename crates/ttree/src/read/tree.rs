//! A tree to read: the meaning and the contents of its branches.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{Binding, Part};
use femtobarn_rntuple::schema::FieldId;

use crate::common::Common;
use crate::descriptor::{Data, Owner};
use crate::interp::Content;
use crate::model::{Basket, BranchId, Filling, TreeModel};

/// A tree: the meaning and contents of its branches, and the bytes of its own object if they contain
/// baskets.
#[derive(Debug)]
pub(crate) struct TreeStorage {
    common: Arc<Common>,
    filling: Filling,
    object: Bytes,
    /// The file's default for new baskets.
    file_compression: u32,
}

impl TreeStorage {
    pub fn new(
        common: Arc<Common>,
        filling: Filling,
        object: Bytes,
        file_compression: u32,
    ) -> Self {
        let object = match filling.is_embedded {
            true => object,
            false => Bytes::new(),
        };
        Self {
            common,
            filling,
            object,
            file_compression,
        }
    }

    pub fn common(&self) -> &Common {
        &self.common
    }

    pub fn model(&self) -> &TreeModel {
        &self.common.model
    }

    pub fn file_compression(&self) -> u32 {
        self.file_compression
    }

    pub fn filling(&self) -> &Filling {
        &self.filling
    }

    /// The source of a column's elements.
    pub fn owner(&self, column: u32) -> Option<Owner> {
        self.common.described.owners.get(column as usize).copied()
    }

    pub fn data(&self, branch: BranchId) -> Option<&Data> {
        self.common.described.data.get(branch)?.as_ref()
    }

    /// The branches to read for one: itself, and those with the lengths of its lists.
    pub fn needed(&self, branch: BranchId) -> impl Iterator<Item = BranchId> + '_ {
        std::iter::successors(Some(branch), move |&id| match self.data(id)?.content {
            Content::Lists { lengths } => Some(lengths),
            Content::Counted { counter, .. } if id != branch => Some(counter),
            _ => None,
        })
    }

    /// A field to read whose items are counted by a branch.
    pub fn counted_in(&self, binding: &Binding, counter: BranchId) -> Option<FieldId> {
        let columns = binding.all_columns().into_iter();
        columns.filter_map(|column| self.owner(column)).find_map(|owner| {
            let Owner::Branch { branch, .. } = owner else {
                return None;
            };
            let data = self.data(branch)?;
            let is_it = |content: &Content| {
                matches!(content, Content::Counted { counter: own, .. } if *own == counter)
            };
            is_it(&data.content).then_some(data.field)
        })
    }

    /// The paths of base classes of a record, if its member names are not unique.
    pub fn bases(&self, record: FieldId) -> Option<&[Vec<String>]> {
        self.common.described.bases.get(&record).map(Vec::as_slice)
    }

    /// The bytes of the tree's own object, if they contain baskets.
    pub fn object(&self) -> &Bytes {
        &self.object
    }

    /// The baskets of a branch that overlap a range of entries.
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

/// A basket with wanted entries.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// The index of the basket.
    pub number: usize,
    pub basket: Basket,
    /// The wanted entries in it, counted from the tree's first.
    pub entries: Range<u64>,
}

/// The tree of a part.
pub(crate) fn tree_of(part: &Part) -> Result<&TreeStorage, RNTupleError> {
    let storage = part.reader.storage();
    let tree = storage.and_then(|storage| storage.as_any().downcast_ref::<TreeStorage>());
    tree.ok_or_else(|| {
        let reason = "a TTree and an RNTuple cannot be read together";
        part.reader.unsupported("", reason)
    })
}
