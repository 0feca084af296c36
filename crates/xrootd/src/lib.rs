//! The XRootD protocol: a codec of its messages, and an asynchronous client. This crate knows nothing about ROOT files.
//!
//! [`protocol`] encodes requests and decodes answers, without I/O. [`Client`] shares connections, follows redirects,
//! waits if servers ask for it, and opens files again on other servers after failures.
//!
//! # Invariants
//!
//! - An answer has exactly the requested bytes, or is an error. Lengths that a server states are compared with the
//!   request before memory is allocated.
//! - Dropping the future of a request does not disturb its connection: the answer is discarded when it arrives.
//! - Credentials are in no error and no `Debug` output.

pub mod fuzz;
pub mod protocol;

mod auth;
mod backoff;
mod client;
mod connection;
mod error;
mod file;
mod notice;
mod options;
mod pace;
mod streams;
mod tls;
mod token;
mod trust;
mod url;

pub use backoff::backoff;
pub use client::Client;
pub use connection::Trace;
pub use error::{Code, XrootdError, printable, with_causes};
pub use file::{File, Limits, OpenOptions};
pub use notice::{notice, tell_notices_by};
pub use options::Options;
pub use pace::{Pace, Rate, TooSlow};
pub use protocol::{DirEntry, Stat};
pub use tls::{TlsSession, advice as tls_advice, config as tls_config, tls_session};
pub use token::Token;
pub use trust::{open_own, read_unwritable};
pub use url::{Server, XrootdUrl, without_password};
