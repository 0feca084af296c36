//! Sends commands to all servers in parallel, with a limited number in flight, and repeats them if a server redirects.
//!
//! All commands must be idempotent. Each has one key, so slots may move while it is in flight: while a slot moves, its
//! owner is known per key, not per slot.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::marker::PhantomData;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, ServerErrors};
use crate::pipeline::{Again, Answered, Pipeline, Stop, Task};
use crate::protocol::packed;
use crate::refusal::is_too_large;
use crate::topology::Topology;
use crate::{Address, Commands, Connection, ConnectionError, RedisError, Reply};

/// After this silence of a server, other servers are asked whether it still belongs to the cluster.
const SUSPECT: Duration = Duration::from_millis(1500);
/// Time to wait for replicas before a notice.
const SOON: Duration = Duration::from_secs(1);
/// The first pause before a command is repeated.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(300);

/// Commands in flight to the servers of a client. The connections are kept from call to call. Functions that receive
/// replies may fail with an error of type `E`; errors of the client are converted to it.
pub struct Flow<'a, E> {
    client: &'a Client,
    held: HashMap<Arc<Address>, Connection>,
    /// Servers that have executed a command, rather than only redirected it.
    used: HashSet<Arc<Address>>,
    /// Whether a connection has broken: data acknowledged on a failed connection may be lost with the server.
    pub has_lost: bool,
    /// Whether commands were sent again that may already have been executed.
    pub has_repeated: bool,
    /// Servers with too few replicas at the last check.
    pub lacking: Vec<Arc<Address>>,
    error: PhantomData<fn() -> E>,
}

impl<'a, E: From<RedisError>> Flow<'a, E> {
    /// Creates a flow without connections.
    pub fn new(client: &'a Client) -> Self {
        Self {
            client,
            held: HashMap::new(),
            used: HashSet::new(),
            has_lost: false,
            has_repeated: false,
            lacking: Vec::new(),
            error: PhantomData,
        }
    }

