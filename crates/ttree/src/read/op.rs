//! Shapes made ready for decoding: with the columns that are wanted.

use crate::interp::{Hidden, ListWire, Number, Record, RecordWire, Shape, TextWire};

/// A shape and where its values go. A column is none if it is not wanted.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Number {
        number: Number,
        column: Option<usize>,
    },
    Text {
        wire: TextWire,
        index: Option<usize>,
        chars: Option<usize>,
    },
    Array {
        n: usize,
        item: Box<Op>,
    },
    List {
        wire: ListWire,
        index: Option<usize>,
        item: Box<Op>,
        /// The least bytes that an item takes.
        least: usize,
    },
    Record {
        wire: RecordWire,
        members: Vec<Op>,
        /// The members that others are counted by.
        counters: Vec<usize>,
        name: String,
    },
    Hidden(Hidden),
}

impl Op {
    /// Makes a shape ready; `wanted` says which of its columns are.
    pub fn new(shape: &Shape, wanted: &[bool]) -> Self {
        Builder { wanted, next: 0 }.op(shape)
    }

    /// Whether items stored member by member have one header in front of all of these.
    pub fn has_common_header(&self) -> bool {
        matches!(
            self,
            Self::Text {
                wire: TextWire::Short { .. },
                ..
            } | Self::List {
                wire: ListWire::Counted { .. },
                ..
            }
        )
    }

    /// Whether it begins with a header of its own that several of them share.
    pub fn is_headed(&self) -> bool {
        matches!(
            self,
            Self::Text {
                wire: TextWire::Short { header: true },
                ..
            } | Self::List {
                wire: ListWire::Counted { header: true },
                ..
            }
        )
    }
}

struct Builder<'a> {
    wanted: &'a [bool],
    next: usize,
}

impl Builder<'_> {
    fn column(&mut self) -> Option<usize> {
        let at = self.next;
        self.next += 1;
        self.wanted.get(at).copied().unwrap_or(false).then_some(at)
    }

    fn op(&mut self, shape: &Shape) -> Op {
        match shape {
            Shape::Number(number) => Op::Number {
                number: *number,
                column: self.column(),
            },
            Shape::Text(wire) => Op::Text {
                wire: *wire,
                index: self.column(),
                chars: self.column(),
            },
            Shape::Array { n, item } => Op::Array {
                n: usize::try_from(*n).unwrap_or(usize::MAX),
                item: Box::new(self.op(item)),
            },
            Shape::List { wire, item, .. } => Op::List {
                wire: *wire,
                index: self.column(),
                item: Box::new(self.op(item)),
                least: least(item),
            },
            Shape::Record(record) => self.record(record),
            Shape::Hidden(hidden) => Op::Hidden(*hidden),
        }
    }

    fn record(&mut self, record: &Record) -> Op {
        let members = record.members.iter().map(|member| self.op(&member.shape));
        let members: Vec<Op> = members.collect();
        let counters = members.iter().filter_map(|op| match op {
            Op::List {
                wire: ListWire::Pointed { counter, .. },
                ..
            } => Some(*counter),
            _ => None,
        });
        Op::Record {
            wire: record.wire.clone(),
            counters: counters.collect(),
            members,
            name: record.name.clone(),
        }
    }
}

/// The least bytes that a shape takes.
fn least(shape: &Shape) -> usize {
    match shape {
        Shape::Number(number) => number.size().unwrap_or(4),
        Shape::Text(TextWire::Long) => 4,
        Shape::Text(_) => 1,
        Shape::Array { n, item } => usize::try_from(*n)
            .unwrap_or(usize::MAX)
            .saturating_mul(least(item)),
        Shape::List {
            wire: ListWire::Counted { .. },
            ..
        } => 4,
        Shape::List { .. } => 0,
        Shape::Record(record) => record.members.iter().fold(0, |sum: usize, member| {
            sum.saturating_add(least(&member.shape))
        }),
        Shape::Hidden(Hidden::Object) => 10,
        Shape::Hidden(Hidden::ClassName) => 2,
        Shape::Hidden(Hidden::Bytes(n)) => *n,
    }
}
