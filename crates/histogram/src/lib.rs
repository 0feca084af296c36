//! ROOT's histograms and profiles in their stored form: reading, making and adding them.
//!
//! The streamed form of a histogram is walked by the streamer infos of its file, which gives the positions of its
//! numbers ([`Histogram::parse`]). The numbers of another histogram are added in place ([`Histogram::add`]), so
//! everything else stays unchanged: class, title, labels, functions, and members that this crate does not know. If
//! arrays must grow, the bytes after them are moved, and byte counts and references across them are corrected.
//!
//! Additions follow ROOT's `TH1::Merge`, which hadd calls. Where that would lose data, or add bins that do not
//! correspond, this crate returns an error.
//!
//! What a histogram contains is read at the same positions ([`Histogram::variances`] and others). A new one
//! ([`Histogram::build`]) is written by the descriptions of the classes in `classes.txt`, so it is in the stored form from
//! the beginning.
//!
//! The same walk moves any other object to a key of another length ([`moved_object`]), and finds classes that keep data
//! outside of their objects ([`Infos::holds`]).
//!
//! # Invariants
//!
//! - Every number is compared with the available bytes before memory is allocated by it, and no input causes a panic.
//! - A failed addition leaves the histogram unchanged.

mod add;
mod axis;
mod build;
mod classes;
mod cursor;
mod edges;
mod encode;
mod error;
mod grow;
mod histogram;
mod infos;
mod labels;
mod layout;
mod leaves;
mod numbers;
mod parts;
mod plan;
mod reading;
mod shape;
mod splice;
mod stats;
#[cfg(test)]
mod tests;
mod walk;

pub use error::HistogramError;
pub use histogram::{Histogram, is_histogram};
pub use infos::Infos;
pub use parts::{AxisParts, Bins, Moments, Parts};
pub use splice::moved_object;
pub use walk::named_classes;
