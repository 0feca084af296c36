//! Reading: a container as a file with a directory, and each of its ntuples as a source of objects.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use femtobarn_codec::xxh3;
use femtobarn_daos::mapping::{
    DaosAnchor, EarlierPage, EarlierPages, FOOTER, HEADER, LISTS, Layout,
};
use femtobarn_daos::{Address, Container, DaosError, Envelopes, NTupleValues, names};
use femtobarn_io::{
    ByteSource, IoError, MemorySink, MeteredSource, Opening, OriginSource, Settings, SourceCost,
    SourceInfo, SourceMeta, Traffic, anchor_range, located, object_address,
};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{Reader, ReaderOptions, SourceStore};
use femtobarn_rntuple::spec::{Anchor, EnvelopeLink, ObjectAnchor, PageAddress, StoredRange};
use femtobarn_rootfile::{FileWriter, Uuid};

use super::{requests_by, unopened, unread};
use crate::objects::RNTUPLE_CLASS;

/// The end of the names of ntuples that are read before they are visible.
pub(super) const PREVIEW: &str = "/_preview";

/// A container. Its bytes are a ROOT file that has only a directory: the anchors of its ntuples, so that they are listed and
/// found like those in files. Their pages are in the sources [below](ByteSource::objects_below) their names.
#[derive(Debug)]
pub(crate) struct ContainerSource {
    container: Arc<Container>,
    url: String,
    settings: Settings,
    meta: SourceMeta,
    directory: Bytes,
    /// The ntuples that were found, and their sources once they are read.
    ntuples: Mutex<BTreeMap<String, Found>>,
}

#[derive(Debug)]
enum Found {
    Unread(Box<NTupleSource>),
    Read(Arc<dyn ByteSource>),
    /// It cannot be opened: to find it again is an error.
    Damaged,
}

impl ContainerSource {
    /// Opens `daos://POOL/CONTAINER`, with all ntuples that the container lists, or `daos://POOL/CONTAINER:NAME`, with that one
    /// if it exists.
    ///
    /// # Errors
    /// If the URL or a setting is invalid, the library of DAOS is missing, or the container cannot be opened or read.
    pub fn open(url: &str, settings: &Settings) -> Result<Arc<dyn ByteSource>, RNTupleError> {
        let (address, wanted) = Address::with_ntuple(url).map_err(|error| unopened(url, error))?;
        let container = Container::open(&address, requests_by(settings)?);
        let container = Arc::new(container.map_err(|error| unopened(url, error))?);
        let url = address.to_string();
        let mut own = Self {
            container,
            url,
            settings: settings.clone(),
            meta: SourceMeta::default(),
            directory: Bytes::new(),
            ntuples: Mutex::default(),
        };
        let mut found = BTreeMap::new();
        let mut damaged = Vec::new();
        if let Some(names) = wanted.filter(|name| name.ends_with(PREVIEW)) {
            for name in names.split(',') {
                if let Some((ntuple, copy)) = own.find(name)?.zip(own.find(name)?) {
                    found.insert(name_of(copy)?, ntuple);
                }
            }
        } else if let Some(name) = wanted {
            found.extend(own.find(name)?.map(|ntuple| (name.to_owned(), ntuple)));
        }
        if found.is_empty() {
            let listed = names(&own.container).map_err(|error| unread(&own.url, error))?;
            for name in listed {
                match own.look_for(&name) {
                    Ok(Some(ntuple)) => drop(found.insert(name, ntuple)),
                    // its writer has not completed it
                    Ok(None) => {}
                    Err(error) if error.is_damage() => damaged.push(name),
                    Err(error) => return Err(unread(&own.ntuple(&name), error).into()),
                }
            }
        }
        for ntuple in found.values_mut() {
            ntuple.earlier = match ntuple.earlier() {
                // what is damaged is found when it is read
                Err(RNTupleError::Io(error)) => return Err(error.into()),
                earlier => earlier.unwrap_or_default(),
            };
        }
        own.directory = own.directory_of(&found, &damaged)?;
        own.meta.size = own.directory.len() as u64;
        let states = found
            .values()
            .filter_map(|ntuple| ntuple.meta.etag.as_ref());
        let states = states.flat_map(|state| state.as_bytes());
        let states: Vec<u8> = own.directory.iter().chain(states).copied().collect();
        own.meta.etag = Some(format!("{:016x}", xxh3(&states)));
        let found = found.into_iter();
        let found = found.map(|(name, ntuple)| (name, Found::Unread(Box::new(ntuple))));
        let damaged = damaged.into_iter().map(|name| (name, Found::Damaged));
        own.ntuples = Mutex::new(found.chain(damaged).collect());
        Ok(Arc::new(own))
    }

