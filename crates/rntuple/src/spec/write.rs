//! Encodes the structures that the other modules parse.

use super::address::{PageAddress, StoredRange};
use super::anchor::Anchor;
use super::description::{ColumnRecord, FieldRecord, Role, SchemaDescription};
use super::envelope::EnvelopeKind;
use super::footer::{ClusterGroup, LinkedAttributeSet};
use super::locator::{EnvelopeLink, IN_OBJECT, LARGE, OBJECT};
use super::out::Out;
use super::page_list::{ClusterSummary, Page};

/// The pages of a column in a cluster to write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the specification's names")]
pub struct WrittenColumn {
    pub pages: Vec<Page>,
    /// Index of the first element in the ntuple; none if the column is suppressed in this cluster.
    pub element_offset: Option<u64>,
    pub compression: u32,
}

/// A cluster to write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by their types")]
pub struct WrittenCluster {
    pub summary: ClusterSummary,
    pub columns: Vec<WrittenColumn>,
}

impl Out {
    fn locator(&mut self, stored: &StoredRange) {
        // a locator with a type begins with the type and its own size, negated
        let typed = |kind: u8, own_size: i32| (-(i32::from(kind) << 24 | own_size)).cast_unsigned();
        match (stored.address, u32::try_from(stored.size)) {
            (PageAddress::File(offset), Ok(size)) if size.cast_signed() >= 0 => {
                self.u32(size).u64(offset)
            }
            (PageAddress::File(offset), _) => {
                self.u32(typed(LARGE, 20)).u64(stored.size).u64(offset)
            }
            (PageAddress::Object { id, offset }, size) => {
                // a number of 64 bits, or number and offset of 32 bits each
                let (kind, place) = match offset {
                    0 => (OBJECT, id),
                    offset => (IN_OBJECT, u64::from(offset) << 32 | id),
                };
                match size {
                    Ok(size) => self.u32(typed(kind, 16)).u32(size).u64(place),
                    Err(_) => self.u32(typed(kind, 20)).u64(stored.size).u64(place),
                }
            }
            (PageAddress::Unknown(kind), _) => self.u32(typed(kind, 4)),
        };
    }

    fn link(&mut self, link: &EnvelopeLink) {
        self.u64(link.length);
        self.locator(&link.stored);
    }

    fn field(&mut self, field: &FieldRecord) {
        let role = match field.role {
            Role::Plain => 0,
            Role::Collection => 1,
            Role::Record => 2,
            Role::Variant => 3,
            Role::Streamer => 4,
            Role::Unknown(code) => code,
        };
        self.record(|out| {
            out.u32(field.field_version)
                .u32(field.type_version)
                .u32(field.parent_id);
            out.u16(role).u16(field.flags.0);
            out.string(&field.name).string(&field.type_name);
            out.string(&field.type_alias).string(&field.description);
            if let Some(size) = field.array_size {
                out.u64(size);
            }
            for number in [field.source_id, field.type_checksum].into_iter().flatten() {
                out.u32(number);
            }
        });
    }

    fn column(&mut self, column: &ColumnRecord) {
        self.record(|out| {
            out.u16(column.column_type.code())
                .u16(column.bits)
                .u32(column.field_id);
            out.u16(column.flags.0).u16(column.representation);
            if column.flags.deferred() {
                out.u64(column.first_element.cast_unsigned());
            }
            if let (true, Some((min, max))) = (column.flags.has_range(), column.range) {
                out.u64(min.to_bits()).u64(max.to_bits());
            }
        });
    }

    fn schema(&mut self, schema: &SchemaDescription) {
        self.list(&schema.fields, Self::field);
        self.list(&schema.columns, Self::column);
        self.list(&schema.alias_columns, |out, alias| {
            out.record(|out| {
                out.u32(alias.physical_id).u32(alias.field_id);
            });
        });
        self.list(&schema.extra_type_infos, |out, info| {
            out.record(|out| {
                out.u32(info.content_id)
                    .u32(info.type_version)
                    .string(&info.type_name);
                out.count(info.content.len());
                out.0.extend(&info.content);
            });
        });
    }
}

