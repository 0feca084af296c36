//! Object stores: URLs, settings and errors, shared by sources and sinks.

mod address;
mod bounded;
mod client;
mod failure;
mod options;
mod place;
mod profile;
mod redirect;
mod store;

pub(crate) use address::{Address, Kind};
pub(crate) use client::{Counted, Reached};
pub(crate) use failure::{created, is_unsatisfiable, read};
pub(crate) use options::Options;
pub(crate) use store::{Store, store};

#[cfg(test)]
mod liars;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