    fn find(&self, name: &str) -> Result<Option<NTupleSource>, IoError> {
        let found = self.look_for(name);
        found.map_err(|error| unread(&self.ntuple(name), error))
    }

    fn look_for(&self, name: &str) -> Result<Option<NTupleSource>, DaosError> {
        let start = Instant::now();
        // with the same connection, and its own count of requests
        let container = self.container.again()?;
        let found = NTupleValues::find(Arc::new(container), name)?;
        Ok(found.map(|(values, anchor)| {
            NTupleSource::new(values, &anchor, (&self.url, name), &self.settings, start)
        }))
    }

    /// The URL of an ntuple.
    fn ntuple(&self, name: &str) -> String {
        format!("{}:{name}", self.url)
    }

    /// A ROOT file with the anchors.
    fn directory_of(
        &self,
        found: &BTreeMap<String, NTupleSource>,
        damaged: &[String],
    ) -> Result<Bytes, RNTupleError> {
        let uuid = self.container.uuid();
        let uuid = Uuid(uuid.map_err(|error| unread(&self.url, error))?);
        let sink = Arc::new(MemorySink::default());
        let mut file = FileWriter::create(sink.clone(), "", 0, uuid)?;
        for (name, ntuple) in found {
            let anchor = ntuple.held.first().map(|(_, bytes)| &**bytes);
            let anchor = anchor.unwrap_or_default();
            file.write_object(0, (RNTUPLE_CLASS, name, ""), anchor, 0)?;
        }
        for name in damaged {
            file.write_object(0, (RNTUPLE_CLASS, name, ""), b"damaged", 0)?;
        }
        file.finish()?;
        let mut bytes = sink.to_vec();
        // the first read of a file may be larger
        bytes.resize(bytes.len().max(4 << 10), 0);
        Ok(bytes.into())
    }
}

impl ByteSource for ContainerSource {
    fn info(&self) -> SourceInfo<'_> {
        SourceInfo::new(&self.url, &self.meta, SourceCost::default())
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        None
    }

    fn peek(&self, range: &Range<u64>) -> Option<Bytes> {
        let (start, end) = (usize::try_from(range.start), usize::try_from(range.end));
        let (start, end) = (start.ok()?, end.ok()?);
        (start <= end && end <= self.directory.len()).then(|| self.directory.slice(start..end))
    }

    fn n_requests(&self, _ranges: &[Range<u64>]) -> u64 {
        0
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        let read = |range: &Range<u64>| {
            self.meta.check(&self.url, range)?;
            Ok(self.peek(range).unwrap_or_default())
        };
        ranges.iter().map(read).collect()
    }

    fn objects_below(&self, name: &str) -> Result<Option<Arc<dyn ByteSource>>, IoError> {
        let mut ntuples = self.ntuples.lock().unwrap_or_else(PoisonError::into_inner);
        let source = match ntuples.remove(name) {
            Some(Found::Read(source)) => source,
            Some(Found::Unread(source)) => source.counted()?,
            Some(Found::Damaged) => {
                ntuples.insert(name.to_owned(), Found::Damaged);
                let found = self.find(name)?;
                return found.map(|found| Box::new(found).counted()).transpose();
            }
            None => return Ok(None),
        };
        ntuples.insert(name.to_owned(), Found::Read(source.clone()));
        Ok(Some(source))
    }
}

/// An ntuple, as the sparse source of a set of objects: the value with a number is the object with this number.
#[derive(Debug, Clone)]
pub(super) struct NTupleSource {
    values: NTupleValues,
    /// The pages, if they are in ROOT's earlier layout.
    earlier: Option<Earlier>,
    url: String,
    name: String,
    is_ours: bool,
    /// The first number of its writer, which is in the names of its attribute sets.
    block: u32,
    settings: Settings,
    meta: SourceMeta,
    /// What opening has read: the anchor in the form of a set of objects, header and footer.
    held: Vec<(Range<u64>, Bytes)>,
    opening: Opening,
}

