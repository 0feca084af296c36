//! A write transaction that counts the keys of each table.
//!
//! LMDB's pages have no checksums. So each write transaction also stores the number of keys of each table and the sum of
//! their hashes. `verify` counts again: different numbers show that damage has removed, changed or added keys.

use heed::{Env, MdbError, PutFlags, RwTxn, WithoutTls};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::pages::u64_at;
use super::tables::{Name, Tables};

/// The key of the counts, which is not counted itself.
pub const COUNTS: &[u8] = b"femtobarn event store counts";

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// Larger values have separate pages.
const LARGE: usize = 2000;

/// The number of keys of a table, and the sum of their hashes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Count {
    pub n: u64,
    sum: u64,
}

impl Count {
    /// The hash of a key, including its value if the value has no checksum.
    fn hash(table: Name, key: &[u8], value: &[u8]) -> u64 {
        match table.is_unsealed() {
            true => xxh3_64_with_seed(value, xxh3_64(key)),
            false => xxh3_64(key),
        }
    }

    pub fn add(&mut self, table: Name, key: &[u8], value: &[u8]) {
        self.n = self.n.wrapping_add(1);
        self.sum = self.sum.wrapping_add(Self::hash(table, key, value));
    }

    fn remove(&mut self, table: Name, key: &[u8], value: &[u8]) {
        self.n = self.n.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(Self::hash(table, key, value));
    }
}

/// The counts of all tables.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    tables: [Count; Tables::N],
    /// The transaction that stored them.
    pub transaction: u64,
}

impl Counts {
    const LENGTH: usize = Tables::N * 16 + 8;

    pub fn of(&mut self, table: Name) -> &mut Count {
        table.pick(self.tables.each_mut())
    }

    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut counts = Self::default();
        for (at, table) in Name::ALL.into_iter().enumerate() {
            let number = |at| u64_at(bytes, at).map(u64::from_le);
            *counts.of(table) = Count {
                n: number(16 * at)?,
                sum: number(16 * at + 8)?,
            };
        }
        counts.transaction = u64_at(bytes, Self::LENGTH - 8).map(u64::from_le)?;
        (bytes.len() == Self::LENGTH).then_some(counts)
    }

    fn to_bytes(self) -> Vec<u8> {
        let numbers = self.tables.iter().flat_map(|count| [count.n, count.sum]);
        let numbers = numbers.chain([self.transaction]);
        numbers.flat_map(u64::to_le_bytes).collect()
    }
}

/// A write transaction.
pub struct Writing<'e> {
    txn: RwTxn<'e>,
    tables: Tables,
    /// `None` in a store of the first layout, which has no counts.
    counts: Option<Counts>,
}

impl<'e> Writing<'e> {
    /// The first transaction of a store.
    pub fn first(env: &'e Env<WithoutTls>) -> Result<Self, heed::Error> {
        let mut txn = env.write_txn()?;
        Ok(Self {
            tables: Tables::create(env, &mut txn)?,
            txn,
            counts: Some(Counts::default()),
        })
    }

    pub fn new(env: &'e Env<WithoutTls>, tables: Tables) -> Result<Self, heed::Error> {
        let txn = env.write_txn()?;
        let counts = tables.of(Name::Notes).get(&txn, COUNTS)?;
        Ok(Self {
            counts: counts.and_then(Counts::parse),
            txn,
            tables,
        })
    }

    /// Commits the transaction; returns the tables.
    pub fn commit(mut self) -> Result<Tables, heed::Error> {
        if let Some(mut counts) = self.counts {
            counts.transaction = self.txn.id() as u64;
            let notes = self.tables.of(Name::Notes);
            notes.put(&mut self.txn, COUNTS, &counts.to_bytes())?;
        }
        self.txn.commit()?;
        Ok(self.tables)
    }

    pub fn get(&self, table: Name, key: &[u8]) -> Result<Option<&[u8]>, heed::Error> {
        self.tables.of(table).get(&self.txn, key)
    }

