//! Shapes of C++ types; those of classes are found by the file's streamer infos.

use std::borrow::Cow;

use femtobarn_rntuple::schema::DType;
use femtobarn_rootfile::{ElementKind, StreamerElement, StreamerInfo};

use super::cpp::Cpp;
use super::known::{basic, container, element_link, known_class, number};
use super::range::{double32, float16};
use super::shape::{
    Hidden, ListWire, Member, Number, NumberWire, Record, RecordWire, Shape, TextWire, Version,
};
use crate::TreeError;
use crate::error::unsupported;
use crate::object::{Infos, codes::*, squeezed};

/// Maximum nesting of classes; deeper nesting is treated as damage.
const DEEPEST: usize = 60;
/// Maximum number of members of a class, including nested ones. A nesting limit alone is not enough, as each class may
/// contain the next one twice.
const MOST_MEMBERS: usize = 100_000;

/// Determines the shapes of types.
pub(crate) struct Shapes<'s> {
    infos: &'s Infos,
    /// The classes around the current one.
    around: Vec<String>,
    n_members: usize,
    /// ROOT's type code of the items of the current container, if an element states it.
    content: Option<i32>,
    /// Whether the current class version is not the one presented.
    is_other: bool,
}

impl<'s> Shapes<'s> {
    pub fn new(infos: &'s Infos) -> Self {
        Self {
            infos,
            around: Vec::new(),
            n_members: 0,
            content: None,
            is_other: false,
        }
    }

    /// The shape of a type. `header`: whether containers begin with byte count and version; nested containers never do.
    pub fn of_type(&mut self, cpp: &Cpp, header: bool) -> Result<Shape, TreeError> {
        if cpp.pointers > 0 {
            return unsupported(format!("pointers ({}*) are not supported", cpp.text));
        }
        if let Some(dtype) = number(&cpp.name) {
            return Ok(Shape::Number(Number::plain(dtype)));
        }
        if self.around.len() > DEEPEST {
            return unsupported(format!("{} is nested too deeply", cpp.text));
        }
        match (cpp.name.as_str(), container(&cpp.name)) {
            ("Double32_t", _) => Ok(Shape::Number(double32(""))),
            ("Float16_t", _) => Ok(Shape::Number(float16(""))),
            ("string", _) => Ok(Shape::Text(TextWire::Short { header: false })),
            (name, Some(full)) if name.ends_with("map") => {
                let members = vec![
                    member("_0", self.argument(cpp, 0)?),
                    member("_1", self.argument(cpp, 1)?),
                ];
                // only for the items of a map, so that other pairs are not mistaken for maps
                let pair = match (name, members.as_slice()) {
                    ("map", [key, value]) => {
                        let (key, value) = (key.shape.type_name(), value.shape.type_name());
                        format!("std::pair<{key},{value}>")
                    }
                    _ => String::new(),
                };
                let pair = Record::bare(pair, members);
                Ok(list(header, Shape::Record(pair), full))
            }
            (_, Some(full)) => Ok(list(header, self.argument(cpp, 0)?, full)),
            ("bitset", _) => {
                let item = Shape::Number(Number::plain(DType::Bool));
                let size = cpp.arguments.first().map_or("", |size| &size.text);
                Ok(list(header, item, format!("std::bitset<{size}>")))
            }
            ("array", _) => {
                let size = cpp
                    .arguments
                    .get(1)
                    .and_then(|size| size.text.trim().parse().ok());
                let Some(size) = size else {
                    return unsupported(format!("invalid size in {:?}", cpp.text));
                };
                Ok(self.argument(cpp, 0)?.in_arrays(&[size]))
            }
            _ => {
                let mut shape = self.class(&cpp.text)?;
                // use the names of uproot: types without these spaces, and members as in the file
                if let Shape::Record(record) = &mut shape {
                    record.name = record.name.replace("> >", ">>");
                }
                Ok(shape)
            }
        }
    }

    fn argument(&mut self, cpp: &Cpp, at: usize) -> Result<Shape, TreeError> {
        let Some(argument) = cpp.arguments.get(at) else {
            return unsupported(format!("type {:?} has too few arguments", cpp.text));
        };
        // the type code applies to the container's items, but not further in
        let content = self.content.take();
        self.around.push(String::new());
        let shape = self.of_type(argument, false);
        self.around.pop();
        match (shape, self.enumerator(cpp, at, content)) {
            (Err(_), Some(number)) => Ok(Shape::Number(number)),
            (shape, _) => shape,
        }
    }

