//! What a trace contains, and how its replay compares, by the measures of `xrdreplay`.

use std::fmt::Write;
use std::time::Duration;

use femtobarn_io::units::{bytes, count};
use femtobarn_io::{Access, Action, Operation, Rates, plot};
use serde_json::{Value, json};

use super::{OpenFile, Played, Trace};

/// Bins of plots over time, and their rows.
const BINS: usize = 40;
const ROWS: usize = 4;

/// Errors that are shown.
const MOST_ERRORS: usize = 5;

/// Number of operations and bytes of reads, or of writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Volume {
    /// Operations on one range, on several, and with checksums of pages.
    pub operations: [u64; 3],
    /// Bytes of these.
    pub n_bytes: [u64; 3],
    /// Open files.
    pub files: u64,
    /// Sum over the files of one past the last byte.
    pub size: u64,
}

impl Volume {
    fn add(&mut self, access: Access, action: &Action) {
        let at = match access {
            Access::Single => 0,
            Access::Vector => 1,
            Access::Page => 2,
        };
        if let (Some(n), Some(sum)) = (self.operations.get_mut(at), self.n_bytes.get_mut(at)) {
            *n += 1;
            *sum += action.n_bytes();
        }
    }

    /// All operations.
    #[must_use]
    pub fn n_operations(&self) -> u64 {
        self.operations.iter().sum()
    }

    /// All bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.n_bytes.iter().sum()
    }
}

/// The operations on one open file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSummary {
    /// Its URL, without secrets.
    pub url: String,
    /// Reads.
    pub read: Volume,
    /// Writes.
    pub written: Volume,
    /// Operations that had failed.
    pub failed: u64,
    /// The share, in percent, of operations that began after the one before had ended; none of a single operation.
    pub synchronicity: Option<f64>,
}

impl FileSummary {
    fn of(file: &OpenFile<'_>) -> Self {
        let mut out = Self {
            url: file.shown(),
            read: Volume::default(),
            written: Volume::default(),
            failed: (file.actions.len() - file.done().count()) as u64,
            synchronicity: synchronicity(file),
        };
        for action in file.done() {
            match &action.operation {
                Operation::Open { .. } if action.operation.writes() => out.written.files += 1,
                Operation::Open { .. } => out.read.files += 1,
                Operation::Read(access, _) => out.read.add(*access, action),
                Operation::Write(access, ranges) => {
                    out.written.add(*access, action);
                    let ends = ranges.iter().map(|range| range.end);
                    out.written.size = ends.max().unwrap_or(0).max(out.written.size);
                }
                _ => {}
            }
        }
        out.read.size = file.n_needed();
        out
    }
}

fn synchronicity(file: &OpenFile<'_>) -> Option<f64> {
    let pairs = file.actions.windows(2);
    let pairs = pairs.filter_map(|pair| match pair {
        [(_, before), (_, after)] => Some(after.start > before.stop),
        _ => None,
    });
    share(pairs.map(|is_after| if is_after { 100.0 } else { 0.0 }))
}

/// The mean; none of nothing.
fn share(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.fold((0.0, 0.0), |(n, sum), value| (n + 1.0, sum + value));
    (n > 0.0).then(|| sum / n)
}

/// A trace, and how its replay compares.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Time from the first start to the last end.
    pub recorded: Duration,
    /// Reads of all files.
    pub read: Volume,
    /// Writes to all files.
    pub written: Volume,
    /// The mean over files that were only read, and over files that were written, in percent.
    pub synchronicity: [Option<f64>; 2],
    /// Operations that had failed.
    pub failed: u64,
    /// Each open file.
    pub files: Vec<FileSummary>,
    /// The replay, if there was one.
    pub replay: Option<Compared>,
    rates: [Option<Rates>; 2],
}

/// A replay in comparison with its trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// How long it took.
    pub runtime: Duration,
    /// Bytes that were read again.
    pub n_bytes: u64,
    /// Operations that were not made.
    pub skipped: u64,
    /// Operations that failed.
    pub failed: u64,
    /// The first errors.
    pub errors: Vec<String>,
    /// Recorded time, divided by the time of the replay, in percent.
    pub performance_mark: Option<f64>,
    /// The same of the sums of the times of reads.
    pub gain_mark: Option<f64>,
}

