//! The anchor of an ntuple in objects: a JSON object, as ROOT writes it to object stores.

use std::collections::BTreeMap;

use std::ops::Range;

use bytes::Bytes;
use femtobarn_io::{
    ANCHOR_BASES as BASES, ANCHOR_ENVELOPES as ENVELOPES, ANCHOR_MAKER as MAKER,
    ANCHOR_MAKERS as MAKERS, OBJECT_TEMPLATE, embedded,
};
use serde_json::{Value, json};

use super::address::{PageAddress, StoredRange};
use super::anchor::Anchor;
use super::cursor::SpecError;
use super::locator::EnvelopeLink;

/// The version of the anchor, and the names that ROOT gives to attribute sets.
const VERSION: u32 = 0;
const CLONE_TEMPLATE: &str = "${baseurl}/_clone/${name}";

/// Further keys that only femtobarn writes; ROOT ignores them, but includes them in the checksum.
const PACKED: &str = "femtobarnPacked";
const BLOCKS: &str = "femtobarnBlocks";
const LISTS: &str = "femtobarnLists";
const SETS: &str = "femtobarnSets";
const MARK: &str = "femtobarnMark";

const CHECKSUM: &str = "checksum";

/// The anchor of an ntuple in objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectAnchor {
    /// Version, header and footer.
    pub anchor: Anchor,
    /// The URLs of objects, with `${baseurl}` and `${objid}`.
    pub url_template: String,
    /// The bases of attribute sets, with `${baseurl}` and `${name}`.
    pub clone_template: String,
    /// Where other objects are, in the order of their numbers.
    pub bases: Vec<OtherBase>,
    /// Whether objects have several pages.
    pub is_packed: bool,
    /// The first and the last number of each block of objects, if they are not one block.
    pub blocks: Vec<[u64; 2]>,
    /// What is added to the numbers of page lists, if they are numbered apart from pages. No such anchor is stored: stores
    /// with anchors of another form present them in this one.
    pub lists: u64,
    /// The names of attribute sets.
    pub sets: Vec<String>,
    /// Who made the objects, as their metadata tell.
    pub maker: Option<String>,
    /// Who made objects of other sets, and copies of them, in the order of their numbers.
    pub makers: Vec<MadeObjects>,
    /// What the ntuple was made from: writers that were given the same mark write the same entries.
    pub mark: Option<String>,
    /// The contents of objects with envelopes, to be written. A source reads them in place of the objects.
    pub envelopes: Vec<(u64, Bytes)>,
}

/// Objects of another set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherBase {
    /// The number of its object 0.
    pub first: u64,
    /// How many numbers belong to it.
    pub count: u64,
    /// Its base: relative to the own one, or with a slash at its start.
    pub base: String,
}

/// Objects that another writer made: those from `first` on with the numbers from `number` on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct MadeObjects {
    pub first: u64,
    pub count: u64,
    pub number: u64,
    /// None if it is not known who made them.
    pub maker: Option<String>,
}

impl ObjectAnchor {
    /// The anchor of an ntuple with the names of ROOT.
    pub fn new(anchor: Anchor) -> Self {
        Self {
            anchor,
            url_template: OBJECT_TEMPLATE.to_owned(),
            clone_template: CLONE_TEMPLATE.to_owned(),
            bases: Vec::new(),
            is_packed: false,
            blocks: Vec::new(),
            lists: 0,
            sets: Vec::new(),
            maker: None,
            makers: Vec::new(),
            mark: None,
            envelopes: Vec::new(),
        }
    }

