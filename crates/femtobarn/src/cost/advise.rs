//! What shape suits a destination: sizes of pages, objects and clusters, and the codec.
//!
//! All candidates are computed with one model. The choice is the cheapest of those whose pass takes at most 10 % longer
//! than the fastest.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use femtobarn_codec::settings_name;
use femtobarn_io::units::{bytes, plural, real, seconds};
use femtobarn_io::{
    AsObject, ByteSource, ObjectSink, Settings, SourceCost, SparseMemory, Uploads, is_daos,
    is_object, is_object_set, is_remote,
};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::SourceStore;
use femtobarn_rntuple::read::storage::{FetchCost, cost_of};
use femtobarn_rntuple::spec::{Anchor, ObjectAnchor, PageAddress, StoredRange};
use femtobarn_rntuple::write::{ObjectSize, WriteOptions};
use serde_json::{Value, json};

use super::access::{Access, matching, recorded};
use super::layout::{Granularity, Opened};
use super::sample::{ColumnVolume, Trial, trials, volumes};
use super::{CostOptions, Prices};
use crate::choice::Choice;
use crate::daos::with_name;
use crate::open::open_source_with;
use crate::target::Target;

/// Candidates.
const PAGES: [u64; 6] = [16 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];
const CLUSTERS: [u64; 5] = [32 << 20, 64 << 20, 128 << 20, 256 << 20, 512 << 20];
const OBJECTS: [ObjectSize; 7] = [
    ObjectSize::Page,
    ObjectSize::Bytes(256 << 10),
    ObjectSize::Bytes(1 << 20),
    ObjectSize::Bytes(4 << 20),
    ObjectSize::Bytes(16 << 20),
    ObjectSize::Bytes(64 << 20),
    ObjectSize::Cluster,
];

/// How much longer than the fastest a pass may take, as a factor.
const MOST: f64 = 1.1;

/// The most memory of a writer.
const MEMORY: u64 = 1 << 30;

/// Requests in flight to DAOS.
const DAOS_IN_FLIGHT: usize = 8;

/// Where an ntuple is moved to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// A ROOT file on a file system.
    File,
    /// A ROOT file on a server.
    RemoteFile,
    /// A ROOT file that is an object of an object store.
    Object,
    /// An object store.
    Objects,
    /// DAOS.
    Daos,
}

impl Choice for Destination {
    const ALL: &[(&str, Self)] = &[
        ("file", Self::File),
        ("remote file", Self::RemoteFile),
        ("object", Self::Object),
        ("objects", Self::Objects),
        ("daos", Self::Daos),
    ];
}

impl Destination {
    /// The kind of the store that a URL names.
    #[must_use]
    pub fn of_url(url: &str) -> Self {
        match url {
            _ if is_daos(url) => Self::Daos,
            _ if is_object_set(url) => Self::Objects,
            _ if is_object(url) => Self::Object,
            _ if is_remote(url) => Self::RemoteFile,
            _ => Self::File,
        }
    }

    fn is_file(self) -> bool {
        matches!(self, Self::File | Self::RemoteFile | Self::Object)
    }

    /// Whether it is in an object store, where requests have prices.
    fn has_prices(self) -> bool {
        matches!(self, Self::Object | Self::Objects)
    }
}

/// What is known of the destination, and of the passes there.
#[derive(Debug, Clone)]
pub struct AdviceOptions {
    /// What a pass reads, the prices, and settings of the source.
    pub cost: CostOptions,
    /// The top-level fields that are taken, and patterns; all if there are none.
    pub fields: Vec<String>,
    /// The kind of the destination.
    pub destination: Destination,
    /// Duration of a request without its bytes.
    pub round_trip: Duration,
    /// Bytes a second, of all requests together.
    pub bandwidth: f64,
    /// Threads that decompress.
    pub threads: usize,
    /// Processes that share a pass: each needs a cluster.
    pub workers: u64,
}

impl AdviceOptions {
    /// All fields, one thread, eight workers, 1 GB/s, and a round trip of 20 ms to servers or 0.1 ms to file systems and
    /// DAOS.
    #[must_use]
    pub fn new(cost: CostOptions, destination: Destination) -> Self {
        let round_trip = match destination {
            Destination::File | Destination::Daos => Duration::from_micros(100),
            Destination::RemoteFile | Destination::Object | Destination::Objects => {
                Duration::from_millis(20)
            }
        };
        Self {
            cost,
            fields: Vec::new(),
            destination,
            round_trip,
            bandwidth: 1e9,
            threads: 1,
            workers: 8,
        }
    }
}

