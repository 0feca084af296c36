//! Reads LMDB's pages with bounds checks. LMDB itself trusts the pages: a changed byte makes it read outside the mapped
//! file, which ends the process with a signal, or skip existing keys.
//!
//! Layout of a page (mdb.c, `MDB_page`, native byte order): its number (8 bytes), 2 unused, flags (2), the bounds of its
//! free space (2 + 2), then offsets of nodes (2 each). The nodes fill the page from its end. Layout of a node: the lower
//! half of a size (2) and the upper half (2), flags (2), the size of the key (2), the key, the value.

use std::ops::Range;

use crate::EventsError;

const HEADER: usize = 16;
const NODE: usize = 8;
const DEEPEST: u16 = 32;

const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const OVERFLOW: u16 = 0x04;

/// The value has separate pages.
const BIG: u16 = 0x01;
/// The value is the root of a table.
const TABLE: u16 = 0x02;

/// The number of the root of an empty tree.
const NO_PAGE: u64 = u64::MAX;

/// Damage of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    pub page: u64,
    pub what: &'static str,
}

impl Damage {
    /// Damage of both metadata pages.
    pub fn of_metadata() -> Self {
        damage(0, "has no readable metadata")
    }

    pub fn error(&self, url: &str) -> EventsError {
        EventsError::Layout {
            url: url.into(),
            expected: "an undamaged file".into(),
            found: format!(
                "damage: page {} {}; list all damage with `fb store verify`, and restore a backup",
                self.page, self.what
            ),
        }
    }
}

type Sound<T> = Result<T, Damage>;

/// LMDB's record of a tree (`MDB_db`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    pub flags: u16,
    depth: u16,
    n_pages: [u64; 3],
    pub entries: u64,
    page: u64,
}

impl Root {
    pub const LENGTH: usize = 48;

    /// The first field (a page size or the size of fixed-size keys) is not needed.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            flags: u16_at(bytes, 4)?,
            depth: u16_at(bytes, 6)?,
            n_pages: [u64_at(bytes, 8)?, u64_at(bytes, 16)?, u64_at(bytes, 24)?],
            entries: u64_at(bytes, 32)?,
            page: u64_at(bytes, 40)?,
        })
    }

    fn check(&self) -> Sound<()> {
        let is_empty = self.page == NO_PAGE;
        if is_empty != (self.depth == 0) || (is_empty && self.entries != 0) || self.depth > DEEPEST
        {
            return Err(damage(
                self.page,
                "is the root of a tree with an impossible depth",
            ));
        }
        Ok(())
    }
}

/// The pages of one state of a store.
#[derive(Clone, Copy)]
pub struct Pages<'a> {
    pub bytes: &'a [u8],
    pub page_size: usize,
    /// The number after the last page.
    pub end: u64,
}

#[derive(Clone, Copy)]
struct Page<'a> {
    number: u64,
    bytes: &'a [u8],
    is_leaf: bool,
    /// Number of nodes.
    n: usize,
}

#[derive(Clone, Copy)]
struct Node<'a> {
    key: &'a [u8],
    flags: u16,
    /// In a leaf: the size of the value.
    size: usize,
    /// In a branch: the child page.
    child: u64,
    /// The bytes after the key.
    rest: &'a [u8],
    /// Length in bytes.
    length: usize,
}

fn damage(page: u64, what: &'static str) -> Damage {
    Damage { page, what }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_ne_bytes(*bytes))
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*bytes))
}

impl<'a> Pages<'a> {
    fn range(&self, number: u64, n: usize) -> Option<Range<usize>> {
        let first = usize::try_from(number).ok()?;
        let end = first.checked_add(n)?;
        let is_within = number >= 2 && u64::try_from(end).is_ok_and(|end| end <= self.end);
        let start = first.checked_mul(self.page_size)?;
        is_within.then_some(start..end.checked_mul(self.page_size)?)
    }

    /// Reads a page of a tree. Its nodes must fill its space exactly.
    fn page(&self, number: u64, is_leaf: bool) -> Sound<Page<'a>> {
        let bytes = self.range(number, 1).and_then(|at| self.bytes.get(at));
        let bytes = bytes.ok_or(damage(number, "is outside of the file"))?;
        let flags = if is_leaf { LEAF } else { BRANCH };
        if u64_at(bytes, 0) != Some(number) || u16_at(bytes, 10) != Some(flags) {
            return Err(damage(number, "is not the page that is referred to"));
        }
        let bounds = u16_at(bytes, 12).zip(u16_at(bytes, 14));
        let (lower, upper) = bounds.map_or((0, 0), |(a, b)| (usize::from(a), usize::from(b)));
        // the fields are too small for the bounds of the largest pages
        if lower < HEADER + 2 || lower % 2 != 0 || upper < lower || upper > bytes.len() {
            return Err(damage(number, "has impossible bounds"));
        }
        let page = Page {
            number,
            bytes,
            is_leaf,
            n: (lower - HEADER) / 2,
        };
        let mut length = 0;
        for at in 0..page.n {
            length += page.node(at)?.length;
        }
        if length != bytes.len() - upper {
            return Err(damage(number, "has nodes that do not fill its space"));
        }
        Ok(page)
    }

    /// The value of a node in a leaf.
    fn value(&self, page: &Page<'a>, node: &Node<'a>) -> Sound<&'a [u8]> {
        if node.flags & BIG == 0 {
            return Ok(node.rest);
        }
        let first = u64_at(node.rest, 0).unwrap_or(NO_PAGE);
        let n = node.size.saturating_add(HEADER).div_ceil(self.page_size);
        let bytes = self.range(first, n).and_then(|at| self.bytes.get(at));
        let bytes = bytes.ok_or(damage(page.number, "refers to pages outside of the file"))?;
        let is_sound = u64_at(bytes, 0) == Some(first)
            && u16_at(bytes, 10) == Some(OVERFLOW)
            && u32_at(bytes, 12).is_some_and(|found| usize::try_from(found) == Ok(n));
        let value = bytes.get(HEADER..HEADER + node.size);
        let value = value.filter(|_| is_sound);
        value.ok_or(damage(
            first,
            "is not the page of the value that is referred to",
        ))
    }
}

