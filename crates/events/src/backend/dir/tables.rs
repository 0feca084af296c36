//! The LMDB tables of a store, and their keys.

use heed::types::Bytes;
use heed::{Env, RwTxn, WithoutTls};

use crate::{ItemType, Parent};

/// The type of all tables: bytes to bytes.
pub type Database = heed::Database<Bytes, Bytes>;

/// A table for writing.
pub type Table = Database;

/// The names of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Name {
    DataSets,
    Runs,
    Subruns,
    Events,
    Products,
    Notes,
}

impl Name {
    pub const ALL: [Self; 6] = [
        Self::DataSets,
        Self::Runs,
        Self::Subruns,
        Self::Events,
        Self::Products,
        Self::Notes,
    ];

    /// Tables whose keys begin with the UUID of a dataset.
    pub const BY_DATASET: [Self; 4] = [Self::Runs, Self::Subruns, Self::Events, Self::Products];

    /// The name in the file.
    pub const fn text(self) -> &'static str {
        match self {
            Self::DataSets => "datasets",
            Self::Runs => "runs",
            Self::Subruns => "subruns",
            Self::Events => "events",
            Self::Products => "products",
            Self::Notes => "notes",
        }
    }

    /// The element for this table in an array with the order of [`ALL`](Self::ALL).
    pub fn pick<T>(self, each: [T; Tables::N]) -> T {
        let [datasets, runs, subruns, events, products, notes] = each;
        match self {
            Self::DataSets => datasets,
            Self::Runs => runs,
            Self::Subruns => subruns,
            Self::Events => events,
            Self::Products => products,
            Self::Notes => notes,
        }
    }

    /// Whether the values of this table have no checksums.
    pub const fn is_unsealed(self) -> bool {
        matches!(self, Self::DataSets | Self::Notes)
    }
}

/// All tables.
#[derive(Clone, Copy)]
pub struct Tables([Table; Self::N]);

impl Tables {
    /// Number of tables.
    pub const N: usize = Name::ALL.len();

    /// Opens the tables, and creates missing ones.
    pub fn create(env: &Env<WithoutTls>, txn: &mut RwTxn<'_>) -> Result<Self, heed::Error> {
        let mut create = |name: Name| env.create_database(txn, Some(name.text()));
        let [a, b, c, d, e, f] = Name::ALL;
        Ok(Self([
            create(a)?,
            create(b)?,
            create(c)?,
            create(d)?,
            create(e)?,
            create(f)?,
        ]))
    }

    pub fn of(&self, name: Name) -> Table {
        name.pick(self.0)
    }
}

/// The table of a container's children, and the prefix of their keys.
pub fn children(parent: &Parent) -> (Name, Vec<u8>) {
    let (table, length) = match parent.item_type() {
        ItemType::DataSet => (Name::Runs, 16),
        ItemType::Run => (Name::Subruns, 24),
        ItemType::SubRun | ItemType::Event => (Name::Events, 32),
    };
    let mut key = parent.to_bytes().to_vec();
    key.truncate(length);
    (table, key)
}

/// Formats bytes for messages.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Replaces the event number in the key of a product.
pub fn set_event(key: &mut [u8], event: u64) {
    if let Some(place) = key.get_mut(Parent::LENGTH..Parent::LENGTH + 8) {
        place.copy_from_slice(&event.to_be_bytes());
    }
}

/// Removes the entries with a prefix that a function selects; returns their number.
pub fn remove_those(
    table: Table,
    txn: &mut RwTxn<'_>,
    prefix: &[u8],
    mut is_wanted: impl FnMut(&[u8]) -> bool,
) -> Result<u64, heed::Error> {
    let mut keys = table.prefix_iter_mut(txn, prefix)?.lazily_decode_data();
    let mut n = 0;
    while let Some((key, _)) = keys.next().transpose()? {
        if is_wanted(key) {
            // SAFETY: the key and the value from `next` were dropped: nothing borrows from the database.
            unsafe { keys.del_current()? };
            n += 1;
        }
    }
    Ok(n)
}
