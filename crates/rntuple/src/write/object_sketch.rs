//! Places pages and envelopes in objects as [`ObjectSink`](super::ObjectSink) does, without creating any.

use std::sync::Arc;

use bytes::Bytes;
use femtobarn_io::{ByteSink, ByteSource, SparseMemory, anchor_range, object_address};
use femtobarn_rootfile::FileWriter;

use super::anchor_envelopes::AnchorEnvelopes;
use super::model::unwritable;
use super::options::{ObjectSize, WriteOptions};
use super::sink::{PageSink, SinkPlace};
use crate::RNTupleError;
use crate::spec::{Anchor, ObjectAnchor, PageAddress};

/// The objects that an ntuple would have: its envelopes are kept, and its pages are not, so that its metadata can be read
/// and its pages cannot.
#[derive(Debug)]
pub struct ObjectSketch {
    object_size: ObjectSize,
    /// The number of the next object.
    next: u64,
    /// The object that is being filled, and its size.
    open: Option<(u64, u64)>,
    is_packed: bool,
    envelopes: AnchorEnvelopes,
    memory: Arc<SparseMemory>,
    anchor: Option<Anchor>,
}

impl ObjectSketch {
    /// Begins an ntuple with objects of a size.
    pub fn new(object_size: ObjectSize) -> Self {
        Self {
            object_size,
            next: 0,
            open: None,
            is_packed: false,
            envelopes: AnchorEnvelopes::default(),
            memory: Arc::default(),
            anchor: None,
        }
    }

    /// The source of the ntuple, which was written to it.
    ///
    /// # Errors
    /// If none was.
    pub fn source(self, url: &str) -> Result<Arc<dyn ByteSource>, RNTupleError> {
        let Some(anchor) = self.anchor else {
            return Err(RNTupleError::internal("a sketch without an ntuple"));
        };
        let anchor = ObjectAnchor {
            is_packed: self.is_packed,
            // as long as a real one
            maker: Some("0".repeat(32)),
            envelopes: self.envelopes.for_anchor(self.is_packed),
            ..ObjectAnchor::new(anchor)
        };
        let at = anchor_range(u64::MAX).start;
        self.memory.write_at(at, anchor.to_json().as_bytes())?;
        Ok(self.memory.source(url))
    }

    /// The number of a new object.
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Places a page.
    fn place(&mut self, page: u64) -> PageAddress {
        let open = self.open.take();
        let open = open.filter(|(_, size)| self.object_size.has_room(*size, page));
        let (id, offset) = open.unwrap_or_else(|| (self.number(), 0));
        self.open = Some((id, offset + page));
        self.is_packed |= offset > 0;
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        PageAddress::Object { id, offset }
    }
}

impl PageSink for ObjectSketch {
    fn check_place(&self, _place: &SinkPlace<'_>) -> Result<(), RNTupleError> {
        Ok(())
    }

    fn append_payload(
        &mut self,
        payload: &[u8],
        _options: &WriteOptions,
    ) -> Result<PageAddress, RNTupleError> {
        self.open = None;
        let id = self.number();
        let at = object_address(id, 0);
        let at = at.ok_or_else(|| RNTupleError::internal("too many objects for a sketch"))?;
        self.memory.write_at(at, payload)?;
        self.envelopes.add(id, Bytes::copy_from_slice(payload));
        Ok(PageAddress::Object { id, offset: 0 })
    }

    fn append_pages(
        &mut self,
        pages: &[Bytes],
        _options: &WriteOptions,
    ) -> Result<Vec<PageAddress>, RNTupleError> {
        let place = |page: &Bytes| self.place(page.len() as u64);
        Ok(pages.iter().map(place).collect())
    }

    fn end_cluster(&mut self) -> Result<(), RNTupleError> {
        self.open = None;
        Ok(())
    }

    fn publish(&mut self, _place: &SinkPlace<'_>, anchor: &Anchor) -> Result<(), RNTupleError> {
        self.anchor = Some(*anchor);
        Ok(())
    }

    fn attribute_set(&mut self, name: &str) -> Result<&mut dyn PageSink, RNTupleError> {
        Err(unwritable(name, "sketches have no attribute sets"))
    }

    fn file(&mut self) -> Option<&mut FileWriter> {
        None
    }
}
