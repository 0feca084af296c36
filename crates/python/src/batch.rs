//! Columns of one entry range.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use femtobarn::array::{Arrays, SlotData};
use femtobarn::schema::{ListSort, Node, NodeKind};
use femtobarn::{Error, NTuple, QueryStep};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};

use crate::arrow;
use crate::buffer::Buffer;
use crate::error;

/// Columns of a range of entries.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Batch {
    arrays: Arrays,
    entries: Range<u64>,
    /// The entries that passed a cut; none if there was none.
    chosen: Option<Vec<Range<u64>>>,
    url: String,
}

impl Batch {
    /// Columns of a range of entries of an ntuple.
    pub fn of(ntuple: &NTuple, entries: Range<u64>, arrays: Arrays) -> Self {
        let url = url_of(ntuple, entries.start);
        Self {
            arrays,
            entries,
            chosen: None,
            url,
        }
    }

    /// Columns of the entries that passed a cut.
    pub fn of_query(ntuple: &NTuple, step: QueryStep) -> Self {
        let batch = Self::of(ntuple, step.entries, step.arrays);
        Self {
            chosen: Some(step.chosen),
            ..batch
        }
    }
}

impl Batch {
    /// Columns that do not belong to an ntuple.
    pub fn plain(arrays: Arrays, url: &str) -> Self {
        let entries = 0..arrays.n_entries();
        Self {
            arrays,
            entries,
            chosen: None,
            url: url.to_owned(),
        }
    }
}

/// URL of the file that has an entry.
pub fn url_of(ntuple: &NTuple, entry: u64) -> String {
    let starts = ntuple.file_starts();
    let after = starts.partition_point(|&first| first <= entry);
    let reader = ntuple.readers().get(after.saturating_sub(1));
    let reader = reader.or(ntuple.readers().last());
    reader.map_or_else(String::new, |reader| reader.url().to_owned())
}

#[pymethods]
impl Batch {
    #[getter]
    fn num_entries(&self) -> u64 {
        self.arrays.n_entries()
    }

    #[getter]
    fn entry_start(&self) -> u64 {
        self.entries.start
    }

    #[getter]
    fn entry_stop(&self) -> u64 {
        self.entries.end
    }

    /// The numbers of the entries, as 64-bit integers, if these are only some from `entry_start` to `entry_stop`.
    fn entry_numbers(&self) -> Option<Buffer> {
        let chosen = self.chosen.as_ref()?;
        let numbers = chosen.iter().cloned().flatten();
        let bytes: Vec<u8> = numbers.flat_map(u64::to_ne_bytes).collect();
        Some(Buffer(bytes.into()))
    }

    #[getter]
    fn file(&self) -> &str {
        &self.url
    }

    /// Total size of all buffers, in bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.arrays.n_bytes()
    }

    /// Top-level names and their nodes.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (columns, length) = (self.arrays.columns(), self.arrays.n_entries());
        Nodes::list(py, &self.arrays, columns, length)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // the protocol allows a producer to ignore the requested schema
        let _ = requested_schema;
        let batch = py
            .detach(|| self.arrays.to_arrow())
            .map_err(arrow::to_python)?;
        let schema = batch.schema();
        arrow::stream(
            py,
            Box::new(arrow_array::RecordBatchIterator::new([Ok(batch)], schema)),
        )
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let batch = py
            .detach(|| self.arrays.to_arrow())
            .map_err(arrow::to_python)?;
        arrow::schema(py, &batch.schema())
    }
}

/// Parts of a slot that are exported as buffers.
#[derive(Debug, PartialEq, Eq, Hash, Clone, Copy)]
pub enum Piece {
    Data(usize),
    Tags(usize),
    Positions(usize),
    Cardinality(usize, bool),
    Option(usize),
}

impl Piece {
    /// The slot that it is a part of.
    pub fn slot(self) -> usize {
        match self {
            Self::Data(slot)
            | Self::Tags(slot)
            | Self::Positions(slot)
            | Self::Cardinality(slot, _)
            | Self::Option(slot) => slot,
        }
    }

    /// Its bytes.
    pub fn bytes(self, data: &SlotData) -> Result<Bytes, Error> {
        Ok(match (self, data) {
            (Self::Data(_), SlotData::Leaf { values, .. }) => values.clone(),
            (Self::Data(_), SlotData::Index { offsets }) => offsets.clone(),
            (Self::Tags(_), SlotData::Switch { tags, .. }) => tags.clone(),
            (Self::Positions(_), SlotData::Switch { positions, .. }) => positions.clone(),
            (Self::Cardinality(_, wide), data) => data.cardinality(wide)?,
            (Self::Option(_), data) => data.optional_index()?,
            _ => Bytes::new(),
        })
    }
}

/// Where the buffers of nodes come from.
pub trait Pieces {
    /// The type of a leaf.
    fn dtype(&self, slot: usize) -> &'static str;

    /// Number of items of a collection, if it is known.
    fn n_items(&self, index: usize) -> Option<u64>;

