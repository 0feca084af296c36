//! Opens files and finds ntuples in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use femtobarn_codec::xxh3;
use femtobarn_histogram::is_histogram;
use femtobarn_io::{
    ByteSource, HeldSource, IoError, LocalSource, MemorySink, MeteredSource, OriginSource,
    Settings, SourceMeta, anchor_range, has_logical_name, is_daos, is_object_set, is_of_xrootd,
    is_remote, nearest as nearest_names, open_layered,
};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{PageStore, Reader, ReaderOptions, SourceStore};
use femtobarn_rntuple::spec::{Anchor, ObjectAnchor, PageAddress};
use femtobarn_rootfile::{FileWriter, Key, RootFile, RootFileError, Uuid, without_cycle};

use crate::daos::{ContainerSource, open_ntuple, with_name};
use crate::kinds::{self, exit};
use crate::objects::{self, RNTUPLE_CLASS};
use crate::url::has_pattern_for_query;
use crate::writable::local;

/// Bytes that are fetched together at each end of a file when it is opened: ROOT writes the ntuple's header near the
/// start of the file, and footer, anchor and key list near its end.
pub(crate) const HEAD: u64 = 64 << 10;
pub(crate) const TAIL: u64 = 256 << 10;

/// At least as many bytes are there for a file's first read.
const FIRST: usize = 4 << 10;

/// Maximum number of suggested names for a missing one.
const MOST_HINTS: usize = 5;

/// Maximum number of attempts to open a growing file.
const MOST_TRIES: usize = 10;

/// Options for opening files.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// Options for reading pages.
    pub reader: ReaderOptions,
    /// Skip files without the ntuple.
    pub allow_missing: bool,
    /// Settings for servers, which override the environment and the settings file.
    pub settings: BTreeMap<String, String>,
    /// The required states of the files, in order, for opening the same files again. Files without an entry may have
    /// any state.
    pub states: Vec<SourceMeta>,
}

/// Opens the source of a path or URL (see [`open_layered`]), with the settings of environment and settings file.
pub fn open_source(url: &str) -> Result<Arc<dyn ByteSource>, RNTupleError> {
    open_source_with(url, &Settings::of(url))
}

pub(crate) fn open_source_with(
    url: &str,
    settings: &Settings,
) -> Result<Arc<dyn ByteSource>, RNTupleError> {
    if is_daos(url) {
        return ContainerSource::open(url, settings);
    }
    let source = match is_remote(url) {
        true => open_layered(url, settings).map_err(|error| hinted(url, error))?,
        false => OriginSource::open(url, settings, false, || Ok(LocalSource::open(&local(url))?))?,
    };
    Ok(MeteredSource::of(source, settings)?)
}

/// The error for a missing file, with a note if part of its pattern was taken as a query.
fn hinted(asked: &str, error: IoError) -> IoError {
    match error {
        IoError::NotFound { url } if has_pattern_for_query(asked) => IoError::NotFound {
            url: format!(
                "{url} (the part after the question mark belongs to the server; in patterns of URLs, only * and [] \
                 are wildcards)"
            ),
        },
        error => error,
    }
}

/// Reads the directories of a ROOT file. If another writer adds to it meanwhile, reads them again.
pub fn look_into<T>(
    url: &str,
    settings: &Settings,
    look: impl Fn(&RootFile) -> Result<T, RNTupleError>,
) -> Result<T, RNTupleError> {
    while_it_grows(url, settings, |source| look(&directory_of(source)?))
}

/// Opens something in a file. If another writer adds to a file, the size that was read before the header may be too
/// small for it; if it replaces objects, those of the anchor that was read are deleted. If opening fails and there is
/// another size or anchor, the file is opened again.
pub(crate) fn while_it_grows<T>(
    url: &str,
    settings: &Settings,
    open: impl Fn(Arc<dyn ByteSource>) -> Result<T, RNTupleError>,
) -> Result<T, RNTupleError> {
    let mut source = open_source_with(url, settings)?;
    let mut tries = 0;
    loop {
        let result = open_soundly(&source, &open);
        if result.is_ok() || tries == MOST_TRIES || !may_change(url) {
            return result;
        }
        let Ok(now) = open_source_with(url, settings) else {
            return result;
        };
        if is_same(&*source, &*now) {
            return result;
        }
        source = now;
        tries += 1;
    }
}

