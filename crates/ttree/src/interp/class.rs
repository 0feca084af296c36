//! Shapes of C++ types, of classes by the file's streamer infos.

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

/// Classes in classes: deeper than this is damage.
const DEEPEST: usize = 60;
/// Members of a class and of those in it: each class could have two of the next, so that depth alone is no limit.
const MOST_MEMBERS: usize = 100_000;

/// Finds the shapes of types.
pub(crate) struct Shapes<'s> {
    infos: &'s Infos,
    /// The classes around the one that is looked at.
    around: Vec<String>,
    n_members: usize,
    /// ROOT's type of what the container contains that is looked at, if an element says it.
    content: Option<i32>,
    /// Whether it is in a version of a class that is not the one shown.
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

    /// The shape of a type; `header`: whether containers have a byte count and a version in front. Those inside of
    /// others never have.
    pub fn of_type(&mut self, cpp: &Cpp, header: bool) -> Result<Shape, TreeError> {
        if cpp.pointers > 0 {
            return unsupported(format!("pointers ({}*) are not followed", cpp.text));
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
                // only of a map that is one, so that others are not taken for maps
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
                    return unsupported(format!("the size in {:?}", cpp.text));
                };
                Ok(self.argument(cpp, 0)?.in_arrays(&[size]))
            }
            _ => {
                let mut shape = self.class(&cpp.text)?;
                // uproot names what is in containers without these spaces, and members as the file does
                if let Shape::Record(record) = &mut shape {
                    record.name = record.name.replace("> >", ">>");
                }
                Ok(shape)
            }
        }
    }

    fn argument(&mut self, cpp: &Cpp, at: usize) -> Result<Shape, TreeError> {
        let Some(argument) = cpp.arguments.get(at) else {
            return unsupported(format!("the type {:?} has too few arguments", cpp.text));
        };
        // what is said of a container holds for what is in it, and not further in
        let content = self.content.take();
        self.around.push(String::new());
        let shape = self.of_type(argument, false);
        self.around.pop();
        match (shape, self.enumerator(cpp, at, content)) {
            (Err(_), Some(number)) => Ok(Shape::Number(number)),
            (shape, _) => shape,
        }
    }

    /// The number as which a value of an enumeration is stored in a container: files do not describe enumerations, but what
    /// is in a pair or in a member that is a container.
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
        // ROOT stores those of other sizes, too, as `int`, and reads what it stores of them from beyond their end
        let is_int = matches!(code, INT | UINT);
        is_int.then(|| basic(code, "").ok()).flatten()
    }

    /// The shape of a class: its newest version in the file.
    pub fn class(&mut self, name: &str) -> Result<Shape, TreeError> {
        if let Some(known) = known_class(name) {
            return Ok(known);
        }
        if matches!(
            name,
            "TClonesArray" | "TObjArray" | "TList" | "THashList" | "TMap"
        ) {
            return unsupported(format!(
                "a {name} that is not split into branches: only its data say what its items are"
            ));
        }
        let Some(info) = self.infos.newest(name) else {
            if name.starts_with("ElementLink<") {
                return Ok(element_link(name));
            }
            return unsupported(format!("the file does not describe the class {name}"));
        };
        self.record(info).map(Shape::Record)
    }

    /// The shape of one version of a class.
    pub fn record(&mut self, info: &StreamerInfo) -> Result<Record, TreeError> {
        let name = squeezed(&info.name);
        if self.around.contains(&name) || self.around.len() > DEEPEST {
            return unsupported(format!("the class {} contains itself", info.name));
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

    /// The other versions of a class that are described, but not inside of such a version.
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

    /// The shape of a member, `before` being those in front of it.
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
            // a TArray writes itself, also as a base
            ElementKind::Base { .. } if element.name.starts_with("TArray") => {
                return self.class(&element.name);
            }
            ElementKind::Base { version } => {
                let info = self.infos.get(&element.name, *version);
                return match info {
                    Some(info) => self.record(info).map(Shape::Record),
                    // bases that are containers have no streamer info
                    None => self.of_type(&Cpp::parse(type_of_base(element))?, true),
                };
            }
            ElementKind::BasicPointer(counter) if code < OBJECT => {
                let found = place(before, &counter.name, &mut 0);
                let (Some(counter), true) = (found, sizes(element).is_empty()) else {
                    return unsupported(format!(
                        "{} {}, for which {} counts",
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
            // arrays of them have a header, as those of containers
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

    /// An object as a member. A `std::array` of containers is described as an array of objects of their class, which never
    /// have headers.
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

    /// A container of the standard library as a member.
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

/// A symmetric matrix writes its base, and then half of its elements.
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
        return unsupported(format!("{} is not as ROOT describes it", info.name));
    };
    *wire = ListWire::Triangle { counter };
    Ok(Record::bare(info.name.clone(), members))
}

/// The type of a base, which may be "BASE".
fn type_of_base(element: &StreamerElement) -> &str {
    match element.type_name.as_str() {
        "BASE" | "" => &element.name,
        type_name => type_name,
    }
}

/// The sizes of a fixed array, the outermost first. ROOT has written arrays of strings and containers without the number of
/// their dimensions, so that only their length says that they are some.
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

/// The place of a member that counts, the members of bases being counted in place of these; the last one of that name.
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

/// As many items as the member at `counter` says.
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

    /// Arrays of strings have been written without the number of their dimensions, so that one string was read.
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
