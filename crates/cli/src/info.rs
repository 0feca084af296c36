//! `fb info`: shows all metadata.

use std::io::{self, Write};

use femtobarn::read::Reader;
use femtobarn::schema::Descriptor;
use femtobarn::{Error, NTuple, PageCounter};

use crate::args::InfoArgs;
use crate::failure::{Failure, code};
use crate::info_json;
use crate::layout;
use crate::open::{Opened, with_ntuple};
use crate::output::Output;
use crate::schema::{Bytes, Row, Sizes, metadata, projection, rows, type_text};
use crate::table::{Table, printable};
use crate::units;
use femtobarn::Target;

/// Up to this number, clusters are listed by default.
const FEW_CLUSTERS: usize = 8;

/// A cluster and what its pages take.
pub struct Cluster {
    pub id: u64,
    pub group: usize,
    pub first_entry: u64,
    pub n_entries: u64,
    pub pages: u64,
    pub bytes: Bytes,
}

/// An attribute set: its name, and the ntuple or why it cannot be opened.
pub struct AttributeSet {
    pub name: String,
    pub version: (u16, u16),
    pub n_entries: Result<u64, String>,
}

/// Selects what is shown.
pub struct Info<'a> {
    pub opened: &'a Opened,
    pub sizes: Sizes,
    pub clusters: Vec<Cluster>,
    pub attribute_sets: Vec<AttributeSet>,
}

pub fn run(target: &Target, args: &InfoArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    with_ntuple(target, |opened| {
        let info = Info {
            opened,
            sizes: Sizes::new(opened)?,
            clusters: clusters(&opened.reader)?,
            attribute_sets: attribute_sets(opened),
        };
        if out.is_json {
            out.json(&info_json::document(&info))?;
        } else {
            write(&info, args, out)?;
        }
        Ok(code::FINE)
    })
}

