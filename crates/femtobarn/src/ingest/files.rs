//! The files to ingest: what they are, and the notes in a dataset that they are complete there.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use femtobarn_events::{DataSet, EventsError, FILE_NOTES, ProductName};
use femtobarn_io::{is_remote, public};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use super::IngestOptions;
use crate::choice::Choice;
use crate::transfer::{TransferError, quoted, spaced};

/// The type of the products that note files.
const NOTE_TYPE: &str = "std::string";

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// HDF5, which others read.
    Hdf5,
    /// A ROOT file.
    Root,
}

impl FileKind {
    /// The format of a file, by its content. Files on servers are ROOT files, unless their names end like HDF5 files.
    ///
    /// # Errors
    /// If the file does not exist, has another format, is a directory, or is HDF5 on a server.
    pub fn of(path: &str) -> Result<Self, TransferError> {
        if is_remote(path) || path.contains("://") {
            let public = public(path);
            let plain = public.split('?').next().unwrap_or_default().to_lowercase();
            if [".h5", ".hdf5", ".he5"]
                .iter()
                .any(|end| plain.ends_with(end))
            {
                return Err(TransferError::usage(format!(
                    "{public}: HDF5 files can only be read from local disks: copy it with `fb cp`"
                )));
            }
            return Ok(Self::Root);
        }
        if Path::new(path).is_dir() {
            return Err(is_folder(path));
        }
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => {
                TransferError::new("file-not-found", format!("{path}: no such file"))
            }
            _ => TransferError::new("io", format!("{path}: {error}")),
        };
        let mut file = File::open(path).map_err(failed)?;
        let start = bytes_at(&mut file, 0, 12).map_err(failed)?;
        // the first object of a ROOT file is at 100; a text file may begin with "root" as well
        let first = start.get(8..12).and_then(|bytes| bytes.try_into().ok());
        let is_near = first.is_some_and(|first| u32::from_be_bytes(first) <= 1 << 16);
        if start.starts_with(b"root") && is_near {
            return Ok(Self::Root);
        }
        if is_hdf5(&mut file).map_err(failed)? {
            return Ok(Self::Hdf5);
        }
        let start = start.get(..8).unwrap_or(&start);
        let found = match start {
            [] => "it is empty".to_owned(),
            start => format!("it begins with b'{}'", start.escape_ascii()),
        };
        let what = format!("{path}: neither HDF5 nor a ROOT file: {found}");
        Err(TransferError::new("format", what))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hdf5 => "hdf5",
            Self::Root => "root",
        }
    }
}

fn is_folder(path: &str) -> TransferError {
    let has = |ending: &str| {
        let found = glob::glob(&format!("{}/*{ending}", glob::Pattern::escape(path)));
        found.is_ok_and(|mut found| found.next().is_some())
    };
    let ending = if has(".root") && !has(".h5") {
        "*.root"
    } else {
        "*.h5"
    };
    let files = Path::new(path).join(ending);
    TransferError::usage(format!(
        "{path}: this is a directory: give its files, e.g. {}",
        quoted(&files.to_string_lossy())
    ))
}

fn bytes_at(file: &mut File, at: u64, n: u64) -> std::io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.take(n).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether the signature of HDF5 is at the beginning, or after a user block of 512, 1024, 2048, … bytes.
fn is_hdf5(file: &mut File) -> std::io::Result<bool> {
    const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";
    let mut at = 0;
    loop {
        let found = bytes_at(file, at, SIGNATURE.len() as u64)?;
        if found.len() < SIGNATURE.len() {
            return Ok(false);
        }
        if found == SIGNATURE {
            return Ok(true);
        }
        at = at.saturating_mul(2).max(512);
    }
}

/// A file to ingest, and its state.
#[derive(Debug, Clone)]
pub struct IngestFile {
    /// Its path or URL.
    pub path: String,
    /// The name of the ntuple or tree in it, if one is given.
    pub name: Option<String>,
    /// Its format.
    pub kind: FileKind,
    /// Its bytes; 0 on a server.
    pub size: u64,
    /// The note of the complete file; none on a server, where its age is unknown.
    note: Option<Value>,
    /// The label of the note.
    pub(super) label: String,
    pub(super) events: u64,
    pub(super) products: u64,
    pub(super) conflicts: u64,
    /// New products.
    pub(super) new: u64,
}

impl IngestFile {
    pub(super) fn new(
        path: &str,
        name: Option<&str>,
        kind: FileKind,
        dataset: &DataSet,
        options: &IngestOptions,
    ) -> Result<Self, TransferError> {
        let mut file = Self {
            path: path.to_owned(),
            name: name.map(str::to_owned),
            kind,
            size: 0,
            note: None,
            label: public(path),
            events: 0,
            products: 0,
            conflicts: 0,
            new: 0,
        };
        if path.contains("://") {
            return Ok(file);
        }
        let failed = |error: std::io::Error| TransferError::new("io", format!("{path}: {error}"));
        let real = std::fs::canonicalize(path).map_err(failed)?;
        let stat = std::fs::metadata(&real).map_err(failed)?;
        let mtime_ns = i128::from(stat.mtime()) * 1_000_000_000 + i128::from(stat.mtime_nsec());
        file.size = stat.len();
        file.note = Some(json!({
            // so that a copied note does not apply to another dataset
            "dataset": hex(&dataset.uuid().0),
            "file": real.to_string_lossy(),
            "name": name,
            "size": file.size,
            "mtime_ns": i64::try_from(mtime_ns).unwrap_or(i64::MAX),
            "chosen": options.chosen(),
        }));
        let mut identity = real.as_os_str().as_bytes().to_vec();
        identity.push(0);
        identity.extend_from_slice(name.unwrap_or_default().as_bytes());
        let digest = hex(digest(&SHA256, &identity).as_ref());
        let own = real
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .replace('#', "_");
        let own: String = own
            .replace(char::REPLACEMENT_CHARACTER, "?")
            .chars()
            .take(200)
            .collect();
        file.label = format!("{FILE_NOTES}{own}/{}", digest.get(..32).unwrap_or(&digest));
        Ok(file)
    }

