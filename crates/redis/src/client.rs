//! The servers: which server has which slot, and idle connections to them.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use femtobarn_fork::{Locked, Process, lock};
use rustls::ClientConfig;

use crate::topology::Topology;
use crate::{Address, Connection, ConnectionError, Guard, Options, RedisError, Reply, tls};

/// Time limit for a server to answer which server has which slot, if there are others to ask.
const ASKED: Duration = Duration::from_secs(2);

/// A client of one server, or of the servers of a cluster.
///
/// It can be used by any number of threads, and in forked processes, which open their own connections.
pub struct Client {
    options: Options,
    guard: Arc<dyn Guard>,
    tls: Option<Arc<ClientConfig>>,
    topology: Mutex<Arc<Topology>>,
    idle: Mutex<Idle>,
    /// When waiting for replicas failed last.
    waited: Mutex<Option<Instant>>,
    /// When servers that did not answer were given up last.
    given_up: Mutex<HashMap<Arc<Address>, Instant>>,
}

#[derive(Default)]
struct Idle {
    /// The process that opened the connections. A forked process must not use them.
    process: Option<Process>,
    by_address: HashMap<Arc<Address>, Vec<Connection>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Errors of servers, for messages: `127.0.0.1:7000: connection refused`.
#[derive(Debug, Default)]
pub(crate) struct ServerErrors(Vec<(Address, String)>);

impl ServerErrors {
    /// Records the error of a server; the last one counts.
    pub fn note(&mut self, address: &Address, said: String) {
        self.0.retain(|(at, _)| at != address);
        self.0.push((address.clone(), said));
    }

    pub fn text(&self) -> String {
        let all = self.0.iter();
        let all: Vec<_> = all.map(|(at, said)| format!("{at}: {said}")).collect();
        match all.is_empty() {
            true => "no server knows which server has these keys".into(),
            false => all.join("; "),
        }
    }
}

impl Client {
    /// Connects to the first of the options' servers that answers, and asks whether there is a cluster.
    ///
    /// # Errors
    ///
    /// If the TLS files cannot be used, no server answers, or a server refuses.
    pub fn connect(options: Options, guard: Arc<dyn Guard>) -> Result<Self, RedisError> {
        let tls = match options.has_tls {
            true => Some(tls::config(&options).map_err(|why| RedisError::Tls {
                url: options.url.clone(),
                why,
            })?),
            false => None,
        };
        let first = options.seeds.first().cloned();
        let nowhere = Address {
            host: String::new(),
            port: 0,
        };
        let client = Self {
            tls,
            topology: Mutex::new(Arc::new(Topology::single(first.unwrap_or(nowhere)))),
            idle: Mutex::default(),
            waited: Mutex::default(),
            given_up: Mutex::default(),
            guard,
            options,
        };
        let mut said = ServerErrors::default();
        let seeds = client.options.seeds.clone();
        for seed in seeds {
            let patience = client.options.connect_timeout;
            if let Some(found) = client.ask_for_slots(&Arc::new(seed), patience, &mut said)? {
                client.learn(found);
                return Ok(client);
            }
        }
        Err(client.unreachable("connect", &said))
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn guard(&self) -> &dyn Guard {
        &*self.guard
    }

    /// The error that a server refused a command.
    pub(crate) fn refused(&self, node: &Address, doing: &str, said: String) -> RedisError {
        RedisError::Refused {
            url: self.options.url.clone(),
            node: node.clone(),
            doing: doing.into(),
            said,
        }
    }

    /// The error that no server answered as required.
    pub(crate) fn unreachable(&self, doing: &str, said: &ServerErrors) -> RedisError {
        RedisError::Unreachable {
            url: self.options.url.clone(),
            doing: doing.into(),
            said: said.text(),
        }
    }

    /// Records whether waiting for replicas failed.
    pub(crate) fn note_waited(&self, is_vain: bool) {
        *lock(&self.waited) = is_vain.then(Instant::now);
    }

    /// Whether that was recently, so that it will probably fail again.
    pub(crate) fn has_waited_in_vain(&self) -> bool {
        lock(&self.waited).is_some_and(|when| when.elapsed() < self.options.failover)
    }

    /// Records that servers were given up.
    pub(crate) fn give_up(&self, servers: impl IntoIterator<Item = Arc<Address>>) {
        let now = servers.into_iter().map(|server| (server, Instant::now()));
        lock(&self.given_up).extend(now);
    }

    /// Whether all of these were given up recently, and have not answered since.
    pub(crate) fn were_given_up(&self, servers: &BTreeSet<Arc<Address>>) -> bool {
        let given_up = lock(&self.given_up);
        let is_late = |when: &Instant| when.elapsed() < self.options.failover;
        let was_given_up = |server| given_up.get(server).is_some_and(is_late);
        !servers.is_empty() && servers.iter().all(was_given_up)
    }

    /// Records that servers answered.
    pub(crate) fn note_answered<'a>(&self, servers: impl IntoIterator<Item = &'a Arc<Address>>) {
        let mut given_up = lock(&self.given_up);
        if !given_up.is_empty() {
            servers.into_iter().for_each(|server| {
                given_up.remove(server);
            });
        }
    }

