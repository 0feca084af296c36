//! Where the objects of a set are: the files of a directory, or keys of a bucket below a prefix.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde_json::{Map, Value};

use super::object_address;
use crate::layer::Held;
use crate::object::{self, Address, Options, Store};
use crate::url::{Protocol, decoded, encoded, protocol, public};
use crate::{IoError, Settings};

/// The name of the anchor's file in a directory. In a bucket, the anchor has the key of the base itself, as a key can
/// also be the prefix of others.
pub(super) const ANCHOR_FILE: &str = "anchor";

/// The usual template of an anchor for the places of its objects.
pub const OBJECT_TEMPLATE: &str = "${baseurl}/${objid}";

/// A key that only our anchors have: the bases of objects that are not below the own one.
pub const ANCHOR_BASES: &str = "femtobarnBases";

/// A key that only our anchors have: who made the objects.
pub const ANCHOR_MAKER: &str = "femtobarnMaker";

/// A key that only our anchors have: who made objects that this maker has not made, but copied or taken from other sets.
pub const ANCHOR_MAKERS: &str = "femtobarnMakers";

/// A key that only our anchors have: the bytes of objects with envelopes, so that they need not be requested.
pub const ANCHOR_ENVELOPES: &str = "femtobarnEnvelopes";

/// The value of [`ANCHOR_ENVELOPES`] for objects of these numbers.
pub fn embedded<'b>(envelopes: impl Iterator<Item = (u64, &'b Bytes)>) -> Value {
    let member = |(id, bytes): (u64, &Bytes)| (id.to_string(), BASE64.encode(bytes).into());
    Value::Object(envelopes.map(member).collect::<Map<_, _>>())
}

/// The envelopes in an anchor, at the addresses of their objects.
fn envelopes(anchor: &Value) -> Vec<Held> {
    let members = anchor.get(ANCHOR_ENVELOPES).and_then(Value::as_object);
    let held = |(id, text): (&String, &Value)| {
        let bytes = Bytes::from(BASE64.decode(text.as_str()?).ok()?);
        let start = object_address(id.parse().ok()?, 0)?;
        Some((start..start + bytes.len() as u64, bytes))
    };
    members.into_iter().flatten().filter_map(held).collect()
}

/// The same, of an anchor's bytes; none of a damaged one.
pub(crate) fn envelopes_of(anchor: &[u8]) -> Vec<Held> {
    envelopes(&serde_json::from_slice(anchor).unwrap_or_default())
}

/// The part of templates that stands for the base, or for the number of an object.
const BASE: &str = "${baseurl}";
const NUMBER: &str = "${objid}";

/// The base of a set.
#[derive(Clone)]
pub(super) enum Place {
    Folder { url: String, path: PathBuf },
    Bucket(Box<Bucket>),
}

/// A prefix in a bucket. Options may have secrets, and are not printed.
#[derive(Clone)]
pub(super) struct Bucket {
    pub address: Address,
    pub options: Options,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Place").field(&self.url()).finish()
    }
}

impl Bucket {
    /// The store of this process.
    pub fn store(&self) -> Result<Arc<Store>, IoError> {
        object::store(&self.address, &self.options)
    }

    /// An object below the prefix; the anchor, if the name is empty.
    pub fn object(&self, name: &str) -> Result<Address, IoError> {
        let mut address = self.address.clone();
        if name.is_empty() {
            return Ok(address);
        }
        let key = format!("{}/{name}", address.key);
        address.key = parsed(&self.address.url, key.trim_start_matches('/'))?;
        address.url = format!("{}/{name}", self.address.url);
        Ok(address)
    }
}

fn parsed(url: &str, key: &str) -> Result<object_store::path::Path, IoError> {
    object_store::path::Path::parse(key).map_err(|error| IoError::Remote {
        url: url.to_owned(),
        source: error.to_string().into(),
    })
}

impl Place {
    /// The base of a URL. No server is contacted.
    pub fn parse(url: &str, settings: &Settings) -> Result<Self, IoError> {
        if let Some(Protocol::Objects(Some(_))) = protocol(url) {
            let address = Address::parse(url)?;
            if address.is_folder {
                let what =
                    "expected a bucket and a prefix, e.g. ntpl+s3://bucket/prefix".to_owned();
                let url = address.url;
                return Err(IoError::NoUrl { url, what });
            }
            let options = Options::of(&address, settings)?;
            return Ok(Self::Bucket(Box::new(Bucket { address, options })));
        }
        let url = public(url).trim_end_matches('/').to_owned();
        let path = url.split_once("://").map_or("", |(_, path)| path);
        if !path.starts_with('/') || path.contains(['?', '#']) {
            let what = "expected an absolute path, e.g. ntpl+file:///data/events".to_owned();
            return Err(IoError::NoUrl { url, what });
        }
        let path = decoded(path).into();
        Ok(Self::Folder { url, path })
    }

    /// The URL of the base.
    pub fn url(&self) -> &str {
        match self {
            Self::Folder { url, .. } => url,
            Self::Bucket(bucket) => &bucket.address.url,
        }
    }

