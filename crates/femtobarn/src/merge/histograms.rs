//! Histograms are added up, bin by bin: the sums wait until all files were seen.

use std::collections::HashMap;

use femtobarn_histogram::{Histogram, is_histogram};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rootfile::{FileWriter, Key};

use crate::histograms;
use crate::inputs::Opened;

/// The histograms of all files that were added so far, in the order in which they were met.
#[derive(Debug, Default)]
pub(super) struct Sums {
    sums: Vec<Sum>,
    by_path: HashMap<String, usize>,
}

/// A histogram of the output.
#[derive(Debug)]
struct Sum {
    path: String,
    /// The file that has the first of them.
    first: String,
    title: String,
    class: String,
    histogram: Histogram,
}

/// Whether a key is that of a histogram, or of a profile.
pub(super) fn is_summed(key: &Key) -> bool {
    is_histogram(&key.class_name)
}

impl Sums {
    /// Number of histograms of the output.
    pub fn len(&self) -> usize {
        self.sums.len()
    }

    /// Whether one is called so.
    pub fn has(&self, path: &str) -> bool {
        self.by_path.contains_key(path)
    }

    /// Adds the histogram of `key` to the histograms with the same path.
    pub fn add(
        &mut self,
        (input, output): (&Opened, &mut FileWriter),
        path: &str,
        key: &Key,
    ) -> Result<(), RNTupleError> {
        let url = input.source.url();
        let infos = input.infos()?;
        input.describe_in(output)?;
        let object = input.file.read_object(key)?;
        let class = &key.class_name;
        let found = histograms::parse(url, (path, key), &object, &infos);
        let histogram = found.map_err(|error| match error {
            RNTupleError::Usage { what } => refused(&what),
            damage => damage,
        })?;
        let at = self.by_path.get(path).copied();
        if let Some(sum) = at.and_then(|at| self.sums.get_mut(at)) {
            let first = &sum.first;
            let added = sum.histogram.add(&histogram);
            return added.map_err(|error| {
                refused(&format!(
                    "cannot add the {class} {path:?} of {url} to the first one, of {first}: {error}"
                ))
            });
        }
        self.by_path.insert(path.to_owned(), self.sums.len());
        self.sums.push(Sum {
            path: path.to_owned(),
            first: url.to_owned(),
            title: key.title.clone(),
            class: class.clone(),
            histogram,
        });
        Ok(())
    }

    /// Writes the sums.
    pub fn finish(self, file: &mut FileWriter, settings: u32) -> Result<(), RNTupleError> {
        for sum in self.sums {
            let (folder, name) = sum.path.rsplit_once('/').unwrap_or(("", &sum.path));
            let directory = file.directory(folder)?;
            let names = (sum.class.as_str(), name, sum.title.as_str());
            let key_len = file.next_key_len(directory, names, false)?;
            let object = sum.histogram.object(key_len).map_err(|error| {
                let what = format!("the {} {:?} of {}", sum.class, sum.path, sum.first);
                refused(&format!("cannot write {what} to {}: {error}", file.url()))
            })?;
            file.replace_object(directory, names, &object, settings)?;
        }
        Ok(())
    }
}

fn refused(why: &str) -> RNTupleError {
    RNTupleError::Usage {
        what: format!("{why} (to leave out histograms, name the ntuple, e.g. file.root:Events)"),
    }
}