    /// Parses an anchor and verifies its checksum.
    pub fn parse(bytes: &[u8]) -> Result<Self, SpecError> {
        let parsed: Result<BTreeMap<String, Value>, _> = serde_json::from_slice(bytes);
        let mut members = parsed.map_err(|error| unexpected("anchor", "a JSON object", error))?;
        let version = number::<u32>(&members, "anchorVersion")?;
        if version != VERSION {
            return Err(SpecError::Unsupported {
                what: "anchor version",
                offset: 0,
                found: format!("{version}, which needs a newer femtobarn or ROOT"),
            });
        }
        let short = |name| number::<u16>(&members, name);
        let link = |id, offset, size, length| -> Result<EnvelopeLink, SpecError> {
            let long = |name| number::<u64>(&members, name);
            let offset = number(&members, offset)?;
            let address = PageAddress::Object {
                id: long(id)?,
                offset,
            };
            Ok(EnvelopeLink {
                length: long(length)?,
                stored: StoredRange {
                    address,
                    size: long(size)?,
                },
            })
        };
        let anchor = Anchor {
            version: [
                short("formatVersionEpoch")?,
                short("formatVersionMajor")?,
                short("formatVersionMinor")?,
                short("formatVersionPatch")?,
            ],
            header: link("headerObjId", "headerOffset", "nBytesHeader", "lenHeader")?,
            footer: link("footerObjId", "footerOffset", "nBytesFooter", "lenFooter")?,
            max_key_size: 0,
        };
        let text = |name| match members.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            found => Err(wrong(name, "a string", found)),
        };
        let found = Self {
            anchor,
            url_template: text("urlTemplate")?,
            clone_template: text("cloneTemplate")?,
            bases: bases(members.get(BASES))?,
            is_packed: members.get(PACKED) == Some(&Value::Bool(true)),
            blocks: blocks(members.get(BLOCKS)),
            lists: members.get(LISTS).and_then(Value::as_u64).unwrap_or(0),
            sets: texts(members.get(SETS)),
            maker: optional(members.get(MAKER)),
            makers: makers(members.get(MAKERS)),
            mark: optional(members.get(MARK)),
            envelopes: Vec::new(),
        };
        let expected: u64 = number(&members, CHECKSUM)?;
        members.remove(CHECKSUM);
        let found_sum = femtobarn_codec::xxh3(compact(&members).as_bytes());
        if found_sum != expected {
            return Err(SpecError::Checksum {
                what: "anchor",
                expected,
                found: found_sum,
            });
        }
        found.anchor.checked()?;
        Ok(found)
    }

    /// The anchor as it is stored.
    pub fn to_json(&self) -> String {
        let mut members = BTreeMap::new();
        let mut set = |name: &str, value: Value| members.insert(name.to_owned(), value);
        set("anchorVersion", VERSION.into());
        let [epoch, major, minor, patch] = self.anchor.version;
        set("formatVersionEpoch", epoch.into());
        set("formatVersionMajor", major.into());
        set("formatVersionMinor", minor.into());
        set("formatVersionPatch", patch.into());
        set("urlTemplate", self.url_template.as_str().into());
        set("cloneTemplate", self.clone_template.as_str().into());
        for (link, [id, offset, size, length]) in [
            (
                self.anchor.header,
                ["headerObjId", "headerOffset", "nBytesHeader", "lenHeader"],
            ),
            (
                self.anchor.footer,
                ["footerObjId", "footerOffset", "nBytesFooter", "lenFooter"],
            ),
        ] {
            let number = link.stored.address.object().unwrap_or_default();
            set(id, number.into());
            set(offset, link.stored.address.offset().into());
            set(size, link.stored.size.into());
            set(length, link.length.into());
        }
        if !self.bases.is_empty() {
            let base = |base: &OtherBase| json!({"base": base.base, "count": base.count, "first": base.first});
            set(BASES, self.bases.iter().map(base).collect());
        }
        if self.is_packed {
            set(PACKED, true.into());
        }
        if !self.blocks.is_empty() {
            set(BLOCKS, self.blocks.clone().into());
        }
        if self.lists > 0 {
            set(LISTS, self.lists.into());
        }
        if let Some(maker) = &self.maker {
            set(MAKER, maker.as_str().into());
        }
        if !self.makers.is_empty() {
            let made = |made: &MadeObjects| {
                let mut item =
                    json!({"count": made.count, "first": made.first, "number": made.number});
                if let (Some(maker), Some(item)) = (&made.maker, item.as_object_mut()) {
                    item.insert("maker".to_owned(), maker.as_str().into());
                }
                item
            };
            set(MAKERS, self.makers.iter().map(made).collect());
        }
        if let Some(mark) = &self.mark {
            set(MARK, mark.as_str().into());
        }
        if !self.envelopes.is_empty() {
            let envelopes = self.envelopes.iter().map(|(id, bytes)| (*id, bytes));
            set(ENVELOPES, embedded(envelopes));
        }
        if !self.sets.is_empty() {
            set(SETS, self.sets.clone().into());
        }
        let checksum = femtobarn_codec::xxh3(compact(&members).as_bytes());
        members.insert(CHECKSUM.to_owned(), checksum.into());
        serde_json::to_string_pretty(&members).unwrap_or_default()
    }

    /// Who made objects with these numbers, all of the own base or all of another one.
    pub fn made(&self, ids: Range<u64>) -> Vec<MadeObjects> {
        let is_own = self.bases.first().is_none_or(|base| ids.start < base.first);
        let usual = |ids: Range<u64>| MadeObjects {
            first: ids.start,
            count: ids.end - ids.start,
            number: ids.start,
            maker: self.maker.clone().filter(|_| is_own),
        };
        let (mut out, mut next) = (Vec::new(), ids.start);
        for made in &self.makers {
            let start = made.first.max(next);
            let end = made.first.saturating_add(made.count).min(ids.end);
            if start >= end {
                continue;
            }
            if next < start {
                out.push(usual(next..start));
            }
            out.push(MadeObjects {
                first: start,
                count: end - start,
                number: made.number.saturating_add(start - made.first),
                maker: made.maker.clone(),
            });
            next = end;
        }
        if next < ids.end {
            out.push(usual(next..ids.end));
        }
        out
    }

    /// The base of an attribute set, relative to the own one; none if it is not below it.
    pub fn attribute_base(&self, name: &str) -> Option<String> {
        let below = self.clone_template.strip_prefix("${baseurl}/")?;
        Some(below.replace("${name}", name))
    }
}

