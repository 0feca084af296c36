//! Commands on their way: to all servers in parallel, a limited number at a time, and again if a server redirects.
//!
//! Every command here may be done twice. It has one key, so that slots may move while it is on its way: while a slot
//! moves, the owner is known per key, not per slot.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::connection::{Connection, RedisError};
use super::failure::{is_too_large, refused};
use super::nodes::{Nodes, ServerErrors};
use super::pipeline::{Again, Pipeline, Task, words};
use super::resp::{Commands, Reply, packed};
use super::settings::Address;
use crate::EventsError;

/// How long a server may be quiet until the others are asked whether it is still one of them.
const SUSPECT: Duration = Duration::from_millis(1500);
/// Time to wait for replicas before a notice.
const SOON: Duration = Duration::from_secs(1);
/// How long to wait until a command is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(300);

/// Is given each reply, with the number of its command.
pub type Answered<'a> = dyn FnMut(usize, Reply<'_>) -> Result<(), EventsError> + 'a;

/// Connections that are used for one thing after another.
pub struct Flow<'a> {
    nodes: &'a Nodes,
    held: HashMap<Arc<Address>, Connection>,
    /// Servers that have executed a command, not only redirected it.
    used: HashSet<Arc<Address>>,
    /// Whether a connection has broken: data acknowledged on a failed connection may be lost with the server.
    pub has_lost: bool,
    /// Whether commands were sent again that may already have been executed.
    pub has_repeated: bool,
    /// Servers with too few replicas at the last check.
    pub lacking: Vec<Arc<Address>>,
}

impl<'a> Flow<'a> {
    pub fn new(nodes: &'a Nodes) -> Self {
        Self {
            nodes,
            held: HashMap::new(),
            used: HashSet::new(),
            has_lost: false,
            has_repeated: false,
            lacking: Vec::new(),
        }
    }

    /// Sends commands and takes their replies, in any order; each is answered once. With `in_order`, of two with one key
    /// the later is done last.
    ///
    /// # Errors
    ///
    /// The refusal of a server, or an error if no server answers in time.
    pub fn run(
        &mut self,
        doing: &str,
        orders: &Commands,
        in_order: bool,
        answered: &mut Answered<'_>,
    ) -> Result<(), EventsError> {
        let done = self.run_all(doing, orders, in_order, answered);
        done.map_err(|error| self.nodes.say_how_full(error))
    }

