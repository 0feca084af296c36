//! The layout of the keys of containers and products; `docs/specs/event-store.md` specifies it byte by byte.
//!
//! The key of a container is the dataset's UUID followed by the numbers of run, subrun and event. The numbers are
//! big-endian, so keys sort by number; missing numbers are [`ABSENT`]. The key of a product is the container's key,
//! the label, `#`, and the type. This is the scheme of the HEPnOS paper (Ali et al., section 3); descriptors have the
//! same bytes.

use std::fmt;
use std::sync::Arc;

use crate::{EventsError, Uuid};

/// The number that stands for a missing one; no container may have it.
pub const ABSENT: u64 = u64::MAX;

/// Maximum bytes of a label and type together, and of the full name of a dataset.
pub const LONGEST_NAME: usize = 1500;

/// Maximum nesting depth of datasets.
pub const DEEPEST: usize = 255;

/// The four kinds of containers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ItemType {
    /// A dataset.
    DataSet,
    /// A run.
    Run,
    /// A subrun.
    SubRun,
    /// An event.
    Event,
}

impl fmt::Display for ItemType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DataSet => "dataset",
            Self::Run => "run",
            Self::SubRun => "subrun",
            Self::Event => "event",
        })
    }
}

/// A dataset, run or subrun that determines where others are stored. Its children are stored together, and so are its
/// products. The products of a subrun are stored with the products of all its events (HEPnOS's placement rule).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Parent {
    /// The dataset.
    pub dataset: Uuid,
    /// The run, or [`ABSENT`].
    pub run: u64,
    /// The subrun, or [`ABSENT`].
    pub subrun: u64,
}

impl Parent {
    /// Length of the key in bytes.
    pub const LENGTH: usize = 32;

    /// A dataset.
    pub const fn dataset(dataset: Uuid) -> Self {
        Self::subrun(dataset, ABSENT, ABSENT)
    }

    /// A run.
    pub const fn run(dataset: Uuid, run: u64) -> Self {
        Self::subrun(dataset, run, ABSENT)
    }

    /// A subrun.
    pub const fn subrun(dataset: Uuid, run: u64, subrun: u64) -> Self {
        Self {
            dataset,
            run,
            subrun,
        }
    }

    /// The kind of the container.
    pub const fn item_type(&self) -> ItemType {
        match (self.run, self.subrun) {
            (ABSENT, _) => ItemType::DataSet,
            (_, ABSENT) => ItemType::Run,
            _ => ItemType::SubRun,
        }
    }

    /// The child with a number: a run of a dataset, a subrun of a run, an event of a subrun.
    pub const fn child(&self, number: u64) -> Descriptor {
        let event = Descriptor {
            dataset: self.dataset,
            run: self.run,
            subrun: self.subrun,
            event: ABSENT,
        };
        match self.item_type() {
            ItemType::DataSet => Descriptor {
                run: number,
                ..event
            },
            ItemType::Run => Descriptor {
                subrun: number,
                ..event
            },
            ItemType::SubRun | ItemType::Event => Descriptor {
                event: number,
                ..event
            },
        }
    }

    /// The descriptor of the parent itself.
    pub const fn descriptor(&self) -> Descriptor {
        Descriptor {
            dataset: self.dataset,
            run: self.run,
            subrun: self.subrun,
            event: ABSENT,
        }
    }

    /// The event with a number in it; for [`ABSENT`], the parent itself.
    pub const fn member(&self, event: u64) -> Descriptor {
        Descriptor {
            event,
            ..self.descriptor()
        }
    }

    /// The key.
    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let parts = [
            self.dataset.0.as_slice(),
            &self.run.to_be_bytes(),
            &self.subrun.to_be_bytes(),
        ];
        fill(&mut bytes, &parts);
        bytes
    }
}

/// Any container: HEPnOS's `ItemDescriptor`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Descriptor {
    /// The dataset.
    pub dataset: Uuid,
    /// The run, or [`ABSENT`].
    pub run: u64,
    /// The subrun, or [`ABSENT`].
    pub subrun: u64,
    /// The event, or [`ABSENT`].
    pub event: u64,
}

