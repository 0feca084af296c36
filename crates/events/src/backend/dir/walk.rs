//! Loads adjacent entries by stepping from key to key, and seeks only over long distances.

use std::cmp::Ordering;

use super::pages::{Damage, Entries, Tree};
use super::tables::set_event;
use crate::{ABSENT, Wanted};

/// Number of keys to step over before a seek is cheaper.
const MOST_STEPS: usize = 8;

/// A position in a table, which only moves forward.
pub struct Walk<'t> {
    table: Tree<'t>,
    keys: Option<Entries<'t>>,
    here: Option<(&'t [u8], &'t [u8])>,
}

impl<'t> Walk<'t> {
    /// A walk before the first key.
    pub fn new(table: Tree<'t>) -> Self {
        Self {
            table,
            keys: None,
            here: None,
        }
    }

    /// The value of a key, which must not be smaller than any earlier requested key.
    pub fn find(&mut self, key: &[u8]) -> Result<Option<&'t [u8]>, Damage> {
        if let Some(keys) = &mut self.keys {
            for _ in 0..MOST_STEPS {
                match self.here.map(|(here, value)| (here.cmp(key), value)) {
                    Some((Ordering::Equal, value)) => return Ok(Some(value)),
                    Some((Ordering::Less, _)) => self.here = keys.next().transpose()?,
                    // after the key, or at the end
                    Some((Ordering::Greater, _)) | None => return Ok(None),
                }
            }
        }
        let keys = self.keys.insert(self.table.from(key)?);
        self.here = keys.next().transpose()?;
        let found = self.here.filter(|(here, _)| *here == key);
        Ok(found.map(|(_, value)| value))
    }
}

/// Requests for the same events of one container, which one walk can load.
pub struct Alike<'a> {
    events: &'a [u64],
    /// The indexes of the requests, sorted by name, with the rest of their keys.
    names: Vec<(usize, Vec<u8>)>,
}

impl<'a> Alike<'a> {
    /// Groups requests that one walk can load; the others stay separate.
    pub fn of(wanted: &[Wanted<'a>]) -> Vec<Self> {
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_by_key(|&w| wanted.get(w).map(|wanted| (wanted.parent, wanted.name)));
        let mut all: Vec<(&Wanted<'a>, Self)> = Vec::new();
        for w in order {
            let Some(own) = wanted.get(w) else { continue };
            let mut key = own.parent.member(ABSENT).to_bytes().to_vec();
            key.extend_from_slice(own.name.as_str().as_bytes());
            match all.last_mut() {
                Some((first, together))
                    if first.parent == own.parent
                        && first.events == own.events
                        && together.is_sorted() =>
                {
                    together.names.push((w, key));
                }
                _ => all.push((
                    own,
                    Self {
                        events: own.events,
                        names: vec![(w, key)],
                    },
                )),
            }
        }
        all.into_iter().map(|(_, together)| together).collect()
    }

    /// Whether the events are sorted and unique.
    pub fn is_sorted(&self) -> bool {
        self.events.is_sorted_by(|a, b| a < b)
    }

    /// Calls a function for each product with the index of the request, the index of the event, and
    /// the key.
    pub fn each<E>(
        &mut self,
        mut load: impl FnMut(usize, usize, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for (e, event) in self.events.iter().enumerate() {
            for (w, key) in &mut self.names {
                set_event(key, *event);
                load(*w, e, key)?;
            }
        }
        Ok(())
    }
}
