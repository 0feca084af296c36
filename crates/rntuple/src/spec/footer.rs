//! The footer envelope.

use super::address::StoredRange;
use super::cursor::{Cursor, SpecError};
use super::description::SchemaDescription;
use super::envelope::{Envelope, EnvelopeKind};
use super::header::feature_flags;
use super::locator::{self, EnvelopeLink};

/// A group of clusters and its page list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the specification's names")]
pub struct ClusterGroup {
    pub min_entry: u64,
    pub entry_span: u64,
    pub n_clusters: u32,
    pub page_list: EnvelopeLink,
}

/// A link to an attribute set: the anchor of another RNTuple (since 1.0.1.0).
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the specification's names")]
pub struct LinkedAttributeSet {
    pub schema_version_major: u16,
    pub schema_version_minor: u16,
    pub anchor_length: u32,
    pub anchor: StoredRange,
    pub name: String,
}

/// The content of the footer envelope.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the specification's names")]
pub struct Footer {
    pub feature_flags: u64,
    pub header_checksum: u64,
    pub extension: SchemaDescription,
    pub cluster_groups: Vec<ClusterGroup>,
    pub attribute_sets: Vec<LinkedAttributeSet>,
    pub checksum: u64,
}

impl Footer {
    /// Parses an uncompressed footer envelope.
    pub fn parse(bytes: &[u8]) -> Result<Self, SpecError> {
        let Envelope {
            payload: mut c,
            checksum,
        } = Envelope::parse(bytes, EnvelopeKind::Footer)?;
        let feature_flags = feature_flags(&mut c)?;
        let header_checksum = c.u64("header checksum")?;
        let mut extension = c.record("schema extension")?;
        let extension = if extension.remaining() == 0 {
            SchemaDescription::default()
        } else {
            SchemaDescription::parse(&mut extension)?
        };
        let cluster_groups = c.items("cluster group list", 8, cluster_group)?;
        let attribute_sets = if c.remaining() == 0 {
            Vec::new()
        } else {
            c.items("attribute set list", 8, attribute_set)?
        };
        Ok(Self {
            feature_flags,
            header_checksum,
            extension,
            cluster_groups,
            attribute_sets,
            checksum,
        })
    }
}

fn cluster_group(list: &mut Cursor<'_>) -> Result<ClusterGroup, SpecError> {
    let mut c = list.record("cluster group")?;
    let at = c.offset();
    let min_entry = c.u64("minimum entry number")?;
    let entry_span = c.u64("entry span")?;
    if min_entry
        .checked_add(entry_span)
        .is_none_or(|end| end > i64::MAX as u64)
    {
        return Err(SpecError::Unexpected {
            what: "cluster group",
            offset: at,
            expected: "entries below 2^63".into(),
            found: format!("{entry_span} from {min_entry}"),
        });
    }
    let n_clusters = c.u32("number of clusters")?;
    Ok(ClusterGroup {
        min_entry,
        entry_span,
        n_clusters,
        page_list: EnvelopeLink::parse(&mut c)?,
    })
}

fn attribute_set(list: &mut Cursor<'_>) -> Result<LinkedAttributeSet, SpecError> {
    let mut c = list.record("attribute set")?;
    Ok(LinkedAttributeSet {
        schema_version_major: c.u16("attribute schema version")?,
        schema_version_minor: c.u16("attribute schema version")?,
        anchor_length: c.u32("attribute set anchor length")?,
        anchor: locator::parse(&mut c)?,
        name: c.string("attribute set name")?,
    })
}