    /// The number type in which a value of an enumeration is stored in a container. Files do not describe enumerations,
    /// but the items of a pair, or of a member that is a container.
    fn enumerator(&self, cpp: &Cpp, at: usize, content: Option<i32>) -> Option<Number> {
        let code = match cpp.name.as_str() {
            name if name.ends_with("map") => {
                let [key, value] = cpp.arguments.get(..2)? else {
                    return None;
                };
                let pair = format!("pair<{},{}>", key.text, value.text);
                self.infos.newest(&pair)?.elements.get(at)?.type_code
            }
            _ => content?,
        };
        // ROOT stores enumerations of other sizes as `int` as well, and reads beyond the end of their memory to do so
        let is_int = matches!(code, INT | UINT);
        is_int.then(|| basic(code, "").ok()).flatten()
    }

    /// The shape of a class, in its newest version in the file.
    pub fn class(&mut self, name: &str) -> Result<Shape, TreeError> {
        if let Some(known) = known_class(name) {
            return Ok(known);
        }
        if matches!(
            name,
            "TClonesArray" | "TObjArray" | "TList" | "THashList" | "TMap"
        ) {
            return unsupported(format!(
                "a {name} that is not split into branches, so the class of its items is unknown"
            ));
        }
        let Some(info) = self.infos.newest(name) else {
            if name.starts_with("ElementLink<") {
                return Ok(element_link(name));
            }
            return unsupported(format!("the file has no description of class {name}"));
        };
        self.record(info).map(Shape::Record)
    }

    /// The shape of a class version.
    pub fn record(&mut self, info: &StreamerInfo) -> Result<Record, TreeError> {
        let name = squeezed(&info.name);
        if self.around.contains(&name) || self.around.len() > DEEPEST {
            return unsupported(format!("class {} contains itself", info.name));
        }
        self.around.push(name);
        let members = self.members(info);
        let others = match members {
            Ok(_) => self.others(info),
            Err(_) => Vec::new(),
        };
        self.around.pop();
        if info.name.starts_with("TMatrixTSym<") {
            return symmetric(info, members?);
        }
        Ok(Record {
            name: info.name.clone(),
            wire: RecordWire::Headed {
                version: info.version,
                checksum: info.checksum,
            },
            members: members?,
            others,
            described: self
                .infos
                .versions(&info.name)
                .map(|info| (info.version, info.checksum))
                .collect(),
        })
    }

    /// The other described versions of a class; none within such a version.
    fn others(&mut self, info: &StreamerInfo) -> Vec<Version> {
        if self.is_other {
            return Vec::new();
        }
        self.is_other = true;
        let infos = self.infos;
        let versions = infos.versions(&info.name);
        let versions = versions.filter(|other| other.checksum != info.checksum);
        let others = versions.filter_map(|other| {
            Some(Version {
                version: other.version,
                checksum: other.checksum,
                members: self.members(other).ok()?,
            })
        });
        let others = others.collect();
        self.is_other = false;
        others
    }

    fn members(&mut self, info: &StreamerInfo) -> Result<Vec<Member>, TreeError> {
        let mut members: Vec<Member> = Vec::with_capacity(info.elements.len());
        self.n_members = self.n_members.saturating_add(info.elements.len());
        if self.n_members > MOST_MEMBERS {
            return unsupported(format!(
                "{} has more than {MOST_MEMBERS} members",
                info.name
            ));
        }
        for element in &info.elements {
            let is_base = matches!(element.kind, ElementKind::Base { .. });
            let shape = self.element(element, &members)?;
            members.push(Member {
                name: element.name.clone(),
                shape,
                is_base,
            });
        }
        Ok(members)
    }

