//! Describes the content of arrays in messages.

use arrow_schema::{DataType, Field, FieldRef};

use super::arrow::{arrow_type_name, dtype_of};

/// The values of an Arrow type in words for users who do not use Arrow: `strings`, `lists of int64`.
pub(crate) fn in_words(data_type: &DataType) -> String {
    use DataType as D;
    let item = |field: &Field| in_words(field.data_type());
    match data_type {
        D::Utf8 | D::LargeUtf8 | D::Utf8View => "strings".to_owned(),
        // strings that were not checked to be UTF-8 are bytes as well
        D::Binary | D::LargeBinary | D::BinaryView => "strings or bytes".to_owned(),
        D::FixedSizeBinary(size) => format!("{size} bytes each"),
        D::List(field) | D::LargeList(field) | D::ListView(field) | D::LargeListView(field) => {
            format!("lists of {}", item(field))
        }
        D::FixedSizeList(field, size) => format!("lists of {size} {}", item(field)),
        D::Map(..) => "maps".to_owned(),
        D::Struct(members) => {
            let member = |member: &FieldRef| format!("{}: {}", member.name(), item(member));
            let members: Vec<String> = members.iter().map(member).collect();
            format!("records {{{}}}", members.join(", "))
        }
        D::Union(fields, _) => {
            let types: Vec<String> = fields.iter().map(|(_, field)| item(field)).collect();
            format!("values of several types ({})", types.join(", "))
        }
        D::Dictionary(_, values) => in_words(values),
        D::RunEndEncoded(_, values) => item(values),
        other => match dtype_of(other) {
            Some(dtype) => dtype.name().to_owned(),
            None => arrow_type_name(other),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn types_of_arrow_are_told_in_words() {
        let field = |data_type| Arc::new(Field::new("x", data_type, true));
        let lists = DataType::LargeList(field(DataType::Int64));
        for (data_type, words) in [
            (DataType::LargeUtf8, "strings"),
            (DataType::LargeBinary, "strings or bytes"),
            (DataType::Boolean, "bool"),
            (DataType::Date32, "date32"),
            (lists.clone(), "lists of int64"),
            (
                DataType::FixedSizeList(field(lists), 2),
                "lists of 2 lists of int64",
            ),
            (
                DataType::Struct(vec![field(DataType::Float32)].into()),
                "records {x: float32}",
            ),
            (
                DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
                "strings",
            ),
        ] {
            assert_eq!(in_words(&data_type), words);
        }
    }
}