/// The text whose checksum an anchor has: all objects sorted by name, without white space.
fn compact(members: &BTreeMap<String, Value>) -> String {
    let mut members = members.clone();
    members.values_mut().for_each(Value::sort_all_objects);
    serde_json::to_string(&members).unwrap_or_default()
}

fn unexpected(what: &'static str, expected: &str, found: impl ToString) -> SpecError {
    SpecError::Unexpected {
        what,
        offset: 0,
        expected: expected.to_owned(),
        found: found.to_string(),
    }
}

fn wrong(name: &str, expected: &str, found: Option<&Value>) -> SpecError {
    let found = found.map_or_else(|| "nothing".to_owned(), Value::to_string);
    unexpected("anchor", &format!("{expected} as {name}"), found)
}

fn number<T: TryFrom<u64>>(members: &BTreeMap<String, Value>, name: &str) -> Result<T, SpecError> {
    let found = members.get(name);
    let value = found.and_then(Value::as_u64);
    let value = value.and_then(|value| T::try_from(value).ok());
    value.ok_or_else(|| {
        let expected = format!("a number of {} bits", 8 * size_of::<T>());
        wrong(name, &expected, found)
    })
}

fn blocks(found: Option<&Value>) -> Vec<[u64; 2]> {
    let items = found.and_then(Value::as_array).into_iter().flatten();
    let block = |item: &Value| Some([item.get(0)?.as_u64()?, item.get(1)?.as_u64()?]);
    items.filter_map(block).collect()
}

fn optional(found: Option<&Value>) -> Option<String> {
    found.and_then(Value::as_str).map(str::to_owned)
}

