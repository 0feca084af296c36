//! Appends to an existing output: its ntuples are continued from their metadata, and none of its data are read.

use std::collections::HashMap;
use std::path::Path;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::write::{NTupleMerger, WriteOptions};
use femtobarn_rootfile::{FileWriter, Key};

use super::attributes::AttributeSets;
use super::trees::Trees;
use super::{Job, MergeOptions, page_options};
use crate::inputs::Chosen;
use crate::inputs::{Opened, wanted};
use crate::objects::RNTUPLE_CLASS;
use crate::objects::holds_entries;
use crate::writable::{Output, lock};

/// The contents of the output before.
pub(super) struct Existing {
    pub opened: Opened,
    /// The newest object of each path, an RNTuple or tree if one has it.
    pub keys: HashMap<String, Key>,
    /// Entries of the ntuples that are continued.
    n_entries: HashMap<String, u64>,
}

/// Begins to add to a file. Until it is finished, readers see the old contents; and if this fails, the added data are
/// removed.
///
/// # Errors
/// If it is not a ROOT file, may not be written to, or another writer adds to it.
pub(super) fn begin<'o>(
    output: &Path,
    options: &'o MergeOptions,
    trees: Trees,
) -> Result<Job<'o>, RNTupleError> {
    let (sink, source) = lock(&output.to_string_lossy())?;
    let opened = Opened::of(source)?;
    let writer = Output::File(Box::new(FileWriter::update(sink, &opened.file)?));
    proceed((opened, writer), options, trees)
}

/// Continues an output that has been opened.
pub(super) fn proceed<'o>(
    (opened, writer): (Opened, Output),
    options: &'o MergeOptions,
    trees: Trees,
) -> Result<Job<'o>, RNTupleError> {
    let mut job = Job::new(writer, options, trees);
    job.report.bytes_before = Some(opened.source.meta().size);
    let mut keys: HashMap<String, Key> = HashMap::new();
    for (path, key) in wanted(&opened.file, None)? {
        job.paths.know(&path, &key);
        if holds_entries(&key) || !keys.contains_key(&path) {
            keys.insert(path, key);
        }
    }
    job.existing = Some(Existing {
        keys,
        n_entries: HashMap::new(),
        opened,
    });
    Ok(job)
}

impl Job<'_> {
    /// Whether the output had an object with this name.
    pub(super) fn has(&self, path: &str) -> bool {
        let existing = self.existing.as_ref();
        existing.is_some_and(|existing| existing.keys.contains_key(path))
    }

    /// Insists that names of fields that are there mean one branch each of the trees that are added.
    pub(super) fn check_existing_names(&self) -> Result<(), RNTupleError> {
        let Some(existing) = &self.existing else {
            return Ok(());
        };
        for path in existing.n_entries.keys() {
            if let Some(key) = existing.keys.get(path)
                && self.trees.has_names_of(path)
            {
                self.trees
                    .check_names(&existing.opened.reader(path, key)?)?;
            }
        }
        Ok(())
    }

    /// Number of entries of an ntuple before.
    pub(super) fn n_before(&self, path: &str) -> u64 {
        let existing = self.existing.as_ref();
        let found = existing.and_then(|existing| existing.n_entries.get(path));
        found.copied().unwrap_or(0)
    }

    /// Goes on with an ntuple that the output has; none if it has none.
    pub(super) fn resume(&mut self, path: &str) -> Result<Option<usize>, RNTupleError> {
        let Some(existing) = &mut self.existing else {
            return Ok(None);
        };
        let key = existing.keys.get(path);
        let Some(key) = key.filter(|key| key.class_name == RNTUPLE_CLASS) else {
            return Ok(None);
        };
        let ntuple = existing.opened.reader(path, key)?;
        self.fields.note_counters(&ntuple);
        insist_on_all_fields(&ntuple, path, &self.fields)?;
        existing
            .n_entries
            .insert(path.to_owned(), ntuple.n_entries());
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let directory = self.file.directory(folder)?;
        let write = WriteOptions::clone(&self.options.write);
        let merger = NTupleMerger::resume(
            (directory, name),
            &ntuple,
            page_options((self.options, self.scope.of(path)), &ntuple, write),
        )?;
        let sets = AttributeSets::of(ntuple);
        self.attributes.insert(path.to_owned(), sets);
        Ok(Some(self.push(path, merger)))
    }
}

/// New entries have all fields of an ntuple that is continued, whichever are asked for.
fn insist_on_all_fields(
    ntuple: &Reader,
    path: &str,
    fields: &Chosen<'_>,
) -> Result<(), RNTupleError> {
    let descriptor = ntuple.descriptor();
    let mut names = descriptor
        .top_level
        .iter()
        .map(|&id| descriptor.field_name(id));
    match names.find(|name| !fields.takes(path, name)) {
        None => Ok(()),
        Some(name) => Err(RNTupleError::Usage {
            what: format!(
                "{}:{} has a field {name:?}, which appended entries need too: select it as well",
                ntuple.url(),
                ntuple.path()
            ),
        }),
    }
}