/// Encodes an envelope; returns its checksum as well.
fn envelope(kind: EnvelopeKind, write: impl FnOnce(&mut Out)) -> (Vec<u8>, u64) {
    let mut out = Out::default();
    out.u64(0);
    write(&mut out);
    let length = out.0.len() as u64 + 8;
    let preamble = u64::from(kind.id()) | length << 16;
    if let Some(place) = out.0.get_mut(..8) {
        place.copy_from_slice(&preamble.to_le_bytes());
    }
    let checksum = femtobarn_codec::xxh3(&out.0);
    out.u64(checksum);
    (out.0, checksum)
}

/// Encodes the header envelope; returns its checksum as well.
pub fn header(
    name: &str,
    description: &str,
    writer: &str,
    schema: &SchemaDescription,
) -> (Vec<u8>, u64) {
    envelope(EnvelopeKind::Header, |out| {
        out.u64(0).string(name).string(description).string(writer);
        out.schema(schema);
    })
}

/// Encodes a page list envelope for the header with this checksum.
pub fn page_list(header_checksum: u64, clusters: &[WrittenCluster]) -> Vec<u8> {
    let (bytes, _) = envelope(EnvelopeKind::PageList, |out| {
        out.u64(header_checksum);
        out.list(clusters, |out, cluster| {
            out.record(|out| {
                out.u64(cluster.summary.first_entry)
                    .u64(cluster.summary.n_entries);
            });
        });
        out.list(clusters, |out, cluster| {
            out.list(&cluster.columns, column_pages)
        });
    });
    bytes
}

fn column_pages(out: &mut Out, column: &WrittenColumn) {
    out.frame(-1, |out| {
        out.count(column.pages.len());
        for page in &column.pages {
            let n = i32::try_from(page.n_elements).unwrap_or(i32::MAX);
            out.u32(if page.has_checksum { -n } else { n }.cast_unsigned());
            out.locator(&page.body);
        }
        match column.element_offset {
            Some(offset) => out.u64(offset).u32(column.compression),
            None => out.u64(i64::MIN.cast_unsigned()),
        };
    });
}

/// Encodes the footer envelope.
pub fn footer(
    feature_flags: u64,
    header_checksum: u64,
    extension: &SchemaDescription,
    groups: &[ClusterGroup],
    attribute_sets: Option<&[LinkedAttributeSet]>,
) -> Vec<u8> {
    let (bytes, _) = envelope(EnvelopeKind::Footer, |out| {
        out.u64(feature_flags).u64(header_checksum);
        out.record(|out| out.schema(extension));
        out.list(groups, |out, group| {
            out.record(|out| {
                out.u64(group.min_entry)
                    .u64(group.entry_span)
                    .u32(group.n_clusters);
                out.link(&group.page_list);
            });
        });
        // since version 1.0.1.0; readers of 1.0.0 expect the end here
        if let Some(attribute_sets) = attribute_sets {
            out.list(attribute_sets, |out, set| {
                out.record(|out| {
                    out.u16(set.schema_version_major)
                        .u16(set.schema_version_minor);
                    out.u32(set.anchor_length);
                    out.locator(&set.anchor);
                    out.string(&set.name);
                });
            });
        }
    });
    bytes
}

