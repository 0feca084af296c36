//! Objects that are not ntuples: histograms are added up, of others the first is taken.

use bytes::Bytes;
use femtobarn_codec::xxh3;
use femtobarn_histogram::{HistogramError, moved_object, named_classes};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rootfile::{FileWriter, Key};
use femtobarn_ttree::is_tree;

use super::histograms::is_summed;
use super::{Job, MergedInput, Opened, OtherObjects};
use crate::left_behind::LeftBehind;
use crate::objects::RNTUPLE_CLASS;

/// The class of anchors before version 1.0 of the format.
const OLD_RNTUPLE_CLASS: &str = "ROOT::Experimental::RNTuple";
const OLD_RNTUPLE: &str = "it was written before version 1.0 of the format, and can only be read by the ROOT version \
                           that wrote it: leave it out (others=\"drop\", --others drop)";

impl Job<'_> {
    /// Adds a histogram to the histograms with its path.
    pub(super) fn add_histogram(
        &mut self,
        opened: &Opened,
        path: &str,
        key: &Key,
        merged: &mut MergedInput,
    ) -> Result<(), RNTupleError> {
        let is_new = !self.histograms.has(path);
        let before = self.existing.as_ref().filter(|_| is_new);
        let before = before.and_then(|existing| Some((existing, existing.keys.get(path)?)));
        let is_another = match before {
            Some((_, known)) => !is_summed(known),
            None => is_new && self.taken.contains(path),
        };
        if self.known.contains_key(path) || is_another {
            return Err(taken(opened, path, &key.class_name));
        }
        if let Some((existing, known)) = before {
            let output = (&existing.opened, self.file.root_file()?);
            self.histograms.add(output, path, known)?;
        }
        self.histograms
            .add((opened, self.file.root_file()?), path, key)?;
        self.taken.insert(path.to_owned());
        merged.histograms += 1;
        Ok(())
    }

    /// Takes an object of any other class, if requested.
    pub(super) fn add_other(
        &mut self,
        opened: &Opened,
        path: &str,
        key: &Key,
        merged: &mut MergedInput,
    ) -> Result<(), RNTupleError> {
        let others = self.options.others;
        check_other(opened, path, key, others)?;
        let is_taken = self.taken.contains(path) || self.has(path);
        let is_known = match others {
            OtherObjects::Error | OtherObjects::Drop => true,
            _ if self.known.contains_key(path) => {
                return Err(taken(opened, path, &key.class_name));
            }
            OtherObjects::First => is_taken || self.summed.contains(path),
            OtherObjects::Same if self.summed.contains(path) => {
                return Err(taken(opened, path, &key.class_name));
            }
            OtherObjects::Same => is_taken,
        };
        if !is_known {
            self.paths.add(opened.source.url(), path, key)?;
            let settings = self.options.write.compression;
            let object = copy_object(self.file.root_file()?, opened, (path, key), settings)?;
            if others == OtherObjects::Same {
                let content = Content::of(opened, key, &object);
                self.copied.insert(path.to_owned(), content);
            }
            self.taken.insert(path.to_owned());
        } else if others == OtherObjects::Same {
            self.check_same(opened, path, key)?;
        } else {
            let item = LeftBehind::object(path, &key.class_name, others.why_left());
            merged.left.push(item);
        }
        Ok(())
    }

    /// Checks that an object is the same as the one with its name that was taken, or that the output had.
    fn check_same(&mut self, opened: &Opened, path: &str, key: &Key) -> Result<(), RNTupleError> {
        if let Some(existing) = &self.existing
            && let Some(known) = existing.keys.get(path)
            && !self.copied.contains_key(path)
        {
            if known.is_directory() || is_summed(known) {
                return Err(taken(opened, path, &key.class_name));
            }
            let object = existing.opened.file.read_object(known)?;
            let content = Content::of(&existing.opened, known, &object);
            self.copied.insert(path.to_owned(), content);
        }
        match self.copied.get(path) {
            Some(content) => content.check(opened, path, key),
            None => Err(taken(opened, path, &key.class_name)),
        }
    }
}

/// What an object is known by, to be compared with objects of its name in other files.
pub(super) struct Content {
    /// The file that has it.
    url: String,
    class: String,
    title: String,
    /// The length of its key, on which references in it depend.
    key_len: u16,
    digest: (usize, u64),
}

impl Content {
    pub fn of(opened: &Opened, key: &Key, object: &[u8]) -> Self {
        Self {
            url: opened.source.url().to_owned(),
            class: key.class_name.clone(),
            title: key.title.clone(),
            key_len: key.key_len,
            digest: (object.len(), xxh3(object)),
        }
    }

    /// Checks that an object of another file is the same.
    ///
    /// # Errors
    /// If it is another one, or cannot be read.
    pub fn check(&self, opened: &Opened, path: &str, key: &Key) -> Result<(), RNTupleError> {
        match self.is(opened, key, &opened.file.read_object(key)?)? {
            true => Ok(()),
            false => Err(unlike(opened, path, key, self)),
        }
    }

    fn is(&self, opened: &Opened, key: &Key, object: &[u8]) -> Result<bool, RNTupleError> {
        if (&self.class, &self.title) != (&key.class_name, &key.title) {
            return Ok(false);
        }
        let key_lens = (key.key_len, self.key_len);
        let moved = moved_object(&key.class_name, object, key_lens, &*opened.infos()?);
        Ok(moved.is_ok_and(|moved| (moved.len(), xxh3(&moved)) == self.digest))
    }
}

