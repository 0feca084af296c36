//! The report for people.

use std::fmt::Write;

use super::Report;
use crate::units::{bytes, count, plural};
use crate::usage::{BINS, percent, rate_lines, three};

/// Rows of the plot over time.
const ROWS: usize = 5;

impl Report {
    /// All of it, in some lines.
    #[must_use]
    pub fn text(&self) -> String {
        let (figures, totals) = (&self.figures, &self.read.totals);
        let processor = figures.user + figures.system;
        let counts = totals.counts(figures.real, processor);
        let all = self.all_servers();
        let mut out = format!(
            "report of {}, process {}\n{counts}\n",
            self.program, self.pid,
        );
        let _ = writeln!(
            out,
            "{} opened {} in {} s, summed over threads; {} could not be opened",
            plural(totals.files, "file"),
            plural(totals.opened, "time"),
            three(all.opening.as_secs_f64()),
            all.not_opened,
        );
        let known = |value: Option<u64>| value.map_or_else(|| "?".to_owned(), bytes);
        let _ = writeln!(
            out,
            "{} s user, {} s system; {}; {} of memory ({} at most, {} as shared with others)",
            three(figures.user.as_secs_f64()),
            three(figures.system.as_secs_f64()),
            plural(figures.threads, "thread"),
            known(figures.rss),
            known(figures.peak_rss),
            known(figures.pss),
        );
        let _ = writeln!(
            out,
            "{} read and {} written by system calls, {} and {} of that on disks",
            known(figures.read_chars),
            known(figures.written_chars),
            known(figures.read_bytes),
            known(figures.written_bytes),
        );
        let _ = writeln!(
            out,
            "{} received and {} sent by network interfaces of the machine",
            known(figures.received_bytes),
            known(figures.sent_bytes),
        );
        out.push_str(&self.servers_text(all.reads.bytes()));
        if let Some(over_time) = totals.rates.over(BINS) {
            out.push_str(&rate_lines(&over_time, ROWS));
            out.push('\n');
        }
        out
    }

    /// A table with a line for each server.
    fn servers_text(&self, all: u64) -> String {
        let titles = [
            "server",
            "opened",
            "opening",
            "bytes",
            "share",
            "reads",
            "vector reads",
            "ranges",
            "requests",
            "retried",
            "failed",
            "waiting",
        ];
        let mut rows = vec![titles.map(str::to_owned)];
        for (name, server) in &self.read.servers {
            let reads = server.reads;
            rows.push([
                name.clone(),
                count(server.opened),
                format!("{} s", three(server.opening.as_secs_f64())),
                bytes(reads.bytes()),
                percent(reads.bytes(), all),
                count(reads.single.n),
                count(reads.vector.n),
                count(reads.ranges.sum),
                count(server.traffic.requests),
                count(server.traffic.retries),
                count(reads.failed),
                format!("{} s", three(reads.waiting.as_secs_f64())),
            ]);
        }
        let width = |at: usize| {
            let cells = rows.iter().filter_map(|row| row.get(at));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let mut out = String::new();
        for row in &rows {
            let cells = row.iter().enumerate().map(|(at, cell)| match at {
                0 => format!("{cell:<0$}", width(at)),
                _ => format!("{cell:>0$}", width(at)),
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out
    }
}
