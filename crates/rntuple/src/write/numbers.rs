//! Numbers and booleans: used as they are, or converted without loss.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::DataType;

use super::conform::wrong;
use super::model::{Limits, dtype_of, unwritable};
use super::values::Values;
use crate::RNTupleError;
use crate::schema::DType;

/// The smallest single-precision number that is rounded to infinity in half precision.
const HALF_INFINITE: f32 = 65520.0;

/// Converts the numbers of an array to a type.
///
/// # Errors
/// If they are not numbers, or the type cannot represent all of them.
pub(super) fn leaf(dtype: DType, array: &ArrayRef, path: &str) -> Result<Values, RNTupleError> {
    let wanted = dtype.name();
    let found = dtype_of(array.data_type()).ok_or_else(|| wrong(path, array, wanted))?;
    if dtype == DType::Bool {
        let bools = match array.as_boolean_opt() {
            Some(bools) => bools.values().clone(),
            None => zeros_and_ones(array).ok_or_else(|| wrong(path, array, wanted))?,
        };
        return Ok(Values::Bools(bools));
    }
    if found == dtype {
        let data = array.to_data();
        let size = dtype.size();
        let buffer = data.buffers().first().cloned().unwrap_or_default();
        let bytes = buffer.slice_with_length(data.offset() * size, data.len() * size);
        return Ok(Values::Leaf { bytes, size });
    }
    let bytes = cast(dtype, array).ok_or_else(|| {
        let found = found.name();
        let reason = if is_integer(dtype) && integers(array).is_none() {
            format!(
                "expected {wanted}, but was given {found}, which is never converted to integers automatically: convert it first, for example with .astype({wanted:?})"
            )
        } else {
            format!(
                "expected {wanted}, but was given {found} with values that {wanted} cannot represent: convert it first, for example with astype"
            )
        };
        unwritable(path, reason)
    })?;
    let size = dtype.size();
    Ok(Values::Leaf { bytes, size })
}

fn is_integer(dtype: DType) -> bool {
    use DType as D;
    !matches!(dtype, D::Bool | D::Float16 | D::Float32 | D::Float64)
}

/// Integers as booleans, if they are all 0 or 1.
fn zeros_and_ones(array: &ArrayRef) -> Option<BooleanBuffer> {
    let bools = integers(array)?.map(|value| (0..=1).contains(&value).then_some(value == 1));
    bools
        .collect::<Option<Vec<bool>>>()
        .map(BooleanBuffer::from)
}

/// The value to compare with a range. A bound that was rounded to single precision counts as the bound, as it may be
/// outside by half a unit in the last place (for example pi).
pub(super) fn in_range(value: f32, (min, max): (f64, f64)) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "single precision is meant")]
    let is = |bound: f64| value.is_finite() && value == bound as f32;
    let wide = f64::from(value);
    if wide < min && is(min) {
        min
    } else if wide > max && is(max) {
        max
    } else {
        wide
    }
}

/// Checks that the column can represent the values: quantized values must be in the range, and values of reduced
/// precision must stay finite.
pub(super) fn check_limits(
    dtype: DType,
    limits: Limits,
    bytes: &[u8],
    path: &str,
) -> Result<(), RNTupleError> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checks what becomes infinite"
    )]
    let single = |value: f64| (value as f32).abs();
    let outside = |value: &f64| match limits {
        Limits::None => false,
        Limits::Range(min, max) => !(min..=max).contains(value),
        Limits::Single => value.is_finite() && single(*value).is_infinite(),
        Limits::Half => value.is_finite() && single(*value) >= HALF_INFINITE,
    };
    if limits == Limits::None {
        return Ok(());
    }
    let found = match dtype {
        DType::Float32 => bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|real| f32::from_le_bytes(*real))
            .map(|value| match limits {
                Limits::Range(min, max) => in_range(value, (min, max)),
                _ => f64::from(value),
            })
            .find(outside),
        _ => bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|real| f64::from_le_bytes(*real))
            .find(outside),
    };
    match found {
        Some(value) => {
            let reason = match limits {
                Limits::Range(min, max) => {
                    format!("{value} is outside of its storage range {min} to {max}")
                }
                Limits::Half => {
                    format!("{value:e} becomes infinite in half precision, in which it is stored")
                }
                _ => {
                    format!("{value:e} becomes infinite in single precision, in which it is stored")
                }
            };
            Err(unwritable(path, reason))
        }
        None => Ok(()),
    }
}

