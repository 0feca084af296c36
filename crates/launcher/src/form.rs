//! Creates a cluster of servers, and starts it again.

use std::fs::{self, DirBuilder};
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;
use std::thread;
use std::time::{Duration, Instant};

use super::node::{Node, PATIENCE};
use super::{Folder, LocalOptions};
use femtobarn_events::EventsError;
use femtobarn_redis::N_SLOTS;

/// The default number of servers with products, and of replicas of each.
const NODES: usize = 3;
const REPLICAS: usize = 0;
const PAUSE: Duration = Duration::from_millis(100);
/// Number of slots.
pub const SLOTS: usize = N_SLOTS as usize;
/// The range in which ports are searched. It is below the ports that the system assigns to outgoing connections, so that
/// the ports are free when the servers are started again.
const PORTS: (u16, u16) = (20_000, 32_000);
/// Number of attempts, as another program may take a port first.
const TRIES: usize = 5;

/// Creates a cluster in an empty directory.
pub fn create(folder: &Folder, options: &LocalOptions) -> Result<Vec<Node>, EventsError> {
    folder.write_password()?;
    let (masters, replicas) = (
        options.nodes.unwrap_or(NODES),
        options.replicas.unwrap_or(REPLICAS),
    );
    let n = masters * (1 + replicas);
    let mut nodes = Vec::with_capacity(n);
    let made = (0..n)
        .try_for_each(|at| {
            nodes.push(start_new(folder, at, options)?);
            Ok(())
        })
        .and_then(|()| join(folder, &nodes, masters))
        .and_then(|()| folder.write_config(&nodes, replicas));
    if let Err(error) = made {
        // remove everything if no cluster was formed
        for node in &nodes {
            let _ = node.end();
        }
        for at in 0..n {
            let _ = fs::remove_dir_all(folder.node(at));
        }
        return Err(error);
    }
    Ok(nodes)
}

/// Starts a server, and tries other ports if another program has taken those that were found.
fn start_new(folder: &Folder, at: usize, options: &LocalOptions) -> Result<Node, EventsError> {
    let path = folder.node(at);
    let mut tries = 0;
    loop {
        tries += 1;
        // leftovers of a process that was killed
        let _ = fs::remove_dir_all(&path);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| folder.failed("create a directory", error.to_string()))?;
        let node = Node::new(path.clone(), ports(folder)?, &folder.password())?;
        folder.write(&format!("node-{at}/redis.conf"), &node.config(options))?;
        match node.start(options.program.as_deref()) {
            Err(error) if tries == TRIES || !is_taken(&error) => return Err(error),
            Err(_) => {}
            Ok(()) => return Ok(node),
        }
    }
}

fn is_taken(error: &EventsError) -> bool {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    cause.is_some_and(|cause| cause.contains("Address already in use"))
}

/// Two free ports.
fn ports(folder: &Folder) -> Result<(u16, u16), EventsError> {
    let (low, high) = PORTS;
    let mut found = Vec::new();
    for _ in 0..1000 {
        let mut bytes = [0; 2];
        getrandom::fill(&mut bytes)
            .map_err(|error| folder.failed("select a port", error.to_string()))?;
        let port = low + u16::from_le_bytes(bytes) % (high - low);
        found.extend(
            TcpListener::bind(("127.0.0.1", port))
                .ok()
                .map(|held| (port, held)),
        );
        if let [(port, _), (bus, _)] = found.as_slice() {
            return Ok((*port, *bus));
        }
    }
    Err(folder.failed(
        "find a port",
        format!("no port from {low} to {high} is free"),
    ))
}

/// Connects the servers, and assigns slots or a master to each.
fn join(folder: &Folder, nodes: &[Node], n_masters: usize) -> Result<(), EventsError> {
    let (masters, replicas) = nodes.split_at(n_masters.min(nodes.len()));
    let mut ids = Vec::with_capacity(masters.len());
    for (at, master) in masters.iter().enumerate() {
        let first = at * SLOTS / masters.len();
        let last = (at + 1) * SLOTS / masters.len() - 1;
        let [first, last] = [first, last].map(|slot| slot.to_string());
        master.tell(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
        ids.push(master.tell(&["CLUSTER", "MYID"])?);
    }
    for (at, node) in nodes.iter().enumerate() {
        // so that they need not negotiate their epochs
        node.tell(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()])?;
    }
    if let Some((first, others)) = nodes.split_first() {
        for other in others {
            let [port, bus] = [other.address.port, other.bus].map(|port| port.to_string());
            first.tell(&["CLUSTER", "MEET", &other.address.host, &port, &bus])?;
        }
    }
    wait(folder, "connect the servers", || {
        nodes.iter().all(|node| {
            let known = node.ask(&["CLUSTER", "NODES"]).unwrap_or_default();
            let met = known.lines().filter(|line| !line.contains("handshake"));
            met.count() == nodes.len()
        })
    })?;
    for (at, replica) in replicas.iter().enumerate() {
        let id = ids
            .get(at % masters.len().max(1))
            .map_or("", String::as_str);
        replica.tell(&["CLUSTER", "REPLICATE", id])?;
    }
    wait_until_ready(folder, nodes)
}

/// Starts the servers that do not run.
pub fn start_again(
    folder: &Folder,
    nodes: &[Node],
    options: &LocalOptions,
) -> Result<(), EventsError> {
    for node in nodes {
        if node.ask(&["PING"]).is_err() {
            node.start(options.program.as_deref())?;
        }
    }
    wait_until_ready(folder, nodes)
}

fn wait_until_ready(folder: &Folder, nodes: &[Node]) -> Result<(), EventsError> {
    wait(folder, "form the cluster", || {
        nodes.iter().all(Node::is_ready)
    })
}

fn wait(folder: &Folder, doing: &str, is_done: impl Fn() -> bool) -> Result<(), EventsError> {
    let until = Instant::now() + PATIENCE;
    while !is_done() {
        if Instant::now() > until {
            let why = "the servers did not finish in time: see their logs in the directory".into();
            return Err(folder.failed(doing, why));
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}
