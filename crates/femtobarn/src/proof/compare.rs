//! Compares arrays bit by bit, and describes the first different value.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, downcast_primitive_array, make_array};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use femtobarn_rntuple::schema::{ListSort, Node, NodeKind};

/// Maximum number of bytes of a string in a message.
const MOST: usize = 60;

/// The first different value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unequal {
    /// Its index.
    pub at: usize,
    /// The path of the difference, such as `[2].pt`; empty if the value is a number or a string.
    pub item: String,
    pub found: String,
    pub expected: String,
}

/// Prepares types for an exact comparison in Arrow: strings become bytes, as they may be invalid UTF-8, and optional
/// values become lists.
pub(super) fn make_plain(node: &mut Node) {
    node.texts_as_bytes();
    optionals_as_lists(node);
}

fn optionals_as_lists(node: &mut Node) {
    match &mut node.kind {
        NodeKind::Leaf { .. }
        | NodeKind::Cardinality { .. }
        | NodeKind::String { .. }
        | NodeKind::Bytes { .. } => {}
        NodeKind::Optional { index, item } => {
            optionals_as_lists(item);
            node.kind = NodeKind::List {
                index: *index,
                item: item.clone(),
                sort: ListSort::List,
            };
        }
        NodeKind::List { item, .. } | NodeKind::Regular { item, .. } => optionals_as_lists(item),
        NodeKind::Record { members: below, .. }
        | NodeKind::Variant {
            alternatives: below,
            ..
        } => below.iter_mut().for_each(optionals_as_lists),
    }
}

/// The entries of `like` with all values set to zero, empty or missing. `has_items` marks the columns whose lists keep
/// their lengths.
pub(super) fn zeros(like: &RecordBatch, has_items: &[bool]) -> Result<RecordBatch, ArrowError> {
    let columns = like.columns().iter().zip(has_items);
    let arrays = columns.map(|(column, &has_items)| {
        let data = column.to_data();
        let items = data.child_data().first().filter(|_| has_items);
        let zeros = match items {
            None => zero_values(column.data_type(), column.len()),
            Some(items) => {
                let items = zero_values(items.data_type(), items.len())?;
                data.into_builder().child_data(vec![items]).build()
            }
        };
        zeros.map(make_array)
    });
    RecordBatch::try_new(like.schema(), arrays.collect::<Result<_, _>>()?)
}

fn zero_values(data_type: &DataType, n: usize) -> Result<ArrayData, ArrowError> {
    without_nulls(ArrayData::new_null(data_type, n))
}

fn without_nulls(data: ArrayData) -> Result<ArrayData, ArrowError> {
    let below = data.child_data().iter().cloned().map(without_nulls);
    let below = below.collect::<Result<_, _>>()?;
    data.into_builder().nulls(None).child_data(below).build()
}

/// The first difference between two arrays of one type and length.
pub(crate) fn compare(found: &ArrayRef, expected: &ArrayRef) -> Option<Unequal> {
    let at = first_difference(found, expected)?;
    let [found, expected] = [found, expected].map(|array| array.slice(at, 1));
    let within = |(item, below): (String, Unequal)| Unequal {
        at,
        item: format!("{item}{}", below.item),
        ..below
    };
    let deeper = match found.data_type() {
        DataType::Struct(members) => {
            let columns = found.as_struct().columns().iter();
            let columns = columns.zip(expected.as_struct().columns());
            let mut pairs = columns.zip(members).enumerate();
            pairs.find_map(|(i, ((found, expected), member))| {
                let item = match member.name() {
                    name if *name == format!("_{i}") => format!("[{i}]"),
                    name => format!(".{name}"),
                };
                Some((item, compare(found, expected)?))
            })
        }
        DataType::LargeList(_) | DataType::FixedSizeList(..) => {
            let (found, expected) = (items(&found), items(&expected));
            let is_alike = found.len() == expected.len();
            let below = is_alike.then(|| compare(&found, &expected)).flatten();
            below.map(|below| (format!("[{}]", below.at), below))
        }
        DataType::Union(..) => {
            let (found, expected) = (found.as_union(), expected.as_union());
            let is_alike = found.type_id(0) == expected.type_id(0);
            let below = is_alike.then(|| compare(&found.value(0), &expected.value(0)));
            below.flatten().map(|below| (String::new(), below))
        }
        _ => None,
    };
    Some(deeper.map_or_else(
        || Unequal {
            at,
            item: String::new(),
            found: text(&found),
            expected: text(&expected),
        },
        within,
    ))
}