impl Summary {
    /// Of a trace, and of its replay if it was replayed.
    #[must_use]
    pub fn of(trace: &Trace, played: Option<&Played>) -> Self {
        let files: Vec<_> = trace.files().iter().map(FileSummary::of).collect();
        let extent = trace.extent();
        let recorded = extent.map(|(first, last)| last.saturating_sub(first));
        let recorded = recorded.unwrap_or_default();
        let sum = |of: fn(&FileSummary) -> Volume| {
            files
                .iter()
                .map(of)
                .fold(Volume::default(), |mut sum, one| {
                    let parts = sum.operations.iter_mut().chain(&mut sum.n_bytes);
                    for (part, more) in parts.zip(one.operations.into_iter().chain(one.n_bytes)) {
                        *part += more;
                    }
                    sum.files += one.files;
                    sum.size += one.size;
                    sum
                })
        };
        let synchronicity = [false, true].map(|is_written| {
            let of_kind = files
                .iter()
                .filter(|file| (file.written.total() > 0) == is_written);
            share(of_kind.filter_map(|file| file.synchronicity))
        });
        let origin = extent.map_or(Duration::ZERO, |(first, _)| first);
        let reads = trace.actions().iter().filter(|action| is_read(action));
        let reads = reads.map(|a| (a.start.saturating_sub(origin), a.duration(), a.n_bytes()));
        let replayed = played.map(|played| rates(replayed_reads(trace, played)));
        Self {
            recorded,
            read: sum(|file| file.read),
            written: sum(|file| file.written),
            synchronicity,
            failed: files.iter().map(|file| file.failed).sum(),
            replay: played.map(|played| Compared::of(trace, played, recorded)),
            rates: [rates(reads), replayed.flatten()],
            files,
        }
    }

    /// In some lines, for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(out, "{name:<20} {value}");
        };
        if let Some(replay) = &self.replay {
            line(
                "replayed in",
                format!("{:.3} s", replay.runtime.as_secs_f64()),
            );
        }
        line(
            "recorded in",
            format!("{:.3} s", self.recorded.as_secs_f64()),
        );
        for (verb, volume) in [("read", &self.read), ("written", &self.written)] {
            if volume.files == 0 && volume.n_operations() == 0 {
                continue;
            }
            line(verb, by_access(volume.total(), volume.n_bytes, bytes));
            line(
                &format!("{verb} operations"),
                by_access(volume.n_operations(), volume.operations, count),
            );
            line(
                &format!("{verb} files"),
                format!(
                    "{}, {} up to the last byte",
                    count(volume.files),
                    bytes(volume.size)
                ),
            );
        }
        let mark =
            |mark: Option<f64>| mark.map_or_else(|| "?".to_owned(), |mark| format!("{mark:.2} %"));
        if let Some(replay) = &self.replay {
            line(
                "bandwidth",
                format!("{}/s", bytes(per_second(replay.n_bytes, replay.runtime))),
            );
            line("performance mark", mark(replay.performance_mark));
            line("gain mark", mark(replay.gain_mark));
        }
        for (name, value) in [
            ("reads", self.synchronicity[0]),
            ("writes", self.synchronicity[1]),
        ] {
            if value.is_some() {
                line("synchronicity", format!("{} of {name}", mark(value)));
            }
        }
        line(
            "failed",
            match &self.replay {
                Some(replay) => format!("{}, and {} when recorded", replay.failed, self.failed),
                None => self.failed.to_string(),
            },
        );
        if let Some(replay) = &self.replay {
            line("not replayed", count(replay.skipped));
            for error in &replay.errors {
                line("error", error.clone());
            }
        }
        for (name, rates) in ["recorded", "replayed"].into_iter().zip(&self.rates) {
            if let Some((width, rates)) = rates.as_ref().and_then(|rates| rates.over(BINS)) {
                let most = rates.iter().copied().fold(0.0, f64::max);
                let _ = writeln!(
                    out,
                    "rate of reads as {name}, up to {}/s, {width:.3} s per bar:\n{}",
                    bytes(whole(most)),
                    plot(&rates, ROWS)
                );
            }
        }
        out
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let volume = |volume: &Volume| {
            let [single, vector, page] = volume.n_bytes;
            let [n_single, n_vector, n_page] = volume.operations;
            json!({
                "bytes": volume.total(),
                "single_bytes": single,
                "vector_bytes": vector,
                "page_bytes": page,
                "operations": volume.n_operations(),
                "single_operations": n_single,
                "vector_operations": n_vector,
                "page_operations": n_page,
                "files": volume.files,
                "data_size": volume.size,
            })
        };
        let files = self.files.iter().map(|file| {
            json!({
                "url": file.url,
                "read": volume(&file.read),
                "written": volume(&file.written),
                "synchronicity": file.synchronicity,
                "failed": file.failed,
            })
        });
        let replay = self.replay.as_ref().map(|replay| {
            json!({
                "seconds": replay.runtime.as_secs_f64(),
                "bytes": replay.n_bytes,
                "bandwidth": per_second(replay.n_bytes, replay.runtime),
                "performance_mark": replay.performance_mark,
                "gain_mark": replay.gain_mark,
                "skipped": replay.skipped,
                "failed": replay.failed,
                "errors": replay.errors,
            })
        });
        json!({
            "recorded_seconds": self.recorded.as_secs_f64(),
            "read": volume(&self.read),
            "written": volume(&self.written),
            "read_synchronicity": self.synchronicity[0],
            "write_synchronicity": self.synchronicity[1],
            "failed": self.failed,
            "replay": replay,
            "files": files.collect::<Vec<_>>(),
        })
    }
}

