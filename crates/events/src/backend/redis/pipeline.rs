//! The commands of a round for one server, and their answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::cluster::Answered;
use super::connection::{Connection, RedisError};
use super::failure::{Passing, is_too_large, passing};
use super::nodes::ServerErrors;
use super::resp::{Commands, Reply};
use super::settings::Address;
use crate::EventsError;

/// How many bytes may be on their way to and from a server at once: with more, what comes is in no cache any more (4 MiB
/// halve the speed of loads of 800 B).
const WINDOW: usize = 1 << 20;
/// And how many commands.
const MOST: usize = 2000;

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

    /// Sends as much as the socket accepts.
    pub fn fill(&mut self, orders: &Commands) -> Result<(), RedisError> {
        // Half a window at least at a time, so that small commands share a packet.
        if self.weight <= WINDOW / 2 && self.flying.len() <= MOST / 2 {
            while self.weight < WINDOW && self.flying.len() < MOST {
                let Some(task) = self.queue.pop_front() else {
                    break;
                };
                let Some(order) = orders.get(task.at) else {
                    continue;
                };
                if task.ask.is_some() {
                    self.connection.push(b"*1\r\n$6\r\nASKING\r\n");
                    self.flying.push_back(None);
                }
                self.connection.push(orders.packed(order));
                self.weight += order.weight;
                self.flying.push_back(Some(task));
            }
        }
        match self.connection.flush() {
            // What cannot be sent at the moment may still be answered.
            Err(RedisError::Quiet) => Ok(()),
            // If a value is too large, a server reads its beginning, sends an error, and closes the connection.
            Err(RedisError::Broken(why)) => match self.connection.last_words() {
                Some(said) if is_too_large(&said) => Err(RedisError::Refused(said)),
                _ => Err(RedisError::Broken(why)),
            },
            flushed => flushed,
        }
    }

    /// Waits for a reply, and takes all complete replies.
    pub fn drain(
        &mut self,
        orders: &Commands,
        again: &mut Again,
        said: &mut ServerErrors,
        answered: &mut Answered<'_>,
        refused: &dyn Fn(&Address, &str) -> EventsError,
    ) -> Result<Result<(), RedisError>, EventsError> {
        if self.flying.is_empty() {
            return Ok(Ok(()));
        }
        if let Err(trouble) = self.connection.receive() {
            return Ok(Err(trouble));
        }
        loop {
            let Some(task) = self.flying.pop_front() else {
                return Ok(Err(RedisError::Broken("more replies than requests".into())));
            };
            let address = &self.address;
            let taken = self.connection.take(|reply| match (task, reply) {
                (Some(task), Reply::Error(error)) => {
                    let weight = orders.get(task.at).map_or(0, |order| order.weight);
                    let error = String::from_utf8_lossy(error);
                    let passing =
                        passing(&error, address).ok_or_else(|| refused(address, &error))?;
                    again.passing(passing, task);
                    said.note(address, error.into_owned());
                    Ok(weight)
                }
                (Some(task), reply) => {
                    self.has_done = true;
                    answered(task.at, reply)?;
                    Ok(orders.get(task.at).map_or(0, |order| order.weight))
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

/// What a connection has come to, in words.
pub fn words(trouble: RedisError) -> String {
    match trouble {
        RedisError::Quiet => "no answer".into(),
        RedisError::Broken(why) | RedisError::Refused(why) => why,
    }
}
