//! The document of `fb info --json`. Its names are those of the Python package where that has them.

use femtobarn::schema::{Descriptor, is_anonymous};
use serde_json::{Value, json};

use crate::info::{AttributeSet, Cluster, Info, feature_flags};
use crate::schema::{metadata, names};
use crate::units;

pub fn document(info: &Info<'_>) -> Value {
    let reader = &info.opened.reader;
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
        "num_entries": info.opened.ntuple.n_entries(),
        "version": reader.version(),
        "writer": descriptor.writer,
        "feature_flags": feature_flags(descriptor.feature_flags),
        "bytes_on_disk": pages.on_disk,
        "bytes_uncompressed": pages.uncompressed,
        "compression_factor": units::factor_json(pages.uncompressed, pages.on_disk),
        "metadata_bytes_on_disk": metadata.on_disk,
        "metadata_bytes_uncompressed": metadata.uncompressed,
        "compressions": info.sizes.all_compressions(),
        "fields": fields(info),
        "skipped": skipped.collect::<Vec<_>>(),
        "cluster_groups": groups(descriptor),
        "clusters": info.clusters.iter().map(cluster).collect::<Vec<_>>(),
        "attribute_sets": info.attribute_sets.iter().map(attribute_set).collect::<Vec<_>>(),
    })
}

/// All readable fields, depth first.
fn fields(info: &Info<'_>) -> Vec<Value> {
    let descriptor = info.opened.reader.descriptor();
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
    let reader = &info.opened.reader;
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
        "compression_factor": bytes.map(|bytes| units::factor_json(bytes.uncompressed, bytes.on_disk)),
        "compressions": info.sizes.compressions(id),
        "columns": columns.collect::<Vec<_>>(),
    }))
}

fn column(info: &Info<'_>, id: u32) -> Option<Value> {
    let column = info.opened.reader.descriptor().column(id)?;
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
    let group = |(id, group): (usize, &femtobarn::spec::ClusterGroup)| {
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
