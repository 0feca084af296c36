//! Leaves: numbers, and their arrays and records.

use femtobarn_rntuple::schema::DType;

use super::class::pointed;
use super::known::basic;
use super::range::{double32, float16, of_leaf};
use super::shape::{Member, Number, NumberWire, Record, Shape};
use crate::TreeError;
use crate::error::unsupported;
use crate::model::{BranchId, Leaf};
use crate::object::codes::*;

/// The number type of a leaf; none if it has another type. `title` has the range of a Double32_t.
pub(crate) fn number(leaf: &Leaf, title: &str) -> Option<Number> {
    let signed = |signed, unsigned| Number::plain(if leaf.is_unsigned { unsigned } else { signed });
    Some(match leaf.class_name.as_str() {
        "TLeafO" => Number::plain(DType::Bool),
        "TLeafB" => signed(DType::Int8, DType::UInt8),
        "TLeafS" => signed(DType::Int16, DType::UInt16),
        "TLeafI" => signed(DType::Int32, DType::UInt32),
        "TLeafL" | "TLeafG" => signed(DType::Int64, DType::UInt64),
        "TLeafF" => Number::plain(DType::Float32),
        "TLeafD" => Number::plain(DType::Float64),
        "TLeafF16" => float16(of_leaf(&leaf.title)),
        "TLeafD32" => double32(of_leaf(&leaf.title)),
        "TLeafElement" => {
            let code = i32::try_from(leaf.type_code).ok()?;
            let code = if (OFFSET_L + 1..OFFSET_P).contains(&code) {
                code - OFFSET_L
            } else {
                code
            };
            if code == BITS {
                return Some(Number {
                    dtype: DType::UInt32,
                    wire: NumberWire::Bits,
                });
            }
            basic(code, title).ok()?
        }
        _ => return None,
    })
}

/// The fixed dimensions, and whether there is a variable one, from a title such as `x[n][3]`.
pub(crate) fn dimensions(leaf: &Leaf) -> (Vec<u64>, bool) {
    let Some(open) = leaf.title.find('[') else {
        return (Vec::new(), false);
    };
    let (mut sizes, mut is_jagged, mut has_any) = (Vec::new(), false, false);
    for part in leaf
        .title
        .get(open..)
        .unwrap_or_default()
        .split('[')
        .skip(1)
    {
        let Some((inner, _)) = part.split_once(']') else {
            continue;
        };
        has_any |= !inner.is_empty();
        match inner.parse::<u64>() {
            Ok(size) if size > 0 => sizes.push(size),
            // the range of a Double32_t is not a dimension
            _ if inner.contains(',') => {}
            _ => is_jagged = true,
        }
    }
    if sizes.is_empty() && leaf.length > 1 && has_any {
        sizes.extend(u64::try_from(leaf.length));
    }
    (sizes, is_jagged)
}

/// Several leaves of branch `own`: a record. The lengths of arrays may be in a preceding leaf.
pub(crate) fn record(leaves: &[Leaf], own: BranchId) -> Result<Shape, TreeError> {
    let mut members = Vec::with_capacity(leaves.len());
    for (at, leaf) in leaves.iter().enumerate() {
        let (sizes, _) = dimensions(leaf);
        let Some(number) = number(leaf, "") else {
            return unsupported(format!(
                "the branch has several leaves, and leaf {:?} is not a number",
                leaf.name
            ));
        };
        let item = Shape::Number(number).in_arrays(&sizes);
        let shape = match leaf.count {
            None => item,
            Some((branch, counter)) if branch == own && counter < at => {
                pointed(counter, false, false, item)
            }
            Some(_) => {
                return unsupported(format!(
                    "the branch has several leaves, and the counter of leaf {:?} is in another branch",
                    leaf.name
                ));
            }
        };
        members.push(Member {
            name: leaf.name.to_string(),
            shape,
            is_base: false,
        });
    }
    Ok(Shape::Record(Record::bare(String::new(), members)))
}
