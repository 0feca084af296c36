//! Removes data of datasets without a name, written during a deletion.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use femtobarn_redis::{Commands, Reply};

use super::keys::parent_of;
use super::write::MOST_FIELDS;
use super::{Flow, RedisBackend};
use crate::{Backend, DataSetEntry, EventsError, Parent, Uuid};

const DOING: &str = "remove remaining data of deleted datasets";

impl RedisBackend {
    /// Names are read before and after the keys: a dataset created meanwhile has its name before it has keys.
    pub(super) fn remove_unnamed(&self) -> Result<BTreeSet<Uuid>, EventsError> {
        let named = self.named()?;
        let mut found: BTreeMap<Vec<u8>, Parent> = BTreeMap::new();
        for slot in self.client.topology().a_slot_of_each() {
            self.keys_of_datasets(slot, &mut |key, parent| {
                if !named.contains(&parent.dataset) {
                    found.insert(key.to_vec(), parent);
                }
            })?;
        }
        let named = self.named()?;
        found.retain(|_, parent| !named.contains(&parent.dataset));
        let mut commands = Commands::default();
        for (key, parent) in &found {
            commands.command(self.keys(parent).slot, &[b"UNLINK", key]);
        }
        self.change(DOING, &commands)?;
        Ok(found.values().map(|parent| parent.dataset).collect())
    }

    /// The UUIDs of all named datasets.
    fn named(&self) -> Result<HashSet<Uuid>, EventsError> {
        let key = self.datasets_key();
        let mut commands = Commands::default();
        commands.command(key.slot, &[b"HVALS", &key.key("u")]);
        let mut found = HashSet::new();
        Flow::new(&self.client).run(DOING, &commands, false, &mut |_, reply| {
            for value in reply.elements().into_iter().flatten() {
                let bytes = value.bytes().unwrap_or_default();
                let entry = DataSetEntry::from_bytes(bytes).ok_or_else(|| EventsError::Key {
                    url: self.url().into(),
                    table: "datasets",
                    key: format!("of the value {:?}", String::from_utf8_lossy(bytes)),
                })?;
                found.insert(entry.uuid);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Visits the keys of datasets on the master of a slot.
    fn keys_of_datasets(
        &self,
        slot: u16,
        visit: &mut dyn FnMut(&[u8], Parent),
    ) -> Result<(), EventsError> {
        let prefix = &self.prefix;
        let pattern = [&escaped(prefix.as_bytes()), b"{*".as_slice()].concat();
        let count = MOST_FIELDS.to_string();
        let mut cursor = b"0".to_vec();
        let mut flow = Flow::new(&self.client);
        loop {
            let mut commands = Commands::default();
            let args = [b"SCAN".as_slice(), &cursor, b"MATCH", &pattern, b"COUNT"];
            commands.command(slot, &[&args[..], &[count.as_bytes()]].concat());
            flow.run(DOING, &commands, false, &mut |_, reply| {
                let mut parts = reply.elements().into_iter().flatten();
                let next = parts
                    .next()
                    .and_then(|next| next.bytes().map(<[u8]>::to_vec));
                cursor = next.ok_or_else(|| self.nonsense(DOING, Reply::Value(None)))?;
                let keys = parts.next().and_then(Reply::elements);
                for key in keys.into_iter().flatten() {
                    let key = key.bytes().unwrap_or_default();
                    if let Some(parent) = parent_of(prefix, key) {
                        visit(key, parent);
                    }
                }
                Ok(())
            })?;
            if cursor == b"0" {
                return Ok(());
            }
        }
    }
}

/// Escapes a string as a pattern that matches only itself.
fn escaped(text: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| match byte {
        b'*' | b'?' | b'[' | b']' | b'\\' | b'^' => vec![b'\\', *byte],
        byte => vec![*byte],
    };
    text.iter().flat_map(escape).collect()
}