    /// The shape of a member that follows the members `before`.
    pub fn element(
        &mut self,
        element: &StreamerElement,
        before: &[Member],
    ) -> Result<Shape, TreeError> {
        let code = element.type_code;
        match &element.kind {
            ElementKind::Base { .. } if element.name == "TObject" => {
                return Ok(Shape::Hidden(Hidden::Object));
            }
            // a TArray has a custom streamer, also as a base class
            ElementKind::Base { .. } if element.name.starts_with("TArray") => {
                return self.class(&element.name);
            }
            ElementKind::Base { version } => {
                let info = self.infos.get(&element.name, *version);
                return match info {
                    Some(info) => self.record(info).map(Shape::Record),
                    // container base classes have no streamer info
                    None => self.of_type(&Cpp::parse(type_of_base(element))?, true),
                };
            }
            ElementKind::BasicPointer(counter) if code < OBJECT => {
                let found = place(before, &counter.name, &mut 0);
                let (Some(counter), true) = (found, sizes(element).is_empty()) else {
                    return unsupported(format!(
                        "{} {} with counter {}",
                        element.type_name, element.name, counter.name
                    ));
                };
                let item = basic(code - OFFSET_P, &element.title)?;
                return Ok(pointed(counter, true, false, Shape::Number(item)));
            }
            ElementKind::Loop(counter) => {
                let at = place(before, &counter.name, &mut 0);
                let class = element.type_name.strip_suffix('*').unwrap_or_default();
                let (Some(counter), false) = (at, class.ends_with('*')) else {
                    return unsupported(format!("{} {}", element.type_name, element.name));
                };
                return Ok(pointed(counter, false, true, self.class(class)?));
            }
            ElementKind::Stl { .. } | ElementKind::StlString { .. } => {
                return self.stl(element);
            }
            _ => {}
        }
        let sizes = sizes(element);
        let is_array = !sizes.is_empty() && code >= OFFSET_L;
        let item = if is_array { code - OFFSET_L } else { code };
        let shape = match item {
            CHAR_STAR => Shape::Text(TextWire::Long),
            BITS => Shape::Number(Number {
                dtype: DType::UInt32,
                wire: NumberWire::Bits,
            }),
            simple if simple < OFFSET_L => Shape::Number(basic(simple, &element.title)?),
            // arrays of TString have a header, like containers
            TSTRING if !sizes.is_empty() => Shape::Text(TextWire::Short { header: true }),
            TSTRING => Shape::Text(TextWire::Root),
            TOBJECT => Shape::Hidden(Hidden::Object),
            OBJECT | ANY | OBJECT_INLINE | ANY_INLINE | TNAMED => {
                self.any(element.type_name.trim_end_matches('*'))?
            }
            other => {
                return unsupported(format!(
                    "member {} of type {} (ROOT's type {other})",
                    element.name, element.type_name
                ));
            }
        };
        Ok(shape.in_arrays(&sizes))
    }

    /// The shape of a member object. A `std::array` of containers is described as an array of container objects, which
    /// have no headers.
    fn any(&mut self, class: &str) -> Result<Shape, TreeError> {
        let cpp = Cpp::parse(class);
        let is_container = |cpp: &Cpp| container(&cpp.name).is_some();
        match cpp.ok().filter(is_container) {
            Some(cpp) if self.infos.newest(class).is_none() => {
                let mut shape = self.of_type(&cpp, false)?;
                if let Shape::List { wire, .. } = &mut shape {
                    *wire = ListWire::Bare;
                }
                Ok(shape)
            }
            _ => self.class(class),
        }
    }

    /// The shape of a member that is a standard container.
    fn stl(&mut self, element: &StreamerElement) -> Result<Shape, TreeError> {
        let type_name = element.type_name.trim_end_matches('*');
        let cpp = Cpp::parse(type_name)?;
        self.content = match element.kind {
            ElementKind::Stl { content, .. } => Some(content),
            _ => None,
        };
        let item = match cpp.name.as_str() {
            "string" => Shape::Text(TextWire::Short { header: true }),
            _ => self.of_type(&cpp, true)?,
        };
        Ok(item.in_arrays(&sizes(element)))
    }
}

/// The type of a split collection, as fields have it; none if it is not a standard container.
pub(crate) fn collection_type(shapes: &mut Shapes<'_>, class: &str, item: &str) -> Option<String> {
    let cpp = Cpp::parse(class).ok()?;
    let full = container(&cpp.name)?;
    match cpp.name.ends_with("map") {
        true => Some(shapes.of_type(&cpp, true).ok()?.type_name()),
        false => Some(format!("{full}<{item}>")),
    }
}

