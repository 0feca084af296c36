//! All metadata of an ntuple, as `fb info` shows them.

use std::collections::BTreeSet;

use femtobarn_io::{ObjectSet, Settings};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::{Descriptor, is_anonymous};
use femtobarn_rntuple::spec::ClusterGroup;
use serde_json::{Value, json};

use super::sizes::{Bytes, Sizes, metadata, names};
use crate::ntuple::NTuple;
use crate::sizes::PageCounter;

/// A cluster and what its pages take.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by what they are")]
pub struct Cluster {
    pub id: u64,
    pub group: usize,
    pub first_entry: u64,
    pub n_entries: u64,
    pub pages: u64,
    pub bytes: Bytes,
}

/// An attribute set: its name, and the ntuple or why it cannot be opened.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by what they are")]
pub struct AttributeSet {
    pub name: String,
    pub version: (u16, u16),
    pub n_entries: Result<u64, String>,
}

/// The metadata of an ntuple of one file.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by what they are")]
pub struct Info<'a> {
    pub ntuple: &'a NTuple,
    pub reader: &'a Reader,
    pub sizes: Sizes,
    pub clusters: Vec<Cluster>,
    pub attribute_sets: Vec<AttributeSet>,
    /// The URLs of other ntuples whose objects a merged ntuple refers to.
    pub refers_to: Vec<String>,
}

impl<'a> Info<'a> {
    /// Reads all metadata.
    ///
    /// # Errors
    /// If the page lists cannot be read.
    pub fn new(ntuple: &'a NTuple, reader: &'a Reader) -> Result<Self, RNTupleError> {
        Ok(Self {
            ntuple,
            reader,
            sizes: Sizes::new(ntuple, reader)?,
            clusters: clusters(reader)?,
            attribute_sets: attribute_sets(reader),
            refers_to: refers_to(reader)?,
        })
    }

    /// The document of `fb info --json`. Its names are those of the Python package where that has them.
    pub fn document(&self) -> Value {
        document(self)
    }
}

/// All clusters of an ntuple.
fn clusters(reader: &Reader) -> Result<Vec<Cluster>, RNTupleError> {
    let descriptor = reader.descriptor();
    let mut counter = PageCounter::new(reader);
    let mut out = Vec::new();
    for (first, list) in reader.page_lists(0..u64::MAX)? {
        for (index, summary) in list.clusters().iter().enumerate() {
            let sizes = counter.cluster(&list, index);
            let cluster = Cluster {
                id: first.saturating_add(index as u64),
                group: group_of(descriptor, first),
                first_entry: summary.first_entry,
                n_entries: summary.n_entries,
                pages: sizes.pages,
                bytes: Bytes {
                    on_disk: sizes.bytes_on_disk,
                    uncompressed: sizes.bytes_uncompressed,
                },
            };
            out.push(cluster);
        }
    }
    Ok(out)
}

/// The group whose first cluster has this id; groups without clusters come before it.
fn group_of(descriptor: &Descriptor, first_cluster: u64) -> usize {
    let mut next = 0u64;
    for (index, group) in descriptor.cluster_groups.iter().enumerate() {
        if next == first_cluster && group.n_clusters > 0 {
            return index;
        }
        next = next.saturating_add(group.n_clusters.into());
    }
    0
}

fn attribute_sets(reader: &Reader) -> Vec<AttributeSet> {
    let links = reader.descriptor().attribute_sets.iter();
    links
        .map(|link| AttributeSet {
            name: link.name.clone(),
            version: (link.schema_version_major, link.schema_version_minor),
            n_entries: reader
                .attribute_set(link)
                .map(|set| set.n_entries())
                .map_err(|error| error.with_causes()),
        })
        .collect()
}

fn refers_to(reader: &Reader) -> Result<Vec<String>, RNTupleError> {
    let anchor = reader.store().objects();
    let Some(anchor) = anchor.filter(|anchor| !anchor.bases.is_empty()) else {
        return Ok(Vec::new());
    };
    let mut bases = BTreeSet::new();
    for (_, list) in reader.page_lists(0..u64::MAX)? {
        let ids = list.all_pages().iter();
        let ids = ids.filter_map(|page| page.stored().address.object());
        let of_id = |id| anchor.bases.iter().rfind(|other| other.first <= id);
        bases.extend(ids.filter_map(of_id).map(|other| other.base.as_str()));
    }
    let settings = Settings::default();
    let own = ObjectSet::open(reader.url(), &settings)?;
    let urls = bases.into_iter().map(|base| {
        let other = own.below(base, &settings)?;
        Ok(other.url().to_owned())
    });
    urls.collect()
}

/// The feature flags by name.
pub fn feature_flags(flags: u64) -> Vec<String> {
    let bits = (0..63).filter(|bit| flags >> bit & 1 != 0);
    bits.map(|bit| match bit {
        0 => "nested deferred columns".to_owned(),
        other => format!("bit {other}"),
    })
    .collect()
}