impl NTupleSource {
    pub fn new(
        values: NTupleValues,
        anchor: &DaosAnchor,
        (url, name): (&str, &str),
        settings: &Settings,
        start: Instant,
    ) -> Self {
        let presented = Bytes::from(presented(anchor).to_json());
        let space = anchor_range(u64::MAX).start;
        let size = space + presented.len() as u64;
        let mut held = vec![(space..size, presented)];
        if let Some(Envelopes { header, footer }) = values.envelopes().cloned() {
            let all = [(HEADER, header), (FOOTER, footer)].into_iter();
            held.extend(all.filter_map(|(id, bytes)| {
                let start = object_address(id, 0)?;
                Some((start..start + bytes.len() as u64, bytes))
            }));
        }
        Self {
            values,
            earlier: None,
            url: url.to_owned(),
            name: name.to_owned(),
            is_ours: anchor.spliced.is_some(),
            block: anchor.spliced.map_or(0, |spliced| spliced.block),
            settings: settings.clone(),
            meta: SourceMeta {
                size,
                modified: None,
                etag: Some(state_of(anchor)),
            },
            opening: Opening {
                start,
                duration: start.elapsed(),
                ranges: held.iter().map(|(range, _)| range.clone()).collect(),
            },
            held,
        }
    }

    /// Its pages, if they are in ROOT's earlier layout. Anchors do not have the layout, so a page is looked for.
    fn earlier(&self) -> Result<Option<Earlier>, RNTupleError> {
        if self.is_ours {
            return Ok(None);
        }
        let source = Arc::new(self.clone());
        let reader = reader_of(source, "", ReaderOptions::default())?;
        let mut earlier = Earlier::default();
        for (first, list) in reader.page_lists(0..reader.n_entries())? {
            for at in 0..list.clusters().len() {
                let cluster = first.saturating_add(at as u64);
                for column in 0..u32::try_from(list.n_columns(at)).unwrap_or(u32::MAX) {
                    let pages = list.column(at, column).map(|pages| list.pages(pages));
                    for page in pages.unwrap_or_default() {
                        let PageAddress::Object { id, offset } = page.body.address else {
                            continue;
                        };
                        if earlier.values.is_empty() {
                            let layout = self.values.layout(id, cluster, column.into());
                            let layout = layout.map_err(|error| unread(&self.url, error))?;
                            if layout == Layout::ObjectPerPage {
                                return Ok(None);
                            }
                        }
                        let piece = earlier.pages.add(&EarlierPage {
                            cluster,
                            column: column.into(),
                            number: id,
                            offset,
                            size: page.stored_size(),
                        });
                        let value = piece.value as u64;
                        if *earlier.values.entry(id).or_insert(value) != value {
                            return Err(reader.inconsistent(
                                "page",
                                "its own number",
                                format!("{id} in two columns"),
                            ));
                        }
                    }
                }
            }
        }
        Ok(Some(earlier).filter(|earlier| !earlier.values.is_empty()))
    }

    /// Reads ranges of values, by their numbers.
    fn read(&self, wanted: &[(u64, Range<u64>)]) -> Result<Vec<Bytes>, DaosError> {
        let Some(earlier) = &self.earlier else {
            return self.values.read(wanted);
        };
        let is_page = |(number, _): &&(u64, Range<u64>)| *number < LISTS;
        let (pages, others): (Vec<_>, Vec<_>) = wanted.iter().cloned().partition(|it| is_page(&it));
        let value = |number| earlier.values.get(&number).copied().unwrap_or(u64::MAX);
        let pages: Vec<_> = pages
            .into_iter()
            .map(|(number, range)| (value(number), range))
            .collect();
        let mut pages = self
            .values
            .read_earlier(&earlier.pages, &pages)?
            .into_iter();
        let mut others = self.values.read(&others)?.into_iter();
        let next = |it| {
            if is_page(&it) {
                pages.next()
            } else {
                others.next()
            }
        };
        Ok(wanted.iter().filter_map(next).collect())
    }

