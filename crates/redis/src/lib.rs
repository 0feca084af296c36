//! A client of Redis, Redis Cluster and Valkey: protocol, connections, pipelines. Knows no event store.
//!
//! [`Commands`] are packed for the slots of their keys, and a [`Flow`] sends them to all servers of a [`Client`] at once. It
//! follows slots that move and servers that take the place of others, and repeats what was on its way. Replies are visited
//! where they were received ([`Reply`]). A [`Guard`] decides which servers may be used. For a single question to a single
//! server there is [`Connection::ask`].
//!
//! Sockets block: whoever takes replies gets slices of what came from the server.
//!
//! # Invariants
//!
//! - Every command may be done twice, and has one key: slots may move, and servers take the place of others, meanwhile. The
//!   caller must make such commands.
//! - A password is in no error and no debug output.
//! - Nothing waits for a server longer than the options say.
//! - No length that a server states makes memory be taken before the bytes have come.

mod address;
mod client;
mod cluster;
mod connection;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod guard;
mod memory;
mod options;
mod pipeline;
mod protocol;
mod refusal;
mod slots;
mod tls;
mod topology;

pub use address::Address;
pub use client::Client;
pub use cluster::Flow;
pub use connection::Connection;
pub use error::{ConnectionError, RedisError};
pub use guard::Guard;
pub use options::{Options, Secret};
pub use protocol::{Commands, Elements, LONGEST_VALUE, Reply};
pub use refusal::{is_out_of_memory, is_temporary, is_too_large};
pub use slots::{N_SLOTS, slot};
pub use topology::Topology;
