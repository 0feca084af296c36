//! Which events and products there are: found before anything is written, as the columns must be known.

use std::collections::{BTreeMap, BTreeSet};

use femtobarn_events::{Container, DataStore, Descriptor, EventsError, ItemType, ProductName};

use super::{ExportOptions, Exported, Wanted};
use crate::ingest::is_file_note;
use crate::products;
use crate::transfer::{LEVELS, TransferError, quoted};

/// A label and a type.
pub(super) type Name = (String, String);

/// A dataset, run or subrun, with the names of its own products.
#[derive(Debug)]
pub(super) struct Row {
    pub descriptor: Descriptor,
    /// Its numbers, from that of the run on.
    pub numbers: Vec<u64>,
    pub products: Vec<Name>,
    pub is_empty: bool,
}

/// What is in a container.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub n_events: u64,
    /// How many events have each product.
    pub events: BTreeMap<Name, u64>,
    /// Products that some events turned out to lack.
    pub partial: BTreeSet<Name>,
    /// Products with values that are not of their type, and why.
    pub unreadable: BTreeMap<Name, String>,
    /// For each of [`LEVELS`], the containers that are empty or have products.
    pub levels: [Vec<Row>; 3],
}

impl Survey {
    /// Looks for the products to export; each must exist the first time.
    pub fn new(
        exported: &Exported<'_>,
        holders: &[Container],
        options: &ExportOptions,
        is_again: bool,
    ) -> Result<Self, TransferError> {
        if let Exported::DataSet(dataset) = exported {
            dataset.check_there()?;
        }
        let mut own = Self::default();
        let container = exported.container();
        if container.item_type() == ItemType::DataSet {
            let (_, products) = own.count(container)?;
            own.add(0, container, products, false);
        }
        for holder in holders {
            own.look(holder)?;
        }
        own.choose(exported, options.products.as_deref(), is_again)?;
        Ok(own)
    }

    fn look(&mut self, holder: &Container) -> Result<(), EventsError> {
        let kind = holder.item_type();
        if kind != ItemType::DataSet {
            let (n, products) = self.count(holder)?;
            let level = if kind == ItemType::Run { 1 } else { 2 };
            self.add(level, holder, products, n == 0);
        }
        if kind != ItemType::SubRun {
            for below in holder.children(..) {
                self.look(&below?)?;
            }
        }
        Ok(())
    }

    /// Counts what a container holds, with products of events; returns how many that is, and its own products.
    fn count(&mut self, holder: &Container) -> Result<(u64, Vec<Name>), EventsError> {
        let (n, parent) = (holder.n_children()?, holder.descriptor().placed_by());
        let counts = holder.datastore().backend().name_counts(&parent)?;
        let is_subrun = holder.item_type() == ItemType::SubRun;
        if is_subrun {
            self.n_events += n;
        }
        let mut own = Vec::new();
        for count in counts {
            let name = name_of(&count.name);
            if is_subrun && count.n_events > 0 {
                *self.events.entry(name.clone()).or_default() += count.n_events;
            }
            if count.is_own {
                own.push(name);
            }
        }
        Ok((n, own))
    }

    fn add(&mut self, level: usize, holder: &Container, products: Vec<Name>, is_empty: bool) {
        let descriptor = holder.descriptor();
        let numbers = [descriptor.run, descriptor.subrun].into_iter().take(level);
        if let (Some(rows), true) = (self.levels.get_mut(level), is_empty || !products.is_empty()) {
            rows.push(Row {
                descriptor,
                numbers: numbers.collect(),
                products,
                is_empty,
            });
        }
    }

    /// Keeps the selected products.
    fn choose(
        &mut self,
        exported: &Exported<'_>,
        wanted: Option<&[Wanted]>,
        is_again: bool,
    ) -> Result<(), TransferError> {
        let Some(wanted) = wanted else {
            let [datasets, ..] = &mut self.levels;
            for row in datasets.iter_mut() {
                row.products
                    .retain(|(label, kind)| !is_file_note(label, kind));
            }
            datasets.retain(|row| !row.products.is_empty());
            return Ok(());
        };
        let rows = self.levels.iter().flatten().flat_map(|row| &row.products);
        let known: BTreeSet<Name> = self.events.keys().chain(rows).cloned().collect();
        let mut chosen: BTreeSet<Name> = BTreeSet::new();
        for one in wanted {
            let found: Vec<&Name> = known.iter().filter(|name| one.is(name)).collect();
            let fits =
                |name: &&Name| one.type_name.is_none() && crate::matches(&one.label, &name.0);
            let found = match found.is_empty() {
                true => known.iter().filter(fits).collect(),
                false => found,
            };
            if found.is_empty() && !is_again {
                let there = products::hint("it has", &one.label, one.type_name.as_deref(), &known);
                let what = format!(
                    "{}: {exported} has no product {one}; {there}",
                    exported.store().url()
                );
                return Err(TransferError::new("key-not-found", what));
            }
            chosen.extend(found.into_iter().cloned());
        }
        self.events.retain(|name, _| chosen.contains(name));
        for rows in &mut self.levels {
            for row in rows.iter_mut() {
                row.products.retain(|name| chosen.contains(name));
            }
            rows.retain(|row| row.is_empty || !row.products.is_empty());
        }
        Ok(())
    }

    /// The numbers of everything, by descriptions.
    fn numbers(&self) -> BTreeMap<String, u64> {
        let words = |level: &str, (label, kind): &Name| {
            let of = if level == "dataset" {
                "the dataset"
            } else {
                level
            };
            format!("products {} of type {kind} of {of}", quoted(label))
        };
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for (name, n) in &self.events {
            found.insert(words("events", name), *n);
        }
        for (level, rows) in LEVELS.iter().zip(&self.levels) {
            for name in rows.iter().flat_map(|row| &row.products) {
                *found.entry(words(level, name)).or_default() += 1;
            }
            let n = rows.iter().filter(|row| row.is_empty).count();
            found.insert(format!("{level} without events or products"), n as u64);
        }
        found
    }

    /// Raises if what was written, or what is there now, differs from this.
    pub fn check(
        &self,
        exported: &Exported<'_>,
        n_written: u64,
        now: &Self,
    ) -> Result<(), TransferError> {
        let url = exported.store().url();
        let changed = |what: String| {
            TransferError::new(
                "changed",
                format!("{url}: {exported} had {what}: try again while no program writes"),
            )
        };
        for (n, when) in [
            (n_written, "they were written"),
            (now.n_events, "all was written"),
        ] {
            if n != self.n_events {
                return Err(changed(format!(
                    "{} events when its products were counted, but {n} when {when}",
                    self.n_events
                )));
            }
        }
        let (first, last) = (self.numbers(), now.numbers());
        let n = |of: &BTreeMap<String, u64>, what: &String| of.get(what).copied().unwrap_or(0);
        let all: BTreeSet<&String> = first.keys().chain(last.keys()).collect();
        let mut different = all
            .into_iter()
            .filter(|what| n(&first, what) != n(&last, what));
        let Some(what) = different.next() else {
            return Ok(());
        };
        let more = match different.count() {
            0 => String::new(),
            more => format!(" (and {more} more that changed)"),
        };
        Err(changed(format!(
            "{} {what} when the export began, but {} when all was written{more}",
            n(&first, what),
            n(&last, what)
        )))
    }
}

pub(super) fn name_of(name: &ProductName) -> Name {
    (name.label().to_owned(), name.type_name().to_owned())
}

impl Exported<'_> {
    /// The store.
    pub(super) fn store(&self) -> &DataStore {
        self.container().datastore()
    }
}
