//! The names of datasets: a hash maps names to UUIDs, and a sorted set contains the listed names.

use femtobarn_redis::{Commands, Reply};

use super::keys::Tagged;
use super::write::MOST_FIELDS;
use super::{Flow, RedisBackend};
use crate::{DataSetEntry, DataSetPath, EventsError};

/// Replaces the value of a hash field if it has the expected value; empty means no value. The script first deletes
/// the field: all server versions finish a script that has written, even when memory is full.
const REPLACE: &str = "\
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
return 1";

impl RedisBackend {
    pub(super) fn datasets_key(&self) -> Tagged {
        Tagged::datasets(&self.prefix)
    }

    pub(super) fn replace_entry(
        &self,
        name: &[u8],
        from: DataSetEntry,
        to: Option<DataSetEntry>,
    ) -> Result<(), EventsError> {
        let key = self.datasets_key();
        let (from, to) = (from.to_bytes(), to.map(DataSetEntry::to_bytes));
        let args = [
            b"EVAL",
            REPLACE.as_bytes(),
            b"1",
            &key.key("u"),
            name,
            &from,
            &to.unwrap_or_default(),
        ];
        let mut commands = Commands::default();
        commands.command(key.slot, &args);
        self.change("remove a dataset", &commands)
    }

    /// Lists a dataset. A listed dataset is not added again, because a full server refuses `ZADD`.
    pub(super) fn list_dataset(&self, name: &[u8]) -> Result<(), EventsError> {
        let key = self.datasets_key();
        let mut commands = Commands::default();
        commands.command(key.slot, &[b"ZMSCORE", &key.key("n"), name]);
        let is_listed = self.surely("create a dataset", &commands, &mut |reply| {
            let mut scores = reply.elements().into_iter().flatten();
            Ok(scores.any(|score| score != Reply::Value(None)))
        })?;
        if is_listed {
            return Ok(());
        }
        let mut commands = Commands::default();
        commands.command(key.slot, &[b"ZADD", &key.key("n"), b"0", name]);
        self.change("create a dataset", &commands)
    }

    pub(super) fn unlist_dataset(&self, name: &[u8]) -> Result<(), EventsError> {
        let key = self.datasets_key();
        let mut commands = Commands::default();
        commands.command(key.slot, &[b"ZREM", &key.key("n"), name]);
        self.change("remove a dataset", &commands)
    }

    /// The entries of names.
    pub(super) fn entries(
        &self,
        doing: &str,
        names: &[Vec<u8>],
    ) -> Result<Vec<Option<DataSetEntry>>, EventsError> {
        let key = self.datasets_key();
        let mut commands = Commands::default();
        for names in names.chunks(MOST_FIELDS) {
            commands.begin(key.slot, 2 + names.len());
            commands.arg(b"HMGET").arg(&key.key("u"));
            for name in names {
                commands.arg(name);
            }
        }
        let mut found = vec![None; names.len()];
        let mut flow = Flow::new(&self.client);
        flow.run(doing, &commands, false, &mut |at, reply| {
            let places = found.iter_mut().zip(names).skip(at * MOST_FIELDS);
            let values = reply.elements().into_iter().flatten();
            for ((place, name), value) in places.zip(values) {
                let entry = value.bytes().map(|bytes| self.entry(name, bytes));
                *place = entry.transpose()?;
            }
            Ok(())
        })?;
        Ok(found)
    }

    pub(super) fn list_datasets(
        &self,
        parent: &DataSetPath,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, DataSetEntry)>, EventsError> {
        const DOING: &str = "list datasets";
        let key = self.datasets_key();
        let prefix = parent.prefix();
        let mut from = match after {
            Some(after) => [b"(".as_slice(), &prefix, after.as_bytes()].concat(),
            None => [b"[".as_slice(), &prefix].concat(),
        };
        // UTF-8 has no byte 0xff: this sorts after all names with the prefix.
        let to = [b"(".as_slice(), &prefix, &[0xff]].concat();
        let mut found = Vec::new();
        let mut flow = Flow::new(&self.client);
        while found.len() < limit {
            let n = (limit - found.len()).min(MOST_FIELDS);
            let count = n.to_string();
            let mut commands = Commands::default();
            let names_key = key.key("n");
            let args = [
                b"ZRANGE",
                &*names_key,
                &from,
                &to,
                b"BYLEX",
                b"LIMIT",
                b"0",
                count.as_bytes(),
            ];
            commands.command(key.slot, &args);
            let mut paths = Vec::new();
            flow.run(DOING, &commands, false, &mut |_, reply| {
                let members = reply.elements().into_iter().flatten();
                paths.extend(members.filter_map(|member| member.bytes().map(<[u8]>::to_vec)));
                Ok(())
            })?;
            let Some(last) = paths.last() else { break };
            from = [b"(".as_slice(), last].concat();
            let entries = self.entries(DOING, &paths)?;
            for (path, entry) in paths.iter().zip(entries) {
                // It was removed meanwhile.
                let Some(entry) = entry else { continue };
                let name = path.strip_prefix(&*prefix).unwrap_or_default();
                found.push((String::from_utf8_lossy(name).into_owned(), entry));
            }
            if paths.len() < n {
                break;
            }
        }
        Ok(found)
    }
}
