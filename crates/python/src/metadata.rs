//! Metadata as Python dictionaries.

use std::collections::{BTreeMap, HashMap};

use femtobarn::io::Settings;
use femtobarn::read::Reader;
use femtobarn::schema::{Descriptor, Field, FieldId, is_anonymous};
use femtobarn::spec::Role;
use femtobarn::{ColumnSizes, PageCounter, Plan, SkippedFields, VerifyReport, codec};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::to_python;

/// All objects in a ROOT file: dictionaries with path, name, cycle, class, title, offset, bytes_on_disk and
/// bytes_uncompressed.
#[pyfunction]
#[pyo3(signature = (url, settings = None))]
pub fn list_objects<'py>(
    py: Python<'py>,
    url: &str,
    settings: Option<BTreeMap<String, String>>,
) -> PyResult<Bound<'py, PyList>> {
    let walk = || {
        let settings = Settings::new(url, settings.unwrap_or_default())?;
        femtobarn::look_into(url, &settings, |file| Ok(file.walk()?))
    };
    let entries = py.detach(walk).map_err(to_python)?;
    let list = PyList::empty(py);
    for entry in entries {
        let dict = PyDict::new(py);
        dict.set_item("path", &entry.path)?;
        dict.set_item("name", &entry.key.name)?;
        dict.set_item("cycle", entry.key.cycle)?;
        dict.set_item("class", &entry.key.class_name)?;
        dict.set_item("title", &entry.key.title)?;
        dict.set_item("offset", entry.key.seek_key)?;
        dict.set_item("bytes_on_disk", entry.key.n_bytes)?;
        dict.set_item("bytes_uncompressed", entry.key.object_len)?;
        list.append(dict)?;
    }
    Ok(list)
}

/// All readable fields, depth first; `types` are the types that differ from the first file.
pub fn fields<'py>(
    py: Python<'py>,
    reader: &Reader,
    left_out: &SkippedFields,
    types: &HashMap<FieldId, String>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    let mut result = Ok(());
    let mut add = |id, field: &Field| {
        if result.is_ok() {
            let type_name = types.get(&id).map_or(&field.record.type_name, |it| it);
            let dict = field_dict(py, reader, (id, type_name), field);
            result = dict.and_then(|dict| list.append(dict));
        }
        true
    };
    walk(
        reader,
        left_out,
        reader.descriptor().top_level.clone(),
        &mut add,
    );
    walk(reader, left_out, groups(reader), &mut add);
    result.map(|()| list)
}

/// Fields that have no columns of their own, but can be requested: they project the columns of several fields.
fn groups(reader: &Reader) -> Vec<u32> {
    let descriptor = reader.descriptor();
    let mut ids: Vec<u32> = reader.aliases().values().copied().collect();
    ids.retain(|id| !descriptor.top_level.contains(id));
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// The keys of all fields, depth first. Fields inside a variant have no key.
pub fn keys(reader: &Reader, left_out: &SkippedFields) -> Vec<String> {
    let mut out = Vec::with_capacity(reader.descriptor().fields.len());
    walk(
        reader,
        left_out,
        reader.descriptor().top_level.clone(),
        |id, field| {
            out.extend(reader.paths().get(id as usize).cloned().flatten());
            field.record.role != Role::Variant
        },
    );
    out
}

/// Visits the readable fields, depth first; `visit` returns whether to visit the subfields, too.
fn walk(
    reader: &Reader,
    left_out: &SkippedFields,
    mut pending: Vec<u32>,
    mut visit: impl FnMut(u32, &Field) -> bool,
) {
    let descriptor = reader.descriptor();
    pending.reverse();
    while let Some(id) = pending.pop() {
        let Some(field) = descriptor.field(id) else {
            continue;
        };
        let path = reader.paths().get(id as usize).and_then(Option::as_deref);
        let is_out = path.is_some_and(|path| left_out.reason(path).is_some());
        if !is_out && visit(id, field) {
            pending.extend(field.children.iter().rev());
        }
    }
}

fn field_dict<'py>(
    py: Python<'py>,
    reader: &Reader,
    (id, type_name): (u32, &str),
    field: &Field,
) -> PyResult<Bound<'py, PyDict>> {
    let descriptor = reader.descriptor();
    let record = &field.record;
    let dict = PyDict::new(py);
    dict.set_item(intern!(py, "id"), id)?;
    dict.set_item(intern!(py, "parent"), field.parent)?;
    dict.set_item(intern!(py, "name"), &record.name)?;
    dict.set_item(
        intern!(py, "path"),
        reader.paths().get(id as usize).cloned().flatten(),
    )?;
    dict.set_item(intern!(py, "typename"), type_name)?;
    dict.set_item(intern!(py, "typealias"), &record.type_alias)?;
    dict.set_item(intern!(py, "description"), &record.description)?;
    dict.set_item(intern!(py, "role"), record.role.name())?;
    dict.set_item(intern!(py, "projected"), record.flags.projected())?;
    dict.set_item(intern!(py, "repetitions"), record.array_size.unwrap_or(0))?;
    dict.set_item(intern!(py, "anonymous"), is_anonymous(descriptor, id))?;
    let is_group =
        field.parent.is_none() && reader.storage().is_some() && !descriptor.top_level.contains(&id);
    dict.set_item(intern!(py, "group"), is_group)?;
    dict.set_item(intern!(py, "columns"), columns(py, descriptor, field)?)?;
    Ok(dict)
}

