//! How durable what was written is made, and whether the servers keep it at all.

use std::thread;
use std::time::{Duration, Instant};

use super::RedisBackend;
use super::flow::Flow;
use super::resp::Orders;
use crate::EventsError;

const DOING: &str = "flush";
/// How often a server is asked whether its log is written.
const PAUSE: Duration = Duration::from_millis(2);
/// Since when a server can be asked to have its log on disk (`WAITAOF`).
const WAITAOF: (u32, u32) = (7, 2);

/// What a server says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Persistence {
    /// Whether it keeps a log (`appendonly`).
    has_log: bool,
    /// Whether all of the log was given to the system.
    is_written: bool,
    has_waitaof: bool,
}

impl Persistence {
    fn of(&mut self, info: &str) {
        for line in info.lines() {
            match line.split_once(':') {
                Some(("aof_enabled", value)) => self.has_log = value == "1",
                Some(("aof_buffer_length", value)) => self.is_written = value == "0",
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
    /// One slot of each master.
    fn slots(&self) -> Vec<u16> {
        let topology = self.nodes.topology();
        let mut slots = vec![None; topology.masters.len()];
        for slot in 0..super::keys::N_SLOTS {
            let place = topology.target(slot).and_then(|at| slots.get_mut(at));
            place
                .into_iter()
                .for_each(|first| *first = first.or(Some(slot)));
        }
        slots.into_iter().flatten().collect()
    }

    /// What the masters say of themselves.
    fn persistence(
        &self,
        flow: &mut Flow<'_>,
        slots: &[u16],
    ) -> Result<Vec<Persistence>, EventsError> {
        let mut orders = Orders::default();
        for slot in slots {
            orders.command(*slot, &[b"INFO", b"persistence"]);
            orders.command(*slot, &[b"INFO", b"server"]);
        }
        let mut found = vec![Persistence::default(); slots.len()];
        flow.run(DOING, &orders, false, &mut |at, reply| {
            let text = reply.text();
            found
                .get_mut(at / 2)
                .into_iter()
                .for_each(|of| of.of(&text));
            Ok(())
        })?;
        Ok(found)
    }

    /// Whether all masters keep a log; not if they will not say.
    pub(super) fn has_logs(&self) -> bool {
        let slots = self.slots();
        let found = self.persistence(&mut Flow::new(&self.nodes), &slots);
        found.is_ok_and(|found| found.iter().all(|of| of.has_log))
    }

    /// Returns when what was written, by whomever, is in as many replicas as are wanted, and in the log of its master: on
    /// its disk where the server can be asked for that, else given to its system.
    pub(super) fn make_durable(&self) -> Result<(), EventsError> {
        let mut flow = Flow::new(&self.nodes);
        let slots = self.slots();
        if self.is_durable {
            let started = Instant::now();
            let timeout = self.nodes.settings.timeout;
            loop {
                let found = self.persistence(&mut flow, &slots)?;
                let with = |has_waitaof| {
                    let all = slots.iter().zip(&found);
                    all.filter(move |(_, of)| of.has_log && of.has_waitaof == has_waitaof)
                };
                if with(false).all(|(_, of)| of.is_written) {
                    let slots: Vec<_> = with(true).map(|(slot, _)| *slot).collect();
                    self.wait_for_logs(&mut flow, &slots)?;
                    break;
                }
                if started.elapsed() > timeout {
                    let source =
                        "a server did not write its log in time: is its disk full, or slow?";
                    return Err(EventsError::engine(&self.nodes.settings.url, DOING, source));
                }
                thread::sleep(PAUSE);
            }
        }
        self.wait_for_replicas(&mut flow, &slots)
    }

    fn wait_for_logs(&self, flow: &mut Flow<'_>, slots: &[u16]) -> Result<(), EventsError> {
        let millis = self.nodes.settings.timeout.as_millis().to_string();
        let mut orders = Orders::default();
        for slot in slots {
            orders.command(*slot, &[b"WAITAOF", b"1", b"0", millis.as_bytes()]);
        }
        flow.run(DOING, &orders, false, &mut |_, reply| {
            let first = reply.elements().and_then(|mut both| both.next());
            match first {
                Some(super::resp::Reply::Number(1)) => Ok(()),
                _ => {
                    let source =
                        "a server did not write its log in time: is its disk full, or slow?";
                    Err(EventsError::engine(&self.nodes.settings.url, DOING, source))
                }
            }
        })
    }

    /// What is waited for is all that a server has done before the last command on this connection, for whomever.
    fn wait_for_replicas(&self, flow: &mut Flow<'_>, slots: &[u16]) -> Result<(), EventsError> {
        let wanted = self.nodes.settings.replicas;
        if wanted == 0 {
            return Ok(());
        }
        let mut orders = Orders::default();
        for slot in slots {
            orders.command(*slot, &[b"PING"]);
        }
        flow.run(DOING, &orders, false, &mut |_, _| Ok(()))?;
        match flow.wait_for_replicas(wanted)? {
            Some(n) if n >= wanted => Ok(()),
            found => Err(self.too_few(wanted, found.unwrap_or_default())),
        }
    }
}