    /// With counters, under the settings for all sources.
    fn counted(mut self: Box<Self>) -> Result<Arc<dyn ByteSource>, IoError> {
        let settings = self.settings.clone();
        // traces have the name, and no read before the source was opened
        let url = format!("{}:{}", self.url, self.name);
        let origin = OriginSource::open(&url, &settings, false, || {
            self.opening.start = Instant::now();
            let own: Arc<dyn ByteSource> = Arc::<Self>::from(self);
            Ok(own)
        })?;
        MeteredSource::of(origin, &settings)
    }

    /// The bytes of a range of what opening has read, or of nothing.
    fn held(&self, range: &Range<u64>) -> Option<Bytes> {
        if range.is_empty() {
            return Some(Bytes::new());
        }
        let mut found = self.held.iter().filter_map(|(held, bytes)| {
            let start = usize::try_from(range.start.checked_sub(held.start)?).ok()?;
            let end = usize::try_from(range.end.checked_sub(held.start)?).ok()?;
            (end <= bytes.len()).then(|| bytes.slice(start..end))
        });
        found.next()
    }
}

/// A text that differs for the anchors of different ntuples.
fn state_of(anchor: &DaosAnchor) -> String {
    let hash = anchor.to_bytes().map(|bytes| xxh3(&bytes));
    format!("{:016x}", hash.unwrap_or_default())
}

/// Pages of ROOT's earlier layout, in which each cluster is an object.
#[derive(Debug, Clone, Default)]
struct Earlier {
    pages: EarlierPages,
    /// The values by the numbers in locators. Each number is that of one page or cage.
    values: HashMap<u64, u64>,
}

/// The anchor in the form of a set of objects.
pub(super) fn presented(anchor: &DaosAnchor) -> ObjectAnchor {
    let link = |id, size: u32, length: u32| EnvelopeLink {
        length: length.into(),
        stored: StoredRange {
            address: PageAddress::Object { id, offset: 0 },
            size: size.into(),
        },
    };
    let is_ours = anchor.spliced.is_some();
    ObjectAnchor {
        is_packed: is_ours,
        // ROOT numbers pages and page lists from 0
        lists: if is_ours { 0 } else { LISTS },
        ..ObjectAnchor::new(Anchor {
            version: anchor.version,
            header: link(HEADER, anchor.header_size, anchor.header_length),
            footer: link(FOOTER, anchor.footer_size, anchor.footer_length),
            max_key_size: 0,
        })
    }
}

/// The name of an attribute set's ntuple, which is not listed: with the index of the ntuple, and a number that only its writer
/// has.
pub(super) fn set_name(index: u32, block: u64, base: &str) -> String {
    format!("{index:08x}/{block}/{base}")
}

/// The index and the number in such a name; none of the names of ntuples.
pub(super) fn owner_of(name: &str) -> Option<(u32, u64)> {
    let (index, rest) = name.split_once('/')?;
    let (block, _) = rest.split_once('/')?;
    Some((u32::from_str_radix(index, 16).ok()?, block.parse().ok()?))
}

/// Opens an ntuple by its values.
pub(super) fn open_values(
    values: NTupleValues,
    anchor: &DaosAnchor,
    (url, name): (&str, &str),
    settings: &Settings,
) -> Result<Reader, RNTupleError> {
    let source = NTupleSource::new(values, anchor, (url, name), settings, Instant::now());
    open_ntuple(Arc::new(source), name, ReaderOptions::default())
}

/// The name in the header.
fn name_of(source: NTupleSource) -> Result<String, RNTupleError> {
    let reader = reader_of(Arc::new(source), "", ReaderOptions::default())?;
    Ok(reader.descriptor().name.clone())
}

fn reader_of(
    source: Arc<dyn ByteSource>,
    name: &str,
    options: ReaderOptions,
) -> Result<Reader, RNTupleError> {
    let (store, anchor) = SourceStore::open_objects(source, name)?;
    let store = Arc::new(store);
    Reader::open(store.clone(), &*store, name, anchor, options)
}

