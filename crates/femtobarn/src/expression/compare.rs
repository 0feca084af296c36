//! Comparisons. Integers and floats are compared exactly, without rounding.

use std::cmp::Ordering;
use std::collections::HashSet;

use arrow_array::{Array, LargeStringArray};
use arrow_buffer::BooleanBuffer;

use super::column::{Bits, Column, Data, Integers, Shape, Side, map2};
use super::shape::Pair;
use super::tree::{Comparison, Constant};

/// Compares two operands, ignoring missing values. The error is the reason why they cannot be
/// compared.
pub(super) fn compare(operator: Comparison, pair: &Pair<'_>) -> Result<BooleanBuffer, String> {
    let (a, b) = (&pair.a, &pair.b);
    if let (Data::Text(left), Data::Text(right)) = (&a.data, &b.data) {
        return texts(operator, (left, &a.shape), (right, &b.shape));
    }
    let is_number = |data: &Data| !matches!(data, Data::Text(_) | Data::Other(_));
    if !is_number(&a.data) || !is_number(&b.data) {
        return Err(unlike(&a.data, &b.data));
    }
    let (left, right) = (a.data.as_integers(), b.data.as_integers());
    match (left, right) {
        (Some(Integers::Narrow(left)), Some(Integers::Narrow(right))) => {
            let (left, right) = (a.shape.side(&left), b.shape.side(&right));
            Ok(ordered(operator, left, right))
        }
        (Some(left), Some(right)) => {
            let (left, right) = (left.wide(), right.wide());
            Ok(ordered(operator, a.shape.side(&left), b.shape.side(&right)))
        }
        (Some(integers), None) => mixed(operator, (a, &integers), b),
        (None, Some(integers)) => mixed(operator.mirrored(), (b, &integers), a),
        (None, None) => {
            let floats = (a.data.as_floats(), b.data.as_floats());
            let (Some(left), Some(right)) = floats else {
                return Err(unlike(&a.data, &b.data));
            };
            Ok(ordered(operator, a.shape.side(&left), b.shape.side(&right)))
        }
    }
}

fn unlike(a: &Data, b: &Data) -> String {
    format!("{} cannot be compared with {}", a.kind(), b.kind())
}

fn ordered<T: PartialOrd + Copy>(
    operator: Comparison,
    a: Side<'_, T>,
    b: Side<'_, T>,
) -> BooleanBuffer {
    let Bits(truths) = match operator {
        Comparison::Less => map2(a, b, |a, b| a < b),
        Comparison::LessEqual => map2(a, b, |a, b| a <= b),
        Comparison::Greater => map2(a, b, |a, b| a > b),
        Comparison::GreaterEqual => map2(a, b, |a, b| a >= b),
        Comparison::Equal => map2(a, b, |a, b| a == b),
        Comparison::NotEqual => map2(a, b, |a, b| a != b),
    };
    truths
}

/// Compares integers with floats.
fn mixed(
    operator: Comparison,
    (a, integers): (&Column, &Integers),
    b: &Column,
) -> Result<BooleanBuffer, String> {
    let floats = b.data.as_floats().ok_or_else(|| unlike(&a.data, &b.data))?;
    let right = b.shape.side(&floats);
    let is_small = |it: &i64| u128::from(it.unsigned_abs()) <= EXACT;
    if let (Integers::Narrow(values), Some(left)) = (integers, a.data.as_floats())
        && values.iter().all(is_small)
    {
        return Ok(ordered(operator, a.shape.side(&left), right));
    }
    let left = integers.wide();
    let holds = |a, b| operator.holds(order(a, b));
    let Bits(truths) = map2(a.shape.side(&left), right, holds);
    Ok(truths)
}

/// Every integer up to this one is exactly a float.
const EXACT: u128 = 1 << 53;

/// Compares an integer with a float exactly; `None` for NaN.
fn order(integer: i128, float: f64) -> Option<Ordering> {
    if integer.unsigned_abs() <= EXACT {
        return (integer as f64).partial_cmp(&float);
    }
    if float.is_nan() {
        return None;
    }
    let whole = float.trunc();
    let rest = 0.0.partial_cmp(&(float - whole));
    match integer.cmp(&saturated(whole)) {
        Ordering::Equal if whole.abs() < I128_END => rest,
        Ordering::Equal => 0.0.partial_cmp(&whole),
        other => Some(other),
    }
}

