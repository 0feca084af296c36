//! Makes fields from C++ type names, as `ROOT::RFieldBase::Create` does.

use super::arrow::byte;
use super::{FieldKind, FieldModel, LeafModel, StoredAs, unwritable};
use crate::RNTupleError;
use crate::schema::DType;
use crate::spec::ColumnType;
use femtobarn_io::nearest;

/// Names that misspelt types are compared with.
const NUMBERS: &[&str] = &[
    "bool", "char", "int", "float", "double", "int8_t", "uint8_t", "int16_t", "uint16_t",
    "int32_t", "uint32_t", "int64_t", "uint64_t", "short", "long", "unsigned", "string",
];

/// Names of ROOT, NumPy and Python for numbers and strings, and names without `std::`, with their normal names.
pub const SYNONYMS: &[(&str, &str)] = &[
    ("int8", "std::int8_t"),
    ("int8_t", "std::int8_t"),
    ("int16", "std::int16_t"),
    ("int16_t", "std::int16_t"),
    ("int32", "std::int32_t"),
    ("int32_t", "std::int32_t"),
    ("int64", "std::int64_t"),
    ("int64_t", "std::int64_t"),
    ("uint8", "std::uint8_t"),
    ("uint8_t", "std::uint8_t"),
    ("uint16", "std::uint16_t"),
    ("uint16_t", "std::uint16_t"),
    ("uint32", "std::uint32_t"),
    ("uint32_t", "std::uint32_t"),
    ("uint64", "std::uint64_t"),
    ("uint64_t", "std::uint64_t"),
    ("Char_t", "char"),
    ("UChar_t", "std::uint8_t"),
    ("Short_t", "std::int16_t"),
    ("UShort_t", "std::uint16_t"),
    ("Int_t", "std::int32_t"),
    ("UInt_t", "std::uint32_t"),
    ("Long_t", "std::int64_t"),
    ("ULong_t", "std::uint64_t"),
    ("Long64_t", "std::int64_t"),
    ("ULong64_t", "std::uint64_t"),
    ("Bool_t", "bool"),
    ("Float_t", "float"),
    ("Float16_t", "float"),
    ("Double_t", "double"),
    ("Double32_t", "double"),
    ("float32", "float"),
    ("float64", "double"),
    ("size_t", "std::uint64_t"),
    ("string", "std::string"),
    ("str", "std::string"),
    ("byte", "std::byte"),
];

/// Templates of the standard library that RNTuple supports.
const TEMPLATES: &[&str] = &[
    "vector",
    "set",
    "multiset",
    "unordered_set",
    "unordered_multiset",
    "map",
    "multimap",
    "unordered_map",
    "unordered_multimap",
    "pair",
    "tuple",
    "optional",
    "unique_ptr",
    "variant",
    "array",
    "bitset",
    "atomic",
];

/// Maximum nesting of templates.
const DEEPEST: usize = 100;

impl FieldModel {
    /// The field of a C++ type: fundamental types, `std::string`, and the templates of the standard library and ROOT that
    /// RNTuple supports. The names are normalized as in ROOT. Numbers may have NumPy names such as `int32`.
    ///
    /// # Errors
    /// If the type is not supported, or the name is invalid.
    pub fn from_type_name(name: &str, type_name: &str) -> Result<Self, RNTupleError> {
        Self::from_type_name_with(name, type_name, &[])
    }

    /// The same, with classes and enums that may occur in it by their type names.
    ///
    /// # Errors
    /// If the type is not supported, or the name is invalid.
    pub fn from_type_name_with(
        name: &str,
        type_name: &str,
        classes: &[Self],
    ) -> Result<Self, RNTupleError> {
        parse(type_name, classes, 0)
            .map(|field| field.named(name))
            .map_err(|reason| unwritable(name, format!("its type {type_name:?} {reason}")))
    }
}

