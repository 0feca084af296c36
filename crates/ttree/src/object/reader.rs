//! Reads objects: class tags, references, byte counts, and members in the order of the streamer infos.

use std::rc::Rc;

use femtobarn_rootfile::{ElementKind, StreamerElement, StreamerInfo};

use super::Infos;
use super::codes::*;
use super::value::{Ints, Object, ObjectId, Value};
use crate::TreeError;
use crate::cursor::Cursor;
use crate::error::unsupported;

/// The version of TLeaf whose members are known here, which is the latest.
const LEAF_VERSION: u16 = 2;
const NEW_CLASS: u32 = 0xFFFF_FFFF;
const CLASS_MASK: u32 = 0x8000_0000;
const BYTE_COUNT: u32 = 0x4000_0000;
/// Offset between positions and tags.
const MAP_OFFSET: usize = 2;
/// The required numbers of trees, branches and leaves.
const NEEDED: [&str; 16] = [
    "fEntries",
    "fAutoFlush",
    "fClassVersion",
    "fCheckSum",
    "fID",
    "fType",
    "fStreamerType",
    "fCompress",
    "fTotBytes",
    "fWriteBasket",
    "fMaximum",
    "fLen",
    "fLenType",
    "fIsUnsigned",
    "fNClusterRange",
    "fMaxBaskets",
];
/// Approximate size of an object: branches and leaves are larger, lists smaller.
const BYTES_OF_OBJECT: usize = 100;
/// Approximate number of members of a leaf, including those of its bases.
const LEAST_MEMBERS: usize = 8;
/// Maximum nesting of objects, which in practice are branches.
const DEEPEST: usize = 256;

