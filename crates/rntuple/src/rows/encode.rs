//! Encodes checked values as bytes.

use arrow_buffer::BooleanBuffer;

use super::Rows;
use super::plan::{Plan, Record};
use crate::RNTupleError;
use crate::write::Values;

/// Encodes the first `n` values, one after another.
pub fn encode(values: &Values, plan: &Plan, n: usize) -> Result<Rows, RNTupleError> {
    let source = Source::new(values, plan).ok_or_else(wrong)?;
    let mut rows = Rows::default();
    rows.bytes.reserve(n.saturating_mul(plan.least()));
    for at in 0..n {
        source.put(at, at + 1, &mut rows.bytes).ok_or_else(wrong)?;
        rows.ends.push(rows.bytes.len());
    }
    Ok(rows)
}

fn wrong() -> RNTupleError {
    RNTupleError::internal("values of another shape than their type's")
}

/// Values with the plan of their encoding.
enum Source<'a> {
    Leaf(&'a [u8], usize),
    Bools(&'a BooleanBuffer),
    List(&'a Values, Box<Source<'a>>),
    Optional(&'a Values, Box<Source<'a>>),
    Array(usize, Box<Source<'a>>),
    Record(&'a Record, Vec<Source<'a>>),
    /// The tags, the position of each value among those of its alternative, and the alternatives.
    Variant(&'a [u8], Vec<usize>, Vec<Source<'a>>),
}

impl<'a> Source<'a> {
    fn new(values: &'a Values, plan: &'a Plan) -> Option<Self> {
        let below = |item: &'a Values, plan: &'a Plan| Self::new(item, plan).map(Box::new);
        let each = |values: &'a [Values], plans: &'a [Plan]| {
            let pairs = values.iter().zip(plans);
            pairs
                .map(|(values, plan)| Self::new(values, plan))
                .collect()
        };
        Some(match (values, plan) {
            (Values::Leaf { bytes, size }, Plan::Leaf(_)) => Self::Leaf(bytes, *size),
            (Values::Bools(bools), Plan::Leaf(_)) => Self::Bools(bools),
            (Values::List { item, .. }, Plan::Text) => {
                let Values::Leaf { bytes, size } = &**item else {
                    return None;
                };
                Self::List(values, Box::new(Self::Leaf(bytes, *size)))
            }
            (Values::List { item, .. }, Plan::List(plan)) => Self::List(values, below(item, plan)?),
            (Values::List { item, .. }, Plan::Optional(plan)) => {
                Self::Optional(values, below(item, plan)?)
            }
            (Values::Array { item, .. }, Plan::Array(n, plan)) => {
                Self::Array(*n, below(item, plan)?)
            }
            (Values::Record(members), Plan::Record(record)) => {
                Self::Record(record, each(members, &record.members)?)
            }
            (Values::Variant { tags, alternatives }, Plan::Variant(plans)) => {
                let alternatives: Option<Vec<_>> = each(alternatives, plans);
                let mut counts = vec![0; usize::from(u8::MAX) + 1];
                let place = |tag: &u8| {
                    let count = counts.get_mut(usize::from(*tag))?;
                    *count += 1;
                    Some(*count - 1)
                };
                let places = tags.iter().map(place).collect::<Option<_>>()?;
                Self::Variant(tags, places, alternatives?)
            }
            _ => return None,
        })
    }

    /// Appends the values `from..to`; none if they do not exist.
    fn put(&self, from: usize, to: usize, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Leaf(bytes, size) => out.extend_from_slice(bytes.get(from * size..to * size)?),
            Self::Bools(bools) => out.extend((from..to).map(|at| u8::from(bools.value(at)))),
            Self::List(Values::List { ends, .. }, item) => {
                for at in from..to {
                    let (first, end) = (ends.at(at), ends.at(at + 1));
                    let n = end.checked_sub(first)? as u64;
                    out.extend_from_slice(&n.to_le_bytes());
                    item.put(first, end, out)?;
                }
            }
            Self::Optional(Values::List { ends, .. }, item) => {
                for at in from..to {
                    let (first, end) = (ends.at(at), ends.at(at + 1));
                    out.push(u8::from(end > first));
                    item.put(first, end, out)?;
                }
            }
            Self::List(..) | Self::Optional(..) => return None,
            Self::Array(n, item) => item.put(from * n, to * n, out)?,
            Self::Record(record, members) => {
                for at in from..to {
                    put_record(record, members, at, out)?;
                }
            }
            Self::Variant(tags, places, alternatives) => {
                for at in from..to {
                    let tag = *tags.get(at)?;
                    out.push(tag);
                    if let Some(alternative) = usize::from(tag).checked_sub(1) {
                        let place = *places.get(at)?;
                        alternatives.get(alternative)?.put(place, place + 1, out)?;
                    }
                }
            }
        }
        Some(())
    }
}

fn put_record(record: &Record, members: &[Source<'_>], at: usize, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    for (m, member) in members.iter().enumerate() {
        if let Some((_, places)) = &record.fixed {
            out.resize(start + places.get(m)?, 0);
        }
        member.put(at, at + 1, out)?;
    }
    if let Some((fixed, _)) = &record.fixed {
        out.resize(start + fixed.size, 0);
    }
    Some(())
}