impl Descriptor {
    /// Length of the key in bytes.
    pub const LENGTH: usize = 40;

    /// The kind of the container.
    pub const fn item_type(&self) -> ItemType {
        match (self.run, self.subrun, self.event) {
            (ABSENT, _, _) => ItemType::DataSet,
            (_, ABSENT, _) => ItemType::Run,
            (_, _, ABSENT) => ItemType::SubRun,
            _ => ItemType::Event,
        }
    }

    /// The parent that places its products: the subrun of an event, otherwise the container itself.
    pub const fn placed_by(&self) -> Parent {
        Parent::subrun(self.dataset, self.run, self.subrun)
    }

    /// The parent that holds it, and its number there; `None` for a dataset, which has a name.
    pub const fn place(&self) -> Option<(Parent, u64)> {
        match self.item_type() {
            ItemType::DataSet => None,
            ItemType::Run => Some((Parent::dataset(self.dataset), self.run)),
            ItemType::SubRun => Some((Parent::run(self.dataset, self.run), self.subrun)),
            ItemType::Event => Some((self.placed_by(), self.event)),
        }
    }

    /// The key.
    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        fill(
            &mut bytes,
            &[&self.placed_by().to_bytes(), &self.event.to_be_bytes()],
        );
        bytes
    }

    /// The container of a key; `None` if the bytes are not a key.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (dataset, rest) = bytes.split_first_chunk()?;
        let (run, rest) = rest.split_first_chunk()?;
        let (subrun, rest) = rest.split_first_chunk()?;
        let found = Self {
            dataset: Uuid(*dataset),
            run: u64::from_be_bytes(*run),
            subrun: u64::from_be_bytes(*subrun),
            event: u64::from_be_bytes(rest.try_into().ok()?),
        };
        found.is_whole().then_some(found)
    }

    /// Whether every number before the last is present.
    fn is_whole(&self) -> bool {
        let present = [self.run, self.subrun, self.event].map(|number| number != ABSENT);
        present.is_sorted_by(|above, below| above >= below)
    }
}

impl fmt::Display for Descriptor {
    /// Formats it for messages: `run 43, subrun 56, event 25`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.item_type() {
            ItemType::DataSet => write!(f, "dataset {}", self.dataset),
            ItemType::Run => write!(f, "run {}", self.run),
            ItemType::SubRun => write!(f, "run {}, subrun {}", self.run, self.subrun),
            ItemType::Event => write!(
                f,
                "run {}, subrun {}, event {}",
                self.run, self.subrun, self.event
            ),
        }
    }
}

fn fill(bytes: &mut [u8], parts: &[&[u8]]) {
    let all = parts.iter().flat_map(|part| part.iter());
    bytes.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
}

/// Checks the number of a run, subrun or event.
///
/// # Errors
///
/// If it is [`ABSENT`].
pub fn number(number: u64) -> Result<u64, EventsError> {
    match number {
        ABSENT => Err(EventsError::Name {
            what: "number",
            name: number.to_string(),
            why: "the highest 64-bit number is reserved for missing numbers".into(),
        }),
        number => Ok(number),
    }
}

/// The label and the type of a product, as in its key: `label#type`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProductName {
    text: Arc<str>,
    label: usize,
}

impl ProductName {
    /// The name with a label and a type.
    ///
    /// # Errors
    ///
    /// If the label has a `#`, or both have more than [`LONGEST_NAME`] bytes together.
    pub fn new(label: &str, type_name: &str) -> Result<Self, EventsError> {
        let bad = |why: String| EventsError::Name {
            what: "label",
            name: label.into(),
            why,
        };
        if label.contains('#') {
            return Err(bad(
                "'#' separates label and type; use another character".into()
            ));
        }
        let length = label.len() + 1 + type_name.len();
        if length > LONGEST_NAME {
            return Err(bad(format!(
                "with its type it has {length} bytes, more than {LONGEST_NAME}"
            )));
        }
        Ok(Self {
            text: format!("{label}#{type_name}").into(),
            label: label.len(),
        })
    }

