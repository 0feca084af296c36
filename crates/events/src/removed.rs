//! Containers that were removed through a store: what is put into these, nobody would find before they are made again, and
//! then it would be there.
//!
//! This knows what was removed, not what is there: others may have made a container again. Who writes to one of these asks
//! the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

use crate::{ABSENT, Batch, Descriptor};

/// How many are known at most; beyond, the first in their order are forgotten.
const MOST: usize = 1 << 20;

/// Runs, subruns and events that were removed. One that is known stands for all that was in it.
#[derive(Debug, Default)]
pub struct Removed {
    /// Mostly there are none, and then nothing is locked.
    has_any: AtomicBool,
    /// In the order of keys, so that what is in a container is in front of it.
    known: RwLock<BTreeMap<Descriptor, Removal>>,
}

/// How far removing a container has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removal {
    /// It may still be there, and will not.
    Begun,
    /// It is there only if it was made again.
    Ended,
}

impl Removed {
    /// Notes that a container is being removed, or was.
    pub fn note(&self, container: Descriptor, removal: Removal) {
        let mut known = self.write();
        let inside: Vec<_> = known
            .range(inside(container))
            .map(|(one, _)| *one)
            .collect();
        for one in inside {
            known.remove(&one);
        }
        known.insert(container, removal);
        if known.len() > MOST {
            known.pop_first();
        }
        self.has_any.store(true, Ordering::Release);
    }

    /// Forgets containers that are made again.
    pub fn forget(&self, containers: impl IntoIterator<Item = Descriptor>) {
        if !self.has_any.load(Ordering::Acquire) {
            return;
        }
        let mut known = self.write();
        for container in containers {
            known.remove(&container);
        }
        self.has_any.store(!known.is_empty(), Ordering::Release);
    }

    /// The removed containers that a batch writes to, or into, and does not make again itself.
    pub fn touched(&self, batch: &Batch) -> BTreeMap<Descriptor, Removal> {
        let mut touched = BTreeMap::new();
        if !self.has_any.load(Ordering::Acquire) {
            return touched;
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut look = |container: Descriptor| {
            let removal = known.get(&container);
            touched.extend(removal.map(|removal| (container, *removal)));
        };
        for group in batch.products() {
            above(group.parent.descriptor()).for_each(&mut look);
            let events = group.events().map(|event| group.parent.child(event));
            events.for_each(&mut look);
        }
        for items in batch.items() {
            above(items.parent.descriptor()).for_each(&mut look);
        }
        if !touched.is_empty() {
            let made: BTreeSet<_> = batch.containers().collect();
            touched.retain(|container, _| !made.contains(container));
        }
        touched
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Descriptor, Removal>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run or subrun, and the run that it is in; nothing of a dataset.
fn above(container: Descriptor) -> impl Iterator<Item = Descriptor> {
    let run = Descriptor {
        subrun: ABSENT,
        ..container
    };
    let both = [run, container].into_iter().filter(|one| one.run != ABSENT);
    both.take(if container.subrun == ABSENT { 1 } else { 2 })
}

/// What is in a container, in the order of keys.
pub fn inside(container: Descriptor) -> std::ops::Range<Descriptor> {
    let from = |number| if number == ABSENT { 0 } else { number };
    let first = Descriptor {
        subrun: from(container.subrun),
        event: from(container.event),
        ..container
    };
    first..container
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parent, ProductName, Uuid};

    const RUN: Parent = Parent::run(Uuid([1; 16]), 1);
    const SUBRUN: Parent = Parent::subrun(Uuid([1; 16]), 1, 2);

    fn batch(made: &[Descriptor], stored: &[Descriptor]) -> Batch {
        let mut batch = Batch::default();
        for one in made {
            let (parent, number) = one.place().unwrap();
            batch.create(parent, number);
        }
        let name = ProductName::new("x", "T").unwrap();
        for one in stored {
            batch.store(one.placed_by(), one.event, &name, b"x");
        }
        batch
    }

    #[test]
    fn what_was_removed_covers_what_was_in_it() {
        let removed = Removed::default();
        let (run, subrun, event) = (RUN.descriptor(), SUBRUN.descriptor(), SUBRUN.child(3));
        let touched = |made: &[Descriptor], stored: &[Descriptor]| {
            let touched = removed.touched(&batch(made, stored));
            touched.into_keys().collect::<Vec<_>>()
        };
        removed.note(event, Removal::Ended);
        assert_eq!(touched(&[], &[event]), [event]);
        assert_eq!(touched(&[], &[subrun, SUBRUN.child(4)]), []);
        assert_eq!(touched(&[event], &[event]), []);
        removed.note(run, Removal::Begun);
        assert_eq!(removed.known.read().unwrap().len(), 1);
        for stored in [run, subrun, event] {
            assert_eq!(touched(&[], &[stored]), [run]);
            assert_eq!(touched(&[run], &[stored]), []);
        }
        // Making what is in it does not make it.
        assert_eq!(touched(&[subrun, event], &[]), [run]);
        assert_eq!(
            touched(&[], &[Parent::run(Uuid([1; 16]), 2).descriptor()]),
            []
        );
        assert_eq!(
            touched(&[], &[Parent::run(Uuid([2; 16]), 1).descriptor()]),
            []
        );
        assert_eq!(
            touched(&[], &[Parent::dataset(Uuid([1; 16])).descriptor()]),
            []
        );
        removed.forget([run]);
        assert!(!removed.has_any.load(Ordering::Relaxed));
        assert_eq!(touched(&[], &[event]), []);
    }
}
