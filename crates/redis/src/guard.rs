//! What the owner of a client makes sure of.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Address, Connection, ConnectionError};

/// What the owner of a [`Client`](crate::Client) makes sure of before servers are used, and what it is told.
///
/// Each method does nothing unless it is implemented; `()` is a guard that does nothing at all.
pub trait Guard: Send + Sync {
    /// Is called once for each new connection. May ask the server something until `until`.
    ///
    /// # Errors
    ///
    /// If the server is not to be used: [`ConnectionError::Refused`] is an error of what was being done, and after any other
    /// the server is tried again.
    fn opened(
        &self,
        node: &Arc<Address>,
        connection: &mut Connection,
        until: Instant,
    ) -> Result<(), ConnectionError> {
        let _ = (node, connection, until);
        Ok(())
    }

    /// Is called before commands are sent by a connection, until it has returned true for this connection once. May ask the
    /// server something until `until`.
    ///
    /// # Errors
    ///
    /// As [`Guard::opened`].
    fn checked(
        &self,
        node: &Arc<Address>,
        connection: &mut Connection,
        until: Instant,
    ) -> Result<bool, ConnectionError> {
        let _ = (node, connection, until);
        Ok(true)
    }

    /// Is called when a server has done commands that are sent in their order: those that write.
    fn written(&self, node: &Address) {
        let _ = node;
    }

    /// Is called when fewer than `wanted` replicas of these servers have what was written, and the client waits for up to
    /// `patience` for them.
    fn lacking(&self, wanted: usize, nodes: &[Arc<Address>], patience: Duration) {
        let _ = (wanted, nodes, patience);
    }
}

impl Guard for () {}
