//! Options.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::numbers;
use crate::transfer::{NUMBERS, TransferError, Words, quoted};

/// Action if a product already exists with another value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// It is an error.
    #[default]
    Raise,
    /// The stored value is kept.
    Keep,
    /// The stored value is replaced.
    Replace,
}

/// How files are ingested.
#[derive(Debug, Clone)]
pub struct IngestOptions {
    /// Patterns of groups of HDF5 files; all by default.
    pub groups: Vec<String>,
    /// Names and patterns of fields that become products; all by default.
    pub fields: Vec<String>,
    /// Names and patterns of fields that do not.
    pub drop: Vec<String>,
    /// The namespace that classes are put into.
    pub namespace: String,
    /// The name of the ntuple or tree in ROOT files.
    pub tree: Option<String>,
    /// The sources of run, subrun and event: fields, or numbers.
    pub numbers: [Option<String>; 3],
    /// Whether `nMuon`, `Muon_pt`, … become one product `Muon`.
    pub collections: bool,
    /// Action if a product already exists with another value.
    pub on_conflict: OnConflict,
    /// Whether files are read that are noted to be in the dataset.
    pub again: bool,
    /// Files that are read at the same time; by default as many as there are threads, and of small files one.
    pub workers: Option<usize>,
    /// Threads for reading.
    pub threads: usize,
    /// Settings for servers.
    pub settings: BTreeMap<String, String>,
    /// How messages name options.
    pub words: Words,
    /// Bytes of entries that are read together, about.
    pub step_bytes: u64,
    /// Containers and products of a batch.
    pub batch_items: usize,
    /// Whether a file is read ahead.
    pub prefetch: bool,
}

impl Default for IngestOptions {
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            fields: Vec::new(),
            drop: Vec::new(),
            namespace: String::new(),
            tree: None,
            numbers: [None, None, None],
            collections: false,
            on_conflict: OnConflict::default(),
            again: false,
            workers: None,
            threads: 1,
            settings: BTreeMap::new(),
            words: Words::default(),
            step_bytes: 64 << 20,
            batch_items: 1 << 16,
            prefetch: true,
        }
    }
}

impl IngestOptions {
    /// Checks options, and brings them into their usual form.
    pub(super) fn checked(mut self) -> Result<Self, TransferError> {
        for patterns in [&mut self.groups, &mut self.fields, &mut self.drop] {
            for pattern in patterns {
                *pattern = pattern.trim_matches('/').to_owned();
            }
        }
        self.namespace = plain_namespace(&self.namespace)?;
        for (number, given) in NUMBERS.iter().zip(&self.numbers) {
            let given = given.as_deref().unwrap_or_default();
            if given.strip_prefix('-').is_some_and(numbers::is_number) {
                let option = format!(
                    "{}{}",
                    self.words.name(number),
                    if self.words == Words::Shell { " " } else { "" }
                );
                return Err(TransferError::usage(format!(
                    "{option}{given}: {number} numbers must not be negative: give another number, or the name of a field"
                )));
            }
        }
        Ok(self)
    }

    /// The number of a source that is one, as an error about other formats needs it.
    pub(super) fn number(&self, at: usize) -> Option<&str> {
        let given = self.numbers.get(at)?.as_deref()?;
        numbers::is_number(given).then_some(given)
    }

    /// What notes record of the options.
    pub(super) fn chosen(&self) -> Value {
        let index = ["run", "subrun", "evt"].iter().zip(&self.numbers);
        let index: Vec<&str> = index
            .map(|(usual, given)| given.as_deref().unwrap_or(usual))
            .collect();
        let mut chosen = json!({
            "groups": self.groups,
            "fields": self.fields,
            "drop": self.drop,
            "namespace": self.namespace,
            "index": index,
            "tree": self.tree,
            "collections": self.collections,
        });
        if let Some(chosen) = chosen.as_object_mut() {
            for (number, given) in NUMBERS.iter().zip(&self.numbers) {
                if let Some(given) = given {
                    chosen.insert((*number).into(), given.as_str().into());
                }
            }
        }
        chosen
    }
}

/// A namespace of C++ without colons around it.
///
/// # Errors
/// If it is not a name of C++, or is one of ours.
pub fn plain_namespace(text: &str) -> Result<String, TransferError> {
    let namespace = text.trim_matches(':');
    let is_bad = |part: &str| !crate::products::is_cpp_name(part);
    let is_ours = namespace
        .split("::")
        .next()
        .is_some_and(|first| ["fb", "hepnos"].contains(&first));
    if !namespace.is_empty() && (is_ours || namespace.split("::").any(is_bad)) {
        return Err(TransferError::usage(format!(
            "namespace must be a C++ name, e.g. 'hep' or 'nova::caf', not {}",
            quoted(text)
        )));
    }
    Ok(namespace.to_owned())
}