    /// Which server has which slot, as far as is known.
    pub fn topology(&self) -> Arc<Topology> {
        lock(&self.topology).clone()
    }

    fn learn(&self, mut found: Topology) {
        let mut topology = lock(&self.topology);
        found.generation = topology.generation + 1;
        *topology = Arc::new(found);
    }

    /// Asks the cluster again which server has which slot, unless another caller has just done so. The server `suspect`
    /// is asked last, the server `knows` first.
    pub(crate) fn refresh(
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
        let seeds = self.options.seeds.iter().cloned().map(Arc::new);
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
                // a server that is cut off from the others may not know any masters
                if found.is_cluster && !found.masters.is_empty() {
                    return self.learn(found);
                }
            }
        }
    }

    /// Asks one server; none if it does not answer.
    fn ask_for_slots(
        &self,
        place: &Arc<Address>,
        patience: Duration,
        said: &mut ServerErrors,
    ) -> Result<Option<Topology>, RedisError> {
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
            Ok(Err(error)) | Err(ConnectionError::Refused(error)) => {
                return Err(self.refused(place, "connect", error));
            }
            Err(error) => error.to_string(),
        };
        said.note(place, error);
        Ok(None)
    }

    /// A connection that the guard has checked; an idle one if available.
    pub(crate) fn connection(&self, place: &Arc<Address>) -> Result<Connection, ConnectionError> {
        let mut connection = self.any_connection(place)?;
        if !connection.is_checked {
            let until = Instant::now() + self.options.connect_timeout;
            connection.is_checked = self.guard.checked(place, &mut connection, until)?;
        }
        Ok(connection)
    }

    /// A connection to a server, without the guard's check.
    pub(crate) fn any_connection(
        &self,
        place: &Arc<Address>,
    ) -> Result<Connection, ConnectionError> {
        let idle = self.idle().by_address.get_mut(place).and_then(Vec::pop);
        match idle {
            Some(connection) => Ok(connection),
            None => {
                let tls = self.tls.as_ref();
                let mut connection = Connection::open_with(place, &self.options, tls)?;
                let until = Instant::now() + self.options.connect_timeout;
                self.guard.opened(place, &mut connection, until)?;
                Ok(connection)
            }
        }
    }

    /// Keeps an idle connection for later use.
    pub(crate) fn give_back(&self, place: &Arc<Address>, connection: Connection) {
        if !connection.is_idle() {
            return;
        }
        let mut idle = self.idle();
        let there = idle.by_address.entry(place.clone()).or_default();
        if there.len() < self.options.connections {
            there.push(connection);
        }
    }

    /// Closes the idle connections to a server. If one connection has broken, the others probably have, too.
    pub(crate) fn forget(&self, place: &Address) {
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
