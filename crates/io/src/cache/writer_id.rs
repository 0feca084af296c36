//! Which process wrote a file of the cache, and whether it still runs.

use std::fs;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::xxh3_64;

use super::format::WriterId;
use crate::runtime::process;

/// Nanoseconds since 1970.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

/// A random number.
pub(super) fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| now() ^ (u64::from(process()) << 32))
}

impl WriterId {
    /// This process.
    pub fn this() -> Self {
        let process = u64::from(process());
        Self {
            host: host(),
            process,
            start: start_of(process).unwrap_or(0),
        }
    }

    /// Whether it is known to run, or have run, on this machine.
    pub fn is_of_this_machine(&self) -> bool {
        self.host != 0 && self.host == host()
    }

    /// Whether the process has ended; unknown processes, those of other machines, may run.
    pub fn is_gone(&self) -> bool {
        self.is_of_this_machine() && start_of(self.process) != Some(self.start)
    }
}

/// The same for processes that see one another; 0 if it is unknown. Containers number their processes themselves.
fn host() -> u64 {
    static HOST: OnceLock<u64> = OnceLock::new();
    *HOST.get_or_init(|| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let names = fs::read_link("/proc/self/ns/pid").ok();
        let both = Option::zip(boot, names);
        both.map_or(0, |(boot, names)| {
            xxh3_64(format!("{boot}{}", names.display()).as_bytes())
        })
    })
}

/// When a process began, in clock ticks since the machine did; none if there is no such process.
fn start_of(process: u64) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // the name may have spaces and parentheses
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_ascii_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    // a zombie writes nothing any more
    (!matches!(state, "Z" | "X")).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_there_and_others_are_told_by_their_start() {
        let this = WriterId::this();
        assert!(!this.is_gone());
        let start = this.start + 1;
        assert!(WriterId { start, ..this }.is_gone());
        let host = this.host + 1;
        assert!(
            !WriterId {
                start,
                host,
                ..this
            }
            .is_gone()
        );
    }
}
