//! What can go wrong.

use std::fmt;

use crate::Address;

/// An error of the servers or of the way to them. Every variant has the URL of [`Options`](crate::Options).
#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    /// The files for TLS cannot be used.
    #[error("{url}: no TLS without its files: {why}")]
    Tls {
        /// The URL.
        url: String,
        /// What is wrong with them.
        why: String,
    },
    /// No server did it within the time that the options allow.
    #[error("{url}: cannot {doing}: no server did it: {said}")]
    Unreachable {
        /// The URL.
        url: String,
        /// What was being done.
        doing: String,
        /// What became of asking each server.
        said: String,
    },
    /// A server refused, and would refuse again.
    #[error("{url}: cannot {doing}: {node} says {said:?}")]
    Refused {
        /// The URL.
        url: String,
        /// The server.
        node: Address,
        /// What was being done.
        doing: String,
        /// The server's error. It begins with a word that says of which kind it is, such as `NOAUTH`.
        said: String,
    },
}

/// What a connection has come to.
#[derive(Debug)]
pub enum ConnectionError {
    /// Nothing moved for half a second. The call may be repeated: nothing is lost.
    Quiet,
    /// The connection is of no use any more, for this reason.
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
