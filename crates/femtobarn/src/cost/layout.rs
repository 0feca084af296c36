//! Layouts of an ntuple in an object store: the present one, and others that are sketched.

use std::collections::BTreeMap;
use std::sync::Arc;

use femtobarn_io::units::bytes;
use femtobarn_io::{
    AsObject, ByteSource, ObjectSink, Settings, SparseMemory, UploadRequests, Uploads,
    anchor_range, is_daos, is_object_set,
};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{Reader, ReaderOptions};
use femtobarn_rntuple::spec::StoredRange;
use femtobarn_rntuple::write::{
    MergeOptions, NTupleMerger, ObjectSize, ObjectSketch, PageSink, Rebuild, WriteOptions,
};
use femtobarn_rootfile::{FileWriter, Uuid};

use crate::daos::{n_updates, open_ntuple, values_of};
use crate::ntuple::NTuple;
use crate::open::OpenOptions;

/// URLs of sketches, for errors.
const OBJECTS: &str = "ntpl+file:///sketch";
const FILE: &str = "mem:sketch.root";

/// How an ntuple is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granularity {
    /// As it is now.
    Present,
    /// Objects of pages.
    Objects(ObjectSize),
    /// One object, a ROOT file.
    File,
}

impl Granularity {
    /// The layouts that the present one is compared with; a ROOT file is one already.
    pub(super) fn others(is_file: bool) -> Vec<Self> {
        let groups = [256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20].map(ObjectSize::Bytes);
        let objects = std::iter::once(ObjectSize::Page)
            .chain(groups)
            .chain([ObjectSize::Cluster]);
        let file = (!is_file).then_some(Self::File);
        objects.map(Self::Objects).chain(file).collect()
    }

    /// Its name, for people: sizes are those of `object_size`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Present => "present".to_owned(),
            Self::Objects(ObjectSize::Page) => "page".to_owned(),
            Self::Objects(ObjectSize::Cluster) => "cluster".to_owned(),
            Self::Objects(ObjectSize::Bytes(size)) => match size >> 10 {
                0 => bytes(size),
                n if n.is_multiple_of(1024) => format!("{} MiB", n >> 10),
                n if size.is_multiple_of(1024) => format!("{n} KiB"),
                _ => bytes(size),
            },
            Self::File => ".root".to_owned(),
        }
    }
}

/// An ntuple in an object store, whose requests are counted.
#[derive(Debug)]
pub(super) struct Opened {
    pub source: Arc<AsObject>,
    pub ntuple: NTuple,
    pub reader: Arc<Reader>,
    /// If it is in DAOS.
    pub values: Option<Values>,
}

/// The values of an ntuple in DAOS, whose requests are counted.
#[derive(Debug)]
pub(super) struct Values {
    source: Arc<dyn ByteSource>,
    /// The requests that opened it.
    pub opening: u64,
    /// The requests before this pass.
    before: u64,
}

impl Values {
    fn requested(source: &dyn ByteSource) -> u64 {
        source.traffic().map_or(0, |traffic| traffic.requests)
    }
}

/// Sizes of objects.
#[derive(Debug)]
pub(super) struct Sizes {
    pub own: Vec<u64>,
    /// Objects of other ntuples, which a merge has referred to.
    pub foreign: Vec<u64>,
}

impl Opened {
    /// Opens an ntuple as if its source were in an object store.
    pub fn new(
        source: Arc<dyn ByteSource>,
        name: Option<&str>,
        settings: &Settings,
    ) -> Result<Self, RNTupleError> {
        if is_daos(source.url()) {
            return Self::in_daos(&source, name, settings);
        }
        let source = AsObject::open(source, settings)?;
        let ntuple = NTuple::open_source(source.clone(), name, OpenOptions::default())?;
        let reader = ntuple.readers().first().cloned();
        let reader = reader.ok_or_else(|| RNTupleError::internal("an ntuple without a file"))?;
        Ok(Self {
            source,
            ntuple,
            reader,
            values: None,
        })
    }

    /// Opens an ntuple of a container, as if its values were objects.
    fn in_daos(
        container: &Arc<dyn ByteSource>,
        name: Option<&str>,
        settings: &Settings,
    ) -> Result<Self, RNTupleError> {
        let options = OpenOptions::default();
        let found = NTuple::open_source(container.clone(), name, options)?;
        let found = found.readers().first().map(|reader| reader.path());
        let name = found.unwrap_or_default();
        let values = values_of(container, name)?;
        let before = Values::requested(&*values);
        let source = AsObject::open(values.clone(), settings)?;
        let reader = open_ntuple(source.clone(), name, ReaderOptions::default())?;
        let reader = Arc::new(reader);
        Ok(Self {
            ntuple: NTuple::of(vec![reader.clone()]),
            source,
            reader,
            values: Some(Values {
                source: values,
                opening: before,
                before,
            }),
        })
    }

    /// Whether it is in a file.
    pub fn is_file(&self) -> bool {
        !is_object_set(self.source.url())
    }

