//! Headers of open files: thousands of files of one dataset have equal headers, which are parsed once.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use femtobarn_codec::xxh3;
use femtobarn_fork::lock;

use super::envelopes::Context;
use crate::RNTupleError;
use crate::schema::{Descriptor, FieldId, FieldNames, field_paths};
use crate::spec::{Anchor, Footer, Header};

/// Parsed metadata of open files, shared with other files that have the same.
#[derive(Debug)]
pub struct Known<T>(Mutex<VecDeque<Weak<T>>>);

impl<T> Known<T> {
    /// The most that are compared with each file's metadata.
    const MOST: usize = 32;

    /// Creates an empty list.
    #[expect(clippy::new_without_default, reason = "made for statics")]
    pub const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    /// Finds a match, if an open file has it.
    pub fn find(&self, is_meant: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let known: Vec<Arc<T>> = lock(&self.0).iter().filter_map(Weak::upgrade).collect();
        known.into_iter().find(|known| is_meant(known))
    }

    /// Adds an item that was not found. If several threads add equal ones, all get the first.
    pub fn add(&self, made: Arc<T>, is_same: impl Fn(&T) -> bool) -> Arc<T> {
        let mut known = lock(&self.0);
        let mut there = known.iter().filter_map(Weak::upgrade);
        if let Some(first) = there.find(|known| is_same(known)) {
            return first;
        }
        known.retain(|known| known.strong_count() > 0);
        if known.len() == Self::MOST {
            known.pop_front();
        }
        known.push_back(Arc::downgrade(&made));
        made
    }
}

/// The headers of open files.
static HEADERS: Known<Parsed> = Known::new();

/// A parsed header, with what was derived from it.
#[derive(Debug, Clone)]
pub struct KnownHeader(Arc<Parsed>);

#[derive(Debug)]
struct Parsed {
    /// Hash of the stored bytes; zero if there are none.
    hash: u64,
    descriptor: Descriptor,
    named: Named,
}

/// Names of the fields of an ntuple.
#[derive(Debug)]
pub(super) struct Named {
    pub names: FieldNames,
    pub paths: Vec<Option<String>>,
    by_path: OnceLock<HashMap<String, FieldId>>,
}

impl KnownHeader {
    /// For an ntuple without a header in a file.
    pub fn none(descriptor: &Descriptor) -> Self {
        Self(Arc::new(Parsed {
            hash: 0,
            named: Named::new(descriptor, FieldNames::new(descriptor)),
            descriptor: without_clusters(descriptor),
        }))
    }

    /// The names of the fields.
    pub(super) fn named(&self) -> &Named {
        &self.0.named
    }
}

impl Parsed {
    /// Whether this is the header of an ntuple, and its complete schema.
    fn is_of(&self, hash: u64, anchor: &Anchor) -> bool {
        let sizes = |anchor: &Anchor| (anchor.header.stored.size, anchor.header.length);
        self.hash == hash && sizes(&self.descriptor.anchor) == sizes(anchor)
    }
}

impl Named {
    fn new(descriptor: &Descriptor, names: FieldNames) -> Self {
        Self {
            paths: field_paths(descriptor, &names),
            names,
            by_path: OnceLock::new(),
        }
    }

    /// Fields by path. Of equal paths, that of a top-level field is used, or else the first.
    fn index(&self, descriptor: &Descriptor) -> HashMap<String, FieldId> {
        let top_level = descriptor.top_level.iter().copied();
        let all = (0u32..).take(self.paths.len());
        let mut map = HashMap::with_capacity(self.paths.len());
        for id in top_level.chain(all) {
            if let Some(Some(path)) = self.paths.get(id as usize) {
                map.entry(path.clone()).or_insert(id);
            }
        }
        map
    }

    /// The same, created when it is first needed.
    pub fn by_path(&self, descriptor: &Descriptor) -> &HashMap<String, FieldId> {
        self.by_path.get_or_init(|| self.index(descriptor))
    }
}

/// Reads header and footer in one vector read. A known header is not parsed again, and its schema is shared.
pub(super) fn describe(
    context: &Context<'_>,
    anchor: Anchor,
) -> Result<(Descriptor, KnownHeader), RNTupleError> {
    let links = [anchor.header, anchor.footer];
    let stored = context.stored(&links, "header or footer")?;
    let [header, footer] = stored.as_slice() else {
        return Err(context.inconsistent("envelopes", "2", stored.len()));
    };
    let hash = xxh3(header);
    let footer = context.decompress(footer.clone(), &anchor.footer, "footer")?;
    let footer = Footer::parse(&footer);
    let mut footer =
        footer.map_err(|error| context.malformed("footer", anchor.footer.stored.address, error))?;
    for group in &mut footer.cluster_groups {
        let address = &mut group.page_list.stored.address;
        *address = context.store.page_list(*address);
    }
    let at = anchor.header.stored.address;
    let like = |known: Arc<Parsed>| -> Result<Option<(Descriptor, KnownHeader)>, RNTupleError> {
        let descriptor = Descriptor::like(&known.descriptor, anchor, &footer);
        let descriptor = descriptor.map_err(|error| context.malformed("schema", at, error))?;
        Ok(descriptor.map(|descriptor| (descriptor, KnownHeader(known))))
    };
    let is_it = |known: &Parsed| !known.descriptor.extended && known.is_of(hash, &anchor);
    if let Some(known) = HEADERS.find(is_it)
        && let Some(known) = like(known)?
    {
        return Ok(known);
    }
    let header = context.decompress(header.clone(), &anchor.header, "header")?;
    let header = Header::parse(&header);
    let header = header.map_err(|error| context.malformed("header", at, error))?;
    let descriptor = Descriptor::new(anchor, header, footer.clone());
    let descriptor = descriptor.map_err(|error| context.malformed("schema", at, error))?;
    let names = FieldNames::new(&descriptor);
    let descriptor = descriptor.without_unreadable(&names);
    let made = Arc::new(Parsed {
        hash,
        named: Named::new(&descriptor, names),
        descriptor: without_clusters(&descriptor),
    });
    if !descriptor.extended {
        let first = HEADERS.add(made.clone(), is_it);
        // another thread may have been first
        if !Arc::ptr_eq(&first, &made)
            && let Some(known) = like(first)?
        {
            return Ok(known);
        }
    }
    Ok((descriptor, KnownHeader(made)))
}

fn without_clusters(descriptor: &Descriptor) -> Descriptor {
    Descriptor {
        anchor: descriptor.anchor,
        feature_flags: descriptor.feature_flags,
        extended: descriptor.extended,
        extra_type_infos: descriptor.extra_type_infos.clone(),
        cluster_groups: Vec::new(),
        attribute_sets: Vec::new(),
        schema: Arc::clone(&descriptor.schema),
    }
}
