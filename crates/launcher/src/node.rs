//! One server of a local cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};

use super::{LocalOptions, Shape};
use femtobarn_events::EventsError;
use femtobarn_redis::{Address, Connection, Options, Reply, Secret};

/// How long a server may take to start or to end.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long it may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// The program of the servers, if nobody says another.
const PROGRAM: &str = "redis-server";
/// The comment of `redis.conf` that says for which program it was made.
const NOTE: &str = "# program";
const PAUSE: Duration = Duration::from_millis(20);
/// As many bytes of a log are shown.
const LOG: usize = 1500;

/// What a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has slots, or may get some.
    Master,
    /// It has what a master has.
    Replica,
}

/// What one server does.
#[derive(Clone, Debug, Default)]
pub struct LocalNode {
    /// Where it listens.
    pub address: String,
    /// Its process; none if it does not run.
    pub process: Option<u32>,
    /// What it is; none if it does not answer.
    pub role: Option<Role>,
    /// The bytes of memory that it uses.
    pub memory: Option<u64>,
}

/// One server, in a folder.
pub struct Node {
    pub address: Address,
    pub bus: u16,
    pub folder: PathBuf,
    options: Options,
    /// What `redis.conf` says; nothing of one that is not there yet.
    config: String,
}

impl Node {
    /// Describes one that is not there yet.
    pub fn new(folder: PathBuf, ports: (u16, u16), password: &Path) -> Result<Self, EventsError> {
        let (port, bus) = ports;
        let address = Address {
            host: "127.0.0.1".into(),
            port,
        };
        Self::at(folder, (address, bus), password)
    }

