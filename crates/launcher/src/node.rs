//! A server of a local cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};

use super::{LocalOptions, Shape};
use femtobarn_events::EventsError;
use femtobarn_redis::{Address, Connection, Options, Reply, Secret};

/// Time limit for starting and stopping a server.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Time limit for an answer.
const ANSWER: Duration = Duration::from_secs(5);
/// The default server program.
const PROGRAM: &str = "redis-server";
/// The comment in `redis.conf` with the server program.
const NOTE: &str = "# program";
const PAUSE: Duration = Duration::from_millis(20);
/// Number of bytes of a log to show.
const LOG: usize = 1500;

/// The role of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has slots, or may get some.
    Master,
    /// It replicates a master.
    Replica,
}

/// The status of a server.
#[derive(Clone, Debug, Default)]
pub struct LocalNode {
    /// The address on which it listens.
    pub address: String,
    /// The process ID; none if it does not run.
    pub process: Option<u32>,
    /// The role; none if it does not answer.
    pub role: Option<Role>,
    /// The memory that it uses, in bytes.
    pub memory: Option<u64>,
}

/// A server in a directory.
pub struct Node {
    pub address: Address,
    pub bus: u16,
    pub folder: PathBuf,
    options: Options,
    /// The content of `redis.conf`; empty for a new server.
    config: String,
}

impl Node {
    /// A new server.
    pub fn new(folder: PathBuf, ports: (u16, u16), password: &Path) -> Result<Self, EventsError> {
        let (port, bus) = ports;
        let address = Address {
            host: "127.0.0.1".into(),
            port,
        };
        Self::at(folder, (address, bus), password)
    }

    /// A server at an address, whose data need not be in the directory.
    pub fn at(
        folder: PathBuf,
        (address, bus): (Address, u16),
        password: &Path,
    ) -> Result<Self, EventsError> {
        let password = Secret::of_file(password).map_err(|error| {
            let why = format!("cannot read password_file={}: {error}", password.display());
            EventsError::engine(&folder.display().to_string(), "read the password", why)
        })?;
        let options = Options {
            password: Some(password),
            connect_timeout: ANSWER,
            ..Options::new(format!("redis://{address}"), vec![address.clone()])
        };
        Ok(Self {
            address,
            bus,
            folder,
            options,
            config: String::new(),
        })
    }

    /// An existing server, from its settings.
    pub fn read(folder: PathBuf, password: &Path) -> Result<Self, EventsError> {
        let shown = folder.display().to_string();
        let text = fs::read_to_string(folder.join("redis.conf"));
        let text = text.map_err(|error| EventsError::engine(&shown, "read redis.conf", error))?;
        let number = |name: &str| setting(&text, name).and_then(|value| value.parse().ok());
        let (Some(port), Some(bus)) = (number("port"), number("cluster-port")) else {
            let why = "redis.conf lacks port and cluster-port";
            return Err(EventsError::engine(&shown, "read redis.conf", why));
        };
        let node = Self::new(folder, (port, bus), password)?;
        Ok(Self {
            config: text,
            ..node
        })
    }

    /// A setting in `redis.conf`.
    pub fn setting(&self, name: &str) -> Option<&str> {
        setting(&self.config, name)
    }

    /// The shape of its cluster of `n` servers, from its records. The number of masters is that of servers with slots,
    /// which stays constant when servers replace others.
    pub fn shape(&self, n: usize) -> Shape {
        let noted = fs::read_to_string(self.folder.join("nodes.conf")).unwrap_or_default();
        // ID, address, flags, master, ping, pong, epoch, link, slots
        let has_slots = |line: &&str| line.split(' ').nth(8).is_some_and(|slot| !slot.is_empty());
        let all = noted.lines().filter(|line| !line.starts_with("vars"));
        // servers may have been added to those in the directory
        let n = all.clone().count().max(n);
        let masters = all.filter(has_slots).count().max(1);
        (masters, (n / masters).saturating_sub(1))
    }

