//! Writes a batch in key order, appending where possible.
//!
//! LMDB splits an overflowing leaf into halves, but leaves it full if the new key is appended. So appending keys in
//! order makes full leaves. The products of a dataset or run itself have higher keys than the products of its events.
//! If there are only a few, they are removed and appended again after the events, to avoid half-full leaves.

use super::tables::{Name, children};
use super::writing::{Entry, Writing};
use crate::{Batch, Overwrite, ProductId, Written};

/// Maximum number of products that are removed and appended again.
const ASIDE: usize = 64;

/// A table during a transaction.
struct Appender {
    table: Name,
    /// The last key; `None` in an empty table.
    last: Option<Vec<u8>>,
}

impl Appender {
    fn new(table: Name, writing: &Writing<'_>) -> Result<Self, heed::Error> {
        let last = writing.last(table)?.map(<[u8]>::to_vec);
        Ok(Self { table, last })
    }

    /// Stores a value; returns whether it was stored. With `Keep`, an existing value is kept.
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
    let aside = set_aside(writing, batch)?;
    let mut table = Appender::new(Name::Products, writing)?;
    let mut key = Vec::new();
    // Among products that are stored together, products of one event are adjacent.
    for together in groups.chunk_by(|a, b| a.parent == b.parent) {
        let groups = together.iter().enumerate();
        let mut entries: Vec<_> = groups
            .flat_map(|(g, group)| group.entries.iter().map(move |entry| (entry.0, g, entry)))
            .collect();
        if !entries.is_sorted_by_key(|(event, g, _)| (*event, *g)) {
            entries.sort_by_key(|(event, g, _)| (*event, *g)); // stable: if two have the same key, the later one counts
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
    for (key, value) in aside {
        table.put(writing, (&key, &value), Overwrite::Keep)?;
    }
    Ok(written)
}

/// Removes and returns the products after the first key of a batch, if they are few and many keys precede them.
fn set_aside(writing: &mut Writing<'_>, batch: &Batch) -> Result<Vec<Entry>, heed::Error> {
    if batch.len() < ASIDE {
        return Ok(Vec::new());
    }
    let ends = batch.products().iter().flat_map(|group| {
        let events = group.entries.iter().map(|(event, _)| *event);
        let ends = [events.clone().min(), events.max()];
        let place = group.parent.to_bytes();
        let name = group.name.as_str().as_bytes();
        let key = move |event: u64| [&place, event.to_be_bytes().as_slice(), name].concat();
        ends.into_iter().flatten().map(key)
    });
    let ends: Vec<_> = ends.collect();
    let (Some(lowest), Some(highest)) = (ends.iter().min(), ends.iter().max()) else {
        return Ok(Vec::new());
    };
    let behind = writing.behind(Name::Products, lowest, ASIDE)?;
    // A product to keep must exist when it is stored again.
    let may_go = |all: &Vec<Entry>| {
        let is_behind_all = all.first().is_none_or(|(first, _)| first > highest);
        is_behind_all || batch.overwrite() == Overwrite::Replace
    };
    let behind = behind.filter(may_go).unwrap_or_default();
    for (key, _) in &behind {
        writing.delete(Name::Products, key)?;
    }
    Ok(behind)
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