impl Compared {
    fn of(trace: &Trace, played: &Played, recorded: Duration) -> Self {
        let failed = played
            .actions
            .iter()
            .filter_map(|action| action.error.as_ref());
        let (mut then, mut now, mut n_bytes) = (Duration::ZERO, Duration::ZERO, 0);
        for replayed in played
            .actions
            .iter()
            .filter(|action| action.error.is_none())
        {
            if let Some(action) = trace.actions().get(replayed.action).filter(|a| is_read(a)) {
                then += action.duration();
                now += replayed.duration;
                n_bytes += action.n_bytes();
            }
        }
        Self {
            runtime: played.runtime,
            n_bytes,
            skipped: played.skipped,
            failed: failed.clone().count() as u64,
            errors: failed.take(MOST_ERRORS).cloned().collect(),
            performance_mark: mark(recorded, played.runtime),
            gain_mark: mark(then, now),
        }
    }
}

/// Whether it is a read that succeeded.
pub(super) fn is_read(action: &Action) -> bool {
    action.error.is_none() && matches!(action.operation, Operation::Read(..))
}

/// Start, duration and bytes of the reads of a replay.
pub(super) fn replayed_reads<'a>(
    trace: &'a Trace,
    played: &'a Played,
) -> impl Iterator<Item = (Duration, Duration, u64)> + 'a {
    let fine = played
        .actions
        .iter()
        .filter(|action| action.error.is_none());
    fine.filter_map(|replayed| {
        let action = trace
            .actions()
            .get(replayed.action)
            .filter(|a| is_read(a))?;
        Some((replayed.start, replayed.duration, action.n_bytes()))
    })
}

/// Bytes over time; none without reads.
pub(super) fn rates(reads: impl Iterator<Item = (Duration, Duration, u64)>) -> Option<Rates> {
    let mut rates = None;
    for (start, duration, n_bytes) in reads {
        let rates = rates.get_or_insert_with(|| Rates::since(Duration::ZERO));
        rates.add(start, duration, n_bytes);
    }
    rates
}

fn mark(then: Duration, now: Duration) -> Option<f64> {
    (!now.is_zero()).then(|| 100.0 * then.as_secs_f64() / now.as_secs_f64())
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn per_second(n_bytes: u64, time: Duration) -> u64 {
    whole(n_bytes as f64 / time.as_secs_f64().max(1e-9))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts saturate"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// A sum, and its parts that are not 0.
fn by_access(sum: u64, parts: [u64; 3], shown: fn(u64) -> String) -> String {
    let parts = parts.into_iter().zip(["single", "vector", "page"]);
    let parts: Vec<_> = parts
        .filter(|(n, _)| *n > 0)
        .map(|(n, name)| format!("{} {name}", shown(n)))
        .collect();
    match parts.len() {
        0 => shown(sum),
        _ => format!("{}: {}", shown(sum), parts.join(", ")),
    }
}
