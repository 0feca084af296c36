//! The values of a part of an expression for a whole batch.

use arrow_array::{Array, LargeStringArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};

/// The values of one part of an expression.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub data: Data,
    /// Mask of existing values; `None` if all exist.
    pub valid: Option<NullBuffer>,
    pub shape: Shape,
}

/// How values relate to entries.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// One value for all entries.
    Constant,
    /// The offsets of lists, outermost first, each beginning with 0. Without any, there is one value per
    /// entry.
    Levels(Vec<OffsetBuffer<i64>>),
}

/// The values, with all lists concatenated.
#[derive(Debug, Clone)]
pub(super) enum Data {
    Bool(BooleanBuffer),
    Int(ScalarBuffer<i64>),
    /// Integers that do not all fit into signed 64 bits.
    Wide(ScalarBuffer<i128>),
    Float(ScalarBuffer<f64>),
    Text(LargeStringArray),
    /// Values that can only be counted.
    Other(&'static str),
}

/// The integers of a column, in their stored width.
pub(super) enum Integers {
    Narrow(ScalarBuffer<i64>),
    Wide(ScalarBuffer<i128>),
}

/// An operand: one value for all elements, or one per element.
#[derive(Clone, Copy)]
pub(super) enum Side<'a, T> {
    One(T),
    Many(&'a [T]),
}

impl Column {
    pub fn constant(data: Data) -> Self {
        Self {
            data,
            valid: None,
            shape: Shape::Constant,
        }
    }

    pub fn levels(&self) -> &[OffsetBuffer<i64>] {
        match &self.shape {
            Shape::Constant => &[],
            Shape::Levels(levels) => levels,
        }
    }

    pub fn with_data(self, data: Data) -> Self {
        Self { data, ..self }
    }

    /// The boolean values of conditions: missing values are false.
    pub fn truths(&self) -> Option<BooleanBuffer> {
        match (&self.data, &self.valid) {
            (Data::Bool(bits), None) => Some(bits.clone()),
            (Data::Bool(bits), Some(valid)) => Some(bits & valid.inner()),
            _ => None,
        }
    }

    /// The elements at some indexes; -1 stands for a missing element.
    pub fn gather(&self, places: &[i64]) -> (Data, Option<NullBuffer>) {
        let is_there = |&place: &i64| {
            usize::try_from(place).is_ok_and(|place| {
                let valid = self.valid.as_ref();
                valid.is_none_or(|valid| place < valid.len() && valid.is_valid(place))
            })
        };
        let has_missing = self.valid.is_some() || places.contains(&-1);
        let valid = has_missing.then(|| NullBuffer::from_iter(places.iter().map(is_there)));
        (self.data.gather(places), valid)
    }
}

impl Shape {
    pub fn side<'a, T: Copy + Default>(&self, values: &'a [T]) -> Side<'a, T> {
        match self {
            Self::Constant => Side::One(values.first().copied().unwrap_or_default()),
            Self::Levels(_) => Side::Many(values),
        }
    }
}

impl Data {
    /// Stores integers in the smallest width that fits all of them.
    pub fn integers(numbers: Vec<i128>) -> Self {
        let narrow: Result<Vec<i64>, _> = numbers.iter().map(|&it| i64::try_from(it)).collect();
        match narrow {
            Ok(numbers) => Self::Int(numbers.into()),
            Err(_) => Self::Wide(numbers.into()),
        }
    }

    pub fn floats(values: impl Iterator<Item = f64>) -> Self {
        Self::Float(values.collect())
    }

    pub fn truths(values: impl Iterator<Item = bool>) -> Self {
        Self::Bool(values.collect::<Bits>().0)
    }

    /// The kind of the values, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Bool(_) => "a condition",
            Self::Int(_) | Self::Wide(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a string",
            Self::Other(kind) => kind,
        }
    }

    /// Numbers as floats; booleans are 0 and 1.
    pub fn as_floats(&self) -> Option<ScalarBuffer<f64>> {
        Some(match self {
            Self::Float(values) => values.clone(),
            Self::Int(values) => values.iter().map(|&it| it as f64).collect(),
            Self::Wide(values) => values.iter().map(|&it| it as f64).collect(),
            Self::Bool(bits) => bits.iter().map(|bit| f64::from(u8::from(bit))).collect(),
            Self::Text(_) | Self::Other(_) => return None,
        })
    }

    /// Integers; booleans are 0 and 1.
    pub fn as_integers(&self) -> Option<Integers> {
        Some(match self {
            Self::Int(values) => Integers::Narrow(values.clone()),
            Self::Wide(values) => Integers::Wide(values.clone()),
            Self::Bool(bits) => Integers::Narrow(bits.iter().map(i64::from).collect()),
            Self::Float(_) | Self::Text(_) | Self::Other(_) => return None,
        })
    }

    fn gather(&self, places: &[i64]) -> Self {
        match self {
            Self::Bool(bits) => {
                let at = |&place: &i64| {
                    usize::try_from(place).is_ok_and(|at| at < bits.len() && bits.value(at))
                };
                Self::Bool(places.iter().map(at).collect())
            }
            Self::Int(values) => Self::Int(gather(values, places)),
            Self::Wide(values) => Self::Wide(gather(values, places)),
            Self::Float(values) => Self::Float(gather(values, places)),
            Self::Text(texts) => {
                let at = |&place: &i64| match usize::try_from(place) {
                    Ok(at) if at < texts.len() => texts.value(at),
                    _ => "",
                };
                Self::Text(LargeStringArray::from_iter_values(places.iter().map(at)))
            }
            Self::Other(kind) => Self::Other(kind),
        }
    }
}

fn gather<T: arrow_buffer::ArrowNativeType>(values: &[T], places: &[i64]) -> ScalarBuffer<T> {
    let at = |&place: &i64| {
        let at = usize::try_from(place).ok()?;
        values.get(at).copied()
    };
    places.iter().map(|it| at(it).unwrap_or_default()).collect()
}

impl Integers {
    pub fn wide(&self) -> ScalarBuffer<i128> {
        match self {
            Self::Narrow(values) => values.iter().map(|&it| i128::from(it)).collect(),
            Self::Wide(values) => values.clone(),
        }
    }
}

/// Booleans, packed without branches: branches make this ten times slower on values in random order.
pub(super) struct Bits(pub BooleanBuffer);

impl FromIterator<bool> for Bits {
    /// Collects an iterator with a known length.
    fn from_iter<I: IntoIterator<Item = bool>>(values: I) -> Self {
        let mut values = values.into_iter();
        let n = values.size_hint().0;
        Self(BooleanBuffer::collect_bool(n, |_| {
            values.next().unwrap_or(false)
        }))
    }
}

/// Applies a function to two operands, element by element.
pub(super) fn map2<A: Copy, B: Copy, R, C: FromIterator<R>>(
    a: Side<'_, A>,
    b: Side<'_, B>,
    f: impl Fn(A, B) -> R,
) -> C {
    match (a, b) {
        (Side::One(a), Side::One(b)) => std::iter::once(f(a, b)).collect(),
        (Side::One(a), Side::Many(b)) => b.iter().map(|&b| f(a, b)).collect(),
        (Side::Many(a), Side::One(b)) => a.iter().map(|&a| f(a, b)).collect(),
        (Side::Many(a), Side::Many(b)) => a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect(),
    }
}