/// Whether what was opened may have been replaced since, so that it is to be opened again.
fn may_change(url: &str) -> bool {
    is_one_ntuple(url) || !is_remote(url)
}

/// Whether two sources of a URL have the same size, and for objects the same anchor.
fn is_same(one: &dyn ByteSource, other: &dyn ByteSource) -> bool {
    let anchor = |source: &dyn ByteSource| match is_one_ntuple(source.url()) {
        true => source.read_ranges(&[anchor_range(source.meta().size)]).ok(),
        false => None,
    };
    one.meta().size == other.meta().size && anchor(one) == anchor(other)
}

/// Opens something in a file. If its metadata are damaged and another copy exists, that is tried.
pub(crate) fn open_soundly<T>(
    source: &Arc<dyn ByteSource>,
    open: impl Fn(Arc<dyn ByteSource>) -> Result<T, RNTupleError>,
) -> Result<T, RNTupleError> {
    let mut result = open(source.clone());
    let is_corrupt = |error: &RNTupleError| kinds::kind(error.kind()).exit == exit::CORRUPT;
    let whole = 0..source.meta().size;
    for n in 0..MOST_TRIES {
        if !result.as_ref().is_err_and(is_corrupt) || !source.reject(&whole, n > 0) {
            break;
        }
        result = open(source.clone());
    }
    result
}

/// Opens one ntuple of a file; `path` is optional if the file has only one. `None` if it does not exist and
/// `allow_missing` is set.
pub(crate) fn open_reader(
    url: &str,
    path: Option<&str>,
    options: &OpenOptions,
) -> Result<Option<Reader>, RNTupleError> {
    let settings = Settings::new(url, options.settings.clone())?;
    while_it_grows(&with_name(url, path), &settings, |source| {
        open_reader_of(source, path, options)
    })
}

/// Opens one ntuple of a file that must have a known state.
pub(crate) fn open_reader_as(
    known: Option<&SourceMeta>,
    url: &str,
    path: Option<&str>,
    options: &OpenOptions,
) -> Result<Option<Reader>, RNTupleError> {
    let reader = open_reader(url, path, options)?;
    let is_logical = || {
        let settings = Settings::new(url, options.settings.clone())?;
        has_logical_name(url, &settings)
    };
    let known = match known {
        // replicas differ in their times and tags
        Some(known) if is_logical()? => Some(SourceMeta {
            size: known.size,
            ..SourceMeta::default()
        }),
        // replicas of a federation and caches have other modification times
        Some(known) => Some(SourceMeta {
            modified: known.modified.filter(|_| !is_of_xrootd(url)),
            ..known.clone()
        }),
        None => None,
    };
    if let (Some(known), Some(reader)) = (known, &reader)
        && !reader.store().info().meta.may_be(&known)
    {
        let url = reader.url().to_owned();
        return Err(IoError::Changed { url }.into());
    }
    Ok(reader)
}

pub(crate) fn open_reader_of(
    source: Arc<dyn ByteSource>,
    path: Option<&str>,
    options: &OpenOptions,
) -> Result<Option<Reader>, RNTupleError> {
    let file = directory_of(source.clone())?;
    open_reader_in(source, &file, path, options)
}

/// Whether a source has the objects of one ntuple.
pub(crate) fn is_one_ntuple(url: &str) -> bool {
    is_object_set(url) && !is_daos(url)
}

/// The directory of a file, with its metadata in memory.
pub(crate) fn directory_of(source: Arc<dyn ByteSource>) -> Result<RootFile, RNTupleError> {
    let metadata: Arc<dyn ByteSource> = match is_one_ntuple(source.url()) {
        true => Arc::new(objects_as_file(source)?),
        false => HeldSource::with_ends(source, HEAD, TAIL)?,
    };
    Ok(RootFile::open(metadata)?)
}

