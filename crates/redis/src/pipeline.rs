//! The commands of a round for one server, and their answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::client::ServerErrors;
use crate::refusal::{Passing, is_too_large, passing};
use crate::{Address, Commands, Connection, ConnectionError, RedisError, Reply};

/// How many bytes may be on their way to and from a server at once: with more, what comes is in no cache any more (4 MiB
/// halve the speed of loads of 800 B).
const WINDOW: usize = 1 << 20;
/// And how many commands.
const MOST: usize = 2000;

/// Why sending commands has ended early.
pub enum Stop {
    /// Whoever takes the replies wants no more of them.
    Taker,
    /// An error of the servers.
    Error(RedisError),
}

impl From<RedisError> for Stop {
    fn from(error: RedisError) -> Self {
        Self::Error(error)
    }
}

/// Is given each reply, with the number of its command; says whether to go on.
pub type Answered<'a> = dyn FnMut(usize, Reply<'_>) -> Result<(), Stop> + 'a;

/// One command that is to be sent.
#[derive(Clone)]
pub struct Task {
    pub at: usize,
    /// Servers to ask once for a slot of another server (ASK).
    pub ask: Option<Arc<Address>>,
}

/// Commands to send to one server.
pub struct Pipeline {
    pub address: Arc<Address>,
    pub connection: Connection,
    pub queue: VecDeque<Task>,
    /// Sent commands, in order; none for what announces an exception.
    pub flying: VecDeque<Option<Task>>,
    weight: usize,
    /// Whether the server has done a command.
    pub has_done: bool,
    /// When it was queued.
    began: Instant,
    /// When the others were asked last whether this server is still one of them.
    pub looked: Instant,
}

/// What must be done again, and why.
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

    /// When something moved last.
    pub fn moved(&self) -> Instant {
        self.began.max(self.connection.moved)
    }

    /// Sends what there is room for.
    pub fn fill(&mut self, commands: &Commands) -> Result<(), ConnectionError> {
        // Half a window at least at a time, so that small commands share a packet.
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
            // What cannot be sent at the moment may still be answered.
            Err(ConnectionError::Quiet) => Ok(()),
            // Of what is too large, a server takes the beginning, says so, and closes.
            Err(ConnectionError::Broken(why)) => match self.connection.last_words() {
                Some(said) if is_too_large(&said) => Err(ConnectionError::Refused(said)),
                _ => Err(ConnectionError::Broken(why)),
            },
            flushed => flushed,
        }
    }

    /// Waits for a reply, and takes all complete replies.
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
        if let Err(trouble) = self.connection.receive() {
            return Ok(Err(trouble));
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
                Err(trouble) => return Ok(Err(trouble)),
            }
            match self.connection.has_reply() {
                Ok(true) => {}
                Ok(false) => return Ok(Ok(())),
                Err(trouble) => return Ok(Err(trouble)),
            }
        }
    }
}

impl Again {
    pub fn broken(&mut self, address: &Address, tasks: impl IntoIterator<Item = Task>) {
        // An ASK redirect is followed only once: the slot may have moved as a whole meanwhile.
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