/// The name of a C++ type as normalized by ROOT, for any class. ROOT before 6.36 wrote some as they are in the source
/// code, for example `vector<vector<int> >` and `A<Float_t >`.
pub fn normal_type_name(type_name: &str) -> String {
    let mut out = String::with_capacity(type_name.len());
    let mut rest = type_name;
    while !rest.is_empty() {
        let end = rest.find(['<', '>', ',', '[', ']']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let words = word.split_whitespace().filter(|word| *word != "const");
        let word = words.collect::<Vec<_>>().join(" ");
        let word = match out.ends_with('>') {
            true => word.as_str(),
            false => word.trim_start_matches("::"),
        };
        let plain = word.strip_prefix("std::").unwrap_or(word);
        if after.starts_with('<') {
            match plain {
                "RVec" | "ROOT::RVec" => out.push_str("ROOT::VecOps::RVec"),
                _ if TEMPLATES.contains(&plain) => {
                    out.push_str("std::");
                    out.push_str(plain);
                }
                _ => out.push_str(word),
            }
        } else {
            match fundamental(word, 0) {
                Ok(known) if !word.is_empty() => out.push_str(&known.type_name),
                _ => out.push_str(word),
            }
        }
        let n = after.chars().next().map_or(0, char::len_utf8);
        let (mark, behind) = after.split_at(n);
        out.push_str(mark);
        rest = behind;
    }
    out
}

/// Whether two names are of the same type.
pub fn is_same_type(one: &str, other: &str) -> bool {
    one == other || normal_type_name(one) == normal_type_name(other)
}

fn parse(type_name: &str, classes: &[FieldModel], depth: usize) -> Result<FieldModel, String> {
    if depth > DEEPEST {
        return Err(format!("is nested deeper than {DEEPEST}"));
    }
    let text = type_name.trim();
    let text = text.strip_prefix("const ").unwrap_or(text).trim();
    if let Some((inner, size)) = text
        .strip_suffix(']')
        .and_then(|text| text.rsplit_once('['))
    {
        return c_array(inner, size, classes, depth);
    }
    let plain = text.trim_start_matches("::");
    if let Some(class) = classes.iter().find(|class| class.type_name == plain) {
        return Ok(class.clone());
    }
    let Some((template, arguments)) = text.strip_suffix('>').and_then(|text| text.split_once('<'))
    else {
        return fundamental(text, depth);
    };
    let arguments = split(arguments)?;
    let fields = |wanted: std::ops::RangeInclusive<usize>| -> Result<Vec<FieldModel>, String> {
        // further arguments are comparators, hashes and allocators, which are not part of the data
        if !wanted.contains(&arguments.len()) {
            let (least, most) = (wanted.start(), wanted.end());
            return Err(format!(
                "has {} arguments, not {least} to {most}",
                arguments.len()
            ));
        }
        arguments
            .iter()
            .take(*wanted.start())
            .map(|argument| parse(argument, classes, depth + 1))
            .collect()
    };
    let template = template.trim().trim_start_matches("::");
    match template.strip_prefix("std::").unwrap_or(template) {
        "vector" => one(fields(1..=2)?).map(|item| FieldModel::vector("", item)),
        "RVec" | "ROOT::RVec" | "ROOT::VecOps::RVec" => {
            collection("ROOT::VecOps::RVec", one(fields(1..=1)?)?)
        }
        set @ ("set" | "multiset" | "unordered_set" | "unordered_multiset") => {
            collection(&format!("std::{set}"), one(fields(1..=4)?)?)
        }
        map @ ("map" | "multimap" | "unordered_map" | "unordered_multimap") => {
            let pair = FieldModel::tuple("_0", fields(2..=5)?);
            let name = pair
                .type_name
                .replacen("std::pair", &format!("std::{map}"), 1);
            let item = Box::new(pair);
            Ok(FieldModel::new("", name, FieldKind::Collection(item)))
        }
        "pair" => Ok(FieldModel::tuple("", fields(2..=2)?)),
        "tuple" => {
            let n = arguments.len();
            let mut field = FieldModel::tuple("", fields(n..=n)?);
            field.type_name = field.type_name.replacen("std::pair", "std::tuple", 1);
            Ok(field)
        }
        "optional" => one(fields(1..=1)?).map(|item| FieldModel::optional("", item)),
        "unique_ptr" => one(fields(1..=2)?).map(|item| {
            let name = format!("std::unique_ptr<{}>", item.type_name);
            FieldModel::new("", name, FieldKind::Optional(Box::new(item.named("_0"))))
        }),
        "variant" => {
            let n = arguments.len();
            Ok(FieldModel::variant("", fields(n..=n)?))
        }
        "array" => sized(&arguments, |item, size| {
            Ok(FieldModel::array(
                "",
                size,
                parse(item, classes, depth + 1)?,
            ))
        }),
        "bitset" => {
            let [size] = arguments.as_slice() else {
                return Err("needs its number of bits".into());
            };
            let size = number(size)?;
            let name = format!("std::bitset<{size}>");
            Ok(FieldModel::new("", name, FieldKind::Bitset(size)))
        }
        "atomic" => one(fields(1..=1)?).map(|item| {
            let name = format!("std::atomic<{}>", item.type_name);
            FieldModel::new("", name, FieldKind::Wrapper(Box::new(item.named("_0"))))
        }),
        _ => Err("is not a known type: give the members of a class one by one".into()),
    }
}

fn one(fields: Vec<FieldModel>) -> Result<FieldModel, String> {
    fields
        .into_iter()
        .next()
        .ok_or_else(|| "needs an argument".into())
}

fn collection(template: &str, item: FieldModel) -> Result<FieldModel, String> {
    let name = format!("{template}<{}>", item.type_name);
    Ok(FieldModel::new(
        "",
        name,
        FieldKind::Collection(Box::new(item.named("_0"))),
    ))
}

fn sized(
    arguments: &[&str],
    make: impl FnOnce(&str, u64) -> Result<FieldModel, String>,
) -> Result<FieldModel, String> {
    let [item, size] = arguments else {
        return Err("needs the type and the number of its items".into());
    };
    make(item, number(size)?)
}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.trim().trim_end_matches(['u', 'U', 'l', 'L']);
    let parsed = digits.parse().ok().filter(|&n| n > 0);
    parsed.ok_or_else(|| format!("has no size: {text:?}"))
}

