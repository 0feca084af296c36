//! Writes batches.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use femtobarn_redis::{Address, Commands, LONGEST_VALUE, Reply};

use super::keys::ParentKeys;
use super::{Flow, RedisBackend};
use crate::Refusal;
use crate::batch::{Items, Products};
use crate::{Backend, Batch, EventsError, Overwrite, Parent, ProductId, Written};

/// Maximum number of fields or members per command.
pub const MOST_FIELDS: usize = 1000;
/// Maximum bytes per command, except for one with a single larger value.
const MOST_BYTES: usize = 1 << 20;
/// Approximate overhead of an entry on the wire.
const ENTRY: usize = 40;

/// A batch as commands.
struct Packed {
    products: Commands,
    /// For each command that keeps existing values: the indexes of its group and entry.
    kept_of: Vec<Option<(usize, usize)>>,
    items: Commands,
}

impl RedisBackend {
    /// Writes a batch until enough replicas have all of it. If a server was lost meanwhile, everything is written
    /// again, because its replacement may lack acknowledged writes.
    pub(super) fn write_batch(&self, batch: &Batch) -> Result<Written, EventsError> {
        self.check_sizes(batch)?;
        let packed = self.pack(batch);
        let started = Instant::now();
        let mut is_again = false;
        loop {
            let mut flow = Flow::new(&self.client);
            let kept = self.send(&packed, &mut flow);
            let kept = kept.map_err(|error| name_largest(batch, error))?;
            let patience = self.client.options().failover + self.client.options().timeout;
            let has_enough = match self.replicas {
                // The server with the products may have been replaced before the containers were written. Then
                // everything is sent again, so that no event exists without its products.
                0 => !flow.has_lost || started.elapsed() > patience,
                wanted => match flow.wait_for_replicas(wanted)? {
                    Some(n) if n >= wanted => true,
                    Some(n) => return Err(self.too_few(wanted, n, &flow.lacking)),
                    None => false,
                },
            };
            is_again |= flow.has_repeated || !has_enough;
            if has_enough {
                let kept = match is_again {
                    true => self.really_kept(batch, kept)?,
                    false => kept,
                };
                return Ok(self.written(batch, &kept));
            }
            if started.elapsed() > patience {
                return Err(self.too_few(self.replicas, 0, &[]));
            }
        }
    }

    /// Sends the products, then the containers; returns the existing products.
    fn send(
        &self,
        packed: &Packed,
        flow: &mut Flow<'_>,
    ) -> Result<Vec<(usize, usize)>, EventsError> {
        let mut kept = Vec::new();
        flow.run(
            "store products",
            &packed.products,
            true,
            &mut |at, reply| {
                let of = packed.kept_of.get(at).copied().flatten();
                kept.extend(of.filter(|_| reply == Reply::Number(0)));
                Ok(())
            },
        )?;
        flow.run("create containers", &packed.items, true, &mut |_, _| Ok(()))?;
        kept.sort_unstable();
        kept.dedup();
        Ok(kept)
    }

    fn pack(&self, batch: &Batch) -> Packed {
        let room = batch.n_bytes() + batch.len() * ENTRY;
        let mut packed = Packed {
            products: Commands::with_capacity(room),
            kept_of: Vec::new(),
            items: Commands::default(),
        };
        let mut all_keys = HashMap::new();
        for (g, group) in batch.products().iter().enumerate() {
            let keys = self.keys_once(&mut all_keys, &group.parent);
            let name = group.name.as_str().as_bytes();
            let names = [b"SADD".as_slice(), &keys.names(), name];
            packed.products.command(keys.slot, &names);
            packed.kept_of.resize(packed.products.len(), None);
            match batch.overwrite() {
                Overwrite::Replace => pack_replacing(batch, group, keys, &mut packed.products),
                Overwrite::Keep => pack_keeping(batch, (g, group), keys, &mut packed),
            }
        }
        for items in batch.items() {
            let keys = self.keys_once(&mut all_keys, &items.parent);
            pack_items(items, keys, &mut packed.items);
        }
        packed
    }