    /// The content of its `redis.conf`.
    pub fn config(&self, options: &LocalOptions) -> String {
        let password = self.options.password.as_ref();
        let password = password.map_or("", |password| password.0.as_str());
        let memory = options.memory.unwrap_or_default();
        let fsync = options.fsync.as_deref().unwrap_or("everysec");
        let program = options.program.as_deref().unwrap_or(Path::new(PROGRAM));
        // paths are relative to its working directory, so they need no quotes
        format!(
            "{NOTE} {}\nbind 127.0.0.1\nport {}\ncluster-port {}\nprotected-mode yes\nrequirepass {password}\nmasterauth {password}\n\
             daemonize yes\npidfile ./pid\nlogfile log\ndir ./\n\
             cluster-enabled yes\ncluster-config-file nodes.conf\ncluster-node-timeout 5000\n\
             save \"\"\nappendonly yes\nappendfsync {fsync}\nrepl-diskless-sync-delay 0\n\
             maxmemory {memory}\nmaxmemory-policy noeviction\n",
            program.display(),
            self.address.port,
            self.bus
        )
    }

    /// Starts the server, by default with the program in its settings, and waits until it answers.
    pub fn start(&self, program: Option<&Path>) -> Result<(), EventsError> {
        let noted = self.setting(NOTE).unwrap_or(PROGRAM);
        let program = program.unwrap_or(Path::new(noted));
        let failed = |why: String| self.failed("start a server", why);
        let _ = fs::remove_file(self.folder.join("log"));
        let mut command = Command::new(program);
        command.arg("redis.conf").current_dir(&self.folder);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let status = command.status().map_err(|error| {
            failed(format!(
                "{}: {error} (Debian: apt-get install redis-server)",
                program.display()
            ))
        })?;
        if !status.success() {
            return Err(failed(format!("it stopped immediately: {}", self.log())));
        }
        let until = Instant::now() + PATIENCE;
        loop {
            match self.ask(&["PING"]) {
                Ok(_) => return Ok(()),
                Err(why) if Instant::now() > until || self.has_failed() => {
                    return Err(failed(format!("{why}; its log: {}", self.log())));
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    /// Whether its log says that it has stopped.
    fn has_failed(&self) -> bool {
        let log = self.log();
        log.contains("Failed listening")
            || log.contains("exiting")
            || log.contains("Address already in use")
    }

    fn log(&self) -> String {
        let text = fs::read(self.folder.join("log")).unwrap_or_default();
        let last = text
            .get(text.len().saturating_sub(LOG)..)
            .unwrap_or_default();
        String::from_utf8_lossy(last).into_owned()
    }

    /// The answer to a command, with spaces between the elements of arrays; or the error.
    pub fn ask(&self, words: &[&str]) -> Result<String, String> {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        let until = Instant::now() + ANSWER;
        let opened = Connection::open(&self.address, &self.options);
        let asked = opened.and_then(|mut connection| {
            connection.ask(&words, until, |reply| match reply {
                Reply::Error(_) => Err(reply.text()),
                reply => Ok(match reply.elements() {
                    Some(elements) => elements.map(Reply::text).collect::<Vec<_>>().join(" "),
                    None => reply.text(),
                }),
            })
        });
        asked.map_err(|error| error.to_string())?
    }

    /// Sends a command that must succeed.
    pub fn tell(&self, words: &[&str]) -> Result<String, EventsError> {
        self.ask(words).map_err(|why| {
            self.failed(
                &format!("send to {} the command {}", self.address, words.join(" ")),
                why,
            )
        })
    }

    /// A line of the output of `INFO`.
    pub fn info(&self, section: &str, name: &str) -> Option<String> {
        let text = self.ask(&["INFO", section]).ok()?;
        value(&text, name)
    }

    /// The status, if it runs.
    pub fn look(&self) -> Option<LocalNode> {
        let process = self.info("server", "process_id")?.parse().ok();
        let role = match self.info("replication", "role")?.as_str() {
            "master" => Role::Master,
            _ => Role::Replica,
        };
        Some(LocalNode {
            address: self.address.to_string(),
            process,
            role: Some(role),
            memory: self
                .info("memory", "used_memory")
                .and_then(|n| n.parse().ok()),
        })
    }

    /// The process that runs in its directory, even if it does not answer.
    pub fn process(&self) -> Option<u32> {
        let process = fs::read_to_string(self.folder.join("pid"))
            .ok()?
            .trim()
            .parse()
            .ok()?;
        // the process ID may have been reused
        let place = fs::read_link(format!("/proc/{process}/cwd")).ok()?;
        (place == self.folder).then_some(process)
    }

    /// Whether it knows a server for each slot.
    pub fn has_all_slots(&self) -> bool {
        let info = self.ask(&["CLUSTER", "INFO"]).unwrap_or_default();
        value(&info, "cluster_state").as_deref() == Some("ok")
    }

    /// The slots that it has itself; none for a replica.
    pub fn slots(&self) -> Vec<u16> {
        let known = self.ask(&["CLUSTER", "NODES"]).unwrap_or_default();
        let own = known.lines().map(|line| line.split(' '));
        // ID, address, flags, master, ping, pong, epoch, link, slots; migrating slots are in brackets
        let own = own.filter(|parts| parts.clone().nth(2).is_some_and(is_own_master));
        let ranges = own.flat_map(|parts| parts.skip(8)).filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse().ok()?..=last.parse().ok()?)
        });
        ranges.flatten().collect()
    }

    /// The addresses and bus ports of all servers of its cluster that it knows, including itself.
    pub fn known(&self) -> Vec<(Address, u16)> {
        let known = self.ask(&["CLUSTER", "NODES"]).unwrap_or_default();
        let address = |line: &str| {
            // ip:port@bus, and the host name from version 7 on
            let (address, bus) = line.split(' ').nth(1)?.split_once('@')?;
            let bus = bus.split(',').next()?.parse().ok()?;
            let host = address.rsplit_once(':')?;
            let place = Address {
                host: host.0.into(),
                port: host.1.parse().ok()?,
            };
            // a server that does not know its own address has the address that was connected to
            let host = match place.host.as_str() {
                "" => self.address.host.clone(),
                _ => place.host,
            };
            (place.port != 0).then_some((Address { host, ..place }, bus))
        };
        known.lines().filter_map(address).collect()
    }

    /// The status if it does not answer.
    pub fn unheard(&self) -> LocalNode {
        LocalNode {
            address: self.address.to_string(),
            process: self.process(),
            ..LocalNode::default()
        }
    }

    /// Whether it has joined the cluster and, as a replica, has all data of its master.
    pub fn is_ready(&self) -> bool {
        let link = self.info("replication", "master_link_status");
        self.has_all_slots() && link.is_none_or(|link| link == "up")
    }

    /// Stops the server after its log was written to disk.
    pub fn end(&self) -> Result<(), EventsError> {
        let failed = |why: String| self.failed("stop a server", why);
        let process = self.info("server", "process_id");
        let process = process.and_then(|process| Pid::from_raw(process.parse().ok()?));
        let until = Instant::now() + PATIENCE;
        // it answers by stopping, or with an error, which may be temporary: for example while its first log is being
        // written
        while let Err(why) = self.ask(&["SHUTDOWN", "NOSAVE"])
            && why.starts_with("ERR")
        {
            if Instant::now() > until {
                return Err(failed(why));
            }
            thread::sleep(PAUSE);
        }
        while process.is_some_and(|process| test_kill_process(process).is_ok()) {
            if Instant::now() > until {
                return Err(failed(format!("process {process:?} still runs")));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn failed(&self, doing: &str, why: String) -> EventsError {
        EventsError::engine(&self.folder.display().to_string(), doing, why)
    }
}

/// Whether flags of `CLUSTER NODES` are those of the server itself, and it is a master.
fn is_own_master(flags: &str) -> bool {
    ["myself", "master"].map(|flag| flags.split(',').any(|one| one == flag)) == [true, true]
}

/// The value of a line `name value`.
fn setting<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut lines = text.lines();
    lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(' ')?.trim()))
}

/// The value of a line `name:value`.
fn value(text: &str, name: &str) -> Option<String> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::to_owned)
}
