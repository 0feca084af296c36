//! Everything that this process has read: sums of closed files, and files that are open.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use femtobarn_fork::lock;

use super::{Rates, Totals};
use crate::meter::{Meter, Reads, Traffic};
use crate::{ByteSource, SourceStatus};

static LEDGER: Mutex<Ledger> = Mutex::new(Ledger {
    next: 0,
    open: BTreeMap::new(),
    closed: Totals::since(Duration::ZERO),
    sizes: BTreeMap::new(),
    reading: BTreeMap::new(),
    servers: BTreeMap::new(),
    sources: Sources {
        first: Vec::new(),
        more: 0,
    },
});

/// Bytes over time of all reads. Apart from the ledger, as each read notes its bytes.
static RATES: Mutex<Rates> = Mutex::new(Rates::since(Duration::ZERO));

struct Ledger {
    /// The number of the next open file.
    next: u64,
    open: BTreeMap<u64, Weak<File>>,
    /// Closed files.
    closed: Totals,
    /// The size of each file, by the hash of its URL.
    sizes: BTreeMap<u64, u64>,
    reading: BTreeMap<u64, Weak<Origin>>,
    /// Closed files of each server.
    servers: BTreeMap<String, ServerTotals>,
    /// Sources of closed files that have several.
    sources: Sources,
}

impl Ledger {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// What was read from one server.
#[derive(Debug, Clone, Default)]
pub struct ServerTotals {
    /// How often a file was opened.
    pub opened: u64,
    /// How often a file could not be opened.
    pub not_opened: u64,
    /// Time in which files were opened.
    pub opening: Duration,
    /// Sums of the reads.
    pub reads: Reads,
    /// Sums of the requests.
    pub traffic: Traffic,
}

/// The most sources that are listed.
const MOST_SOURCES: usize = 32;

/// The sources of files that have several. A file that was opened several times is listed once.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The first ones.
    pub first: Vec<SourceStatus>,
    /// The number of others.
    pub more: u64,
}

impl Sources {
    /// Adds those of a file.
    fn add(&mut self, found: Option<Vec<SourceStatus>>) {
        let found = found.filter(|found| found.len() > 1);
        for mut one in found.into_iter().flatten() {
            let is_it = |known: &&mut SourceStatus| {
                known.url == one.url && (known.server == one.server || known.server.is_none())
            };
            if let Some(known) = self.first.iter_mut().find(is_it) {
                one.n_bytes += known.n_bytes;
                one.n_requests += known.n_requests;
                one.quality = one.quality.or(known.quality);
                one.rate = one.rate.or(known.rate);
                if one.errors.is_empty() {
                    one.errors.append(&mut known.errors);
                }
                *known = one;
            } else if self.first.len() < MOST_SOURCES {
                self.first.push(one);
            } else {
                self.more += 1;
            }
        }
    }
}

/// A line for each, after a line break.
impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for source in &self.first {
            write!(f, "\n{source}")?;
        }
        match self.more {
            0 => Ok(()),
            n => write!(f, "\nand {n} further sources"),
        }
    }
}

/// All reads of the process.
#[derive(Debug, Clone)]
pub struct Process {
    /// Of all files.
    pub totals: Totals,
    /// Of each server; files of this machine are those of the server `local`.
    pub servers: BTreeMap<String, ServerTotals>,
    /// The sources of files that have several.
    pub sources: Sources,
}

/// An open file, whose reads are summed with those of others when it is closed.
#[derive(Debug)]
pub(crate) struct File {
    number: u64,
    pub source: Arc<dyn ByteSource>,
    pub meter: Meter,
}

impl File {
    /// Enters a file that is being opened.
    pub fn open(source: Arc<dyn ByteSource>, meter: Meter) -> Arc<Self> {
        let mut hash = DefaultHasher::new();
        source.url().hash(&mut hash);
        let size = source.meta().size;
        let mut ledger = lock(&LEDGER);
        let number = ledger.number();
        ledger.closed.opened += 1;
        ledger.sizes.insert(hash.finish(), size);
        let file = Arc::new(Self {
            number,
            source,
            meter,
        });
        ledger.open.insert(number, Arc::downgrade(&file));
        file
    }

