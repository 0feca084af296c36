//! `fb info`: shows all metadata.

use std::io::{self, Write};

use femtobarn::inspect::{Bytes, Info, feature_flags, metadata};
use femtobarn::read::Reader;

use crate::args::InfoArgs;
use crate::failure::{Failure, code};
use crate::layout;
use crate::open::with_ntuple;
use crate::output::Output;
use crate::schema::{Row, projection, rows, type_text};
use crate::table::{Table, printable};
use crate::units;
use femtobarn::Target;

/// Up to this number, clusters are listed by default.
const FEW_CLUSTERS: usize = 8;

pub fn run(target: &Target, args: &InfoArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    with_ntuple(target, |opened| {
        let info = Info::new(&opened.ntuple, &opened.reader)?;
        if out.is_json {
            out.json(&info.document())?;
        } else {
            write(&info, args, out)?;
        }
        Ok(code::FINE)
    })
}

/// What `fb info` prints of an ntuple of one file.
pub fn info_text(info: &Info<'_>) -> String {
    let mut text = Vec::new();
    let args = InfoArgs::default();
    // memory does not fail
    let _ = write(info, &args, &mut Output::new(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}

fn write(info: &Info<'_>, args: &InfoArgs, out: &mut Output<'_>) -> io::Result<()> {
    let width = layout::width();
    summary(info, out)?;
    let fields = fields(info, args.all);
    if !fields.is_empty() {
        writeln!(out)?;
        fields.write(width, out)?;
    }
    let descriptor = info.reader.descriptor();
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

fn summary(info: &Info<'_>, out: &mut Output<'_>) -> io::Result<()> {
    let reader = info.reader;
    let descriptor = reader.descriptor();
    let ntuple = info.ntuple;
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
    for url in &info.refers_to {
        line("refers to", url)?;
    }
    Ok(())
}

/// Whether it is a TTree: it has neither a format version nor countable metadata.
fn is_tree(reader: &Reader) -> bool {
    reader.storage().is_some()
}

fn size_text(info: &Info<'_>) -> String {
    let pages = info.sizes.pages();
    let metadata = metadata(info.reader.descriptor());
    let factor = units::factor_text(pages);
    let factor = if factor.is_empty() {
        factor
    } else {
        format!(", factor {factor}")
    };
    let metadata = if is_tree(info.reader) {
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
    let groups = info.reader.descriptor().cluster_groups.len() as u64;
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
    let reader = info.reader;
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
    let reader = info.reader;
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
            units::factor_text(bytes),
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
        table.push(vec![
            cluster.id.to_string(),
            cluster.group.to_string(),
            units::count(cluster.first_entry),
            units::count(cluster.n_entries),
            units::count(cluster.pages),
            units::bytes(cluster.bytes.on_disk),
            units::bytes(cluster.bytes.uncompressed),
            units::factor_text(cluster.bytes),
        ]);
    }
    table
}
