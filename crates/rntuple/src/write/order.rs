//! Sets and maps in the order of their keys, as in C++, with unique keys if the type requires that.

use std::cmp::Ordering;

use arrow_buffer::{BooleanBuffer, Buffer, OffsetBuffer, ScalarBuffer};

use super::model::{Order, Shape, unwritable};
use super::values::{Ends, Values};
use crate::RNTupleError;
use crate::schema::DType;

/// Sorts the sets and maps among values. `entry` returns the entry of the batch that a value is in.
///
/// # Errors
/// If a set has a value twice, or a map a key.
pub(crate) fn ordered(
    values: Values,
    shape: &Shape,
    path: &str,
    entry: &dyn Fn(usize) -> usize,
) -> Result<Values, RNTupleError> {
    if !has_order(shape) {
        return Ok(values);
    }
    Ok(match (values, shape) {
        (
            Values::List { ends, item },
            Shape::List { item: below, .. } | Shape::Optional { item: below, .. },
        ) => {
            let item = ordered(*item, below, path, &|at| entry(ends.list_of(at)))?;
            let lists = Values::List {
                ends,
                item: Box::new(item),
            };
            match shape {
                Shape::List { order, .. } if *order != Order::default() => {
                    sorted(lists, *order, below, path, entry)?
                }
                _ => lists,
            }
        }
        (Values::Array { size, item }, Shape::Array { item: below, .. }) => {
            let item = ordered(*item, below, path, &|at| entry(at / size.max(1)))?;
            Values::Array {
                size,
                item: Box::new(item),
            }
        }
        (
            Values::Record(members),
            Shape::Record {
                members: shapes, ..
            },
        ) => {
            let each = members
                .into_iter()
                .zip(shapes)
                .map(|(member, (name, shape))| {
                    ordered(member, shape, &format!("{path}.{name}"), entry)
                });
            Values::Record(each.collect::<Result<_, _>>()?)
        }
        (
            Values::Variant { tags, alternatives },
            Shape::Variant {
                alternatives: shapes,
                ..
            },
        ) => {
            let each = (1u8..).zip(alternatives).zip(shapes);
            let each = each.map(|((tag, values), shape)| {
                if !has_order(shape) {
                    return Ok(values);
                }
                let own = (0..tags.len()).filter(|&i| tags.get(i) == Some(&tag));
                let places: Vec<usize> = own.collect();
                let place = |at: usize| places.get(at).copied().unwrap_or(0);
                ordered(values, shape, path, &|at| entry(place(at)))
            });
            let alternatives = each.collect::<Result<_, _>>()?;
            Values::Variant { tags, alternatives }
        }
        (values, _) => values,
    })
}

/// Whether a shape contains sets or maps.
fn has_order(shape: &Shape) -> bool {
    match shape {
        Shape::Leaf { .. } => false,
        Shape::List { order, item, .. } => *order != Order::default() || has_order(item),
        Shape::Optional { item, .. } | Shape::Array { item, .. } => has_order(item),
        Shape::Record { members, .. } => members.iter().any(|(_, shape)| has_order(shape)),
        Shape::Variant { alternatives, .. } => alternatives.iter().any(has_order),
    }
}

