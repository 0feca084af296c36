//! Makes writes durable, and checks whether the servers have kept them.

use std::thread;
use std::time::{Duration, Instant};

use femtobarn_redis::{Address, Commands, Reply};

use super::failure::refused;
use super::keys::{ID_FIELD, LAYOUT_FIELD, Tagged};
use super::{Flow, RedisBackend};
use crate::{Backend, EventsError, Refusal};

const DOING: &str = "flush";
/// Interval of checks whether a server has written its log.
const PAUSE: Duration = Duration::from_millis(2);
/// First server version that reports when its log is on disk (`WAITAOF`).
const WAITAOF: (u32, u32) = (7, 2);

/// The persistence state of a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Persistence {
    /// Whether it keeps a log (`appendonly`).
    has_log: bool,
    /// Number of log bytes that the server has written, and that still wait.
    written: u64,
    waiting: u64,
    has_waitaof: bool,
}

impl Persistence {
    fn of(&mut self, info: &str) {
        for line in info.lines() {
            match line.split_once(':') {
                Some(("aof_enabled", value)) => self.has_log = value == "1",
                Some(("aof_current_size", value)) => {
                    self.written = value.parse().unwrap_or_default()
                }
                Some(("aof_buffer_length", value)) => {
                    self.waiting = value.parse().unwrap_or_default()
                }
                Some(("redis_version", value)) => {
                    let mut parts = value
                        .split('.')
                        .map(|part| part.parse().unwrap_or_default());
                    let version = (
                        parts.next().unwrap_or_default(),
                        parts.next().unwrap_or_default(),
                    );
                    self.has_waitaof = version >= WAITAOF;
                }
                _ => {}
            }
        }
    }
}

impl RedisBackend {
    /// The persistence state of all masters.
    fn persistence(
        &self,
        flow: &mut Flow<'_>,
        slots: &[u16],
    ) -> Result<Vec<Persistence>, EventsError> {
        let mut commands = Commands::default();
        for slot in slots {
            commands.command(*slot, &[b"INFO", b"persistence"]);
            commands.command(*slot, &[b"INFO", b"server"]);
        }
        let mut found = vec![Persistence::default(); slots.len()];
        flow.run(DOING, &commands, false, &mut |at, reply| {
            let text = reply.text();
            found
                .get_mut(at / 2)
                .into_iter()
                .for_each(|of| of.of(&text));
            Ok(())
        })?;
        Ok(found)
    }