    /// The last key of a table.
    pub fn last(&self, table: Name) -> Result<Option<&[u8]>, heed::Error> {
        let last = self.tables.of(table).last(&self.txn)?;
        Ok(last.map(|(key, _)| key))
    }

    /// The entries from a key on, in order; `None` if there are more than `most`, or if one is large.
    pub fn behind(
        &self,
        table: Name,
        from: &[u8],
        most: usize,
    ) -> Result<Option<Vec<Entry>>, heed::Error> {
        let mut found = Vec::new();
        for entry in self.tables.of(table).rev_iter(&self.txn)? {
            let (key, value) = entry?;
            if key < from {
                break;
            }
            if found.len() == most || value.len() > LARGE {
                return Ok(None);
            }
            found.push((key.to_vec(), value.to_vec()));
        }
        found.reverse();
        Ok(Some(found))
    }

    fn added(&mut self, table: Name, key: &[u8], value: &[u8]) {
        if let Some(counts) = &mut self.counts {
            counts.of(table).add(table, key, value);
        }
    }

    fn removed(&mut self, table: Name, key: &[u8], value: &[u8]) {
        if let Some(counts) = &mut self.counts {
            counts.of(table).remove(table, key, value);
        }
    }

    /// Appends an entry after all others.
    pub fn append(&mut self, table: Name, key: &[u8], value: &[u8]) -> Result<(), heed::Error> {
        let into = self.tables.of(table);
        into.put_with_flags(&mut self.txn, PutFlags::APPEND, key, value)?;
        self.added(table, key, value);
        Ok(())
    }

    /// Stores a value if the key has none; returns whether it was new.
    pub fn put_new(&mut self, table: Name, key: &[u8], value: &[u8]) -> Result<bool, heed::Error> {
        let into = self.tables.of(table);
        match into.put_with_flags(&mut self.txn, PutFlags::NO_OVERWRITE, key, value) {
            Err(heed::Error::Mdb(MdbError::KeyExist)) => Ok(false),
            put => {
                put?;
                self.added(table, key, value);
                Ok(true)
            }
        }
    }

    /// Stores a value, replacing an existing one.
    pub fn put(&mut self, table: Name, key: &[u8], value: &[u8]) -> Result<(), heed::Error> {
        if self.put_new(table, key, value)? {
            return Ok(());
        }
        if table.is_unsealed() {
            self.delete(table, key)?;
            return self.put_new(table, key, value).map(drop);
        }
        self.tables.of(table).put(&mut self.txn, key, value)
    }

    /// Removes a key; returns whether it existed.
    pub fn delete(&mut self, table: Name, key: &[u8]) -> Result<bool, heed::Error> {
        let Some(value) = self.get(table, key)? else {
            return Ok(false);
        };
        // Values with checksums are not hashed, and may be large.
        let value = match table.is_unsealed() {
            true => value.to_vec(),
            false => Vec::new(),
        };
        self.removed(table, key, &value);
        self.tables.of(table).delete(&mut self.txn, key)
    }

    /// Removes all entries whose keys have a prefix.
    pub fn remove_below(&mut self, table: Name, prefix: &[u8]) -> Result<(), heed::Error> {
        self.remove_those(table, prefix, |_| true).map(drop)
    }

    /// Removes the keys with a prefix whose rest `is_wanted` accepts; returns their number. The values of the table must
    /// have checksums.
    pub fn remove_those(
        &mut self,
        table: Name,
        prefix: &[u8],
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<u64, heed::Error> {
        let from = self.tables.of(table);
        let mut count = self.counts.as_mut().map(|counts| counts.of(table));
        super::tables::remove_those(from, &mut self.txn, prefix, |key| {
            let is_meant = is_wanted(key.get(prefix.len()..).unwrap_or_default());
            if let (true, Some(count)) = (is_meant, &mut count) {
                count.remove(table, key, &[]);
            }
            is_meant
        })
    }
}
