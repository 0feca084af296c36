//! Containers and products that are written together.

use std::collections::HashMap;
use std::ops::Range;

use crate::seal::{INLINE, SEAL, compress, may_be_compressed, seal};
use crate::{ABSENT, Descriptor, Parent, ProductName};

/// Number of products after which a group is left uncompressed, if they have not shrunk by a tenth together.
const TRIES: usize = 16;

/// Treatment of an existing product.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Overwrite {
    /// The new product replaces the existing one.
    #[default]
    Replace,
    /// The existing product is kept, and [`Written`](crate::Written) names it.
    Keep,
}

/// The children of one container that are to be created.
#[derive(Clone, Debug)]
pub struct Items {
    /// The container.
    pub parent: Parent,
    /// The numbers of the children, in the order in which they were added.
    pub numbers: Vec<u64>,
}

/// The products of one name that are stored together.
#[derive(Clone, Debug)]
pub struct Products {
    /// The parent that places the products.
    pub parent: Parent,
    /// The name of the products.
    pub name: ProductName,
    /// The event of each product (or [`ABSENT`] for a product of the parent itself), and the position of its stored
    /// bytes.
    pub entries: Vec<(u64, Range<usize>)>,
}

/// Containers and products, grouped as they are stored.
///
/// If two products have the same key, the later one counts.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    items: Vec<Items>,
    products: Vec<Products>,
    bytes: Vec<u8>,
    items_of: HashMap<Parent, usize>,
    products_of: HashMap<(Parent, ProductName), usize>,
    // The groups of the last additions; most additions go to the same groups.
    last_items: usize,
    last_products: usize,
    n: usize,
    overwrite: Overwrite,
}

impl Batch {
    /// Creates an empty batch.
    pub fn new(overwrite: Overwrite) -> Self {
        Self {
            overwrite,
            ..Self::default()
        }
    }

    /// Adds a child of a container.
    pub fn create(&mut self, parent: Parent, number: u64) {
        self.n += 1;
        let last = self.items.get_mut(self.last_items);
        if let Some(items) = last.filter(|items| items.parent == parent) {
            items.numbers.push(number);
            return;
        }
        let n = self.items.len();
        let at = *self.items_of.entry(parent).or_insert(n);
        if at == n {
            self.items.push(Items {
                parent,
                numbers: Vec::new(),
            });
        }
        self.last_items = at;
        if let Some(items) = self.items.get_mut(at) {
            items.numbers.push(number);
        }
    }

    /// Adds a product of an event of `parent`, or of `parent` itself if `event` is [`ABSENT`].
    pub fn store(&mut self, parent: Parent, event: u64, name: &ProductName, value: &[u8]) {
        let start = self.bytes.len();
        seal(value, INLINE, &mut self.bytes);
        self.add(parent, event, name, start);
    }