fn texts(found: Option<&Value>) -> Vec<String> {
    let items = found.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn makers(found: Option<&Value>) -> Vec<MadeObjects> {
    let items = found.and_then(Value::as_array).into_iter().flatten();
    let made = |item: &Value| {
        let long = |name| item.get(name).and_then(Value::as_u64);
        Some(MadeObjects {
            first: long("first")?,
            count: long("count")?,
            number: long("number")?,
            maker: optional(item.get("maker")),
        })
    };
    items.filter_map(made).collect()
}

fn bases(found: Option<&Value>) -> Result<Vec<OtherBase>, SpecError> {
    let items = found.and_then(Value::as_array).into_iter().flatten();
    let base = |item: &Value| {
        let long = |name| item.get(name).and_then(Value::as_u64);
        let base = item.get("base").and_then(Value::as_str);
        match (long("first"), long("count"), base) {
            (Some(first), Some(count), Some(base)) => Ok(OtherBase {
                first,
                count,
                base: base.to_owned(),
            }),
            _ => Err(wrong(BASES, "a base and its numbers", Some(item))),
        }
    };
    items.map(base).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> ObjectAnchor {
        let link = |id, size, length| EnvelopeLink {
            length,
            stored: StoredRange {
                address: PageAddress::Object { id, offset: 0 },
                size,
            },
        };
        ObjectAnchor::new(Anchor {
            version: [1, 0, 1, 0],
            header: link(0, 300, 800),
            footer: link(u64::MAX - 5, 200, 400),
            max_key_size: 0,
        })
    }

    /// The text that ROOT's `RNTupleAnchorS3::ToJSON` makes of these values: all keys in order, two spaces.
    const STORED: &str = r#"{
  "anchorVersion": 0,
  "checksum": CHECKSUM,
  "cloneTemplate": "${baseurl}/_clone/${name}",
  "footerObjId": 18446744073709551610,
  "footerOffset": 0,
  "formatVersionEpoch": 1,
  "formatVersionMajor": 0,
  "formatVersionMinor": 1,
  "formatVersionPatch": 0,
  "headerObjId": 0,
  "headerOffset": 0,
  "lenFooter": 400,
  "lenHeader": 800,
  "nBytesFooter": 200,
  "nBytesHeader": 300,
  "urlTemplate": "${baseurl}/${objid}"
}"#;

    #[test]
    fn the_anchor_is_the_text_that_root_writes() {
        let compact: String = STORED
            .lines()
            .filter(|line| !line.contains("checksum"))
            .flat_map(str::split_whitespace)
            .collect();
        let checksum = femtobarn_codec::xxh3(compact.as_bytes()).to_string();
        let stored = STORED.replace("CHECKSUM", &checksum);
        assert_eq!(example().to_json(), stored);
        assert_eq!(ObjectAnchor::parse(stored.as_bytes()).unwrap(), example());
    }

    #[test]
    fn own_keys_come_back_and_others_are_in_the_checksum() {
        let mut own = example();
        own.is_packed = true;
        own.blocks = vec![[0, 7], [1 << 20, (1 << 20) + 3]];
        own.lists = 1 << 31;
        own.mark = Some("mark".to_owned());
        own.bases = vec![OtherBase {
            first: 7,
            count: 5,
            base: "../a \u{e9}\"".to_owned(),
        }];
        let text = own.to_json();
        assert_eq!(ObjectAnchor::parse(text.as_bytes()).unwrap(), own);
        // another order of keys and other white space are the same
        let value: Value = serde_json::from_str(&text).unwrap();
        let again = serde_json::to_string(&value).unwrap();
        assert_eq!(ObjectAnchor::parse(again.as_bytes()).unwrap(), own);
        // one more key is not
        let more = text.replacen('{', "{\"later\": 1,", 1);
        let error = ObjectAnchor::parse(more.as_bytes()).unwrap_err();
        assert!(matches!(error, SpecError::Checksum { .. }), "{error}");
    }

    #[test]
    fn bad_anchors_are_errors_that_say_what() {
        let text = example().to_json();
        for (from, to, said) in [
            (
                "\"anchorVersion\": 0",
                "\"anchorVersion\": 1",
                "anchor version",
            ),
            ("\"lenHeader\": 800,", "", "lenHeader"),
            ("\"lenHeader\": 800", "\"lenHeader\": -1", "lenHeader"),
            ("\"lenHeader\": 800", "\"lenHeader\": 801", "checksum"),
            (
                "\"formatVersionMinor\": 1",
                "\"formatVersionMinor\": 65536",
                "formatVersionMinor",
            ),
            ("\"urlTemplate\": \"", "\"urlTemplate\": [\"", "JSON"),
            ("{", "", "JSON"),
        ] {
            let bad = text.replacen(from, to, 1);
            let error = ObjectAnchor::parse(bad.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(said), "{said}: {error}");
        }
        let mut old = example();
        old.anchor.version = [0, 3, 0, 0];
        let error = ObjectAnchor::parse(old.to_json().as_bytes()).unwrap_err();
        assert!(matches!(error, SpecError::Unsupported { .. }), "{error}");
        for n in 0..text.len() {
            assert!(ObjectAnchor::parse(&text.as_bytes()[..n]).is_err());
        }
    }
}
