//! The report in the text format of Prometheus.

use std::fmt::Write;

use super::Report;
use crate::units::real;
use crate::usage::ServerTotals;

/// A figure of a server.
type OfServer = fn(&ServerTotals) -> f64;

impl Report {
    /// All counters, as Prometheus reads them.
    #[must_use]
    pub fn prometheus(&self) -> String {
        let (figures, totals) = (&self.figures, &self.read.totals);
        let metered = totals.metered;
        let mut out = String::new();
        let single = [
            (
                "opened_total",
                "counter",
                "Times a file was opened.",
                real(totals.opened),
            ),
            ("files", "gauge", "Different files.", real(totals.files)),
            (
                "file_size_bytes",
                "gauge",
                "Size of all different files.",
                real(totals.size),
            ),
            (
                "read_bytes_total",
                "counter",
                "Bytes that were read.",
                real(metered.bytes),
            ),
            (
                "used_bytes_total",
                "counter",
                "Bytes of these that were needed.",
                real(metered.used),
            ),
            (
                "cache_hits_total",
                "counter",
                "Ranges that a cache had.",
                real(totals.cached.hits),
            ),
            (
                "cache_misses_total",
                "counter",
                "Ranges that a cache did not have.",
                real(totals.cached.misses),
            ),
            (
                "cache_bytes_total",
                "counter",
                "Bytes from a cache.",
                real(totals.cached.hit_bytes),
            ),
            (
                "user_seconds_total",
                "counter",
                "CPU time of the program.",
                figures.user.as_secs_f64(),
            ),
            (
                "system_seconds_total",
                "counter",
                "CPU time of the system.",
                figures.system.as_secs_f64(),
            ),
            (
                "real_seconds",
                "gauge",
                "Wall time since the start.",
                figures.real.as_secs_f64(),
            ),
            (
                "threads",
                "gauge",
                "Number of threads.",
                real(figures.threads),
            ),
        ];
        for (name, kind, help, value) in single {
            head(&mut out, name, kind, help);
            let _ = writeln!(out, "femtobarn_{name} {value}");
        }
        let (memory, network) = ("Memory of the process.", "Bytes of network interfaces.");
        let known = [
            ("rss_bytes", memory, figures.rss),
            ("peak_rss_bytes", memory, figures.peak_rss),
            ("pss_bytes", memory, figures.pss),
            ("rx_bytes", network, figures.received_bytes),
            ("tx_bytes", network, figures.sent_bytes),
        ];
        for (name, help, value) in known {
            if let Some(value) = value {
                head(&mut out, name, "gauge", help);
                let _ = writeln!(out, "femtobarn_{name} {value}");
            }
        }
        let of_servers: [(&str, &str, OfServer); 9] = [
            ("opened_total", "Times a file was opened.", |s| {
                real(s.opened)
            }),
            (
                "not_opened_total",
                "Times a file could not be opened.",
                |s| real(s.not_opened),
            ),
            ("opening_seconds_total", "Time in opening.", |s| {
                s.opening.as_secs_f64()
            }),
            ("read_bytes_total", "Bytes that were read.", |s| {
                real(s.reads.bytes())
            }),
            ("reads_total", "Reads of one or more ranges.", |s| {
                real(s.reads.single.n + s.reads.vector.n)
            }),
            ("failed_reads_total", "Reads that failed.", |s| {
                real(s.reads.failed)
            }),
            (
                "waiting_seconds_total",
                "Time in reads, summed over threads.",
                |s| s.reads.waiting.as_secs_f64(),
            ),
            ("requests_total", "Requests, including retries.", |s| {
                real(s.traffic.requests)
            }),
            ("retries_total", "Retries.", |s| real(s.traffic.retries)),
        ];
        for (name, help, value) in of_servers {
            head(&mut out, &format!("server_{name}"), "counter", help);
            for (server, totals) in &self.read.servers {
                let value = value(totals);
                let _ = writeln!(
                    out,
                    "femtobarn_server_{name}{{server=\"{}\"}} {value}",
                    label(server)
                );
            }
        }
        out
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(
        out,
        "# HELP femtobarn_{name} {help}\n# TYPE femtobarn_{name} {kind}"
    );
}

/// A value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
