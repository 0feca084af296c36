//! Lists and removes products of all events in a container.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Container, EventsError, ItemType, NameCount, ProductName};

/// The result of removing products of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedProducts {
    /// The number of removed products by name.
    pub removed: BTreeMap<ProductName, u64>,
    /// The names of the other products of these events.
    pub others: BTreeSet<ProductName>,
}

impl RemovedProducts {
    /// The total number of removed products.
    pub fn n(&self) -> u64 {
        self.removed.values().sum()
    }

    /// The error that no event has the product; `of` describes the container of the events.
    pub fn not_found(&self, url: &str, product: (&str, Option<&str>), of: &str) -> EventsError {
        let (label, type_name) = product;
        let shown = |name| match type_name {
            Some(_) => ProductName::as_str(name),
            None => ProductName::label(name),
        };
        let others: BTreeSet<_> = self.others.iter().map(shown).collect();
        let others: Vec<_> = others.into_iter().collect();
        let type_name = type_name.map_or_else(String::new, |name| format!("#{name}"));
        EventsError::NotFound {
            url: url.into(),
            what: format!(
                "product {:?} of an event of {of}",
                format!("{label}{type_name}")
            ),
            hint: match others.is_empty() {
                true => "; they have none".into(),
                false => format!("; they have {}", others.join(", ")),
            },
        }
    }
}

impl Container {
    /// Removes products of all events in the container, with a label, or with a label and type. Products of the
    /// container itself and of its runs and subruns are kept. Works subrun by subrun; after an interruption, call it
    /// again.
    ///
    /// # Errors
    ///
    /// If this is an event; errors of writing. No match is not an error: the result lists the existing products.
    pub fn remove_event_products(
        &self,
        label: &str,
        type_name: Option<&str>,
    ) -> Result<RemovedProducts, EventsError> {
        if self.item_type() == ItemType::Event {
            return Err(EventsError::Usage {
                what: "an event has no events: remove its own products one by one".into(),
            });
        }
        self.datastore().backend().check_writes("remove products")?;
        let is_meant = |name: &ProductName| {
            name.label() == label && type_name.is_none_or(|wanted| name.type_name() == wanted)
        };
        let mut done = RemovedProducts::default();
        self.remove_below(&is_meant, &mut done)?;
        Ok(done)
    }

    /// The number of events with each product, by name.
    ///
    /// # Errors
    ///
    /// If this is an event; errors of reading.
    pub fn event_products(&self) -> Result<BTreeMap<ProductName, u64>, EventsError> {
        if self.item_type() == ItemType::Event {
            return Err(EventsError::Usage {
                what: "an event has no events: list its own products".into(),
            });
        }
        let mut counts = BTreeMap::new();
        self.count_below(&mut counts)?;
        Ok(counts)
    }

    fn count_below(&self, counts: &mut BTreeMap<ProductName, u64>) -> Result<(), EventsError> {
        if self.item_type() != ItemType::SubRun {
            return self
                .children(..)
                .try_for_each(|child| child?.count_below(counts));
        }
        let parent = self.descriptor().placed_by();
        for count in self.datastore().backend().name_counts(&parent)? {
            if count.n_events > 0 {
                *counts.entry(count.name).or_default() += count.n_events;
            }
        }
        Ok(())
    }

    fn remove_below(
        &self,
        is_meant: &dyn Fn(&ProductName) -> bool,
        done: &mut RemovedProducts,
    ) -> Result<(), EventsError> {
        if self.item_type() != ItemType::SubRun {
            return self
                .children(..)
                .try_for_each(|child| child?.remove_below(is_meant, done));
        }
        let parent = self.descriptor().placed_by();
        for NameCount { name, n_events, .. } in self.datastore().backend().name_counts(&parent)? {
            if n_events == 0 {
                continue;
            }
            if !is_meant(&name) {
                done.others.insert(name);
                continue;
            }
            if done.removed.is_empty() {
                self.forget_files()?;
            }
            let n = self.datastore().remove_named(&parent, &name)?;
            *done.removed.entry(name).or_default() += n;
        }
        Ok(())
    }
}
