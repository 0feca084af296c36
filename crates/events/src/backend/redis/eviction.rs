//! Detects servers that evict products when their memory is full.

use std::time::Instant;

use femtobarn_redis::{Address, Connection, ConnectionError};

use crate::Mode;

/// The setting with the eviction policy in the server's answer.
pub const POLICY: &str = "maxmemory_policy:";

/// Refuses to write to a server that evicts products. If the store is only read, prints a notice, because products may be
/// missing. If an ACL forbids the query, the server is used.
pub fn check_eviction(
    (url, mode): (&str, Mode),
    node: &Address,
    connection: &mut Connection,
    until: Instant,
) -> Result<(), ConnectionError> {
    let found = connection.ask(&[b"INFO", b"memory"], until, |reply| {
        evicting(&reply.text()).map(str::to_owned)
    })?;
    match (found, mode) {
        (None, _) => Ok(()),
        (Some(line), Mode::Append) => Err(ConnectionError::Refused(line)),
        (Some(line), Mode::Read) => {
            let text = format!(
                "{url}: {node} says {line:?}: when its memory is full, it deletes products, and some may be gone"
            );
            femtobarn_io::notice(&format!("{url} {node}"), &text);
            Ok(())
        }
    }
}

/// The line of `INFO memory` that shows eviction of any key. `None` if memory is unlimited, or only keys with a time to
/// live are evicted (`volatile-*`): products have none.
fn evicting(info: &str) -> Option<&str> {
    let line = |name| info.lines().find(|line| line.starts_with(name));
    let limit = line("maxmemory:").filter(|line| *line != "maxmemory:0");
    limit.and(line(POLICY).filter(|line| line.contains(":allkeys-")))
}

#[cfg(test)]
mod tests {
    use super::evicting;

    #[test]
    fn keys_are_deleted_only_with_a_limit_and_where_all_are_meant() {
        let info = |limit: u64, policy: &str| {
            format!(
                "# Memory\r\nused_memory:5\r\nmaxmemory:{limit}\r\nmaxmemory_policy:{policy}\r\n"
            )
        };
        assert_eq!(
            evicting(&info(9, "allkeys-lru")),
            Some("maxmemory_policy:allkeys-lru")
        );
        for harmless in [
            info(0, "allkeys-lru"),
            info(9, "volatile-lfu"),
            info(9, "noeviction"),
            "NOPERM this user has no permissions to run the 'info' command".into(),
        ] {
            assert_eq!(evicting(&harmless), None, "{harmless}");
        }
    }
}
