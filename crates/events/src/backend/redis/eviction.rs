//! What a server does when its memory is full: whether it deletes products, and how full it is.

use std::sync::Arc;
use std::time::Instant;

use super::connection::{Connection, RedisError};
use super::failure::is_without_memory;
use super::nodes::Nodes;
use super::settings::Address;
use crate::Refusal;
use crate::{EventsError, Mode};

/// The settings of a server with eviction: the beginning of it.
pub const POLICY: &str = "maxmemory_policy:";

impl Nodes {
    /// Refuses a server with eviction, which would delete products. One that is only read may have done so: a notice
    /// reports it. What an ACL does not let us ask is not known.
    pub(super) fn check_eviction(
        &self,
        place: &Arc<Address>,
        connection: &mut Connection,
    ) -> Result<(), RedisError> {
        let until = Instant::now() + self.settings.connect_timeout;
        let found = connection.ask(&[b"INFO", b"memory"], until, |reply| {
            evicting(&reply.text()).map(str::to_owned)
        })?;
        match (found, self.settings.mode) {
            (None, _) => Ok(()),
            (Some(line), Mode::Append) => Err(RedisError::Refused(line)),
            (Some(line), Mode::Read) => {
                let url = &self.settings.url;
                let text = format!(
                    "{url}: {place} has {line:?}: eviction deletes products when its memory is full; some may be \
                     missing"
                );
                femtobarn_io::notice(&format!("{url} {place}"), &text);
                Ok(())
            }
        }
    }
}

impl Nodes {
    /// Adds the limit and use of memory to the error of a full server, if available.
    pub(super) fn say_how_full(&self, error: EventsError) -> EventsError {
        match error {
            EventsError::Refused {
                url,
                node,
                doing,
                mut said,
                advice,
                refusal: refusal @ Refusal::Full,
            } if is_without_memory(&said) => {
                let place = Address::parse(&node).map(Arc::new);
                if let Some(text) = place.and_then(|place| self.memory_of(&place)) {
                    said = format!("{said} ({text})");
                }
                EventsError::Refused {
                    url,
                    node,
                    doing,
                    said,
                    advice,
                    refusal,
                }
            }
            error => error,
        }
    }

    fn memory_of(&self, place: &Arc<Address>) -> Option<String> {
        let until = Instant::now() + self.settings.connect_timeout;
        let mut connection = self.any_connection(place).ok()?;
        let info = connection.ask(&[b"INFO", b"memory"], until, |reply| reply.text());
        let text = used(&info.ok()?);
        self.give_back(place, connection);
        text
    }
}

/// Used memory of a server, from `INFO memory`.
fn used(info: &str) -> Option<String> {
    let value = |name| info.lines().find_map(|line| line.strip_prefix(name));
    let (used, limit) = (value("used_memory_human:")?, value("maxmemory_human:")?);
    Some(format!("{used} used, maxmemory is {limit}"))
}

/// The line of `INFO memory` by which any key may be deleted to make room. None if memory has no limit, or only keys with a
/// time to live are deleted (`volatile-*`): ours have none.
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