/// Sorts lists of values that are sets or maps.
fn sorted(
    lists: Values,
    order: Order,
    shape: &Shape,
    path: &str,
    entry: &dyn Fn(usize) -> usize,
) -> Result<Values, RNTupleError> {
    let Values::List { ends, item } = &lists else {
        return Ok(lists);
    };
    let (keys, shape) = match (&**item, shape) {
        (Values::Record(values), Shape::Record { members, .. }) if order.by_key => {
            match (values.first(), members.first()) {
                (Some(keys), Some((_, shape))) => (keys, shape),
                _ => return Ok(lists),
            }
        }
        (item, shape) => (item, shape),
    };
    // the order of classes is known only to their programs
    if !is_comparable(shape) {
        return Ok(lists);
    }
    let keys = Keys::new(keys, shape);
    let compare = |a: usize, b: usize| keys.compare(a, b);
    let mut positions: Vec<usize> = (0..item.len()).collect();
    let mut is_moved = false;
    for list in 0..ends.len() {
        let own = positions.get_mut(ends.at(list)..ends.at(list + 1));
        let own = own.unwrap_or_default();
        let is_sorted = own
            .windows(2)
            .all(|pair| matches!(pair, [a, b] if compare(*a, *b).is_lt()));
        if is_sorted {
            continue;
        }
        // stable: items with equal keys keep their order
        own.sort_by(|&a, &b| compare(a, b));
        let is_twice = |pair: &&[usize]| matches!(pair, [a, b] if compare(*a, *b).is_eq());
        if order.is_unique && own.windows(2).find(is_twice).is_some() {
            let what = if order.by_key { "key" } else { "value" };
            let reason = format!(
                "entry {} of the batch has a {what} twice, but it must be unique",
                entry(list)
            );
            return Err(unwritable(path, reason));
        }
        if !order.is_sorted {
            own.sort_unstable();
        }
        is_moved |= order.is_sorted;
    }
    if !is_moved {
        return Ok(lists);
    }
    let item = Box::new(item.taken(&positions));
    Ok(match lists {
        Values::List { ends, .. } => Values::List { ends, item },
        other => other,
    })
}

/// Whether the C++ order of a shape's values is known here.
fn is_comparable(shape: &Shape) -> bool {
    match shape {
        Shape::Leaf { .. } => true,
        Shape::List { item, .. } | Shape::Optional { item, .. } | Shape::Array { item, .. } => {
            is_comparable(item)
        }
        Shape::Record { class, members } => {
            let is_of_std = class.starts_with("std::pair<") || class.starts_with("std::tuple<");
            is_of_std && members.iter().all(|(_, shape)| is_comparable(shape))
        }
        Shape::Variant { alternatives, .. } => alternatives.iter().all(is_comparable),
    }
}

/// Values to compare, in a form that is fast to compare.
enum Keys<'v> {
    Leaf {
        bytes: &'v [u8],
        size: usize,
        dtype: DType,
    },
    Bools(&'v BooleanBuffer),
    List {
        ends: &'v Ends,
        item: Box<Keys<'v>>,
    },
    Array {
        size: usize,
        item: Box<Keys<'v>>,
    },
    Record(Vec<Keys<'v>>),
    Variant {
        tags: &'v [u8],
        places: Vec<usize>,
        alternatives: Vec<Keys<'v>>,
    },
    /// All equal.
    Unknown,
}

impl<'v> Keys<'v> {
    fn new(values: &'v Values, shape: &Shape) -> Self {
        match (values, shape) {
            (Values::Leaf { bytes, size }, Shape::Leaf { dtype, .. }) => Self::Leaf {
                bytes,
                size: *size,
                dtype: *dtype,
            },
            (Values::Bools(bools), _) => Self::Bools(bools),
            (
                Values::List { ends, item },
                Shape::List { item: below, .. } | Shape::Optional { item: below, .. },
            ) => Self::List {
                ends,
                item: Box::new(Self::new(item, below)),
            },
            (Values::Array { size, item }, Shape::Array { item: below, .. }) => Self::Array {
                size: *size,
                item: Box::new(Self::new(item, below)),
            },
            (
                Values::Record(members),
                Shape::Record {
                    members: shapes, ..
                },
            ) => {
                let each = members.iter().zip(shapes);
                Self::Record(
                    each.map(|(member, (_, shape))| Self::new(member, shape))
                        .collect(),
                )
            }
            (
                Values::Variant { tags, alternatives },
                Shape::Variant {
                    alternatives: shapes,
                    ..
                },
            ) => {
                let each = alternatives.iter().zip(shapes);
                Self::Variant {
                    tags,
                    places: places(tags),
                    alternatives: each
                        .map(|(values, shape)| Self::new(values, shape))
                        .collect(),
                }
            }
            _ => Self::Unknown,
        }
    }

    /// The C++ order of two values: numbers by size, strings and lists by their first difference, missing values first.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        match self {
            Self::Leaf { bytes, size, dtype } => {
                let of = |at: usize| bytes.get(at * size..(at + 1) * size).unwrap_or_default();
                compare_numbers(*dtype, of(a), of(b))
            }
            Self::Bools(bools) => bools.value(a).cmp(&bools.value(b)),
            Self::List { ends, item } => {
                let (first, second) = (ends.at(a)..ends.at(a + 1), ends.at(b)..ends.at(b + 1));
                let (n, m) = (first.len(), second.len());
                let mut each = first.zip(second).map(|(i, j)| item.compare(i, j));
                each.find(|order| order.is_ne()).unwrap_or(n.cmp(&m))
            }
            Self::Array { size, item } => {
                let mut each = (0..*size).map(|i| item.compare(a * size + i, b * size + i));
                each.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            }
            Self::Record(members) => {
                let mut each = members.iter().map(|member| member.compare(a, b));
                each.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            }
            Self::Variant {
                tags,
                places,
                alternatives,
            } => {
                let tag = |at: usize| tags.get(at).copied().unwrap_or(0);
                let place = |at: usize| places.get(at).copied().unwrap_or(0);
                tag(a).cmp(&tag(b)).then_with(|| {
                    let number = usize::from(tag(a)).wrapping_sub(1);
                    alternatives
                        .get(number)
                        .map_or(Ordering::Equal, |keys| keys.compare(place(a), place(b)))
                })
            }
            Self::Unknown => Ordering::Equal,
        }
    }
}

