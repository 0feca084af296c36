//! Decodes bytes into arrays.

use bytes::Bytes;

use super::cursor::{Cursor, Fault};
use super::plan::{Fixed, Plan, Record};
use super::{RowFault, RowType};
use crate::array::{Arrays, SlotData};
use crate::schema::{DType, ListSort, Node, NodeKind};

/// Columns with values of the same entries.
#[derive(Debug, Default)]
pub struct Columns {
    n: usize,
    columns: Vec<(String, Node)>,
    slots: Vec<SlotData>,
    texts_are_bytes: bool,
}

impl Columns {
    /// No columns yet, for `n` entries.
    pub fn new(n: usize) -> Self {
        Self {
            n,
            ..Self::default()
        }
    }

    /// Returns strings as bytes, which need not be UTF-8.
    #[must_use]
    pub fn with_texts_as_bytes(mut self) -> Self {
        self.texts_are_bytes = true;
        self
    }

    /// Adds a column of `n` numbers.
    pub fn add_numbers(&mut self, name: &str, numbers: &[u64]) {
        let values = aligned(bytemuck::cast_slice(numbers).to_vec());
        let dtype = DType::UInt64;
        self.slots.push(SlotData::Leaf { dtype, values });
        let slot = self.slots.len() - 1;
        self.columns
            .push((name.into(), node(NodeKind::Leaf { slot })));
    }

    /// Adds a column of values of a type, named after the field. Entries without a value are missing.
    ///
    /// # Errors
    ///
    /// The first value that does not match the type.
    pub fn add<'a>(
        &mut self,
        rows: &RowType,
        values: impl Iterator<Item = Option<&'a [u8]>>,
    ) -> Result<(), RowFault> {
        let (present, item) = self.column(rows, values)?;
        let node = self.where_present(&present, item);
        self.columns.push((rows.model.name.clone(), node));
        Ok(())
    }

    /// Adds a column of lists with the value of each entry, or none.
    ///
    /// # Errors
    ///
    /// The first value that does not match the type.
    pub fn add_lists<'a>(
        &mut self,
        rows: &RowType,
        values: impl Iterator<Item = Option<&'a [u8]>>,
    ) -> Result<(), RowFault> {
        let (present, item) = self.column(rows, values)?;
        let node = node(NodeKind::List {
            index: self.index(&present),
            item: Box::new(item),
            sort: ListSort::List,
        });
        self.columns.push((rows.model.name.clone(), node));
        Ok(())
    }

    /// Adds a column of raw bytes. Entries without bytes are missing.
    pub fn add_bytes<'a>(&mut self, name: &str, values: impl Iterator<Item = Option<&'a [u8]>>) {
        let (mut present, mut ends, mut bytes) = (vec![0], vec![0], Vec::new());
        for value in values.take(self.n) {
            push_end(&mut present, usize::from(value.is_some()));
            if let Some(value) = value {
                bytes.extend_from_slice(value);
                push_end(&mut ends, value.len());
            }
        }
        let index = self.index(&ends);
        let dtype = DType::UInt8;
        let values = aligned(bytes);
        self.slots.push(SlotData::Leaf { dtype, values });
        let item = node(NodeKind::Bytes {
            index,
            bytes: self.slots.len() - 1,
            class_name: String::new(),
        });
        let node = self.where_present(&present, item);
        self.columns.push((name.into(), node));
    }

    /// The values that exist, and the ends of their lists.
    fn column<'a>(
        &mut self,
        rows: &RowType,
        values: impl Iterator<Item = Option<&'a [u8]>>,
    ) -> Result<(Vec<i64>, Node), RowFault> {
        let mut column = Column::new(&rows.plan);
        let mut present: Vec<i64> = vec![0];
        for (row, value) in values.enumerate().take(self.n) {
            if let Some(value) = value {
                column
                    .add(&rows.plan, value)
                    .map_err(|(expected, found)| RowFault {
                        row,
                        expected,
                        found,
                    })?;
            }
            push_end(&mut present, usize::from(value.is_some()));
        }
        let mut item = column.finish(&rows.plan, &mut self.slots);
        if self.texts_are_bytes {
            item.texts_as_bytes();
        }
        Ok((present, item))
    }

    fn index(&mut self, ends: &[i64]) -> usize {
        let offsets = bytes_of(ends);
        self.slots.push(SlotData::Index { offsets });
        self.slots.len() - 1
    }

    /// Makes optional values of those that exist.
    fn where_present(&mut self, present: &[i64], item: Node) -> Node {
        if present.last().copied() == i64::try_from(self.n).ok() {
            return item;
        }
        node(NodeKind::Optional {
            index: self.index(present),
            item: Box::new(item),
        })
    }

    /// Returns the columns.
    pub fn finish(self) -> Arrays {
        Arrays::new(self.n as u64, self.columns, self.slots)
    }
}

