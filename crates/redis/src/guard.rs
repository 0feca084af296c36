//! Checks by the owner of a client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Address, Connection, ConnectionError};

/// Checks that the owner of a [`Client`](crate::Client) makes before servers are used, and its notifications.
///
/// All methods do nothing by default; `()` is a guard without checks.
pub trait Guard: Send + Sync {
    /// Called once for each new connection. May send commands to the server before `until`.
    ///
    /// # Errors
    ///
    /// If the server must not be used. [`ConnectionError::Refused`] fails the operation; after any other error the server
    /// is tried again.
    fn opened(
        &self,
        node: &Arc<Address>,
        connection: &mut Connection,
        until: Instant,
    ) -> Result<(), ConnectionError> {
        let _ = (node, connection, until);
        Ok(())
    }

    /// Called before commands are sent over a connection, until it has returned true for this connection. May send
    /// commands to the server before `until`.
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

    /// Called when a server has executed commands that keep their order: those that write.
    fn written(&self, node: &Address) {
        let _ = node;
    }

    /// Called when fewer than `wanted` replicas of these servers have the writes, and the client waits for them for up to
    /// `patience`.
    fn lacking(&self, wanted: usize, nodes: &[Arc<Address>], patience: Duration) {
        let _ = (wanted, nodes, patience);
    }
}

impl Guard for () {}
