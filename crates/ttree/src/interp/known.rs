//! Types that files do not describe: numbers, containers, classes with custom streamers.

use femtobarn_rntuple::schema::DType;

use super::class::{member, pointed};
use super::range::{double32, float16};
use super::shape::{Hidden, ListWire, Member, Number, Record, RecordWire, Shape, TextWire};
use crate::TreeError;
use crate::error::unsupported;
use crate::object::codes::*;

/// The full name of a standard or ROOT container; none if it is another type.
pub(super) fn container(name: &str) -> Option<&'static str> {
    Some(match name {
        "vector" => "std::vector",
        "list" => "std::list",
        "deque" => "std::deque",
        "forward_list" => "std::forward_list",
        "RVec" => "ROOT::VecOps::RVec",
        "set" => "std::set",
        "multiset" => "std::multiset",
        "unordered_set" => "std::unordered_set",
        "unordered_multiset" => "std::unordered_multiset",
        "map" => "std::map",
        "multimap" => "std::multimap",
        "unordered_map" => "std::unordered_map",
        "unordered_multimap" => "std::unordered_multimap",
        _ => return None,
    })
}

/// The number type of a type code. The title has the range, for types with a range.
pub(crate) fn basic(code: i32, title: &str) -> Result<Number, TreeError> {
    Ok(Number::plain(match code {
        CHAR | LEGACY_CHAR => DType::Int8,
        UCHAR => DType::UInt8,
        SHORT => DType::Int16,
        USHORT => DType::UInt16,
        INT => DType::Int32,
        UINT | BITS | COUNTER => DType::UInt32,
        LONG | LONG64 => DType::Int64,
        ULONG | ULONG64 => DType::UInt64,
        FLOAT => DType::Float32,
        DOUBLE => DType::Float64,
        BOOL => DType::Bool,
        DOUBLE32 => return Ok(double32(title)),
        FLOAT16 => return Ok(float16(title)),
        _ => {
            return unsupported(format!(
                "numbers of ROOT's type code {code} are not supported"
            ));
        }
    }))
}

/// The number type of a C++ name.
pub(super) fn number(name: &str) -> Option<DType> {
    Some(match name {
        "bool" | "Bool_t" => DType::Bool,
        "char" | "Char_t" | "signed char" | "int8_t" => DType::Int8,
        "unsigned char" | "UChar_t" | "uint8_t" | "Byte_t" | "byte" => DType::UInt8,
        "short" | "Short_t" | "int16_t" | "short int" => DType::Int16,
        "unsigned short" | "UShort_t" | "uint16_t" | "unsigned short int" => DType::UInt16,
        "int" | "Int_t" | "int32_t" | "signed int" => DType::Int32,
        "unsigned int" | "UInt_t" | "uint32_t" | "unsigned" => DType::UInt32,
        "long" | "Long_t" | "Long64_t" | "long long" | "int64_t" | "long int" | "long long int" => {
            DType::Int64
        }
        "unsigned long"
        | "ULong_t"
        | "ULong64_t"
        | "unsigned long long"
        | "uint64_t"
        | "size_t"
        | "unsigned long int"
        | "unsigned long long int" => DType::UInt64,
        "float" | "Float_t" => DType::Float32,
        "double" | "Double_t" => DType::Float64,
        _ => return None,
    })
}

/// ATLAS element links have the same members for all targets, but files may describe only some of
/// them.
pub(super) fn element_link(name: &str) -> Shape {
    let headed = || RecordWire::Headed {
        version: 1,
        checksum: 0,
    };
    let number = || Shape::Number(Number::plain(DType::UInt32));
    let base = Record {
        name: "ElementLinkBase".to_owned(),
        wire: headed(),
        members: vec![
            member("m_persKey", number()),
            member("m_persIndex", number()),
        ],
        others: Vec::new(),
        described: Vec::new(),
    };
    Shape::Record(Record {
        name: name.to_owned(),
        wire: headed(),
        members: vec![Member {
            name: "ElementLinkBase".to_owned(),
            shape: Shape::Record(base),
            is_base: true,
        }],
        others: Vec::new(),
        described: Vec::new(),
    })
}

/// Classes with custom streamers.
pub(super) fn known_class(name: &str) -> Option<Shape> {
    let headed = |version| RecordWire::Headed {
        version,
        checksum: 0,
    };
    let number = |dtype| Shape::Number(Number::plain(dtype));
    let short = || Shape::Text(TextWire::Root);
    let record = |name: &str, wire, members| {
        Shape::Record(Record {
            name: name.to_owned(),
            wire,
            members,
            others: Vec::new(),
            described: Vec::new(),
        })
    };
    let hidden = |n| member("", Shape::Hidden(Hidden::Bytes(n)));
    let object = || member("", Shape::Hidden(Hidden::Object));
    let array = |dtype| {
        Some(Shape::List {
            wire: ListWire::Bare,
            item: Box::new(number(dtype)),
            container: "std::vector".into(),
        })
    };
    match name {
        "TString" => Some(short()),
        "TObject" => Some(Shape::Hidden(Hidden::Object)),
        "TArrayC" => array(DType::Int8),
        "TArrayS" => array(DType::Int16),
        "TArrayI" => array(DType::Int32),
        "TArrayL" | "TArrayL64" => array(DType::Int64),
        "TArrayF" => array(DType::Float32),
        "TArrayD" => array(DType::Float64),
        "TDatime" => Some(record(
            name,
            RecordWire::Bare,
            vec![member("fDatime", number(DType::UInt32))],
        )),
        "TNamed" => Some(record(
            name,
            headed(1),
            vec![
                object(),
                member("fName", short()),
                member("fTitle", short()),
            ],
        )),
        "TRef" => Some(record(
            name,
            RecordWire::Bare,
            vec![hidden(2), member("ref", number(DType::UInt32)), hidden(6)],
        )),
        "TRefArray" => Some(record(
            name,
            headed(1),
            vec![
                object(),
                member("fName", short()),
                member("fSize", number(DType::Int32)),
                hidden(6),
                member("refs", pointed(2, false, false, number(DType::Int32))),
            ],
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes were read as signed characters, so that 255 became -1.
    #[test]
    fn bytes_have_no_sign() {
        for name in ["Byte_t", "byte", "UChar_t", "uint8_t"] {
            assert_eq!(number(name), Some(DType::UInt8), "{name}");
        }
        for name in ["char", "Char_t", "int8_t"] {
            assert_eq!(number(name), Some(DType::Int8), "{name}");
        }
    }
}