/// The position of each value of a variant among the values of its alternative.
fn places(tags: &[u8]) -> Vec<usize> {
    let mut counts = [0usize; 256];
    let mut next = |&tag: &u8| match counts.get_mut(usize::from(tag)) {
        Some(count) => std::mem::replace(count, *count + 1),
        None => 0,
    };
    tags.iter().map(&mut next).collect()
}

fn compare_numbers(dtype: DType, a: &[u8], b: &[u8]) -> Ordering {
    macro_rules! of {
        ($number:ty) => {
            match (a.try_into(), b.try_into()) {
                (Ok(a), Ok(b)) => <$number>::from_le_bytes(a).cmp(&<$number>::from_le_bytes(b)),
                _ => Ordering::Equal,
            }
        };
    }
    // zeros of both signs are equal
    macro_rules! of_real {
        ($real:ty) => {
            match (a.try_into(), b.try_into()) {
                (Ok(a), Ok(b)) => {
                    (<$real>::from_le_bytes(a) + 0.0).total_cmp(&(<$real>::from_le_bytes(b) + 0.0))
                }
                _ => Ordering::Equal,
            }
        };
    }
    match dtype {
        DType::Bool | DType::UInt8 => of!(u8),
        DType::Int8 => of!(i8),
        DType::UInt16 => of!(u16),
        DType::Int16 => of!(i16),
        DType::UInt32 => of!(u32),
        DType::Int32 => of!(i32),
        DType::UInt64 => of!(u64),
        DType::Int64 => of!(i64),
        DType::Float32 => of_real!(f32),
        DType::Float64 => of_real!(f64),
        // no C++ type that can be in a set
        DType::Float16 => Ordering::Equal,
    }
}

impl Ends {
    /// Number of lists.
    fn len(&self) -> usize {
        match self {
            Self::Narrow(ends) => ends.len() - 1,
            Self::Wide(ends) => ends.len() - 1,
        }
    }