    /// Whether all masters keep a log; false if a server does not report it. Fails if a server evicts products.
    pub(super) fn has_logs(&self) -> Result<bool, EventsError> {
        let slots = self.client.topology().a_slot_of_each();
        match self.persistence(&mut Flow::new(&self.client), &slots) {
            Ok(found) => Ok(found.iter().all(|of| of.has_log)),
            Err(error) if error.kind() == Refusal::Evicts.kind() => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Waits until all writes, of any client, are on enough replicas and in the master's log: on its disk if the
    /// server can report that, otherwise written to its operating system.
    ///
    /// Each server is asked, even without pending writes: reconnecting detects a server that was restarted without
    /// its data. The server of the store ID is asked for the ID.
    pub(super) fn make_durable(&self) -> Result<(), EventsError> {
        let slots = self.client.topology().a_slot_of_each();
        self.check_mark()?;
        match self.is_durable {
            true => self.wait_for_all_logs(&slots)?,
            false => self.ping(&mut Flow::new(&self.client), &slots)?,
        }
        self.wait_for_replicas(&slots)?;
        self.guard
            .known
            .note_flushed()
            .map_or(Ok(()), |node| Err(self.restarted(&node)))
    }

    fn check_mark(&self) -> Result<(), EventsError> {
        let key = Tagged::store(&self.prefix);
        let Some(mark) = self.guard.known.mark() else {
            return Ok(());
        };
        let mut commands = Commands::default();
        commands.command(key.slot, &[b"HMGET", &mark.key, LAYOUT_FIELD, ID_FIELD]);
        Flow::new(&self.client).run(DOING, &commands, false, &mut |_, reply| {
            let fields = reply.elements().into_iter().flatten();
            let fields = fields.map(|field| field.bytes().map(<[u8]>::to_vec));
            mark.check(fields.collect()).map_err(|error| {
                let (topology, url) = (self.client.topology(), self.url());
                match topology.master(key.slot) {
                    Some(node) => refused(url, node, DOING, &error.to_string()),
                    None => EventsError::engine(url, DOING, error.to_string()),
                }
            })
        })
    }

    fn restarted(&self, node: &Address) -> EventsError {
        EventsError::Refused {
            url: self.url().into(),
            node: node.to_string(),
            doing: DOING.into(),
            said: "it was restarted after a write, and keeps no log".into(),
            advice: "writes since its last snapshot are lost: repeat them, and enable its log (appendonly)",
            refusal: Refusal::Emptied,
        }
    }

    fn ping(&self, flow: &mut Flow<'_>, slots: &[u16]) -> Result<(), EventsError> {
        let mut commands = Commands::default();
        for slot in slots {
            commands.command(*slot, &[b"PING"]);
        }
        flow.run(DOING, &commands, false, &mut |_, _| Ok(()))
    }

    fn wait_for_all_logs(&self, slots: &[u16]) -> Result<(), EventsError> {
        let mut flow = Flow::new(&self.client);
        let found = self.persistence(&mut flow, slots)?;
        let with = |has_waitaof| {
            let all = slots.iter().zip(&found);
            let all = all.filter(move |(_, of)| of.has_log && of.has_waitaof == has_waitaof);
            all.map(|(slot, of)| (*slot, *of)).collect::<Vec<_>>()
        };
        self.wait_until_written(&mut flow, with(false))?;
        let slots: Vec<_> = with(true).iter().map(|(slot, _)| *slot).collect();
        self.wait_for_logs(&mut flow, &slots)
    }

    /// Waits until the servers have written the log bytes that waited at the first check. Later writes of others
    /// are not waited for.
    fn wait_until_written(
        &self,
        flow: &mut Flow<'_>,
        mut first: Vec<(u16, Persistence)>,
    ) -> Result<(), EventsError> {
        let started = Instant::now();
        first.retain(|(_, of)| of.waiting > 0);
        while !first.is_empty() {
            if started.elapsed() > self.client.options().timeout {
                return Err(self.too_slow());
            }
            thread::sleep(PAUSE);
            let slots: Vec<_> = first.iter().map(|(slot, _)| *slot).collect();
            let found = self.persistence(flow, &slots)?;
            for ((_, first), now) in first.iter_mut().zip(found) {
                // A rewritten log is shorter, so the bytes are counted from there.
                let is_new = now.written < first.written;
                let is_done = now.waiting == 0 || now.written >= first.written + first.waiting;
                match (is_new, is_done) {
                    (true, _) => *first = now,
                    (false, true) => first.waiting = 0,
                    (false, false) => {}
                }
            }
            first.retain(|(_, of)| of.waiting > 0);
        }
        Ok(())
    }

    fn too_slow(&self) -> EventsError {
        let source = "a server did not write its log in time: is its disk full, or slow?";
        EventsError::engine(self.url(), DOING, source)
    }

    fn wait_for_logs(&self, flow: &mut Flow<'_>, slots: &[u16]) -> Result<(), EventsError> {
        let millis = self.client.options().timeout.as_millis().to_string();
        let mut commands = Commands::default();
        for slot in slots {
            commands.command(*slot, &[b"WAITAOF", b"1", b"0", millis.as_bytes()]);
        }
        flow.run(DOING, &commands, false, &mut |_, reply| {
            let first = reply.elements().and_then(|mut both| both.next());
            match first {
                Some(Reply::Number(1)) => Ok(()),
                _ => Err(self.too_slow()),
            }
        })
    }

    /// Waits for all commands of any client that the server executed before the last command on this connection.
    fn wait_for_replicas(&self, slots: &[u16]) -> Result<(), EventsError> {
        let wanted = self.replicas;
        if wanted == 0 {
            return Ok(());
        }
        let mut flow = Flow::new(&self.client);
        self.ping(&mut flow, slots)?;
        match flow.wait_for_replicas(wanted)? {
            Some(n) if n >= wanted => Ok(()),
            found => Err(self.too_few(wanted, found.unwrap_or_default(), &flow.lacking)),
        }
    }
}
