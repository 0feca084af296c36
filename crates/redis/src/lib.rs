//! A client of Redis, Redis Cluster and Valkey: protocol, connections, pipelines. This crate knows no event store.
//!
//! [`Commands`] are packed for the slots of their keys, and a [`Flow`] sends them to all servers of a [`Client`] at once.
//! It follows moving slots and failovers, and repeats commands in flight. Replies ([`Reply`]) are slices of the receive
//! buffer. A [`Guard`] decides which servers may be used. [`Connection::ask`] sends a single command to a single server.
//!
//! Sockets are blocking: functions that receive replies get slices of what the server sent.
//!
//! # Invariants
//!
//! - Every command may be executed twice, and has one key, as slots may move and servers may be replaced. Callers must
//!   make their commands accordingly.
//! - A password is in no error and no debug output.
//! - No wait for a server is longer than the options allow.
//! - A length that a server states allocates no memory before the bytes have arrived.

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
