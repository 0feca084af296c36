//! Walks through a streamed object by the streamer infos of its file.

use std::collections::HashMap;

use femtobarn_rootfile::{
    BYTE_COUNT, ElementKind, MEMBER_WISE, StreamedHeader, StreamerElement, StreamerInfo,
    streamed_text as text,
};

use crate::cursor::Cursor;
use crate::error::unsupported;
use crate::layout::{Labels, Layout, Place};
use crate::numbers::{Kind, int};
use crate::{HistogramError, Infos};

pub(crate) const NEW_CLASS: u32 = 0xFFFF_FFFF;
pub(crate) const CLASS_MASK: u32 = 0x8000_0000;
/// Offset between positions and tags.
pub(crate) const MAP_OFFSET: usize = 2;
/// Maximum nesting of objects.
const DEEPEST: usize = 64;

// ROOT's type codes (`TVirtualStreamerInfo::EReadWrite`)
pub(crate) const COUNTER: i32 = 6;
pub(crate) const BITS: i32 = 15;
const OFFSET_L: i32 = 20;
pub(crate) const OFFSET_P: i32 = 40;
pub(crate) const OBJECT: i32 = 61;
pub(crate) const ANY: i32 = 62;
pub(crate) const OBJECT_INLINE: i32 = 63;
pub(crate) const OBJECT_POINTER: i32 = 64;
pub(crate) const TSTRING: i32 = 65;
const TOBJECT: i32 = 66;
const TNAMED: i32 = 67;
pub(crate) const ANY_INLINE: i32 = 68;
const ANY_POINTER: i32 = 69;

/// Walks through a histogram.
pub(crate) fn walk(
    class: &str,
    bytes: &[u8],
    key_len: u16,
    infos: &Infos,
) -> Result<Layout, HistogramError> {
    let mut walker = Walker {
        infos,
        bytes,
        cursor: Cursor::new(bytes),
        displacement: usize::from(key_len),
        classes: HashMap::new(),
        counters: HashMap::new(),
        layout: Layout::default(),
        labels: None,
        depth: 0,
    };
    walker.body(class, Some(""))?;
    match walker.cursor.remaining() {
        0 => Ok(walker.layout),
        rest => Err(walker
            .cursor
            .corrupt("object", "its end", format_args!("{rest} more bytes"))),
    }
}

/// A walk in progress.
pub(crate) struct Walker<'a> {
    infos: &'a Infos,
    bytes: &'a [u8],
    pub(crate) cursor: Cursor<'a>,
    /// Positions in tags count from the beginning of the record, which is the key.
    displacement: usize,
    /// Class names by tag.
    classes: HashMap<u32, String>,
    /// Values of the counters of this object, including those of its bases.
    counters: HashMap<&'a str, usize>,
    pub(crate) layout: Layout,
    /// Labels of the axis that is being read.
    pub(crate) labels: Option<Labels>,
    depth: usize,
}

impl<'a> Walker<'a> {
    pub(crate) fn header(&mut self, what: &'static str) -> Result<StreamedHeader, HistogramError> {
        let header = self.cursor.header(what)?;
        self.layout.counts.extend(header.end.map(|_| header.start));
        Ok(header)
    }

    /// Moves to the end of the object that `header` began: later versions may have further members.
    pub(crate) fn finish(
        &mut self,
        class: &str,
        header: StreamedHeader,
    ) -> Result<(), HistogramError> {
        let Some(end) = header.end else {
            return Ok(());
        };
        // attribute classes contain only numbers
        if end != self.cursor.position() && !class.starts_with("TAtt") {
            self.layout.opaque.push(class.to_owned());
        }
        self.cursor.seek(end, "object")
    }

    /// Records the location of member `name` at `path`, if locations are requested.
    pub(crate) fn note(&mut self, path: Option<&str>, name: &str, place: impl Into<Option<Place>>) {
        if let (Some(path), Some(place)) = (path, place.into()) {
            self.layout.members.insert(format!("{path}{name}"), place);
        }
    }

    /// Reads a pointer to an object: null, an object that was read before, or a new one.
    pub(crate) fn pointer(&mut self) -> Result<(), HistogramError> {
        const WHAT: &str = "pointer to an object";
        let mut word = self.cursor.u32(WHAT)?;
        let mut end = None;
        if word & BYTE_COUNT != 0 && word != NEW_CLASS {
            self.layout.counts.push(self.cursor.position() - 4);
            end = Some(self.cursor.end_of(word & !BYTE_COUNT, WHAT)?);
            word = self.cursor.u32(WHAT)?;
        }
        let tag_at = self.cursor.position() - 4;
        let class = match word {
            0 => return Ok(()),
            NEW_CLASS => {
                let class = text(self.cursor.zero_terminated(WHAT)?);
                let tag = u32::try_from(tag_at + self.displacement + MAP_OFFSET);
                let tag = tag.unwrap_or(0) | CLASS_MASK;
                self.classes.insert(tag, class.clone());
                Some((class, tag))
            }
            tag => {
                self.layout.tags.push(tag_at);
                if tag & CLASS_MASK == 0 {
                    return Ok(());
                }
                self.classes.get(&tag).cloned().map(|class| (class, tag))
            }
        };
        self.pointed(class, end)
    }

