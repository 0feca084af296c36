//! Columns of one entry range.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use femtobarn::NTuple;
use femtobarn::array::{Arrays, SlotData};
use femtobarn::schema::{ListSort, Node, NodeKind};
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
    url: String,
}

impl Batch {
    /// Columns of a range of entries of an ntuple.
    pub fn of(ntuple: &NTuple, entries: Range<u64>, arrays: Arrays) -> Self {
        let url = url_of(ntuple, entries.start);
        Self {
            arrays,
            entries,
            url,
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
            url: url.to_owned(),
        }
    }
}

/// URL of the file that has an entry.
fn url_of(ntuple: &NTuple, entry: u64) -> String {
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
        let mut nodes = Nodes {
            py,
            arrays: &self.arrays,
            known: HashMap::new(),
        };
        let list = PyList::empty(py);
        for (name, node) in self.arrays.columns() {
            let length = self.arrays.n_entries();
            list.append((name, nodes.node(node, length)?))?;
        }
        Ok(list)
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
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
enum Piece {
    Data(usize),
    Tags(usize),
    Positions(usize),
    Cardinality(usize, bool),
    Option(usize),
}

struct Nodes<'a, 'py> {
    py: Python<'py>,
    arrays: &'a Arrays,
    /// Buffers that are exported already: columns that share a buffer get the same object.
    known: HashMap<Piece, Bound<'py, Buffer>>,
}

impl<'py> Nodes<'_, 'py> {
    fn buffer(
        &mut self,
        piece: Piece,
        bytes: impl FnOnce(&Arrays) -> PyResult<Bytes>,
    ) -> PyResult<Bound<'py, Buffer>> {
        if let Some(known) = self.known.get(&piece) {
            return Ok(known.clone());
        }
        let bytes = bytes(self.arrays)?;
        let buffer = Bound::new(self.py, Buffer(bytes))?;
        self.known.insert(piece, buffer.clone());
        Ok(buffer)
    }

    fn data(&mut self, slot: usize) -> PyResult<Bound<'py, Buffer>> {
        self.buffer(Piece::Data(slot), |arrays| match arrays.slot(slot) {
            Some(SlotData::Leaf { values, .. }) => Ok(values.clone()),
            Some(SlotData::Index { offsets }) => Ok(offsets.clone()),
            _ => Ok(Bytes::new()),
        })
    }

    fn node(&mut self, node: &Node, length: u64) -> PyResult<Bound<'py, PyTuple>> {
        let py = self.py;
        match &node.kind {
            NodeKind::Leaf { slot } => {
                let dtype = self
                    .arrays
                    .leaf(*slot)
                    .map_or("uint8", |(dtype, _)| dtype.name());
                ("numpy", dtype, self.data(*slot)?).into_pyobject(py)
            }
            NodeKind::Cardinality { index, wide } => {
                let buffer = self.buffer(Piece::Cardinality(*index, *wide), |a| {
                    a.cardinality(*index, *wide).map_err(error::to_python)
                })?;
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
                let item = self.node(item, self.arrays.n_items(*index))?;
                let sort = match sort {
                    ListSort::List => None,
                    ListSort::Set => Some("set"),
                    ListSort::Bitset => Some("bitset"),
                };
                ("list", self.data(*index)?, item, sort).into_pyobject(py)
            }
            NodeKind::Optional { index, item } => {
                let item = self.node(item, self.arrays.n_items(*index))?;
                let positions = self.buffer(Piece::Option(*index), |a| {
                    a.optional_index(*index).map_err(error::to_python)
                })?;
                ("option", positions, item).into_pyobject(py)
            }
            NodeKind::Regular { size, item } => {
                let item = self.node(item, length.saturating_mul(*size))?;
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
            } => self.variant(*switch, alternatives),
        }
    }

    fn variant(&mut self, switch: usize, alternatives: &[Node]) -> PyResult<Bound<'py, PyTuple>> {
        let lengths = match self.arrays.slot(switch) {
            Some(SlotData::Switch { lengths, .. }) => lengths.clone(),
            _ => Vec::new(),
        };
        let list = PyList::empty(self.py);
        for (node, length) in alternatives.iter().zip(lengths) {
            list.append(self.node(node, length)?)?;
        }
        let tags = self.buffer(Piece::Tags(switch), |arrays| match arrays.slot(switch) {
            Some(SlotData::Switch { tags, .. }) => Ok(tags.clone()),
            _ => Ok(Bytes::new()),
        })?;
        let positions = self.buffer(Piece::Positions(switch), |arrays| {
            match arrays.slot(switch) {
                Some(SlotData::Switch { positions, .. }) => Ok(positions.clone()),
                _ => Ok(Bytes::new()),
            }
        })?;
        ("union", tags, positions, list).into_pyobject(self.py)
    }
}
