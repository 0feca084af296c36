//! Adding up ROOT's histograms and profiles in the form in which they are stored.
//!
//! The streamed form of a histogram is walked by the streamer infos of its file, which gives the places of its numbers
//! ([`Histogram::parse`]). Those of another one are added where they are ([`Histogram::add`]), so that everything else
//! stays what it was: class, title, labels, functions, what this version of the code has never heard of. Where arrays
//! must grow, the bytes behind them move, and the byte counts and references that span them are put right.
//!
//! What is added, and how, follows ROOT's `TH1::Merge`, which hadd calls; where that loses data or adds bins that do not
//! belong together, this does not.
//!
//! The same walk moves any other object behind a key of another length ([`moved_object`]), and tells which classes keep
//! their data outside of their objects ([`Infos::holds`]).
//!
//! # Invariants
//!
//! - Nothing is allocated by a number that was not compared with the bytes that are there, and no input makes it panic.
//! - A histogram is as it was after an addition that failed.

mod add;
mod axis;
mod cursor;
mod edges;
mod error;
pub mod fuzz;
mod grow;
mod histogram;
mod infos;
mod labels;
mod layout;
mod leaves;
mod numbers;
mod plan;
mod shape;
mod splice;
mod stats;
#[cfg(test)]
mod tests;
mod walk;

pub use error::HistogramError;
pub use histogram::{Histogram, is_histogram};
pub use infos::Infos;
pub use splice::moved_object;
pub use walk::named_classes;
