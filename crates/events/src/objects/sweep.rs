//! Deletes objects without a product.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, SystemTime};

use super::owner::MARKER;
use super::{LargeObjects, name};
use crate::{Backend, Descriptor, EventsError, Wanted};

/// The result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Number of objects with a product.
    pub n_used: u64,
    /// Number of deleted objects.
    pub n_deleted: u64,
    /// Size of the deleted objects in bytes.
    pub n_bytes: u64,
    /// Number of objects without a product that are too new: their references may be about to be
    /// written.
    pub n_young: u64,
    /// Number of files with names that do not belong to the store; they are kept.
    pub n_strange: u64,
}

impl LargeObjects {
    /// Deletes objects without a product that are older than `age`.
    pub fn sweep(&self, backend: &dyn Backend, age: Duration) -> Result<Swept, EventsError> {
        backend.check_writes("delete objects")?;
        self.check_ours(backend)?;
        let failed = |source| EventsError::Objects {
            url: self.url.clone(),
            doing: "list the objects of the store",
            source,
        };
        let mut swept = Swept::default();
        let mut by_container: BTreeMap<Descriptor, Vec<_>> = BTreeMap::new();
        let found = self.folder.list().map_err(failed)?.into_iter();
        for object in found.filter(|object| object.name != MARKER) {
            match name::container_of(&object.name) {
                Some(container) => by_container.entry(container).or_default().push(object),
                None => swept.n_strange += 1,
            }
        }
        let now = SystemTime::now();
        for (container, objects) in by_container {
            let (used, has_damaged) = self.used(backend, &container)?;
            let mut orphans = Vec::new();
            for object in objects {
                let is_old = now.duration_since(object.modified).unwrap_or_default() >= age;
                // The object may be all that is left of a damaged product.
                match (has_damaged || used.contains(&object.name), is_old) {
                    (true, _) => swept.n_used += 1,
                    (false, false) => swept.n_young += 1,
                    (false, true) => {
                        swept.n_deleted += 1;
                        swept.n_bytes += object.size;
                        orphans.push(object.name);
                    }
                }
            }
            self.delete(&orphans)?;
        }
        Ok(swept)
    }

    /// The objects of the products of a container, and whether some products are damaged.
    fn used(
        &self,
        backend: &dyn Backend,
        container: &Descriptor,
    ) -> Result<(HashSet<String>, bool), EventsError> {
        let parent = container.placed_by();
        let (mut used, mut has_damaged) = (HashSet::new(), false);
        for name in backend.names(&parent, container.event, None)? {
            if self.may_be_large(backend, &name)? {
                let wanted = Wanted {
                    parent,
                    name: &name,
                    events: &[container.event],
                };
                let (found, is_damaged) = self.referred(backend, &[wanted])?;
                used.extend(found);
                has_damaged |= is_damaged;
            }
        }
        Ok((used, has_damaged))
    }
}
