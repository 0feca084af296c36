//! Metadata as Python dictionaries.

use std::collections::HashMap;

use femtobarn::read::Reader;
use femtobarn::schema::{Descriptor, Field, FieldId, is_anonymous};
use femtobarn::spec::Role;
use femtobarn::{ColumnSizes, PageCounter, SkippedFields, codec};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::to_python;

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