fn first_difference(found: &ArrayRef, expected: &ArrayRef) -> Option<usize> {
    let are_equal = |from: usize, n: usize| {
        let [found, expected] = [found, expected].map(|array| array.slice(from, n).to_data());
        found == expected
    };
    if are_equal(0, found.len()) {
        return None;
    }
    // all values before `first` are equal, and there is a difference before `end`
    let (mut first, mut end) = (0, found.len());
    while end - first > 1 {
        let middle = first + (end - first) / 2;
        match are_equal(first, middle - first) {
            true => first = middle,
            false => end = middle,
        }
    }
    Some(first)
}

/// The items of the only list in an array.
fn items(lists: &ArrayRef) -> ArrayRef {
    match lists.as_list_opt::<i64>() {
        Some(lists) => lists.value(0),
        None => lists.as_fixed_size_list().value(0),
    }
}

/// The only value in an array, as text. NaNs are shown with their bits.
fn text(array: &ArrayRef) -> String {
    match array.data_type() {
        _ if array.is_null(0) => "no value".to_owned(),
        DataType::Boolean => array.as_boolean().value(0).to_string(),
        DataType::LargeBinary => bytes_text(array.as_binary::<i64>().value(0)),
        DataType::LargeUtf8 => bytes_text(array.as_string::<i64>().value(0).as_bytes()),
        DataType::LargeList(_) => match items(array).len() {
            1 => "1 item".to_owned(),
            n => format!("{n} items"),
        },
        DataType::Union(..) => match array.as_union().type_id(0) {
            0 => "no value".to_owned(),
            tag => format!("alternative {}", tag - 1),
        },
        _ => number_text(array),
    }
}

fn number_text(array: &ArrayRef) -> String {
    let digits = downcast_primitive_array!(
        array => format!("{:?}", array.value(0)),
        _ => format!("{array:?}")
    );
    if digits != "NaN" {
        return digits;
    }
    let data = array.to_data();
    let bytes = data.buffers().iter().flat_map(|buffer| buffer.as_slice());
    let bits = bytes.rev().map(|byte| format!("{byte:02x}"));
    format!("nan (0x{})", bits.collect::<String>())
}