    fn keys_once<'k>(
        &self,
        all: &'k mut HashMap<Parent, ParentKeys>,
        parent: &Parent,
    ) -> &'k ParentKeys {
        all.entry(*parent).or_insert_with(|| self.keys(parent))
    }

    fn check_sizes(&self, batch: &Batch) -> Result<(), EventsError> {
        for group in batch.products() {
            let too_large = |(_, range): &&(u64, Range<usize>)| range.len() > LONGEST_VALUE;
            if let Some((event, range)) = group.entries.iter().find(too_large) {
                return Err(EventsError::TooLarge {
                    url: self.url().into(),
                    id: Box::new(product(group, *event)),
                    most: LONGEST_VALUE as u64,
                    found: range.len() as u64,
                });
            }
        }
        Ok(())
    }

    /// Filters the existing products: excludes products of this batch, in case a command was executed twice.
    fn really_kept(
        &self,
        batch: &Batch,
        kept: Vec<(usize, usize)>,
    ) -> Result<Vec<(usize, usize)>, EventsError> {
        let mut really = Vec::new();
        for (g, e) in kept {
            let Some((group, event, stored)) = entry(batch, g, e) else {
                continue;
            };
            let wanted = [crate::Wanted {
                parent: group.parent,
                name: &group.name,
                events: &[event],
            }];
            self.load_products(&wanted, &mut |_, _, found| {
                really.extend((found != Some(stored)).then_some((g, e)));
                Ok(())
            })?;
        }
        Ok(really)
    }

    fn written(&self, batch: &Batch, kept: &[(usize, usize)]) -> Written {
        let kept = kept.iter().filter_map(|&(g, e)| {
            let (group, event, _) = entry(batch, g, e)?;
            Some(product(group, event))
        });
        Written {
            kept: kept.collect(),
        }
    }

    /// The error that too few replicas of these (or of unknown) servers have the write.
    pub(super) fn too_few(
        &self,
        wanted: usize,
        found: usize,
        lacking: &[Arc<Address>],
    ) -> EventsError {
        let said = format!("only {found} of {wanted} replicas have the write");
        let advice = "the data are written, but may be lost with the server: start the replicas (a new server gets \
                      its replica before its slots) and repeat the write, or require fewer (write_concern)";
        self.without_replicas("confirm the write", said, advice, lacking)
    }

    /// The error that a new store has too few replicas; nothing is written.
    pub(super) fn too_few_to_make(
        &self,
        wanted: usize,
        found: usize,
        lacking: &[Arc<Address>],
    ) -> EventsError {
        let said = format!("only {found} of {wanted} replicas answer");
        let advice = "start the replicas, or require fewer (write_concern)";
        self.without_replicas("create the store", said, advice, lacking)
    }

    fn without_replicas(
        &self,
        doing: &str,
        said: String,
        advice: &'static str,
        lacking: &[Arc<Address>],
    ) -> EventsError {
        let topology = self.client.topology();
        let lacking = match lacking {
            [] => &topology.masters,
            lacking => lacking,
        };
        let mut nodes: Vec<_> = lacking.iter().map(|at| at.to_string()).collect();
        nodes.sort_unstable();
        EventsError::Refused {
            url: self.url().into(),
            node: nodes.join(", "),
            doing: doing.into(),
            said,
            advice,
            refusal: Refusal::Replicas,
        }
    }
}

/// Names the product that is too large for a server.
fn name_largest(batch: &Batch, error: EventsError) -> EventsError {
    let EventsError::Refused {
        url,
        node,
        doing,
        said,
        advice,
        refusal: Refusal::TooLarge,
    } = error
    else {
        return error;
    };
    let groups = batch.products().iter();
    let values = groups.flat_map(|group| group.entries.iter().map(move |entry| (group, entry)));
    let largest = values.max_by_key(|(_, (_, range))| range.len());
    let doing = largest.map_or(doing.clone(), |(group, (event, range))| {
        let id = product(group, *event);
        format!("{doing}: {id} has {} bytes", range.len())
    });
    EventsError::Refused {
        url,
        node,
        doing,
        said,
        advice,
        refusal: Refusal::TooLarge,
    }
}

fn product(group: &Products, event: u64) -> ProductId {
    ProductId {
        container: group.parent.member(event),
        name: group.name.clone(),
    }
}

fn entry(batch: &Batch, group: usize, entry: usize) -> Option<(&Products, u64, &[u8])> {
    let group = batch.products().get(group)?;
    let (event, range) = group.entries.get(entry)?;
    Some((group, *event, batch.stored(range)))
}

fn pack_replacing(batch: &Batch, group: &Products, keys: &ParentKeys, commands: &mut Commands) {
    let key = keys.products(&group.name);
    let mut rest = group.entries.as_slice();
    while !rest.is_empty() {
        let mut n_bytes = 0;
        let fits = |(_, range): &&(u64, Range<usize>)| {
            n_bytes += range.len() + ENTRY;
            n_bytes <= MOST_BYTES
        };
        let n = rest.iter().take(MOST_FIELDS).take_while(fits).count();
        let (now, later) = rest.split_at(n.max(1));
        commands.begin(keys.slot, 2 + 2 * now.len());
        commands.arg(b"HSET").arg(&key);
        for (event, range) in now {
            commands.arg(&event.to_be_bytes()).arg(batch.stored(range));
        }
        rest = later;
    }
}

fn pack_keeping(
    batch: &Batch,
    (g, group): (usize, &Products),
    keys: &ParentKeys,
    packed: &mut Packed,
) {
    let key = keys.products(&group.name);
    for (e, (event, range)) in group.entries.iter().enumerate() {
        let args = [
            b"HSETNX",
            key.as_slice(),
            &event.to_be_bytes(),
            batch.stored(range),
        ];
        packed.products.command(keys.slot, &args);
        packed.kept_of.push(Some((g, e)));
    }
}

fn pack_items(items: &Items, keys: &ParentKeys, commands: &mut Commands) {
    let key = keys.children();
    for numbers in items.numbers.chunks(MOST_FIELDS) {
        commands.begin(keys.slot, 2 + 2 * numbers.len());
        commands.arg(b"ZADD").arg(&key);
        for number in numbers {
            commands.arg(b"0").arg(&number.to_be_bytes());
        }
    }
}
