//! Writes batches with large products.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_128;

use super::LargeObjects;
use super::name::{BESIDE, Reference, new_name};
use crate::batch::Products;
use crate::seal::SEAL;
use crate::{
    Backend, Batch, EventsError, Overwrite, Parent, ProductId, ProductName, Wanted, Written,
};

/// A batch for the backend, and the objects to write before it.
struct Split<'b> {
    batch: Batch,
    /// The objects with their products.
    objects: Vec<(ProductId, String, &'b [u8])>,
    /// Number of values for each product that may be an object.
    n_values: HashMap<ProductId, usize>,
}

impl LargeObjects {
    /// Writes a batch. Its objects always get new names, so a repeated batch never refers to objects that another
    /// client may have deleted.
    pub fn write(&self, backend: &dyn Backend, batch: &Batch) -> Result<Written, EventsError> {
        let large = self.large_names(backend, batch)?;
        if large.is_empty() {
            return backend.write(batch);
        }
        backend.check_writes("write")?;
        self.check_ours(backend)?;
        let split = self.split(batch)?;
        let objects: Vec<_> = split
            .objects
            .iter()
            .map(|(_, name, bytes)| (name.as_str(), *bytes))
            .collect();
        if let Err(source) = self.folder.put(&objects) {
            self.delete_quietly(split.objects.iter().map(|(_, name, _)| name));
            return Err(EventsError::Objects {
                url: self.url.clone(),
                doing: "store large products as objects",
                source,
            });
        }
        // As late as possible: objects that others write in between become orphans.
        let replaced = match batch.overwrite() {
            Overwrite::Replace => self.replaced(backend, batch, &large)?,
            Overwrite::Keep => Vec::new(),
        };
        let whole = match split.objects.is_empty() {
            true => batch,
            false => &split.batch,
        };
        let written = backend.write(whole);
        match &written {
            Ok(written) => {
                self.delete_quietly(unused(&split, &written.kept));
                self.delete_replaced(backend, &replaced);
            }
            // Nothing was written; after other errors, parts may have been written.
            Err(
                EventsError::ReadOnly { .. }
                | EventsError::TooLarge { .. }
                | EventsError::Usage { .. },
            ) => self.delete_quietly(split.objects.iter().map(|(_, name, _)| name)),
            Err(_) => {}
        }
        written
    }