/// Reads the objects of one buffer.
#[derive(Debug)]
pub(crate) struct ObjectReader<'s> {
    infos: &'s Infos,
    pub cursor: Cursor<'s>,
    /// Positions in tags count from the beginning of the record, which is the key.
    displacement: usize,
    /// Classes and objects by tag, in ascending order.
    classes: Vec<(usize, &'s str)>,
    known: Vec<(usize, ObjectId)>,
    pub objects: Vec<Object<'s>>,
    depth: usize,
    /// Descriptions of classes met before, by the address of the name and by version. They are few, and needed often.
    described: Vec<(*const str, u16, Option<&'s StreamerInfo>)>,
    /// The steps for descriptions met before.
    steps: Vec<(*const StreamerInfo, Rc<[Step<'s>]>)>,
}

/// The step for a member, or for several that are not needed.
#[derive(Debug)]
enum Step<'s> {
    /// Skip so many bytes of numbers.
    Skip(usize),
    /// Skip a member with a byte count.
    Sized(&'s StreamerElement),
    /// Read a base class without required members.
    Object,
    Number(&'s str, i32),
    Text(&'s str),
    Member(&'s StreamerElement),
}

impl<'s> Step<'s> {
    fn of(element: &'s StreamerElement) -> Self {
        let code = element.type_code;
        let is_base = matches!(element.kind, ElementKind::Base { .. });
        let is_fixed = (CHAR..=FLOAT16).contains(&code) && !matches!(code, CHAR_STAR | BITS);
        match code {
            _ if is_base && element.name == "TObject" => Self::Object,
            _ if is_base && element.name.starts_with("TAtt") => Self::Sized(element),
            _ if is_base => Self::Member(element),
            ANY if element.type_name == "ROOT::TIOFeatures" => Self::Sized(element),
            TSTRING => Self::Text(&element.name),
            // counters are needed to continue
            _ if is_fixed && code != COUNTER && !NEEDED.contains(&element.name.as_str()) => {
                Self::Skip(Ints::size_of(code))
            }
            _ if code < OFFSET_L && code != CHAR_STAR => Self::Number(&element.name, code),
            _ => Self::Member(element),
        }
    }

    fn all(info: &'s StreamerInfo) -> Rc<[Self]> {
        let mut out: Vec<Self> = Vec::with_capacity(info.elements.len());
        for step in info.elements.iter().map(Self::of) {
            match (out.last_mut(), &step) {
                (Some(Self::Skip(so_far)), Self::Skip(more)) => *so_far += more,
                _ => out.push(step),
            }
        }
        out.into()
    }
}

impl<'s> ObjectReader<'s> {
    pub fn new(infos: &'s Infos, bytes: &'s [u8], key_len: u16) -> Self {
        Self {
            infos,
            cursor: Cursor::new(bytes),
            displacement: usize::from(key_len),
            classes: Vec::new(),
            known: Vec::new(),
            objects: Vec::with_capacity(bytes.len() / BYTES_OF_OBJECT),
            depth: 0,
            described: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Reads the object whose class is in its key.
    pub fn top(&mut self, class: &'s str) -> Result<ObjectId, TreeError> {
        let id = self.reserve(class);
        self.body(class, id)?;
        Ok(id)
    }

    fn reserve(&mut self, class: &'s str) -> ObjectId {
        self.objects.push(Object {
            class,
            ..Object::default()
        });
        self.objects.len() - 1
    }

    fn set(&mut self, id: ObjectId, name: &'s str, value: Value<'s>) {
        if let Some(object) = self.objects.get_mut(id) {
            object.members.push((name, value));
        }
    }

    /// Reads an object behind a pointer: null, one that was read before, or a new one.
    pub fn any(&mut self) -> Result<Option<ObjectId>, TreeError> {
        const WHAT: &str = "pointer to an object";
        let start = self.cursor.position();
        let mut word = self.cursor.u32(WHAT)?;
        let mut end = None;
        let mut tag_at = start;
        if word & BYTE_COUNT != 0 && word != NEW_CLASS {
            let length = (word & !BYTE_COUNT) as usize;
            let stop = self.cursor.position().saturating_add(length);
            if length > self.cursor.remaining() {
                return Err(self
                    .cursor
                    .corrupt(WHAT, "an object inside of the record", length));
            }
            end = Some(stop);
            tag_at = self.cursor.position();
            word = self.cursor.u32(WHAT)?;
        }
        let class = match word {
            0 => return Ok(None),
            NEW_CLASS => {
                // a class whose name is not UTF-8 is never needed
                let class = std::str::from_utf8(self.cursor.zero_terminated(WHAT)?);
                let class = class.unwrap_or_default();
                let tag = tag_at + self.displacement + MAP_OFFSET;
                add_tag(&mut self.classes, tag, class);
                Some(class)
            }
            tag if tag & CLASS_MASK != 0 => tagged(&self.classes, tag & !CLASS_MASK),
            tag => return Ok(tagged(&self.known, tag)),
        };
        let Some(class) = class else {
            // the class was named in a part that was skipped
            let Some(end) = end else {
                return Err(self.cursor.corrupt(WHAT, "the tag of a class", word));
            };
            self.cursor.jump(end, WHAT)?;
            return Ok(None);
        };
        let id = self.reserve(class);
        add_tag(&mut self.known, start + self.displacement + MAP_OFFSET, id);
        match (self.nested(class, id), end) {
            (Err(error), None) => Err(error),
            (Err(error), Some(_)) if is_of_trees(class) => Err(error),
            // a part that is not needed may be unsupported
            (_, Some(end)) => self.cursor.jump(end, WHAT).map(|()| Some(id)),
            (Ok(()), None) => Ok(Some(id)),
        }
    }

    /// Reads a member object, or a base.
    fn nested(&mut self, class: &'s str, id: ObjectId) -> Result<(), TreeError> {
        if self.depth >= DEEPEST {
            return unsupported(format!(
                "objects are nested more than {DEEPEST} levels deep"
            ));
        }
        self.depth += 1;
        let result = self.body(class, id);
        self.depth -= 1;
        result
    }

    /// Reads an object with its header into `id`.
    fn body(&mut self, class: &'s str, id: ObjectId) -> Result<(), TreeError> {
        match class {
            _ if class == "TNamed"
                || class.starts_with("TLeaf")
                || class.starts_with("TBranch") => {}
            "TObject" => return self.cursor.object().map(|_| ()),
            "TObjArray" | "TList" | "THashList" => return self.items(class, id),
            "TBasket" => return self.basket(id),
            "TArrayC" => return self.array(1),
            "TArrayS" => return self.array(2),
            "TArrayI" | "TArrayF" => return self.array(4),
            "TArrayD" | "TArrayL" | "TArrayL64" => return self.array(8),
            "TString" => return self.cursor.string("TString").map(|_| ()),
            "TDatime" => return self.cursor.skip(4, "TDatime"),
            _ => {}
        }
        let header = self.cursor.header("object")?;
        let info = match header.version {
            0 => {
                let checksum = self.cursor.u32("checksum of a class")?;
                self.infos.by_checksum(class, checksum)
            }
            version => self.description(class, version),
        };
        let Some(info) = info else {
            if class.starts_with("TLeaf") && class != "TLeaf" && header.end.is_some() {
                // other members of leaves are limits, which are not needed
                self.body("TLeaf", id)?;
                return self.cursor.finish(header, "object");
            }
            if (class, header.version) == ("TLeaf", LEAF_VERSION) {
                self.leaf(id)?;
                return self.cursor.finish(header, "object");
            }
            if header.end.is_none() || is_of_trees(class) {
                return unsupported(format!(
                    "the file has no description of version {} of {class}",
                    header.version
                ));
            }
            return self.cursor.finish(header, "object");
        };
        self.members(info, id)?;
        self.cursor.finish(header, "object")
    }

    fn description(&mut self, class: &'s str, version: u16) -> Option<&'s StreamerInfo> {
        /// Older ones are dropped.
        const MOST: usize = 32;
        let is_it = |it: &&(*const str, u16, _)| std::ptr::eq(it.0, class) && it.1 == version;
        if let Some((.., info)) = self.described.iter().find(is_it) {
            return *info;
        }
        let info = self.infos.get(class, i32::from(version));
        if self.described.len() < MOST {
            self.described.push((class, version, info));
        }
        info
    }

    /// Reads the members common to all leaves: other writers than ROOT do not always describe them.
    fn leaf(&mut self, id: ObjectId) -> Result<(), TreeError> {
        self.body("TNamed", id)?;
        for name in ["fLen", "fLenType", "fOffset"] {
            let value = self.number(INT)?;
            self.set(id, name, value);
        }
        for name in ["fIsRange", "fIsUnsigned"] {
            let value = self.number(BOOL)?;
            self.set(id, name, value);
        }
        let count = self.any()?;
        self.set(id, "fLeafCount", Value::Object(count));
        Ok(())
    }

    fn members(&mut self, info: &'s StreamerInfo, id: ObjectId) -> Result<(), TreeError> {
        let steps = self.steps_of(info);
        if let Some(object) = self.objects.get_mut(id)
            && object.info.is_none()
        {
            // the first description is that of the class itself, which has room for the members of its bases
            object.info = Some(info);
            object.members.reserve(steps.len().max(LEAST_MEMBERS) + 2);
        }
        for step in steps.iter() {
            match *step {
                Step::Skip(n) => self.cursor.skip(n, "numbers")?,
                Step::Sized(element) => {
                    let start = self.cursor.position();
                    let header = self.cursor.header("member")?;
                    if header.end.is_some() {
                        self.cursor.finish(header, "member")?;
                    } else {
                        self.cursor.jump(start, "member")?;
                        self.member(element, id)?;
                    }
                }
                Step::Object => drop(self.cursor.object()?),
                Step::Number(name, code) => {
                    let value = self.number(code)?;
                    self.set(id, name, value);
                }
                Step::Text(name) => {
                    let text = self.cursor.string("TString")?;
                    self.set(id, name, Value::Text(text));
                }
                Step::Member(element) => {
                    if let Some(value) = self.member(element, id)? {
                        self.set(id, &element.name, value);
                    }
                }
            }
        }
        Ok(())
    }

    fn steps_of(&mut self, info: &'s StreamerInfo) -> Rc<[Step<'s>]> {
        let known = self
            .steps
            .iter()
            .find(|(known, _)| std::ptr::eq(*known, info));
        if let Some((_, steps)) = known {
            return steps.clone();
        }
        let steps = Step::all(info);
        self.steps.push((info, steps.clone()));
        steps
    }

    fn member(
        &mut self,
        element: &'s StreamerElement,
        id: ObjectId,
    ) -> Result<Option<Value<'s>>, TreeError> {
        let code = element.type_code;
        Ok(match code {
            _ if matches!(element.kind, ElementKind::Base { .. }) => {
                self.nested(&element.name, id)?;
                None
            }
            TSTRING => Some(Value::Text(self.cursor.string("TString")?)),
            TOBJECT => {
                self.cursor.object()?;
                None
            }
            TNAMED => {
                let header = self.cursor.header("TNamed")?;
                self.cursor.finish(header, "TNamed")?;
                None
            }
            OBJECT | ANY | OBJECT_INLINE | ANY_INLINE => {
                let class = element.type_name.trim_end_matches('*');
                let inner = self.reserve(class);
                self.nested(class, inner)?;
                Some(Value::Object(Some(inner)))
            }
            OBJECT_POINTER | ANY_POINTER => Some(Value::Object(self.any()?)),
            CHAR_STAR => {
                let n = self.cursor.count(1, "char*")?;
                Some(Value::Text(self.cursor.take(n, "char*")?))
            }
            _ if code < OFFSET_L => Some(self.number(code)?),
            _ if code < OFFSET_P => {
                let n = usize::try_from(element.array_length).unwrap_or(0);
                Some(Value::Ints(self.numbers(code - OFFSET_L, n)?))
            }
            _ if code < OBJECT => self.pointed(element, id)?,
            _ => {
                let header = self.cursor.header("member")?;
                if header.end.is_none() {
                    return unsupported(format!(
                        "member {} of type {} has no size",
                        element.name, element.type_name
                    ));
                }
                self.cursor.finish(header, "member")?;
                None
            }
        })
    }

    /// Reads numbers behind a pointer, whose count is in another member.
    fn pointed(
        &mut self,
        element: &StreamerElement,
        id: ObjectId,
    ) -> Result<Option<Value<'s>>, TreeError> {
        let ElementKind::BasicPointer(counter) = &element.kind else {
            return unsupported(format!("member {} has no counter", element.name));
        };
        let n = self
            .objects
            .get(id)
            .and_then(|object| object.int(&counter.name));
        let there = self.cursor.u8("array")?;
        let n = n.and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        if there == 0 || n == 0 {
            return Ok(Some(Value::Ints(Ints::default())));
        }
        // in some versions, 2 means that file positions have 8 bytes
        let wide = there == 2 && element.name == "fBasketSeek";
        let code = if wide {
            LONG64
        } else {
            element.type_code - OFFSET_P
        };
        Ok(Some(Value::Ints(self.numbers(code, n)?)))
    }

    fn number(&mut self, code: i32) -> Result<Value<'s>, TreeError> {
        const WHAT: &str = "number";
        let c = &mut self.cursor;
        Ok(match code {
            CHAR | LEGACY_CHAR => Value::Int(i64::from(c.u8(WHAT)?.cast_signed())),
            UCHAR | BOOL => Value::Int(i64::from(c.u8(WHAT)?)),
            SHORT => Value::Int(i64::from(c.i16(WHAT)?)),
            USHORT => Value::Int(i64::from(c.u16(WHAT)?)),
            INT | COUNTER => Value::Int(i64::from(c.i32(WHAT)?)),
            UINT => Value::Int(i64::from(c.u32(WHAT)?)),
            BITS => {
                let bits = c.u32(WHAT)?;
                if bits & (1 << 4) != 0 {
                    c.skip(2, WHAT)?;
                }
                Value::Int(i64::from(bits))
            }
            LONG | ULONG | LONG64 | ULONG64 => Value::Int(c.i64(WHAT)?),
            FLOAT | DOUBLE32 => Value::Real(f64::from(f32::from_bits(c.u32(WHAT)?))),
            // not needed, and written without a range
            FLOAT16 => {
                c.skip(3, WHAT)?;
                Value::Real(0.0)
            }
            DOUBLE => Value::Real(f64::from_bits(c.i64(WHAT)?.cast_unsigned())),
            _ => return unsupported(format!("a number of unknown type code {code}")),
        })
    }

    fn numbers(&mut self, code: i32, n: usize) -> Result<Ints<'s>, TreeError> {
        let size = Ints::size_of(code);
        if n > self.cursor.remaining() / size {
            let most = format!("at most {} numbers", self.cursor.remaining() / size);
            return Err(self.cursor.corrupt("array", most, n));
        }
        Ok(Ints::new(self.cursor.take(n * size, "array")?, code))
    }

    /// Reads a TObjArray or a list.
    fn items(&mut self, class: &'s str, id: ObjectId) -> Result<(), TreeError> {
        let header = self.cursor.header("collection")?;
        if header.version > 2 {
            self.cursor.object()?;
        }
        if header.version > 1 {
            self.cursor.string("name of a collection")?;
        }
        let n = self.cursor.count(4, "number of objects")?;
        if class == "TObjArray" {
            self.cursor.skip(4, "lower bound")?;
        }
        for at in 0..n {
            let item = self.any()?;
            // trailing nulls are dropped: baskets that were written leave them behind
            if let (Some(_), Some(object)) = (item, self.objects.get_mut(id)) {
                object.items.resize(at, None);
                object.items.push(item);
            }
            if class != "TObjArray" && header.version > 3 {
                self.cursor.string("option of a list")?;
            }
        }
        self.cursor.finish(header, "collection")
    }

    /// Skips an array of numbers.
    fn array(&mut self, size: usize) -> Result<(), TreeError> {
        let n = self.cursor.count(size, "array")?;
        self.cursor.skip(n.saturating_mul(size), "array")
    }

    /// Reads a basket that is stored within its branch.
    fn basket(&mut self, id: ObjectId) -> Result<(), TreeError> {
        let Some(basket) = crate::read::parse_embedded(&mut self.cursor)? else {
            return Ok(());
        };
        if let Some(object) = self.objects.get_mut(id) {
            object.basket = Some(Box::new(basket));
        }
        Ok(())
    }
}

/// Adds an item with its tag. Items with later tags were read beyond the end of an object, and are dropped.
fn add_tag<T>(all: &mut Vec<(usize, T)>, tag: usize, item: T) {
    while all.pop_if(|&mut (known, _)| known >= tag).is_some() {}
    all.push((tag, item));
}

/// The item with a tag.
fn tagged<T: Copy>(all: &[(usize, T)], tag: u32) -> Option<T> {
    let at = all.binary_search_by_key(&(tag as usize), |&(known, _)| known);
    all.get(at.ok()?).map(|&(_, found)| found)
}

/// Whether reading a tree requires this class.
fn is_of_trees(class: &str) -> bool {
    class.starts_with("TLeaf")
        || (class.starts_with("TBranch") && class != "TBranchRef")
        || matches!(
            class,
            "TTree" | "TNtuple" | "TNtupleD" | "TChain" | "TObjArray"
        )
}
