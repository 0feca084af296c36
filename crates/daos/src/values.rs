//! The values of an ntuple in a container: by name, and pages by the numbers in their locators.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::mapping::{
    ANCHOR_SIZE, DKEY, DaosAnchor, EarlierPages, LISTS, Layout, Places, Spliced, ntuple_index,
};
use crate::{Container, DaosError, Existing, Fetch, ObjectClass, Update, ValueKey};

/// The class that ROOT gave to metadata until June 2026.
const EARLIER_CLASS: &str = "SX";

/// The most attempts to read an ntuple that is being replaced.
const MOST_TRIES: usize = 10;

/// The values of an ntuple.
#[derive(Debug, Clone)]
pub struct NTupleValues {
    container: Arc<Container>,
    places: Places,
    /// The expected size of values whose sizes are not known.
    room: u64,
    /// Header and footer, if they were found.
    envelopes: Option<Envelopes>,
}

/// The stored metadata of an ntuple, compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelopes {
    /// The header.
    pub header: Bytes,
    /// The footer.
    pub footer: Bytes,
}

impl NTupleValues {
    /// The values of a new ntuple. `class` is the object class of all but its anchor; `""` lets DAOS choose. No value with
    /// pages will be larger than `largest_value`.
    ///
    /// # Errors
    /// If the class does not exist, or the container does not allow it.
    pub fn new(container: Arc<Container>, name: &str, class: &str) -> Result<Self, DaosError> {
        let class = container.class(class)?;
        Self::in_class(container, name, class)
    }

    /// The same, of a class that DAOS has resolved.
    ///
    /// # Errors
    /// If the container does not allow the class of anchors.
    pub fn in_class(
        container: Arc<Container>,
        name: &str,
        class: ObjectClass,
    ) -> Result<Self, DaosError> {
        let anchor = container.class("")?;
        let index = ntuple_index(name);
        let places = Places {
            index,
            values: index,
            anchor,
            metadata: class,
            pages: class,
            first_list: LISTS,
        };
        Ok(Self {
            container,
            places,
            room: 0,
            envelopes: None,
        })
    }

    /// The values and the anchor of the ntuple with the index of this name, if there is one, with header and footer. The header
    /// has its name, which may be another one with the same index. Of an ntuple that is being replaced, all are of the old or of
    /// the new one.
    ///
    /// # Errors
    /// If reading fails, the anchor is damaged or of another version, or header or footer is missing or has another size.
    pub fn find(
        container: Arc<Container>,
        name: &str,
    ) -> Result<Option<(Self, DaosAnchor)>, DaosError> {
        let index = ntuple_index(name);
        // a pool may not allow the earlier class
        let chosen = container.class("")?;
        let mut classes = vec![chosen];
        classes.extend(
            container
                .class(EARLIER_CLASS)
                .ok()
                .filter(|class| *class != chosen),
        );
        let places = |class| Places {
            index,
            values: index,
            anchor: class,
            metadata: class,
            pages: class,
            first_list: 0,
        };
        let anchors = classes.iter().map(|&class| Fetch {
            key: places(class).anchor(),
            room: ANCHOR_SIZE as u64,
        });
        let found = container.fetch(&anchors.collect::<Vec<_>>())?;
        let found = classes
            .iter()
            .zip(found)
            .find_map(|(&class, found)| Some((class, found?)));
        let Some((class, mut bytes)) = found else {
            return Ok(None);
        };
        for _ in 0..MOST_TRIES {
            let anchor = DaosAnchor::parse(&bytes)?;
            let values = Self::of_anchor(container.clone(), places(class), &anchor)?;
            let values = values.with_envelopes(&anchor, &classes);
            let again = Fetch {
                key: places(class).anchor(),
                room: ANCHOR_SIZE as u64,
            };
            let Some(now) = container.fetch(&[again])?.pop().flatten() else {
                return Ok(None);
            };
            if now == bytes {
                return Ok(Some((values?, anchor)));
            }
            bytes = now;
        }
        Err(DaosError::Replaced {
            container: container.address().to_string(),
            key: places(class).anchor(),
        })
    }

    /// The values of an anchor, at places that are known in part.
    fn of_anchor(
        container: Arc<Container>,
        mut places: Places,
        anchor: &DaosAnchor,
    ) -> Result<Self, DaosError> {
        match anchor.spliced {
            Some(Spliced { class, index, .. }) => {
                places.pages = class;
                places.first_list = LISTS;
                if index != 0 {
                    places.values = index;
                }
            }
            None => places.pages = container.class(&anchor.class)?,
        }
        let largest = anchor.spliced.map(|spliced| spliced.largest_value.into());
        Ok(Self {
            container,
            places,
            room: largest.unwrap_or(0),
            envelopes: None,
        })
    }

