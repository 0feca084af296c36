//! One state of a store's file, read by [`pages`](super::pages).
//!
//! A read transaction of LMDB protects the pages of its state, and of all later states, from being overwritten. Here,
//! LMDB itself reads only the two metadata pages.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use heed::{RoTxn, WithoutTls};
use memmap2::{Mmap, MmapOptions};

use super::pages::{Damage, Pages, Root, Tree, u32_at, u64_at};
use super::tables::Name;

/// A metadata page (`MDB_meta`): a header of 16 bytes, magic (4), version (4), address (8), size of the map (8), the
/// roots of the free pages and of the tables (48 each; the first begins with the page size), the number of the last page
/// (8) and of the transaction (8).
const META: usize = 152;
const MAGIC: u32 = 0xBEEF_C0DE;
const VERSION: u32 = 1;
/// The flags of the tree of free pages: its keys are numbers.
const NUMBERS: u16 = 0x08;
/// Number of bytes at the start of a file that include both metadata pages.
pub const HEAD: usize = 2 << 16;
const SMALLEST_MAP: usize = 1 << 24;

/// The contents of the newest page of metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    pub page_size: usize,
    pub last: u64,
    pub transaction: u64,
    free: Root,
    main: Root,
}

impl Meta {
    /// Parses the newest metadata page from the start of a file; `None` if it is not an LMDB page.
    pub fn newest(head: &[u8]) -> Option<Self> {
        loop {
            let first = Self::copy(head, 0)?;
            let page_size = Self::parse(&first, None)?.page_size;
            let second = Self::copy(head, page_size)?;
            // a page that is being written is read again
            if (Self::copy(head, 0)?, Self::copy(head, page_size)?) != (first, second) {
                continue;
            }
            let [first, second] = [first, second].map(|page| Self::parse(&page, Some(page_size)));
            let (first, second) = first.zip(second)?;
            return Some(match first.transaction > second.transaction {
                true => first,
                false => second,
            });
        }
    }

    /// Copies bytes that others may be writing.
    fn copy(head: &[u8], at: usize) -> Option<[u8; META]> {
        let page: &[u8; META] = head.get(at..)?.first_chunk()?;
        // SAFETY: a reference to as many bytes; every byte value is valid.
        Some(unsafe { std::ptr::read_volatile(page) })
    }

    fn parse(bytes: &[u8], expected: Option<usize>) -> Option<Self> {
        let (free, main) = (bytes.get(40..88)?, bytes.get(88..136)?);
        let meta = Self {
            page_size: usize::try_from(u32_at(free, 0)?).ok()?,
            last: u64_at(bytes, 136)?,
            transaction: u64_at(bytes, 144)?,
            free: Root::parse(free)?,
            main: Root::parse(main)?,
        };
        let is_sound = u32_at(bytes, 16)? == MAGIC
            && u32_at(bytes, 20)? == VERSION
            && meta.page_size.is_power_of_two()
            && (512..=65536).contains(&meta.page_size)
            && expected.is_none_or(|expected| expected == meta.page_size)
            && meta.free.flags == NUMBERS
            && meta.main.flags == 0;
        is_sound.then_some(meta)
    }

    /// Size of a file with all pages.
    pub fn file_size(&self) -> u64 {
        self.last
            .saturating_add(1)
            .saturating_mul(self.page_size as u64)
    }
}

/// The mapping of the file, which grows.
#[derive(Default)]
pub struct Map {
    newest: Mutex<Option<Mapped>>,
}

#[derive(Clone)]
struct Mapped {
    map: Arc<Mmap>,
    /// Size of the file in bytes.
    size: u64,
}

impl Map {
    /// The newest state, and a mapping of the whole file; `None` if it is not an LMDB file.
    fn newest(&self, file: &File) -> io::Result<Option<(Meta, Mapped)>> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let mapped = match &mut *newest {
            Some(mapped) => mapped,
            none => none.insert(Mapped::new(file)?),
        };
        let head = usize::try_from(mapped.size).ok();
        let head = head.and_then(|size| mapped.map.get(..size.min(HEAD)));
        let Some(meta) = head.and_then(Meta::newest) else {
            return Ok(None);
        };
        if (mapped.map.len() as u64) < meta.file_size() {
            *mapped = Mapped::new(file)?;
        } else if mapped.size < meta.file_size() {
            mapped.size = file.metadata()?.len();
        }
        Ok(Some((meta, mapped.clone())))
    }
}

impl Mapped {
    /// Maps the file with room to grow.
    fn new(file: &File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let within = usize::try_from(size).map_err(io::Error::other)?;
        let larger = within.saturating_mul(2).max(SMALLEST_MAP);
        let map = |length| {
            // SAFETY: reads stay below `size`; the file has this size, as LMDB never truncates it. A read transaction
            // keeps the pages of its state from being overwritten, except for the metadata, which are copied.
            unsafe { MmapOptions::new().len(length).map(file) }
        };
        let map = Arc::new(map(larger).or_else(|_| map(within.max(1)))?);
        Ok(Self { map, size })
    }
}

/// A state of the store.
pub struct Snapshot<'e> {
    _txn: RoTxn<'e, WithoutTls>,
    mapped: Mapped,
    pub meta: Meta,
}

impl<'e> Snapshot<'e> {
    /// The newest state; `None` if the file is not an LMDB file.
    pub fn new(
        txn: RoTxn<'e, WithoutTls>,
        file: &File,
        map: &Map,
    ) -> Result<Option<Self>, io::Error> {
        let newest = map.newest(file)?;
        Ok(newest.map(|(meta, mapped)| Self {
            _txn: txn,
            mapped,
            meta,
        }))
    }

    fn tree(&self, root: Root) -> Result<Tree<'_>, Damage> {
        let there = self.mapped.size / self.meta.page_size as u64;
        let pages = Pages {
            bytes: &self.mapped.map,
            page_size: self.meta.page_size,
            end: self.meta.last.saturating_add(1).min(there),
        };
        Tree::new(pages, root)
    }

    /// The tree of free pages.
    pub fn free(&self) -> Result<Tree<'_>, Damage> {
        self.tree(self.meta.free)
    }

    /// The tree of tables.
    pub fn main(&self) -> Result<Tree<'_>, Damage> {
        self.tree(self.meta.main)
    }

    /// A table.
    pub fn table(&self, name: Name) -> Result<Tree<'_>, Damage> {
        let root = self.main()?.table(name.text())?;
        self.tree(root.ok_or(Damage {
            page: 0,
            what: "leads to an unknown table",
        })?)
    }
}
