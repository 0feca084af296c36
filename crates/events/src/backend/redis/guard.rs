//! Checks a server before the store uses it, and reports the state of servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use femtobarn_redis::{Address, Connection, ConnectionError, Guard};

use super::emptied::Known;
use super::eviction::check_eviction;
use crate::Mode;

/// The client's guard for a store.
#[derive(Debug)]
pub struct StoreGuard {
    /// The URL of the store for messages.
    pub url: String,
    /// Whether the store may be written.
    pub mode: Mode,
    /// Data for detecting servers that have lost their data.
    pub known: Known,
}

impl Guard for StoreGuard {
    fn opened(
        &self,
        node: &Arc<Address>,
        connection: &mut Connection,
        until: Instant,
    ) -> Result<(), ConnectionError> {
        check_eviction((&self.url, self.mode), node, connection, until)
    }

    fn checked(
        &self,
        node: &Arc<Address>,
        connection: &mut Connection,
        until: Instant,
    ) -> Result<bool, ConnectionError> {
        self.known.check_has_data(node, connection, until)
    }

    fn written(&self, node: &Address) {
        self.known.note_written(node);
    }

    fn lacking(&self, wanted: usize, nodes: &[Arc<Address>], patience: Duration) {
        let url = &self.url;
        let mut lacking: Vec<_> = nodes.iter().map(|at| at.to_string()).collect();
        lacking.sort_unstable();
        let (lacking, seconds) = (lacking.join(", "), patience.as_secs_f64());
        let text = format!(
            "{url}: waiting up to {seconds:.0} s for replicas of {lacking}: write_concern=replicas:{wanted} wants {wanted} of \
             each server; start them, or add them. A new server gets its replica first, and slots afterwards"
        );
        femtobarn_io::notice(&format!("{url} replicas"), &text);
    }
}