/// Opens the ntuple of a source below a container.
pub(crate) fn open_ntuple(
    source: Arc<dyn ByteSource>,
    name: &str,
    options: ReaderOptions,
) -> Result<Reader, RNTupleError> {
    let reader = reader_of(source, name, options)?;
    let found = &reader.descriptor().name;
    // of names with the same index, only the header tells which it is
    if found != name {
        return Err(RNTupleError::Inconsistent {
            url: reader.url().to_owned(),
            ntuple: name.to_owned(),
            what: "name in the header".to_owned(),
            expected: name.to_owned(),
            found: format!(
                "{found}, which has the same index: write one of them to another container"
            ),
        });
    }
    Ok(reader)
}

/// The source with the values of an ntuple, of the source of its container.
pub(crate) fn values_of(
    container: &Arc<dyn ByteSource>,
    name: &str,
) -> Result<Arc<dyn ByteSource>, IoError> {
    let found = container.objects_below(name)?;
    found.ok_or_else(|| IoError::NotFound {
        url: format!("{}:{name}", container.url()),
    })
}

/// The base of an attribute set, as anchors have it.
pub(super) fn set_base(set: &str) -> String {
    let anchor = ObjectAnchor::new(Anchor::default());
    anchor.attribute_base(set).unwrap_or_default()
}

impl ByteSource for NTupleSource {
    fn info(&self) -> SourceInfo<'_> {
        // a value is always read whole, so that gaps in it cost nothing
        let cost = SourceCost {
            largest_gap: u32::MAX.into(),
            most_gaps: None,
            largest_request: u32::MAX.into(),
            largest_vector: 32 << 20,
            ..SourceCost::default()
        };
        SourceInfo {
            opening: Some(&self.opening),
            ..SourceInfo::new(&self.url, &self.meta, cost)
        }
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        None
    }

    fn n_requests(&self, ranges: &[Range<u64>]) -> u64 {
        let asked = ranges.iter().filter(|range| self.held(range).is_none());
        let numbers = asked.filter_map(|range| located(range.start).map(|(number, _)| number));
        let mut numbers: Vec<u64> = numbers
            .map(|number| match number {
                // those of one dkey are one request
                LISTS..HEADER => LISTS,
                HEADER => FOOTER,
                number => number,
            })
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len() as u64
    }

    fn traffic(&self) -> Option<Traffic> {
        Some(Traffic {
            requests: self.values.container().n_requests(),
            ..Traffic::default()
        })
    }

    fn peek(&self, range: &Range<u64>) -> Option<Bytes> {
        self.held(range)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        let mut wanted = Vec::with_capacity(ranges.len());
        for range in ranges.iter().filter(|range| self.held(range).is_none()) {
            let n = self.meta.check(&self.url, range)? as u64;
            let place = located(range.start).filter(|(_, offset)| offset + n <= 1 << 32);
            let (number, offset) = place.ok_or_else(|| IoError::OutOfRange {
                url: self.url.clone(),
                offset: range.start,
                expected: n,
                found: 0,
                size: self.meta.size,
            })?;
            wanted.push((number, offset..offset + n));
        }
        let read = self.read(&wanted);
        let mut read = read.map_err(|error| unread(&self.url, error))?.into_iter();
        let all = ranges.iter().map(|range| self.held(range));
        let all = all.filter_map(|held| held.or_else(|| read.next()));
        Ok(all.collect())
    }

    fn objects_below(&self, base: &str) -> Result<Option<Arc<dyn ByteSource>>, IoError> {
        let start = Instant::now();
        let index = self.values.places().values;
        let name = set_name(index, self.block.into(), base);
        let found = NTupleValues::find(self.values.container().clone(), &name);
        let found = found.map_err(|error| unread(&self.url, error))?;
        let source = found.map(|(values, anchor)| {
            let place = (self.url.as_str(), name.as_str());
            Box::new(Self::new(values, &anchor, place, &self.settings, start)).counted()
        });
        source.transpose()
    }
}

/// The number of a value with pages, or of a page list.
pub(super) fn number_of(address: PageAddress) -> Option<u64> {
    match address {
        PageAddress::Object { id, offset } => object_address(id, offset).map(|_| id),
        PageAddress::File(_) | PageAddress::Unknown(_) => None,
    }
}