/// All clusters of an ntuple.
fn clusters(reader: &Reader) -> Result<Vec<Cluster>, Error> {
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

fn attribute_sets(opened: &Opened) -> Vec<AttributeSet> {
    let reader = &opened.reader;
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

fn write(info: &Info<'_>, args: &InfoArgs, out: &mut Output<'_>) -> io::Result<()> {
    let width = layout::width();
    summary(info, out)?;
    let fields = fields(info, args.all);
    if !fields.is_empty() {
        writeln!(out)?;
        fields.write(width, out)?;
    }
    let descriptor = info.opened.reader.descriptor();
    if !descriptor.skipped.is_empty() {
        writeln!(out, "\nskipped fields (not supported by this version):")?;
        for field in &descriptor.skipped {
            let line = format!("  {}: {}", field.name, field.reason);
            writeln!(out, "{}", printable(&line))?;
        }
    }
    let n = info.clusters.len();
    if n > 0 && (args.clusters || n <= FEW_CLUSTERS) {
        writeln!(out)?;
        cluster_table(info).write(width, out)?;
    }
    Ok(())
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

fn summary(info: &Info<'_>, out: &mut Output<'_>) -> io::Result<()> {
    let reader = &info.opened.reader;
    let descriptor = reader.descriptor();
    let ntuple: &NTuple = &info.opened.ntuple;
    let mut line = |name: &str, value: &str| {
        if value.is_empty() {
            return Ok(());
        }
        writeln!(out, "{name:<15} {}", printable(value))
    };
    line("file", reader.url())?;
    let kind = if is_tree(reader) { "tree" } else { "ntuple" };
    line(kind, reader.path())?;
    if descriptor.name != reader.path() {
        line("name", &descriptor.name)?;
    }
    line("description", &descriptor.description)?;
    line("entries", &units::count(ntuple.n_entries()))?;
    let fields = descriptor.top_level.len() as u64;
    let n_columns = descriptor.columns.len() as u64;
    let text = format!(
        "{}, {}",
        units::plural(fields, "top-level field"),
        units::plural(n_columns, "column")
    );
    line("schema", &text)?;
    line("size", &size_text(info))?;
    line("compression", &info.sizes.all_compressions().join(", "))?;
    line("clusters", &clusters_text(info))?;
    let what = if is_tree(reader) {
        "class"
    } else {
        "format version"
    };
    line(what, &reader.version())?;
    line(
        "feature flags",
        &feature_flags(descriptor.feature_flags).join(", "),
    )?;
    line("writer", &descriptor.writer)?;
    for set in &info.attribute_sets {
        let content = match &set.n_entries {
            Ok(n) => units::plural(*n, "entry"),
            Err(message) => format!("cannot be read: {message}"),
        };
        line("attribute set", &format!("{}: {content}", set.name))?;
    }
    Ok(())
}

/// Whether it is a TTree: it has neither a format version nor countable metadata.
fn is_tree(reader: &Reader) -> bool {
    reader.storage().is_some()
}

fn size_text(info: &Info<'_>) -> String {
    let pages = info.sizes.pages();
    let metadata = metadata(info.opened.reader.descriptor());
    let factor = units::factor_text(pages.uncompressed, pages.on_disk);
    let factor = if factor.is_empty() {
        factor
    } else {
        format!(", factor {factor}")
    };
    let metadata = if is_tree(&info.opened.reader) {
        String::new()
    } else {
        format!("; {} of metadata", units::bytes(metadata.on_disk))
    };
    format!(
        "{} on disk for {} of columns{factor}{metadata}",
        units::bytes(pages.on_disk),
        units::bytes(pages.uncompressed),
    )
}

fn clusters_text(info: &Info<'_>) -> String {
    let groups = info.opened.reader.descriptor().cluster_groups.len() as u64;
    let pages = info.clusters.iter().map(|cluster| cluster.pages).sum();
    let mut text = format!(
        "{} in {}, {}",
        units::plural(info.clusters.len() as u64, "cluster"),
        units::plural(groups, "cluster group"),
        units::plural(pages, "page"),
    );
    let entries = info.clusters.iter().map(|cluster| cluster.n_entries);
    if let (Some(least), Some(most)) = (entries.clone().min(), entries.max()) {
        text += &if least == most {
            format!("; {} each", units::plural(most, "entry"))
        } else {
            format!(
                "; {} to {} each",
                units::count(least),
                units::plural(most, "entry")
            )
        };
    }
    text
}

fn fields(info: &Info<'_>, all: bool) -> Table {
    let reader = &info.opened.reader;
    let header = [
        "field",
        "C++ type",
        "columns",
        "on disk",
        "uncompressed",
        "factor",
        "compression",
        "description",
    ];
    let mut table = Table::new(&header, &[3, 4, 5], &[7, 1]);
    // if all fields have the same value, the summary shows it
    let several = info.sizes.all_compressions().len() > 1;
    for row in rows(reader, all) {
        table.push(cells(info, row, several));
    }
    table
}

fn cells(info: &Info<'_>, row: Row, several: bool) -> Vec<String> {
    let reader = &info.opened.reader;
    let descriptor = reader.descriptor();
    let Some(field) = descriptor.field(row.id) else {
        return Vec::new();
    };
    let record = &field.record;
    let type_name = type_text(&record.type_name, &record.type_alias);
    let mut cells = vec![format!("{}{}", "  ".repeat(row.depth), row.name), type_name];
    let source = projection(descriptor, row.id);
    // arrays of trees take their counter from other branches, and have their own values
    let bytes = info.sizes.field(row.id);
    let bytes = bytes.filter(|&bytes| source.is_none() || bytes != Bytes::default());
    let from = |source| format!("from {}", reader.label(source));
    cells.push(source.map_or(row.columns, from));
    if let Some(bytes) = bytes {
        let compressions = info.sizes.compressions(row.id);
        cells.extend([
            units::bytes(bytes.on_disk),
            units::bytes(bytes.uncompressed),
            units::factor_text(bytes.uncompressed, bytes.on_disk),
            if several {
                compressions.join(", ")
            } else {
                String::new()
            },
        ]);
    } else {
        cells.extend(std::iter::repeat_n(String::new(), 4));
    }
    cells.push(record.description.clone());
    cells
}

fn cluster_table(info: &Info<'_>) -> Table {
    let header = [
        "cluster",
        "group",
        "first entry",
        "entries",
        "pages",
        "on disk",
        "uncompressed",
        "factor",
    ];
    let mut table = Table::new(&header, &[0, 1, 2, 3, 4, 5, 6, 7], &[0]);
    for cluster in &info.clusters {
        let Bytes {
            on_disk,
            uncompressed,
        } = cluster.bytes;
        table.push(vec![
            cluster.id.to_string(),
            cluster.group.to_string(),
            units::count(cluster.first_entry),
            units::count(cluster.n_entries),
            units::count(cluster.pages),
            units::bytes(on_disk),
            units::bytes(uncompressed),
            units::factor_text(uncompressed, on_disk),
        ]);
    }
    table
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