    fn run_all(
        &mut self,
        doing: &str,
        orders: &Commands,
        in_order: bool,
        answered: &mut Answered<'_>,
    ) -> Result<(), EventsError> {
        let mut pending: Vec<_> = (0..orders.len()).map(|at| Task { at, ask: None }).collect();
        let mut progress = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut said = ServerErrors::default();
        while !pending.is_empty() {
            let n = pending.len();
            let seen = self.nodes.topology().generation;
            let mut again = self.round(doing, orders, pending, answered, &mut said)?;
            if in_order {
                let used = self.used.iter();
                used.for_each(|at| self.nodes.known.note_written(at));
            }
            if again.tasks.is_empty() {
                break;
            }
            if in_order {
                again.tasks = with_later(again.tasks, orders);
                self.has_repeated = true;
            }
            if again.tasks.len() < n {
                (progress, pause) = (Instant::now(), FIRST_PAUSE);
            } else if progress.elapsed() > self.patience(&again.tasks, orders) {
                self.nodes.give_up(self.masters(&again.tasks, orders));
                return Err(self.nodes.unreachable(doing, &said));
            }
            if again.must_wait {
                thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            if again.must_refresh {
                let (knows, suspect) = (again.knows.as_ref(), again.suspect.as_ref());
                self.nodes.refresh(seen, knows, suspect, &mut said);
            }
            again.tasks.sort_by_key(|task| task.at);
            pending = again.tasks;
        }
        self.nodes.note_answered(self.held.keys());
        Ok(())
    }

    /// For how long no command that is left needs to be answered, until all are given up: not long again if all are for
    /// servers that were given up of late.
    fn patience(&self, left: &[Task], orders: &Commands) -> Duration {
        let failover = self.nodes.settings.failover;
        match self.nodes.were_given_up(&self.masters(left, orders)) {
            true => failover.min(SOON),
            false => failover,
        }
    }

    /// The servers that have the keys of some commands, as far as is known.
    fn masters(&self, tasks: &[Task], orders: &Commands) -> BTreeSet<Arc<Address>> {
        let topology = self.nodes.topology();
        let slots = tasks.iter().filter_map(|task| orders.get(task.at));
        let masters = slots.filter_map(|order| topology.master(order.slot));
        masters.cloned().collect()
    }

    /// Sends all that is pending once; returns the commands to send again.
    fn round(
        &mut self,
        doing: &str,
        orders: &Commands,
        pending: Vec<Task>,
        answered: &mut Answered<'_>,
        said: &mut ServerErrors,
    ) -> Result<Again, EventsError> {
        let mut again = Again::default();
        let mut lanes = self.lanes(doing, orders, pending, &mut again, said)?;
        while !lanes.is_empty() {
            let mut next = Vec::with_capacity(lanes.len());
            for mut lane in lanes {
                let filled = lane.fill(orders);
                match self.settle(filled, &mut lane, orders) {
                    Ok(()) => next.push(lane),
                    Err(why) if is_too_large(&why) => {
                        return Err(refused(
                            &self.nodes.settings.url,
                            &lane.address,
                            doing,
                            &why,
                        ));
                    }
                    Err(why) => self.end(lane, why, &mut again, said),
                }
            }
            lanes = Vec::with_capacity(next.len());
            for mut lane in next {
                let url = &self.nodes.settings.url;
                let moved = lane.drain(orders, &mut again, said, answered, &|address, error| {
                    refused(url, address, doing, error)
                })?;
                if lane.has_done {
                    self.used.insert(lane.address.clone());
                }
                match self.settle(moved, &mut lane, orders) {
                    Ok(()) if lane.is_done() => {
                        self.held.insert(lane.address, lane.connection);
                    }
                    Ok(()) => lanes.push(lane),
                    Err(why) => self.end(lane, why, &mut again, said),
                }
            }
        }
        Ok(again)
    }

    /// Groups commands by the servers that they go to.
    fn lanes(
        &mut self,
        doing: &str,
        orders: &Commands,
        pending: Vec<Task>,
        again: &mut Again,
        said: &mut ServerErrors,
    ) -> Result<Vec<Pipeline>, EventsError> {
        let topology = self.nodes.topology();
        let mut queues: BTreeMap<Arc<Address>, VecDeque<Task>> = BTreeMap::new();
        for task in pending {
            let slot = orders.get(task.at).map(|order| order.slot);
            let master = slot.and_then(|slot| topology.master(slot));
            match task.ask.as_ref().or(master) {
                Some(address) => match queues.get_mut(address) {
                    Some(queue) => queue.push_back(task),
                    None => {
                        queues.insert(address.clone(), VecDeque::from([task]));
                    }
                },
                None => {
                    again.tasks.push(task);
                    (again.must_wait, again.must_refresh) = (true, true);
                }
            }
        }
        let mut lanes = Vec::with_capacity(queues.len());
        for (address, queue) in queues {
            let held = self.held.remove(&address);
            let connection = held.map_or_else(|| self.nodes.connection(&address), Ok);
            match connection {
                Ok(connection) => lanes.push(Pipeline::new(address, connection, queue)),
                Err(RedisError::Refused(error)) => {
                    return Err(refused(&self.nodes.settings.url, &address, doing, &error));
                }
                Err(trouble) => {
                    again.broken(&address, queue);
                    said.note(&address, words(trouble));
                }
            }
        }
        Ok(lanes)
    }

    /// Whether a lane may continue; else why not.
    fn settle(
        &self,
        result: Result<(), RedisError>,
        lane: &mut Pipeline,
        orders: &Commands,
    ) -> Result<(), String> {
        match result {
            Ok(()) => Ok(()),
            Err(RedisError::Quiet) => {
                let timeout = self.nodes.settings.timeout;
                if lane.moved().elapsed() > timeout {
                    let seconds = timeout.as_secs_f64();
                    return Err(format!("no answer for {seconds} s"));
                }
                if lane.looked.elapsed() < SUSPECT {
                    return Ok(());
                }
                lane.looked = Instant::now();
                match self.is_replaced(&lane.address, |topology| {
                    lane.tasks().all(|task| {
                        let slot = orders.get(task.at).map(|order| order.slot);
                        slot.and_then(|slot| topology.master(slot)) != Some(&lane.address)
                    })
                }) {
                    true => Err("no answer, and its slots were moved to other servers".into()),
                    false => Ok(()),
                }
            }
            Err(trouble) => Err(words(trouble)),
        }
    }

    /// Whether the others say that a server which is quiet is not to be waited for.
    fn is_replaced(
        &self,
        address: &Address,
        is_gone: impl Fn(&super::nodes::Topology) -> bool,
    ) -> bool {
        let topology = self.nodes.topology();
        if !topology.is_cluster {
            return false;
        }
        let mut said = ServerErrors::default();
        self.nodes
            .refresh(topology.generation, None, Some(address), &mut said);
        is_gone(&self.nodes.topology())
    }

    /// Closes a lane whose connection has failed.
    fn end(&mut self, lane: Pipeline, why: String, again: &mut Again, said: &mut ServerErrors) {
        self.has_lost = true;
        self.has_repeated |= !lane.flying.is_empty();
        self.nodes.forget(&lane.address);
        said.note(&lane.address, why);
        let flying = lane.flying.into_iter().flatten();
        again.broken(&lane.address, flying.chain(lane.queue));
    }

    /// Waits until enough replicas have the writes of this flow; returns their number. None if a server was lost, so
    /// that this is unknown. A notice soon explains the delay; once it was in vain, it does not wait long for a while.
    pub fn wait_for_replicas(&mut self, wanted: usize) -> Result<Option<usize>, EventsError> {
        let settings = &self.nodes.settings;
        let patience = settings.failover.min(settings.timeout);
        let mut fewest = self.count_replicas(wanted, patience.min(SOON))?;
        let is_lacking = !self.has_lost && !self.lacking.is_empty();
        if is_lacking && patience > SOON && !self.nodes.has_waited_in_vain() {
            self.tell_lacking(wanted, patience);
            fewest = self.count_replicas(wanted, patience - SOON)?;
            self.nodes.note_waited(!self.lacking.is_empty());
        }
        Ok((!self.has_lost).then_some(fewest))
    }

    fn count_replicas(&mut self, wanted: usize, patience: Duration) -> Result<usize, EventsError> {
        let (n, millis) = (wanted.to_string(), patience.as_millis().to_string());
        let wait = packed(&[b"WAIT", n.as_bytes(), millis.as_bytes()]);
        let answers = self.ask_all(&wait, patience)?;
        let fewest = answers.iter().map(|(_, n)| *n).min();
        let lacking = answers.into_iter().filter(|(_, n)| *n < wanted);
        self.lacking = lacking.map(|(address, _)| address).collect();
        Ok(fewest.unwrap_or(usize::MAX))
    }

    fn tell_lacking(&self, wanted: usize, patience: Duration) {
        let url = &self.nodes.settings.url;
        let mut lacking: Vec<_> = self.lacking.iter().map(|at| at.to_string()).collect();
        lacking.sort_unstable();
        let (lacking, seconds) = (lacking.join(", "), patience.as_secs_f64());
        let text = format!(
            "{url}: waiting up to {seconds:.0} s for replicas of {lacking}: write_concern=replicas:{wanted} requires \
             {wanted} per server; start or add replicas. Give a new server its replica before its slots"
        );
        femtobarn_io::notice(&format!("{url} replicas"), &text);
    }

    /// Sends one command to all servers that were used; returns their numeric answers, except for lost servers.
    fn ask_all(
        &mut self,
        command: &[u8],
        patience: Duration,
    ) -> Result<Vec<(Arc<Address>, usize)>, EventsError> {
        let mut answers = Vec::new();
        let mut waiting = Vec::new();
        let used = &self.used;
        let held = self.held.extract_if(|address, _| used.contains(address));
        for (address, mut connection) in held {
            connection.push(command);
            match connection.flush() {
                Ok(()) | Err(RedisError::Quiet) => waiting.push((address, connection)),
                Err(_) => self.has_lost = true,
            }
        }
        for (address, mut connection) in waiting {
            match self.answer(&address, &mut connection, patience) {
                Ok(n) => {
                    answers.push((address.clone(), n));
                    self.held.insert(address, connection);
                }
                Err(RedisError::Refused(error)) => {
                    let url = &self.nodes.settings.url;
                    let doing = "check that replicas have the writes";
                    return Err(refused(url, &address, doing, &error));
                }
                Err(_) => self.has_lost = true,
            }
        }
        Ok(answers)
    }

    fn answer(
        &self,
        address: &Address,
        connection: &mut Connection,
        patience: Duration,
    ) -> Result<usize, RedisError> {
        let until = Instant::now() + patience + SUSPECT;
        let mut looked = Instant::now();
        loop {
            match connection.flush().and_then(|()| connection.receive()) {
                Ok(()) => break,
                Err(RedisError::Quiet) if Instant::now() < until => {
                    if looked.elapsed() > SUSPECT {
                        looked = Instant::now();
                        let is_gone = self.is_replaced(address, |topology| {
                            topology.masters.iter().all(|master| **master != *address)
                        });
                        if is_gone {
                            return Err(RedisError::Quiet);
                        }
                    }
                }
                Err(trouble) => return Err(trouble),
            }
        }
        connection.take(|reply| match reply {
            Reply::Number(n) => Ok(usize::try_from(n).unwrap_or_default()),
            // WAITAOF returns two: the server itself, and its replicas.
            Reply::Array(mut elements) => match elements.next() {
                Some(Reply::Number(n)) => Ok(usize::try_from(n).unwrap_or_default()),
                _ => Ok(0),
            },
            // It has become a replica meanwhile.
            Reply::Error(error) if error.starts_with(b"UNBLOCKED") => Err(RedisError::Quiet),
            reply => Err(RedisError::Refused(reply.text())),
        })?
    }
}

impl Drop for Flow<'_> {
    fn drop(&mut self) {
        for (address, connection) in self.held.drain() {
            self.nodes.give_back(&address, connection);
        }
    }
}

/// With each task, all later ones of its slot, so that what comes later is also done later.
fn with_later(tasks: Vec<Task>, orders: &Commands) -> Vec<Task> {
    let mut first: HashMap<u16, usize> = HashMap::new();
    let mut by_number: BTreeMap<usize, Task> = BTreeMap::new();
    for task in tasks {
        if let Some(order) = orders.get(task.at) {
            let earliest = first.entry(order.slot).or_insert(task.at);
            *earliest = (*earliest).min(task.at);
            by_number.insert(task.at, task);
        }
    }
    for at in 0..orders.len() {
        let slot = orders.get(at).map(|order| order.slot);
        let earliest = slot.and_then(|slot| first.get(&slot));
        if earliest.is_some_and(|earliest| *earliest <= at) {
            by_number.entry(at).or_insert(Task { at, ask: None });
        }
    }
    by_number.into_values().collect()
}