    /// Reads the target of a pointer.
    fn pointed(
        &mut self,
        class: Option<(String, u32)>,
        end: Option<usize>,
    ) -> Result<(), HistogramError> {
        let before = (self.layout.counts.len(), self.layout.tags.len());
        let result = match &class {
            Some((class, tag)) => {
                if let Some(labels) = self.labels.as_mut().filter(|_| class == "TObjString") {
                    labels.tag = *tag;
                }
                self.nested(class, None)
            }
            None => Err(self
                .cursor
                .corrupt("pointer", "the tag of a class", "another")),
        };
        let at = self.cursor.position();
        match (result, end) {
            (result, None) => result,
            (Ok(()), Some(end)) if at == end => Ok(()),
            // a part that is not needed may be unsupported
            (_, Some(end)) => {
                let name = class.map_or_else(|| "a class".to_owned(), |(class, _)| class);
                self.layout.opaque.push(name);
                self.layout.counts.truncate(before.0);
                self.layout.tags.truncate(before.1);
                self.cursor = Cursor::new(self.bytes);
                self.cursor.seek(end, "object")
            }
        }
    }

    /// Reads a member object, or a base.
    fn nested(&mut self, class: &str, path: Option<&str>) -> Result<(), HistogramError> {
        if self.depth >= DEEPEST {
            return unsupported(format!(
                "objects are nested more than {DEEPEST} levels deep"
            ));
        }
        self.depth += 1;
        let result = self.body(class, path);
        self.depth -= 1;
        result
    }

    /// Reads an object with its header.
    fn body(&mut self, class: &str, path: Option<&str>) -> Result<(), HistogramError> {
        match class {
            "TObject" => return self.object(path),
            "TNamed" => return self.named(path),
            "TObjArray" | "TList" | "THashList" => return self.items(class),
            "TMap" => return self.pairs(),
            "TArrayC" => return self.array(path, Kind::I8),
            "TArrayS" => return self.array(path, Kind::I16),
            "TArrayI" => return self.array(path, Kind::I32),
            "TArrayL64" | "TArrayL" => return self.array(path, Kind::I64),
            "TArrayF" => return self.array(path, Kind::F32),
            "TArrayD" => return self.array(path, Kind::F64),
            "TString" => return self.cursor.string("TString").map(|_| ()),
            "TObjString" => return self.label(),
            "TDatime" => return self.cursor.skip(4, "TDatime"),
            _ => {}
        }
        let header = self.header("object")?;
        let info = match (header.version, self.infos.get(class, header.version)) {
            // a class without a version is identified by its checksum, unless its version is 0
            (0, None) => {
                let checksum = self.cursor.u32("checksum of a class")?;
                self.infos.by_checksum(class, checksum)
            }
            (_, found) => found,
        };
        let Some(info) = info else {
            let missing = format!("version {} of {class}", header.version);
            self.layout.undescribed.get_or_insert(missing.clone());
            if header.end.is_none() {
                return unsupported(format!("its file has no description of {missing}"));
            }
            return self.finish(class, header);
        };
        self.members(info, path)?;
        self.finish(class, header)
    }

    fn members(
        &mut self,
        info: &'a StreamerInfo,
        path: Option<&str>,
    ) -> Result<(), HistogramError> {
        for element in &info.elements {
            let code = element.type_code;
            if code == COUNTER {
                let mut ahead = self.cursor.clone();
                let n = ahead.u32("counter")? as usize;
                self.counters.insert(&element.name, n);
            }
            match code {
                _ if matches!(element.kind, ElementKind::Base { .. }) => {
                    self.nested(&element.name, path)?;
                }
                TSTRING => self.cursor.string("TString").map(|_| ())?,
                TOBJECT => self.object(path)?,
                TNAMED => self.named(path)?,
                // a pointer that is never null has no tag before its object
                OBJECT | ANY | OBJECT_INLINE | ANY_INLINE => {
                    self.apart(|walker| walker.inner(element, path))?;
                }
                OBJECT_POINTER | ANY_POINTER => self.apart(|walker| walker.outer(element, path))?,
                _ if code < OFFSET_L => {
                    let place = self.numbers(code, 1)?;
                    self.note(path, &element.name, place);
                }
                _ if code < OFFSET_P => {
                    let n = usize::try_from(element.array_length).unwrap_or(0);
                    self.numbers(code - OFFSET_L, n)?;
                }
                _ if code < OBJECT => self.counted(element, path)?,
                _ => self.apart(|walker| walker.container(element))?,
            }
        }
        Ok(())
    }