/// The values of a part.
enum Column {
    Leaf(Vec<u8>),
    List(Vec<i64>, Box<Column>),
    Array(Box<Column>),
    Record(Vec<Column>),
    Variant {
        tags: Vec<u8>,
        positions: Vec<i64>,
        alternatives: Vec<(i64, Column)>,
    },
}

impl Column {
    fn new(plan: &Plan) -> Self {
        let list = |item: Self| Self::List(vec![0], Box::new(item));
        match plan {
            Plan::Leaf(_) => Self::Leaf(Vec::new()),
            Plan::Text => list(Self::Leaf(Vec::new())),
            Plan::List(item) | Plan::Optional(item) => list(Self::new(item)),
            Plan::Array(_, item) => Self::Array(Box::new(Self::new(item))),
            Plan::Record(record) => Self::Record(record.members.iter().map(Self::new).collect()),
            Plan::Variant(alternatives) => Self::Variant {
                tags: Vec::new(),
                positions: Vec::new(),
                alternatives: alternatives
                    .iter()
                    .map(|plan| (0, Self::new(plan)))
                    .collect(),
            },
        }
    }

    /// Adds a value that consists of all of these bytes.
    fn add(&mut self, plan: &Plan, value: &[u8]) -> Result<(), Fault> {
        let mut rest = Cursor::new(value);
        self.take(plan, &mut rest, 1)?;
        rest.finish()
    }

    /// Reads `n` values.
    fn take(&mut self, plan: &Plan, from: &mut Cursor<'_>, n: usize) -> Result<(), Fault> {
        if let Some(Fixed { size, .. }) = plan.fixed() {
            let whole = from.take(size.saturating_mul(n))?;
            self.gather(plan, whole, 0, size, n);
            return Ok(());
        }
        for _ in 0..n {
            self.take_one(plan, from)?;
        }
        Ok(())
    }

    fn take_one(&mut self, plan: &Plan, from: &mut Cursor<'_>) -> Result<(), Fault> {
        match (self, plan) {
            (Self::List(ends, item), Plan::Text) => {
                let n = from.count(1)?;
                let text = from.take(n)?;
                if let Self::Leaf(bytes) = &mut **item {
                    bytes.extend_from_slice(text);
                }
                push_end(ends, n);
            }
            (Self::List(ends, item), Plan::List(below)) => {
                let n = from.count(below.least())?;
                item.take(below, from, n)?;
                push_end(ends, n);
            }
            (Self::List(ends, item), Plan::Optional(below)) => {
                let n = from.tag(1, "0 or 1")?;
                item.take(below, from, n)?;
                push_end(ends, n);
            }
            (Self::Array(item), Plan::Array(n, below)) => item.take(below, from, *n)?,
            (Self::Record(columns), Plan::Record(Record { members, .. })) => {
                for (column, member) in columns.iter_mut().zip(members) {
                    column.take(member, from, 1)?;
                }
            }
            (
                Self::Variant {
                    tags,
                    positions,
                    alternatives,
                },
                Plan::Variant(plans),
            ) => {
                let tag = from.tag(plans.len(), "the number of an alternative")?;
                let mut position = 0;
                let chosen = tag.checked_sub(1);
                let chosen = chosen.and_then(|at| alternatives.get_mut(at).zip(plans.get(at)));
                if let Some(((count, column), plan)) = chosen {
                    column.take(plan, from, 1)?;
                    position = *count;
                    *count += 1;
                }
                tags.push(u8::try_from(tag).unwrap_or_default());
                positions.push(position);
            }
            _ => {} // the column was made for its plan
        }
        Ok(())
    }

    /// Reads values with a distance of `stride` bytes, the first one at `place`.
    fn gather(&mut self, plan: &Plan, bytes: &[u8], place: usize, stride: usize, n: usize) {
        match (self, plan) {
            (Self::Leaf(out), Plan::Leaf(dtype)) => {
                let start = out.len();
                strided(out, bytes, place, stride, dtype.size(), n);
                if *dtype == DType::Bool {
                    let own = out.get_mut(start..).unwrap_or_default();
                    own.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
                }
            }
            (Self::Array(item), Plan::Array(size, below)) => {
                let step = below.fixed().map_or(0, |fixed| fixed.size);
                if stride == step * size {
                    return item.gather(below, bytes, place, step, n * size);
                }
                for at in 0..n {
                    item.gather(below, bytes, place + at * stride, step, *size);
                }
            }
            (Self::Record(columns), Plan::Record(record)) => {
                let places = record.fixed.iter().flat_map(|(_, places)| places);
                let members = columns.iter_mut().zip(&record.members).zip(places);
                for ((column, member), own) in members {
                    column.gather(member, bytes, place + own, stride, n);
                }
            }
            _ => {} // other plans have no fixed size
        }
    }

