//! Products of an event store as columns.
//!
//! A product's type is a C++ name, as normalized by ROOT, and determines how its values are stored
//! ([`rows`](femtobarn_rntuple::rows)). The store records the members of each class once ([`ClassNote`]). So a program
//! can load the products of another, in any language, as columns.

mod cpp_names;
mod describe;
mod forget;
mod form;
mod hint;
mod note;
mod type_name;
mod types;

#[cfg(test)]
mod tests;

pub use cpp_names::{cpp_keywords, is_cpp_name};
pub use describe::{Described, describe, described, identifier};
pub use form::{Column, Form, export, present};
pub use hint::{hint, may_be_of_boost};
pub use note::{ClassNote, Member};
pub use type_name::type_name;
pub use types::{CLASSES_KNOWN_FOR, Types};

use std::ops::Range;

use femtobarn_events::{
    Container, DataStore, Descriptor, EventsError, LoadOptions, Loaded, Loader, ProductId,
    ProductName,
};
use femtobarn_rntuple::array::Arrays;
use femtobarn_rntuple::rows::{Columns, RowFault};

/// The types of products that are bytes of unknown structure, or Python objects.
pub const OPAQUE: [&str; 3] = ["bytes", "msgpack", "pickle"];

/// The class of references to products.
pub const REFERENCE: &str = "fb::Ptr";

/// Products of all events in containers as columns, with or without the numbers of the events (`run`, `subrun`,
/// `event`).
///
/// # Errors
///
/// Errors of the store, unknown types, and values that do not fit their type.
pub fn arrays(
    types: &Types,
    store: &DataStore,
    items: &[Container],
    names: &[ProductName],
    with_numbers: bool,
) -> Result<Arrays, EventsError> {
    let mut pieces = Vec::new();
    for item in items {
        let options = LoadOptions {
            names: names.to_vec(),
            ..LoadOptions::default()
        };
        for piece in Loader::start(store, item.events(), options) {
            pieces.push(piece?);
        }
    }
    let whole = pieces.iter().map(|piece| (piece, 0..piece.len()));
    let whole: Vec<_> = whole.collect();
    columns(types, store, &whole, names, with_numbers)
}

/// Loaded events, and the relevant range of them.
pub type Part<'a> = (&'a Loaded, Range<usize>);

/// The events of parts, in order.
fn descriptors<'a>(parts: &'a [Part<'a>]) -> impl Iterator<Item = Descriptor> + 'a {
    let own =
        |(loaded, range): &'a Part<'a>| loaded.descriptors().skip(range.start).take(range.len());
    parts.iter().flat_map(own)
}

/// Loaded products as columns, concatenated.
///
/// # Errors
///
/// If a type is unknown, or a value does not fit its type.
pub fn columns(
    types: &Types,
    store: &DataStore,
    parts: &[Part<'_>],
    names: &[ProductName],
    with_numbers: bool,
) -> Result<Arrays, EventsError> {
    let mut columns = Columns::new(parts.iter().map(|(_, range)| range.len()).sum());
    if with_numbers {
        let events = || descriptors(parts);
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
        let products = parts.iter().filter_map(|(loaded, range)| {
            let values = loaded.products.get(at)?;
            Some(values.iter().skip(range.start).take(range.len()))
        });
        let values = products.flatten();
        let damaged = |fault: RowFault| {
            let container = descriptors(parts).nth(fault.row);
            damaged(store, container, name, fault)
        };
        columns.add(&rows, values).map_err(damaged)?;
    }
    Ok(columns.finish())
}

fn damaged(
    store: &DataStore,
    container: Option<Descriptor>,
    name: &ProductName,
    fault: RowFault,
) -> EventsError {
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