/// An ntuple in objects as a file that has its anchor as the only object, before the addresses of objects. So it is found
/// and listed like ntuples in files. Header and footer are in memory, too.
fn objects_as_file(source: Arc<dyn ByteSource>) -> Result<HeldSource, RNTupleError> {
    let (store, anchor) = SourceStore::open_objects(source.clone(), "")?;
    let links = [anchor.header, anchor.footer];
    let ranges = links.map(|link| store.range(&link.stored).unwrap_or_default());
    let envelopes = source.read_ranges(&ranges)?;
    let held = ranges.into_iter().zip(envelopes).collect();
    let metadata: Arc<dyn ByteSource> = Arc::new(HeldSource::new(source, held));
    let store = store.over(metadata.clone());
    let name = Reader::name_in(&store, "", &anchor)?;
    let json = store.objects().map(ObjectAnchor::to_json);
    let json = json.unwrap_or_default();
    let sink = Arc::new(MemorySink::default());
    // the same anchor is the same ntuple
    let [first, second] =
        ["", "second half"].map(|end| u128::from(xxh3(format!("{json}{end}").as_bytes())));
    let uuid = Uuid((first << 64 | second).to_be_bytes());
    let mut file = FileWriter::create(sink.clone(), "", 0, uuid)?;
    file.write_object(0, (RNTUPLE_CLASS, &name, ""), json.as_bytes(), 0)?;
    file.finish()?;
    // the first read of a file may be larger
    let mut file = sink.to_vec();
    file.resize(file.len().max(FIRST), 0);
    let held = vec![(0..file.len() as u64, file.into())];
    Ok(HeldSource::new(metadata, held))
}