/// Encodes the anchor: an object of class `ROOT::RNTuple`, big-endian.
pub fn anchor(anchor: &Anchor) -> Vec<u8> {
    let mut body = Vec::new();
    for version in anchor.version {
        body.extend(version.to_be_bytes());
    }
    for EnvelopeLink { length, stored } in [anchor.header, anchor.footer] {
        for number in [stored.address.offset(), stored.size, length] {
            body.extend(number.to_be_bytes());
        }
    }
    body.extend(anchor.max_key_size.to_be_bytes());
    // byte count of what follows, and class version
    let mut bytes = vec![0x40, 0, 0, 0x42, 0, 2];
    let checksum = femtobarn_codec::xxh3(&body);
    bytes.extend(body);
    bytes.extend(checksum.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{
        AliasColumn, ColumnFlags, ColumnType, ExtraTypeInfo, FieldFlags, Footer, Header, PageList,
    };

    fn field(name: &str, parent_id: u32) -> FieldRecord {
        FieldRecord {
            field_version: 1,
            type_version: 2,
            parent_id,
            role: Role::Record,
            flags: FieldFlags(7),
            name: name.into(),
            type_name: "Some::Type".into(),
            type_alias: "Alias".into(),
            description: "what it is".into(),
            array_size: Some(1 << 40),
            source_id: Some(3),
            type_checksum: Some(0xdead_beef),
        }
    }

    fn schema() -> SchemaDescription {
        let column = |column_type: ColumnType, bits, flags| ColumnRecord {
            column_type,
            bits,
            field_id: 1,
            flags: ColumnFlags(flags),
            representation: 1,
            first_element: if flags & 1 != 0 { -5 } else { 0 },
            range: (flags & 2 != 0).then_some((-1.5, 2.5)),
        };
        SchemaDescription {
            fields: vec![
                field("a", 0),
                FieldRecord {
                    flags: FieldFlags(0),
                    array_size: None,
                    source_id: None,
                    type_checksum: None,
                    ..field("b", 0)
                },
            ],
            columns: vec![
                column(ColumnType::SplitIndex64, 64, 0),
                column(ColumnType::Real32Quant, 12, 3),
            ],
            alias_columns: vec![AliasColumn {
                physical_id: 1,
                field_id: 2,
            }],
            extra_type_infos: vec![ExtraTypeInfo {
                content_id: 0,
                type_version: 9,
                type_name: String::new(),
                content: vec![1, 2, 3],
            }],
        }
    }

    fn stored(size: u64) -> StoredRange {
        StoredRange {
            address: PageAddress::File(1 << 35),
            size,
        }
    }

    #[test]
    fn header_and_footer_are_read_as_written() {
        let (bytes, checksum) = header("ntuple", "description", "writer", &schema());
        let read = Header::parse(&bytes).unwrap();
        assert_eq!(
            (read.name.as_str(), read.writer.as_str(), read.checksum),
            ("ntuple", "writer", checksum)
        );
        assert_eq!(format!("{:?}", read.schema), format!("{:?}", schema()));

        let groups = [ClusterGroup {
            min_entry: 5,
            entry_span: 10,
            n_clusters: 2,
            page_list: EnvelopeLink {
                length: 99,
                stored: stored(77),
            },
        }];
        let sets = [LinkedAttributeSet {
            schema_version_major: 1,
            schema_version_minor: 0,
            anchor_length: 78,
            anchor: stored(78),
            name: "provenance".into(),
        }];
        let read = Footer::parse(&footer(1, checksum, &schema(), &groups, Some(&sets))).unwrap();
        assert_eq!(read.feature_flags, 1);
        assert_eq!(format!("{:?}", read.extension), format!("{:?}", schema()));
        assert_eq!(
            (read.header_checksum, read.cluster_groups.as_slice()),
            (checksum, &groups[..])
        );
        assert_eq!(read.attribute_sets, sets);
    }

    #[test]
    fn page_lists_are_read_as_written() {
        let page = |n_elements, size| Page {
            n_elements,
            has_checksum: size % 2 == 0,
            body: stored(size),
        };
        let object = |size| Page {
            body: StoredRange {
                address: PageAddress::Object { id: 5, offset: 0 },
                size,
            },
            ..page(3, size)
        };
        let cluster = WrittenCluster {
            summary: ClusterSummary {
                first_entry: 3,
                n_entries: 4,
            },
            columns: vec![
                WrittenColumn {
                    pages: vec![page(4, 10), page(2, 1 << 33), object(11), object(1 << 33)],
                    element_offset: Some(6),
                    compression: 505,
                },
                WrittenColumn::default(),
            ],
        };
        let read = PageList::parse(&page_list(42, std::slice::from_ref(&cluster)), 42).unwrap();
        assert_eq!(read.clusters(), [cluster.summary]);
        let first = read.column(0, 0).unwrap();
        assert_eq!((first.element_offset, first.compression), (6, 505));
        assert_eq!(read.pages(first), cluster.columns[0].pages);
        assert!(read.column(0, 1).unwrap().suppressed());
    }

    #[test]
    fn anchors_are_read_as_written() {
        let link = |first| EnvelopeLink {
            length: first + 2,
            stored: StoredRange {
                address: PageAddress::File(first),
                size: first + 1,
            },
        };
        let written = Anchor {
            version: [1, 0, 0, 0],
            header: link(1),
            footer: link(4),
            max_key_size: 7,
        };
        let read = Anchor::parse(&anchor(&written)).unwrap();
        assert_eq!(format!("{read:?}"), format!("{written:?}"));
    }
}
