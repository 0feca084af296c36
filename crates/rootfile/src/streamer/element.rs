//! Streamer elements: members and base classes of a class.

use super::buffer::{Buffer, Tagged};
use crate::RootFileError;

/// A member or base class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamerElement {
    /// The kind of the member.
    pub kind: ElementKind,
    /// Name of the member, or of the base.
    pub name: String,
    /// Comment, or title of the base.
    pub title: String,
    /// The type code (`TVirtualStreamerInfo::EReadWrite`).
    pub type_code: i32,
    /// Size in memory; for arrays, of one element.
    pub size: i32,
    /// Number of elements of an array, else 0.
    pub array_length: i32,
    /// Number of dimensions of an array, else 0.
    pub array_dim: i32,
    /// Sizes of the dimensions. For a base class, the first is its checksum.
    pub max_index: [i32; 5],
    /// The C++ type name.
    pub type_name: String,
}

/// The kind of a [`StreamerElement`]: the subclasses of `TStreamerElement`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElementKind {
    /// A base class.
    Base {
        /// Version of the base.
        version: i32,
    },
    /// A number, or an array of numbers of fixed size.
    BasicType,
    /// A pointer to numbers. Another member has their count.
    BasicPointer(Counter),
    /// A pointer to objects. Another member has their count.
    Loop(Counter),
    /// An object whose class derives from TObject.
    Object,
    /// A pointer to such an object.
    ObjectPointer,
    /// An object of another class.
    ObjectAny,
    /// A pointer to such an object.
    ObjectAnyPointer,
    /// A TString.
    String,
    /// A container of the standard library.
    Stl {
        /// The container (`ROOT::ESTLType`).
        container: i32,
        /// Type of the items (`TVirtualStreamerInfo::EReadWrite`).
        content: i32,
    },
    /// A `std::string`.
    StlString {
        /// The container (`ROOT::ESTLType`).
        container: i32,
        /// Type of the items (`TVirtualStreamerInfo::EReadWrite`).
        content: i32,
    },
    /// A plain `TStreamerElement`, or one that schema evolution created.
    Other,
}

/// The member with the length of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// Version of the class that has the member.
    pub version: i32,
    /// Name of the member.
    pub name: String,
    /// The class that has the member.
    pub class_name: String,
}

/// Reads the element whose header is `tagged`.
pub(super) fn parse_element(
    buffer: &mut Buffer<'_>,
    tagged: &Tagged<'_>,
) -> Result<StreamerElement, RootFileError> {
    let class = tagged.class;
    let known = class.strip_prefix(b"TStreamer").unwrap_or_default();
    let element = match known {
        b"Element" => base_members(buffer)?,
        b"STLstring" => {
            let start = buffer.begin()?;
            let (mut element, container, content) = stl(buffer)?;
            element.kind = ElementKind::StlString { container, content };
            buffer.finish(start.end)?;
            element
        }
        b"STL" => {
            let (mut element, container, content) = stl(buffer)?;
            element.kind = ElementKind::Stl { container, content };
            element
        }
        kind => simple(buffer, kind)?.ok_or_else(|| {
            let found = class.escape_ascii();
            buffer
                .cursor
                .place()
                .corrupt(tagged.offset, "a class of streamer elements", found)
        })?,
    };
    buffer.finish(tagged.end)?;
    Ok(element)
}

/// Reads elements of subclasses that add little to the base members; `None` if `kind` is another
/// class.
fn simple(buffer: &mut Buffer<'_>, kind: &[u8]) -> Result<Option<StreamerElement>, RootFileError> {
    let start = buffer.begin()?;
    let plain = match kind {
        b"BasicType" => ElementKind::BasicType,
        b"Object" => ElementKind::Object,
        b"ObjectPointer" => ElementKind::ObjectPointer,
        b"ObjectAny" => ElementKind::ObjectAny,
        b"ObjectAnyPointer" => ElementKind::ObjectAnyPointer,
        b"String" => ElementKind::String,
        b"Artificial" | b"Base" | b"BasicPointer" | b"Loop" => ElementKind::Other,
        _ => return Ok(None),
    };
    let mut element = base_members(buffer)?;
    element.kind = match kind {
        b"Base" => {
            let version = if start.version > 1 {
                buffer.cursor.i32()?
            } else {
                0
            };
            ElementKind::Base { version }
        }
        b"BasicPointer" => ElementKind::BasicPointer(counter(buffer)?),
        b"Loop" => ElementKind::Loop(counter(buffer)?),
        _ => plain,
    };
    buffer.finish(start.end)?;
    Ok(Some(element))
}

fn counter(buffer: &mut Buffer<'_>) -> Result<Counter, RootFileError> {
    let cursor = &mut buffer.cursor;
    Ok(Counter {
        version: cursor.i32()?,
        name: cursor.string()?,
        class_name: cursor.string()?,
    })
}

/// A TStreamerSTL: base members, container, content.
fn stl(buffer: &mut Buffer<'_>) -> Result<(StreamerElement, i32, i32), RootFileError> {
    let start = buffer.begin()?;
    let element = base_members(buffer)?;
    let (container, content) = (buffer.cursor.i32()?, buffer.cursor.i32()?);
    buffer.finish(start.end)?;
    let container = corrected_container(container, &element.type_name);
    Ok((element, container, content))
}

/// Some versions of ROOT swapped the numbers of sets and multimaps: the name of the type decides.
fn corrected_container(container: i32, type_name: &str) -> i32 {
    const MULTIMAP: i32 = 5;
    const SET: i32 = 6;
    let type_name = type_name.strip_prefix("std::").unwrap_or(type_name);
    match container {
        MULTIMAP | SET if type_name.starts_with("set") => SET,
        MULTIMAP | SET if type_name.starts_with("multimap") => MULTIMAP,
        other => other,
    }
}

/// The members of TStreamerElement.
fn base_members(buffer: &mut Buffer<'_>) -> Result<StreamerElement, RootFileError> {
    let start = buffer.begin()?;
    let (name, title) = buffer.named()?;
    let cursor = &mut buffer.cursor;
    let (type_code, size) = (cursor.i32()?, cursor.i32()?);
    let (array_length, array_dim) = (cursor.i32()?, cursor.i32()?);
    let mut max_index = [0; 5];
    // version 1 stores the number of dimensions
    let dimensions = if start.version == 1 {
        cursor.count(4)?
    } else {
        max_index.len()
    };
    for at in 0..dimensions {
        let value = cursor.i32()?;
        if let Some(slot) = max_index.get_mut(at) {
            *slot = value;
        }
    }
    let type_name = cursor.string()?;
    buffer.finish(start.end)?;
    let kind = ElementKind::Other;
    Ok(StreamerElement {
        kind,
        name,
        title,
        type_code,
        size,
        array_length,
        array_dim,
        max_index,
        type_name,
    })
}

#[cfg(test)]
mod tests {
    use super::corrected_container;

    #[test]
    fn sets_and_multimaps_are_told_apart_by_their_names() {
        for container in [5, 6] {
            assert_eq!(corrected_container(container, "set<long>"), 6);
            assert_eq!(corrected_container(container, "std::set<long>"), 6);
            assert_eq!(corrected_container(container, "multimap<int,int>"), 5);
            assert_eq!(corrected_container(container, "MyClass"), container);
        }
        assert_eq!(corrected_container(4, "map<int,set<int> >"), 4);
    }
}