fn columns<'py>(
    py: Python<'py>,
    descriptor: &Descriptor,
    field: &Field,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for &id in &field.columns {
        let Some(column) = descriptor.column(id) else {
            continue;
        };
        let dict = PyDict::new(py);
        dict.set_item(intern!(py, "id"), id)?;
        dict.set_item(intern!(py, "type"), column.column_type.name())?;
        dict.set_item(intern!(py, "bits"), column.bits)?;
        dict.set_item(intern!(py, "representation"), column.representation)?;
        dict.set_item(intern!(py, "deferred"), column.flags.deferred())?;
        list.append(dict)?;
    }
    Ok(list)
}

/// The clusters of one file, after `first_entry` entries of other files.
pub fn clusters(
    list: &Bound<'_, PyList>,
    reader: &Reader,
    first_entry: u64,
    details: bool,
) -> PyResult<()> {
    let py = list.py();
    let mut counter = PageCounter::new(reader);
    for group in 0..reader.descriptor().cluster_groups.len() {
        let Some(pages) = py.detach(|| reader.page_list(group)).map_err(to_python)? else {
            continue;
        };
        for (index, summary) in pages.clusters().iter().enumerate() {
            let dict = PyDict::new(py);
            dict.set_item("file", reader.url())?;
            dict.set_item("first_entry", first_entry + summary.first_entry)?;
            dict.set_item("num_entries", summary.n_entries)?;
            dict.set_item("group", group)?;
            if details {
                let sizes = counter.cluster(&pages, index);
                dict.set_item("bytes_on_disk", sizes.bytes_on_disk)?;
                dict.set_item("bytes_uncompressed", sizes.bytes_uncompressed)?;
                dict.set_item("pages", sizes.pages)?;
            }
            list.append(dict)?;
        }
    }
    Ok(())
}

/// The sizes of a column.
pub fn sizes<'py>(py: Python<'py>, sizes: &ColumnSizes) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("bytes_on_disk", sizes.bytes_on_disk)?;
    dict.set_item("bytes_uncompressed", sizes.bytes_uncompressed)?;
    dict.set_item("pages", sizes.pages)?;
    dict.set_item("elements", sizes.elements)?;
    let names: Vec<String> = sizes
        .compressions
        .iter()
        .map(|&settings| codec::settings_name(settings))
        .collect();
    dict.set_item("compressions", names)?;
    Ok(dict)
}

/// A plan.
pub fn plan_of<'py>(py: Python<'py>, plan: &Plan) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let numbers = [
        ("num_entries", plan.n_entries),
        ("clusters", plan.clusters),
        ("pages", plan.pages),
        ("ranges", plan.ranges),
        ("vectors", plan.vectors),
        ("requests", plan.requests),
        ("bytes_needed", plan.bytes_needed),
        ("bytes_read", plan.bytes_read),
        ("bytes_decoded", plan.bytes_decoded),
        ("rounds", plan.rounds),
    ];
    for (name, number) in numbers {
        dict.set_item(name, number)?;
    }
    dict.set_item("exact", plan.exact)?;
    dict.set_item("fetched_by", plan.cutting())?;
    let list = PyList::empty(py);
    for column in &plan.columns {
        let entry = PyDict::new(py);
        entry.set_item("field", &column.field)?;
        entry.set_item("typename", &column.type_name)?;
        entry.set_item("column_types", &column.column_types)?;
        entry.set_item("pages", column.pages)?;
        entry.set_item("bytes_on_disk", column.bytes_on_disk)?;
        entry.set_item("bytes_decoded", column.bytes_decoded)?;
        list.append(entry)?;
    }
    dict.set_item("per_column", list)?;
    dict.set_item("notes", plan.notes())?;
    Ok(dict)
}

/// Combines the reports of all files.
pub fn report<'py>(
    py: Python<'py>,
    reports: &[(String, u64, VerifyReport)],
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let sum = |number: fn(&VerifyReport) -> u64| {
        reports
            .iter()
            .map(|(_, _, report)| number(report))
            .sum::<u64>()
    };
    dict.set_item("clusters", sum(|r| r.clusters))?;
    dict.set_item("pages", sum(|r| r.pages))?;
    dict.set_item("pages_without_checksum", sum(|r| r.pages_without_checksum))?;
    dict.set_item("bytes", sum(|r| r.bytes))?;
    let list = PyList::empty(py);
    for (url, _, report) in reports {
        for (field, reason) in &report.not_checked {
            let entry = PyDict::new(py);
            entry.set_item("file", url)?;
            entry.set_item("field", field)?;
            entry.set_item("reason", reason)?;
            list.append(entry)?;
        }
    }
    dict.set_item("not_checked", list)?;
    let unknown = reports
        .iter()
        .filter(|(_, _, report)| report.nothing_checked);
    let unknown: Vec<&str> = unknown.map(|(url, _, _)| url.as_str()).collect();
    dict.set_item("nothing_checked", unknown)?;
    let list = PyList::empty(py);
    for (url, first, report) in reports {
        for damage in &report.damages {
            let entry = PyDict::new(py);
            entry.set_item("file", url)?;
            entry.set_item("field", &damage.field)?;
            entry.set_item("column", damage.column)?;
            entry.set_item("cluster", damage.cluster)?;
            entry.set_item("entry_start", first + damage.entries.0)?;
            entry.set_item("entry_stop", first + damage.entries.1)?;
            entry.set_item("offset", damage.address.offset())?;
            entry.set_item("bytes", damage.n_bytes)?;
            entry.set_item("problem", &damage.problem)?;
            list.append(entry)?;
        }
    }
    dict.set_item("damages", list)?;
    Ok(dict)
}