    /// The list of an item.
    fn list_of(&self, item: usize) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.at(middle + 1) <= item {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

impl Values {
    /// The values at these positions.
    fn taken(&self, positions: &[usize]) -> Self {
        match self {
            Self::Leaf { bytes, size } => {
                let each = positions
                    .iter()
                    .filter_map(|&at| bytes.get(at * size..(at + 1) * size));
                Self::Leaf {
                    bytes: Buffer::from_vec(each.flatten().copied().collect::<Vec<u8>>()),
                    size: *size,
                }
            }
            Self::Bools(bools) => Self::Bools(
                positions
                    .iter()
                    .map(|&at| bools.value(at))
                    .collect::<BooleanBuffer>(),
            ),
            Self::List { ends, item } => {
                let mut below = Vec::new();
                let mut new_ends = vec![0i64];
                for &at in positions {
                    below.extend(ends.at(at)..ends.at(at + 1));
                    new_ends.push(i64::try_from(below.len()).unwrap_or(i64::MAX));
                }
                Self::List {
                    ends: Ends::Wide(OffsetBuffer::new(ScalarBuffer::from(new_ends))),
                    item: Box::new(item.taken(&below)),
                }
            }
            Self::Array { size, item } => {
                let below: Vec<usize> = positions
                    .iter()
                    .flat_map(|&at| at * size..(at + 1) * size)
                    .collect();
                Self::Array {
                    size: *size,
                    item: Box::new(item.taken(&below)),
                }
            }
            Self::Record(members) => Self::Record(
                members
                    .iter()
                    .map(|member| member.taken(positions))
                    .collect(),
            ),
            Self::Variant { tags, alternatives } => {
                let tag = |at: usize| tags.get(at).copied().unwrap_or(0);
                let places = places(tags);
                let place = |at: usize| places.get(at).copied().unwrap_or(0);
                let each = (1u8..).zip(alternatives).map(|(number, values)| {
                    let own = positions.iter().filter(|&&at| tag(at) == number);
                    values.taken(&own.map(|&at| place(at)).collect::<Vec<_>>())
                });
                Self::Variant {
                    alternatives: each.collect(),
                    tags: positions.iter().map(|&at| tag(at)).collect(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::model::Limits;

    fn leaf<const N: usize>(values: impl Iterator<Item = [u8; N]>) -> Values {
        Values::Leaf {
            bytes: Buffer::from_vec(values.flatten().collect::<Vec<u8>>()),
            size: N,
        }
    }

    /// Each comparison counted the tags from the beginning, which took hours.
    #[test]
    fn many_sets_of_variants_are_sorted() {
        const N: i64 = 200_000;
        let number = |column, dtype| Shape::Leaf {
            column,
            dtype,
            limits: Limits::None,
        };
        let variant = Shape::Variant {
            switch: 1,
            alternatives: vec![number(2, DType::Int32), number(3, DType::Float64)],
        };
        let shape = Shape::List {
            index: 0,
            item: Box::new(variant),
            text: false,
            order: Order {
                is_sorted: true,
                is_unique: true,
                by_key: false,
            },
        };
        // in each: 0.5, the entry number, and a smaller number
        let integers = (0..N)
            .flat_map(|e| [e, e - 1])
            .map(|i| i32::try_from(i).unwrap());
        let lists = Values::List {
            ends: Ends::Wide(OffsetBuffer::new((0..=N).map(|e| 3 * e).collect())),
            item: Box::new(Values::Variant {
                tags: [2, 1, 1].repeat(usize::try_from(N).unwrap()),
                alternatives: vec![
                    leaf(integers.map(i32::to_le_bytes)),
                    leaf((0..N).map(|_| 0.5f64.to_le_bytes())),
                ],
            }),
        };
        let Values::List { item, .. } = ordered(lists, &shape, "sets", &|at| at).unwrap() else {
            panic!("no lists");
        };
        let Values::Variant { tags, alternatives } = *item else {
            panic!("no variants");
        };
        assert_eq!(tags[..6], [1, 1, 2, 1, 1, 2]);
        let Values::Leaf { bytes, .. } = &alternatives[0] else {
            panic!("no numbers");
        };
        let sorted = (0..N)
            .flat_map(|e| [e - 1, e])
            .map(|i| i32::try_from(i).unwrap());
        assert!(bytes.iter().copied().eq(sorted.flat_map(i32::to_le_bytes)));
    }
}