/// How an ntuple is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The most encoded bytes of a page.
    pub page_bytes: u64,
    /// The size of objects; of values, in DAOS; none for a file.
    pub object_size: Option<ObjectSize>,
    /// Size of a cluster.
    pub cluster_bytes: u64,
    /// The compression settings.
    pub compression: u32,
}

/// What is expected of a shape.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Expected {
    /// Number of clusters.
    pub clusters: u64,
    /// Number of objects, or of values.
    pub objects: u64,
    /// Requests that write; not of a file, unless it is an object.
    pub puts: u64,
    /// Size of the pages.
    pub bytes: u64,
    /// Requests of a pass.
    pub requests: u64,
    /// Bytes of a pass.
    pub bytes_read: u64,
    /// Duration of a pass, in seconds.
    pub seconds: f64,
    /// Price of writing, a pass, and a month; only of an object store.
    pub price: f64,
}

/// A recommended shape.
#[derive(Debug, Clone)]
pub struct Advice {
    /// The destination.
    pub destination: Destination,
    /// The shape.
    pub shape: Shape,
    /// What is expected of it.
    pub expected: Expected,
    /// How the codecs did.
    pub trials: Vec<Trial>,
    /// Why this shape, one line each.
    pub reasons: Vec<String>,
    prices: Prices,
}

/// What the model needs to know.
struct Model<'a> {
    columns: &'a [ColumnVolume],
    options: &'a AdviceOptions,
    store: SourceStore,
    cost: SourceCost,
}

/// Computes which shape suits a destination; reads the metadata and a sample of the pages.
///
/// # Errors
/// If the ntuple cannot be read, is a tree, or a name or the trace does not fit.
pub fn advise(target: &Target, options: &AdviceOptions) -> Result<Advice, RNTupleError> {
    let settings = Settings::new(&target.file, options.cost.settings.clone())?;
    let source = open_source_with(&with_name(&target.file, target.name.as_deref()), &settings)?;
    let opened = Opened::new(source, target.name.as_deref(), &settings)?;
    let taken = columns_of(&opened, &options.fields)?;
    let read = read_columns(&opened, &options.cost)?;
    let columns = volumes(&opened.reader, &taken, &read)?;
    let trials = trials(&opened.reader, &columns)?;
    choose(&columns, trials, options)
}

/// The columns that a pass reads.
fn read_columns(opened: &Opened, options: &CostOptions) -> Result<HashSet<u32>, RNTupleError> {
    let reader = &opened.reader;
    super::check_ntuple(reader)?;
    if let Some(trace) = &options.trace {
        let Access::Pages(sessions) = recorded(trace, reader)? else {
            return Ok(HashSet::new());
        };
        let pages = sessions.into_iter().flatten();
        return Ok(pages.map(|(_, column, _)| column).collect());
    }
    columns_of(opened, &options.columns)
}

/// The columns of fields.
fn columns_of(opened: &Opened, names: &[String]) -> Result<HashSet<u32>, RNTupleError> {
    let reader = &opened.reader;
    let paths = matching(reader, names).map_err(|name| super::no_match(reader, name))?;
    let selection = opened.ntuple.select(paths.as_deref())?;
    let bindings = selection.bindings.iter();
    Ok(bindings.flat_map(|binding| binding.all_columns()).collect())
}

