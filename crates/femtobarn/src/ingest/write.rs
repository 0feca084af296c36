//! Writing chunks to the store, and products that exist there.

use std::collections::HashMap;

use femtobarn_events::{
    BatchOptions, Container, Descriptor, EventsError, ItemType, Loaded, Overwrite, ProductId,
    ProductName, WriteBatch,
};
use femtobarn_io::units::plural;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::rows::Rows;

use super::{Chunk, ClassesOf, Ingest, IngestFile, OnConflict, Product};
use crate::products::{self, Described, Form};
use crate::transfer::{TransferError, quoted};

const MAX_BYTES: usize = 32 << 20;

/// The values of a product in some containers.
struct Encoded {
    name: ProductName,
    rows: Rows,
    /// Which containers have one; none if all do.
    there: Option<Vec<bool>>,
    /// The first bytes of each value, which are not stored.
    head: usize,
}

impl Encoded {
    /// The containers that have a value, with the values.
    fn values<'a>(&'a self, all: &'a [Descriptor]) -> impl Iterator<Item = (Descriptor, &'a [u8])> {
        let is_there = |at: usize| {
            self.there
                .as_ref()
                .is_none_or(|there| there.get(at) == Some(&true))
        };
        let having = all.iter().enumerate().filter(move |(at, _)| is_there(*at));
        having.enumerate().map(|(n, (_, container))| {
            let value = self.rows.get(n).and_then(|value| value.get(self.head..));
            (*container, value.unwrap_or_default())
        })
    }

    fn n(&self) -> u64 {
        self.rows.ends.len() as u64
    }
}

impl Chunk {
    /// Parts of it that fit a batch with all of their products: those of an event lie side by side. Written column by
    /// column, each batch would write to all of these places again.
    fn pieces(&self, most: usize) -> impl Iterator<Item = Self> {
        let n = (most / (self.products.len() + 1)).max(1);
        (0..self.containers.len()).step_by(n).map(move |first| {
            let containers = self.containers.iter().skip(first).take(n).copied();
            let containers: Vec<_> = containers.collect();
            let product = |product: &Product| Product {
                values: product.values.slice(first, containers.len()),
                ..product.clone()
            };
            Self {
                products: self.products.iter().map(product).collect(),
                containers,
                is_created: self.is_created,
            }
        })
    }

    fn is_of_events(&self) -> bool {
        let first = self.containers.first();
        first.is_some_and(|first| first.item_type() == ItemType::Event)
    }
}

impl Ingest {
    /// Writes a part of a file. `classes_of` reads the classes of files that this does not read; `goes_on` is asked between
    /// batches.
    ///
    /// # Errors
    /// If a product exists with another value and that is an error, if a class differs from that in the store, and
    /// errors of the store.
    pub fn write(
        &mut self,
        at: usize,
        chunk: &Chunk,
        classes_of: ClassesOf<'_>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), TransferError> {
        let path = self
            .files
            .get(at)
            .map_or("", |file| file.path.as_str())
            .to_owned();
        for product in &chunk.products {
            let described = Described {
                type_name: product.type_name.clone(),
                classes: product.classes.clone(),
            };
            if let Err(error) = self.types.note(&described) {
                return Err(self
                    .differing(at, &product.label, error, classes_of)
                    .of(path));
            }
        }
        for piece in chunk.pieces(self.options.batch_items) {
            if !goes_on() {
                return Err(RNTupleError::Interrupted.into());
            }
            self.write_piece(at, &piece)?;
        }
        Ok(())
    }

    fn write_piece(&mut self, at: usize, piece: &Chunk) -> Result<(), TransferError> {
        let Some(file) = self.files.get(at) else {
            return Ok(());
        };
        let path = file.path.clone();
        let written = self.store_piece(piece).map_err(|error| error.of(&path));
        let (encoded, kept) = written?;
        let n: u64 = encoded.iter().map(Encoded::n).sum();
        let is_of_events = piece.is_of_events();
        for one in encoded.iter().filter(|one| is_of_events && one.n() > 0) {
            let kinds = self.kinds.entry(one.name.label().to_owned()).or_default();
            if !kinds.iter().any(|(kind, _)| kind == one.name.type_name()) {
                kinds.push((one.name.type_name().to_owned(), path.clone()));
            }
        }
        let n_kept = kept.len() as u64;
        if let Some(file) = self.files.get_mut(at) {
            file.new += n - n_kept;
        }
        let conflicts = match kept.is_empty() {
            true => 0,
            false => self.compare(at, piece, &encoded, kept)?,
        };
        let is_replaced = self.options.on_conflict == OnConflict::Replace;
        let n_events = if is_of_events {
            piece.containers.len() as u64
        } else {
            0
        };
        self.report.events += n_events;
        self.report.products += n - n_kept + if is_replaced { conflicts } else { 0 };
        self.report.kept += n_kept - conflicts;
        self.report.conflicts += conflicts;
        if let Some(file) = self.files.get_mut(at) {
            file.conflicts += conflicts;
            file.events += n_events;
            file.products += n;
        }
        Ok(())
    }

