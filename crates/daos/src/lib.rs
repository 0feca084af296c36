//! A client of DAOS, an object store of high-performance computing, and ROOT's mapping of ntuples to its keys.
//!
//! [`Container`] reads and writes many values at once: requests are grouped by object and dkey, and several are in flight.
//! [`mapping`] knows the keys, and [`NTupleValues`] has the values of an ntuple.
//!
//! The C library of DAOS is loaded when a container is opened first: from `FEMTOBARN_LIBDAOS`, or as libdaos.so.2 from where
//! the system has it. Nothing of DAOS is needed to build this crate.
//!
//! # Invariants
//!
//! - Memory that the library was given stays in place until the library has returned its event, whatever happens to the
//!   call that waits for it.
//! - A call ends with its result, or with an error after a time without any answer.
//! - A value has exactly the size that was asked for, or there is an error that names its key. No memory is reserved by a
//!   size that a server states without a limit.
//! - A forked process uses no connection of its parent.

pub mod mapping;

mod abi;
mod address;
mod connection;
mod container;
mod error;
mod group;
mod key;
mod library;
mod names;
mod options;
mod queue;
mod transfer;
mod values;

pub use abi::ObjectId;
pub use address::Address;
pub use container::Container;
pub use error::DaosError;
pub use group::n_requests;
pub use key::{ObjectClass, ValueKey};
pub use library::load;
pub use names::{add_name, names, names_and_classes, remove_name};
pub use options::{Existing, Fetch, Settings, Update};
pub use values::{Envelopes, NTupleValues};

/// The environment variable with the name of the library.
pub const VARIABLE: &str = "FEMTOBARN_LIBDAOS";

/// The names of the library that are tried by default.
const NAMES: [&str; 2] = ["libdaos.so.2", "libdaos.so"];
