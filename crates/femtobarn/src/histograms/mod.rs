//! Histograms: of files, read and written; of columns; and drawings of them.

mod draw;
mod fill;
mod picture;

use std::sync::{Arc, OnceLock};

use femtobarn_histogram::{Histogram, HistogramError, Infos, is_histogram};
use femtobarn_io::{MemorySink, MemorySource, Settings};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::spec::PageAddress;
use femtobarn_rootfile::{FileWriter, Key, RootFile, RootFileError, Uuid};

use crate::objects::{newest, path_of};
use crate::open::look_into;

pub use draw::text;
pub use fill::{Filled, Filling, fill};
pub use picture::{png, svg};

/// The histograms and profiles of a file.
#[derive(Debug)]
pub struct HistogramFile {
    file: RootFile,
    infos: OnceLock<Arc<Infos>>,
    /// The newest of each path.
    found: Vec<(String, Key)>,
}

impl HistogramFile {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be read or is not a ROOT file.
    pub fn open(url: &str, settings: &Settings) -> Result<Self, RNTupleError> {
        look_into(url, settings, Self::of)
    }

    fn of(file: &RootFile) -> Result<Self, RNTupleError> {
        let mut found = newest(file)?;
        found.retain(|(_, key)| is_histogram(&key.class_name));
        Ok(Self {
            file: file.clone(),
            infos: OnceLock::new(),
            found,
        })
    }

    /// Paths of all histograms, and their classes.
    pub fn paths(&self) -> impl Iterator<Item = (&str, &str)> {
        let found = self.found.iter();
        found.map(|(path, key)| (path.as_str(), key.class_name.as_str()))
    }

    /// Reads histograms by their names, in one vector read: paths, or paths with `;` and a cycle. Without a name, the only
    /// histogram of the file is meant.
    ///
    /// # Errors
    /// If one does not exist or cannot be read; if no name is given and there are several histograms.
    pub fn read(&self, names: &[Option<String>]) -> Result<Vec<(String, Histogram)>, RNTupleError> {
        let keys = names.iter().map(|name| self.find(name.as_deref()));
        let keys: Vec<(String, Key)> = keys.collect::<Result<_, _>>()?;
        let objects = self.file.read_objects(keys.iter().map(|(_, key)| key))?;
        let infos = self.infos()?;
        let url = self.file.source().url();
        let read = keys.into_iter().zip(objects).map(|((path, key), object)| {
            let histogram = parse(url, (&path, &key), &object, &infos)?;
            Ok((path, histogram))
        });
        read.collect()
    }

    fn infos(&self) -> Result<Arc<Infos>, RNTupleError> {
        if let Some(infos) = self.infos.get() {
            return Ok(Arc::clone(infos));
        }
        let infos = Arc::new(Infos::new(self.file.streamer_infos()?));
        Ok(Arc::clone(self.infos.get_or_init(|| infos)))
    }