/// The choice among all candidates.
///
/// # Errors
/// If a setting is invalid.
pub fn choose(
    columns: &[ColumnVolume],
    trials: Vec<Trial>,
    options: &AdviceOptions,
) -> Result<Advice, RNTupleError> {
    let memory = Arc::new(SparseMemory::default()).source("mem:candidate");
    // objects are read with the costs of their store, a file with those of an unknown source
    let source: Arc<dyn ByteSource> = match options.destination {
        Destination::Object | Destination::Objects => AsObject::open(memory, &Settings::default())?,
        _ => memory,
    };
    let cost = source.cost();
    let model = Model {
        columns,
        options,
        store: match options.destination {
            Destination::Objects => {
                let anchor = Arc::new(ObjectAnchor::new(Anchor::default()));
                SourceStore::of_objects(source, "candidate", anchor)
            }
            _ => SourceStore::new(source, "candidate", 0),
        },
        cost,
    };
    let n_columns = columns.iter().filter(|column| column.packed > 0).count() as u64;
    let buffer = WriteOptions::default().page_buffer;
    let fits = |page: &&u64| n_columns * **page <= buffer;
    let page_bytes = PAGES.iter().rev().find(fits).copied();
    let page_bytes = page_bytes.or(PAGES.first().copied()).unwrap_or(1);
    let mut all: Vec<(Shape, Expected)> = Vec::new();
    for trial in &trials {
        for cluster_bytes in model.clusters(trial) {
            for object_size in model.object_sizes() {
                let shape = Shape {
                    page_bytes,
                    object_size,
                    cluster_bytes,
                    compression: trial.settings,
                };
                all.push((shape, model.expected(&shape, trial)?));
            }
        }
    }
    let fastest = all.iter().map(|(_, expected)| expected.seconds);
    let fastest = fastest.fold(f64::INFINITY, f64::min);
    let is_fast = |expected: &Expected| expected.seconds <= fastest * MOST;
    // of equal prices the fewest bytes, then the smallest objects and clusters, which come first
    let fast = all.iter().filter(|(_, expected)| is_fast(expected));
    let best = fast.min_by(|(_, a), (_, b)| {
        let price = a.price.total_cmp(&b.price);
        price.then(a.bytes.cmp(&b.bytes))
    });
    let Some(&(shape, expected)) = best else {
        return Err(RNTupleError::internal("no candidate for a destination"));
    };
    let mut reasons = vec![format!(
        "pages of up to {}: {} share a buffer of {} while they are written",
        size(page_bytes),
        plural(n_columns, "column"),
        size(buffer),
    )];
    let others = Others {
        all: &all,
        best: (shape, expected),
        fastest,
        prices: &options.cost.prices,
    };
    reasons.push(others.because("codec", &|other| Shape {
        compression: other.compression,
        ..shape
    }));
    reasons.push(others.because("cluster size", &|other| Shape {
        cluster_bytes: other.cluster_bytes,
        ..shape
    }));
    if shape.object_size.is_some() {
        reasons.push(others.because("object size", &|other| Shape {
            object_size: other.object_size,
            ..shape
        }));
    }
    Ok(Advice {
        destination: options.destination,
        shape,
        expected,
        reasons,
        prices: options.cost.prices.clone(),
        trials,
    })
}

/// The candidates beside the best one.
struct Others<'a> {
    all: &'a [(Shape, Expected)],
    best: (Shape, Expected),
    fastest: f64,
    prices: &'a Prices,
}

impl Others<'_> {
    /// Why one part of the best shape was chosen: what its alternatives would give. `with` replaces this part.
    fn because(&self, what: &str, with: &dyn Fn(&Shape) -> Shape) -> String {
        let (shape, _) = self.best;
        let mut out = String::new();
        let alike = self.all.iter().filter(|(other, _)| with(other) == *other);
        for (other, expected) in alike {
            let name = match what {
                "codec" => settings_name(other.compression),
                "cluster size" => size(other.cluster_bytes),
                _ => other.object_size.map_or_else(String::new, object_name),
            };
            let verdict = match *other == shape {
                true => " (chosen)",
                false if expected.seconds > self.fastest * MOST => " (too slow)",
                false => "",
            };
            let price = match expected.price > 0.0 {
                true => format!(", {}", self.prices.shown(expected.price)),
                false => String::new(),
            };
            let separator = if out.is_empty() { "" } else { "; " };
            let _ = write!(
                out,
                "{separator}{name}: {}, {} stored, {}{price}{verdict}",
                seconds(expected.seconds),
                bytes(expected.bytes),
                plural(expected.requests, "request"),
            );
        }
        format!("{what} → {out}")
    }
}

fn size(n: u64) -> String {
    Granularity::Objects(ObjectSize::Bytes(n)).name()
}

/// A size in MiB or KiB, as options take it.
fn exact(n: u64) -> String {
    size(n).replace(' ', "")
}

fn object_name(size: ObjectSize) -> String {
    Granularity::Objects(size).name()
}