/// Writes an object of an input under its own name, with what describes its class; returns the object.
pub(super) fn copy_object(
    file: &mut FileWriter,
    opened: &Opened,
    (path, key): (&str, &Key),
    settings: u32,
) -> Result<Bytes, RNTupleError> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let directory = file.directory(folder)?;
    let object = opened.file.read_object(key)?;
    if let Some(class) = with_data_elsewhere(opened, named_classes(&object))? {
        return Err(nested(opened, path, key, class));
    }
    opened.describe_in(file)?;
    let names = (key.class_name.as_str(), name, key.title.as_str());
    let (narrow, wide) = (
        file.next_key_len(directory, names, false)?,
        file.next_key_len(directory, names, true)?,
    );
    if key.key_len == wide {
        file.write_object_wide(directory, names, &object, settings)?;
        return Ok(object);
    }
    let mut written = object.clone();
    if key.key_len != narrow {
        let key_lens = (key.key_len, narrow);
        let infos = opened.infos()?;
        let moved = moved_object(&key.class_name, &object, key_lens, &infos);
        written = moved
            .map_err(|error| cannot_move(opened, path, key, &error))?
            .into();
    }
    file.write_object(directory, names, &written, settings)?;
    Ok(object)
}

/// Checks that an object that is not an ntuple, directory or histogram can be treated as requested.
pub(super) fn check_other(
    opened: &Opened,
    path: &str,
    key: &Key,
    others: OtherObjects,
) -> Result<(), RNTupleError> {
    match others {
        OtherObjects::Drop => Ok(()),
        OtherObjects::Same | OtherObjects::First if !has_baskets(opened, key)? => Ok(()),
        _ => Err(refused(opened, path, key)),
    }
}

/// Checks that a named object can be copied.
pub(super) fn check_named(opened: &Opened, path: &str, key: &Key) -> Result<(), RNTupleError> {
    let url = opened.source.url();
    let what = if key.is_directory() {
        format!(
            "{url}:{path} is a directory: name an object in it, or give only the file for all objects"
        )
    } else if key.class_name == OLD_RNTUPLE_CLASS {
        format!("{url}:{path} is a {OLD_RNTUPLE_CLASS}: {OLD_RNTUPLE}")
    } else if !is_summed(key) && key.class_name != RNTUPLE_CLASS && has_baskets(opened, key)? {
        format!(
            "{url}:{path} is a {} with a tree in it, whose data are stored elsewhere in the file and would not be \
             copied",
            key.class_name
        )
    } else {
        return Ok(());
    };
    Err(RNTupleError::Usage { what })
}

/// Whether the data of the object are elsewhere in the file, like those of trees, and would not be copied.
fn has_baskets(opened: &Opened, key: &Key) -> Result<bool, RNTupleError> {
    let class = std::iter::once(key.class_name.as_str());
    Ok(with_data_elsewhere(opened, class)?.is_some())
}

/// The first of some classes whose data are elsewhere in the file.
fn with_data_elsewhere<'c>(
    opened: &Opened,
    mut classes: impl Iterator<Item = &'c str>,
) -> Result<Option<&'c str>, RNTupleError> {
    let infos = opened.infos()?;
    // the trees of a chain are in other files
    Ok(classes.find(|&class| {
        class == RNTUPLE_CLASS
            || class == OLD_RNTUPLE_CLASS
            || is_tree(class)
            || infos.holds(class, "TTree", "TChain")
    }))
}

/// The error of an object that is not merged.
fn refused(opened: &Opened, path: &str, key: &Key) -> RNTupleError {
    let (url, class) = (opened.source.url(), &key.class_name);
    let advice = match has_baskets(opened, key) {
        _ if key.class_name == OLD_RNTUPLE_CLASS => OLD_RNTUPLE,
        Ok(true) => {
            "it contains a tree, whose data are stored elsewhere in the file and would not be copied: leave it out \
             (others=\"drop\", --others drop)"
        }
        _ => {
            "others=\"error\" (--others error) allows no such objects: without it, objects that are the same in all \
             files are kept; others=\"drop\" (--others drop) leaves them out"
        }
    };
    RNTupleError::Usage {
        what: format!("{url} has a {class} called {path:?}, which is not an RNTuple: {advice}"),
    }
}

/// The error of an object that differs from the one with its name.
fn unlike(opened: &Opened, path: &str, key: &Key, first: &Content) -> RNTupleError {
    let (url, class) = (opened.source.url(), &key.class_name);
    RNTupleError::Usage {
        what: format!(
            "the {class} {path:?} of {url} differs from the {} {path:?} of {}: --others first, in Python \
             others=\"first\", takes the first; --others drop, others=\"drop\", leaves both out",
            first.class, first.url
        ),
    }
}

/// The error of an object that contains another one whose data are elsewhere in the file.
fn nested(opened: &Opened, path: &str, key: &Key, within: &str) -> RNTupleError {
    let (url, class) = (opened.source.url(), &key.class_name);
    RNTupleError::Usage {
        what: format!(
            "{url} has a {class} called {path:?} with a {within} in it, whose data are stored elsewhere in the file \
             and would not be copied: leave it out (others=\"drop\", --others drop)"
        ),
    }
}

/// The error of an object whose record would differ from the input.
fn cannot_move(opened: &Opened, path: &str, key: &Key, error: &HistogramError) -> RNTupleError {
    let (url, class) = (opened.source.url(), &key.class_name);
    RNTupleError::Usage {
        what: format!(
            "cannot copy the {class} {path:?} of {url} to a position that needs a key of another length, as beyond 2 \
             GB: {error} (--others drop, in Python others=\"drop\", leaves such objects out)"
        ),
    }
}

/// The error of two objects of one name.
pub(super) fn taken(opened: &Opened, path: &str, class: &str) -> RNTupleError {
    let url = opened.source.url();
    RNTupleError::Usage {
        what: format!(
            "{url} has a {class} called {path:?}, and it or another file has a different object with this name: name \
             the objects to merge them alone (FILE:NAME)"
        ),
    }
}