    /// Parses the part of a key after the container; `None` if it is not a name.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let label = text.find('#')?;
        Some(Self {
            text: text.into(),
            label,
        })
    }

    /// `label#type`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The label.
    pub fn label(&self) -> &str {
        self.text.get(..self.label).unwrap_or_default()
    }

    /// The type.
    pub fn type_name(&self) -> &str {
        self.text.get(self.label + 1..).unwrap_or_default()
    }

    /// Whether both share the same allocation, which is a quick check.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.text, &other.text) || self == other
    }
}

impl fmt::Display for ProductName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ProductName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

/// A product: HEPnOS's `ProductID`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProductId {
    /// The container that it is a product of.
    pub container: Descriptor,
    /// Its label and its type.
    pub name: ProductName,
}

impl ProductId {
    /// The key.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.container.to_bytes().to_vec();
        bytes.extend_from_slice(self.name.as_str().as_bytes());
        bytes
    }

    /// The product of a key; `None` if the bytes are not a key.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (container, name) = bytes.split_at_checked(Descriptor::LENGTH)?;
        Some(Self {
            container: Descriptor::from_bytes(container)?,
            name: ProductName::from_bytes(name)?,
        })
    }
}

impl fmt::Display for ProductId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "product {:?} of {}", self.name.as_str(), self.container)
    }
}

/// The full name of a dataset, from the root down: `fermilab/nova`. The name of the root is empty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DataSetPath(String);

impl DataSetPath {
    /// Parses a string; slashes at its ends are ignored.
    ///
    /// # Errors
    ///
    /// If a part is empty, or the name exceeds [`DEEPEST`] levels or [`LONGEST_NAME`] bytes.
    pub fn new(text: &str) -> Result<Self, EventsError> {
        let name = text.trim_matches('/');
        let bad = |why: String| EventsError::Name {
            what: "dataset name",
            name: text.into(),
            why,
        };
        let level = name.split('/').count();
        if name.len() > LONGEST_NAME {
            let length = name.len();
            return Err(bad(format!(
                "it has {length} bytes, more than {LONGEST_NAME}"
            )));
        }
        if level > DEEPEST {
            return Err(bad(format!("it has {level} levels, more than {DEEPEST}")));
        }
        if !name.is_empty() && name.split('/').any(str::is_empty) {
            return Err(bad("one of its parts is empty".into()));
        }
        Ok(Self(name.into()))
    }

    /// The full name of a nested dataset.
    ///
    /// # Errors
    ///
    /// If the name is invalid.
    pub fn join(&self, name: &str) -> Result<Self, EventsError> {
        match self.0.as_str() {
            "" => Self::new(name),
            path => Self::new(&format!("{path}/{}", name.trim_matches('/'))),
        }
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The nesting depth: 0 for the root.
    pub fn level(&self) -> usize {
        match self.0.as_str() {
            "" => 0,
            path => path.split('/').count(),
        }
    }

    /// The last part of the name, and the full name of its parent.
    pub fn split(&self) -> (&str, &str) {
        self.0.rsplit_once('/').unwrap_or(("", &self.0))
    }

    /// The parents and the dataset itself, outermost first, without the root.
    pub fn lineage(&self) -> impl Iterator<Item = Self> {
        let ends = self.0.match_indices('/').map(|(at, _)| at);
        let whole = (!self.0.is_empty()).then_some(self.0.len());
        ends.chain(whole)
            .filter_map(|end| self.0.get(..end).map(|part| Self(part.into())))
    }

    /// The key: the level in one byte, and the full name.
    pub fn to_bytes(&self) -> Vec<u8> {
        let level = u8::try_from(self.level()).unwrap_or(u8::MAX);
        [&[level], self.0.as_bytes()].concat()
    }

    /// The common prefix of the keys of all nested datasets.
    pub fn prefix(&self) -> Vec<u8> {
        let level = u8::try_from(self.level() + 1).unwrap_or(u8::MAX);
        match self.0.as_str() {
            "" => vec![level],
            path => [&[level], path.as_bytes(), b"/"].concat(),
        }
    }
}

impl fmt::Display for DataSetPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn descriptors() -> impl Strategy<Value = Descriptor> {
        let number = prop_oneof![0..4u64, any::<u64>()];
        (
            any::<[u8; 16]>(),
            number.clone(),
            number.clone(),
            number,
            0..4,
        )
            .prop_map(|(dataset, run, subrun, event, level)| Descriptor {
                dataset: Uuid(dataset),
                run: if level > 0 { run } else { ABSENT },
                subrun: if level > 1 { subrun } else { ABSENT },
                event: if level > 2 { event } else { ABSENT },
            })
    }

