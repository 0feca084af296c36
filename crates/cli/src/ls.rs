//! `fb ls`: lists everything in a file or a directory.

use std::collections::BTreeMap;

use femtobarn::Target;
use femtobarn::inspect::{FolderListing, Listed, ListedNTuple, ListedObject, list, names_folder};

use crate::failure::{Failure, code};
use crate::layout;
use crate::output::Output;
use crate::table::{Table, cut};
use crate::target::exists;
use crate::units;

pub fn run(target: &Target, only_ntuples: bool, out: &mut Output<'_>) -> Result<i32, Failure> {
    let whole = Target {
        file: target.whole(),
        name: None,
    };
    if target.name.is_some() && exists(target) && !names_folder(&whole.file) {
        let message = format!(
            "ls takes a file without an object's name: `fb ls {}`",
            target.shown()
        );
        return Err(Failure::new(code::USAGE, "usage", message));
    }
    let listed = list(&whole.file, only_ntuples, &BTreeMap::new());
    let listed = listed.map_err(|error| Failure::from(error).advise(&whole))?;
    if out.is_json {
        out.json(&match &listed {
            Listed::File(file) => file.document(),
            Listed::Folder(folder) => folder.document(),
        })?;
        return Ok(code::FINE);
    }
    let table = match &listed {
        Listed::File(file) => objects(&file.objects),
        Listed::Folder(folder) if folder.entries.is_empty() => return Ok(code::FINE),
        Listed::Folder(folder) => entries(folder),
    };
    table.write(layout::width(), out)?;
    Ok(code::FINE)
}

/// Longer titles are cut at any width: some histograms have titles of half a page.
const LONGEST_TITLE: usize = 80;

fn objects(objects: &[ListedObject]) -> Table {
    let header = ["path", "class", "title", "entries", "on disk", "factor"];
    let mut table = Table::new(&header, &[3, 4, 5], &[2]);
    for object in objects {
        let key = &object.entry.key;
        let title = match &object.ntuple {
            Some(ListedNTuple {
                error: Some((_, message)),
                ..
            }) => format!("! {message}"),
            _ => object.title().to_owned(),
        };
        table.push(vec![
            format!("{};{}", object.entry.path, key.cycle),
            key.class_name.clone(),
            cut(&title, LONGEST_TITLE).into_owned(),
            object.n_entries().map_or(String::new(), units::count),
            units::bytes(object.size.on_disk),
            units::factor_text(object.size),
        ]);
    }
    table
}

fn entries(folder: &FolderListing) -> Table {
    let mut table = Table::new(&["name", "size"], &[1], &[0]);
    for entry in &folder.entries {
        let (slash, size) = match entry.is_folder {
            true => ("/", String::new()),
            false => ("", entry.size.map_or(String::new(), units::bytes)),
        };
        table.push(vec![format!("{}{slash}", entry.name), size]);
    }
    table
}
