//! The errors of this crate.

use crate::Address;

/// An error of a server or of the connection to it. Every variant has the URL of
/// [`Options`](crate::Options).
#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    /// The TLS files cannot be used.
    #[error("{url}: cannot load the TLS files: {why}")]
    Tls {
        /// The URL.
        url: String,
        /// What is wrong with them.
        why: String,
    },
    /// No server succeeded within the time limits of the options.
    #[error("{url}: cannot {doing}: all servers failed: {said}")]
    Unreachable {
        /// The URL.
        url: String,
        /// The operation.
        doing: String,
        /// The error of each server.
        said: String,
    },
    /// A server refused a command, and would refuse it again.
    #[error("{url}: cannot {doing}: {node} answered {said:?}")]
    Refused {
        /// The URL.
        url: String,
        /// The server.
        node: Address,
        /// The operation.
        doing: String,
        /// The server's error. It begins with its kind, such as `NOAUTH`.
        said: String,
    },
}

/// Why a connection returned no answer.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Nothing was sent or received for half a second. The call may be repeated: nothing is lost.
    #[error("no answer")]
    Quiet,
    /// The connection is broken, for this reason.
    #[error("{0}")]
    Broken(String),
    /// The server refused, with this error.
    #[error("{0}")]
    Refused(String),
}
