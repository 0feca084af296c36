//! A cluster of Redis servers on this machine, in a folder: for laptops, tests, and one node of a batch system.
//!
//! In the folder: `store.json`, which [`connect`](femtobarn_events::connect) takes; `password`, which only its owner may read, as
//! other users of the machine can reach its ports; and a folder for each server, `node-0` and so on, with its settings,
//! its log and its data. Servers go on when the program that started them has ended, keep their data when they are
//! started again, and find each other by what they have noted of each other (`nodes.conf`).

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

/// What a cluster is to be like. What is not said is as the folder has it; of a new one, as is said here.
#[derive(Clone, Debug, Default)]
pub struct LocalOptions {
    /// How many servers have products: 3.
    pub nodes: Option<usize>,
    /// How many copies each of these has: none.
    pub replicas: Option<usize>,
    /// Bytes that each server may use: as many as it likes.
    pub memory: Option<u64>,
    /// When a server has its log written to the disk: `always`, `everysec` or `no`: each second.
    pub fsync: Option<String>,
    /// The program of the servers, or Valkey's: `redis-server`.
    pub program: Option<PathBuf>,
}

/// How many servers of a cluster have products, and how many copies each of these has.
type Shape = (usize, usize);

/// What a local cluster is like.
#[derive(Debug)]
pub struct LocalStatus {
    /// The configuration that connects to it.
    pub config: PathBuf,
    /// Whether all servers answer, also those that were added to the ones in the folder, and serve all slots.
    pub is_up: bool,
    /// Whether all slots are served, although servers may be missing that others have taken the place of.
    pub is_served: bool,
    /// Its servers.
    pub nodes: Vec<LocalNode>,
}

/// A folder with a cluster in it, which nobody else starts or ends meanwhile.
struct Folder {
    path: PathBuf,
    shown: String,
    _lock: File,
}

/// Starts the servers in a folder that do not run; makes the cluster if there is none.
///
/// # Errors
///
/// If the folder holds something else, a server does not start, or they do not find each other.
pub fn up(path: &Path, options: &LocalOptions) -> Result<LocalStatus, EventsError> {
    if options.nodes == Some(0) {
        return Err(EventsError::Usage {
            what: "a store has one server at least".into(),
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

/// Ends the servers in a folder, when all of their logs are on the disk; gives how many have run.
///
/// # Errors
///
/// If there is no cluster, or one does not end.
pub fn down(path: &Path) -> Result<usize, EventsError> {
    let folder = Folder::open(path)?;
    let mut running: Vec<_> = Vec::new();
    for node in folder.nodes()? {
        match (node.look(), node.process()) {
            (Some(found), _) => running.push((found.role, node)),
            (None, Some(process)) => {
                let why = format!("process {process} runs and does not answer: end it yourself");
                return Err(folder.failed(&format!("end the server {}", node.address), why));
            }
            (None, None) => {}
        }
    }
    // Replicas first: else they would take the place of masters that end.
    running.sort_by_key(|(role, _)| *role != Some(Role::Replica));
    for (_, node) in &running {
        node.end()?;
    }
    Ok(running.len())
}

/// What the servers in a folder do.
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
            |error| EventsError::engine(&path.display().to_string(), "make the folder", error);
        if path.is_file() {
            return Err(EventsError::Usage {
                what: format!(
                    "{}: this is a file, and a cluster has a folder of its own",
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
                expected: "an empty folder, or one with a local cluster".into(),
                found: "something else".into(),
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
        let failed = |error: std::io::Error| EventsError::engine(&shown, "lock it", error);
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

    /// The servers that the folder has.
    fn nodes(&self) -> Result<Vec<Node>, EventsError> {
        // Written last: without it, nothing has become of what was begun.
        if !self.config().exists() {
            return Ok(Vec::new());
        }
        let places = (0..).map(|n| self.node(n)).take_while(|path| path.exists());
        places
            .map(|path| Node::read(path, &self.password()))
            .collect()
    }

    /// Fails if servers are to be otherwise than the folder has them.
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
                "--nodes {masters} --replicas {replicas}, and not {} and {}",
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
                differing.push(format!("{option} {found}, and not {said}"));
            }
        }
        match differing.is_empty() {
            true => Ok(()),
            false => Err(EventsError::Usage {
                what: format!(
                    "{} has a cluster that was made with {}: leave that away to start it as it is, or make one in another \
                     folder",
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
        // What servers say of others is some seconds old: each is asked for its own.
        let owners: Vec<_> = answering()
            .map(|(node, _)| (node, node.slots()))
            .filter(|(_, slots)| !slots.is_empty())
            .collect();
        let served: BTreeSet<_> = owners.iter().flat_map(|(_, slots)| slots).collect();
        // One that was just added, and has no slots yet, need not know the others.
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

    /// The servers that were added to the cluster and are not in the folder, as those in it know them.
    fn others(&self, nodes: &[Node]) -> Result<Vec<Node>, EventsError> {
        let mut known: BTreeSet<_> = nodes.iter().flat_map(Node::known).collect();
        known.retain(|(address, _)| nodes.iter().all(|node| node.address != *address));
        let place = |place| Node::at(self.path.clone(), place, &self.password());
        known.into_iter().map(place).collect()
    }

    /// Notes how to connect. What was acknowledged is to be there whichever server ends, where there are replicas.
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
        let draw =
            || Uuid::random().map_err(|error| self.failed("draw a password", error.to_string()));
        self.write("password", &format!("{}{}\n", draw()?, draw()?))
    }

    /// Writes a file that only its owner may read.
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