impl Model<'_> {
    /// Stored size of all pages.
    fn stored(&self, trial: &Trial) -> f64 {
        let columns = self.columns.iter().zip(&trial.parts);
        columns
            .map(|(column, part)| real(column.packed) * part)
            .sum()
    }

    /// The sizes of clusters: a writer must have memory for them, and each worker a cluster, if there are enough.
    fn clusters(&self, trial: &Trial) -> Vec<u64> {
        let stored = self.stored(trial);
        let smallest = CLUSTERS.first().copied().unwrap_or(1);
        let fits = |cluster: &u64| {
            let options = WriteOptions {
                cluster_bytes: *cluster,
                ..WriteOptions::default()
            };
            let is_shared = stored / real(*cluster) >= real(self.options.workers);
            *cluster == smallest || options.memory() <= MEMORY && is_shared
        };
        CLUSTERS.into_iter().filter(fits).collect()
    }

    fn object_sizes(&self) -> Vec<Option<ObjectSize>> {
        match self.options.destination {
            Destination::File | Destination::RemoteFile | Destination::Object => vec![None],
            Destination::Objects => OBJECTS.into_iter().map(Some).collect(),
            // values belong to one column of a cluster
            Destination::Daos => {
                let most = |size: &ObjectSize| match size {
                    ObjectSize::Page => true,
                    ObjectSize::Bytes(size) => *size <= 16 << 20,
                    ObjectSize::Cluster => false,
                };
                OBJECTS.into_iter().filter(most).map(Some).collect()
            }
        }
    }

    /// What is expected of a shape. All clusters are alike.
    fn expected(&self, shape: &Shape, trial: &Trial) -> Result<Expected, RNTupleError> {
        let options = self.options;
        let stored = self.stored(trial);
        let n_clusters = whole((stored / real(shape.cluster_bytes)).ceil().max(1.0));
        let cluster = self.cluster(shape, trial, n_clusters);
        let fetch = match options.destination {
            Destination::Daos => FetchCost {
                requests: cluster.wanted.len() as u64,
                bytes: cluster.wanted.iter().map(|stored| stored.size).sum(),
                ..FetchCost::default()
            },
            _ => cost_of(&self.store, &cluster.wanted),
        };
        let requests = fetch.requests * n_clusters;
        let bytes_read = fetch.bytes * n_clusters;
        // vector reads take ranges of several clusters
        let in_flight = match options.destination {
            Destination::Daos => requests.div_ceil(DAOS_IN_FLIGHT as u64),
            _ => {
                let ranges = requests.div_ceil(self.cost.most_ranges as u64);
                let vectors = ranges.max(bytes_read.div_ceil(self.cost.largest_vector.max(1)));
                vectors.div_ceil(self.cost.concurrency.max(1) as u64)
            }
        };
        // anchor, then header and footer, then page lists
        let opening = 3;
        let packed: u64 = self
            .columns
            .iter()
            .filter(|column| column.is_read)
            .map(|column| column.packed)
            .sum();
        let decompressing = real(packed) / (trial.speed * real(options.threads.max(1) as u64));
        let transfer = real(bytes_read) / options.bandwidth.max(1.0);
        let waiting = options.round_trip.as_secs_f64() * real(opening + in_flight);
        let envelopes = 3;
        let bytes = cluster.objects.iter().sum::<u64>() * n_clusters;
        let (mut puts, mut price) = (0, 0.0);
        if options.destination == Destination::Object {
            puts = ObjectSink::upload_requests(bytes, &Settings::default())?.puts;
        } else if !options.destination.is_file() {
            puts = envelopes + 1;
            for &object in &cluster.objects {
                puts += match options.destination {
                    Destination::Objects => {
                        Uploads::requests(object, &Settings::default())?.puts * n_clusters
                    }
                    _ => n_clusters,
                };
            }
        }
        if options.destination.has_prices() {
            let prices = &options.cost.prices;
            price = prices.requests(puts, requests + 4) + prices.month(bytes);
        }
        Ok(Expected {
            clusters: n_clusters,
            objects: match options.destination.is_file() {
                true => 1,
                false => envelopes + cluster.objects.len() as u64 * n_clusters,
            },
            puts,
            bytes,
            requests: requests + 4,
            bytes_read,
            seconds: waiting + transfer.max(decompressing),
            price,
        })
    }

    /// A cluster: pages of columns in their order, packed as the writer does.
    fn cluster(&self, shape: &Shape, trial: &Trial, n_clusters: u64) -> ClusterLayout {
        let mut out = ClusterLayout::default();
        let is_daos = self.options.destination == Destination::Daos;
        let mut at = 0;
        for (column, part) in self.columns.iter().zip(&trial.parts) {
            let packed = column.packed.div_ceil(n_clusters);
            let n_pages = packed.div_ceil(shape.page_bytes.max(1));
            if n_pages == 0 {
                continue;
            }
            let page = whole(real(packed) * part / real(n_pages)) + 8;
            let mut is_open = !is_daos;
            for _ in 0..n_pages {
                let address = match shape.object_size {
                    None => PageAddress::File(at),
                    Some(size) => {
                        let last = out.objects.last().copied().filter(|_| is_open);
                        let has_room = last.is_some_and(|filled| size.has_room(filled, page));
                        if !has_room {
                            out.objects.push(0);
                        }
                        is_open = true;
                        let offset = last.filter(|_| has_room).unwrap_or(0);
                        PageAddress::Object {
                            id: out.objects.len() as u64,
                            offset: u32::try_from(offset).unwrap_or(u32::MAX),
                        }
                    }
                };
                match (shape.object_size, out.objects.last_mut()) {
                    (None, None) => out.objects.push(page),
                    (_, Some(filled)) => *filled += page,
                    (Some(_), None) => {}
                }
                at += page;
                if column.is_read {
                    out.want(address, page, is_daos);
                }
            }
        }
        out
    }
}

