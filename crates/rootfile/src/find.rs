//! Finding keys by path.

use std::collections::BTreeSet;

use femtobarn_io::most_alike;

use crate::directory::split_cycle;
use crate::{Directory, Key, RootFile, RootFileError};

/// How many directories are searched for names similar to a missing one.
const DIRECTORIES_FOR_HINTS: usize = 64;

/// How many similar names are listed.
const HINTS: usize = 3;

impl RootFile {
    /// Finds the key at `path`: names of directories and of an object separated by `/`, each with or without `;cycle`.
    /// Without a cycle, the highest one. Costs two reads per directory on the path, and none for the root directory.
    ///
    /// # Errors
    /// [`RootFileError::KeyNotFound`], with the most similar names; or if a directory on the path cannot be read.
    pub fn find(&self, path: &str) -> Result<Key, RootFileError> {
        let path = normalized(path);
        match self.find_in(self.root(), &path, &|_| true)? {
            Some(key) => Ok(key),
            None => Err(self.not_found(path)),
        }
    }

    /// Like [`find`](Self::find), but takes the highest wanted cycle, if there is one: newer objects of the same name may
    /// have any class.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn find_wanted(
        &self,
        path: &str,
        is_wanted: &dyn Fn(&Key) -> bool,
    ) -> Result<Key, RootFileError> {
        let path = normalized(path);
        match self.find_in(self.root(), &path, is_wanted)? {
            Some(key) => Ok(key),
            None => self.find(&path),
        }
    }

    /// Finds the directory at `path`; the root directory if that is empty or `/`.
    ///
    /// # Errors
    /// As [`find`](Self::find); [`RootFileError::NotADirectory`] if the object there is not a directory.
    pub fn directory(&self, path: &str) -> Result<Directory, RootFileError> {
        let path = normalized(path);
        if path.is_empty() {
            return Ok(self.root().clone());
        }
        let key = self.find(&path)?;
        if !key.is_directory() {
            let (url, found) = (self.source().url().to_owned(), key.class_name);
            return Err(RootFileError::NotADirectory { url, path, found });
        }
        self.read_directory(path, &key)
    }

    fn read_directory(&self, path: String, key: &Key) -> Result<Directory, RootFileError> {
        let mut budget = self.source().meta().size;
        let mut directories = self.read_directories(&[(path.clone(), key)], &mut budget)?;
        directories.pop().ok_or_else(|| self.not_found(path))
    }

    /// Names may contain slashes: the path is split at each of its slashes, the shortest directory name first, and
    /// finally taken as one name.
    fn find_in(
        &self,
        directory: &Directory,
        path: &str,
        is_wanted: &dyn Fn(&Key) -> bool,
    ) -> Result<Option<Key>, RootFileError> {
        for (at, _) in path.match_indices('/') {
            let (name, rest) = path.split_at(at);
            let Some(key) = directory.get_wanted(name, &Key::is_directory) else {
                continue;
            };
            let below = self.read_directory(directory.path_of(name), key)?;
            if let Some(found) = self.find_in(&below, rest.trim_start_matches('/'), is_wanted)? {
                return Ok(Some(found));
            }
        }
        Ok(directory.get_wanted(path, is_wanted).cloned())
    }

    fn not_found(&self, path: String) -> RootFileError {
        // only hints: if the file is too damaged, use the names of the root directory
        let names = match self.walk_some(DIRECTORIES_FOR_HINTS) {
            Ok(entries) => entries
                .into_iter()
                .map(|entry| (entry.path, entry.key.cycle))
                .collect(),
            Err(_) => self
                .keys()
                .iter()
                .map(|key| (key.name.clone(), key.cycle))
                .collect(),
        };
        let nearest = nearest(&path, names);
        RootFileError::KeyNotFound {
            url: self.source().url().to_owned(),
            path,
            nearest,
        }
    }
}

/// The path without empty components.
fn normalized(path: &str) -> String {
    path.split('/')
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("/")
}

/// The names most similar to `path`, comparing the whole path and the last component, ignoring case.
fn nearest(path: &str, names: Vec<(String, u16)>) -> Vec<String> {
    let with_cycle = split_cycle(path).is_some();
    let names: BTreeSet<String> = names
        .into_iter()
        .map(|(name, cycle)| {
            if with_cycle {
                format!("{name};{cycle}")
            } else {
                name
            }
        })
        .collect();
    most_alike(path, names, HINTS)
}
