//! Joining: the fields of several ntuples side by side, entry by entry, or where keys are equal.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use femtobarn_io::Settings;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{Reader, Tick};
use femtobarn_rntuple::schema::{FieldId, did_you_mean};
use femtobarn_rntuple::write::{
    JoinedNTuple, MergeOptions as PageOptions, Rebuild, WriteOptions, join_columns,
};
use femtobarn_rootfile::{FileWriter, Key};

use super::attributes::{AttributeSets, Places};
use super::keys::{Matches, keys_of, match_keys};
use super::names::counted;
use super::options::check_free;
use super::others::{check_other, copy_object};
use super::paths::Paths;
use super::proven::{prove_unseen, unseen_ntuple};
use super::{MergeReport, MergedInput, MergedNTuple, OnPulse, Opened, Others, Pulse, wanted};
use crate::convert::{Input, check_apart, check_inputs};
use crate::left_behind::{LeftBehind, beside};
use crate::open::{OpenOptions, RNTUPLE_CLASS, open_reader_of};
use crate::pattern::Patterns;
use crate::proof::ProofOptions;
use crate::unseen::{Unseen, shown};
use crate::writable::create_beside;

/// What becomes of entries of the first ntuple that another one does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unmatched {
    /// They are an error.
    #[default]
    Error,
    /// They are left out, and counted.
    Drop,
}

/// How ntuples are joined.
#[derive(Debug, Clone, Default)]
pub struct JoinOptions {
    /// The name of the ntuple that is made; none: that of the first.
    pub name: Option<String>,
    /// Fields of integers that say which entries belong together; none: they have the same numbers.
    pub on: Vec<String>,
    /// What becomes of entries of the first that another one does not have.
    pub unmatched: Unmatched,
    /// For each ntuple, patterns of the top-level fields to take, all if there are none; empty for all of all. A key is taken
    /// of the first ntuple that is asked for it.
    pub fields: Vec<Vec<String>>,
    /// What is done with attribute sets, and with objects beside an ntuple that is not named.
    pub others: Others,
    /// Settings that all pages are to have; none: each keeps its own.
    pub compression: Option<u32>,
    /// Whether the output replaces what is there.
    pub overwrite: bool,
    /// Whether the output is read and compared with the inputs before it appears.
    pub verify: bool,
    /// How metadata and new pages are written.
    pub write: WriteOptions,
    /// Settings of how the server of the output is asked, before those of environment and file.
    pub settings: BTreeMap<String, String>,
}

