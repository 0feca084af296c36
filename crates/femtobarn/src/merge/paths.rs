//! The paths of the output: a name is that of a directory or of something else, not of both.

use std::collections::HashSet;

use femtobarn_io::public;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rootfile::Key;

/// Paths that are taken.
#[derive(Debug, Default)]
pub(super) struct Paths {
    directories: HashSet<String>,
    objects: HashSet<String>,
}

impl Paths {
    /// Adds what the output has already, whatever else it has: that is as it is.
    pub fn know(&mut self, path: &str, key: &Key) {
        let known = match key.is_directory() {
            true => &mut self.directories,
            false => &mut self.objects,
        };
        known.insert(path.to_owned());
        let above = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        self.directories.extend(above.map(str::to_owned));
    }

    /// Adds a directory or object of a file, with the directories that lead to it.
    ///
    /// # Errors
    /// If it cannot have that path. Objects with the same path are not an error.
    pub fn add(&mut self, url: &str, path: &str, key: &Key) -> Result<(), RNTupleError> {
        let (url, class) = (public(url), &key.class_name);
        let refused = |what: &str| RNTupleError::Usage {
            what: format!(
                "{url} has a {class} called {path:?}, but {what}, and a file cannot have both: name the ntuples to \
                 merge them alone (FILE:NAME), or leave out other objects (others=\"drop\", --others drop)"
            ),
        };
        let is_known = |known: &HashSet<String>| known.contains(path);
        if key.is_directory() {
            if is_known(&self.objects) && !is_known(&self.directories) {
                return Err(refused("another object has this name"));
            }
            self.directories.insert(path.to_owned());
        } else if is_known(&self.directories) && !is_known(&self.objects) {
            return Err(refused("a directory has this name"));
        } else if !is_known(&self.objects) {
            self.objects.insert(path.to_owned());
        }
        let mut above = path;
        while let Some((folder, _)) = above.rsplit_once('/') {
            if self.objects.contains(folder) && !self.directories.contains(folder) {
                return Err(refused(&format!("{folder:?} is not a directory")));
            }
            if !self.directories.insert(folder.to_owned()) {
                break;
            }
            above = folder;
        }
        Ok(())
    }
}