    fn add_to(&self, totals: &mut Totals) {
        let metered = self.meter.now();
        totals.metered += metered;
        totals.traffic += (self.source.traffic()).unwrap_or_else(|| metered.as_traffic());
        totals.cached += self.source.cached().unwrap_or_default();
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let mut sums = Totals::since(Duration::ZERO);
        self.add_to(&mut sums);
        let sources = self.source.sources();
        let mut ledger = lock(&LEDGER);
        ledger.sources.add(sources);
        ledger.open.remove(&self.number);
        ledger.closed.metered += sums.metered;
        ledger.closed.traffic += sums.traffic;
        ledger.closed.cached += sums.cached;
    }
}

/// A file that is open on one server.
#[derive(Debug)]
pub(crate) struct Origin {
    number: u64,
    pub source: Arc<dyn ByteSource>,
    pub server: String,
    reads: Mutex<Reads>,
}

impl Origin {
    /// Enters a file that is being opened.
    pub fn open(source: Arc<dyn ByteSource>, server: String) -> Arc<Self> {
        let mut ledger = lock(&LEDGER);
        let number = ledger.number();
        let origin = Arc::new(Self {
            number,
            source,
            server,
            reads: Mutex::default(),
        });
        ledger.reading.insert(number, Arc::downgrade(&origin));
        origin
    }

    /// Counts reads.
    pub fn note(&self, count: impl FnOnce(&mut Reads)) {
        count(&mut lock(&self.reads));
    }

    /// The reads so far.
    pub fn reads(&self) -> Reads {
        *lock(&self.reads)
    }

    fn add_to(&self, totals: &mut ServerTotals) {
        totals.reads += self.reads();
        totals.traffic += self.source.traffic().unwrap_or_default();
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let mut own = ServerTotals::default();
        self.add_to(&mut own);
        let mut ledger = lock(&LEDGER);
        ledger.reading.remove(&self.number);
        let server = ledger.servers.entry(self.server.clone()).or_default();
        server.reads += own.reads;
        server.traffic += own.traffic;
    }
}

/// Notes that a file of a server was opened, or could not be.
pub(crate) fn note_open(server: &str, duration: Duration, is_opened: bool) {
    let mut ledger = lock(&LEDGER);
    let server = ledger.servers.entry(server.to_owned()).or_default();
    server.opened += u64::from(is_opened);
    server.not_opened += u64::from(!is_opened);
    server.opening += duration;
}

/// Notes the bytes of a read, by its start after [`beginning`](crate::beginning).
pub(crate) fn note_rate(start: Duration, duration: Duration, n_bytes: u64) {
    lock(&RATES).add(start, duration, n_bytes);
}

/// All reads of this process so far.
pub(crate) fn process_totals() -> Process {
    let (mut totals, mut servers, mut sources, open, reading) = {
        let ledger = lock(&LEDGER);
        let totals = Totals {
            files: ledger.sizes.len() as u64,
            size: ledger.sizes.values().sum(),
            ..ledger.closed.clone()
        };
        let open: Vec<_> = ledger.open.values().filter_map(Weak::upgrade).collect();
        let reading: Vec<_> = ledger.reading.values().filter_map(Weak::upgrade).collect();
        let (servers, sources) = (ledger.servers.clone(), ledger.sources.clone());
        (totals, servers, sources, open, reading)
    };
    totals.rates = lock(&RATES).clone();
    for file in open {
        file.add_to(&mut totals);
        sources.add(file.source.sources());
    }
    for origin in reading {
        origin.add_to(servers.entry(origin.server.clone()).or_default());
    }
    Process {
        totals,
        servers,
        sources,
    }
}
