//! The objects of a file, or the files of a directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::UNIX_EPOCH;

use femtobarn_codec::settings_name;
use femtobarn_io::{IoError, RemoteEntry, Settings, is_object_set, is_remote, list_folder, public};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rootfile::{Entry, RootFile};
use femtobarn_ttree::is_tree;
use serde_json::{Value, json};

use super::sizes::{Bytes, total};
use crate::ntuple::NTuple;
use crate::objects::RNTUPLE_CLASS;
use crate::open::{OpenOptions, look_into};
use crate::url::is_folder;
use crate::writable::local;

/// What is listed.
#[derive(Debug)]
pub enum Listed {
    /// A file.
    File(FileListing),
    /// A directory.
    Folder(FolderListing),
}

/// The objects of a file.
#[derive(Debug)]
pub struct FileListing {
    file: RootFile,
    /// All objects in all directories, with all cycles, in the order of the file.
    pub objects: Vec<ListedObject>,
}

/// An object of a file.
#[derive(Debug)]
pub struct ListedObject {
    /// Its path and its key.
    pub entry: Entry,
    /// Its size, with all of its data.
    pub size: Bytes,
    /// For an ntuple.
    pub ntuple: Option<ListedNTuple>,
    /// For a TTree that can be opened.
    pub tree_entries: Option<u64>,
}

/// An ntuple of a file.
#[derive(Debug)]
pub struct ListedNTuple {
    /// Number of entries.
    pub n_entries: u64,
    /// Its description.
    pub description: String,
    /// Kind and text of the error if it cannot be opened.
    pub error: Option<(&'static str, String)>,
}

/// The files of a directory.
#[derive(Debug)]
pub struct FolderListing {
    /// The directory.
    pub url: String,
    /// Its files and directories.
    pub entries: Vec<RemoteEntry>,
}

/// Whether a path or URL names a directory: one of this machine, or a URL that ends with a slash.
pub fn names_folder(url: &str) -> bool {
    is_folder(url) || !is_remote(url) && local(url).is_dir()
}

/// Lists a file, or a directory of this machine or of a server. With `only_ntuples`, no other objects of a file.
///
/// # Errors
/// If it cannot be read, or is neither.
pub fn list(
    url: &str,
    only_ntuples: bool,
    settings: &BTreeMap<String, String>,
) -> Result<Listed, RNTupleError> {
    if names_folder(url) {
        let listed = match is_remote(url) {
            true => remote_folder(url, settings),
            false => local_folder(url),
        };
        return listed.map(Listed::Folder);
    }
    match list_file(url, only_ntuples, settings) {
        Err(error) if matches!(error.kind(), "not-a-file" | "file-not-found") && is_remote(url) => {
            // a directory whose URL has no slash at its end
            let (path, query) = url.split_at(url.find('?').unwrap_or(url.len()));
            match remote_folder(&format!("{path}/{query}"), settings) {
                Ok(folder) if !folder.entries.is_empty() => Ok(Listed::Folder(folder)),
                _ => Err(error),
            }
        }
        listed => listed.map(Listed::File),
    }
}

fn list_file(
    url: &str,
    only_ntuples: bool,
    settings: &BTreeMap<String, String>,
) -> Result<FileListing, RNTupleError> {
    let read = Settings::new(url, settings.clone())?;
    let look = |file: &RootFile| Ok((file.clone(), file.walk()?));
    let (file, entries) = look_into(url, &read, look)?;
    let options = OpenOptions {
        settings: settings.clone(),
        ..OpenOptions::default()
    };
    let is_wanted = |entry: &Entry| !only_ntuples || entry.key.class_name == RNTUPLE_CLASS;
    let entries = entries.into_iter().filter(is_wanted);
    let objects = entries.map(|entry| object(url, entry, &options)).collect();
    Ok(FileListing { file, objects })
}

fn object(url: &str, entry: Entry, options: &OpenOptions) -> ListedObject {
    let key = &entry.key;
    let mut size = Bytes {
        on_disk: key.n_bytes.into(),
        uncompressed: u64::from(key.key_len) + u64::from(key.object_len),
    };
    let (mut ntuple, mut tree_entries) = (None, None);
    let name = format!("{};{}", entry.path, key.cycle);
    if is_tree(&key.class_name) {
        if let Ok((opened, data)) = open(url, name, options) {
            tree_entries = Some(opened.n_entries());
            size += data.unwrap_or_default();
        }
    } else if key.class_name == RNTUPLE_CLASS {
        let found = open(url, name, options).and_then(|(opened, data)| Ok((opened, data?)));
        if let Ok((_, data)) = &found {
            size += *data;
        }
        ntuple = Some(match found {
            Ok((opened, _)) => ListedNTuple {
                n_entries: opened.n_entries(),
                description: description(&opened),
                error: None,
            },
            Err(error) => ListedNTuple {
                n_entries: 0,
                description: String::new(),
                error: Some((error.kind(), error.with_causes())),
            },
        });
    }
    ListedObject {
        entry,
        size,
        ntuple,
        tree_entries,
    }
}

/// An ntuple or a tree, and the size of its data.
fn open(
    url: &str,
    name: String,
    options: &OpenOptions,
) -> Result<(NTuple, Result<Bytes, RNTupleError>), RNTupleError> {
    let opened = NTuple::open(&[(url.to_owned(), Some(name))], options.clone())?;
    let size = match opened.readers().first() {
        Some(reader) => total(&opened, reader),
        None => Ok(Bytes::default()),
    };
    Ok((opened, size))
}

fn description(ntuple: &NTuple) -> String {
    let reader = ntuple.readers().first();
    reader.map_or_else(String::new, |reader| {
        reader.descriptor().description.clone()
    })
}

impl FileListing {
    /// Its size: of an ntuple in objects, that of its pages and metadata.
    fn n_bytes(&self) -> u64 {
        match is_object_set(self.file.source().url()) {
            true => self.objects.iter().map(|object| object.size.on_disk).sum(),
            false => self.file.source().meta().size,
        }
    }

