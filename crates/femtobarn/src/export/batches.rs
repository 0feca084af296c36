//! Loading events and products, as many at a time as there is memory for.

use std::collections::BTreeMap;

use femtobarn_events::{
    Container, Descriptor, EventChunks, LoadOptions, Loaded, Loader, ProductName,
};

use super::Exported;
use super::survey::{Name, Row};
use super::write::Again;
use crate::transfer::{TransferError, quoted};

const MOST_EVENTS: usize = 65_536;
const FIRST_EVENTS: usize = 64;
/// How many times as many events follow.
const MOST_GROWTH: usize = 8;

/// Containers with their own products.
#[derive(Default)]
pub(super) struct Page<'a> {
    pub rows: Vec<&'a Row>,
    pub values: Vec<BTreeMap<Name, Vec<u8>>>,
    pub n_bytes: usize,
}

impl<'a> Page<'a> {
    pub fn load(&mut self, exported: &Exported<'_>, row: &'a Row) -> Result<(), TransferError> {
        let container = Container::new(exported.store().clone(), row.descriptor);
        let mut own = BTreeMap::new();
        for product in &row.products {
            let name = ProductName::new(&product.0, &product.1)?;
            let Some(value) = container.load(&name)? else {
                let what = format!(
                    "product ({}, {}) of {} was deleted during the export",
                    quoted(&product.0),
                    quoted(&product.1),
                    row.descriptor
                );
                return Err(TransferError::new("changed", what));
            };
            self.n_bytes += value.len();
            own.insert(product.clone(), value);
        }
        self.rows.push(row);
        self.values.push(own);
        Ok(())
    }
}

/// Calls a function with events and products, as many at a time as there is memory for: their size is known when they
/// are loaded.
pub(super) fn each_batch(
    holder: &Container,
    names: &[ProductName],
    budget: usize,
    found: &mut dyn FnMut(&Loaded) -> Result<(), Again>,
) -> Result<(), Again> {
    let (store, container) = (holder.datastore(), holder.descriptor());
    let (mut number, mut after): (usize, Option<Descriptor>) = (FIRST_EVENTS, None);
    loop {
        let events = match after {
            Some(seen) => EventChunks::after(store.clone(), container, seen),
            None => EventChunks::new(store.clone(), container),
        };
        let options = LoadOptions {
            names: names.to_vec(),
            n_events: number,
            ahead: 1,
        };
        let mut next = None;
        for loaded in Loader::start(store, events, options) {
            let loaded = loaded?;
            found(&loaded)?;
            after = loaded.descriptors().last().or(after);
            let n_bytes: usize = loaded.products.iter().map(|values| values.n_bytes()).sum();
            let per_event = (n_bytes / loaded.len().max(1)).max(1);
            // the next events may be larger
            let most = MOST_EVENTS.min(number * MOST_GROWTH);
            let wanted = (budget / per_event).clamp(1, most);
            let is_near = number / 4 <= wanted && wanted <= number * 4;
            if !is_near || number == FIRST_EVENTS && wanted > number {
                next = Some(wanted);
                break;
            }
        }
        match next {
            Some(wanted) => number = wanted,
            None => return Ok(()),
        }
    }
}
