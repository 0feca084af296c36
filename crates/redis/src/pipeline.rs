//! The commands of a round for one server, and their answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::client::ServerErrors;
use crate::refusal::{Passing, is_too_large, passing};
use crate::{Address, Commands, Connection, ConnectionError, RedisError, Reply};

/// How many bytes may be in flight to and from a server. With more, received data no longer fit the cache (4 MiB halve
/// the speed of loads of 800 B).
const WINDOW: usize = 1 << 20;
/// How many commands may be in flight.
const MOST: usize = 2000;

/// Why sending commands ended early.
pub enum Stop {
    /// The receiver wants no more replies.
    Taker,
    /// An error of the servers.
    Error(RedisError),
}

impl From<RedisError> for Stop {
    fn from(error: RedisError) -> Self {
        Self::Error(error)
    }
}

/// Called with each reply and the number of its command; returns whether to continue.
pub type Answered<'a> = dyn FnMut(usize, Reply<'_>) -> Result<(), Stop> + 'a;

/// A command to send.
#[derive(Clone)]
pub struct Task {
    pub at: usize,
    /// The server to ask once for this command, if its slot is migrating (ASK).
    pub ask: Option<Arc<Address>>,
}

/// Commands to send to one server.
pub struct Pipeline {
    pub address: Arc<Address>,
    pub connection: Connection,
    pub queue: VecDeque<Task>,
    /// Commands in flight, in their order; none stands for ASKING.
    pub flying: VecDeque<Option<Task>>,
    weight: usize,
    /// Whether the server has executed a command.
    pub has_done: bool,
    /// When the pipeline was created.
    began: Instant,
    /// When other servers were last asked whether this server still belongs to the cluster.
    pub looked: Instant,
}

/// Commands to send again, and why.
#[derive(Default)]
pub struct Again {
    pub tasks: Vec<Task>,
    pub must_wait: bool,
    pub must_refresh: bool,
    pub knows: Option<Address>,
    pub suspect: Option<Address>,
}

impl Pipeline {
    pub fn new(address: Arc<Address>, connection: Connection, queue: VecDeque<Task>) -> Self {
        let now = Instant::now();
        Self {
            address,
            connection,
            queue,
            flying: VecDeque::new(),
            weight: 0,
            has_done: false,
            began: now,
            looked: now,
        }
    }

    pub fn is_done(&self) -> bool {
        self.queue.is_empty() && self.flying.is_empty()
    }

    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.flying.iter().flatten().chain(&self.queue)
    }

    /// When data were sent or received last.
    pub fn moved(&self) -> Instant {
        self.began.max(self.connection.moved)
    }

    /// Sends as many commands as may be in flight.
    pub fn fill(&mut self, commands: &Commands) -> Result<(), ConnectionError> {
        // at least half a window at a time, so that small commands share a packet
        if self.weight <= WINDOW / 2 && self.flying.len() <= MOST / 2 {
            while self.weight < WINDOW && self.flying.len() < MOST {
                let Some(task) = self.queue.pop_front() else {
                    break;
                };
                let Some(command) = commands.get(task.at) else {
                    continue;
                };
                if task.ask.is_some() {
                    self.connection.push(b"*1\r\n$6\r\nASKING\r\n");
                    self.flying.push_back(None);
                }
                self.connection.push(commands.packed(command));
                self.weight += command.weight;
                self.flying.push_back(Some(task));
            }
        }
        match self.connection.flush() {
            // if sending would block, answers may still arrive
            Err(ConnectionError::Quiet) => Ok(()),
            // a server reads the beginning of a command that is too large, sends an error, and closes the connection
            Err(ConnectionError::Broken(why)) => match self.connection.last_words() {
                Some(said) if is_too_large(&said) => Err(ConnectionError::Refused(said)),
                _ => Err(ConnectionError::Broken(why)),
            },
            flushed => flushed,
        }
    }

    /// Waits for a reply, and receives all complete replies.
    pub fn drain(
        &mut self,
        commands: &Commands,
        again: &mut Again,
        said: &mut ServerErrors,
        answered: &mut Answered<'_>,
        refused: &dyn Fn(&Address, &str) -> RedisError,
    ) -> Result<Result<(), ConnectionError>, Stop> {
        if self.flying.is_empty() {
            return Ok(Ok(()));
        }
        if let Err(error) = self.connection.receive() {
            return Ok(Err(error));
        }
        loop {
            let Some(task) = self.flying.pop_front() else {
                return Ok(Err(ConnectionError::Broken(
                    "more replies than requests".into(),
                )));
            };
            let address = &self.address;
            let taken = self.connection.take(|reply| match (task, reply) {
                (Some(task), Reply::Error(error)) => {
                    let weight = commands.get(task.at).map_or(0, |command| command.weight);
                    let error = String::from_utf8_lossy(error);
                    let passing =
                        passing(&error, address).ok_or_else(|| refused(address, &error))?;
                    again.passing(passing, task);
                    said.note(address, error.into_owned());
                    Ok::<_, Stop>(weight)
                }
                (Some(task), reply) => {
                    self.has_done = true;
                    answered(task.at, reply)?;
                    Ok(commands.get(task.at).map_or(0, |command| command.weight))
                }
                (None, _) => Ok(0),
            });
            match taken {
                Ok(weight) => self.weight = self.weight.saturating_sub(weight?),
                Err(error) => return Ok(Err(error)),
            }
            match self.connection.has_reply() {
                Ok(true) => {}
                Ok(false) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            }
        }
    }
}

impl Again {
    pub fn broken(&mut self, address: &Address, tasks: impl IntoIterator<Item = Task>) {
        // an ASK redirect is followed only once, as the whole slot may have moved in the meantime
        let tasks = tasks.into_iter().map(|task| Task { ask: None, ..task });
        self.tasks.extend(tasks);
        (self.must_wait, self.must_refresh) = (true, true);
        self.suspect = Some(address.clone());
    }

    pub fn passing(&mut self, passing: Passing, task: Task) {
        let ask = match passing {
            Passing::Moved(_, to) => {
                self.must_refresh = true;
                self.knows = Some(to);
                None
            }
            Passing::Ask(to) => Some(Arc::new(to)),
            Passing::Wait => {
                (self.must_wait, self.must_refresh) = (true, true);
                None
            }
        };
        self.tasks.push(Task { ask, ..task });
    }
}
