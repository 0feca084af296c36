//! The tables of a store in LMDB, and their keys.

use heed::{Env, RoTxn, RwTxn, WithoutTls};

use super::Database;
use crate::{ItemType, Parent};

/// One table.
pub type Table = Database;

/// All of them.
#[derive(Clone, Copy)]
pub struct Tables {
    pub datasets: Table,
    runs: Table,
    subruns: Table,
    events: Table,
    pub products: Table,
    pub notes: Table,
}

/// Their names in the file.
const NAMES: [&str; Tables::N as usize] =
    ["datasets", "runs", "subruns", "events", "products", "notes"];

impl Tables {
    /// How many there are.
    pub const N: u32 = 6;

    /// Opens them, and makes those that are not there.
    pub fn create(env: &Env<WithoutTls>, txn: &mut RwTxn<'_>) -> Result<Self, heed::Error> {
        let mut made = Vec::new();
        for name in NAMES {
            made.push(env.create_database(txn, Some(name))?);
        }
        Ok(Self::of(&made).unwrap_or_else(|| unreachable!("there are as many as names")))
    }

    /// Opens them; none if one is not there.
    pub fn open(env: &Env<WithoutTls>, txn: &RoTxn<'_>) -> Result<Option<Self>, heed::Error> {
        let mut found = Vec::new();
        for name in NAMES {
            found.extend(env.open_database(txn, Some(name))?);
        }
        Ok(Self::of(&found))
    }

    fn of(tables: &[Table]) -> Option<Self> {
        let &[datasets, runs, subruns, events, products, notes] = tables else {
            return None;
        };
        Some(Self {
            datasets,
            runs,
            subruns,
            events,
            products,
            notes,
        })
    }

    /// Those whose keys begin with the UUID of a dataset.
    pub fn by_dataset(&self) -> [Table; 4] {
        [self.runs, self.subruns, self.events, self.products]
    }

    /// The table of a container's children, and what their keys begin with.
    pub fn children(&self, parent: &Parent) -> (Table, Vec<u8>) {
        let (table, length) = match parent.item_type() {
            ItemType::DataSet => (self.runs, 16),
            ItemType::Run => (self.subruns, 24),
            ItemType::SubRun | ItemType::Event => (self.events, 32),
        };
        let mut key = parent.to_bytes().to_vec();
        key.truncate(length);
        (table, key)
    }
}

/// Bytes as messages show them.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