/// `T[N]…[M]`: arrays of arrays, the last index innermost.
fn c_array(
    inner: &str,
    size: &str,
    classes: &[FieldModel],
    depth: usize,
) -> Result<FieldModel, String> {
    let (mut item, mut sizes) = (inner.trim(), vec![number(size)?]);
    while let Some((inner, size)) = item
        .strip_suffix(']')
        .and_then(|text| text.rsplit_once('['))
    {
        sizes.push(number(size)?);
        item = inner.trim();
    }
    let field = parse(item, classes, depth + 1)?;
    Ok(sizes
        .into_iter()
        .fold(field, |field, size| FieldModel::array("", size, field)))
}

/// Arguments of a template.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut out, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => {
                depth = depth
                    .checked_sub(1)
                    .ok_or("has an unmatched closing bracket")?
            }
            b',' if depth == 0 => {
                out.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err("lacks a closing bracket".into());
    }
    let last = text.get(start..).unwrap_or_default();
    if !last.trim().is_empty() || !out.is_empty() {
        out.push(last);
    }
    Ok(out)
}

fn fundamental(text: &str, depth: usize) -> Result<FieldModel, String> {
    let text = text.strip_prefix("std::").unwrap_or(text);
    if text == "Double32_t" {
        return Ok(stored("double", text, DType::Float64, ColumnType::Real32));
    }
    let known = SYNONYMS.iter().find(|(name, _)| *name == text);
    let text = known.map_or(text, |(_, normal)| {
        normal.strip_prefix("std::").unwrap_or(normal)
    });
    let dtype = match text {
        "string" => return Ok(FieldModel::new("", "std::string", FieldKind::String)),
        "byte" => return Ok(byte()),
        "char" => return Ok(stored("char", "", DType::Int8, ColumnType::Char)),
        "bool" => DType::Bool,
        "int8_t" | "signed char" => DType::Int8,
        "uint8_t" | "unsigned char" => DType::UInt8,
        "int16_t" | "short" | "short int" => DType::Int16,
        "uint16_t" | "unsigned short" | "unsigned short int" => DType::UInt16,
        "int32_t" | "int" => DType::Int32,
        "uint32_t" | "unsigned int" | "unsigned" => DType::UInt32,
        "int64_t" | "long" | "long int" | "long long" => DType::Int64,
        "uint64_t" | "unsigned long" | "unsigned long long" => DType::UInt64,
        "float" => DType::Float32,
        "double" => DType::Float64,
        "float16" => DType::Float16,
        "" => return Err("is empty".into()),
        _ if text.ends_with(['*', '&']) => {
            let what = "pointers and references are not stored; give the type that they refer to";
            return Err(match depth {
                0 => format!("is not supported: {what}"),
                _ => format!("contains {text:?}: {what}"),
            });
        }
        _ if text.contains(['<', '>']) => return Err("has unmatched brackets".into()),
        _ => {
            return Err(unknown(text, depth));
        }
    };
    Ok(FieldModel::number("", dtype))
}

