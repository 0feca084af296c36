//! Page sinks: where pages and envelopes are written to.

use std::collections::BTreeMap;
use std::fmt::Debug;

use bytes::Bytes;
use femtobarn_rootfile::FileWriter;

use super::options::WriteOptions;
use crate::RNTupleError;
use crate::read::PageStore;
use crate::spec::{Anchor, PageAddress};

/// The numbers of other objects in an ntuple: for each range of numbers, the first one there and the first one here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renumbered(Vec<(u64, u64)>);

impl Renumbered {
    /// From ranges in the order of their first numbers there.
    pub(super) fn new(ranges: Vec<(u64, u64)>) -> Self {
        Self(ranges)
    }

    /// The number of an object here.
    pub fn find(&self, id: u64) -> Option<u64> {
        let at = self.0.partition_point(|(there, _)| *there <= id);
        let (there, here) = self.0.get(at.checked_sub(1)?)?;
        here.checked_add(id - there)
    }
}

/// The location of an ntuple in a sink.
#[derive(Debug, Clone, Copy)]
pub struct SinkPlace<'a> {
    /// The directory of the file; 0 for sinks without directories.
    pub directory: usize,
    /// The ntuple's name.
    pub name: &'a str,
    /// What to do if an ntuple of this name exists.
    pub existing: Existing,
}

/// What to do with an existing ntuple of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Return an error.
    Refused,
    /// Hide it as an older cycle.
    Hidden,
    /// Replace its anchor: it is the ntuple that is being continued.
    Continued,
}

/// A destination of pages and envelopes. They become visible when the anchor is written.
pub trait PageSink: Send + Debug {
    /// Checks that an ntuple can be written to this location, before writing starts.
    ///
    /// # Errors
    /// If it cannot.
    fn check_place(&self, place: &SinkPlace<'_>) -> Result<(), RNTupleError>;

    /// Called when an ntuple is begun, at a place that was checked.
    ///
    /// # Errors
    /// If it cannot be begun.
    fn begin(&mut self, _place: &SinkPlace<'_>) -> Result<(), RNTupleError> {
        Ok(())
    }

    /// Writes an envelope, or the anchor of an attribute set.
    ///
    /// # Errors
    /// If writing fails.
    fn append_payload(
        &mut self,
        payload: &[u8],
        options: &WriteOptions,
    ) -> Result<PageAddress, RNTupleError>;

    /// Writes the sealed pages of a cluster, with their checksums; returns their addresses in order. A sink that writes later
    /// keeps the memory of the pages.
    ///
    /// # Errors
    /// If writing fails.
    fn append_pages(
        &mut self,
        pages: &[Bytes],
        options: &WriteOptions,
    ) -> Result<Vec<PageAddress>, RNTupleError>;

    /// Whether pages are joined with their neighbours. Then the pages of each column are appended by their own calls.
    fn joins_pages(&self) -> bool {
        false
    }

    /// Writes the anchor, which makes the ntuple visible.
    ///
    /// # Errors
    /// If writing fails, or the name has been taken in the meantime.
    fn publish(&mut self, place: &SinkPlace<'_>, anchor: &Anchor) -> Result<(), RNTupleError>;

    /// Called after the pages of each cluster.
    ///
    /// # Errors
    /// If writing fails.
    fn end_cluster(&mut self) -> Result<(), RNTupleError> {
        Ok(())
    }

    /// The sink for an attribute set: this one, if it can have several ntuples.
    ///
    /// # Errors
    /// If there can be no set of this name.
    fn attribute_set(&mut self, name: &str) -> Result<&mut dyn PageSink, RNTupleError>;

    /// Whether the anchors of attribute sets are written as payloads, to which the footer links. Otherwise, each set is
    /// published in its [own sink](Self::attribute_set).
    fn links_sets(&self) -> bool {
        true
    }

    /// Makes the objects of a store part of the ntuple, where they are; returns their numbers in it. None if pages have to
    /// be copied.
    fn shares(&mut self, _store: &dyn PageStore) -> Option<Renumbered> {
        None
    }

    /// Has the server copy objects of a store, given with their sizes, as they are; returns their numbers in the ntuple. All of their pages must be
    /// kept. None if pages have to be copied.
    ///
    /// # Errors
    /// If an object cannot be copied.
    fn copies(
        &mut self,
        _store: &dyn PageStore,
        _objects: &BTreeMap<u64, u64>,
        _options: &WriteOptions,
    ) -> Result<Option<Renumbered>, RNTupleError> {
        Ok(None)
    }

    /// The file being written, to which regions of other files can be copied; none for other sinks.
    fn file(&mut self) -> Option<&mut FileWriter>;
}