    /// Number of values of each alternative of a variant with `n` of them, if it is known.
    fn lengths(&self, switch: usize, n: usize) -> Vec<Option<u64>>;

    /// The object of Python that has a part of a slot.
    fn buffer<'py>(&self, py: Python<'py>, piece: Piece) -> PyResult<Bound<'py, PyAny>>;
}

impl Pieces for Arrays {
    fn dtype(&self, slot: usize) -> &'static str {
        self.leaf(slot).map_or("uint8", |(dtype, _)| dtype.name())
    }

    fn n_items(&self, index: usize) -> Option<u64> {
        Some(Self::n_items(self, index))
    }

    fn lengths(&self, switch: usize, n: usize) -> Vec<Option<u64>> {
        match self.slot(switch) {
            Some(SlotData::Switch { lengths, .. }) => lengths.iter().copied().map(Some).collect(),
            _ => vec![Some(0); n],
        }
    }

    fn buffer<'py>(&self, py: Python<'py>, piece: Piece) -> PyResult<Bound<'py, PyAny>> {
        let data = self.slot(piece.slot());
        let bytes = data.map_or_else(|| Ok(Bytes::new()), |data| piece.bytes(data));
        let bytes = bytes.map_err(error::to_python)?;
        Ok(Bound::new(py, Buffer(bytes))?.into_any())
    }
}

/// Turns the trees of columns into tuples.
pub struct Nodes<'a, 'py, P> {
    py: Python<'py>,
    pieces: &'a P,
    /// Buffers that are exported already: columns that share a buffer get the same object.
    known: HashMap<Piece, Bound<'py, PyAny>>,
}

impl<'a, 'py, P: Pieces> Nodes<'a, 'py, P> {
    /// The names and nodes of columns with `length` entries.
    pub fn list(
        py: Python<'py>,
        pieces: &'a P,
        columns: &[(String, Node)],
        length: u64,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut nodes = Self {
            py,
            pieces,
            known: HashMap::new(),
        };
        let list = PyList::empty(py);
        for (name, node) in columns {
            list.append((name, nodes.node(node, Some(length))?))?;
        }
        Ok(list)
    }

    fn buffer(&mut self, piece: Piece) -> PyResult<Bound<'py, PyAny>> {
        if let Some(known) = self.known.get(&piece) {
            return Ok(known.clone());
        }
        let buffer = self.pieces.buffer(self.py, piece)?;
        self.known.insert(piece, buffer.clone());
        Ok(buffer)
    }

    fn data(&mut self, slot: usize) -> PyResult<Bound<'py, PyAny>> {
        self.buffer(Piece::Data(slot))
    }

    fn node(&mut self, node: &Node, length: Option<u64>) -> PyResult<Bound<'py, PyTuple>> {
        let py = self.py;
        match &node.kind {
            NodeKind::Leaf { slot } => {
                ("numpy", self.pieces.dtype(*slot), self.data(*slot)?).into_pyobject(py)
            }
            NodeKind::Cardinality { index, wide } => {
                let buffer = self.buffer(Piece::Cardinality(*index, *wide))?;
                ("numpy", if *wide { "int64" } else { "int32" }, buffer).into_pyobject(py)
            }
            NodeKind::String { index, chars } => {
                ("string", self.data(*index)?, self.data(*chars)?).into_pyobject(py)
            }
            NodeKind::Bytes {
                index,
                bytes,
                class_name,
            } => ("bytes", self.data(*index)?, self.data(*bytes)?, class_name).into_pyobject(py),
            NodeKind::List { index, item, sort } => {
                let item = self.node(item, self.pieces.n_items(*index))?;
                let sort = match sort {
                    ListSort::List => None,
                    ListSort::Set => Some("set"),
                    ListSort::Bitset => Some("bitset"),
                };
                ("list", self.data(*index)?, item, sort).into_pyobject(py)
            }
            NodeKind::Optional { index, item } => {
                let item = self.node(item, self.pieces.n_items(*index))?;
                ("option", self.buffer(Piece::Option(*index))?, item).into_pyobject(py)
            }
            NodeKind::Regular { size, item } => {
                let item = self.node(item, length.map(|length| length.saturating_mul(*size)))?;
                ("regular", *size, length, item).into_pyobject(py)
            }
            NodeKind::Record {
                names,
                members,
                type_name,
            } => {
                let list = PyList::empty(py);
                for member in members {
                    list.append(self.node(member, length)?)?;
                }
                ("record", names.as_deref(), list, length, type_name).into_pyobject(py)
            }
            NodeKind::Variant {
                switch,
                alternatives,
            } => {
                let lengths = self.pieces.lengths(*switch, alternatives.len());
                let list = PyList::empty(py);
                for (node, length) in alternatives.iter().zip(lengths) {
                    list.append(self.node(node, length)?)?;
                }
                let tags = self.buffer(Piece::Tags(*switch))?;
                let positions = self.buffer(Piece::Positions(*switch))?;
                ("union", tags, positions, list).into_pyobject(py)
            }
        }
    }
}
