//! The servers of a store: which has which slot, and connections to them that wait to be used again.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use super::connection::{Connection, RedisError};
use super::emptied::Known;
use super::failure::refused;
use super::keys::N_SLOTS;
use super::resp::Reply;
use super::settings::{Address, Settings};
use super::tls;
use crate::EventsError;
use crate::forked::{Locked, Process, lock};

/// Timeout for one server to list the slots, if other servers can be asked.
const ASKED: Duration = Duration::from_secs(2);

/// Maps slots to servers.
#[derive(Debug)]
pub struct Topology {
    /// Whether it is a cluster.
    pub is_cluster: bool,
    /// Those that have slots, in the order of their addresses.
    pub masters: Vec<Arc<Address>>,
    /// Their replicas.
    pub replicas: Vec<Arc<Address>>,
    /// Which of the masters has a slot; none if unassigned.
    slots: Vec<Option<u16>>,
    /// Each new one has a higher number.
    pub generation: u64,
}

impl Topology {
    fn single(address: Address) -> Self {
        Self {
            is_cluster: false,
            masters: vec![Arc::new(address)],
            replicas: Vec::new(),
            slots: vec![Some(0); usize::from(N_SLOTS)],
            generation: 0,
        }
    }

    /// The one that `CLUSTER SLOTS` describes; none if it makes no sense.
    pub fn of_slots(reply: Reply<'_>, asked: &Address) -> Option<Self> {
        let mut found = Vec::new();
        let mut replicas = Vec::new();
        for range in reply.elements()? {
            let mut parts = range.elements()?;
            let mut slot = || match parts.next()? {
                Reply::Number(slot) => u16::try_from(slot).ok().filter(|slot| *slot < N_SLOTS),
                _ => None,
            };
            let (first, last) = (slot()?, slot()?);
            let mut nodes = parts.map(|node| address(node, asked));
            found.push((first, last, Arc::new(nodes.next()??)));
            replicas.extend(nodes.flatten().map(Arc::new));
        }
        let mut masters: Vec<_> = found.iter().map(|(.., master)| master.clone()).collect();
        masters.sort_unstable();
        masters.dedup();
        replicas.sort_unstable();
        replicas.dedup();
        let mut slots = vec![None; usize::from(N_SLOTS)];
        for (first, last, master) in found {
            let at = masters.binary_search(&master).ok();
            let at = at.and_then(|at| u16::try_from(at).ok());
            let part = slots.get_mut(usize::from(first)..=usize::from(last));
            part.into_iter().flatten().for_each(|slot| *slot = at);
        }
        Some(Self {
            is_cluster: true,
            masters,
            replicas,
            slots,
            generation: 0,
        })
    }

    /// Index of the master of a slot.
    pub fn target(&self, slot: u16) -> Option<usize> {
        self.slots
            .get(usize::from(slot))
            .copied()
            .flatten()
            .map(usize::from)
    }

    /// The master that has a slot.
    pub fn master(&self, slot: u16) -> Option<&Arc<Address>> {
        self.masters.get(self.target(slot)?)
    }
}

/// The address of a node in `CLUSTER SLOTS`: one that does not know its own name is where it was asked.
fn address(node: Reply<'_>, asked: &Address) -> Option<Address> {
    let mut parts = node.elements()?;
    let host = parts.next()?.bytes().unwrap_or_default();
    let host = match host {
        b"" | b"?" => asked.host.clone(),
        host => String::from_utf8(host.to_vec()).ok()?,
    };
    match parts.next()? {
        Reply::Number(port) => Some(Address {
            host,
            port: u16::try_from(port).ok()?,
        }),
        _ => None,
    }
}

/// All servers of a store.
pub struct Nodes {
    pub settings: Settings,
    tls: Option<Arc<ClientConfig>>,
    topology: Mutex<Arc<Topology>>,
    idle: Mutex<Idle>,
    /// State for detecting servers that have lost data.
    pub known: Known,
    /// When replicas were waited for in vain last.
    waited: Mutex<Option<Instant>>,
    /// When servers that did not answer were given up last.
    given_up: Mutex<HashMap<Arc<Address>, Instant>>,
}

#[derive(Default)]
struct Idle {
    /// A process that was forked must not use the connections of the one that it comes from.
    process: Option<Process>,
    by_address: HashMap<Arc<Address>, Vec<Connection>>,
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nodes")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Errors of servers, in order: `127.0.0.1:7000: connection refused`.
#[derive(Debug, Default)]
pub struct ServerErrors(Vec<(Address, String)>);

impl ServerErrors {
    /// Records the result of asking a server; of each, the last counts.
    pub fn note(&mut self, address: &Address, said: String) {
        self.0.retain(|(at, _)| at != address);
        self.0.push((address.clone(), said));
    }

