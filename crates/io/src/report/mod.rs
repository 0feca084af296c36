//! The report: what this process has read, from where, how fast, and what it has used for it.

mod at_exit;
mod process;
mod prometheus;
mod text;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

pub(crate) use at_exit::report_if_set;
pub use at_exit::{ReportTo, report_at_exit};
use process::Figures;

use crate::meter::Traffic;
use crate::usage::{Process, ServerTotals, process_totals};

/// What this process has read so far.
#[derive(Debug, Clone)]
pub struct Report {
    program: String,
    pid: u32,
    end: SystemTime,
    figures: Figures,
    read: Process,
}

impl Report {
    /// Everything until now.
    #[must_use]
    pub fn now() -> Self {
        let program = std::env::args_os().next().unwrap_or_default();
        let program = std::path::Path::new(&program)
            .file_name()
            .unwrap_or_default();
        Self {
            program: program.to_string_lossy().into_owned(),
            pid: std::process::id(),
            end: SystemTime::now(),
            figures: Figures::now(),
            read: process_totals(),
        }
    }

    /// A summary of what was read, in some lines; `real` and `processor` are the times taken.
    #[must_use]
    pub fn summary(&self, real: Duration, processor: Duration) -> String {
        let totals = self.read.totals.summary(real, processor);
        format!("{totals}{}", self.read.sources)
    }

    /// All of it, for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let (figures, totals) = (&self.figures, &self.read.totals);
        let (metered, cached) = (totals.metered, totals.cached);
        let servers = self.read.servers.iter();
        let servers = servers.map(|(name, server)| (name.clone(), server_json(server)));
        let all = self.all_servers();
        let rates = totals.rates.over(crate::usage::BINS).map(|(width, rates)| {
            json!({
                "peak": crate::usage::peak(&rates),
                "mean": crate::usage::mean(&rates),
                "seconds_per_bin": width,
                "bins": rates,
            })
        });
        json!({
            "program": self.program,
            "pid": self.pid,
            "start_time": seconds(self.end) - figures.real.as_secs_f64(),
            "end_time": seconds(self.end),
            "real_seconds": figures.real.as_secs_f64(),
            "user_seconds": figures.user.as_secs_f64(),
            "system_seconds": figures.system.as_secs_f64(),
            "memory": {
                "rss": figures.rss,
                "peak_rss": figures.peak_rss,
                "pss": figures.pss,
                "swap": figures.swap,
            },
            "threads": figures.threads,
            "io": {
                "rchar": figures.read_chars,
                "wchar": figures.written_chars,
                "read_bytes": figures.read_bytes,
                "write_bytes": figures.written_bytes,
            },
            "network": {
                "rx_bytes": figures.received_bytes,
                "tx_bytes": figures.sent_bytes,
            },
            "files": {
                "opened": totals.opened,
                "different": totals.files,
                "size": totals.size,
                "opening_seconds": all.opening.as_secs_f64(),
                "not_opened": all.not_opened,
            },
            "reads": {
                "vectors": metered.vectors,
                "ranges": metered.ranges,
                "bytes": metered.bytes,
                "used_bytes": metered.used,
                "failed": metered.failed,
                "waiting_seconds": metered.waiting.as_secs_f64(),
                "requests": totals.traffic.requests,
                "retries": totals.traffic.retries,
            },
            "cache": {
                "hits": cached.hits,
                "misses": cached.misses,
                "hit_rate": hit_rate(cached.hits, cached.misses),
                "read_hit_rate": hit_rate(cached.single_hits, cached.single_misses),
                "readv_hit_rate": hit_rate(
                    cached.hits - cached.single_hits,
                    cached.misses - cached.single_misses,
                ),
                "bytes": cached.hit_bytes,
                "fetched_bytes": cached.fetched_bytes,
                "bad_entries": cached.bad,
            },
            "rates": rates,
            "servers": serde_json::Map::from_iter(servers),
        })
    }

    /// The sums over all servers.
    fn all_servers(&self) -> ServerTotals {
        let mut sums = ServerTotals::default();
        for server in self.read.servers.values() {
            sums.opened += server.opened;
            sums.not_opened += server.not_opened;
            sums.opening += server.opening;
            sums.reads += server.reads;
            sums.traffic += server.traffic;
        }
        sums
    }
}

fn server_json(server: &ServerTotals) -> Value {
    let (reads, Traffic { requests, retries }) = (server.reads, server.traffic);
    json!({
        "opened": server.opened,
        "not_opened": server.not_opened,
        "opening_seconds": server.opening.as_secs_f64(),
        "bytes": reads.bytes(),
        "single_reads": reads.single.n,
        "single_bytes": reads.single.sum,
        "vector_reads": reads.vector.n,
        "vector_ranges": reads.ranges.sum,
        "vector_bytes": reads.vector.sum,
        "failed": reads.failed,
        "waiting_seconds": reads.waiting.as_secs_f64(),
        "requests": requests,
        "retries": retries,
    })
}

fn seconds(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

/// The share of ranges that a cache had; none if it was not asked.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn hit_rate(hits: u64, misses: u64) -> Option<f64> {
    let all = hits + misses;
    (all > 0).then(|| hits as f64 / all as f64)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{MemorySource, MeteredSource, OriginSource, Settings};

    /// Reads 3 and 2 + 4 bytes of a file at this URL.
    pub fn read_some(url: &str) {
        let settings = Settings::of("mem:x");
        let memory = || Ok(MemorySource::new(url, b"0123456789".to_vec()) as _);
        let source = OriginSource::open(url, &settings, false, memory).unwrap();
        let source = MeteredSource::of(source, &settings).unwrap();
        source.read_ranges(&[0..3]).unwrap();
        source.read_ranges(&[0..2, 5..9]).unwrap();
        source.read_ranges(&[9..11]).unwrap_err();
    }

    #[test]
    fn a_report_counts_open_and_closed_files_of_each_server() {
        let server = "root://me:secret@counted.org:1094//f?authz=secret";
        let settings = Settings::of("mem:x");
        read_some(server);
        let refused = || Err(crate::IoError::NotFound { url: String::new() });
        OriginSource::open(server, &settings, false, refused).unwrap_err();
        let memory = || Ok(MemorySource::new("mem:x", b"0123456789".to_vec()) as _);
        let open = OriginSource::open(server, &settings, false, memory).unwrap();
        open.read_into(2, &mut [0; 5]).unwrap();
        let report = Report::now();
        let json = report.json();
        let found = &json["servers"]["root://counted.org:1094"];
        for (name, expected) in [
            ("opened", 2),
            ("not_opened", 1),
            ("bytes", 14),
            ("single_reads", 2),
            ("vector_reads", 1),
            ("vector_ranges", 2),
            ("failed", 1),
        ] {
            assert_eq!(found[name], expected, "{name} in {found}");
        }
        assert!(json["reads"]["bytes"].as_u64() >= Some(9));
        assert!(json["memory"]["rss"].as_u64() > Some(1 << 20));
        for text in [json.to_string(), report.text(), report.prometheus()] {
            assert!(text.contains("counted.org"), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }
}