    /// The document of `fb ls --json`.
    pub fn document(&self) -> Value {
        let header = self.file.header();
        let objects = self.objects.iter().map(ListedObject::document);
        json!({
            "file": self.file.source().url(),
            "bytes": self.n_bytes(),
            "root_version": header.root_version(),
            "uuid": header.uuid.to_string(),
            "compression": settings_name(header.compression),
            "objects": objects.collect::<Vec<_>>(),
        })
    }
}

impl ListedObject {
    fn document(&self) -> Value {
        let key = &self.entry.key;
        let mut value = json!({
            "path": self.entry.path,
            "name": key.name,
            "cycle": key.cycle,
            "class": key.class_name,
            "title": key.title,
            "datetime": key.datetime.to_string(),
            "offset": key.seek_key,
            "bytes_on_disk": self.size.on_disk,
            "bytes_uncompressed": self.size.uncompressed,
            "compression_factor": self.size.rounded_factor(),
        });
        let Value::Object(map) = &mut value else {
            return value;
        };
        if let Some(ntuple) = &self.ntuple {
            let error = ntuple.error.as_ref();
            let entries = error.is_none().then_some(ntuple.n_entries);
            let error = error.map(|(kind, message)| json!({"kind": kind, "message": message}));
            map.insert("num_entries".into(), entries.into());
            map.insert("description".into(), ntuple.description.clone().into());
            map.insert("error".into(), error.into());
        }
        if let Some(n_entries) = self.tree_entries {
            map.insert("num_entries".into(), n_entries.into());
        }
        value
    }

    /// The title as it is shown: of an ntuple without a title, its description.
    pub fn title(&self) -> &str {
        match &self.ntuple {
            Some(ntuple) if self.entry.key.title.is_empty() => &ntuple.description,
            _ => &self.entry.key.title,
        }
    }

    /// Number of entries of an ntuple or tree that can be opened.
    pub fn n_entries(&self) -> Option<u64> {
        let ntuple = self.ntuple.as_ref().filter(|ntuple| ntuple.error.is_none());
        ntuple.map(|ntuple| ntuple.n_entries).or(self.tree_entries)
    }
}

/// For listings, a warning about missing entries is better than an error.
fn remote_folder(
    url: &str,
    settings: &BTreeMap<String, String>,
) -> Result<FolderListing, RNTupleError> {
    let mut settings = settings.clone();
    settings.insert("partial_lists".to_owned(), "true".to_owned());
    let mut entries = list_folder(url, &Settings::new(url, settings)?)?;
    if is_object_set(url) {
        // what is listed are anchors, which do not tell the sizes of their ntuples
        for entry in &mut entries {
            entry.size = None;
        }
    }
    Ok(FolderListing {
        url: url.to_owned(),
        entries,
    })
}

fn local_folder(path: &str) -> Result<FolderListing, RNTupleError> {
    let entries = local_entries(&local(path)).map_err(|source| IoError::Open {
        url: path.to_owned(),
        source,
    })?;
    Ok(FolderListing {
        url: path.to_owned(),
        entries,
    })
}

fn local_entries(folder: &Path) -> std::io::Result<Vec<RemoteEntry>> {
    let mut entries = Vec::new();
    for entry in folder.read_dir()? {
        let entry = entry?;
        // for a link, use its target; keep a link without target
        let about = std::fs::metadata(entry.path()).or_else(|_| entry.metadata())?;
        entries.push(RemoteEntry {
            name: entry.file_name().to_string_lossy().into_owned(),
            is_folder: about.is_dir(),
            size: Some(about.len()),
            modified: about.modified().ok(),
        });
    }
    entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

impl FolderListing {
    /// The document of `fb ls --json`.
    pub fn document(&self) -> Value {
        let entries = self.entries.iter().map(entry_document);
        json!({"folder": public(&self.url), "entries": entries.collect::<Vec<_>>()})
    }
}

fn entry_document(entry: &RemoteEntry) -> Value {
    let modified = entry.modified;
    let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    json!({
        "name": entry.name,
        "is_folder": entry.is_folder,
        "bytes": entry.size.filter(|_| !entry.is_folder),
        "modified": modified.map(|since| since.as_secs()),
    })
}