    pub fn text(&self) -> String {
        let all = self.0.iter();
        let all: Vec<_> = all.map(|(at, said)| format!("{at}: {said}")).collect();
        match all.is_empty() {
            true => "no server is known for these keys".into(),
            false => all.join("; "),
        }
    }
}

impl Nodes {
    /// Finds the topology.
    pub fn connect(settings: Settings) -> Result<Self, EventsError> {
        let tls = match settings.has_tls {
            true => Some(tls::config(&settings).map_err(|why| EventsError::Usage {
                what: format!("{}: cannot read the TLS files: {why}", settings.url),
            })?),
            false => None,
        };
        let first = settings.seeds.first().cloned();
        let nowhere = Address {
            host: String::new(),
            port: 0,
        };
        let nodes = Self {
            tls,
            topology: Mutex::new(Arc::new(Topology::single(first.unwrap_or(nowhere)))),
            idle: Mutex::default(),
            known: Known::default(),
            waited: Mutex::default(),
            given_up: Mutex::default(),
            settings,
        };
        let mut said = ServerErrors::default();
        let seeds = nodes.settings.seeds.clone();
        for seed in seeds {
            let patience = nodes.settings.connect_timeout;
            if let Some(found) = nodes.ask_for_slots(&Arc::new(seed), patience, &mut said)? {
                nodes.learn(found);
                return Ok(nodes);
            }
        }
        Err(nodes.unreachable("connect", &said))
    }

    /// The error that no server gave a usable answer.
    pub fn unreachable(&self, doing: &str, said: &ServerErrors) -> EventsError {
        EventsError::Unreachable {
            url: self.settings.url.clone(),
            doing: doing.into(),
            said: said.text(),
        }
    }

    /// Notes whether replicas were waited for in vain.
    pub fn note_waited(&self, is_vain: bool) {
        *lock(&self.waited) = is_vain.then(Instant::now);
    }

    /// Whether that was of late, so that it will most likely be again.
    pub fn has_waited_in_vain(&self) -> bool {
        lock(&self.waited).is_some_and(|when| when.elapsed() < self.settings.failover)
    }

    /// Notes that servers were waited for in vain.
    pub fn give_up(&self, servers: impl IntoIterator<Item = Arc<Address>>) {
        let now = servers.into_iter().map(|server| (server, Instant::now()));
        lock(&self.given_up).extend(now);
    }

    /// Whether all of these were given up of late, and have not answered since.
    pub fn were_given_up(&self, servers: &BTreeSet<Arc<Address>>) -> bool {
        let given_up = lock(&self.given_up);
        let is_late = |when: &Instant| when.elapsed() < self.settings.failover;
        let was_given_up = |server| given_up.get(server).is_some_and(is_late);
        !servers.is_empty() && servers.iter().all(was_given_up)
    }

    /// Notes that servers answer.
    pub fn note_answered<'a>(&self, servers: impl IntoIterator<Item = &'a Arc<Address>>) {
        let mut given_up = lock(&self.given_up);
        if !given_up.is_empty() {
            servers.into_iter().for_each(|server| {
                given_up.remove(server);
            });
        }
    }

    /// Known owners of slots.
    pub fn topology(&self) -> Arc<Topology> {
        lock(&self.topology).clone()
    }

    fn learn(&self, found: Topology) {
        let mut topology = lock(&self.topology);
        let generation = topology.generation + 1;
        *topology = Arc::new(Topology {
            generation,
            ..found
        });
    }

    /// Asks a cluster again for its slots, unless this was done since; `suspect` servers last, the one that `knows`
    /// first.
    pub fn refresh(
        &self,
        seen: u64,
        knows: Option<&Address>,
        suspect: Option<&Address>,
        said: &mut ServerErrors,
    ) {
        let topology = self.topology();
        if !topology.is_cluster || topology.generation > seen {
            return;
        }
        let seeds = self.settings.seeds.iter().cloned().map(Arc::new);
        let mut all: Vec<_> = knows.cloned().map(Arc::new).into_iter().collect();
        let known = topology.masters.iter().chain(&topology.replicas);
        for place in known.cloned().chain(seeds) {
            if !all.contains(&place) {
                all.push(place);
            }
        }
        all.sort_by_key(|place| Some(&**place) == suspect);
        for place in all {
            if let Ok(Some(found)) = self.ask_for_slots(&place, ASKED, said) {
                // A server that is cut off from the others may know no slots.
                if found.is_cluster && !found.masters.is_empty() {
                    return self.learn(found);
                }
            }
        }
    }

