//! Walking through all directories.

use std::collections::{HashMap, HashSet};

use crate::key::Key;
use crate::{Directory, RootFile, RootFileError};

/// An object or directory in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The path from the root directory, without a cycle.
    pub path: String,
    /// The key.
    pub key: Key,
}

/// Directories that have been read, and the key of the parent directory that leads to each.
struct Tree {
    directories: Vec<Directory>,
    children: HashMap<(usize, usize), usize>,
}

impl RootFile {
    /// Lists everything in the file with all cycles: depth first, each directory before its content,
    /// in the order of the key lists. Costs two vector reads per level of directories.
    ///
    /// # Errors
    /// If any directory cannot be read, or contains itself.
    pub fn walk(&self) -> Result<Vec<Entry>, RootFileError> {
        self.read_tree(usize::MAX).map(|tree| tree.entries())
    }

    /// All directories with all keys, each after its parent.
    pub(crate) fn directories(&self) -> Result<Vec<Directory>, RootFileError> {
        self.read_tree(usize::MAX).map(|tree| tree.directories)
    }

    /// As [`walk`](Self::walk), for hints: stops at `most` directories.
    pub(crate) fn walk_some(&self, most: usize) -> Result<Vec<Entry>, RootFileError> {
        self.read_tree(most).map(|tree| tree.entries())
    }

    /// Reads directories level by level.
    fn read_tree(&self, most: usize) -> Result<Tree, RootFileError> {
        let mut tree = Tree {
            directories: vec![self.root().clone()],
            children: HashMap::new(),
        };
        // key lists do not overlap in an intact file, so their total size is at most that of the
        // file
        let mut budget = self.source().meta().size;
        let mut seen = HashSet::from([self.root().record().seek_dir]);
        let mut level = 0..1;
        while !level.is_empty() && tree.directories.len() < most {
            let mut found = self.subdirectories(&tree, level.clone(), &mut seen)?;
            found.truncate(most - tree.directories.len());
            let places: Vec<_> = found.iter().map(|(place, _, _)| *place).collect();
            let wanted: Vec<_> = found
                .into_iter()
                .map(|(_, path, key)| (path, key))
                .collect();
            let read = self.read_directories(&wanted, &mut budget)?;
            let start = tree.directories.len();
            tree.children.extend(places.into_iter().zip(start..));
            tree.directories.extend(read);
            level = start..tree.directories.len();
        }
        Ok(tree)
    }

    /// The keys of subdirectories in the directories of `level`: positions, paths and keys.
    #[expect(clippy::type_complexity, reason = "three plain parts, used once")]
    fn subdirectories<'a>(
        &self,
        tree: &'a Tree,
        level: std::ops::Range<usize>,
        seen: &mut HashSet<u64>,
    ) -> Result<Vec<((usize, usize), String, &'a Key)>, RootFileError> {
        let mut found = Vec::new();
        for index in level {
            let Some(directory) = tree.directories.get(index) else {
                break;
            };
            for (at, key) in directory
                .keys()
                .iter()
                .enumerate()
                .filter(|(_, key)| key.is_directory())
            {
                let path = directory.path_of(&key.name);
                if !seen.insert(key.seek_key) {
                    let (url, offset) = (self.source().url().to_owned(), key.seek_key);
                    return Err(RootFileError::DirectoryLoop { url, path, offset });
                }
                found.push(((index, at), path, key));
            }
        }
        Ok(found)
    }
}

impl Tree {
    /// Depth first, without recursion: files may nest deeper than the stack allows.
    fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut stack = vec![(0, 0)];
        while let Some((index, at)) = stack.pop() {
            let Some(directory) = self.directories.get(index) else {
                continue;
            };
            let Some(key) = directory.keys().get(at) else {
                continue;
            };
            stack.push((index, at + 1));
            entries.push(Entry {
                path: directory.path_of(&key.name),
                key: key.clone(),
            });
            if let Some(&child) = self.children.get(&(index, at)) {
                stack.push((child, 0));
            }
        }
        entries
    }
}