/// The message for an unknown type name. For a short name, a suggestion must be very similar.
fn unknown(text: &str, depth: usize) -> String {
    let near = nearest(text, NUMBERS.iter().copied());
    let is_near = |near: &&String| {
        let begins_alike = near.starts_with(text.chars().next().unwrap_or_default());
        text.len() > 4 || near.len() == text.len() || (text.len() == 4 && begins_alike)
    };
    let hint = match near.first().filter(is_near) {
        Some(near) => format!("; did you mean {near}?"),
        None => String::new(),
    };
    let what = if depth == 0 {
        "is".to_owned()
    } else {
        format!("contains {text:?}, which is")
    };
    format!(
        "{what} not a known type: give the members of a class one by one, or the integer type of an enum{hint}"
    )
}

fn stored(type_name: &str, alias: &str, dtype: DType, column: ColumnType) -> FieldModel {
    let leaf = LeafModel {
        dtype,
        stored: Some(StoredAs::Column(column)),
    };
    let mut field = FieldModel::new("", type_name, FieldKind::Leaf(leaf));
    field.type_alias = alias.to_owned();
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(type_name: &str) -> String {
        FieldModel::from_type_name("x", type_name)
            .unwrap()
            .type_name
    }

    #[test]
    fn names_are_normalized_as_roots_are() {
        for (given, want) in [
            ("int", "std::int32_t"),
            ("unsigned long long", "std::uint64_t"),
            ("vector< vector<float> >", "std::vector<std::vector<float>>"),
            ("RVec<Double32_t>", "ROOT::VecOps::RVec<double>"),
            ("int[2][3]", "std::array<std::array<std::int32_t,3>,2>"),
            (
                "std::map<string, vector<int>>",
                "std::map<std::string,std::vector<std::int32_t>>",
            ),
            (
                "std::variant<int,std::string>",
                "std::variant<std::int32_t,std::string>",
            ),
            ("std::tuple<>", "std::tuple<>"),
            ("std::bitset<12>", "std::bitset<12>"),
            ("std::vector<int32>", "std::vector<std::int32_t>"),
            ("std::map<str, float32>", "std::map<std::string,float>"),
            ("std::unique_ptr<bool>", "std::unique_ptr<bool>"),
            ("const std::atomic<short>", "std::atomic<std::int16_t>"),
        ] {
            assert_eq!(normal(given), want, "{given}");
        }
    }

    #[test]
    fn names_of_classes_are_normalized_as_roots_are() {
        for (given, want) in [
            (
                "vector<vector<int> >",
                "std::vector<std::vector<std::int32_t>>",
            ),
            ("Float_t", "float"),
            ("A<B >", "A<B>"),
            (
                "A< unsigned  int , vector<B> >",
                "A<std::uint32_t,std::vector<B>>",
            ),
            ("::edm::Wrapper<const Float_t>", "edm::Wrapper<float>"),
            ("A<B>::C", "A<B>::C"),
            ("A<string,3>", "A<std::string,3>"),
            (
                "map<int,A<Double_t>[2]>",
                "std::map<std::int32_t,A<double>[2]>",
            ),
            ("ROOT::RVec<Bool_t>", "ROOT::VecOps::RVec<bool>"),
            ("mine::vector<int>", "mine::vector<std::int32_t>"),
            ("", ""),
            ("A<", "A<"),
        ] {
            assert_eq!(normal_type_name(given), want, "{given}");
            assert!(is_same_type(given, want));
        }
        for (one, other) in [
            ("A<B>", "A<C>"),
            ("A", "B"),
            ("int", "unsigned int"),
            ("A B", "AB"),
        ] {
            assert!(!is_same_type(one, other), "{one} {other}");
        }
    }

    #[test]
    fn what_is_no_type_is_an_error_with_its_name() {
        for given in [
            "",
            "Muon",
            "std::vector<",
            "std::vector<int>>",
            "std::array<int>",
            "int[0]",
            "int]",
            "std::map<int>",
        ] {
            let error = FieldModel::from_type_name("field", given).unwrap_err();
            assert_eq!(error.kind(), "unwritable-field");
            assert!(error.to_string().contains("\"field\""), "{error}");
        }
        for (given, why) in [
            ("Track*", "is not supported: pointers"),
            ("vector<Track*>", "contains \"Track*\": pointers"),
            ("map<int, const float &>", "contains \"float &\": pointers"),
        ] {
            let error = FieldModel::from_type_name("x", given).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        let deep = format!("{}int{}", "vector<".repeat(10_000), ">".repeat(10_000));
        assert!(FieldModel::from_type_name("x", &deep).is_err());
    }
}