/// The objects of a cluster, and what a pass reads of them.
#[derive(Debug, Default)]
struct ClusterLayout {
    objects: Vec<u64>,
    wanted: Vec<StoredRange>,
}

impl ClusterLayout {
    /// Adds a wanted page; values are read as a whole.
    fn want(&mut self, address: PageAddress, page: u64, is_value: bool) {
        match self.wanted.last_mut() {
            Some(last) if is_value && last.address.object() == address.object() => {
                last.size += page;
            }
            _ => self.wanted.push(StoredRange {
                address,
                size: page,
            }),
        }
    }
}

/// A number that was computed, as a whole one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes of files are small enough"
)]
fn whole(value: f64) -> u64 {
    value.max(0.0) as u64
}

impl Shape {
    /// The options of `fb migrate`, with their values.
    #[must_use]
    pub fn options(&self) -> Vec<(&'static str, String)> {
        let compression = settings_name(self.compression).replace(' ', ":");
        let compression = compression.replace("uncompressed", "none");
        let mut out = vec![
            ("compression", compression),
            ("cluster_size", exact(self.cluster_bytes)),
            ("page_size", exact(self.page_bytes)),
        ];
        let size = self.object_size.map(|size| match size {
            ObjectSize::Bytes(n) => exact(n),
            _ => object_name(size),
        });
        out.extend(size.map(|size| ("object_size", size)));
        out
    }
}

impl Advice {
    /// The advice, what is expected, and the alternatives, one line each.
    #[must_use]
    pub fn text(&self) -> String {
        let (shape, expected) = (self.shape, self.expected);
        let object_size = shape.object_size.map_or_else(String::new, |size| {
            format!("objects: {}, ", object_name(size))
        });
        let mut out = format!(
            "{}: pages: {}, {object_size}clusters: {}, codec: {}\n",
            self.destination.name(),
            size(shape.page_bytes),
            size(shape.cluster_bytes),
            settings_name(shape.compression),
        );
        let written = match expected.puts {
            0 => String::new(),
            n => format!(
                " in {} by {}",
                plural(expected.objects, "object"),
                plural(n, "request")
            ),
        };
        let _ = writeln!(out, "stored: {}{written}", bytes(expected.bytes));
        let _ = writeln!(
            out,
            "a pass: {}, {}, {}",
            plural(expected.requests, "request"),
            bytes(expected.bytes_read),
            seconds(expected.seconds),
        );
        if expected.price > 0.0 {
            let price = self.prices.shown(expected.price);
            let _ = writeln!(out, "writing, a pass, and storage for a month: {price}");
        }
        for trial in &self.trials {
            let speed = bytes(whole(trial.speed));
            let _ = writeln!(out, "sample: {}: decompressed at {speed}/s", trial.name());
        }
        for reason in &self.reasons {
            let lines = reason.replace(" → ", ":\n  ").replace("; ", "\n  ");
            let _ = writeln!(out, "{lines}");
        }
        out
    }

