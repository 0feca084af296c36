//! Detects servers that have lost their data. A Redis server that restarts without its data accepts writes, but a client
//! would write into datasets that do not exist any more.
//!
//! Each connection is checked before its first use. The server of the store ID (`{store}h`) must still have it. Other
//! servers of a cluster must not be empty after a restart if they had keys before. `flush` asks the server of the store
//! ID, to detect deletions while connections stay open (`FLUSHALL`).
//!
//! A server without a log restarts with its last snapshot: `flush` fails if unflushed writes came before the restart.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use femtobarn_redis::{Address, Connection, ConnectionError, is_temporary};

use super::keys::{ID_FIELD, LAYOUT_FIELD};
use crate::forked::lock;

/// The prefix of the refusal.
pub const EMPTIED: &str = "EMPTIED";

/// The identity of a store.
#[derive(Debug, Default)]
pub struct Known {
    mark: OnceLock<Mark>,
    starts: Mutex<HashMap<Arc<Address>, Start>>,
}

/// The store's identification, as stored.
#[derive(Debug)]
pub struct Mark {
    /// The key of the record.
    pub key: Vec<u8>,
    pub layout: Vec<u8>,
    /// The store ID; `None` if no version that creates store IDs has written to the store.
    pub id: Option<Vec<u8>>,
}

impl Known {
    /// Sets the expected record.
    pub fn expect(&self, mark: Mark) {
        let _ = self.mark.set(mark); // a client connects only once
    }

    /// Records that a server has keys.
    pub fn note_written(&self, place: &Address) {
        if let Some(start) = lock(&self.starts).get_mut(place) {
            (start.has_keys, start.is_unflushed) = (true, true);
        }
    }

    /// The expected record, if it is known.
    pub fn mark(&self) -> Option<&Mark> {
        self.mark.get()
    }

    /// Records that all writes are flushed; returns a restarted server that may have lost unflushed writes.
    pub fn note_flushed(&self) -> Option<Arc<Address>> {
        let mut lost = None;
        for (place, start) in lock(&self.starts).iter_mut() {
            if start.has_lost {
                lost = Some(place.clone());
            }
            (start.is_unflushed, start.has_lost) = (false, false);
        }
        lost
    }
}

/// State of a server since its start.
#[derive(Debug, PartialEq, Eq)]
struct Start {
    run_id: String,
    has_keys: bool,
    is_master: bool,
    is_loading: bool,
    has_log: bool,
    /// Whether it has unflushed writes.
    is_unflushed: bool,
    /// Whether it was restarted without a log after unflushed writes.
    has_lost: bool,
}

impl Start {
    /// `None` if the server does not report its run ID.
    fn of(info: &str) -> Option<Self> {
        let value = |name| info.lines().find_map(|line| line.strip_prefix(name));
        Some(Self {
            run_id: value("run_id:")?.trim().into(),
            has_keys: value("db0:keys=").is_some(),
            is_master: value("role:").map(str::trim) == Some("master"),
            is_loading: value("loading:").map(str::trim) == Some("1"),
            has_log: value("aof_enabled:").map(str::trim) == Some("1"),
            is_unflushed: false,
            has_lost: false,
        })
    }
}

impl Known {
    /// Fails if a server has lost its data. Returns whether this could be checked; it cannot before the expected record
    /// is known.
    pub fn check_has_data(
        &self,
        place: &Arc<Address>,
        connection: &mut Connection,
        until: Instant,
    ) -> Result<bool, ConnectionError> {
        let Some(mark) = self.mark.get() else {
            return Ok(false);
        };
        let args = [b"HMGET".as_slice(), &mark.key, LAYOUT_FIELD, ID_FIELD];
        let found = connection.ask(&args, until, |reply| match reply.elements() {
            Some(fields) => Ok(fields
                .map(|field| field.bytes().map(<[u8]>::to_vec))
                .collect()),
            None => Err(reply.text()),
        })?;
        match found {
            Ok(fields) => mark.check(fields)?,
            // A server that has just started may not have the record yet, or not know yet that another has replaced it.
            Err(said) if is_temporary(&said) && !said.contains("not served") => {
                return Err(ConnectionError::Broken(said));
            }
            // Another server has the record, or it cannot be requested.
            Err(_) => {}
        }
        let info = connection.ask(&[b"INFO"], until, |reply| reply.text())?;
        Start::of(&info).map_or(Ok(()), |now| self.check_start(place, now))?;
        Ok(true)
    }

    /// Other servers of a cluster may have replaced it, which this client or the server itself may not know yet. So the
    /// client may ask again.
    fn check_start(&self, place: &Arc<Address>, mut now: Start) -> Result<(), ConnectionError> {
        if now.is_loading {
            return Err(ConnectionError::Broken("LOADING it reads its data".into()));
        }
        let mut starts = lock(&self.starts);
        if let Some(before) = starts.get(place) {
            if before.run_id == now.run_id {
                now.has_keys |= before.has_keys;
            } else if before.has_keys && now.is_master && !now.has_keys {
                return Err(ConnectionError::Broken(
                    "it was restarted without its data: what it had is gone (bring its data back, or connect to the \
                     store again)"
                        .into(),
                ));
            } else {
                now.has_lost = before.is_unflushed && !before.has_log;
            }
            now.is_unflushed = before.is_unflushed;
            now.has_lost |= before.has_lost;
        }
        starts.insert(place.clone(), now);
        Ok(())
    }
}

impl Mark {
    /// Fails if a server that has this key has other values in its fields.
    pub fn check(&self, fields: Vec<Option<Vec<u8>>>) -> Result<(), ConnectionError> {
        let mut fields = fields.into_iter().map(Option::unwrap_or_default);
        let (layout, id) = (fields.next(), fields.next());
        let has_id = |own| id.as_ref() == Some(own);
        if layout.as_ref() == Some(&self.layout) && self.id.as_ref().is_none_or(has_id) {
            return Ok(());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Err(ConnectionError::Refused(format!(
            "{EMPTIED} {} has id {:?}, and not {:?}",
            text(&self.key),
            text(&id.unwrap_or_default()),
            text(self.id.as_deref().unwrap_or_default()),
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_which_start_it_was_and_whether_it_has_keys() {
        let info = "# Server\r\nrun_id:ab1\r\nloading:0\r\naof_enabled:1\r\nrole:master\r\n# Keyspace\r\ndb0:keys=1,expires=0\r\n";
        let start = Start {
            run_id: "ab1".into(),
            has_keys: true,
            is_master: true,
            is_loading: false,
            has_log: true,
            is_unflushed: false,
            has_lost: false,
        };
        assert_eq!(Start::of(info), Some(start));
        let empty = Start::of("run_id:ab1\r\nloading:1\r\nrole:slave\r\n").unwrap();
        assert!(!empty.has_keys && !empty.is_master && empty.is_loading);
        assert_eq!(Start::of("NOPERM this user has no permissions"), None);
    }
}