    /// Adds the slots of the values, and returns the node of the array.
    fn finish(self, plan: &Plan, slots: &mut Vec<SlotData>) -> Node {
        let add = |slots: &mut Vec<SlotData>, data: SlotData| {
            slots.push(data);
            slots.len() - 1
        };
        let leaf = |slots: &mut Vec<SlotData>, dtype: DType, values: Vec<u8>| {
            let values = aligned(values);
            add(slots, SlotData::Leaf { dtype, values })
        };
        let index = |slots: &mut Vec<SlotData>, ends: &[i64]| {
            let offsets = bytes_of(ends);
            add(slots, SlotData::Index { offsets })
        };
        node(match (self, plan) {
            (Self::Leaf(values), Plan::Leaf(dtype)) => NodeKind::Leaf {
                slot: leaf(slots, *dtype, values),
            },
            (Self::List(ends, item), Plan::Text) => {
                let index = index(slots, &ends);
                let chars = match *item {
                    Self::Leaf(chars) => leaf(slots, DType::UInt8, chars),
                    _ => index,
                };
                NodeKind::String { index, chars }
            }
            (Self::List(ends, item), Plan::List(below)) => NodeKind::List {
                index: index(slots, &ends),
                item: Box::new(item.finish(below, slots)),
                sort: ListSort::List,
            },
            (Self::List(ends, item), Plan::Optional(below)) => NodeKind::Optional {
                index: index(slots, &ends),
                item: Box::new(item.finish(below, slots)),
            },
            (Self::Array(item), Plan::Array(size, below)) => NodeKind::Regular {
                size: *size as u64,
                item: Box::new(item.finish(below, slots)),
            },
            (Self::Record(columns), Plan::Record(record)) => {
                let members = columns.into_iter().zip(&record.members);
                NodeKind::Record {
                    names: record.names.clone(),
                    members: members.map(|(c, plan)| c.finish(plan, slots)).collect(),
                    type_name: record.class.clone(),
                }
            }
            (
                Self::Variant {
                    tags,
                    positions,
                    alternatives,
                },
                Plan::Variant(plans),
            ) => {
                let lengths = alternatives.iter().map(|(n, _)| n.unsigned_abs());
                let data = SlotData::Switch {
                    tags: aligned(tags),
                    positions: bytes_of(&positions),
                    lengths: lengths.collect(),
                };
                let switch = add(slots, data);
                let each = alternatives.into_iter().zip(plans);
                NodeKind::Variant {
                    switch,
                    alternatives: each.map(|((_, c), plan)| c.finish(plan, slots)).collect(),
                }
            }
            // the column was made for its plan
            (Self::Leaf(values), _) => NodeKind::Leaf {
                slot: leaf(slots, DType::UInt8, values),
            },
            _ => NodeKind::Record {
                names: None,
                members: Vec::new(),
                type_name: String::new(),
            },
        })
    }
}

fn push_end(ends: &mut Vec<i64>, n: usize) {
    let last = ends.last().copied().unwrap_or_default();
    ends.push(last.saturating_add_unsigned(n as u64));
}

/// Copies `n` elements with a distance of `stride` bytes.
fn strided(out: &mut Vec<u8>, bytes: &[u8], place: usize, stride: usize, size: usize, n: usize) {
    fn each<const SIZE: usize>(out: &mut Vec<u8>, bytes: &[u8], stride: usize, n: usize) {
        out.reserve(n * SIZE);
        for element in bytes.chunks(stride.max(1)).take(n) {
            if let Some(element) = element.first_chunk::<SIZE>() {
                out.extend_from_slice(element);
            }
        }
    }
    let bytes = bytes.get(place..).unwrap_or_default();
    if stride == size {
        out.extend_from_slice(bytes.get(..size * n).unwrap_or_default());
        return;
    }
    match size {
        1 => each::<1>(out, bytes, stride, n),
        2 => each::<2>(out, bytes, stride, n),
        4 => each::<4>(out, bytes, stride, n),
        _ => each::<8>(out, bytes, stride, n),
    }
}

/// Numbers as an aligned buffer.
fn bytes_of(numbers: &[i64]) -> Bytes {
    aligned(bytemuck::cast_slice(numbers).to_vec())
}

/// Values as a buffer that is aligned for every type.
fn aligned(values: Vec<u8>) -> Bytes {
    const ALIGNMENT: usize = 8;
    if values.as_ptr().align_offset(ALIGNMENT) == 0 {
        return Bytes::from(values);
    }
    // the allocator may not have aligned them
    let mut words = vec![0u64; values.len().div_ceil(ALIGNMENT)];
    let length = values.len();
    let place: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    place
        .iter_mut()
        .zip(values)
        .for_each(|(to, from)| *to = from);
    Bytes::from_owner(Words(words)).slice(..length)
}

struct Words(Vec<u64>);

impl AsRef<[u8]> for Words {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

fn node(kind: NodeKind) -> Node {
    Node { field: 0, kind }
}