/// A symmetric matrix stores its base, then half of its elements.
fn symmetric(info: &StreamerInfo, mut members: Vec<Member>) -> Result<Record, TreeError> {
    let rows = place(&members, "fNrows", &mut 0);
    let elements =
        members
            .iter_mut()
            .find_map(|member| match (&member.name[..], &mut member.shape) {
                ("fElements", Shape::List { wire, .. }) => Some(wire),
                _ => None,
            });
    let (Some(counter), Some(wire)) = (rows, elements) else {
        return unsupported(format!("{} differs from ROOT's description", info.name));
    };
    *wire = ListWire::Triangle { counter };
    Ok(Record::bare(info.name.clone(), members))
}

/// The type of a base class, whose type name may be "BASE".
fn type_of_base(element: &StreamerElement) -> &str {
    match element.type_name.as_str() {
        "BASE" | "" => &element.name,
        type_name => type_name,
    }
}

/// The dimensions of a fixed-size array, outermost first. ROOT has written arrays of strings and containers without the
/// number of dimensions, so that only their length shows that they are arrays.
pub(super) fn sizes(element: &StreamerElement) -> Vec<u64> {
    let size = |&size: &i32| u64::try_from(size).ok().filter(|&size| size > 0);
    let length = size(&element.array_length);
    let n = match usize::try_from(element.array_dim) {
        Ok(0) | Err(_) if length.is_none() => 0,
        Ok(0) | Err(_) => element.max_index.len(),
        Ok(n) => n,
    };
    let sizes: Vec<u64> = element.max_index.iter().take(n).map_while(size).collect();
    let product = sizes.iter().try_fold(1u64, |all, &n| all.checked_mul(n));
    match length {
        Some(length) if product != Some(length) => vec![length],
        _ => sizes,
    }
}

/// The position of a counter member. Members of bases count in place of the base; the last member of that name is used.
fn place(members: &[Member], name: &str, at: &mut usize) -> Option<usize> {
    let mut found = None;
    for member in members {
        match &member.shape {
            Shape::Record(base) if member.is_open_base() => {
                found = place(&base.members, name, at).or(found);
            }
            _ => {
                if member.name == name {
                    found = Some(*at);
                }
                *at += 1;
            }
        }
    }
    found
}

pub(super) fn member(name: &str, shape: Shape) -> Member {
    Member {
        name: name.to_owned(),
        shape,
        is_base: false,
    }
}

pub(super) fn list(header: bool, item: Shape, container: impl Into<Cow<'static, str>>) -> Shape {
    Shape::List {
        wire: ListWire::Counted { header },
        item: Box::new(item),
        container: container.into(),
    }
}

/// A list whose length is in the member at `counter`.
pub(super) fn pointed(counter: usize, mark: bool, header: bool, item: Shape) -> Shape {
    Shape::List {
        wire: ListWire::Pointed {
            counter,
            mark,
            header,
        },
        item: Box::new(item),
        container: "std::vector".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(array_length: i32, array_dim: i32, max_index: [i32; 5]) -> StreamerElement {
        StreamerElement {
            name: "s".into(),
            title: String::new(),
            type_code: 320,
            size: 0,
            array_length,
            array_dim,
            max_index,
            type_name: "string".into(),
            kind: ElementKind::BasicType,
        }
    }

    /// Arrays of strings written without the number of dimensions were read as one string.
    #[test]
    fn sizes_are_taken_from_where_they_are() {
        for (length, dim, max_index, expected) in [
            (0, 0, [0; 5], vec![]),
            (4, 1, [4, 0, 0, 0, 0], vec![4]),
            (4, 2, [2, 2, 0, 0, 0], vec![2, 2]),
            (4, 0, [4, 0, 0, 0, 0], vec![4]),
            (6, 0, [2, 3, 0, 0, 0], vec![2, 3]),
            (4, 0, [0; 5], vec![4]),
            (4, 1, [2, 2, 0, 0, 0], vec![4]),
        ] {
            let found = sizes(&element(length, dim, max_index));
            assert_eq!(found, expected, "{length} {dim} {max_index:?}");
        }
    }
}
