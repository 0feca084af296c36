//! Reads products and containers.

use std::ops::Range;

use femtobarn_redis::{Commands, Reply};

use super::keys::{ParentKeys, number};
use super::write::MOST_FIELDS;
use super::{Flow, RedisBackend};
use crate::forked::lock;
use crate::{Backend, EventsError, Parent, ProductName, Scan, Visit, Wanted};

/// Target size of an answer in bytes.
const ANSWER: usize = 1 << 20;
/// Number of products per command until their size is known.
const PROBE: usize = 64;
/// Maximum number of commands that are sent at once.
const AT_ONCE: usize = 1000;
/// Maximum number of children per command.
const PAGE: usize = 16 << 10;
/// Approximate size of a number or a missing value in an answer.
const ENTRY: usize = 16;

/// The requested products of one command.
type Part = (usize, Range<usize>);

impl RedisBackend {
    pub(super) fn load_products(
        &self,
        wanted: &[Wanted<'_>],
        visit: &mut Visit<'_>,
    ) -> Result<(), EventsError> {
        let mut flow = Flow::new(&self.client);
        let mut parts = Vec::new();
        for (w, group) in wanted.iter().enumerate() {
            let mut from = 0;
            if group.events.len() > PROBE && self.size_of(group.name).is_none() {
                self.load_parts(&mut flow, wanted, &[(w, 0..PROBE)], visit)?;
                from = PROBE;
            }
            let size = self.size_of(group.name).unwrap_or_default() + ENTRY;
            let n = (ANSWER / size).clamp(1, MOST_FIELDS);
            while from < group.events.len() {
                let to = group.events.len().min(from + n);
                parts.push((w, from..to));
                from = to;
                if parts.len() == AT_ONCE {
                    self.load_parts(&mut flow, wanted, &parts, visit)?;
                    parts.clear();
                }
            }
        }
        self.load_parts(&mut flow, wanted, &parts, visit)
    }

    fn load_parts(
        &self,
        flow: &mut Flow<'_>,
        wanted: &[Wanted<'_>],
        parts: &[Part],
        visit: &mut Visit<'_>,
    ) -> Result<(), EventsError> {
        let mut commands = Commands::default();
        let mut keys = None;
        for (w, events) in parts {
            let Some(group) = wanted.get(*w) else {
                continue;
            };
            let events = group.events.get(events.clone()).unwrap_or_default();
            let of = match keys.take() {
                Some((parent, keys)) if parent == group.parent => keys,
                _ => self.keys(&group.parent),
            };
            commands.begin(of.slot, 2 + events.len());
            commands.arg(b"HMGET").arg(&of.products(group.name));
            for event in events {
                commands.arg(&event.to_be_bytes());
            }
            let size = self.size_of(group.name).unwrap_or(ANSWER / PROBE);
            commands.brings(events.len() * (size + ENTRY));
            keys = Some((group.parent, of));
        }
        flow.run("load products", &commands, false, &mut |at, reply| {
            let part = parts
                .get(at)
                .and_then(|part| Some((part, wanted.get(part.0)?)));
            let Some(((w, events), group)) = part else {
                return Ok(());
            };
            let n_bytes = self.visit_part(*w, events.clone(), reply, visit)?;
            self.note_size(group.name, n_bytes / events.len().max(1));
            Ok(())
        })
    }

    /// Passes the values of one answer on; returns their size in bytes.
    fn visit_part(
        &self,
        w: usize,
        events: Range<usize>,
        reply: Reply<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<usize, EventsError> {
        let n = events.len();
        let mut values = reply.elements().into_iter().flatten();
        let mut n_bytes = 0;
        let mut n_values = 0;
        for (e, value) in events.zip(&mut values) {
            let value = value.bytes();
            n_bytes += value.map_or(0, <[u8]>::len);
            n_values += 1;
            visit(w, e, value)?;
        }
        match n_values == n && values.next().is_none() {
            true => Ok(n_bytes),
            false => Err(self.nonsense("load products", reply)),
        }
    }

    /// The size of products with a name, if it is known.
    fn size_of(&self, name: &ProductName) -> Option<usize> {
        lock(&self.sizes).get(name).copied()
    }

    fn note_size(&self, name: &ProductName, size: usize) {
        if self
            .size_of(name)
            .is_some_and(|known| known >= size / 2 && known <= size.max(1) * 2)
        {
            return;
        }
        let mut sizes = lock(&self.sizes);
        // Names come from users: there are normally only a few.
        if sizes.len() > 10_000 {
            sizes.clear();
        }
        sizes.insert(name.clone(), size);
    }

    pub(super) fn scan(&self, scans: &[Scan]) -> Result<Vec<Vec<u64>>, EventsError> {
        let mut found: Vec<Vec<u64>> = vec![Vec::new(); scans.len()];
        // Unfinished scans, and their next positions.
        let mut open: Vec<(usize, Scan)> = scans.iter().copied().enumerate().collect();
        let mut flow = Flow::new(&self.client);
        while !open.is_empty() {
            open.retain(|(_, scan)| scan.limit > 0);
            let mut commands = Commands::default();
            for (_, scan) in &open {
                let keys = self.keys(&scan.parent);
                let from = [b"[".as_slice(), &scan.from.to_be_bytes()].concat();
                let n = scan.limit.min(PAGE).to_string();
                let key = keys.children();
                let args = [
                    b"ZRANGE",
                    &*key,
                    &from,
                    b"+",
                    b"BYLEX",
                    b"LIMIT",
                    b"0",
                    n.as_bytes(),
                ];
                commands.command(keys.slot, &args);
                commands.brings(scan.limit.min(PAGE) * ENTRY);
            }
            let mut next = Vec::new();
            flow.run("list containers", &commands, false, &mut |at, reply| {
                let Some(&(which, scan)) = open.get(at) else {
                    return Ok(());
                };
                let numbers = self.numbers_of(scan, reply)?;
                let last = numbers
                    .last()
                    .filter(|_| numbers.len() == scan.limit.min(PAGE));
                next.extend(last.and_then(|last| last.checked_add(1)).map(|from| {
                    let limit = scan.limit - numbers.len();
                    (
                        which,
                        Scan {
                            from,
                            limit,
                            ..scan
                        },
                    )
                }));
                found
                    .get_mut(which)
                    .into_iter()
                    .for_each(|all| all.extend(&numbers));
                Ok(())
            })?;
            open = next;
        }
        Ok(found)
    }

    fn numbers_of(&self, scan: Scan, reply: Reply<'_>) -> Result<Vec<u64>, EventsError> {
        let members = reply.elements().into_iter().flatten();
        members
            .map(|member| {
                let bytes = member.bytes().unwrap_or_default();
                number(bytes).ok_or_else(|| EventsError::Key {
                    url: self.url().into(),
                    table: "containers",
                    key: format!(
                        "{:?} in {}",
                        String::from_utf8_lossy(bytes),
                        scan.parent.descriptor()
                    ),
                })
            })
            .collect()
    }
}

impl RedisBackend {
    pub(super) fn contains_all(
        &self,
        children: &[(Parent, &[u64])],
    ) -> Result<Vec<Vec<bool>>, EventsError> {
        let mut commands = Commands::default();
        let mut places = Vec::new();
        for (at, (parent, numbers)) in children.iter().enumerate() {
            let keys = self.keys(parent);
            for (numbers, n) in numbers.chunks(MOST_FIELDS).zip(0..) {
                commands.begin(keys.slot, 2 + numbers.len());
                commands.arg(b"ZMSCORE").arg(&keys.children());
                for number in numbers {
                    commands.arg(&number.to_be_bytes());
                }
                places.push((at, n * MOST_FIELDS));
            }
        }
        let numbers = children.iter().map(|(_, numbers)| numbers);
        let mut there: Vec<_> = numbers.map(|numbers| vec![false; numbers.len()]).collect();
        let mut flow = Flow::new(&self.client);
        flow.run(
            "look for containers",
            &commands,
            false,
            &mut |command, reply| {
                let place = places.get(command);
                let found = place.and_then(|(at, from)| there.get_mut(*at)?.get_mut(*from..));
                let scores = reply.elements().into_iter().flatten();
                for (is_there, score) in found.into_iter().flatten().zip(scores) {
                    *is_there = score != Reply::Value(None);
                }
                Ok(())
            },
        )?;
        Ok(there)
    }

    /// The memory of the keys of a parent in bytes, which the server estimates from a sample of their values.
    pub(super) fn memory_of(&self, keys: &ParentKeys) -> Result<u64, EventsError> {
        let products = self.stored_names(keys)?;
        let products = products.iter().map(|name| keys.products_named(name));
        let mut commands = Commands::default();
        for key in [keys.children(), keys.names()].into_iter().chain(products) {
            let args = [b"MEMORY".as_slice(), b"USAGE", &key, b"SAMPLES", b"100"];
            commands.command(keys.slot, &args);
        }
        let mut n_bytes = 0;
        let mut flow = Flow::new(&self.client);
        flow.run("measure a dataset", &commands, false, &mut |_, reply| {
            match reply {
                Reply::Number(n) => n_bytes += n.unsigned_abs(),
                // The key does not exist.
                Reply::Value(None) => {}
                reply => return Err(self.nonsense("measure a dataset", reply)),
            }
            Ok(())
        })?;
        Ok(n_bytes)
    }
}