    /// One at an address, which need not have its data in the folder.
    pub fn at(
        folder: PathBuf,
        (address, bus): (Address, u16),
        password: &Path,
    ) -> Result<Self, EventsError> {
        let password = Secret::of_file(password).map_err(|error| {
            let why = format!("cannot read password_file={}: {error}", password.display());
            EventsError::engine(&folder.display().to_string(), "read it", why)
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

    /// One that is there, by its settings.
    pub fn read(folder: PathBuf, password: &Path) -> Result<Self, EventsError> {
        let shown = folder.display().to_string();
        let text = fs::read_to_string(folder.join("redis.conf"));
        let text = text.map_err(|error| EventsError::engine(&shown, "read redis.conf", error))?;
        let number = |name: &str| setting(&text, name).and_then(|value| value.parse().ok());
        let (Some(port), Some(bus)) = (number("port"), number("cluster-port")) else {
            let why = "redis.conf does not say port and cluster-port";
            return Err(EventsError::engine(&shown, "read redis.conf", why));
        };
        let node = Self::new(folder, (port, bus), password)?;
        Ok(Self {
            config: text,
            ..node
        })
    }

    /// What its `redis.conf` says of one thing.
    pub fn setting(&self, name: &str) -> Option<&str> {
        setting(&self.config, name)
    }

    /// The shape of its cluster of `n` servers, by what it has noted of them: those that have slots stay as many, whoever
    /// has taken the place of another.
    pub fn shape(&self, n: usize) -> Shape {
        let noted = fs::read_to_string(self.folder.join("nodes.conf")).unwrap_or_default();
        // id, address, flags, master, ping, pong, epoch, link, and slots
        let has_slots = |line: &&str| line.split(' ').nth(8).is_some_and(|slot| !slot.is_empty());
        let all = noted.lines().filter(|line| !line.starts_with("vars"));
        // Others may have been added to those in the folder.
        let n = all.clone().count().max(n);
        let masters = all.filter(has_slots).count().max(1);
        (masters, (n / masters).saturating_sub(1))
    }

    /// Its settings as a file.
    pub fn config(&self, options: &LocalOptions) -> String {
        let password = self.options.password.as_ref();
        let password = password.map_or("", |password| password.0.as_str());
        let memory = options.memory.unwrap_or_default();
        let fsync = options.fsync.as_deref().unwrap_or("everysec");
        let program = options.program.as_deref().unwrap_or(Path::new(PROGRAM));
        // Paths are relative to its folder, in which it is started: nothing in them needs quotes.
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

    /// Starts it, by the program that it was made for if none is said, and waits until it answers.
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
            return Err(failed(format!("it ended at once: {}", self.log())));
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

    /// Whether its log says that it has ended.
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

    /// What it answers to a command, the elements of an array between spaces; else why it does not.
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

    /// Does a command that has to go well.
    pub fn tell(&self, words: &[&str]) -> Result<String, EventsError> {
        self.ask(words).map_err(|why| {
            self.failed(
                &format!("have {} do {}", self.address, words.join(" ")),
                why,
            )
        })
    }

    /// A line of what it says of itself.
    pub fn info(&self, section: &str, name: &str) -> Option<String> {
        let text = self.ask(&["INFO", section]).ok()?;
        value(&text, name)
    }

    /// What it does, if it runs.
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

    /// The process that runs in its folder, although it may not answer.
    pub fn process(&self) -> Option<u32> {
        let process = fs::read_to_string(self.folder.join("pid"))
            .ok()?
            .trim()
            .parse()
            .ok()?;
        // The number may be another's by now.
        let place = fs::read_link(format!("/proc/{process}/cwd")).ok()?;
        (place == self.folder).then_some(process)
    }

    /// Whether it knows somebody for each slot.
    pub fn has_all_slots(&self) -> bool {
        let info = self.ask(&["CLUSTER", "INFO"]).unwrap_or_default();
        value(&info, "cluster_state").as_deref() == Some("ok")
    }

    /// The slots that it has itself; none of a replica.
    pub fn slots(&self) -> Vec<u16> {
        let known = self.ask(&["CLUSTER", "NODES"]).unwrap_or_default();
        let own = known.lines().map(|line| line.split(' '));
        // id, address, flags, master, ping, pong, epoch, link, and slots; those that move stand in brackets
        let own = own.filter(|parts| parts.clone().nth(2).is_some_and(is_own_master));
        let ranges = own.flat_map(|parts| parts.skip(8)).filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse().ok()?..=last.parse().ok()?)
        });
        ranges.flatten().collect()
    }

    /// The addresses, and ports of the bus, of all servers of its cluster that it knows, itself among them.
    pub fn known(&self) -> Vec<(Address, u16)> {
        let known = self.ask(&["CLUSTER", "NODES"]).unwrap_or_default();
        let address = |line: &str| {
            // ip:port@bus, and from version 7 on its name
            let (address, bus) = line.split(' ').nth(1)?.split_once('@')?;
            let bus = bus.split(',').next()?.parse().ok()?;
            let host = address.rsplit_once(':')?;
            let place = Address {
                host: host.0.into(),
                port: host.1.parse().ok()?,
            };
            // One that does not know its own address is where it was asked.
            let host = match place.host.as_str() {
                "" => self.address.host.clone(),
                _ => place.host,
            };
            (place.port != 0).then_some((Address { host, ..place }, bus))
        };
        known.lines().filter_map(address).collect()
    }

    /// What is known of it if it does not answer.
    pub fn unheard(&self) -> LocalNode {
        LocalNode {
            address: self.address.to_string(),
            process: self.process(),
            ..LocalNode::default()
        }
    }

    /// Whether it has its place: as a replica, all that its master has.
    pub fn is_ready(&self) -> bool {
        let link = self.info("replication", "master_link_status");
        self.has_all_slots() && link.is_none_or(|link| link == "up")
    }

    /// Ends it, when its log is on the disk.
    pub fn end(&self) -> Result<(), EventsError> {
        let failed = |why: String| self.failed("end a server", why);
        let process = self.info("server", "process_id");
        let process = process.and_then(|process| Pid::from_raw(process.parse().ok()?));
        let until = Instant::now() + PATIENCE;
        // It answers by ending, or says why it does not: as that its first log is still being written, which passes.
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

/// Whether flags of `CLUSTER NODES` are those of the server that was asked, which is a master.
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