    /// The names in a batch whose products may be objects: according to the new values, and, if these replace existing
    /// values, to the record.
    fn large_names<'b>(
        &self,
        backend: &dyn Backend,
        batch: &'b Batch,
    ) -> Result<HashSet<&'b ProductName>, EventsError> {
        let mut large = HashSet::new();
        let mut small = HashSet::new();
        for group in batch.products() {
            if large.contains(&group.name) {
                continue;
            }
            if group.entries.iter().any(|(_, range)| self.is_large(range)) {
                self.note_large(backend, &group.name)?;
                large.insert(&group.name);
            } else if batch.overwrite() == Overwrite::Replace
                && small.insert(&group.name)
                && self.may_be_large(backend, &group.name)?
            {
                large.insert(&group.name);
            }
        }
        Ok(large)
    }

    fn is_large(&self, stored: &Range<usize>) -> bool {
        (stored.len().saturating_sub(SEAL)) as u64 > self.over
    }

    fn split<'b>(&self, batch: &'b Batch) -> Result<Split<'b>, EventsError> {
        let mut split = Split {
            batch: Batch::new(batch.overwrite()),
            objects: Vec::new(),
            n_values: HashMap::new(),
        };
        for group in batch.products() {
            match group.entries.iter().any(|(_, range)| self.is_large(range)) {
                true => self.split_group(batch, group, &mut split)?,
                false => {
                    for (event, range) in &group.entries {
                        let stored = batch.stored(range);
                        split
                            .batch
                            .store_sealed(group.parent, *event, &group.name, stored);
                    }
                }
            }
        }
        for items in batch.items() {
            let create = |number: &u64| split.batch.create(items.parent, *number);
            items.numbers.iter().for_each(create);
        }
        Ok(split)
    }

    /// If a product has several values, only the one that counts becomes an object: the last, or the first if existing
    /// products are kept. The others are stored in the same form, so that the backend reports unneeded objects.
    fn split_group<'b>(
        &self,
        batch: &'b Batch,
        group: &Products,
        split: &mut Split<'b>,
    ) -> Result<(), EventsError> {
        let mut counts: HashMap<u64, (usize, Vec<u8>)> = HashMap::new();
        for (at, (event, _)) in group.entries.iter().enumerate() {
            match batch.overwrite() {
                Overwrite::Replace => {
                    counts.insert(*event, (at, Vec::new()));
                }
                Overwrite::Keep => {
                    counts.entry(*event).or_insert((at, Vec::new()));
                }
            }
        }
        for (at, (event, range)) in group.entries.iter().enumerate() {
            let stored = batch.stored(range);
            let id = ProductId {
                container: group.parent.member(*event),
                name: group.name.clone(),
            };
            *split.n_values.entry(id.clone()).or_default() += 1;
            let Some((of_event, bytes)) = counts.get_mut(event) else {
                continue;
            };
            if *of_event == at {
                *bytes = match self.is_large(range) {
                    true => self.object(stored, id, split)?,
                    false => stored.to_vec(),
                };
            }
            if !bytes.is_empty() {
                split
                    .batch
                    .store_sealed(group.parent, *event, &group.name, bytes);
            }
        }
        Ok(())
    }

    /// Creates an object for a sealed value; returns the sealed reference to it.
    fn object<'b>(
        &self,
        stored: &'b [u8],
        id: ProductId,
        split: &mut Split<'b>,
    ) -> Result<Vec<u8>, EventsError> {
        let value = stored
            .len()
            .checked_sub(SEAL)
            .and_then(|end| stored.get(..end));
        let value = value.unwrap_or_default();
        let name = new_name(&id.container).map_err(|error| {
            EventsError::engine(&self.url, "create the name of an object", error.to_string())
        })?;
        let reference = Reference {
            size: value.len() as u64,
            checksum: xxh3_128(value),
            name: name.clone(),
        };
        let mut sealed = Vec::new();
        crate::seal::seal(&reference.to_bytes(), BESIDE, &mut sealed);
        split.objects.push((id, name, value));
        Ok(sealed)
    }

    /// The objects of products that a batch replaces.
    fn replaced(
        &self,
        backend: &dyn Backend,
        batch: &Batch,
        large: &HashSet<&ProductName>,
    ) -> Result<Vec<String>, EventsError> {
        let groups = batch.products().iter();
        let groups: Vec<(Parent, &ProductName, Vec<u64>)> = groups
            .filter(|group| large.contains(&group.name))
            .map(|group| {
                let mut events: Vec<_> = group.entries.iter().map(|(event, _)| *event).collect();
                events.sort_unstable();
                events.dedup();
                (group.parent, &group.name, events)
            })
            .collect();
        let wanted: Vec<_> = groups
            .iter()
            .map(|(parent, name, events)| Wanted {
                parent: *parent,
                name,
                events,
            })
            .collect();
        Ok(self.referred(backend, &wanted)?.0)
    }

    /// Deletes replaced objects when their replacement is durable. Before that, a crash may undo the last writes and
    /// restore the old values.
    fn delete_replaced(&self, backend: &dyn Backend, names: &[String]) {
        if names.is_empty() {
            return;
        }
        match backend.flush() {
            Ok(()) => self.delete_quietly(names),
            Err(error) => self.tell_left(&error),
        }
    }

    /// Deletes objects without a product. Failures are reported, and the objects are left for a sweep.
    fn delete_quietly<'n>(&self, names: impl IntoIterator<Item = &'n String>) {
        let names: Vec<_> = names.into_iter().map(String::as_str).collect();
        if names.is_empty() {
            return;
        }
        if let Err(error) = self.folder.delete(&names) {
            self.tell_left(&error);
        }
    }

    fn tell_left(&self, error: &dyn std::error::Error) {
        let text = format!(
            "{}: could not delete objects without a product; delete them later with `fb store sweep`: {}",
            self.url,
            femtobarn_io::with_causes(error)
        );
        femtobarn_io::notice(&self.url, &text);
    }
}

/// The objects of products that were not stored because an older product was kept.
fn unused<'s>(split: &'s Split<'_>, kept: &[ProductId]) -> impl Iterator<Item = &'s String> {
    let mut n_kept: HashMap<&ProductId, usize> = HashMap::new();
    for id in kept {
        *n_kept.entry(id).or_default() += 1;
    }
    let is_unused = move |id: &ProductId| {
        let n = n_kept.get(id).copied().unwrap_or_default();
        n > 0 && Some(n) == split.n_values.get(id).copied()
    };
    let objects = split.objects.iter();
    objects
        .filter(move |(id, ..)| is_unused(id))
        .map(|(_, name, _)| name)
}