    /// The answer of one server; none if it does not.
    fn ask_for_slots(
        &self,
        place: &Arc<Address>,
        patience: Duration,
        said: &mut ServerErrors,
    ) -> Result<Option<Topology>, EventsError> {
        let until = Instant::now() + patience;
        let asked = self.any_connection(place).and_then(|mut connection| {
            let found = connection.ask(&[b"CLUSTER", b"SLOTS"], until, |reply| match reply {
                Reply::Error(error) => Err(String::from_utf8_lossy(error).into_owned()),
                reply => Ok(Topology::of_slots(reply, place)),
            })?;
            self.give_back(place, connection);
            Ok(found)
        });
        let error = match asked {
            Ok(Ok(Some(found))) => return Ok(Some(found)),
            Ok(Ok(None)) => "CLUSTER SLOTS returned an invalid answer".to_owned(),
            Ok(Err(error)) if error.contains("cluster support disabled") => {
                return Ok(Some(Topology::single(Address::clone(place))));
            }
            Ok(Err(error)) | Err(RedisError::Refused(error)) => {
                return Err(refused(&self.settings.url, place, "connect", &error));
            }
            Err(RedisError::Broken(error)) => error,
            Err(RedisError::Quiet) => "no answer".into(),
        };
        said.note(place, error);
        Ok(None)
    }

    /// A connection to a server that still has its data; reuses an idle one.
    pub fn connection(&self, place: &Arc<Address>) -> Result<Connection, RedisError> {
        let mut connection = self.any_connection(place)?;
        if !connection.is_checked {
            connection.is_checked = self.check_has_data(place, &mut connection)?;
        }
        Ok(connection)
    }

    /// A connection to a server, whatever became of its data.
    pub(super) fn any_connection(&self, place: &Arc<Address>) -> Result<Connection, RedisError> {
        let idle = self.idle().by_address.get_mut(place).and_then(Vec::pop);
        match idle {
            Some(connection) => Ok(connection),
            None => {
                let mut connection = Connection::open(place, &self.settings, self.tls.as_ref())?;
                self.check_eviction(place, &mut connection)?;
                Ok(connection)
            }
        }
    }

    /// Keeps a connection for reuse.
    pub fn give_back(&self, place: &Arc<Address>, connection: Connection) {
        if !connection.is_idle() {
            return;
        }
        let mut idle = self.idle();
        let there = idle.by_address.entry(place.clone()).or_default();
        if there.len() < self.settings.connections {
            there.push(connection);
        }
    }

    /// Forgets the connections to a server, which have most likely ended as well when one has.
    pub fn forget(&self, place: &Address) {
        self.idle().by_address.remove(place);
    }

    fn idle(&self) -> Locked<'_, Idle> {
        let mut idle = lock(&self.idle);
        let process = Some(Process::this());
        if idle.process != process {
            *idle = Idle {
                process,
                ..Idle::default()
            };
        }
        idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_says_who_has_which_slot() {
        let bytes = b"*2\r\n*4\r\n:0\r\n:100\r\n*3\r\n$1\r\nb\r\n:7001\r\n$2\r\nid\r\n*3\r\n$1\r\nb\r\n:7004\r\n$2\r\nid\r\n\
            *3\r\n:101\r\n:16383\r\n*4\r\n$-1\r\n:7000\r\n$2\r\nid\r\n*0\r\n";
        let asked = Address::parse("a:1").unwrap();
        let topology = Topology::of_slots(Reply::of(bytes).unwrap(), &asked).unwrap();
        let masters: Vec<_> = topology.masters.iter().map(|at| at.to_string()).collect();
        assert_eq!(masters, ["a:7000", "b:7001"]);
        assert_eq!(topology.replicas.len(), 1);
        let targets = [0, 100, 101, 16383, 16384].map(|slot| topology.target(slot));
        assert_eq!(targets, [Some(1), Some(1), Some(0), Some(0), None]);
        for bad in [
            b"*1\r\n*1\r\n:0\r\n".as_slice(),
            b"*1\r\n*3\r\n:0\r\n:99999\r\n*2\r\n$1\r\nb\r\n:7001\r\n",
            b":1\r\n",
        ] {
            assert!(Topology::of_slots(Reply::of(bad).unwrap(), &asked).is_none());
        }
    }
}
