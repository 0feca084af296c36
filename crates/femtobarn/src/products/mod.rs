//! Products of an event store as columns.
//!
//! A product's type is a name of C++, as ROOT normalizes them, and says how its values are stored
//! ([`rows`](femtobarn_rntuple::rows)). Of classes, the store notes once what members they have ([`ClassNote`]), so that
//! what one program stores, in whatever language, another loads as columns.

mod describe;
mod note;
mod types;

#[cfg(test)]
mod tests;

pub use describe::{Described, describe};
pub use note::{ClassNote, Member};
pub use types::Types;

use femtobarn_events::{
    DataStore, EventsError, Item, LoadOptions, Loaded, Loader, ProductId, ProductName,
};
use femtobarn_rntuple::array::Arrays;
use femtobarn_rntuple::rows::{Columns, RowFault};

/// The type of products that are bytes of which nothing more is known.
pub const BYTES: &str = "bytes";

/// Products of all events of a container as columns, with or without the numbers of the events (`run`, `subrun`, `event`).
///
/// # Errors
///
/// What the store says, types that are not known, and values that are none of their type.
pub fn arrays(
    types: &Types,
    item: &Item,
    names: &[ProductName],
    with_numbers: bool,
) -> Result<Arrays, EventsError> {
    let options = LoadOptions {
        names: names.to_vec(),
        ..LoadOptions::default()
    };
    let loader = Loader::start(item.datastore(), item.events(), options);
    let pieces = loader.collect::<Result<Vec<_>, _>>()?;
    columns(types, item.datastore(), &pieces, names, with_numbers)
}

/// Products that were loaded as columns, one behind the other.
///
/// # Errors
///
/// Types that are not known, and values that are none of their type.
pub fn columns(
    types: &Types,
    store: &DataStore,
    pieces: &[Loaded],
    names: &[ProductName],
    with_numbers: bool,
) -> Result<Arrays, EventsError> {
    let mut columns = Columns::new(pieces.iter().map(Loaded::len).sum());
    if with_numbers {
        let events = || pieces.iter().flat_map(Loaded::descriptors);
        let [run, subrun, event]: [Vec<u64>; 3] = [
            events().map(|event| event.run).collect(),
            events().map(|event| event.subrun).collect(),
            events().map(|event| event.event).collect(),
        ];
        columns.add_numbers("run", &run);
        columns.add_numbers("subrun", &subrun);
        columns.add_numbers("event", &event);
    }
    for (at, name) in names.iter().enumerate() {
        let rows = types.of(name.type_name(), name.label())?;
        let products = pieces.iter().filter_map(|piece| piece.products.get(at));
        let values = products.flat_map(|values| values.iter());
        let damaged = |fault| damaged(store, pieces, name, fault);
        columns.add(&rows, values).map_err(damaged)?;
    }
    Ok(columns.finish())
}

fn damaged(
    store: &DataStore,
    pieces: &[Loaded],
    name: &ProductName,
    fault: RowFault,
) -> EventsError {
    let container = pieces.iter().flat_map(Loaded::descriptors).nth(fault.row);
    let url = store.url().into();
    match container {
        Some(container) => EventsError::Damaged {
            url,
            id: Box::new(ProductId {
                container,
                name: name.clone(),
            }),
            expected: format!("{} as a {}", fault.expected, name.type_name()),
            found: fault.found,
        },
        None => EventsError::Type {
            url,
            type_name: name.type_name().into(),
            why: format!("expected {}, found {}", fault.expected, fault.found),
        },
    }
}
