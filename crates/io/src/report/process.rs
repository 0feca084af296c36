//! What the system says about this process, as `prmon` reads it.

use std::fs::read_to_string;
use std::sync::LazyLock;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What a process has used so far; 0 and none where the system does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Wall time since its start.
    pub real: Duration,
    /// CPU time in the program, and in the system for it.
    pub user: Duration,
    pub system: Duration,
    pub threads: u64,
    /// Memory in bytes: resident, its maximum so far, the share of shared pages, swapped out.
    pub rss: Option<u64>,
    pub peak_rss: Option<u64>,
    pub pss: Option<u64>,
    pub swap: Option<u64>,
    /// Bytes of all reads and writes, and of those that reached a disk.
    pub read_chars: Option<u64>,
    pub written_chars: Option<u64>,
    pub read_bytes: Option<u64>,
    pub written_bytes: Option<u64>,
    /// Bytes of all network interfaces but the loopback, of all processes, since this one opened its first file.
    pub received_bytes: Option<u64>,
    pub sent_bytes: Option<u64>,
}

impl Figures {
    pub fn now() -> Self {
        let text = |name| read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let since_boot = Duration::try_from(clock_gettime(ClockId::Boottime));
        let mut now = Self::of(
            &text("stat"),
            ["status", "smaps_rollup", "io"].map(text),
            since_boot.unwrap_or_default(),
            rustix::param::clock_ticks_per_second(),
        );
        let since = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let ([received, sent], then) = (network(), *NETWORK);
        now.received_bytes = since(received, then[0]);
        now.sent_bytes = since(sent, then[1]);
        now
    }

    /// From the files of these names in `/proc/self`, the time since the machine started, and the unit of times.
    fn of(stat: &str, texts: [String; 3], since_boot: Duration, ticks: u64) -> Self {
        let [status, memory, io] = &texts;
        // the name of the program, in brackets, may have spaces
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<u64> = fields
            .split_ascii_whitespace()
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        // numbered from the third field
        let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
        let time = |number| {
            let (whole, rest) = (field(number) / ticks.max(1), field(number) % ticks.max(1));
            Duration::from_secs(whole) + Duration::from_millis(rest * 1000 / ticks.max(1))
        };
        Self {
            real: since_boot.saturating_sub(time(22)),
            user: time(14),
            system: time(15),
            threads: field(20),
            rss: value(status, "VmRSS"),
            peak_rss: value(status, "VmHWM"),
            pss: value(memory, "Pss"),
            swap: value(status, "VmSwap"),
            read_chars: value(io, "rchar"),
            written_chars: value(io, "wchar"),
            read_bytes: value(io, "read_bytes"),
            written_bytes: value(io, "write_bytes"),
            ..Self::default()
        }
    }
}

/// What the network has carried when the first file was opened.
static NETWORK: LazyLock<[Option<u64>; 2]> = LazyLock::new(network);

/// Notes what the network has carried so far, the first time.
pub(super) fn begin() {
    LazyLock::force(&NETWORK);
}

/// Bytes that were received and sent.
fn network() -> [Option<u64>; 2] {
    let text = read_to_string("/proc/self/net/dev").unwrap_or_default();
    [0, 8].map(|column| of_interfaces(&text, column))
}

/// The sum of a column of `/proc/net/dev`, after the names.
fn of_interfaces(text: &str, column: usize) -> Option<u64> {
    let interfaces = text.lines().filter_map(|line| line.split_once(':'));
    let others = interfaces.filter(|(name, _)| name.trim() != "lo");
    let values =
        others.map(|(_, values)| values.split_ascii_whitespace().nth(column)?.parse().ok());
    let values: Vec<u64> = values.collect::<Option<_>>()?;
    values.into_iter().reduce(u64::saturating_add)
}

/// The value of `name: 123` or `name: 123 kB`.
fn value(text: &str, name: &str) -> Option<u64> {
    let line = |line: &&str| line.split_once(':').is_some_and(|(found, _)| found == name);
    let (_, value) = text.lines().find(line)?.split_once(':')?;
    let value = value.trim();
    match value.strip_suffix(" kB") {
        Some(kilobytes) => kilobytes.trim().parse::<u64>().ok()?.checked_mul(1024),
        None => value.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_system() {
        let stat = "7 (a) b c) S 1 7 7 0 -1 4194304 9 0 0 0 150 25 0 0 20 0 3 0 5000 1 2 3";
        let status = "Name:\ta\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nVmSwap:\t       0 kB\n";
        let memory = "5581-7ffc ---p 00000000 00:00 0  [rollup]\nRss:   1024 kB\nPss:    512 kB\nPss_Dirty: 1 kB\n";
        let io = "rchar: 17\nwchar: 5\nread_bytes: 4096\nwrite_bytes: 0\n";
        let texts = [status, memory, io].map(str::to_owned);
        let figures = Figures::of(stat, texts, Duration::from_secs(60), 100);
        assert_eq!(
            figures,
            Figures {
                real: Duration::from_secs(10),
                user: Duration::from_millis(1500),
                system: Duration::from_millis(250),
                threads: 3,
                rss: Some(1 << 20),
                peak_rss: Some(2 << 20),
                pss: Some(512 << 10),
                swap: Some(0),
                read_chars: Some(17),
                written_chars: Some(5),
                read_bytes: Some(4096),
                written_bytes: Some(0),
                ..Figures::default()
            }
        );
        let nothing = ["", "", ""].map(str::to_owned);
        let figures = Figures::of("", nothing, Duration::ZERO, 0);
        assert_eq!(figures, Figures::default());
    }

    #[test]
    fn interfaces_are_added_up_without_the_loopback() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets\n    lo: 7 1 0 0 0 0 0 0 7 1 0\n  \
                    eth0: 100 2 0 0 0 0 0 0 30 1 0\n  eth1:20 2 0 0 0 0 0 0 3 1 0\n";
        assert_eq!(
            [0, 8].map(|column| of_interfaces(text, column)),
            [Some(120), Some(33)]
        );
        assert_eq!(of_interfaces("", 0), None);
    }

    #[test]
    fn this_process_has_figures() {
        let figures = Figures::now();
        assert!(figures.real < Duration::from_secs(86_400), "{figures:?}");
        assert!(
            figures.threads >= 1 && figures.rss > Some(1 << 16),
            "{figures:?}"
        );
    }
}
