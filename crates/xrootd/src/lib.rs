//! XRootD: a codec of its messages, and an asynchronous client. Knows no ROOT files.
//!
//! [`protocol`] turns requests into bytes and bytes into answers, without I/O. [`Client`] speaks it: it shares connections,
//! follows redirects, waits where servers ask for it, and opens files again on other servers when one fails.
//!
//! # Invariants
//!
//! - An answer has just the bytes that were asked for, or is an error; what a server says of lengths is compared with what was
//!   asked for before memory is taken for it.
//! - A request whose future is dropped costs its connection nothing: what is answered is thrown away when it comes.
//! - Credentials are in no error, and in no text that a `Debug` gives.

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