    /// Adds a value that is sealed already.
    pub(crate) fn store_sealed(
        &mut self,
        parent: Parent,
        event: u64,
        name: &ProductName,
        stored: &[u8],
    ) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(stored);
        self.add(parent, event, name, start);
    }

    /// Adds a product whose sealed value is at the end of the buffer.
    fn add(&mut self, parent: Parent, event: u64, name: &ProductName, start: usize) {
        self.n += 1;
        let entry = (event, start..self.bytes.len());
        // With two alternating names, the group is often the one after the last.
        for at in [self.last_products, self.last_products + 1] {
            let group = self.products.get_mut(at);
            if let Some(group) = group.filter(|group| group.parent == parent && group.name.is(name))
            {
                group.entries.push(entry);
                self.last_products = at;
                return;
            }
        }
        let n = self.products.len();
        let key = (parent, name.clone());
        let at = *self.products_of.entry(key).or_insert(n);
        if at == n {
            self.products.push(Products {
                parent,
                name: name.clone(),
                entries: Vec::new(),
            });
        }
        self.last_products = at;
        if let Some(group) = self.products.get_mut(at) {
            group.entries.push(entry);
        }
    }

    /// Compresses products that become at least 10 % smaller, except products larger than `most`. If the first
    /// products of a group do not compress well, the others are left uncompressed.
    pub(crate) fn compress(&mut self, most: u64) {
        for group in &mut self.products {
            let (mut n, mut before, mut after) = (0, 0, 0);
            for (_, range) in &mut group.entries {
                let length = range.len().saturating_sub(SEAL);
                if !may_be_compressed(length) || length as u64 > most {
                    continue;
                }
                let Some(stored) = self.bytes.get_mut(range.clone()) else {
                    continue;
                };
                let now = compress(stored).unwrap_or(stored.len());
                (n, before, after) = (n + 1, before + stored.len(), after + now);
                range.end = range.start + now;
                if n == TRIES && after * 10 > before * 9 {
                    break;
                }
            }
        }
    }

    /// The containers, grouped.
    pub fn items(&self) -> &[Items] {
        &self.items
    }

    /// The containers.
    pub fn containers(&self) -> impl Iterator<Item = Descriptor> {
        let groups = self.items.iter();
        groups.flat_map(|items| {
            items
                .numbers
                .iter()
                .map(|number| items.parent.child(*number))
        })
    }

    /// The products, grouped.
    pub fn products(&self) -> &[Products] {
        &self.products
    }

    /// The stored bytes of a product.
    pub fn stored(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }

    /// Treatment of existing products.
    pub fn overwrite(&self) -> Overwrite {
        self.overwrite
    }

    /// Number of containers and products.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether the batch has no containers and products.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Approximate memory of the contents, in bytes.
    pub fn n_bytes(&self) -> usize {
        const ENTRY: usize = size_of::<(u64, Range<usize>)>();
        self.bytes.len() + self.n * ENTRY
    }

    /// The products and containers of the batch, except some containers and their products.
    pub(crate) fn without(&self, is_meant: impl Fn(Descriptor) -> bool) -> Self {
        let mut rest = Self::new(self.overwrite);
        for items in &self.items {
            let numbers = items.numbers.iter();
            numbers
                .filter(|number| !is_meant(items.parent.child(**number)))
                .for_each(|number| rest.create(items.parent, *number));
        }
        for group in &self.products {
            for (event, range) in &group.entries {
                if !is_meant(group.parent.member(*event)) {
                    rest.store_sealed(group.parent, *event, &group.name, self.stored(range));
                }
            }
        }
        rest
    }

    /// Empties the batch; its memory is reused.
    pub fn clear(&mut self) {
        self.items.clear();
        self.products.clear();
        self.bytes.clear();
        self.items_of.clear();
        self.products_of.clear();
        (self.last_items, self.last_products, self.n) = (0, 0, 0);
    }
}

impl Products {
    /// The events, without products of the parent itself.
    pub fn events(&self) -> impl Iterator<Item = u64> {
        self.entries
            .iter()
            .map(|(event, _)| *event)
            .filter(|&event| event != ABSENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Uuid;
    use crate::seal::unseal;

    #[test]
    fn what_belongs_together_is_together() {
        let (a, b) = (
            Parent::subrun(Uuid::NIL, 1, 1),
            Parent::subrun(Uuid::NIL, 1, 2),
        );
        let names = ["x", "y"].map(|label| ProductName::new(label, "T").unwrap());
        let mut batch = Batch::default();
        for event in 0..3 {
            for parent in [a, b] {
                batch.create(parent, event);
                for name in &names {
                    let value = format!("{} {event} {}", parent.subrun, name.label());
                    batch.store(parent, event, name, value.as_bytes());
                }
            }
        }
        assert_eq!(
            (batch.items().len(), batch.products().len(), batch.len()),
            (2, 4, 18)
        );
        for group in batch.products() {
            assert!(group.events().eq(0..3));
            for (event, range) in &group.entries {
                let (value, _) = unseal(batch.stored(range)).unwrap();
                let expected = format!("{} {event} {}", group.parent.subrun, group.name.label());
                assert_eq!(value, expected.as_bytes());
            }
        }
        batch.clear();
        assert!(batch.is_empty() && batch.n_bytes() == 0);
    }
}
