//! Arithmetic on numbers. Integers are exact; results that need more than 128 bits are an error.

use arrow_buffer::{BooleanBuffer, NullBuffer};

use super::column::{Bits, Data, Integers, Side, map2};
use super::shape::{Pair, both};
use super::tree::Binary;

/// The result of an operator, and a mask of existing results.
pub(super) type Outcome = (Data, Option<BooleanBuffer>);

/// Errors of arithmetic.
pub(super) enum Fault {
    /// The operator does not accept these operands.
    Kind,
    /// An integer became too large.
    Overflow,
}

/// Applies an operator to two operands.
pub(super) fn binary(operator: Binary, pair: &Pair<'_>) -> Result<Outcome, Fault> {
    let integers = (pair.a.data.as_integers(), pair.b.data.as_integers());
    let (a, b) = match (operator, integers) {
        (Binary::Divide | Binary::Power, _) => return floats(operator, pair).ok_or(Fault::Kind),
        (_, (Some(a), Some(b))) => (a, b),
        _ => return floats(operator, pair).ok_or(Fault::Kind),
    };
    if let (Integers::Narrow(a), Integers::Narrow(b)) = (&a, &b) {
        let (a, b) = (pair.a.shape.side(a), pair.b.shape.side(b));
        if let Some(values) = narrow(operator, a, b) {
            return Ok((Data::Int(values.into()), has_quotient(operator, a, b)));
        }
    }
    let (a, b) = (a.wide(), b.wide());
    let (a, b) = (pair.a.shape.side(&a), pair.b.shape.side(&b));
    let values: Vec<Option<i128>> = map2(a, b, |a, b| wide(operator, a, b));
    // missing values cannot be too large
    let valid = pair.valid(values.len());
    let is_missing = |at| valid.as_ref().is_some_and(|valid| valid.is_null(at));
    let there = |(at, it): (usize, Option<i128>)| it.or_else(|| is_missing(at).then_some(0));
    let values: Option<Vec<i128>> = values.into_iter().enumerate().map(there).collect();
    let values = Data::integers(values.ok_or(Fault::Overflow)?);
    Ok((values, has_quotient(operator, a, b)))
}

/// The mask of existing quotients: division by zero has no result.
fn has_quotient<T: Copy + Default + PartialEq>(
    operator: Binary,
    a: Side<'_, T>,
    b: Side<'_, T>,
) -> Option<BooleanBuffer> {
    matches!(operator, Binary::FloorDivide | Binary::Remainder).then(|| {
        let Bits(valid) = map2(a, b, |_, b| b != T::default());
        valid
    })
}

/// The 64-bit integers, if all results fit.
fn narrow(operator: Binary, a: Side<'_, i64>, b: Side<'_, i64>) -> Option<Vec<i64>> {
    match operator {
        Binary::Add => map2(a, b, i64::checked_add),
        Binary::Subtract => map2(a, b, i64::checked_sub),
        Binary::Multiply => map2(a, b, i64::checked_mul),
        Binary::BitAnd => map2(a, b, |a, b| Some(a & b)),
        Binary::BitOr => map2(a, b, |a, b| Some(a | b)),
        Binary::FloorDivide => map2(a, b, |a: i64, b| {
            if b == 0 {
                return Some(0);
            }
            let quotient = a.checked_div(b)?;
            let rounded_up = a % b != 0 && (a < 0) != (b < 0);
            Some(quotient - i64::from(rounded_up))
        }),
        Binary::Remainder => map2(a, b, |a: i64, b| {
            if b == 0 {
                return Some(0);
            }
            let rest = a.checked_rem(b)?;
            let has_other_sign = rest != 0 && (rest < 0) != (b < 0);
            Some(if has_other_sign { rest + b } else { rest })
        }),
        Binary::ShiftRight => map2(a, b, |a: i64, b| Some(a >> u32::try_from(b).ok()?.min(63))),
        Binary::ShiftLeft | Binary::Divide | Binary::Power => None,
    }
}

fn wide(operator: Binary, a: i128, b: i128) -> Option<i128> {
    let places = || u32::try_from(b).ok();
    match operator {
        Binary::Add => a.checked_add(b),
        Binary::Subtract => a.checked_sub(b),
        Binary::Multiply => a.checked_mul(b),
        // rounds down, as in Python
        Binary::FloorDivide | Binary::Remainder if b == 0 => Some(0),
        Binary::FloorDivide => {
            let quotient = a.checked_div(b)?;
            let rounded_up = a % b != 0 && (a < 0) != (b < 0);
            Some(quotient - i128::from(rounded_up))
        }
        Binary::Remainder => {
            let rest = a.checked_rem(b)?;
            let has_other_sign = rest != 0 && (rest < 0) != (b < 0);
            Some(if has_other_sign { rest + b } else { rest })
        }
        Binary::ShiftLeft if a == 0 => Some(0),
        Binary::ShiftLeft => a.checked_mul(1i128.checked_shl(places()?).filter(|it| *it > 0)?),
        Binary::ShiftRight => Some(a >> places()?.min(127)),
        Binary::BitAnd => Some(a & b),
        Binary::BitOr => Some(a | b),
        Binary::Divide | Binary::Power => None,
    }
}