    /// The requests so far and the bytes that they have fetched, without the anchor of objects, whose size depends on
    /// its writer.
    pub fn requested(&self) -> (u64, u64) {
        let (requests, bytes) = self.source.requested();
        let anchor = match self.is_file() {
            true => 0,
            false => {
                let anchor = anchor_range(self.source.meta().size);
                anchor.end.saturating_sub(anchor.start)
            }
        };
        let requests = match &self.values {
            Some(values) => values.opening + Values::requested(&*values.source) - values.before,
            None => requests,
        };
        (requests, bytes - anchor)
    }

    /// The sizes of its objects, without the anchor.
    pub fn objects(&self) -> Result<Sizes, RNTupleError> {
        if self.is_file() {
            return Ok(Sizes {
                own: vec![self.source.meta().size],
                foreign: Vec::new(),
            });
        }
        let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
        let mut note = |stored: &StoredRange| note_size(&mut sizes, stored);
        let descriptor = self.reader.descriptor();
        note(&descriptor.anchor.header.stored);
        note(&descriptor.anchor.footer.stored);
        for group in &descriptor.cluster_groups {
            note(&group.page_list.stored);
        }
        for (_, list) in self.reader.page_lists(0..u64::MAX)? {
            for page in list.all_pages() {
                note(&page.stored());
            }
        }
        let anchor = self.reader.store().objects();
        let others = anchor.map_or(&[][..], |anchor| &anchor.bases);
        // one that was merged twice has two ranges of numbers
        let mut foreign = BTreeMap::new();
        for other in others {
            let mut of_other = sizes.split_off(&other.first);
            sizes.extend(of_other.split_off(&other.first.saturating_add(other.count)));
            let numbered = of_other.into_iter();
            foreign.extend(numbered.map(|(id, size)| ((&other.base, id - other.first), size)));
        }
        Ok(Sizes {
            own: sizes.into_values().collect(),
            foreign: foreign.into_values().collect(),
        })
    }

    /// The requests to write these objects. Objects of a set have an anchor, too, which is looked for before.
    pub fn uploads(
        &self,
        objects: &[u64],
        settings: &Settings,
    ) -> Result<UploadRequests, RNTupleError> {
        if let Some(values) = &self.values {
            return self.daos_updates(values.opening);
        }
        let is_file = self.is_file();
        let mut out = match is_file {
            true => UploadRequests::default(),
            false => UploadRequests { puts: 1, gets: 1 },
        };
        for &size in objects {
            let own = match is_file {
                true => ObjectSink::upload_requests(size, settings)?,
                false => Uploads::requests(size, settings)?,
            };
            out.puts += own.puts;
            out.gets += own.gets;
        }
        Ok(out)
    }

    /// The requests that write it to DAOS. Before, an ntuple of this name is looked for, in as many classes as when it is
    /// opened.
    fn daos_updates(&self, opening: u64) -> Result<UploadRequests, RNTupleError> {
        let mut values = Vec::new();
        let mut before = None;
        let groups = self.reader.descriptor().cluster_groups.iter();
        let lists = self.reader.page_lists(0..u64::MAX)?;
        for (group, (_, list)) in groups.zip(lists) {
            let mut pages: BTreeMap<u64, u64> = BTreeMap::new();
            for page in list.all_pages() {
                note_size(&mut pages, &page.stored());
            }
            values.extend(pages);
            // a list is written when it is known not to be the last payload
            values.extend(before.take());
            let list = &group.page_list.stored;
            before = list.address.object().map(|id| (id, list.size));
        }
        values.extend(before);
        Ok(UploadRequests {
            puts: n_updates(&values),
            gets: opening.saturating_sub(2),
        })
    }
}

/// Notes the size of an object, by its number, so that it has this range.
fn note_size(sizes: &mut BTreeMap<u64, u64>, stored: &StoredRange) {
    if let Some(id) = stored.address.object() {
        let size = sizes.entry(id).or_default();
        *size = stored.range().end.max(*size);
    }
}

/// The source of an ntuple in another layout: its metadata, without its pages, which stay as they are.
pub(super) fn sketched(
    reader: &Reader,
    granularity: Granularity,
) -> Result<Arc<dyn ByteSource>, RNTupleError> {
    if let Granularity::Objects(object_size) = granularity {
        let mut sink = ObjectSketch::new(object_size);
        sketch(&mut sink, reader)?;
        return sink.source(OBJECTS);
    }
    let memory = Arc::new(SparseMemory::default());
    let compression = WriteOptions::default().compression;
    let mut file = FileWriter::create(memory.clone(), FILE, compression, Uuid([0; 16]))?;
    sketch(&mut file, reader)?;
    file.finish()?;
    Ok(memory.source(FILE))
}

/// Writes the metadata as a copy would.
fn sketch(sink: &mut dyn PageSink, reader: &Reader) -> Result<(), RNTupleError> {
    let descriptor = reader.descriptor();
    let options = MergeOptions {
        share: false,
        sketches: true,
        rebuild: Rebuild::Never,
        write: WriteOptions {
            description: descriptor.description.clone(),
            ..WriteOptions::default()
        },
        ..MergeOptions::default()
    };
    let place = (0, descriptor.name.as_str());
    let mut merger = NTupleMerger::new(sink, place, reader, &descriptor.top_level, options)?;
    merger.add(sink, reader, &|_| true, None, &|_| true)?;
    merger.finish(sink)?;
    Ok(())
}
