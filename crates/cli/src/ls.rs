//! `fb ls`: lists everything in a file.

use femtobarn::RNTUPLE_CLASS;
use femtobarn::io::Settings;
use femtobarn::rootfile::{Entry, RootFile};
use femtobarn::ttree::is_tree;
use femtobarn::url::is_folder;
use serde_json::{Value, json};

use crate::failure::{Failure, code};
use crate::folder;
use crate::layout;
use crate::open;
use crate::output::Output;
use crate::schema::{Bytes, total};
use crate::table::{Table, cut};
use femtobarn::Target;

use crate::target::exists;
use crate::units;

/// An object of the file.
struct Object {
    entry: Entry,
    size: Bytes,
    ntuple: Option<Ntuple>,
    /// For a TTree that can be opened.
    tree_entries: Option<u64>,
}

/// For ntuples only.
struct Ntuple {
    n_entries: u64,
    description: String,
    /// Why it cannot be opened.
    error: Option<Failure>,
}

pub fn run(target: &Target, only_ntuples: bool, out: &mut Output<'_>) -> Result<i32, Failure> {
    let file = target.whole();
    let file = file.as_str();
    if is_folder(file) {
        return folder::run(file, out);
    }
    if let Some(found) = folder::run_local(file, out) {
        return found;
    }
    if target.name.is_some() && exists(target) {
        let message = format!(
            "ls takes a file without an object's name: `fb ls {}`",
            target.shown()
        );
        return Err(Failure::new(code::USAGE, "usage", message));
    }
    let target = Target {
        file: file.into(),
        name: None,
    };
    let advise = |failure: Failure| failure.advise(&target);
    let found = femtobarn::look_into(file, &Settings::of(file), |file| {
        Ok((file.clone(), file.walk()?))
    });
    let (root_file, entries) = match found.map_err(Failure::from) {
        Ok(found) => found,
        Err(failure) => {
            let may_be_folder = matches!(&*failure.kind, "not-a-file" | "file-not-found");
            let listed = may_be_folder.then(|| folder::run_without_slash(file, out));
            return listed.flatten().unwrap_or_else(|| Err(advise(failure)));
        }
    };
    let objects: Vec<Object> = entries
        .into_iter()
        .filter(|entry| !only_ntuples || entry.key.class_name == RNTUPLE_CLASS)
        .map(|entry| object(file, entry))
        .collect();
    if out.is_json {
        out.json(&document(&root_file, &objects))?;
    } else {
        table(&objects).write(layout::width(), out)?;
    }
    Ok(code::FINE)
}

fn object(file: &str, entry: Entry) -> Object {
    let key = &entry.key;
    let size = Bytes {
        on_disk: key.n_bytes.into(),
        uncompressed: u64::from(key.key_len) + u64::from(key.object_len),
    };
    if is_tree(&key.class_name) {
        let path = format!("{};{}", entry.path, key.cycle);
        let opened = open::open(file, Some(&path)).ok();
        let baskets = opened.as_ref().and_then(|opened| total(opened).ok());
        return Object {
            entry,
            size: size + baskets.unwrap_or_default(),
            ntuple: None,
            tree_entries: opened.map(|opened| opened.ntuple.n_entries()),
        };
    }
    if key.class_name != RNTUPLE_CLASS {
        return Object {
            entry,
            size,
            ntuple: None,
            tree_entries: None,
        };
    }
    let path = format!("{};{}", entry.path, key.cycle);
    let opened = open::open(file, Some(&path)).and_then(|opened| {
        let descriptor = opened.reader.descriptor();
        let ntuple = Ntuple {
            n_entries: opened.ntuple.n_entries(),
            description: descriptor.description.clone(),
            error: None,
        };
        Ok((total(&opened)?, ntuple))
    });
    match opened {
        Ok((data, ntuple)) => Object {
            entry,
            size: size + data,
            ntuple: Some(ntuple),
            tree_entries: None,
        },
        Err(error) => Object {
            entry,
            size,
            ntuple: Some(Ntuple {
                n_entries: 0,
                description: String::new(),
                error: Some(error.into()),
            }),
            tree_entries: None,
        },
    }
}

/// Longer titles are cut at any width: some histograms have titles of half a page.
const LONGEST_TITLE: usize = 80;

fn table(objects: &[Object]) -> Table {
    let header = ["path", "class", "title", "entries", "on disk", "factor"];
    let mut table = Table::new(&header, &[3, 4, 5], &[2]);
    for object in objects {
        let key = &object.entry.key;
        let ntuple = object.ntuple.as_ref();
        let title = match ntuple {
            Some(Ntuple {
                error: Some(error), ..
            }) => format!("! {}", error.message),
            Some(ntuple) if key.title.is_empty() => ntuple.description.clone(),
            _ => key.title.clone(),
        };
        let entries = ntuple.filter(|ntuple| ntuple.error.is_none());
        let entries = entries.map(|ntuple| ntuple.n_entries);
        let entries = entries.or(object.tree_entries);
        table.push(vec![
            format!("{};{}", object.entry.path, key.cycle),
            key.class_name.clone(),
            cut(&title, LONGEST_TITLE).into_owned(),
            entries.map_or(String::new(), units::count),
            units::bytes(object.size.on_disk),
            units::factor_text(object.size.uncompressed, object.size.on_disk),
        ]);
    }
    table
}

fn document(file: &RootFile, objects: &[Object]) -> Value {
    let header = file.header();
    let compression = femtobarn::codec::settings_name(header.compression);
    let objects: Vec<Value> = objects.iter().map(object_json).collect();
    json!({
        "file": file.source().url(),
        "bytes": file.source().meta().size,
        "root_version": header.root_version(),
        "uuid": header.uuid.to_string(),
        "compression": compression,
        "objects": objects,
    })
}

fn object_json(object: &Object) -> Value {
    let key = &object.entry.key;
    let mut value = json!({
        "path": object.entry.path,
        "name": key.name,
        "cycle": key.cycle,
        "class": key.class_name,
        "title": key.title,
        "datetime": key.datetime.to_string(),
        "offset": key.seek_key,
        "bytes_on_disk": object.size.on_disk,
        "bytes_uncompressed": object.size.uncompressed,
        "compression_factor": units::factor_json(object.size.uncompressed, object.size.on_disk),
    });
    if let (Some(ntuple), Value::Object(map)) = (&object.ntuple, &mut value) {
        let error = ntuple.error.as_ref();
        let entries = error.is_none().then_some(ntuple.n_entries);
        let error = error.map(|error| json!({"kind": error.kind, "message": error.message}));
        map.insert("num_entries".into(), entries.into());
        map.insert("description".into(), ntuple.description.clone().into());
        map.insert("error".into(), error.into());
    }
    if let (Some(n_entries), Value::Object(map)) = (object.tree_entries, &mut value) {
        map.insert("num_entries".into(), n_entries.into());
    }
    value
}
