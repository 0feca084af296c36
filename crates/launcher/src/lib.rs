//! A cluster of Redis servers on this machine, in a directory: for laptops, tests, and one node of a batch system.
//!
//! The directory has the file `store.json`, which [`connect`](femtobarn_events::connect) accepts; the file `password`,
//! which only its owner can read, as other users of the machine can connect to the ports; and a directory for each server
//! (`node-0` and so on) with its settings, log and data. Servers continue to run after the program that started them has
//! ended, keep their data when they are started again, and find each other by their own records (`nodes.conf`).

mod form;
mod node;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde_json::json;

use femtobarn_events::{EventsError, Uuid};
use node::Node;
pub use node::{LocalNode, Role};

/// Options of a cluster. Options that are not given have the values of the existing cluster, or for a new cluster the
/// defaults given here.
#[derive(Clone, Debug, Default)]
pub struct LocalOptions {
    /// Number of servers with products; 3 by default.
    pub nodes: Option<usize>,
    /// Number of replicas of each server; 0 by default.
    pub replicas: Option<usize>,
    /// Memory limit of each server in bytes; no limit by default.
    pub memory: Option<u64>,
    /// When servers write their logs to disk: `always`, `everysec` (default) or `no`.
    pub fsync: Option<String>,
    /// The server program, Redis or Valkey; `redis-server` by default.
    pub program: Option<PathBuf>,
}

/// Number of servers with products, and number of replicas of each.
type Shape = (usize, usize);

/// The status of a local cluster.
#[derive(Debug)]
pub struct LocalStatus {
    /// The configuration file to connect with.
    pub config: PathBuf,
    /// Whether all servers answer, including servers that were added from outside the directory, and all slots are
    /// served.
    pub is_up: bool,
    /// Whether all slots are served. Servers that were replaced by others may be missing.
    pub is_served: bool,
    /// The servers.
    pub nodes: Vec<LocalNode>,
}

/// The directory of a cluster, locked against other processes that start or stop servers.
struct Folder {
    path: PathBuf,
    shown: String,
    _lock: File,
}

/// Starts the servers of a directory that do not run; creates the cluster if there is none.
///
/// # Errors
///
/// If the directory has other content, a server does not start, or the servers cannot connect to each other.
pub fn up(path: &Path, options: &LocalOptions) -> Result<LocalStatus, EventsError> {
    if options.nodes == Some(0) {
        return Err(EventsError::Usage {
            what: "a store needs at least one server".into(),
        });
    }
    let folder = Folder::make(path)?;
    let nodes = match folder.nodes()? {
        nodes if nodes.is_empty() => form::create(&folder, options)?,
        nodes => {
            folder.check(&nodes, options)?;
            form::start_again(&folder, &nodes, options)?;
            nodes
        }
    };
    folder.status(&nodes)
}

/// Stops the servers of a directory after their logs were written to disk; returns how many were running.
///
/// # Errors
///
/// If there is no cluster, or a server does not stop.
pub fn down(path: &Path) -> Result<usize, EventsError> {
    let folder = Folder::open(path)?;
    let mut running: Vec<_> = Vec::new();
    for node in folder.nodes()? {
        match (node.look(), node.process()) {
            (Some(found), _) => running.push((found.role, node)),
            (None, Some(process)) => {
                let why =
                    format!("process {process} is running but does not answer: stop it manually");
                return Err(folder.failed(&format!("stop the server {}", node.address), why));
            }
            (None, None) => {}
        }
    }
    // stop replicas first: otherwise they would replace stopped masters
    running.sort_by_key(|(role, _)| *role != Some(Role::Replica));
    for (_, node) in &running {
        node.end()?;
    }
    Ok(running.len())
}

/// Returns the status of the servers of a directory.
///
/// # Errors
///
/// If there is no cluster.
pub fn status(path: &Path) -> Result<LocalStatus, EventsError> {
    let folder = Folder::open(path)?;
    folder.status(&folder.nodes()?)
}