    fn find(&self, name: Option<&str>) -> Result<(String, Key), RNTupleError> {
        let Some(name) = name else {
            return self.only();
        };
        if let Some(known) = self.found.iter().find(|(path, _)| path == name) {
            return Ok(known.clone());
        }
        let is_wanted = |key: &Key| is_histogram(&key.class_name);
        match self.file.find_wanted(name, &is_wanted) {
            Ok(key) if is_wanted(&key) => Ok((path_of(name, &key), key)),
            Ok(key) => Err(usage(format!(
                "{}: {name:?} is a {}, not a histogram{}",
                self.file.source().url(),
                key.class_name,
                self.listed()
            ))),
            Err(RootFileError::KeyNotFound { url, path, nearest }) => {
                let mut near = nearest.clone();
                near.retain(|near| self.found.iter().any(|(path, _)| path == near));
                if near.is_empty() {
                    near.extend(
                        self.found
                            .iter()
                            .take(MOST_LISTED)
                            .map(|(path, _)| path.clone()),
                    );
                }
                let nearest = if near.is_empty() { nearest } else { near };
                Err(RootFileError::KeyNotFound { url, path, nearest }.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The only histogram.
    fn only(&self) -> Result<(String, Key), RNTupleError> {
        match self.found.as_slice() {
            [only] => Ok(only.clone()),
            found => Err(usage(format!(
                "{} has {} histograms{}",
                self.file.source().url(),
                found.len(),
                self.listed()
            ))),
        }
    }

    /// The histograms of the file, for messages.
    fn listed(&self) -> String {
        let names = self
            .found
            .iter()
            .take(MOST_LISTED)
            .map(|(path, _)| path.as_str());
        let names: Vec<&str> = names.collect();
        match (
            self.found.len().saturating_sub(names.len()),
            names.is_empty(),
        ) {
            (_, true) => "; `fb ls` lists what the file has".to_owned(),
            (0, false) => format!("; name one of them: {}", names.join(", ")),
            (more, false) => format!("; name one of them: {} and {more} more", names.join(", ")),
        }
    }
}

/// How many histograms a message lists.
const MOST_LISTED: usize = 5;

/// The histogram in an object of a file.
///
/// # Errors
/// If it is damaged, or has a form that is not supported.
pub(crate) fn parse(
    url: &str,
    (path, key): (&str, &Key),
    object: &[u8],
    infos: &Arc<Infos>,
) -> Result<Histogram, RNTupleError> {
    let parsed = Histogram::parse(&key.class_name, object, key.key_len, infos);
    parsed.map_err(|error| unusable(url, (path, key), error))
}

fn unusable(url: &str, (path, key): (&str, &Key), error: HistogramError) -> RNTupleError {
    match error {
        HistogramError::Unsupported { .. } | HistogramError::Differ { .. } => usage(format!(
            "cannot read the {} {path:?} of {url}: {error}",
            key.class_name
        )),
        source => RNTupleError::Object {
            url: url.to_owned(),
            ntuple: path.to_owned(),
            structure: key.class_name.clone(),
            at: PageAddress::File(key.seek_key),
            source: Box::new(source),
        },
    }
}

/// Writes a histogram into a directory of a file, under a name that must be free, with the descriptions of its classes.
///
/// # Errors
/// If the name is taken, the histogram has parts that cannot be copied, or writing fails.
pub fn write_histogram(
    file: &mut FileWriter,
    directory: usize,
    name: &str,
    histogram: &Histogram,
    settings: u32,
) -> Result<(), RNTupleError> {
    if file.names(directory).contains(&name) {
        return Err(usage(format!(
            "{} has an object {name:?} already: use another name",
            file.url()
        )));
    }
    let refused = |error: HistogramError| {
        usage(format!(
            "cannot write the {} {name:?}: {error}",
            histogram.class()
        ))
    };
    let renamed = histogram.renamed(name).map_err(refused)?;
    let title = renamed.title();
    let names = (renamed.class(), name, title.as_str());
    let key_len = file.next_key_len(directory, names, false)?;
    let object = renamed.object(key_len).map_err(refused)?;
    for info in histogram.streamer_infos() {
        file.add_streamer_info(info.clone());
    }
    file.write_object(directory, names, &object, settings)?;
    Ok(())
}

/// The histogram as the bytes of a ROOT file, which describes its classes, too.
///
/// # Errors
/// As [`write_histogram`].
pub fn to_bytes(histogram: &Histogram) -> Result<Vec<u8>, RNTupleError> {
    let sink = Arc::new(MemorySink::default());
    let mut file = FileWriter::create(sink.clone(), "", 0, Uuid([0; 16]))?;
    // an empty name is possible in the object, but not in a file
    write_histogram(&mut file, 0, KEPT, histogram, 0)?;
    file.finish()?;
    Ok(sink.to_vec())
}

/// The histogram of [`to_bytes`].
///
/// # Errors
/// If the bytes are something else.
pub fn of_bytes(bytes: Vec<u8>, name: &str) -> Result<Histogram, RNTupleError> {
    let file = RootFile::open(MemorySource::new(KEPT, bytes))?;
    let mut read = HistogramFile::of(&file)?.read(&[Some(KEPT.to_owned())])?;
    let Some((_, histogram)) = read.pop() else {
        return Err(RNTupleError::internal("a histogram is missing"));
    };
    histogram
        .renamed(name)
        .map_err(|error| usage(error.to_string()))
}

/// The name of a histogram that is kept as bytes.
const KEPT: &str = "histogram";

fn usage(what: String) -> RNTupleError {
    RNTupleError::Usage { what }
}