/// Opens one ntuple of an open file, whose metadata may be in memory.
pub(crate) fn open_reader_in(
    source: Arc<dyn ByteSource>,
    file: &RootFile,
    path: Option<&str>,
    options: &OpenOptions,
) -> Result<Option<Reader>, RNTupleError> {
    let found = match path {
        Some(path) => objects::find(file, path)
            .map(|key| (path.to_owned(), key))
            .map_err(|error| {
                let is_told = !options.allow_missing;
                RNTupleError::from(if is_told {
                    openable(file, error)
                } else {
                    error
                })
            }),
        None => only_ntuple(file),
    };
    let (path, key) = match found {
        Ok(found) => found,
        Err(error) if options.allow_missing && is_missing(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let uuid = file.header().uuid.0;
    if femtobarn_ttree::is_tree(&key.class_name) {
        let tree = femtobarn_ttree::open(source, file, &key, &path, options.reader)?;
        return Ok(Some(tree.in_file(uuid)));
    }
    if key.class_name != RNTUPLE_CLASS {
        if options.allow_missing {
            return Ok(None);
        }
        return Err(not_an_rntuple(source.url(), path, &key));
    }
    let reader = reader_of(source, file, (&path, &key), options.reader)?;
    Ok(Some(reader.in_file(uuid)))
}

/// Opens the ntuple of a key.
pub(crate) fn reader_of(
    source: Arc<dyn ByteSource>,
    file: &RootFile,
    (path, key): (&str, &Key),
    options: ReaderOptions,
) -> Result<Reader, RNTupleError> {
    if is_daos(source.url()) {
        let below = source.objects_below(&key.name)?;
        let missing = || IoError::Changed {
            url: source.url().to_owned(),
        };
        return open_ntuple(below.ok_or_else(missing)?, without_cycle(path), options);
    }
    if is_one_ntuple(source.url()) {
        let (store, anchor) = SourceStore::open_objects(source, path)?;
        let metadata = store.over(file.source().clone());
        return Reader::open(Arc::new(store), &metadata, path, anchor, options);
    }
    let anchor = Anchor::parse(&file.read_object(key)?).map_err(|error| RNTupleError::Spec {
        url: source.url().into(),
        ntuple: path.to_owned(),
        structure: "anchor",
        at: PageAddress::File(key.payload_offset()),
        source: error,
    })?;
    let store = |source| SourceStore::new(source, path, anchor.max_key_size);
    let metadata = store(file.source().clone());
    Reader::open(Arc::new(store(source)), &metadata, path, anchor, options)
}

/// The error for a missing name; suggests only names that can be opened.
fn openable(file: &RootFile, error: RootFileError) -> RootFileError {
    let RootFileError::KeyNotFound { url, path, nearest } = error else {
        return error;
    };
    let mut near = nearest.clone();
    near.retain(|name| objects::find(file, name).is_ok_and(|key| objects::holds_entries(&key)));
    if near.is_empty() {
        near = objects::ntuples(file).unwrap_or_default();
        near.truncate(MOST_HINTS);
    }
    // other objects only if their names are similar
    let is_alike = |name: &&String| !nearest_names(&path, [name.as_str()]).is_empty();
    let others = nearest.iter().filter(|name| !near.contains(name));
    let others: Vec<String> = others.filter(is_alike).cloned().collect();
    near.extend(others);
    let nearest = if near.is_empty() { nearest } else { near };
    RootFileError::KeyNotFound { url, path, nearest }
}

fn is_missing(error: &RNTupleError) -> bool {
    matches!(error.kind(), "key-not-found" | "no-ntuple")
}

fn not_an_rntuple(url: &str, path: String, key: &Key) -> RNTupleError {
    let hint = match is_histogram(&key.class_name) {
        true => read_by(url, &path),
        false => String::new(),
    };
    RNTupleError::NotAnRNTuple {
        url: url.into(),
        path,
        class_name: key.class_name.clone(),
        hint,
    }
}

/// How to read a histogram, for messages.
fn read_by(url: &str, path: &str) -> String {
    let name = format!("{url}:{path}");
    format!("; fb.histogram({name:?}) reads a histogram, and `fb hist {name}` draws it")
}

/// The only ntuple or tree of a file; the newest cycle.
fn only_ntuple(file: &RootFile) -> Result<(String, Key), RNTupleError> {
    let is_ntuple = |class: &str| class == RNTUPLE_CLASS;
    let mut found: Vec<(String, Key)> = Vec::new();
    let mut others: Vec<String> = Vec::new();
    let mut histogram = None;
    for entry in file.walk()? {
        let path = entry.path;
        let class = &entry.key.class_name;
        if !is_ntuple(class) && !femtobarn_ttree::is_tree(class) {
            let other = format!("{} {path}", entry.key.class_name);
            if histogram.is_none() && is_histogram(&entry.key.class_name) {
                histogram = Some(path);
            }
            if !others.contains(&other) {
                others.push(other);
            }
            continue;
        }
        match found.iter_mut().find(|(known, _)| *known == path) {
            Some((_, key)) if key.cycle < entry.key.cycle => *key = entry.key,
            Some(_) => {}
            None => found.push((path, entry.key)),
        }
    }
    if found.len() == 1
        && let Some(only) = found.pop()
    {
        return Ok(only);
    }
    let names: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
    let is_own = |(_, key): &&(String, Key)| is_ntuple(&key.class_name);
    let n_ntuples = found.iter().filter(is_own).count();
    let hint = match (names.as_slice(), others.as_slice()) {
        ([], []) => "; the file is empty".to_owned(),
        ([], others) => {
            let url = file.source().url();
            let how = histogram
                .map(|path| read_by(url, &path))
                .unwrap_or_default();
            format!("; it contains {}{how}", first_of(others))
        }
        ([first, ..], _) => format!(
            "; name one of them: {} (e.g. {}:{first})",
            names.join(", "),
            file.source().url()
        ),
    };
    Err(RNTupleError::AmbiguousNTuple {
        url: file.source().url().into(),
        count: names.len(),
        kind: match (n_ntuples, names.len() - n_ntuples) {
            (0, 0) => "RNTuples or TTrees",
            (_, 0) => "RNTuples",
            (0, _) => "TTrees",
            _ => "RNTuples and TTrees",
        },
        hint,
    })
}

/// The first names of a list, and the number of the others.
fn first_of(names: &[String]) -> String {
    let shown = names
        .get(..names.len().min(5))
        .unwrap_or_default()
        .join(", ");
    match names.len().saturating_sub(5) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_that_has_grown_is_opened_again_and_one_that_has_not_is_believed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let url = file.path().to_str().unwrap();
        let look = |grows: usize| {
            let (tries, sizes) = (Cell::new(0), Cell::new(Vec::new()));
            let result = while_it_grows(url, &Settings::default(), |source| {
                tries.set(tries.get() + 1);
                let mut seen = sizes.take();
                seen.push(source.meta().size);
                sizes.set(seen);
                if tries.get() <= grows {
                    file.as_file().write_all(b"more").unwrap();
                }
                if tries.get() == 3 {
                    return Ok(());
                }
                Err(RNTupleError::internal("too early"))
            });
            (result.is_ok(), tries.get(), sizes.take())
        };
        assert_eq!(look(2), (true, 3, vec![0, 4, 8]));
        assert_eq!(look(1), (false, 2, vec![8, 12]));
        assert_eq!(look(0), (false, 1, vec![12]));
    }
}