/// 2^127.
const I128_END: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;

#[expect(
    clippy::cast_possible_truncation,
    reason = "the number is an integer within the range"
)]
fn saturated(whole: f64) -> i128 {
    whole as i128
}

impl Comparison {
    fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessEqual => Self::GreaterEqual,
            Self::Greater => Self::Less,
            Self::GreaterEqual => Self::LessEqual,
            Self::Equal | Self::NotEqual => self,
        }
    }

    fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Less => order == Some(Ordering::Less),
            Self::LessEqual => order.is_some_and(Ordering::is_le),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterEqual => order.is_some_and(Ordering::is_ge),
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
        }
    }
}

fn texts(
    operator: Comparison,
    (a, a_shape): (&LargeStringArray, &Shape),
    (b, b_shape): (&LargeStringArray, &Shape),
) -> Result<BooleanBuffer, String> {
    if !operator.is_equality() {
        return Err("strings can only be compared with == and !=".to_owned());
    }
    let (a, b) = (all(a), all(b));
    Ok(ordered(operator, a_shape.side(&a), b_shape.side(&b)))
}

fn all(texts: &LargeStringArray) -> Vec<&str> {
    (0..texts.len()).map(|at| texts.value(at)).collect()
}

/// Whether values are in a list. The error is the reason why they cannot be.
pub(super) fn within(data: &Data, list: &[Constant]) -> Result<BooleanBuffer, String> {
    let misfit = list
        .iter()
        .find(|constant| matches!(constant, Constant::Text(_)) != matches!(data, Data::Text(_)));
    if let Some(misfit) = misfit {
        let misfit = match misfit {
            Constant::Text(_) => "a string",
            _ => "a number",
        };
        return Err(format!(
            "{} can never be in a list with {misfit}",
            data.kind()
        ));
    }
    if let Data::Text(texts) = data {
        let set: HashSet<&str> = list.iter().filter_map(as_text).collect();
        let found = all(texts).into_iter().map(|it| set.contains(it));
        return Ok(found.collect::<Bits>().0);
    }
    if let Some(integers) = data.as_integers() {
        let set: HashSet<i128> = list.iter().filter_map(as_integer).collect();
        return Ok(match integers {
            Integers::Narrow(values) => of_narrow(&values, &set),
            Integers::Wide(values) => values.iter().map(|it| set.contains(it)).collect::<Bits>().0,
        });
    }
    let floats = data.as_floats();
    let floats = floats.ok_or_else(|| format!("{} can never be in a list", data.kind()))?;
    let mut sorted: Vec<f64> = list.iter().filter_map(as_float).collect();
    sorted.sort_by(f64::total_cmp);
    // -0 is 0
    let is_in = |it: &f64| {
        sorted
            .binary_search_by(|probe| probe.total_cmp(&(it + 0.0)))
            .is_ok()
    };
    Ok(floats.iter().map(is_in).collect::<Bits>().0)
}

/// A short list is compared element by element, a long one by hash.
fn of_narrow(values: &[i64], set: &HashSet<i128>) -> BooleanBuffer {
    const FEW: usize = 16;
    let narrow = set.iter().filter_map(|&it| i64::try_from(it).ok());
    let Bits(truths) = if set.len() <= FEW {
        let few: Vec<i64> = narrow.collect();
        values.iter().map(|it| few.contains(it)).collect()
    } else {
        let many: HashSet<i64> = narrow.collect();
        values.iter().map(|it| many.contains(it)).collect()
    };
    truths
}

fn as_text(constant: &Constant) -> Option<&str> {
    match constant {
        Constant::Text(text) => Some(text),
        _ => None,
    }
}

fn as_integer(constant: &Constant) -> Option<i128> {
    match constant {
        Constant::Int(integer) => Some(*integer),
        Constant::Float(float) if float.trunc() == *float && float.abs() < I128_END => {
            Some(saturated(*float))
        }
        _ => None,
    }
}

/// The float that equals a constant exactly.
fn as_float(constant: &Constant) -> Option<f64> {
    match constant {
        Constant::Float(float) => Some(float + 0.0),
        Constant::Int(integer) => {
            let float = *integer as f64;
            (order(*integer, float) == Some(Ordering::Equal)).then_some(float)
        }
        _ => None,
    }
}