impl<'a> Page<'a> {
    fn node(&self, at: usize) -> Sound<Node<'a>> {
        let bad = damage(self.number, "has a node with impossible bounds");
        let parse = || {
            let start = usize::from(u16_at(self.bytes, HEADER + 2 * at)?);
            let node = self.bytes.get(start..)?;
            let [low, high, flags, key] = [0, 2, 4, 6].map(|at| u16_at(node, at));
            let (low, high, flags, n_key) = (low?, high?, flags?, usize::from(key?));
            let key = node.get(NODE..NODE + n_key)?;
            let size = u32::from(low) | u32::from(high) << 16;
            let stored = match (self.is_leaf, flags) {
                (false, _) => 0,
                (true, BIG) => 8,
                (true, 0 | TABLE) => usize::try_from(size).ok()?,
                (true, _) => return None,
            };
            let end = NODE + n_key + stored;
            let is_sound = start >= HEADER + 2 * self.n && start % 2 == 0;
            is_sound.then_some(Node {
                key,
                flags,
                size: usize::try_from(size).ok()?,
                child: u64::from(size) | u64::from(flags) << 32,
                rest: node.get(NODE + n_key..end)?,
                length: end.next_multiple_of(2),
            })
        };
        parse().ok_or(bad)
    }

    fn key(&self, at: usize) -> Sound<&'a [u8]> {
        self.node(at).map(|node| node.key)
    }

    /// The first node with a key that is not smaller. In a branch, the first key is ignored, and the result is the last
    /// node with a key that is not larger.
    fn find(&self, key: &[u8]) -> Sound<usize> {
        let (mut low, mut high) = (usize::from(!self.is_leaf), self.n);
        while low < high {
            let middle = low.midpoint(high);
            let found = self.key(middle)?;
            let is_before = match self.is_leaf {
                true => found < key,
                false => found <= key,
            };
            match is_before {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(if self.is_leaf { low } else { low - 1 })
    }

    /// Fails if the keys are not in order, or outside the bounds of the page.
    fn check_order(&self, (low, high): Bounds<'_>, compare: Compare) -> Sound<()> {
        let bad = damage(self.number, "has keys in wrong order");
        let mut before = low;
        for at in usize::from(!self.is_leaf)..self.n {
            let key = self.key(at)?;
            let is_first_of_leaf = self.is_leaf && at == 0;
            if let Some(before) = before {
                let order = compare(before, key);
                if order.is_gt() || (order.is_eq() && !is_first_of_leaf) {
                    return Err(bad);
                }
            }
            before = Some(key);
        }
        match (before, high) {
            (Some(last), Some(high)) if compare(last, high).is_ge() => Err(bad),
            _ => Ok(()),
        }
    }
}

/// The keys of a page are at least the first bound and below the second.
type Bounds<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

type Compare = fn(&[u8], &[u8]) -> std::cmp::Ordering;

/// The order of keys in the list of free pages, which are numbers.
fn as_numbers(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    u64_at(a, 0).cmp(&u64_at(b, 0))
}

/// A tree of keys and values.
#[derive(Clone, Copy)]
pub struct Tree<'a> {
    pages: Pages<'a>,
    root: Root,
}

impl<'a> Tree<'a> {
    pub fn new(pages: Pages<'a>, root: Root) -> Sound<Self> {
        root.check()?;
        Ok(Self { pages, root })
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Sound<Option<&'a [u8]>> {
        Ok(self.find(key)?.map(|(_, value)| value))
    }

    /// The root of the table of a name.
    pub fn table(&self, name: &str) -> Sound<Option<Root>> {
        let found = self.find(name.as_bytes())?;
        let bad = damage(self.root.page, "has the name of an unknown table");
        let root = |(flags, value): (u16, &[u8])| {
            let root = Root::parse(value)?;
            (flags == TABLE && value.len() == Root::LENGTH && root.flags == 0).then_some(root)
        };
        found.map(|found| root(found).ok_or(bad)).transpose()
    }