/// Converts values to another type, if it represents all of them exactly.
fn cast(dtype: DType, array: &ArrayRef) -> Option<Buffer> {
    macro_rules! to_integer {
        ($to:ty) => {
            integers(array)?
                .map(|value| <$to>::try_from(value).ok())
                .collect::<Option<Vec<$to>>>()
                .map(Buffer::from_vec)
        };
    }
    match dtype {
        DType::Int8 => to_integer!(i8),
        DType::UInt8 => to_integer!(u8),
        DType::Int16 => to_integer!(i16),
        DType::UInt16 => to_integer!(u16),
        DType::Int32 => to_integer!(i32),
        DType::UInt32 => to_integer!(u32),
        DType::Int64 => to_integer!(i64),
        DType::UInt64 => to_integer!(u64),
        DType::Float64 => Some(Buffer::from_vec(reals(array)?)),
        DType::Float32 => {
            // doubles are rounded to single precision if the field has it, but not to infinity; integers must be exact
            let is_double = array.data_type() == &DataType::Float64;
            #[expect(clippy::cast_possible_truncation, reason = "compared in the next line")]
            let narrow = |value: f64| {
                let narrow = value as f32;
                let is_finite = is_double && (narrow.is_finite() || value.is_infinite());
                (is_finite || f64::from(narrow) == value || value.is_nan()).then_some(narrow)
            };
            let values: Option<Vec<f32>> = reals(array)?.into_iter().map(narrow).collect();
            values.map(Buffer::from_vec)
        }
        DType::Float16 => {
            type Half = <Float16Type as ArrowPrimitiveType>::Native;
            let narrow = |value: f64| {
                let narrow = Half::from_f64(value);
                (narrow.to_f64() == value || value.is_nan()).then_some(narrow)
            };
            let values: Option<Vec<Half>> = reals(array)?.into_iter().map(narrow).collect();
            values.map(Buffer::from_vec)
        }
        DType::Bool => None,
    }
}

/// Integers and booleans of any type.
fn integers(array: &ArrayRef) -> Option<Box<dyn Iterator<Item = i128> + '_>> {
    fn of<T: ArrowPrimitiveType<Native: Into<i128>>>(
        array: &ArrayRef,
    ) -> Option<Box<dyn Iterator<Item = i128> + '_>> {
        let values = array.as_primitive_opt::<T>()?.values();
        Some(Box::new(values.iter().map(|&value| value.into())))
    }
    match array.data_type() {
        DataType::Boolean => {
            let bools = array.as_boolean_opt()?.values().clone();
            let bools: Vec<bool> = bools.iter().collect();
            Some(Box::new(bools.into_iter().map(i128::from)))
        }
        DataType::Int8 => of::<Int8Type>(array),
        DataType::UInt8 => of::<UInt8Type>(array),
        DataType::Int16 => of::<Int16Type>(array),
        DataType::UInt16 => of::<UInt16Type>(array),
        DataType::Int32 => of::<Int32Type>(array),
        DataType::UInt32 => of::<UInt32Type>(array),
        DataType::Int64 => of::<Int64Type>(array),
        DataType::UInt64 => of::<UInt64Type>(array),
        _ => None,
    }
}

/// Numbers as doubles, if these represent all of them exactly.
fn reals(array: &ArrayRef) -> Option<Vec<f64>> {
    match array.data_type() {
        DataType::Float16 => {
            let values = array.as_primitive_opt::<Float16Type>()?.values();
            Some(values.iter().map(|value| value.to_f64()).collect())
        }
        DataType::Float32 => {
            let values = array.as_primitive_opt::<Float32Type>()?.values();
            Some(values.iter().map(|&value| f64::from(value)).collect())
        }
        DataType::Float64 => Some(array.as_primitive_opt::<Float64Type>()?.values().to_vec()),
        _ => {
            const EXACT: i128 = 1 << 53;
            let exact = |value: i128| {
                let small = i64::try_from(value).ok().filter(|_| value.abs() <= EXACT)?;
                #[expect(clippy::cast_precision_loss, reason = "doubles hold it exactly")]
                let real = small as f64;
                Some(real)
            };
            integers(array)?.map(exact).collect()
        }
    }
}
