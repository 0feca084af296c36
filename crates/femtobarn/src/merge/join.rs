//! Joining: the fields of several ntuples side by side, entry by entry, or where keys are equal.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use femtobarn_io::Settings;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::write::{
    JoinedNTuple, MergeOptions as PageOptions, Rebuild, WriteOptions, join_columns,
};
use femtobarn_rootfile::Key;

use super::attributes::{AttributeSets, Places};
use super::options::{check_output, if_taken};
use super::others::{Content, check_other, copy_object};
use super::paths::Paths;
use super::proven::prove_staged;
use super::{MergeReport, MergedInput, MergedNTuple, OnProgress, Progress};
use crate::destination::Destination;
use crate::inputs::{
    Input, JoinOptions, Opened, OtherObjects, check_apart, check_inputs, check_joined, chosen,
    counted, matched, open_joined,
};
use crate::left_behind::{LeftBehind, beside};
use crate::objects::RNTUPLE_CLASS;
use crate::proof::{ProofOptions, find_meant};
use crate::staged::{StagedOutput, bytes_of, shown};
use crate::writable::Output;

/// Puts the fields of ntuples side by side into a new file, which appears when it is complete.
///
/// # Errors
/// If their entries do not belong together, two have a field of one name, or something cannot be read or written: nothing
/// appears then.
pub fn join(
    files: &[Input],
    output: &Path,
    options: &JoinOptions,
    progress: OnProgress<'_>,
) -> Result<MergeReport, RNTupleError> {
    let start = Instant::now();
    let given = output;
    let destination = Destination::parse(&output.to_string_lossy())?;
    let output = Path::new(&destination.url);
    let settings = Settings::new(&destination.url, options.settings.clone())?;
    check(files, output, options)?;
    let staged = StagedOutput::create(output, options.overwrite, &settings);
    let mut staged = staged.map_err(|error| if_taken(error, output, (options.words, false)))?;
    let readers = files
        .iter()
        .map(open_joined)
        .collect::<Result<Vec<_>, _>>()?;
    let first = readers
        .first()
        .ok_or_else(|| RNTupleError::internal("nothing to join"))?;
    let name = options.name.as_deref();
    let name = name.unwrap_or_else(|| destination.naming.name_of(first.path()));
    let name: Vec<&str> = name.split('/').filter(|part| !part.is_empty()).collect();
    let name = name.join("/");
    let name = name.as_str();
    let (folder, own) = name.rsplit_once('/').unwrap_or(("", name));
    let beside = files.iter().zip(&readers);
    let beside =
        beside.map(|(input, reader)| OtherContent::of(input, reader, name, options.others));
    let beside = beside.collect::<Result<Vec<_>, _>>()?;
    let top_level = chosen(&readers, options)?;
    let mut begun = Progress::of(files);
    for reader in &readers {
        begun.add_remote(reader.store().info());
    }
    let (matched, unused) = matched(&readers, options, &|_, _| progress(begun))?;
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
    let mut file = staged.writer(options.write.compression)?;
    let mut known = (HashMap::new(), Paths::default());
    for (beside, input) in beside.iter().zip(&mut report.inputs) {
        beside.write(&mut file, options, &mut known, input)?;
    }
    let directory = file.directory(folder)?;
    let bytes = AtomicU64::new(0);
    let tick = |n| {
        let bytes = bytes.fetch_add(n, Ordering::Relaxed) + n;
        progress(Progress { bytes, ..begun })
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
    let (mut ntuple, merged) = joined.map_err(|error| staged.explain(error, begun.n_bytes))?;
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
    report.shared_bytes = report.shared_in(&file);
    staged.complete(file, options.verify)?;
    report.bytes_out = staged.n_bytes();
    if options.verify {
        let proof = ProofOptions {
            threads: options.write.threads,
            join: Some(options.clone()),
            ..ProofOptions::default()
        };
        let output = staged.input(Some(name), &options.settings);
        let finder = |(_, input): (usize, &Input), path: &str| find_meant(&output, input, path);
        let proof = prove_staged(&output, files, &finder, proof, (begun, false), progress)?;
        report.proof = Some(proof);
    }
    let n_bytes = report.bytes_out;
    let tick = |done| progress(begun.sending(done, n_bytes));
    report.delivery = staged.appear(options.verify, &tick)?;
    report.bytes_out = bytes_of(report.delivery.as_ref(), n_bytes);
    report.gather_left_behind();
    report.output = shown(given);
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// The attribute sets of the output, and reports on the inputs, which begin with the parts that are not in the output:
/// the number of `unused` entries of each, and its notes.
fn attribute_sets(
    readers: &[Arc<Reader>],
    matched: &[Option<Vec<u64>>],
    unused: Vec<u64>,
    others: OtherObjects,
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

/// Objects in the file of an ntuple besides it.
struct OtherContent {
    opened: Opened,
    /// Objects to copy, if the ntuple is not named.
    objects: Vec<(String, Key)>,
    /// Objects that are not copied, if it is named.
    left: Vec<LeftBehind>,
}

impl OtherContent {
    /// Checks that it can be treated as requested, next to an output with this name.
    fn of(
        input: &Input,
        reader: &Reader,
        name: &str,
        others: OtherObjects,
    ) -> Result<Self, RNTupleError> {
        let opened = Opened::new(input)?;
        if let Some(path) = &input.path {
            let left = beside(&opened.file, &[path])?;
            return Ok(Self {
                opened,
                objects: Vec::new(),
                left,
            });
        }
        let (mut objects, older) = opened.objects_and_older(None)?;
        let older = older.iter();
        let left = older.map(|(path, key)| LeftBehind::older(path, key));
        let left = left.collect();
        let is_joined =
            |path: &str, key: &Key| path == reader.path() && key.class_name == RNTUPLE_CLASS;
        objects.retain(|(path, key)| !key.is_directory() && !is_joined(path, key));
        for (path, key) in &objects {
            match others {
                OtherObjects::Error => return Err(not_asked_for(reader, path, key)),
                OtherObjects::Same | OtherObjects::First if is_in_way(path, name) => {
                    return Err(in_way(reader, path, key, name));
                }
                _ => check_other(&opened, path, key, others)?,
            }
        }
        Ok(Self {
            opened,
            objects,
            left,
        })
    }

    /// Writes objects with new names, or none, as requested; the others are in the report.
    fn write<'b>(
        &'b self,
        file: &mut Output,
        options: &JoinOptions,
        (known, paths): &mut (HashMap<&'b str, Content>, Paths),
        input: &mut MergedInput,
    ) -> Result<(), RNTupleError> {
        input.left.extend(self.left.iter().cloned());
        for (path, key) in &self.objects {
            match (options.others, known.get(path.as_str())) {
                (OtherObjects::Same | OtherObjects::First, None) => {
                    paths.add(self.opened.source.url(), path, key)?;
                    let settings = options.write.compression;
                    let object =
                        copy_object(file.root_file()?, &self.opened, (path, key), settings)?;
                    known.insert(path, Content::of(&self.opened, key, &object));
                }
                (OtherObjects::Same, Some(content)) => content.check(&self.opened, path, key)?,
                (others, _) => {
                    let item = LeftBehind::object(path, &key.class_name, others.why_left());
                    input.left.push(item);
                }
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
            "{url} has a {class} called {path:?}, so the new ntuple cannot have the name {name:?}: give another name \
             (name=, --name)"
        ),
    }
}

/// The error of an object besides an ntuple.
fn not_asked_for(reader: &Reader, path: &str, key: &Key) -> RNTupleError {
    let (url, ntuple, class) = (reader.url(), reader.path(), &key.class_name);
    RNTupleError::Usage {
        what: format!(
            "{url} has a {class} called {path:?} besides its ntuple: name the ntuple to join it alone \
             (\"{url}:{ntuple}\"), or use others=\"same\" (--others same) to keep objects that are \
             the same in all files, others=\"drop\" (--others drop) to leave them out"
        ),
    }
}

fn check(inputs: &[Input], output: &Path, options: &JoinOptions) -> Result<(), RNTupleError> {
    check_joined(inputs, options)?;
    check_output(&output.to_string_lossy())?;
    check_inputs(inputs)?;
    check_apart(inputs, output)
}