    /// The same as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Expected {
            clusters,
            objects,
            puts,
            bytes,
            requests,
            bytes_read,
            seconds,
            price,
        } = self.expected;
        let trials = self.trials.iter();
        let trials = trials.map(|trial| json!({"compression": trial.name(), "speed": trial.speed}));
        json!({
            "destination": self.destination.name(),
            "options": self.shape.options().into_iter().collect::<BTreeMap<_, _>>(),
            "expected": {
                "clusters": clusters,
                "objects": objects,
                "puts": puts,
                "bytes": bytes,
                "requests": requests,
                "bytes_read": bytes_read,
                "seconds": seconds,
                "price": price,
            },
            "trials": trials.collect::<Vec<_>>(),
            "reasons": self.reasons,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 columns of 100 MB each. A pass reads five of them.
    fn columns() -> Vec<ColumnVolume> {
        let column = |at| ColumnVolume {
            packed: 100_000_000,
            stored: 40_000_000,
            is_read: at % 20 == 0,
        };
        (0..100).map(column).collect()
    }

    fn trial(settings: u32, part: f64, speed: f64) -> Trial {
        Trial {
            settings,
            parts: vec![part; 100],
            speed,
        }
    }

    fn options(destination: Destination) -> AdviceOptions {
        let cost = CostOptions {
            columns: Vec::new(),
            trace: None,
            prices: Prices::usual().unwrap(),
            settings: BTreeMap::new(),
        };
        AdviceOptions::new(cost, destination)
    }

    fn codecs() -> Vec<Trial> {
        vec![
            trial(0, 1.0, 20e9),
            trial(505, 0.4, 1e9),
            trial(207, 0.3, 80e6),
        ]
    }

    #[test]
    fn the_codec_follows_from_the_bandwidth() {
        let chosen = |bandwidth, threads| {
            let options = AdviceOptions {
                bandwidth,
                threads,
                ..options(Destination::Objects)
            };
            choose(&columns(), codecs(), &options)
                .unwrap()
                .shape
                .compression
        };
        assert_eq!(chosen(1e9, 4), 505);
        assert_eq!(chosen(10e9, 1), 0);
        assert_eq!(chosen(10e6, 16), 207);
    }

    #[test]
    fn the_object_size_follows_from_latency_and_price() {
        let advice = choose(&columns(), codecs(), &options(Destination::Objects)).unwrap();
        let size = advice.shape.object_size.unwrap();
        assert!(
            size == ObjectSize::Cluster || matches!(size, ObjectSize::Bytes(n) if n >= 4 << 20),
            "{advice:?}"
        );
        let all = "object size → page: ";
        assert!(
            advice.reasons.iter().any(|reason| reason.starts_with(all)),
            "{advice:?}"
        );
        assert!(advice.reasons.iter().all(|reason| !reason.ends_with("→ ")));
        // one request for each of five columns in a cluster, if no object ends there
        let cluster = advice.expected;
        assert!(cluster.requests >= 5 * cluster.clusters + 4);
        assert!(cluster.bytes > 3_900_000_000 && cluster.bytes < 4_100_000_000);
        assert!(advice.text().contains("a pass: "), "{}", advice.text());
        assert_eq!(advice.to_json()["options"]["compression"], "zstd:5");
    }

    #[test]
    fn values_of_daos_hold_pages_of_one_column_and_files_have_no_objects() {
        let daos = choose(&columns(), codecs(), &options(Destination::Daos)).unwrap();
        assert!(
            daos.shape
                .object_size
                .is_some_and(|size| size != ObjectSize::Cluster)
        );
        assert!(daos.expected.bytes_read * 20 <= daos.expected.bytes + 20);
        assert!(daos.expected.price == 0.0);
        let file = choose(&columns(), codecs(), &options(Destination::File)).unwrap();
        assert_eq!((file.shape.object_size, file.expected.objects), (None, 1));
        assert_eq!(file.expected.puts, 0);
    }

    #[test]
    fn clusters_are_enough_for_all_workers_and_fit_memory() {
        let chosen = |workers| {
            let options = AdviceOptions {
                workers,
                ..options(Destination::Objects)
            };
            choose(&columns(), codecs(), &options).unwrap()
        };
        let many = chosen(100);
        assert!(many.expected.clusters >= 100, "{many:?}");
        assert!(many.shape.cluster_bytes <= chosen(1).shape.cluster_bytes);
    }
}