    /// Sends commands, and calls `answered` with each reply and the number of its command, in any order. Each command is
    /// answered once. With `in_order`, of two commands with one key the later is done last: for that, commands may be
    /// repeated and answered again. `doing` describes the operation in errors.
    ///
    /// # Errors
    ///
    /// The refusal of a server, if no other succeeded within the time limits of the options; or the first error of
    /// `answered`, after which no more replies are received.
    pub fn run(
        &mut self,
        doing: &str,
        commands: &Commands,
        in_order: bool,
        answered: &mut dyn FnMut(usize, Reply<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut failed = None;
        let done = self.run_all(doing, commands, in_order, &mut |at, reply| {
            answered(at, reply).map_err(|error| {
                failed = Some(error);
                Stop::Taker
            })
        });
        match (failed, done) {
            (Some(error), _) => Err(error),
            (None, Err(Stop::Error(error))) => Err(self.client.say_how_full(error).into()),
            (None, Ok(()) | Err(Stop::Taker)) => Ok(()),
        }
    }

    fn run_all(
        &mut self,
        doing: &str,
        commands: &Commands,
        in_order: bool,
        answered: &mut Answered<'_>,
    ) -> Result<(), Stop> {
        let mut pending: Vec<_> = (0..commands.len())
            .map(|at| Task { at, ask: None })
            .collect();
        let mut progress = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut said = ServerErrors::default();
        while !pending.is_empty() {
            let n = pending.len();
            let seen = self.client.topology().generation;
            let mut again = self.round(doing, commands, pending, answered, &mut said)?;
            if in_order {
                let used = self.used.iter();
                used.for_each(|at| self.client.guard().written(at));
            }
            if again.tasks.is_empty() {
                break;
            }
            if in_order {
                again.tasks = with_later(again.tasks, commands);
                self.has_repeated = true;
            }
            if again.tasks.len() < n {
                (progress, pause) = (Instant::now(), FIRST_PAUSE);
            } else if progress.elapsed() > self.patience(&again.tasks, commands) {
                self.client.give_up(self.masters(&again.tasks, commands));
                return Err(self.client.unreachable(doing, &said).into());
            }
            if again.must_wait {
                thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            if again.must_refresh {
                let (knows, suspect) = (again.knows.as_ref(), again.suspect.as_ref());
                self.client.refresh(seen, knows, suspect, &mut said);
            }
            again.tasks.sort_by_key(|task| task.at);
            pending = again.tasks;
        }
        self.client.note_answered(self.held.keys());
        Ok(())
    }

    /// For how long the remaining commands may stay unanswered before they are given up. The time is short if all are for
    /// servers that were given up recently.
    fn patience(&self, left: &[Task], commands: &Commands) -> Duration {
        let failover = self.client.options().failover;
        match self.client.were_given_up(&self.masters(left, commands)) {
            true => failover.min(SOON),
            false => failover,
        }
    }

    /// The servers that have the keys of some commands, as far as is known.
    fn masters(&self, tasks: &[Task], commands: &Commands) -> BTreeSet<Arc<Address>> {
        let topology = self.client.topology();
        let slots = tasks.iter().filter_map(|task| commands.get(task.at));
        let masters = slots.filter_map(|command| topology.master(command.slot));
        masters.cloned().collect()
    }

    /// Sends all pending commands once; returns those to send again.
    fn round(
        &mut self,
        doing: &str,
        commands: &Commands,
        pending: Vec<Task>,
        answered: &mut Answered<'_>,
        said: &mut ServerErrors,
    ) -> Result<Again, Stop> {
        let mut again = Again::default();
        let mut pipelines = self.pipelines(doing, commands, pending, &mut again, said)?;
        while !pipelines.is_empty() {
            let mut next = Vec::with_capacity(pipelines.len());
            for mut pipeline in pipelines {
                let filled = pipeline.fill(commands);
                match self.settle(filled, &mut pipeline, commands) {
                    Ok(()) => next.push(pipeline),
                    Err(why) if is_too_large(&why) => {
                        return Err(self.client.refused(&pipeline.address, doing, why).into());
                    }
                    Err(why) => self.end(pipeline, why, &mut again, said),
                }
            }
            pipelines = Vec::with_capacity(next.len());
            for mut pipeline in next {
                let refused = |address: &Address, error: &str| {
                    self.client.refused(address, doing, error.into())
                };
                let moved = pipeline.drain(commands, &mut again, said, answered, &refused)?;
                if pipeline.has_done {
                    self.used.insert(pipeline.address.clone());
                }
                match self.settle(moved, &mut pipeline, commands) {
                    Ok(()) if pipeline.is_done() => {
                        self.held.insert(pipeline.address, pipeline.connection);
                    }
                    Ok(()) => pipelines.push(pipeline),
                    Err(why) => self.end(pipeline, why, &mut again, said),
                }
            }
        }
        Ok(again)
    }

    /// Groups commands by server.
    fn pipelines(
        &mut self,
        doing: &str,
        commands: &Commands,
        pending: Vec<Task>,
        again: &mut Again,
        said: &mut ServerErrors,
    ) -> Result<Vec<Pipeline>, RedisError> {
        let topology = self.client.topology();
        let mut queues: BTreeMap<Arc<Address>, VecDeque<Task>> = BTreeMap::new();
        for task in pending {
            let slot = commands.get(task.at).map(|command| command.slot);
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
        let mut pipelines = Vec::with_capacity(queues.len());
        for (address, queue) in queues {
            let held = self.held.remove(&address);
            let connection = held.map_or_else(|| self.client.connection(&address), Ok);
            match connection {
                Ok(connection) => pipelines.push(Pipeline::new(address, connection, queue)),
                Err(ConnectionError::Refused(error)) => {
                    return Err(self.client.refused(&address, doing, error));
                }
                Err(error) => {
                    again.broken(&address, queue);
                    said.note(&address, error.to_string());
                }
            }
        }
        Ok(pipelines)
    }

    /// Whether a pipeline may continue; if not, the reason.
    fn settle(
        &self,
        result: Result<(), ConnectionError>,
        pipeline: &mut Pipeline,
        commands: &Commands,
    ) -> Result<(), String> {
        match result {
            Ok(()) => Ok(()),
            Err(ConnectionError::Quiet) => {
                let timeout = self.client.options().timeout;
                if pipeline.moved().elapsed() > timeout {
                    let seconds = timeout.as_secs_f64();
                    return Err(format!("no answer for {seconds} s"));
                }
                if pipeline.looked.elapsed() < SUSPECT {
                    return Ok(());
                }
                pipeline.looked = Instant::now();
                match self.is_replaced(&pipeline.address, |topology| {
                    pipeline.tasks().all(|task| {
                        let slot = commands.get(task.at).map(|command| command.slot);
                        slot.and_then(|slot| topology.master(slot)) != Some(&pipeline.address)
                    })
                }) {
                    true => Err("no answer, and its slots were moved to other servers".into()),
                    false => Ok(()),
                }
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Whether other servers say that a silent server was replaced.
    fn is_replaced(&self, address: &Address, is_gone: impl Fn(&Topology) -> bool) -> bool {
        let topology = self.client.topology();
        if !topology.is_cluster {
            return false;
        }
        let mut said = ServerErrors::default();
        self.client
            .refresh(topology.generation, None, Some(address), &mut said);
        is_gone(&self.client.topology())
    }

    /// Gives up a pipeline whose connection is broken.
    fn end(&mut self, pipeline: Pipeline, why: String, again: &mut Again, said: &mut ServerErrors) {
        self.has_lost = true;
        self.has_repeated |= !pipeline.flying.is_empty();
        self.client.forget(&pipeline.address);
        said.note(&pipeline.address, why);
        let flying = pipeline.flying.into_iter().flatten();
        again.broken(&pipeline.address, flying.chain(pipeline.queue));
    }

    /// Waits until so many replicas have everything that this flow has written; returns how many have. None if a server
    /// was lost, so that the number is unknown. The guard is soon told which servers are waited for. After a failure,
    /// waits are short for a while.
    ///
    /// # Errors
    ///
    /// If a server refuses to answer.
    pub fn wait_for_replicas(&mut self, wanted: usize) -> Result<Option<usize>, E> {
        let options = self.client.options();
        let patience = options.failover.min(options.timeout);
        let mut fewest = self.count_replicas(wanted, patience.min(SOON))?;
        let is_lacking = !self.has_lost && !self.lacking.is_empty();
        if is_lacking && patience > SOON && !self.client.has_waited_in_vain() {
            self.client.guard().lacking(wanted, &self.lacking, patience);
            fewest = self.count_replicas(wanted, patience - SOON)?;
            self.client.note_waited(!self.lacking.is_empty());
        }
        Ok((!self.has_lost).then_some(fewest))
    }

    fn count_replicas(&mut self, wanted: usize, patience: Duration) -> Result<usize, RedisError> {
        let (n, millis) = (wanted.to_string(), patience.as_millis().to_string());
        let wait = packed(&[b"WAIT", n.as_bytes(), millis.as_bytes()]);
        let answers = self.ask_all(&wait, patience)?;
        let fewest = answers.iter().map(|(_, n)| *n).min();
        let lacking = answers.into_iter().filter(|(_, n)| *n < wanted);
        self.lacking = lacking.map(|(address, _)| address).collect();
        Ok(fewest.unwrap_or(usize::MAX))
    }

    /// Sends one command to all servers that were used; returns the numbers they answer, except those of lost servers.
    fn ask_all(
        &mut self,
        command: &[u8],
        patience: Duration,
    ) -> Result<Vec<(Arc<Address>, usize)>, RedisError> {
        let mut answers = Vec::new();
        let mut waiting = Vec::new();
        let used = &self.used;
        let held = self.held.extract_if(|address, _| used.contains(address));
        for (address, mut connection) in held {
            connection.push(command);
            match connection.flush() {
                Ok(()) | Err(ConnectionError::Quiet) => waiting.push((address, connection)),
                Err(_) => self.has_lost = true,
            }
        }
        for (address, mut connection) in waiting {
            match self.answer(&address, &mut connection, patience) {
                Ok(n) => {
                    answers.push((address.clone(), n));
                    self.held.insert(address, connection);
                }
                Err(ConnectionError::Refused(error)) => {
                    let doing = "check that replicas have the writes";
                    return Err(self.client.refused(&address, doing, error));
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
    ) -> Result<usize, ConnectionError> {
        let until = Instant::now() + patience + SUSPECT;
        let mut looked = Instant::now();
        loop {
            match connection.flush().and_then(|()| connection.receive()) {
                Ok(()) => break,
                Err(ConnectionError::Quiet) if Instant::now() < until => {
                    if looked.elapsed() > SUSPECT {
                        looked = Instant::now();
                        let is_gone = self.is_replaced(address, |topology| {
                            topology.masters.iter().all(|master| **master != *address)
                        });
                        if is_gone {
                            return Err(ConnectionError::Quiet);
                        }
                    }
                }
                Err(error) => return Err(error),
            }
        }
        connection.take(|reply| match reply {
            Reply::Number(n) => Ok(usize::try_from(n).unwrap_or_default()),
            // WAITAOF returns two numbers: for the server itself, and for its replicas
            Reply::Array(mut elements) => match elements.next() {
                Some(Reply::Number(n)) => Ok(usize::try_from(n).unwrap_or_default()),
                _ => Ok(0),
            },
            // it has become a replica in the meantime
            Reply::Error(error) if error.starts_with(b"UNBLOCKED") => Err(ConnectionError::Quiet),
            reply => Err(ConnectionError::Refused(reply.text())),
        })?
    }
}

impl<E> Drop for Flow<'_, E> {
    fn drop(&mut self) {
        for (address, connection) in self.held.drain() {
            self.client.give_back(&address, connection);
        }
    }
}

/// Adds to each task all later ones of its slot, so that their order is kept.
fn with_later(tasks: Vec<Task>, commands: &Commands) -> Vec<Task> {
    let mut first: HashMap<u16, usize> = HashMap::new();
    let mut by_number: BTreeMap<usize, Task> = BTreeMap::new();
    for task in tasks {
        if let Some(command) = commands.get(task.at) {
            let earliest = first.entry(command.slot).or_insert(task.at);
            *earliest = (*earliest).min(task.at);
            by_number.insert(task.at, task);
        }
    }
    for at in 0..commands.len() {
        let slot = commands.get(at).map(|command| command.slot);
        let earliest = slot.and_then(|slot| first.get(&slot));
        if earliest.is_some_and(|earliest| *earliest <= at) {
            by_number.entry(at).or_insert(Task { at, ask: None });
        }
    }
    by_number.into_values().collect()
}
