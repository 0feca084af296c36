//! Writing a batch: in the order of keys, and appending what is behind all that is there.
//!
//! A leaf that overflows is cut in two halves by LMDB, one that overflows by appending is left full. Keys that come in
//! their order behind all others therefore make full leaves.

use super::tables::{Name, children};
use super::writing::Writing;
use crate::{Batch, Overwrite, ProductId, Written};

/// A table that is written to in one transaction.
struct Appender {
    table: Name,
    /// The last key; none in an empty table.
    last: Option<Vec<u8>>,
}

impl Appender {
    fn new(table: Name, writing: &Writing<'_>) -> Result<Self, heed::Error> {
        let last = writing.last(table)?.map(<[u8]>::to_vec);
        Ok(Self { table, last })
    }

    /// Puts a value; says whether it did, which it does not if it is to keep what is there.
    fn put(
        &mut self,
        writing: &mut Writing<'_>,
        (key, value): (&[u8], &[u8]),
        overwrite: Overwrite,
    ) -> Result<bool, heed::Error> {
        if self.last.as_deref().is_none_or(|last| key > last) {
            writing.append(self.table, key, value)?;
            let last = self.last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
            return Ok(true);
        }
        match overwrite {
            Overwrite::Replace => writing.put(self.table, key, value).map(|()| true),
            Overwrite::Keep => writing.put_new(self.table, key, value),
        }
    }
}

/// Writes the products of a batch, then its containers.
pub fn put(writing: &mut Writing<'_>, batch: &Batch) -> Result<Written, heed::Error> {
    let written = products(writing, batch)?;
    containers(writing, batch)?;
    Ok(written)
}

fn products(writing: &mut Writing<'_>, batch: &Batch) -> Result<Written, heed::Error> {
    let mut written = Written::default();
    let mut groups: Vec<_> = batch.products().iter().collect();
    groups.sort_by(|a, b| (a.parent, a.name.as_str()).cmp(&(b.parent, b.name.as_str())));
    let mut table = Appender::new(Name::Products, writing)?;
    let mut key = Vec::new();
    // Of products that are placed together, those of one event are beside each other.
    for together in groups.chunk_by(|a, b| a.parent == b.parent) {
        let groups = together.iter().enumerate();
        let mut entries: Vec<_> = groups
            .flat_map(|(g, group)| group.entries.iter().map(move |entry| (entry.0, g, entry)))
            .collect();
        if !entries.is_sorted_by_key(|(event, g, _)| (*event, *g)) {
            entries.sort_by_key(|(event, g, _)| (*event, *g)); // stable: of two of one key the later counts
        }
        for (event, g, (_, range)) in entries {
            let Some(group) = together.get(g) else {
                continue;
            };
            let container = group.parent.member(event);
            key.clear();
            key.extend_from_slice(&container.to_bytes());
            key.extend_from_slice(group.name.as_str().as_bytes());
            let entry = (key.as_slice(), batch.stored(range));
            if !table.put(writing, entry, batch.overwrite())? {
                written.kept.push(ProductId {
                    container,
                    name: group.name.clone(),
                });
            }
        }
    }
    Ok(written)
}

fn containers(writing: &mut Writing<'_>, batch: &Batch) -> Result<(), heed::Error> {
    let mut all: Vec<_> = batch.items().iter().collect();
    all.sort_by_key(|items| (items.parent.item_type(), items.parent));
    for of_type in all.chunk_by(|a, b| a.parent.item_type() == b.parent.item_type()) {
        let Some(first) = of_type.first() else {
            continue;
        };
        let mut table = Appender::new(children(&first.parent).0, writing)?;
        for items in of_type {
            let (_, mut key) = children(&items.parent);
            let prefix = key.len();
            let mut numbers = items.numbers.clone();
            numbers.sort_unstable();
            for number in numbers {
                key.truncate(prefix);
                key.extend_from_slice(&number.to_be_bytes());
                table.put(writing, (&key, &[]), Overwrite::Replace)?;
            }
        }
    }
    Ok(())
}
