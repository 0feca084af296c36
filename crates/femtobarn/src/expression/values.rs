//! The values of an expression as a column of a read.

use arrow_buffer::{NullBuffer, OffsetBuffer};
use bytes::Bytes;
use femtobarn_rntuple::array::{Arrays, SlotData};
use femtobarn_rntuple::schema::{DType, FieldId, ListSort, Node, NodeKind};

use super::column::{Column, Data, Shape};

/// Computed columns are not fields.
const NO_FIELD: FieldId = FieldId::MAX;

/// Adds values to a read, as a column before the column with this index.
///
/// # Errors
/// A message, if the values are not booleans, numbers of 64 bits or strings.
pub(super) fn insert(
    arrays: &mut Arrays,
    (at, name): (usize, &str),
    values: Column,
) -> Result<(), String> {
    let n = usize::try_from(arrays.n_entries()).unwrap_or(usize::MAX);
    let values = match values.shape {
        Shape::Constant => repeated(&values, n),
        Shape::Levels(_) => values,
    };
    let mut levels = Vec::new();
    for offsets in values.levels() {
        levels.push(arrays.add_slot(SlotData::Index {
            offsets: of_offsets(offsets),
        }));
    }
    let mut node = match &values.valid {
        None => item(arrays, &values.data)?,
        Some(valid) => {
            let places: Vec<i64> = valid
                .valid_indices()
                .filter_map(|at| at.try_into().ok())
                .collect();
            let (data, _) = values.gather(&places);
            let offsets = of_offsets(&OffsetBuffer::from_lengths(lengths(valid)));
            let index = arrays.add_slot(SlotData::Index { offsets });
            let item = Box::new(item(arrays, &data)?);
            of_kind(NodeKind::Optional { index, item })
        }
    };
    for index in levels.into_iter().rev() {
        node = of_kind(NodeKind::List {
            index,
            item: Box::new(node),
            sort: ListSort::List,
        });
    }
    arrays.insert_column(at, name, node);
    Ok(())
}

fn of_kind(kind: NodeKind) -> Node {
    let field = NO_FIELD;
    Node { field, kind }
}

/// A constant for each entry.
fn repeated(values: &Column, n: usize) -> Column {
    let (data, valid) = values.gather(&vec![0; n]);
    Column {
        data,
        valid,
        shape: Shape::Levels(Vec::new()),
    }
}

fn lengths(valid: &NullBuffer) -> Vec<usize> {
    valid.iter().map(usize::from).collect()
}

fn of_offsets(offsets: &OffsetBuffer<i64>) -> Bytes {
    Bytes::from_owner(offsets.inner().inner().clone())
}

/// Adds the values without their lists.
fn item(arrays: &mut Arrays, data: &Data) -> Result<Node, String> {
    let (dtype, values) = match data {
        Data::Bool(bits) => {
            let bytes: Vec<u8> = bits.iter().map(u8::from).collect();
            (DType::Bool, Bytes::from(bytes))
        }
        Data::Int(values) => (DType::Int64, Bytes::from_owner(values.inner().clone())),
        Data::Float(values) => (DType::Float64, Bytes::from_owner(values.inner().clone())),
        Data::Text(texts) => {
            let (first, last) = (texts.offsets().first(), texts.offsets().last());
            let place = |at: i64| usize::try_from(at).unwrap_or(0);
            let index = arrays.add_slot(SlotData::Index {
                offsets: of_offsets(&texts.offsets().clone().subtract(first)),
            });
            let bytes = texts
                .values()
                .slice_with_length(place(first), place(last - first));
            let chars = arrays.add_slot(SlotData::Leaf {
                dtype: DType::UInt8,
                values: Bytes::from_owner(bytes),
            });
            return Ok(of_kind(NodeKind::String { index, chars }));
        }
        Data::Wide(_) => {
            return Err("has integers of more than 64 bits; make them floats: 1.0 * …".to_owned());
        }
        Data::Other(kind) => {
            return Err(format!(
                "is {kind}, which has no values that can be computed"
            ));
        }
    };
    let slot = arrays.add_slot(SlotData::Leaf { dtype, values });
    Ok(of_kind(NodeKind::Leaf { slot }))
}