    /// With header and footer, which have the class of pages, or an earlier one.
    fn with_envelopes(
        mut self,
        anchor: &DaosAnchor,
        earlier: &[ObjectClass],
    ) -> Result<Self, DaosError> {
        let pages = self.places.pages;
        let others = earlier.iter().copied().filter(|class| *class != pages);
        let mut missing = None;
        for class in std::iter::once(pages).chain(others) {
            self.places.metadata = class;
            match self.read_envelopes(anchor) {
                Err(error @ DaosError::Missing { .. }) => drop(missing.get_or_insert(error)),
                read => {
                    self.envelopes = Some(read?);
                    return Ok(self);
                }
            }
        }
        Err(missing.unwrap_or_else(|| self.container.missing(self.places.header())))
    }

    /// Header and footer, if this was [found](Self::find).
    pub fn envelopes(&self) -> Option<&Envelopes> {
        self.envelopes.as_ref()
    }

    /// The container.
    pub fn container(&self) -> &Arc<Container> {
        &self.container
    }

    /// The keys of the values.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Reads header and footer, whose sizes the anchor has, in one call.
    ///
    /// # Errors
    /// If one is missing, has another size, or cannot be read.
    pub fn read_envelopes(&self, anchor: &DaosAnchor) -> Result<Envelopes, DaosError> {
        let fetch = |key, size: u32| Fetch {
            key,
            room: size.into(),
        };
        let header = fetch(self.places.header(), anchor.header_size);
        let footer = fetch(self.places.footer(), anchor.footer_size);
        let mut found = self.container.fetch(&[header, footer])?.into_iter();
        let mut whole = |Fetch { key, room }| {
            let value = found
                .next()
                .flatten()
                .ok_or_else(|| self.container.missing(key))?;
            match value.len() as u64 == room {
                true => Ok(value),
                false => Err(self.container.size_error(key, room, value.len() as u64)),
            }
        };
        Ok(Envelopes {
            header: whole(header)?,
            footer: whole(footer)?,
        })
    }

    /// Reads ranges of values, by their numbers, in one call. DAOS has only whole values: one with several ranges is read
    /// once.
    ///
    /// # Errors
    /// If one is missing, ends before a range, or cannot be read.
    pub fn read(&self, wanted: &[(u64, Range<u64>)]) -> Result<Vec<Bytes>, DaosError> {
        self.read_ranges(wanted, |number| {
            let room = if number < LISTS { self.room } else { 0 };
            Ok((self.key(number)?, room))
        })
    }

    /// As [`read`](Self::read), for pages of the earlier layout, by the numbers that `pages` gave them.
    ///
    /// # Errors
    /// The same.
    pub fn read_earlier(
        &self,
        pages: &EarlierPages,
        wanted: &[(u64, Range<u64>)],
    ) -> Result<Vec<Bytes>, DaosError> {
        self.read_ranges(wanted, |number| {
            let at = usize::try_from(number).unwrap_or(usize::MAX);
            let found = pages.value(&self.places, at);
            found.ok_or_else(|| self.no_number(number))
        })
    }

    /// Reads ranges of values, for which there is a key and the expected size of the value.
    fn read_ranges(
        &self,
        wanted: &[(u64, Range<u64>)],
        find: impl Fn(u64) -> Result<(ValueKey, u64), DaosError>,
    ) -> Result<Vec<Bytes>, DaosError> {
        let fetch = |(number, range): &(u64, Range<u64>)| {
            let (key, room) = find(*number)?;
            let room = range.end.max(room);
            Ok(Fetch { key, room })
        };
        let fetches: Result<Vec<Fetch>, DaosError> = wanted.iter().map(fetch).collect();
        let fetches = fetches?;
        let found = self.container.fetch(&fetches)?;
        fetches
            .iter()
            .zip(wanted)
            .zip(found)
            .map(|((&Fetch { key, .. }, (_, range)), found)| {
                let value = found.ok_or_else(|| self.container.missing(key))?;
                let size = value.len() as u64;
                let part = || {
                    let start = usize::try_from(range.start).ok()?;
                    let end = usize::try_from(range.end).ok()?;
                    (start <= end && range.end <= size).then(|| value.slice(start..end))
                };
                part().ok_or_else(|| self.container.size_error(key, range.end, size))
            })
            .collect()
    }

    /// The key of a number.
    fn key(&self, number: u64) -> Result<ValueKey, DaosError> {
        let key = self.places.numbered(number);
        key.ok_or_else(|| self.no_number(number))
    }

    fn no_number(&self, number: u64) -> DaosError {
        DaosError::NoNumber {
            container: self.container.address().to_string(),
            number,
        }
    }

    /// Writes pages and page lists, by their numbers, each of several pieces. Existing values are replaced.
    ///
    /// # Errors
    /// If writing fails, or a number is too large.
    pub fn write(
        &self,
        values: impl IntoIterator<Item = (u64, Vec<Bytes>)>,
    ) -> Result<(), DaosError> {
        let update = |(number, parts)| {
            let key = self.key(number)?;
            Ok(Update { key, parts })
        };
        let all: Result<Vec<Update>, DaosError> = values.into_iter().map(update).collect();
        self.container.update(all?, Existing::Replaced)
    }