/// Puts the fields of ntuples side by side into a new file, which appears when it is complete.
///
/// # Errors
/// If their entries do not belong together, two have a field of one name, or something cannot be read or written: nothing
/// appears then.
pub fn join(
    files: &[Input],
    output: &Path,
    options: &JoinOptions,
    pulse: OnPulse<'_>,
) -> Result<MergeReport, RNTupleError> {
    let start = Instant::now();
    let settings = Settings::new(&output.to_string_lossy(), options.settings.clone())?;
    check(files, output, options, &settings)?;
    let readers = files
        .iter()
        .map(open_joined)
        .collect::<Result<Vec<_>, _>>()?;
    let first = readers
        .first()
        .ok_or_else(|| RNTupleError::internal("nothing to join"))?;
    let name = options.name.as_deref().unwrap_or_else(|| first.path());
    let name: Vec<&str> = name.split('/').filter(|part| !part.is_empty()).collect();
    let name = name.join("/");
    let name = name.as_str();
    let (folder, own) = name.rsplit_once('/').unwrap_or(("", name));
    let beside = files.iter().zip(&readers);
    let beside = beside.map(|(input, reader)| Beside::of(input, reader, name, options.others));
    let beside = beside.collect::<Result<Vec<_>, _>>()?;
    let top_level = chosen(&readers, options)?;
    let mut begun = Pulse::of(files);
    for reader in &readers {
        begun.add_remote(&**reader.source());
    }
    let (matched, unused) = matched(&readers, options, &|_, _| pulse(begun))?;
    let (sets, inputs) = attribute_sets(&readers, &matched, unused, options.others)?;
    let mut report = MergeReport {
        inputs,
        ..MergeReport::default()
    };
    let ntuples = readers.iter().zip(top_level).zip(matched);
    let ntuples = ntuples.map(|((reader, top_level), entries)| JoinedNTuple {
        reader,
        top_level,
        entries,
    });
    let ntuples: Vec<_> = ntuples.collect();
    let mut unseen = Unseen::create(output, options.overwrite, &settings)?;
    let mut file = create_beside(unseen.aside(), options.write.compression)?;
    let mut known = (HashSet::new(), Paths::default());
    for (beside, input) in beside.iter().zip(&mut report.inputs) {
        beside.write(&mut file, options, &mut known, input)?;
    }
    let directory = file.directory(folder)?;
    let bytes = AtomicU64::new(0);
    let tick = |n| {
        let bytes = bytes.fetch_add(n, Ordering::Relaxed) + n;
        pulse(Pulse { bytes, ..begun })
    };
    let pages = PageOptions {
        compression: options.compression,
        rebuild: Rebuild::Needed,
        write: WriteOptions {
            description: first.descriptor().description.clone(),
            ..options.write.clone()
        },
        ..PageOptions::default()
    };
    let joined = join_columns(&mut file, (directory, own), &ntuples, pages, &tick);
    let (mut ntuple, merged) = joined.map_err(|error| unseen.explain(error, begun.n_bytes))?;
    sets.write(&mut file, &mut ntuple)?;
    let n_entries = ntuple.finish(&mut file)?;
    for ((reader, merged), input) in readers.iter().zip(merged).zip(&mut report.inputs) {
        input.ntuples.push((reader.path().to_owned(), merged));
    }
    let merged = MergedNTuple {
        n_entries,
        ..MergedNTuple::default()
    };
    report.ntuples.insert(name.to_owned(), merged);
    report.shared_bytes = report.shared_in(file.sink());
    file.finish()?;
    report.bytes_out = unseen.n_bytes();
    if options.verify {
        let proof = ProofOptions {
            threads: options.write.threads,
            join: Some(options.clone()),
            ..ProofOptions::default()
        };
        let output = unseen_ntuple(&unseen, Some(name));
        report.proof = Some(prove_unseen(&output, files, proof, begun, pulse)?);
    }
    let n_bytes = report.bytes_out;
    let tick = |done| pulse(begun.sending(done, n_bytes));
    report.delivery = unseen.appear(options.verify, &tick)?;
    report.gather_left_behind();
    report.output = shown(output);
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// The attribute sets of the output, and reports on the inputs, which begin with what is not in the output: `unused` entries
/// of each, and what is said of none.
fn attribute_sets(
    readers: &[Arc<Reader>],
    matched: &[Option<Vec<u64>>],
    unused: Vec<u64>,
    others: Others,
) -> Result<(AttributeSets, Vec<MergedInput>), RNTupleError> {
    let mut sets = AttributeSets::default();
    let mut inputs = Vec::with_capacity(readers.len());
    for ((reader, entries), unused) in readers.iter().zip(matched).zip(unused) {
        let mut input = MergedInput::of(reader.url());
        if unused > 0 {
            let reason = format!("{} without a match", counted(unused));
            let item = LeftBehind::object(reader.path(), RNTUPLE_CLASS, &reason);
            input.left.push(item);
        }
        if reader.descriptor().attribute_sets.is_empty() {
            inputs.push(input);
            continue;
        }
        let places = match entries {
            None => Places::new(std::iter::once(0..reader.n_entries()).collect(), 0),
            Some(entries) => Places::of_entries(entries),
        };
        sets.add_beside(reader, &places, others, &mut input)?;
        inputs.push(input);
    }
    Ok((sets, inputs))
}

/// What is in the file of an ntuple beside it.
struct Beside {
    opened: Opened,
    /// What is to be brought, if the ntuple is not named.
    objects: Vec<(String, Key)>,
    /// What is not, if it is.
    left: Vec<LeftBehind>,
}

impl Beside {
    /// Insists that it can be treated as is asked for, beside an output of this name.
    fn of(
        input: &Input,
        reader: &Reader,
        name: &str,
        others: Others,
    ) -> Result<Self, RNTupleError> {
        let opened = Opened::new(input)?;
        if let Some(path) = &input.path {
            let left = beside(&opened.file, path)?;
            return Ok(Self {
                opened,
                objects: Vec::new(),
                left,
            });
        }
        let mut objects = wanted(&opened.file, None)?;
        let is_joined =
            |path: &str, key: &Key| path == reader.path() && key.class_name == RNTUPLE_CLASS;
        objects.retain(|(path, key)| !key.is_directory() && !is_joined(path, key));
        for (path, key) in &objects {
            match others {
                Others::Error => return Err(not_asked_for(reader, path, key)),
                Others::First if is_in_way(path, name) => {
                    return Err(in_way(reader, path, key, name));
                }
                Others::First | Others::Drop => check_other(&opened, path, key, others)?,
            }
        }
        Ok(Self {
            opened,
            objects,
            left: Vec::new(),
        })
    }

    /// Writes those of names that are not known yet, or none, as is asked for; the others are in the report.
    fn write<'b>(
        &'b self,
        file: &mut FileWriter,
        options: &JoinOptions,
        (known, paths): &mut (HashSet<&'b str>, Paths),
        input: &mut MergedInput,
    ) -> Result<(), RNTupleError> {
        input.left.extend(self.left.iter().cloned());
        for (path, key) in &self.objects {
            if options.others == Others::First && known.insert(path) {
                paths.add(self.opened.source.url(), path, key)?;
                let settings = options.write.compression;
                copy_object(file, &self.opened, (path, key), settings)?;
            } else {
                let reason = options.others.why_left();
                let item = LeftBehind::object(path, &key.class_name, reason);
                input.left.push(item);
            }
        }
        Ok(())
    }
}

/// Whether an object has a path, or would be a directory of it.
fn is_in_way(object: &str, path: &str) -> bool {
    let rest = path.strip_prefix(object);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The error of an object that is.
fn in_way(reader: &Reader, path: &str, key: &Key, name: &str) -> RNTupleError {
    let (url, class) = (reader.url(), &key.class_name);
    RNTupleError::Usage {
        what: format!(
            "{url} has a {class} called {path:?}, and the ntuple that is made cannot be called {name:?} beside it: give it another name (name=, --name)"
        ),
    }
}

/// The error of an object beside an ntuple.
fn not_asked_for(reader: &Reader, path: &str, key: &Key) -> RNTupleError {
    let (url, ntuple, class) = (reader.url(), reader.path(), &key.class_name);
    RNTupleError::Usage {
        what: format!(
            "{url} has a {class} called {path:?} beside its ntuple: name the ntuple to join it alone (\"{url}:{ntuple}\"), or say what is to be done with such objects (--others first, in Python others=\"first\", takes the first of each name; --others drop, others=\"drop\", leaves them out)"
        ),
    }
}

fn check(
    inputs: &[Input],
    output: &Path,
    options: &JoinOptions,
    settings: &Settings,
) -> Result<(), RNTupleError> {
    check_joined(inputs, options)?;
    check_inputs(inputs)?;
    check_apart(inputs, output)?;
    check_free(output, options.overwrite, settings)
}

/// Insists that there are several ntuples, and fields for each if there are any.
pub(crate) fn check_joined(inputs: &[Input], options: &JoinOptions) -> Result<(), RNTupleError> {
    if inputs.len() < 2 {
        let what = "joining takes two ntuples or more".to_owned();
        return Err(RNTupleError::Usage { what });
    }
    let n = options.fields.len();
    if n > 0 && n != inputs.len() {
        let what = format!(
            "fields are given for {n} ntuples, and there are {}: give an item for each (None or --fields '*' for all fields)",
            inputs.len()
        );
        return Err(RNTupleError::Usage { what });
    }
    if options.on.is_empty() && options.unmatched == Unmatched::Drop {
        let what = "unmatched entries are those whose keys have no match: say by which fields entries are matched (on=[\"run\", \"event\"], --on run,event)".to_owned();
        return Err(RNTupleError::Usage { what });
    }
    Ok(())
}

/// The ntuple of an input that is joined.
pub(crate) fn open_joined(input: &Input) -> Result<Arc<Reader>, RNTupleError> {
    let source = input.open_source()?;
    let found = open_reader_of(source, input.path.as_deref(), &OpenOptions::default())?;
    let reader = found.ok_or_else(|| RNTupleError::internal("an ntuple that may be missing"))?;
    if reader.storage().is_some() {
        return Err(RNTupleError::Usage {
            what: format!(
                "{url}:{path} is a TTree, and only RNTuples are joined: convert it first (fb convert {url}:{path} NEW.root)",
                url = reader.url(),
                path = reader.path()
            ),
        });
    }
    Ok(Arc::new(reader))
}

/// The fields of each ntuple to take. Keys, which are the same in all, are taken of the first that is asked for them.
pub(crate) fn chosen(
    readers: &[Arc<Reader>],
    options: &JoinOptions,
) -> Result<Vec<Vec<FieldId>>, RNTupleError> {
    let mut keys: HashSet<&str> = options.on.iter().map(String::as_str).collect();
    let mut out = Vec::with_capacity(readers.len());
    for (at, reader) in readers.iter().enumerate() {
        let given = options.fields.get(at).map_or(&[][..], Vec::as_slice);
        let asked = Patterns::new(given.iter().map(String::as_str));
        let descriptor = reader.descriptor();
        let mut unmatched: BTreeSet<usize> = (0..given.len()).collect();
        let mut own = Vec::new();
        for &id in &descriptor.top_level {
            let name = descriptor.field_name(id);
            for at in asked.fitting(name) {
                unmatched.remove(&at);
            }
            if asked.takes(name) && (keys.remove(name) || options.on.iter().all(|key| key != name))
            {
                own.push(id);
            }
        }
        let unmatched = unmatched.first().and_then(|&at| given.get(at));
        if let Some(pattern) = unmatched {
            return Err(RNTupleError::NoSuchField {
                url: reader.url().to_owned(),
                ntuple: reader.path().to_owned(),
                name: pattern.clone(),
                hint: did_you_mean(
                    pattern,
                    descriptor
                        .top_level
                        .iter()
                        .map(|&id| descriptor.field_name(id)),
                ),
            });
        }
        let mut skipped = descriptor.skipped.iter();
        if let Some(skipped) = skipped.find(|skipped| asked.takes(&skipped.name)) {
            let reason = format!("{}; name the other fields to leave it out", skipped.reason);
            return Err(reader.unsupported(&skipped.name, &reason));
        }
        out.push(own);
    }
    add_counters(readers, &mut out);
    Ok(out)
}

/// Adds the fields that count the items of those that are taken, unless one of that name is.
fn add_counters(readers: &[Arc<Reader>], chosen: &mut [Vec<FieldId>]) {
    let mut taken: HashSet<String> = HashSet::new();
    let name = |reader: &Reader, id| reader.descriptor().field_name(id).to_owned();
    for (reader, own) in readers.iter().zip(&*chosen) {
        taken.extend(own.iter().map(|&id| name(reader, id)));
    }
    for (reader, own) in readers.iter().zip(chosen) {
        let counters = reader.descriptor().counters(own).into_iter();
        own.extend(counters.filter(|&id| taken.insert(name(reader, id))));
    }
}

/// For each ntuple the numbers of its entries in the output, if they are others, and how many of them are not in it.
#[expect(clippy::type_complexity, reason = "used once")]
pub(crate) fn matched(
    readers: &[Arc<Reader>],
    options: &JoinOptions,
    tick: Tick<'_>,
) -> Result<(Vec<Option<Vec<u64>>>, Vec<u64>), RNTupleError> {
    let Some((first, others)) = readers.split_first() else {
        return Ok((Vec::new(), Vec::new()));
    };
    if options.on.is_empty() {
        let n = first.n_entries();
        if let Some(other) = others.iter().find(|other| other.n_entries() != n) {
            return Err(RNTupleError::Usage {
                what: format!(
                    "{}:{} has {}, and {}:{} has {n}: give the fields that say which belong together (on=[\"run\", \"luminosityBlock\", \"event\"], --on run,luminosityBlock,event)",
                    other.url(),
                    other.path(),
                    counted(other.n_entries()),
                    first.url(),
                    first.path()
                ),
            });
        }
        return Ok((
            readers.iter().map(|_| None).collect(),
            vec![0; readers.len()],
        ));
    }
    let threads = options.write.threads;
    let wanted = keys_of(first, &options.on, threads, tick)?;
    let mut matches = Matches::new(first.n_entries());
    for other in others {
        let keys = keys_of(other, &options.on, threads, tick)?;
        if !tick(0, 1) {
            return Err(RNTupleError::Interrupted);
        }
        let found = match_keys(&wanted, &keys)?;
        matches.add(found, other.n_entries());
    }
    if options.unmatched == Unmatched::Error
        && let Some((entry, at)) = matches.first_without()
        && let Some(other) = others.get(at)
    {
        return Err(RNTupleError::Usage {
            what: format!(
                "entry {entry} of {}:{} ({}) has no match in {}:{}: leave such entries out with --unmatched drop (in Python unmatched=\"drop\")",
                first.url(),
                first.path(),
                wanted.describe(entry),
                other.url(),
                other.path()
            ),
        });
    }
    Ok(matches.finish())
}