    /// The file of an object of a directory; of the anchor, if the name is empty.
    pub fn file(folder: &std::path::Path, name: &str) -> PathBuf {
        folder.join(match name {
            "" => ANCHOR_FILE,
            name => name,
        })
    }

    /// Another base: `..` and names relative to this one, or with a slash at its start, a path or a key of the same
    /// bucket.
    pub fn relative(&self, base: &str) -> Result<Self, IoError> {
        match self {
            Self::Folder { url, path } => {
                let own = path.to_string_lossy();
                let joined = format!("/{}", joined(&own, base));
                let shown = url.split_once("://").map_or("", |(scheme, _)| scheme);
                Ok(Self::Folder {
                    url: format!("{shown}://{}", encoded(&joined)),
                    path: joined.into(),
                })
            }
            Self::Bucket(bucket) => {
                let mut bucket = bucket.clone();
                let address = &mut bucket.address;
                let key = joined(address.key.as_ref(), base);
                let url = address.url.strip_suffix(address.key.as_ref());
                address.url = format!("{}{key}", url.unwrap_or_default());
                address.key = parsed(&address.url, &key)?;
                Ok(Self::Bucket(bucket))
            }
        }
    }

    /// This base as seen from another one in the same store, as [`relative`](Self::relative) takes it; none if it is in
    /// another store.
    pub fn seen_from(&self, other: &Self) -> Option<String> {
        let (own, from) = match (self, other) {
            (Self::Folder { path: own, .. }, Self::Folder { path: from, .. }) => {
                (own.to_str()?.to_owned(), from.to_str()?.to_owned())
            }
            (Self::Bucket(own), Self::Bucket(from)) if own.options == from.options => {
                (own.address.key.to_string(), from.address.key.to_string())
            }
            _ => return None,
        };
        let parts = |text: &str| -> Vec<String> {
            let parts = text.split('/').filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        };
        let (own, from) = (parts(&own), parts(&from));
        let shared = own.iter().zip(&from).take_while(|(a, b)| a == b).count();
        let up = from.iter().skip(shared).map(|_| "..".to_owned());
        let down = own.into_iter().skip(shared);
        Some(up.chain(down).collect::<Vec<_>>().join("/"))
    }
}