    /// Writes a value by its number, if there is none yet; returns whether there was none. Of several processes that write
    /// the same, one succeeds.
    ///
    /// # Errors
    /// If writing fails, or the number is too large.
    pub fn claim(&self, number: u64, value: Bytes) -> Result<bool, DaosError> {
        let update = Update {
            key: self.key(number)?,
            parts: vec![value],
        };
        match self.container.update(vec![update], Existing::Refused) {
            Ok(()) => Ok(true),
            Err(DaosError::Exists { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The numbers of page lists that exist, and of what else was [claimed](Self::claim) among them.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub fn lists(&self) -> Result<Vec<u64>, DaosError> {
        let akeys = self.container.akeys(self.places.lists(), DKEY)?;
        let first = self.places.first_list;
        let number = |akey: u64| akey.checked_sub(first)?.checked_add(LISTS);
        Ok(akeys.into_iter().filter_map(number).collect())
    }

    /// Whole values, by their numbers; `None` for a missing value. Those that are larger than expected cost another request.
    ///
    /// # Errors
    /// If that fails, or a number is too large.
    pub fn find_values(&self, numbers: &[u64], room: u64) -> Result<Vec<Option<Bytes>>, DaosError> {
        let fetch = |&number: &u64| {
            let key = self.key(number)?;
            Ok(Fetch { key, room })
        };
        let fetches: Result<Vec<Fetch>, DaosError> = numbers.iter().map(fetch).collect();
        self.container.fetch(&fetches?)
    }

    /// The sizes of values, by their numbers; `None` for a missing value.
    ///
    /// # Errors
    /// If that fails, or a number is too large.
    pub fn sizes(&self, numbers: &[u64]) -> Result<Vec<Option<u64>>, DaosError> {
        let keys: Result<Vec<_>, _> = numbers.iter().map(|&number| self.key(number)).collect();
        self.container.sizes(&keys?)
    }

    /// The same ntuple under another name: what is [published](Self::publish) refers to the pages and page lists of this one.
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        let mut own = self.clone();
        own.places.index = ntuple_index(name);
        own.envelopes = None;
        own
    }

    /// The values of the ntuple with another index, in the same class.
    #[must_use]
    pub fn of_index(&self, index: u32) -> Self {
        let mut own = self.clone();
        (own.places.index, own.places.values) = (index, index);
        own.envelopes = None;
        own
    }

    /// Writes header and footer, and last the anchor, which makes the ntuple visible. If all have one class, DAOS writes them
    /// as one: then a reader of an ntuple that is replaced sees the old or the new one.
    ///
    /// # Errors
    /// If writing fails, or the ntuple exists and is not to be replaced.
    pub fn publish(
        &self,
        envelopes: &Envelopes,
        anchor: &DaosAnchor,
        existing: Existing,
    ) -> Result<(), DaosError> {
        let update = |key, value: Bytes| Update {
            key,
            parts: vec![value],
        };
        let anchor = update(
            self.places.anchor(),
            Bytes::copy_from_slice(&anchor.to_bytes()?),
        );
        let header = update(self.places.header(), envelopes.header.clone());
        let footer = update(self.places.footer(), envelopes.footer.clone());
        let is_one = anchor.key.object == header.key.object;
        match is_one {
            true => self
                .container
                .update(vec![header, footer, anchor], existing),
            false => {
                self.container.update(vec![header, footer], existing)?;
                self.container.update(vec![anchor], existing)
            }
        }
    }

    /// Removes anchor, header and footer.
    ///
    /// # Errors
    /// If that fails.
    pub fn remove_envelopes(&self) -> Result<(), DaosError> {
        let keys = [
            self.places.anchor(),
            self.places.header(),
            self.places.footer(),
        ];
        self.container.punch_values(&keys)
    }

    /// Removes pages and page lists, by their numbers.
    ///
    /// # Errors
    /// If that fails.
    pub fn remove(&self, numbers: impl IntoIterator<Item = u64>) -> Result<(), DaosError> {
        let keys: Result<Vec<_>, _> = numbers.into_iter().map(|number| self.key(number)).collect();
        self.container.punch_values(&keys?)
    }

    /// The layout of an ntuple that ROOT wrote, by any of its pages: the number of its locator or cage, its cluster and its
    /// column.
    ///
    /// # Errors
    /// If the page is in neither layout, or reading fails.
    pub fn layout(&self, number: u64, cluster: u64, column: u64) -> Result<Layout, DaosError> {
        let of_cluster = self.places.page_of_cluster(cluster, column, number);
        let page = self.key(number)?;
        match self.container.sizes(&[page, of_cluster])?.as_slice() {
            [Some(_), _] => Ok(Layout::ObjectPerPage),
            [None, Some(_)] => Ok(Layout::ObjectPerCluster),
            _ => Err(self.container.missing(page)),
        }
    }
}