    /// Stores a piece; returns its values, and the products that existed and were kept.
    fn store_piece(&self, piece: &Chunk) -> Result<(Vec<Encoded>, Vec<ProductId>), TransferError> {
        let encoded = piece.products.iter().map(|product| self.encode(product));
        let encoded: Vec<Encoded> = encoded.collect::<Result<_, _>>()?;
        let mut batch = WriteBatch::new(self.dataset.datastore(), self.batch(Overwrite::Keep));
        if piece.is_created {
            batch.create_all(&piece.containers)?;
        }
        for one in &encoded {
            for (container, value) in one.values(&piece.containers) {
                batch.store(container, &one.name, value)?;
            }
        }
        Ok((encoded, batch.finish()?.kept))
    }

    fn batch(&self, overwrite: Overwrite) -> BatchOptions {
        BatchOptions {
            max_items: self.options.batch_items,
            max_bytes: MAX_BYTES,
            threads: 0,
            overwrite,
        }
    }

    fn encode(&self, product: &Product) -> Result<Encoded, TransferError> {
        let name = ProductName::new(&product.label, &product.type_name)?;
        let (values, there) = products::present(&product.values, product.form, &product.label)?;
        // as stored bytes, a vector is the number of its items and the items
        let (type_name, head) = match product.form.is_bytes() {
            true => (Form::BYTES, 8),
            false => (product.type_name.as_str(), 0),
        };
        let rows = self.types.of(type_name, &product.label)?.encode(&values)?;
        Ok(Encoded {
            name,
            rows,
            there,
            head,
        })
    }

    /// Compares existing products with new ones; returns how many differ.
    fn compare(
        &self,
        at: usize,
        piece: &Chunk,
        encoded: &[Encoded],
        mut kept: Vec<ProductId>,
    ) -> Result<u64, TransferError> {
        kept.sort_by(|a, b| {
            (a.container.to_bytes(), &a.name).cmp(&(b.container.to_bytes(), &b.name))
        });
        let mut by_name: Vec<(ProductName, Vec<Descriptor>)> = Vec::new();
        let mut places: HashMap<ProductName, usize> = HashMap::new();
        for ProductId { container, name } in kept {
            let place = *places.entry(name.clone()).or_insert_with(|| {
                by_name.push((name, Vec::new()));
                by_name.len() - 1
            });
            if let Some((_, containers)) = by_name.get_mut(place) {
                containers.push(container);
            }
        }
        let mut n = 0;
        for (name, containers) in by_name {
            let new = encoded.iter().filter(|one| one.name == name);
            let new: HashMap<Descriptor, &[u8]> =
                new.flat_map(|one| one.values(&piece.containers)).collect();
            let mut different = Vec::new();
            for (container, old) in containers.iter().zip(self.stored(&containers, &name)?) {
                let new = new.get(container).copied().unwrap_or_default();
                if old.as_deref() != Some(new) {
                    different.push((*container, new));
                }
            }
            n += different.len() as u64;
            self.settle(at, &name, &different)?;
        }
        Ok(n)
    }

    /// The stored values of products of one name.
    fn stored(
        &self,
        containers: &[Descriptor],
        name: &ProductName,
    ) -> Result<Vec<Option<Vec<u8>>>, EventsError> {
        let store = self.dataset.datastore();
        if containers
            .iter()
            .any(|one| one.item_type() != ItemType::Event)
        {
            let load = |one: &Descriptor| Container::new(store.clone(), *one).load(name);
            return containers.iter().map(load).collect();
        }
        let names = std::slice::from_ref(name);
        let loaded = Loaded::of(store, containers.iter().copied(), names)?;
        let values = loaded.products.iter().flat_map(|values| values.iter());
        Ok(values.map(|value| value.map(<[u8]>::to_vec)).collect())
    }

    /// Treats existing products with other values.
    fn settle(
        &self,
        at: usize,
        name: &ProductName,
        different: &[(Descriptor, &[u8])],
    ) -> Result<(), TransferError> {
        let (Some((first, _)), Some(file)) = (different.first(), self.files.get(at)) else {
            return Ok(());
        };
        match self.options.on_conflict {
            OnConflict::Raise => Err(self.conflict(file, name, first)),
            OnConflict::Keep => Ok(()),
            OnConflict::Replace => {
                let mut batch =
                    WriteBatch::new(self.dataset.datastore(), self.batch(Overwrite::Replace));
                for (container, value) in different {
                    batch.store(*container, name, value)?;
                }
                batch.finish()?;
                Ok(())
            }
        }
    }

    fn conflict(&self, file: &IngestFile, name: &ProductName, first: &Descriptor) -> TransferError {
        let place = match first.item_type() {
            ItemType::DataSet => "the dataset has".to_owned(),
            ItemType::Run => format!("run {} has", first.run),
            _ => format!("{first} has"),
        };
        let words = self.options.words;
        let stored = match file.new {
            0 => format!(
                "nothing of this file was stored; {} keeps existing ones, 'replace' replaces them",
                words.with("on_conflict", "keep")
            ),
            n => format!(
                "{} of this file, also of other events, {} already stored: ingest it again with {}, which keeps existing \
                 products, or 'replace', or delete the wrong products",
                plural(n, "product"),
                if n == 1 { "is" } else { "are" },
                words.with("on_conflict", "keep")
            ),
        };
        let what = format!(
            "{}: {place} a product {} of the type {} in dataset {} with another value; {stored}",
            file.path,
            quoted(name.label()),
            name.type_name(),
            quoted(self.dataset.path().as_str())
        );
        TransferError::new("conflict", what)
    }
}