    fn find(&self, key: &[u8]) -> Sound<Option<(u16, &'a [u8])>> {
        let mut number = self.root.page;
        for level in (0..self.root.depth).rev() {
            let page = self.pages.page(number, level == 0)?;
            let at = page.find(key)?;
            if at == page.n {
                return Ok(None);
            }
            let node = page.node(at)?;
            if level == 0 {
                let is_there = node.key == key;
                let value = is_there
                    .then(|| self.pages.value(&page, &node))
                    .transpose()?;
                return Ok(value.map(|value| (node.flags, value)));
            }
            number = node.child;
        }
        Ok(None)
    }

    /// The entries from the first key that is not smaller.
    pub fn from(&self, key: &[u8]) -> Sound<Entries<'a>> {
        let mut entries = Entries {
            tree: *self,
            compare: Ord::cmp,
            stack: Vec::with_capacity(usize::from(self.root.depth)),
        };
        if self.root.depth > 0 {
            entries.descend(self.root.page, Some(key))?;
        }
        Ok(entries)
    }

    /// Reads the whole tree: calls a function for each entry and for each page. Fails if their numbers differ from LMDB's
    /// record.
    pub fn walk(
        &self,
        is_of_numbers: bool,
        mut page: impl FnMut(u64, u64) -> Sound<()>,
        mut entry: impl FnMut(&[u8], &[u8]) -> Sound<()>,
    ) -> Sound<()> {
        let compare = if is_of_numbers { as_numbers } else { Ord::cmp };
        let (mut n_pages, mut n) = ([0; 3], 0);
        let mut entries = Entries {
            tree: *self,
            compare,
            stack: Vec::new(),
        };
        let mut known: Vec<u64> = Vec::new();
        if self.root.depth > 0 {
            entries.descend(self.root.page, None)?;
        }
        loop {
            for (level, (here, _)) in entries.stack.iter().enumerate() {
                if known.get(level) != Some(&here.number) {
                    known.truncate(level);
                    known.push(here.number);
                    let [branches, leaves, _] = &mut n_pages;
                    *(if here.is_leaf { leaves } else { branches }) += 1;
                    page(here.number, 1)?;
                }
            }
            let Some((key, value, big)) = entries.step()? else {
                break;
            };
            n += 1;
            if let Some((first, n)) = big {
                let [_, _, overflow] = &mut n_pages;
                *overflow += n;
                page(first, n)?;
            }
            entry(key, value)?;
        }
        if n != self.root.entries || n_pages != self.root.n_pages {
            return Err(damage(
                self.root.page,
                "has another number of entries than was stored",
            ));
        }
        Ok(())
    }
}

/// A key and its value.
pub type Found<'a> = Sound<(&'a [u8], &'a [u8])>;

/// A key, its value, and the separate pages of the value.
type Entry<'a> = (&'a [u8], &'a [u8], Option<(u64, u64)>);

/// Entries of a tree in the order of their keys.
pub struct Entries<'a> {
    tree: Tree<'a>,
    compare: Compare,
    /// The path from the root to a leaf: each page and the node in it.
    stack: Vec<(Page<'a>, usize)>,
}

impl<'a> Entries<'a> {
    /// Descends from a page to a leaf: to a key, or to the first entry.
    fn descend(&mut self, mut number: u64, key: Option<&[u8]>) -> Sound<()> {
        let depth = usize::from(self.tree.root.depth);
        loop {
            let is_leaf = self.stack.len() + 1 >= depth;
            let page = self.tree.pages.page(number, is_leaf)?;
            page.check_order(self.bounds()?, self.compare)?;
            let at = key.map_or(Ok(0), |key| page.find(key))?;
            self.stack.push((page, at));
            if is_leaf {
                return Ok(());
            }
            number = page.node(at)?.child;
        }
    }

    /// The bounds for the keys of the next page.
    fn bounds(&self) -> Sound<Bounds<'a>> {
        let (mut low, mut high) = (None, None);
        for (page, at) in &self.stack {
            if *at > 0 {
                low = Some(page.key(*at)?);
            }
            if at + 1 < page.n {
                high = Some(page.key(at + 1)?);
            }
        }
        Ok((low, high))
    }

    fn step(&mut self) -> Sound<Option<Entry<'a>>> {
        loop {
            let Some((page, at)) = self.stack.last_mut() else {
                return Ok(None);
            };
            if *at < page.n {
                let node = page.node(*at)?;
                *at += 1;
                let value = self.tree.pages.value(page, &node)?;
                let big = (node.flags & BIG != 0).then(|| {
                    let n = (node.size + HEADER).div_ceil(self.tree.pages.page_size);
                    (u64_at(node.rest, 0).unwrap_or(NO_PAGE), n as u64)
                });
                return Ok(Some((node.key, value, big)));
            }
            self.stack.pop();
            let Some((page, at)) = self.stack.last_mut() else {
                return Ok(None);
            };
            *at += 1;
            if *at < page.n {
                let child = page.node(*at)?.child;
                self.descend(child, None)?;
            }
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Found<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.step().transpose()?;
        if entry.is_err() {
            self.stack.clear();
        }
        Some(entry.map(|(key, value, _)| (key, value)))
    }
}