    proptest! {
        #[test]
        fn keys_are_what_they_were_made_of_and_sort_as_numbers_do(a in descriptors(), b in descriptors()) {
            if a.is_whole() {
                prop_assert_eq!(Descriptor::from_bytes(&a.to_bytes()), Some(a));
            }
            prop_assert_eq!(a.cmp(&b), a.to_bytes().cmp(&b.to_bytes()));
        }

        #[test]
        fn names_are_what_they_were_made_of(label in "[^#]{0,20}", type_name in ".{0,20}") {
            let name = ProductName::new(&label, &type_name).unwrap();
            prop_assert_eq!(name.label(), &label);
            prop_assert_eq!(name.type_name(), &type_name);
            prop_assert_eq!(ProductName::from_bytes(name.as_str().as_bytes()), Some(name));
        }

        #[test]
        fn bytes_of_others_are_no_keys_and_no_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(id) = ProductId::from_bytes(&bytes) {
                prop_assert_eq!(id.to_bytes(), bytes);
            }
        }
    }

    #[test]
    fn a_key_has_the_bytes_of_hepnos() {
        let event = Parent::subrun(Uuid([7; 16]), 43, 56).child(25);
        let id = ProductId {
            container: event,
            name: ProductName::new("tracks", "Track").unwrap(),
        };
        let mut expected = vec![7; 16];
        for number in [43u64, 56, 25] {
            expected.extend_from_slice(&number.to_be_bytes());
        }
        expected.extend_from_slice(b"tracks#Track");
        assert_eq!(id.to_bytes(), expected);
        assert_eq!(
            id.to_string(),
            "product \"tracks#Track\" of run 43, subrun 56, event 25"
        );
    }

    #[test]
    fn parents_have_children_of_the_next_kind() {
        let dataset = Parent::dataset(Uuid([1; 16]));
        assert_eq!(dataset.item_type(), ItemType::DataSet);
        let run = dataset.child(4);
        assert_eq!((run.item_type(), run.run), (ItemType::Run, 4));
        let subrun = run.placed_by().child(5);
        assert_eq!((subrun.item_type(), subrun.subrun), (ItemType::SubRun, 5));
        let event = subrun.placed_by().child(6);
        assert_eq!((event.item_type(), event.event), (ItemType::Event, 6));
        assert_eq!(event.placed_by(), subrun.placed_by());
    }

    #[test]
    fn names_of_datasets_are_nested() {
        let path = DataSetPath::new("/fermilab/nova/").unwrap();
        assert_eq!(path.as_str(), "fermilab/nova");
        assert_eq!(path.to_bytes(), b"\x02fermilab/nova");
        assert_eq!(path.prefix(), b"\x03fermilab/nova/");
        assert_eq!(path.split(), ("fermilab", "nova"));
        let lineage: Vec<_> = path.lineage().map(|part| part.0).collect();
        assert_eq!(lineage, ["fermilab", "fermilab/nova"]);
        assert_eq!(DataSetPath::new("").unwrap().prefix(), b"\x01");
        assert_eq!(DataSetPath::default().lineage().count(), 0);
        for (bad, why) in [
            ("a//b", "one of its parts is empty"),
            (&"a/".repeat(300), "levels"),
            (&"a".repeat(2000), "bytes"),
        ] {
            let error = DataSetPath::new(bad).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(ProductName::new("a#b", "c").is_err());
        assert!(ProductName::new("a", &"c".repeat(1500)).is_err());
        assert!(number(ABSENT).is_err());
    }
}
