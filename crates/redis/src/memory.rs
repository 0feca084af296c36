//! The memory usage of a server without free memory.

use std::sync::Arc;
use std::time::Instant;

use crate::client::Client;
use crate::refusal::is_out_of_memory;
use crate::{Address, RedisError};

impl Client {
    /// Adds the server's memory limit and usage to the error that it has no memory, if it reports them.
    pub(crate) fn say_how_full(&self, error: RedisError) -> RedisError {
        match error {
            RedisError::Refused {
                url,
                node,
                doing,
                said,
            } if is_out_of_memory(&said) => {
                let said = match self.memory_of(&Arc::new(node.clone())) {
                    Some(text) => format!("{said} ({text})"),
                    None => said,
                };
                RedisError::Refused {
                    url,
                    node,
                    doing,
                    said,
                }
            }
            error => error,
        }
    }

    fn memory_of(&self, node: &Arc<Address>) -> Option<String> {
        let until = Instant::now() + self.options().connect_timeout;
        let mut connection = self.any_connection(node).ok()?;
        let info = connection.ask(&[b"INFO", b"memory"], until, |reply| reply.text());
        let text = used(&info.ok()?);
        self.give_back(node, connection);
        text
    }
}

/// The memory usage of a server, from `INFO memory`.
fn used(info: &str) -> Option<String> {
    let value = |name| info.lines().find_map(|line| line.strip_prefix(name));
    let (used, limit) = (value("used_memory_human:")?, value("maxmemory_human:")?);
    Some(format!("{used} used, maxmemory is {limit}"))
}

#[cfg(test)]
mod tests {
    use super::used;

    #[test]
    fn a_server_says_how_much_memory_it_uses() {
        let info =
            "# Memory\r\nused_memory:5\r\nused_memory_human:19.5M\r\nmaxmemory_human:20.00M\r\n";
        let text = "19.5M used, maxmemory is 20.00M";
        assert_eq!(used(info).as_deref(), Some(text));
        assert_eq!(used("NOPERM"), None);
    }
}