fn document(info: &Info<'_>) -> Value {
    let reader = info.reader;
    let descriptor = reader.descriptor();
    let pages = info.sizes.pages();
    let metadata = metadata(descriptor);
    let skipped = descriptor.skipped.iter();
    let skipped = skipped.map(|field| json!({"name": field.name, "reason": field.reason}));
    json!({
        "file": reader.url(),
        "ntuple": reader.path(),
        "name": descriptor.name,
        "description": descriptor.description,
        "num_entries": info.ntuple.n_entries(),
        "version": reader.version(),
        "writer": descriptor.writer,
        "feature_flags": feature_flags(descriptor.feature_flags),
        "bytes_on_disk": pages.on_disk,
        "bytes_uncompressed": pages.uncompressed,
        "compression_factor": pages.rounded_factor(),
        "metadata_bytes_on_disk": metadata.on_disk,
        "metadata_bytes_uncompressed": metadata.uncompressed,
        "compressions": info.sizes.all_compressions(),
        "fields": fields(info),
        "skipped": skipped.collect::<Vec<_>>(),
        "cluster_groups": groups(descriptor),
        "clusters": info.clusters.iter().map(cluster).collect::<Vec<_>>(),
        "attribute_sets": info.attribute_sets.iter().map(attribute_set).collect::<Vec<_>>(),
        "refers_to": info.refers_to,
    })
}

/// All readable fields, depth first.
fn fields(info: &Info<'_>) -> Vec<Value> {
    let descriptor = info.reader.descriptor();
    let mut out = Vec::new();
    let mut pending: Vec<u32> = descriptor.top_level.iter().rev().copied().collect();
    while let Some(id) = pending.pop() {
        if let Some(field) = descriptor.field(id) {
            pending.extend(field.children.iter().rev());
            out.extend(self::field(info, id));
        }
    }
    out
}

fn field(info: &Info<'_>, id: u32) -> Option<Value> {
    let reader = info.reader;
    let descriptor = reader.descriptor();
    let field = descriptor.field(id)?;
    let record = &field.record;
    let bytes = info.sizes.field(id);
    let source = record.source_id.map(|source| reader.label(source));
    let columns = field.columns.iter().filter_map(|&id| column(info, id));
    Some(json!({
        "id": id,
        "parent": field.parent,
        "name": record.name,
        "path": reader.paths().get(id as usize).cloned().flatten(),
        "anonymous": is_anonymous(descriptor, id),
        "typename": record.type_name,
        "typealias": record.type_alias,
        "description": record.description,
        "role": record.role.name(),
        "repetitions": record.array_size.unwrap_or(0),
        "projected_from": source,
        "bytes_on_disk": bytes.map(|bytes| bytes.on_disk),
        "bytes_uncompressed": bytes.map(|bytes| bytes.uncompressed),
        "compression_factor": bytes.map(Bytes::rounded_factor),
        "compressions": info.sizes.compressions(id),
        "columns": columns.collect::<Vec<_>>(),
    }))
}

fn column(info: &Info<'_>, id: u32) -> Option<Value> {
    let column = info.reader.descriptor().column(id)?;
    let sizes = info.sizes.columns.get(&id).cloned().unwrap_or_default();
    Some(json!({
        "id": id,
        "type": column.column_type.name(),
        "bits": column.bits,
        "representation": column.representation,
        "deferred": column.flags.deferred(),
        "first_element": column.first_element,
        "range": column.range.map(|(min, max)| [min, max]),
        "elements": sizes.elements,
        "pages": sizes.pages,
        "bytes_on_disk": sizes.bytes_on_disk,
        "bytes_uncompressed": sizes.bytes_uncompressed,
        "compressions": names(&sizes.compressions),
    }))
}

fn groups(descriptor: &Descriptor) -> Vec<Value> {
    let groups = descriptor.cluster_groups.iter().enumerate();
    let group = |(id, group): (usize, &ClusterGroup)| {
        json!({
            "id": id,
            "first_entry": group.min_entry,
            "num_entries": group.entry_span,
            "clusters": group.n_clusters,
            "page_list": {
                "offset": group.page_list.stored.address.offset(),
                "bytes_on_disk": group.page_list.stored.size,
                "bytes_uncompressed": group.page_list.length,
            },
        })
    };
    groups.map(group).collect()
}

fn cluster(cluster: &Cluster) -> Value {
    json!({
        "id": cluster.id,
        "group": cluster.group,
        "first_entry": cluster.first_entry,
        "num_entries": cluster.n_entries,
        "pages": cluster.pages,
        "bytes_on_disk": cluster.bytes.on_disk,
        "bytes_uncompressed": cluster.bytes.uncompressed,
    })
}

fn attribute_set(set: &AttributeSet) -> Value {
    let (major, minor) = set.version;
    json!({
        "name": set.name,
        "schema_version": format!("{major}.{minor}"),
        "num_entries": set.n_entries.as_ref().ok(),
        "error": set.n_entries.as_ref().err(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_flags_have_names() {
        assert_eq!(feature_flags(0), Vec::<String>::new());
        assert_eq!(feature_flags(0b101), ["nested deferred columns", "bit 2"]);
    }
}