impl Folder {
    fn make(path: &Path) -> Result<Self, EventsError> {
        let failed =
            |error| EventsError::engine(&path.display().to_string(), "create the directory", error);
        if path.is_file() {
            return Err(EventsError::Usage {
                what: format!(
                    "{} is a file: a cluster needs its own directory",
                    path.display()
                ),
            });
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(failed)?;
        let is_new = !path.join("lock").exists();
        if is_new && fs::read_dir(path).map_err(failed)?.next().is_some() {
            return Err(EventsError::Layout {
                url: path.display().to_string(),
                expected: "an empty directory, or one with a local cluster".into(),
                found: "other files".into(),
            });
        }
        Self::lock(path)
    }

    fn open(path: &Path) -> Result<Self, EventsError> {
        match path.join("lock").exists() {
            true => Self::lock(path),
            false => Err(EventsError::NotFound {
                url: path.display().to_string(),
                what: "local cluster".into(),
                hint: String::new(),
            }),
        }
    }

    fn lock(path: &Path) -> Result<Self, EventsError> {
        let shown = path.display().to_string();
        let failed =
            |error: std::io::Error| EventsError::engine(&shown, "lock the directory", error);
        let path = path.canonicalize().map_err(failed)?;
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(path.join("lock")).map_err(failed)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        Ok(Self {
            path,
            shown,
            _lock: lock,
        })
    }

    /// The servers of the directory.
    fn nodes(&self) -> Result<Vec<Node>, EventsError> {
        // store.json is written last: without it, no cluster was completed
        if !self.config().exists() {
            return Ok(Vec::new());
        }
        let places = (0..).map(|n| self.node(n)).take_while(|path| path.exists());
        places
            .map(|path| Node::read(path, &self.password()))
            .collect()
    }

    /// Fails if the options differ from those of the existing cluster.
    fn check(&self, nodes: &[Node], options: &LocalOptions) -> Result<(), EventsError> {
        let Some(first) = nodes.first() else {
            return Ok(());
        };
        let (masters, replicas) = first.shape(nodes.len());
        let wanted = (
            options.nodes.unwrap_or(masters),
            options.replicas.unwrap_or(replicas),
        );
        let memory = options.memory.map(|bytes| bytes.to_string());
        let mut differing = Vec::new();
        if wanted != (masters, replicas) {
            differing.push(format!(
                "--nodes {masters} --replicas {replicas}, not {} and {}",
                wanted.0, wanted.1
            ));
        }
        for (name, option, said) in [
            ("maxmemory", "--memory", &memory),
            ("appendfsync", "--fsync", &options.fsync),
        ] {
            let found = first.setting(name);
            if let (Some(found), Some(said)) = (found, said)
                && found != *said
            {
                differing.push(format!("{option} {found}, not {said}"));
            }
        }
        match differing.is_empty() {
            true => Ok(()),
            false => Err(EventsError::Usage {
                what: format!(
                    "{} has a cluster that was created with {}: omit these options to start it as it is, or use another \
                     directory",
                    self.shown,
                    differing.join(", ")
                ),
            }),
        }
    }

    fn node(&self, n: usize) -> PathBuf {
        self.path.join(format!("node-{n}"))
    }

    fn config(&self) -> PathBuf {
        self.path.join("store.json")
    }

    fn password(&self) -> PathBuf {
        self.path.join("password")
    }

    fn status(&self, nodes: &[Node]) -> Result<LocalStatus, EventsError> {
        if nodes.is_empty() {
            return Err(EventsError::NotFound {
                url: self.shown.clone(),
                what: "local cluster".into(),
                hint: String::new(),
            });
        }
        let others = self.others(nodes)?;
        let nodes = nodes.iter().chain(&others);
        let found: Vec<_> = nodes.map(|node| (node, node.look())).collect();
        let answering = || found.iter().filter(|(_, found)| found.is_some());
        // what servers report about others is some seconds old, so each is asked about itself
        let owners: Vec<_> = answering()
            .map(|(node, _)| (node, node.slots()))
            .filter(|(_, slots)| !slots.is_empty())
            .collect();
        let served: BTreeSet<_> = owners.iter().flat_map(|(_, slots)| slots).collect();
        // a server that was just added and has no slots yet may not know the others
        let is_served =
            served.len() == form::SLOTS && owners.iter().all(|(node, _)| node.has_all_slots());
        Ok(LocalStatus {
            config: self.config(),
            is_up: is_served && answering().count() == found.len(),
            is_served,
            nodes: found
                .into_iter()
                .map(|(node, found)| found.unwrap_or_else(|| node.unheard()))
                .collect(),
        })
    }

    /// Servers of the cluster that are not in the directory, as reported by those in it.
    fn others(&self, nodes: &[Node]) -> Result<Vec<Node>, EventsError> {
        let mut known: BTreeSet<_> = nodes.iter().flat_map(Node::known).collect();
        known.retain(|(address, _)| nodes.iter().all(|node| node.address != *address));
        let place = |place| Node::at(self.path.clone(), place, &self.password());
        known.into_iter().map(place).collect()
    }

    /// Writes the configuration file. If there are replicas, acknowledged data survive the loss of any server.
    fn write_config(&self, nodes: &[Node], replicas: usize) -> Result<(), EventsError> {
        let addresses: Vec<_> = nodes.iter().map(|node| node.address.to_string()).collect();
        let mut config = json!({"nodes": addresses, "password_file": "password"});
        if let (Some(config), true) = (config.as_object_mut(), replicas > 0) {
            let concern = format!("replicas:{replicas}");
            config.insert("write_concern".into(), concern.into());
        }
        self.write("store.json", &format!("{config:#}\n"))
    }

    fn write_password(&self) -> Result<(), EventsError> {
        let draw = || {
            Uuid::random().map_err(|error| self.failed("generate a password", error.to_string()))
        };
        self.write("password", &format!("{}{}\n", draw()?, draw()?))
    }

    /// Writes a file that only its owner can read.
    fn write(&self, name: &str, text: &str) -> Result<(), EventsError> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        options
            .open(self.path.join(name))
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| self.failed(&format!("write {name}"), error.to_string()))
    }

    fn failed(&self, doing: &str, why: String) -> EventsError {
        EventsError::engine(&self.shown, doing, why)
    }
}