    /// Reads another object, which has its own counters.
    fn apart(
        &mut self,
        walk: impl FnOnce(&mut Self) -> Result<(), HistogramError>,
    ) -> Result<(), HistogramError> {
        let counters = std::mem::take(&mut self.counters);
        let result = walk(self);
        self.counters = counters;
        result
    }

    /// Reads a member that is an object.
    fn inner(
        &mut self,
        element: &'a StreamerElement,
        path: Option<&str>,
    ) -> Result<(), HistogramError> {
        let class = element.type_name.trim_end_matches('*');
        let path = path.map(|path| format!("{path}{}.", element.name));
        self.nested(class, path.as_deref())
    }

    /// Reads a member that points to an object.
    fn outer(
        &mut self,
        element: &'a StreamerElement,
        path: Option<&str>,
    ) -> Result<(), HistogramError> {
        let axis = path.and_then(|path| path.strip_suffix("axis."));
        let Some(axis) = axis.filter(|_| element.name == "fLabels") else {
            return self.pointer();
        };
        self.labels = Some(Labels::default());
        let result = self.pointer();
        if let Some(labels) = self.labels.take() {
            self.layout.labels.insert(format!("{axis}axis"), labels);
        }
        result
    }

    /// Reads numbers behind a pointer, whose count is in another member.
    fn counted(
        &mut self,
        element: &'a StreamerElement,
        path: Option<&str>,
    ) -> Result<(), HistogramError> {
        let ElementKind::BasicPointer(counter) = &element.kind else {
            return unsupported(format!("member {} has no counter", element.name));
        };
        let Some(&n) = self.counters.get(counter.name.as_str()) else {
            return unsupported(format!("the counter of member {} is unknown", element.name));
        };
        if self.cursor.u8("array")? == 0 {
            return Ok(());
        }
        let place = self.numbers(element.type_code - OFFSET_P, n)?;
        self.note(path, &element.name, place);
        Ok(())
    }

    /// Reads a container of the standard library, or another member with a byte count.
    fn container(&mut self, element: &'a StreamerElement) -> Result<(), HistogramError> {
        let header = self.header("container")?;
        let pointers =
            element.type_name.starts_with("vector<") && element.type_name.ends_with("*>");
        if pointers && header.version & MEMBER_WISE == 0 {
            for _ in 0..self.cursor.count(4, "container")? {
                self.pointer()?;
            }
            return self.finish(&element.type_name, header);
        }
        let Some(end) = header.end else {
            return unsupported(format!(
                "member {} of type {} has no size",
                element.name, element.type_name
            ));
        };
        if !is_plain(&element.type_name) {
            self.layout.opaque.push(element.type_name.clone());
        }
        self.cursor.seek(end, "container")
    }
}

/// Whether values of a type contain no pointers.
fn is_plain(type_name: &str) -> bool {
    const PLAIN: [&str; 24] = [
        "vector",
        "list",
        "deque",
        "set",
        "multiset",
        "map",
        "multimap",
        "pair",
        "array",
        "string",
        "std",
        "TString",
        "TFormulaParamOrder",
        "bool",
        "char",
        "short",
        "int",
        "long",
        "unsigned",
        "float",
        "double",
        "Long64_t",
        "ULong64_t",
        "Double32_t",
    ];
    let words = type_name.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    !type_name.contains('*')
        && words
            .filter(|word| !word.is_empty())
            .all(|word| PLAIN.contains(&word))
}

/// The class names in the bytes of an object: those of all objects behind pointers, each at its first occurrence. There
/// may be false matches, as numbers can look like names.
pub fn named_classes(object: &[u8]) -> impl Iterator<Item = &str> {
    let words = object.windows(4).enumerate();
    let marks = words.filter(|(_, word)| *word == NEW_CLASS.to_be_bytes());
    marks.filter_map(|(at, _)| {
        let rest = object.get(at + 4..)?;
        let is_text = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        let length = rest.iter().position(|byte| !is_text(byte))?;
        let (name, end) = rest.split_at_checked(length)?;
        let is_name = length > 0 && end.first() == Some(&0);
        is_name.then(|| std::str::from_utf8(name).ok()).flatten()
    })
}

/// The integer at a location.
pub(crate) fn int_at(bytes: &[u8], place: Place) -> i64 {
    int(place.kind, bytes.get(place.range()).unwrap_or_default())
}
