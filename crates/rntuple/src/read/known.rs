//! Headers that are known: thousands of files of one dataset have the same, which is parsed once.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use femtobarn_codec::xxh3;

use super::envelopes::Context;
use crate::RNTupleError;
use crate::schema::{Descriptor, FieldId, FieldNames, field_paths};
use crate::spec::{Anchor, Footer, Header};

/// A header that was parsed, and what was made of it.
#[derive(Debug, Clone)]
pub struct KnownHeader {
    /// Of its stored bytes; zero if there are none.
    hash: u64,
    descriptor: Arc<Descriptor>,
    pub(super) named: Arc<Named>,
}

/// The names of an ntuple's fields.
#[derive(Debug)]
pub(super) struct Named {
    pub names: FieldNames,
    pub paths: Vec<Option<String>>,
    by_path: OnceLock<HashMap<String, FieldId>>,
}

impl KnownHeader {
    /// Of an ntuple that has no header in a file.
    pub(super) fn none(descriptor: &Descriptor) -> Self {
        Self {
            hash: 0,
            named: Named::new(descriptor, FieldNames::new(descriptor)),
            descriptor: Arc::new(without_clusters(descriptor)),
        }
    }

    /// Whether another one is of the same bytes.
    pub fn is_same(&self, other: &Self) -> bool {
        self.is_of(other.hash, &other.descriptor.anchor)
    }

    /// Whether this is the header of an ntuple, and all of its schema.
    fn is_of(&self, hash: u64, anchor: &Anchor) -> bool {
        let sizes = |anchor: &Anchor| (anchor.n_bytes_header, anchor.len_header);
        self.hash == hash && sizes(&self.descriptor.anchor) == sizes(anchor)
    }
}

impl Named {
    fn new(descriptor: &Descriptor, names: FieldNames) -> Arc<Self> {
        Arc::new(Self {
            paths: field_paths(descriptor, &names),
            names,
            by_path: OnceLock::new(),
        })
    }

    /// Fields by their paths. Of equal paths the one of a top-level field wins, else the first.
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

    /// The same, made when it is first needed.
    pub fn by_path(&self, descriptor: &Descriptor) -> &HashMap<String, FieldId> {
        self.by_path.get_or_init(|| self.index(descriptor))
    }
}

/// Reads header and footer in one vector read; a header that is known is not parsed again, and its schema shared.
pub(super) fn describe(
    context: &Context<'_>,
    anchor: Anchor,
    known: &[KnownHeader],
) -> Result<(Descriptor, KnownHeader), RNTupleError> {
    let links = [anchor.header(), anchor.footer()];
    let stored = context.stored(&links, "header or footer")?;
    let [header, footer] = stored.as_slice() else {
        return Err(context.inconsistent("envelopes", "2", stored.len()));
    };
    let hash = xxh3(header);
    let footer = context.decompress(footer.clone(), &anchor.footer(), "footer")?;
    let footer = Footer::parse(&footer);
    let footer = footer.map_err(|error| context.malformed("footer", anchor.seek_footer, error))?;
    let at = anchor.seek_header;
    if let Some(known) = known.iter().find(|known| known.is_of(hash, &anchor)) {
        let descriptor = Descriptor::like(&known.descriptor, anchor, &footer);
        let descriptor = descriptor.map_err(|error| context.malformed("schema", at, error))?;
        if let Some(descriptor) = descriptor {
            return Ok((descriptor, known.clone()));
        }
    }
    let header = context.decompress(header.clone(), &anchor.header(), "header")?;
    let header = Header::parse(&header);
    let header = header.map_err(|error| context.malformed("header", at, error))?;
    let descriptor = Descriptor::new(anchor, header, footer);
    let descriptor = descriptor.map_err(|error| context.malformed("schema", at, error))?;
    let names = FieldNames::new(&descriptor);
    let descriptor = descriptor.without_unreadable(&names);
    let header = KnownHeader {
        hash,
        named: Named::new(&descriptor, names),
        descriptor: Arc::new(without_clusters(&descriptor)),
    };
    Ok((descriptor, header))
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