    /// The path or URL for messages, without secrets.
    pub fn shown(&self) -> String {
        public(&self.path)
    }

    /// Whether the dataset has the complete file.
    pub(super) fn is_done(
        &self,
        dataset: &DataSet,
        options: &IngestOptions,
    ) -> Result<bool, TransferError> {
        let Some(note) = self.note.as_ref().and_then(Value::as_object) else {
            return Ok(false);
        };
        let Some(noted) = load_note(dataset, &ProductName::new(&self.label, NOTE_TYPE)?)? else {
            return Ok(false);
        };
        let namespace = |chosen: &Value| {
            chosen
                .get("namespace")
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let chosen = options.chosen();
        let (own, before) = (
            namespace(&chosen),
            namespace(noted.get("chosen").unwrap_or(&chosen)),
        );
        if own != before && noted.get("dataset") == note.get("dataset") {
            let words = options.words;
            let [before, own] =
                [before, own].map(|name| words.with("namespace", &name.unwrap_or_default()));
            return Err(TransferError::usage(format!(
                "{}: dataset {} already has this file, with classes of {before}: with {own} it would have each product \
                 twice, with two types; force this with {}",
                self.path,
                quoted(dataset.path().as_str()),
                words.on("again")
            )));
        }
        let had_conflicts = noted.get("conflicts").and_then(Value::as_u64).unwrap_or(0) > 0;
        if had_conflicts && noted.get("on_conflict") != Some(&options.on_conflict.name().into()) {
            return Ok(false); // they were to be treated in another way
        }
        Ok(note
            .iter()
            .all(|(name, value)| noted.get(name) == Some(value)))
    }

    /// Notes in the dataset that it is complete there.
    pub(super) fn note(
        &self,
        dataset: &DataSet,
        options: &IngestOptions,
    ) -> Result<(), TransferError> {
        let Some(Value::Object(mut note)) = self.note.clone() else {
            return Ok(());
        };
        note.insert("events".into(), self.events.into());
        note.insert("products".into(), self.products.into());
        if self.conflicts > 0 {
            note.insert("conflicts".into(), self.conflicts.into());
            note.insert("on_conflict".into(), options.on_conflict.name().into());
        }
        let text = ascii(&spaced(&Value::Object(note)));
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        let name = ProductName::new(&self.label, NOTE_TYPE)?;
        dataset.store(&name, &bytes, femtobarn_events::Overwrite::Replace)?;
        dataset.datastore().flush()?;
        Ok(())
    }

    /// Whether the file was noted, and is another one now.
    pub(super) fn has_changed(
        &self,
        dataset: &DataSet,
        options: &IngestOptions,
    ) -> Result<bool, TransferError> {
        let now = Self::new(
            &self.path,
            self.name.as_deref(),
            self.kind,
            dataset,
            options,
        )?;
        Ok(now.note != self.note)
    }
}

/// Whether a product of a dataset notes an ingested file, which applies to no other dataset.
pub(crate) fn is_file_note(label: &str, type_name: &str) -> bool {
    let rest = label.strip_prefix(FILE_NOTES);
    let parts = rest.and_then(|rest| rest.split_once('/'));
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    type_name == NOTE_TYPE
        && parts.is_some_and(|(file, digest)| {
            !file.is_empty() && digest.len() == 32 && digest.bytes().all(is_digit)
        })
}

/// The notes of files in a dataset.
pub(super) fn notes(dataset: &DataSet) -> Result<Vec<ProductName>, EventsError> {
    let mut names = dataset.names(None)?;
    names.retain(|name| is_file_note(name.label(), name.type_name()));
    Ok(names)
}

/// The content of a note; none if it does not exist.
pub(super) fn load_note(
    dataset: &DataSet,
    name: &ProductName,
) -> Result<Option<Map<String, Value>>, TransferError> {
    let Some(stored) = dataset.load(name)? else {
        return Ok(None);
    };
    let text = stored.get(8..).unwrap_or_default();
    let noted = serde_json::from_slice(text).map_err(|error| {
        let what = format!(
            "dataset {}: the note {} is damaged: {error}",
            quoted(dataset.path().as_str()),
            name.label()
        );
        TransferError::new("format", what)
    })?;
    Ok(Some(noted))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// JSON with escapes for all that is not ASCII.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c.is_ascii() {
            true => out.push(c),
            false => {
                let units = c.encode_utf16(&mut [0; 2]).to_vec();
                out.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_files_are_known_by_label_and_type() {
        let digest = "0123456789abcdef0123456789abcdef";
        assert!(is_file_note(
            &format!("ingested/a.root/{digest}"),
            "std::string"
        ));
        assert!(!is_file_note(&format!("ingested/a.root/{digest}"), "bytes"));
        assert!(!is_file_note("ingested/by", "std::string"));
        assert!(!is_file_note(&format!("ingested//{digest}"), "std::string"));
    }

    #[test]
    fn json_is_written_in_ascii() {
        assert_eq!(ascii("\"ü\u{1F600}\""), "\"\\u00fc\\ud83d\\ude00\"");
    }
}
