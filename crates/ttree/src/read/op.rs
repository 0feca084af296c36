//! Decoding operations: shapes with the wanted columns.

use crate::interp::{Hidden, ListWire, Member, Number, Record, RecordWire, Shape, TextWire};

/// A shape, and the columns that its values go to. A column is none if it is not wanted.
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
        /// The smallest size of an item in bytes.
        least: usize,
    },
    Record {
        wire: RecordWire,
        members: Vec<Op>,
        /// The counter members; members of bases count in place of the base.
        counters: Vec<usize>,
        /// The members that are bases, whose members count among those of the record if it is stored member-wise.
        bases: Vec<usize>,
        /// Other versions of the class.
        others: Vec<Version>,
        /// Versions and checksums of all descriptions in the file.
        described: Vec<(i32, u32)>,
        name: String,
    },
    Hidden(Hidden),
}

/// A class version that differs from the presented one.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub version: i32,
    pub checksum: u32,
    pub members: Vec<Op>,
    pub counters: Vec<usize>,
    pub bases: Vec<usize>,
    /// The members that it lacks. Their values are zero or empty.
    pub absent: Vec<Op>,
}

impl Op {
    /// Prepares a shape; `wanted` selects its columns.
    pub fn new(shape: &Shape, wanted: &[bool]) -> Self {
        Builder { wanted, next: 0 }.op(shape)
    }

    /// Whether items stored member-wise share one header.
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
        ) || matches!(self, Self::Array { item, .. } if item.has_common_header())
    }

    /// Whether it begins with byte count and version.
    pub fn begins_with_header(&self) -> bool {
        match self {
            Self::Record {
                wire: RecordWire::Headed { .. },
                ..
            } => true,
            other => other.is_headed(),
        }
    }

    /// Whether it begins with a header that several values share.
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
        ) || matches!(self, Self::Array { item, .. } if item.is_headed())
    }

    /// Number of members; members of bases count in place of the base.
    pub fn n_members(&self) -> usize {
        let Self::Record { members, bases, .. } = self else {
            return 1;
        };
        let members = members.iter().enumerate();
        let counted = members.map(|(at, member)| match bases.contains(&at) {
            true => member.n_members(),
            false => 1,
        });
        counted.sum()
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
        let others = record.others.iter().filter_map(|other| {
            let (own, absent) = versioned(&other.members, &record.members, &members)?;
            let bases = bases(&other.members);
            Some(Version {
                version: other.version,
                checksum: other.checksum,
                counters: counters(&own, &bases),
                bases,
                members: own,
                absent,
            })
        });
        let bases = bases(&record.members);
        Op::Record {
            wire: record.wire.clone(),
            counters: counters(&members, &bases),
            bases,
            others: others.collect(),
            described: record.described.clone(),
            members,
            name: record.name.clone(),
        }
    }
}

/// The counter members of a class and its bases.
fn counters(members: &[Op], bases: &[usize]) -> Vec<usize> {
    let (mut out, mut first) = (Vec::new(), 0usize);
    for (at, op) in members.iter().enumerate() {
        match op {
            Op::List { wire, .. } => out.extend(wire.counter()),
            Op::Record { counters, .. } if bases.contains(&at) => {
                out.extend(counters.iter().map(|own| first.saturating_add(*own)));
                first = first.saturating_add(op.n_members());
                continue;
            }
            _ => {}
        }
        first += 1;
    }
    out
}

fn bases(members: &[Member]) -> Vec<usize> {
    let numbered = members.iter().enumerate();
    numbered
        .filter_map(|(at, member)| member.is_open_base().then_some(at))
        .collect()
}

/// The operations for the members of a class version with the columns of another, and those for absent members. None if a
/// member has changed its type.
fn versioned(own: &[Member], shown: &[Member], ops: &[Op]) -> Option<(Vec<Op>, Vec<Op>)> {
    let mut is_used = vec![false; shown.len()];
    let mut out = Vec::with_capacity(own.len());
    for member in own {
        let is_it = |other: &Member| other.name == member.name && other.is_base == member.is_base;
        let found = shown
            .iter()
            .zip(&is_used)
            .position(|(other, used)| !used && is_it(other));
        let Some(at) = found else {
            out.push(Op::new(&member.shape, &[]));
            continue;
        };
        *is_used.get_mut(at)? = true;
        if !is_same(&member.shape, &shown.get(at)?.shape) {
            return None;
        }
        out.push(ops.get(at)?.clone());
    }
    let absent = ops.iter().zip(&is_used).filter(|(_, used)| !**used);
    Some((out, absent.map(|(op, _)| op.clone()).collect()))
}

/// Whether two shapes are read in the same way: objects state their own class version.
fn is_same(own: &Shape, shown: &Shape) -> bool {
    match (own, shown) {
        (Shape::Record(own), Shape::Record(shown)) if own.wire == RecordWire::Bare => {
            let pairs = own.members.iter().zip(&shown.members);
            let mut same = pairs.map(|(own, shown)| is_same(&own.shape, &shown.shape));
            shown.wire == own.wire
                && own.members.len() == shown.members.len()
                && same.all(|same| same)
        }
        (Shape::Record(own), Shape::Record(shown)) => {
            own.name == shown.name && shown.wire != RecordWire::Bare
        }
        (
            Shape::Array { n, item },
            Shape::Array {
                n: other,
                item: items,
            },
        ) => n == other && is_same(item, items),
        (
            Shape::List { wire, item, .. },
            Shape::List {
                wire: other,
                item: items,
                ..
            },
        ) => wire == other && is_same(item, items),
        _ => own == shown,
    }
}

/// The smallest size of a shape in bytes.
fn least(shape: &Shape) -> usize {
    match shape {
        Shape::Number(number) => number.size().unwrap_or(4),
        Shape::Text(TextWire::Long) => 4,
        Shape::Text(_) => 1,
        Shape::Array { n, item } => usize::try_from(*n)
            .unwrap_or(usize::MAX)
            .saturating_mul(least(item)),
        Shape::List {
            wire: ListWire::Counted { .. } | ListWire::Bare,
            ..
        } => 4,
        Shape::List { .. } => 0,
        Shape::Record(record) => {
            let others = record.others.iter().map(|other| least_of(&other.members));
            others.fold(least_of(&record.members), usize::min)
        }
        Shape::Hidden(Hidden::Object) => 10,
        Shape::Hidden(Hidden::ClassName) => 2,
        Shape::Hidden(Hidden::Bytes(n)) => *n,
    }
}

fn least_of(members: &[Member]) -> usize {
    members.iter().fold(0, |sum: usize, member| {
        sum.saturating_add(least(&member.shape))
    })
}