/// The beginning of a string or of other bytes.
fn bytes_text(bytes: &[u8]) -> String {
    let shown = bytes.get(..MOST).unwrap_or(bytes);
    let more = if shown.len() < bytes.len() {
        format!("… ({} B)", bytes.len())
    } else {
        String::new()
    };
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let end = text.char_indices().map(|(at, _)| at).find(|&at| at > MOST);
            let shown = end.and_then(|end| text.get(..end)).unwrap_or(text);
            format!("{shown:?}{more}")
        }
        Err(_) => format!("b\"{}\"{more}", shown.escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Float32Type;
    use arrow_array::{Float32Array, LargeListArray, StructArray};
    use arrow_schema::{Field, Fields, Schema, UnionFields, UnionMode};

    use super::*;

    fn floats(values: &[f32]) -> ArrayRef {
        Arc::new(Float32Array::from(values.to_vec()))
    }

    fn lists(values: &[&[f32]]) -> ArrayRef {
        let lists = values
            .iter()
            .map(|list| Some(list.iter().copied().map(Some)));
        Arc::new(LargeListArray::from_iter_primitive::<Float32Type, _, _>(
            lists,
        ))
    }

    fn told(found: &ArrayRef, expected: &ArrayRef) -> (usize, String, String, String) {
        let Unequal {
            at,
            item,
            found,
            expected,
        } = compare(found, expected).unwrap();
        (at, item, found, expected)
    }

    #[test]
    fn the_first_difference_is_told_with_its_part_and_both_values() {
        let here = lists(&[&[], &[1.0], &[1.0, 2.0], &[3.0]]);
        assert_eq!(compare(&here, &here), None);
        let there = lists(&[&[], &[1.0], &[1.0, 2.5], &[]]);
        let expected = (2, "[1]".to_owned(), "2.0".to_owned(), "2.5".to_owned());
        assert_eq!(told(&here, &there), expected);
        // the same number of values, but other lengths
        let there = lists(&[&[1.0], &[], &[1.0, 2.0], &[3.0]]);
        let expected = (0, String::new(), "0 items".to_owned(), "1 item".to_owned());
        assert_eq!(told(&here, &there), expected);
        let record = |lists: &ArrayRef| -> ArrayRef {
            let members = [("a", floats(&[0.0; 4])), ("b", lists.clone())];
            Arc::new(StructArray::try_from(members.to_vec()).unwrap())
        };
        assert_eq!(told(&record(&here), &record(&there)).1, ".b");
    }

    #[test]
    fn bits_are_compared() {
        let nan = f32::from_bits(0x7fc0_0005);
        let here = floats(&[1.0, f32::NAN, 0.0]);
        assert_eq!(compare(&here, &here), None);
        let (at, _, found, expected) = told(&here, &floats(&[1.0, nan, 0.0]));
        assert_eq!(
            (at, found, expected),
            (1, "nan (0x7fc00000)".into(), "nan (0x7fc00005)".into())
        );
        let (at, _, found, expected) = told(&here, &floats(&[1.0, f32::NAN, -0.0]));
        assert_eq!((at, found, expected), (2, "0.0".into(), "-0.0".into()));
    }

    #[test]
    fn zeros_of_every_type_have_no_nulls() {
        let number = || Field::new("item", DataType::Float32, false);
        let list = Field::new("list", DataType::LargeList(Arc::new(number())), false);
        let array = DataType::FixedSizeList(Arc::new(number()), 3);
        let none = (0, Arc::new(Field::new("none", DataType::Null, true)));
        let one = (1, Arc::new(list.clone()));
        let variant = DataType::Union(UnionFields::from_iter([none, one]), UnionMode::Dense);
        let record = Fields::from(vec![number(), Field::new("array", array, false)]);
        let fields = vec![
            list,
            Field::new("record", DataType::Struct(record), false),
            Field::new("variant", variant, true),
        ];
        let values = fields.iter().map(|field| zero_values(field.data_type(), 4));
        let values = values.map(|zeros| make_array(zeros.unwrap())).collect();
        let like = RecordBatch::try_new(Arc::new(Schema::new(fields)), values).unwrap();
        let batch = zeros(&like, &[false; 3]).unwrap();
        let lists = batch.column(0).as_list::<i64>();
        assert_eq!((lists.null_count(), lists.values().len()), (0, 0));
        let record = batch.column(1).as_struct();
        assert_eq!(record.column(0), &floats(&[0.0; 4]));
        assert_eq!(
            record.column(1).as_fixed_size_list().values(),
            &floats(&[0.0; 12])
        );
        assert_eq!(record.null_count(), 0);
        assert_eq!(**batch.column(2).as_union().type_ids(), [0; 4]);
    }

    #[test]
    fn lists_of_a_collection_that_is_there_keep_their_lengths() {
        let found = lists(&[&[1.0, 2.0], &[], &[3.0]]);
        let like = RecordBatch::try_from_iter([("a", found.clone()), ("b", found)]).unwrap();
        let zeros = zeros(&like, &[true, false]).unwrap();
        assert_eq!(zeros.column(0), &lists(&[&[0.0, 0.0], &[], &[0.0]]));
        assert_eq!(zeros.column(1), &lists(&[&[], &[], &[]]));
    }
}
