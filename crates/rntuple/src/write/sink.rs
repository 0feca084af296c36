//! Page sinks: where the pages and envelopes of an ntuple are written to.

use std::fmt::Debug;

use femtobarn_rootfile::FileWriter;

use super::options::WriteOptions;
use crate::RNTupleError;
use crate::spec::{Anchor, PageAddress};

/// Which ntuple of a sink is written.
#[derive(Debug, Clone, Copy)]
pub struct SinkPlace<'a> {
    /// The directory of the file; sinks without directories have the number 0 alone.
    pub directory: usize,
    /// The ntuple's name.
    pub name: &'a str,
    /// What becomes of an ntuple that has this name.
    pub existing: Existing,
}

/// What becomes of an ntuple that is there by the name of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It is an error.
    Refused,
    /// It is hidden, as an older cycle.
    Hidden,
    /// It is this one, which was continued.
    Continued,
}

/// Where pages and envelopes are written. What is written is visible when the anchor is.
pub trait PageSink: Send + Debug {
    /// Checks that an ntuple can be written at this place, before anything is.
    ///
    /// # Errors
    /// If it cannot.
    fn check_place(&self, place: &SinkPlace<'_>) -> Result<(), RNTupleError>;

    /// Writes an envelope, or the anchor of an attribute set.
    ///
    /// # Errors
    /// If writing fails.
    fn append_payload(
        &mut self,
        payload: &[u8],
        options: &WriteOptions,
    ) -> Result<PageAddress, RNTupleError>;

    /// Writes sealed pages of one cluster, with their checksums; gives their addresses, in their order.
    ///
    /// # Errors
    /// If writing fails.
    fn append_pages(
        &mut self,
        pages: &[&[u8]],
        options: &WriteOptions,
    ) -> Result<Vec<PageAddress>, RNTupleError>;

    /// Writes the anchor, which makes the ntuple visible.
    ///
    /// # Errors
    /// If writing fails, or another ntuple has the name by now.
    fn publish(&mut self, place: &SinkPlace<'_>, anchor: &Anchor) -> Result<(), RNTupleError>;

    /// The file that is written, to which regions of other files can be copied; none for other sinks.
    fn file(&mut self) -> Option<&mut FileWriter>;
}