fn floats(operator: Binary, pair: &Pair<'_>) -> Option<Outcome> {
    let function: fn(f64, f64) -> f64 = match operator {
        Binary::Add => |a, b| a + b,
        Binary::Subtract => |a, b| a - b,
        Binary::Multiply => |a, b| a * b,
        Binary::Divide => |a, b| a / b,
        Binary::Power => f64::powf,
        Binary::FloorDivide => |a, b| (a / b).floor(),
        Binary::Remainder => remainder,
        Binary::BitAnd | Binary::BitOr | Binary::ShiftLeft | Binary::ShiftRight => return None,
    };
    Some((of_floats(pair, function)?, None))
}

/// Has the sign of `b`, as in Python.
fn remainder(a: f64, b: f64) -> f64 {
    let rest = a % b;
    let has_other_sign = rest != 0.0 && (rest < 0.0) != (b < 0.0);
    if has_other_sign { rest + b } else { rest }
}

/// Applies a function to two floats.
pub(super) fn of_floats(pair: &Pair<'_>, function: impl Fn(f64, f64) -> f64) -> Option<Data> {
    let (a, b) = (pair.a.data.as_floats()?, pair.b.data.as_floats()?);
    let (a, b) = (pair.a.shape.side(&a), pair.b.shape.side(&b));
    let values: Vec<f64> = map2(a, b, function);
    Some(Data::Float(values.into()))
}

/// The minimum or maximum of two numbers; NaN if either is.
pub(super) fn extreme(greater: bool, pair: &Pair<'_>) -> Option<Data> {
    let (Some(a), Some(b)) = (pair.a.data.as_integers(), pair.b.data.as_integers()) else {
        return of_floats(pair, |a, b| extreme_float(greater, a, b));
    };
    let (a, b) = (a.wide(), b.wide());
    let (a, b): (Side<'_, i128>, _) = (pair.a.shape.side(&a), pair.b.shape.side(&b));
    let pick = if greater { i128::max } else { i128::min };
    Some(Data::integers(map2(a, b, pick)))
}

/// As in IEEE 754-2019, `minimum` and `maximum`: NaN is never lost, and -0 is less than 0.
pub(super) fn extreme_float(greater: bool, a: f64, b: f64) -> f64 {
    let takes_a = if a == b {
        a.is_sign_negative() != greater
    } else {
        a.is_nan() || (if greater { a > b } else { a < b })
    };
    if takes_a { a } else { b }
}

/// Negates numbers.
pub(super) fn negated(data: &Data) -> Result<Data, Fault> {
    of_integers(data, i64::checked_neg, i128::checked_neg, |it| -it)
}

/// Absolute values.
pub(super) fn absolute(data: &Data) -> Result<Data, Fault> {
    of_integers(data, i64::checked_abs, i128::checked_abs, f64::abs)
}

/// Inverts the bits of integers.
pub(super) fn inverted(data: &Data) -> Result<Data, Fault> {
    match data {
        Data::Int(values) => Ok(Data::Int(values.iter().map(|it| !it).collect())),
        Data::Wide(values) => Ok(Data::integers(values.iter().map(|it| !it).collect())),
        _ => Err(Fault::Kind),
    }
}

fn of_integers(
    data: &Data,
    narrow: fn(i64) -> Option<i64>,
    wide: fn(i128) -> Option<i128>,
    float: fn(f64) -> f64,
) -> Result<Data, Fault> {
    let Some(integers) = data.as_integers() else {
        let values = data.as_floats().ok_or(Fault::Kind)?;
        return Ok(Data::floats(values.iter().map(|&it| float(it))));
    };
    if let Integers::Narrow(values) = &integers
        && let Some(values) = values
            .iter()
            .map(|&it| narrow(it))
            .collect::<Option<Vec<_>>>()
    {
        return Ok(Data::Int(values.into()));
    }
    let values = integers.wide();
    let values: Option<Vec<i128>> = values.iter().map(|&it| wide(it)).collect();
    Ok(Data::integers(values.ok_or(Fault::Overflow)?))
}

/// The mask of existing results: both operands must exist, and the operator must have a result.
pub(super) fn valid_of(
    pair: &Pair<'_>,
    n: usize,
    has: Option<BooleanBuffer>,
) -> Option<NullBuffer> {
    both(pair.valid(n), has.map(NullBuffer::new))
}
