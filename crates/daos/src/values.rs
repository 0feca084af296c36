//! The values of an ntuple in a container: by name, and pages by the numbers in their locators.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::mapping::{ANCHOR_SIZE, DaosAnchor, Layout, Places, Spliced, ntuple_index};
use crate::{Container, DaosError, Existing, Fetch, ObjectClass, Update, ValueKey};

/// The class that ROOT gave to metadata until June 2026.
const EARLIER_CLASS: &str = "SX";

/// The values of an ntuple.
#[derive(Debug, Clone)]
pub struct NTupleValues {
    container: Arc<Container>,
    places: Places,
    /// The expected size of values whose sizes are not known.
    room: u64,
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
    /// If there is no such class, or the container does not allow it.
    pub fn new(container: Arc<Container>, name: &str, class: &str) -> Result<Self, DaosError> {
        let anchor = container.class("")?;
        let class = container.class(class)?;
        let places = Places {
            index: ntuple_index(name),
            anchor,
            metadata: class,
            pages: class,
        };
        Ok(Self {
            container,
            places,
            room: 0,
        })
    }

    /// The values and the anchor of the ntuple with the index of this name, if there is one. Its header has its name, which
    /// may be another one with the same index.
    ///
    /// # Errors
    /// If reading fails, or the anchor is damaged or of another version.
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
            anchor: class,
            metadata: class,
            pages: class,
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
        let Some((class, bytes)) = found else {
            return Ok(None);
        };
        let anchor = DaosAnchor::parse(&bytes)?;
        let mut values = Self {
            places: places(class),
            container,
            room: anchor
                .spliced
                .map_or(0, |spliced| spliced.largest_value.into()),
        };
        values.places.pages = match anchor.spliced {
            Some(Spliced { class, .. }) => class,
            None => values.container.class(&anchor.class)?,
        };
        values.places.metadata = values.metadata_class(&classes)?;
        Ok(Some((values, anchor)))
    }

    /// The class with the header: that of pages, or an earlier one.
    fn metadata_class(&self, earlier: &[ObjectClass]) -> Result<ObjectClass, DaosError> {
        let pages = self.places.pages;
        let mut classes = vec![pages];
        classes.extend(earlier.iter().filter(|class| **class != pages));
        let headers = classes.iter().map(|&metadata| {
            Places {
                metadata,
                ..self.places
            }
            .header()
        });
        let sizes = self.container.sizes(&headers.collect::<Vec<_>>())?;
        let found = classes.iter().zip(sizes).find(|(_, size)| size.is_some());
        found
            .map(|(class, _)| *class)
            .ok_or_else(|| self.container.missing(self.places.header()))
    }

    /// Reserves so much memory for each value with pages from now on. Femtobarn's anchors have the size of the largest; for
    /// ntuples with cages it is in the page lists. A larger value is read twice.
    #[must_use]
    pub fn with_largest_value(self, largest: u64) -> Self {
        Self {
            room: largest,
            ..self
        }
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
        let sizes = [anchor.header_size.into(), anchor.footer_size.into()];
        let keys = [self.places.header(), self.places.footer()];
        let mut found = self.read_whole(keys.into_iter().zip(sizes))?.into_iter();
        Ok(Envelopes {
            header: found.next().unwrap_or_default(),
            footer: found.next().unwrap_or_default(),
        })
    }

    /// Reads page lists, by the numbers and sizes in their locators.
    ///
    /// # Errors
    /// If one is missing, has another size, or cannot be read.
    pub fn read_page_lists(&self, wanted: &[(u64, u64)]) -> Result<Vec<Bytes>, DaosError> {
        self.read_whole(
            wanted
                .iter()
                .map(|&(number, size)| (self.places.page_list(number), size)),
        )
    }

    /// Reads values that must have these sizes.
    fn read_whole(
        &self,
        wanted: impl Iterator<Item = (ValueKey, u64)>,
    ) -> Result<Vec<Bytes>, DaosError> {
        let wanted: Vec<Fetch> = wanted.map(|(key, room)| Fetch { key, room }).collect();
        let found = self.container.fetch(&wanted)?;
        wanted
            .iter()
            .zip(found)
            .map(|(&Fetch { key, room }, found)| {
                let value = found.ok_or_else(|| self.container.missing(key))?;
                match value.len() as u64 == room {
                    true => Ok(value),
                    false => Err(self.container.size_error(key, room, value.len() as u64)),
                }
            })
            .collect()
    }

    /// Reads ranges of values with pages, by their numbers, in one call. DAOS has only whole values: one with several ranges
    /// is read once.
    ///
    /// # Errors
    /// If one is missing, ends before a range, or cannot be read.
    pub fn read(&self, wanted: &[(u64, Range<u64>)]) -> Result<Vec<Bytes>, DaosError> {
        let key = |number| self.places.page(number).ok_or_else(|| self.beyond(number));
        let keys: Result<Vec<_>, _> = wanted
            .iter()
            .map(|(number, range)| Ok((key(*number)?, range.clone())))
            .collect();
        self.read_ranges(&keys?)
    }

    /// As [`read`](Self::read), by the keys.
    ///
    /// # Errors
    /// The same.
    pub fn read_ranges(&self, wanted: &[(ValueKey, Range<u64>)]) -> Result<Vec<Bytes>, DaosError> {
        let fetches = wanted.iter().map(|(key, range)| Fetch {
            key: *key,
            // all of a value that is read from its beginning may be wanted
            room: match range.start {
                0 if self.room == 0 => range.end,
                _ => range.end.max(self.room),
            },
        });
        let found = self.container.fetch(&fetches.collect::<Vec<_>>())?;
        wanted
            .iter()
            .zip(found)
            .map(|((key, range), found)| {
                let value = found.ok_or_else(|| self.container.missing(*key))?;
                let size = value.len() as u64;
                let part = || {
                    let (start, end) = (
                        usize::try_from(range.start).ok()?,
                        usize::try_from(range.end).ok()?,
                    );
                    (start <= end && range.end <= size).then(|| value.slice(start..end))
                };
                part().ok_or_else(|| self.container.size_error(*key, range.end, size))
            })
            .collect()
    }

    fn beyond(&self, number: u64) -> DaosError {
        DaosError::Unwritable {
            key: self.places.page_list(number),
            why: "the number is too large for pages",
        }
    }

    /// Writes values with pages, by their numbers, each of several pieces. Existing values are replaced.
    ///
    /// # Errors
    /// If writing fails, or a number is too large.
    pub fn write(
        &self,
        values: impl IntoIterator<Item = (u64, Vec<Bytes>)>,
    ) -> Result<(), DaosError> {
        let update = |(number, parts)| {
            let key = self
                .places
                .page(number)
                .ok_or_else(|| self.beyond(number))?;
            Ok(Update { key, parts })
        };
        let all: Result<Vec<Update>, DaosError> = values.into_iter().map(update).collect();
        self.container.update(&all?, Existing::Replaced)
    }

    /// Writes page lists, by their numbers.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_page_lists(
        &self,
        lists: impl IntoIterator<Item = (u64, Bytes)>,
    ) -> Result<(), DaosError> {
        let update = |(number, list)| Update {
            key: self.places.page_list(number),
            parts: vec![list],
        };
        self.container.update(
            &lists.into_iter().map(update).collect::<Vec<_>>(),
            Existing::Replaced,
        )
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
            true => self.container.update(&[header, footer, anchor], existing),
            false => {
                self.container.update(&[header, footer], existing)?;
                self.container.update(&[anchor], existing)
            }
        }
    }

    /// Removes the anchor first, then everything else but pages.
    ///
    /// # Errors
    /// If that fails.
    pub fn remove_metadata(&self) -> Result<(), DaosError> {
        self.container.punch_values(&[self.places.anchor()])?;
        self.container
            .punch_objects(&self.places.metadata_objects())
    }

    /// Removes values with pages, by their numbers.
    ///
    /// # Errors
    /// If that fails.
    pub fn remove(&self, numbers: impl IntoIterator<Item = u64>) -> Result<(), DaosError> {
        let objects = numbers
            .into_iter()
            .filter_map(|number| Some(self.places.page(number)?.object));
        self.container.punch_objects(&objects.collect::<Vec<_>>())
    }

    /// The layout of an ntuple that ROOT wrote, by any of its pages: the number of its locator, its cluster and its column.
    ///
    /// # Errors
    /// If the page is in neither layout, or reading fails.
    pub fn layout(&self, number: u64, cluster: u64, column: u64) -> Result<Layout, DaosError> {
        let of_cluster = self.places.page_of_cluster(cluster, column, number);
        let page = self.places.page(number).unwrap_or(of_cluster);
        match self.container.sizes(&[page, of_cluster])?.as_slice() {
            [Some(_), _] => Ok(Layout::ObjectPerPage),
            [None, Some(_)] => Ok(Layout::ObjectPerCluster),
            _ => Err(self.container.missing(page)),
        }
    }
}
