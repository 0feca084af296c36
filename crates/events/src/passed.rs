//! Checks at the end of a pass over events that the visited containers still exist.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::container::deleted;
use crate::{Container, Descriptor, EventsError, Parent};

/// Approximate number of containers per request.
const WIDTH: usize = 16_384;

/// The runs and subruns that a pass over the events of a container has listed so far: eight bytes each. If one of them
/// is deleted before the pass ends, its events or their products may be missing in the result.
#[derive(Clone, Debug)]
pub struct Passed {
    container: Container,
    children: Arc<Mutex<BTreeMap<Parent, Vec<u64>>>>,
}

impl Passed {
    pub(crate) fn new(container: Container) -> Self {
        Self {
            container,
            children: Arc::default(),
        }
    }

    pub(crate) fn container(&self) -> &Container {
        &self.container
    }

    /// Adds a run or a subrun.
    pub(crate) fn add(&self, found: &Descriptor) {
        if let Some((parent, number)) = found.place() {
            let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
            children.entry(parent).or_default().push(number);
        }
    }

    /// Checks that the container and the listed runs and subruns in it still exist; call this at the end of a pass.
    ///
    /// # Errors
    ///
    /// [`EventsError::NotFound`] if one does not exist any more; errors of reading.
    pub fn check_left(&self) -> Result<(), EventsError> {
        let store = self.container.datastore();
        let children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        let mut children = children.iter().peekable();
        while children.peek().is_some() {
            let mut n_numbers = 0;
            let mut some: Vec<(Parent, &[u64])> = Vec::new();
            while let Some((parent, numbers)) = children.next_if(|_| n_numbers < WIDTH) {
                n_numbers += numbers.len();
                some.push((*parent, numbers));
            }
            let there = store.backend().contains(&some)?;
            for ((parent, numbers), there) in some.iter().zip(there) {
                let gone = numbers.iter().zip(there).find(|(_, is_there)| !is_there);
                if let Some((number, _)) = gone {
                    return Err(deleted(store.url(), &parent.child(*number)));
                }
            }
        }
        // Checked last: a deletion of the container deletes everything else first.
        self.container.check_left()
    }
}
