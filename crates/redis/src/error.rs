//! The errors of this crate.

use std::fmt;

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
#[derive(Debug)]
pub enum ConnectionError {
    /// Nothing was sent or received for half a second. The call may be repeated: nothing is lost.
    Quiet,
    /// The connection is broken, for this reason.
    Broken(String),
    /// The server refused, with this error.
    Refused(String),
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quiet => f.write_str("no answer"),
            Self::Broken(why) | Self::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ConnectionError {}