/// A path without `..`, and without a slash at its start.
fn joined(base: &str, relative: &str) -> String {
    let start = if relative.starts_with('/') { "" } else { base };
    let mut parts: Vec<&str> = Vec::new();
    for part in start.split('/').chain(relative.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// What the anchor of a set says about the places of its objects.
#[derive(Debug)]
pub(super) struct Placement {
    /// The name of an object below the base, with [`NUMBER`] for its number.
    template: String,
    /// The numbers from which on objects are in other bases, in order; there, numbers begin at zero.
    bases: Vec<(u64, String)>,
    /// Who made the objects of this base, if they tell.
    maker: Option<String>,
    /// Who made others, in the order of their numbers.
    makers: Vec<Made>,
    /// The envelopes that are in the anchor.
    pub envelopes: Vec<Held>,
}

/// Objects of another maker: those from `first` on were made with the numbers from `number` on. None: it is not known by
/// whom.
#[derive(Debug)]
struct Made {
    first: u64,
    count: u64,
    number: u64,
    maker: Option<String>,
}

impl Placement {
    /// What an anchor says; of one that is damaged, the usual places: its reader will report the damage.
    pub fn of(url: &str, anchor: &[u8]) -> Result<Self, IoError> {
        let anchor: Value = serde_json::from_slice(anchor).unwrap_or_default();
        let unsupported = |what: String| {
            Err(IoError::Unsupported {
                url: url.to_owned(),
                why: format!("the anchor places its objects by {what}, which is not supported"),
                is_missing: false,
            })
        };
        let template = anchor.get("urlTemplate").and_then(Value::as_str);
        let template = template.unwrap_or(OBJECT_TEMPLATE);
        let Some(name) = template
            .strip_prefix(BASE)
            .and_then(|name| name.strip_prefix('/'))
            .filter(|name| name.contains(NUMBER) && !name.contains(BASE))
        else {
            return unsupported(format!("{template:?}"));
        };
        let mut bases = Vec::new();
        let listed = anchor.get(ANCHOR_BASES).and_then(Value::as_array);
        for item in listed.into_iter().flatten() {
            let first = item.get("first").and_then(Value::as_u64);
            let base = item.get("base").and_then(Value::as_str);
            match (first, base) {
                (Some(first), Some(base)) => bases.push((first, base.to_owned())),
                _ => return unsupported(format!("{item}")),
            }
        }
        if !bases.is_sorted_by(|a, b| a.0 < b.0) {
            return unsupported("bases whose numbers are not in order".to_owned());
        }
        Ok(Self {
            template: name.to_owned(),
            bases,
            maker: anchor
                .get(ANCHOR_MAKER)
                .and_then(Value::as_str)
                .map(str::to_owned),
            makers: makers(&anchor),
            envelopes: envelopes(&anchor),
        })
    }

    /// The base of an object, if it is another one, and its name there.
    pub fn find(&self, id: u64) -> (Option<usize>, String) {
        let base = self.bases.partition_point(|(first, _)| *first <= id);
        let base = base.checked_sub(1);
        let first = base.and_then(|at| self.bases.get(at));
        let own = id - first.map_or(0, |(first, _)| *first);
        match base {
            // other bases have the usual names
            Some(at) => (Some(at), own.to_string()),
            None => (None, self.template.replace(NUMBER, &own.to_string())),
        }
    }

    /// Who made an object, and under which number, if that is known.
    pub fn maker(&self, id: u64) -> Option<(&str, u64)> {
        let after = self.makers.partition_point(|made| made.first <= id);
        let made = after.checked_sub(1).and_then(|at| self.makers.get(at));
        if let Some(made) = made
            && id - made.first < made.count
        {
            let number = made.number.saturating_add(id - made.first);
            return Some((made.maker.as_deref()?, number));
        }
        let is_own = self.bases.first().is_none_or(|(first, _)| id < *first);
        Some((self.maker.as_deref().filter(|_| is_own)?, id))
    }

    /// The other bases.
    pub fn bases(&self) -> impl Iterator<Item = &str> {
        self.bases.iter().map(|(_, base)| base.as_str())
    }
}

fn makers(anchor: &Value) -> Vec<Made> {
    let listed = anchor.get(ANCHOR_MAKERS).and_then(Value::as_array);
    let made = |item: &Value| {
        let long = |name| item.get(name).and_then(Value::as_u64);
        let maker = item.get("maker").and_then(Value::as_str);
        Some(Made {
            first: long("first")?,
            count: long("count")?,
            number: long("number")?,
            maker: maker.map(str::to_owned),
        })
    };
    listed.into_iter().flatten().filter_map(made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_bases_are_seen_relative_and_found_again() {
        let at = |url: &str| Place::parse(url, &Settings::default()).unwrap();
        for (own, from, seen) in [
            ("ntpl+file:///d/a", "ntpl+file:///d/b", "../a"),
            ("ntpl+file:///d/a%23b", "ntpl+file:///d/c", "../a#b"),
            ("ntpl+file:///d/a", "ntpl+file:///d/a/c", ".."),
            ("ntpl+file:///d/a/c", "ntpl+file:///d/a", "c"),
            ("ntpl+s3://b/x/y", "ntpl+s3://b/z", "../x/y"),
        ] {
            let (own, from) = (at(own), at(from));
            assert_eq!(own.seen_from(&from).as_deref(), Some(seen));
            assert_eq!(from.relative(seen).unwrap().url(), own.url());
        }
        let (a, b) = (at("ntpl+s3://b/x"), at("ntpl+s3://c/x"));
        assert_eq!(a.seen_from(&b), None);
        assert_eq!(a.relative("/p/q").unwrap().url(), "ntpl+s3://b/p/q");
        assert!(Place::parse("ntpl+file://d/a", &Settings::default()).is_err());
        assert!(Place::parse("ntpl+s3://b", &Settings::default()).is_err());
    }

    #[test]
    fn anchors_place_objects_by_template_and_bases() {
        let anchor = br#"{"urlTemplate": "${baseurl}/d-${objid}.bin",
            "femtobarnBases": [{"first": 100, "base": "../a"}, {"first": 200, "base": "../b"}]}"#;
        let placement = Placement::of("x", anchor).unwrap();
        assert_eq!(placement.find(7), (None, "d-7.bin".to_owned()));
        assert_eq!(placement.find(100), (Some(0), "0".to_owned()));
        assert_eq!(placement.find(250), (Some(1), "50".to_owned()));
        assert_eq!(placement.bases().collect::<Vec<_>>(), ["../a", "../b"]);
        assert_eq!(placement.maker(7), None);
        let anchor = br#"{"femtobarnMaker": "me", "femtobarnBases": [{"first": 100, "base": "../a"}],
            "femtobarnMakers": [{"first": 5, "count": 3, "number": 70, "maker": "you"},
                {"first": 8, "count": 1, "number": 1}, {"first": 100, "count": 9, "number": 0, "maker": "they"}]}"#;
        let makers = Placement::of("x", anchor).unwrap();
        for (id, made) in [
            (4, Some(("me", 4))),
            (5, Some(("you", 70))),
            (7, Some(("you", 72))),
            (8, None),
            (9, Some(("me", 9))),
            (99, Some(("me", 99))),
            (108, Some(("they", 8))),
            (109, None),
        ] {
            assert_eq!(makers.maker(id), made);
        }
        let usual = Placement::of("x", b"damaged").unwrap();
        assert_eq!(usual.find(7), (None, "7".to_owned()));
        for bad in [
            &br#"{"urlTemplate": "https://elsewhere/${objid}"}"#[..],
            br#"{"urlTemplate": "${baseurl}/same"}"#,
            br#"{"femtobarnBases": [{"first": 5, "base": "a"}, {"first": 5, "base": "b"}]}"#,
            br#"{"femtobarnBases": [{"base": "a"}]}"#,
        ] {
            let error = Placement::of("x", bad).unwrap_err();
            assert_eq!(error.kind(), "unsupported-url", "{error}");
        }
    }
}
