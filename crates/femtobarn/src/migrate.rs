//! Moves ntuples between files, servers and object stores: pages as they are, or in another shape. A migration goes in
//! steps, and continues after the last complete one.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use femtobarn_codec::xxh3_128;
use femtobarn_io::{IoError, ObjectSet, Settings, is_daos, is_object_set, is_remote, public};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::spec::ObjectAnchor;
use femtobarn_rntuple::write::{Levels, steps};
use femtobarn_rootfile::Uuid;
use femtobarn_ttree::is_tree;
use serde_json::{Value, json};

use crate::copy::{file_of, is_folder_name};
use crate::daos::has_marked;
use crate::destination::{Destination, Naming, folder_of, ntuple_of, stems};
use crate::inputs::{Entries, Input, Opened};
use crate::left_behind::{AllLeftBehind, beside};
use crate::merge::{Made, MergeOptions, OnProgress, Part, levels_json, make_in_steps, prove_made};
use crate::objects::RNTUPLE_CLASS;
use crate::open::{is_one_ntuple, open_source_with};
use crate::proof::ProofReport;
use crate::staged::{Delivery, uuid_of};
use crate::writable::local;

/// Stored bytes of a step, at least. A killed migration repeats less than one step.
const STEP: u64 = 256 << 20;

/// How ntuples are migrated.
#[derive(Debug, Clone, Default)]
pub struct MigrateOptions {
    /// Fields, entries, and the shape of the output.
    pub merge: MergeOptions,
    /// Whether to continue what was begun, and to skip outputs that are complete.
    pub resume: bool,
    /// Stored bytes of a step, at least; by default 256 MiB.
    pub step_bytes: Option<u64>,
}

/// An output, and what is moved to it.
#[derive(Debug)]
pub struct Migration {
    /// The output.
    pub output: String,
    naming: Naming,
    parts: Vec<Part>,
    /// A local directory to be created.
    folder: Option<PathBuf>,
    /// What it is made from.
    mark: Uuid,
    left_behind: AllLeftBehind,
}

/// What became of a migration.
#[derive(Debug)]
pub struct Migrated {
    /// The output, without secrets.
    pub output: String,
    /// The inputs, without secrets.
    pub inputs: Vec<String>,
    /// Numbers of entries by ntuple.
    pub n_entries: BTreeMap<String, u64>,
    /// How many of them an earlier migration had written.
    pub n_before: u64,
    /// Whether an earlier migration had completed the output, so that nothing was done.
    pub was_complete: bool,
    /// Bytes of pages by level, as in a merge.
    pub levels: Levels,
    /// Size of the output.
    pub bytes_out: u64,
    /// The duration.
    pub seconds: f64,
    /// What the inputs have and the output does not.
    pub left_behind: AllLeftBehind,
    /// The comparison with the inputs, if it was asked for.
    pub proof: Option<ProofReport>,
    /// How it got to its server, if it is on one.
    pub delivery: Option<Delivery>,
}

impl Migrated {
    /// The same as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "output": self.output,
            "inputs": self.inputs,
            "entries": self.n_entries,
            "entries_before": self.n_before,
            "was_complete": self.was_complete,
            "levels": levels_json(&self.levels),
            "bytes_out": self.bytes_out,
            "seconds": self.seconds,
            "left_behind": self.left_behind.to_json(),
            "proof": self.proof.as_ref().map(ProofReport::to_json),
            "delivery": self.delivery.as_ref().map(Delivery::to_json),
        })
    }
}

/// An input, with the ntuples that are to be moved.
struct Source {
    input: Input,
    opened: Opened,
    paths: Vec<String>,
}

/// Finds what is to be moved where. The destination is an output; or with a slash at its end, or if it is an existing
/// directory, it gets a file for each input, or objects for each ntuple.
///
/// # Errors
/// If an input cannot be read or has no ntuple, or outputs would get the same name.
pub fn plan_migration(
    inputs: &[Input],
    destination: &str,
    options: &MigrateOptions,
) -> Result<Vec<Migration>, RNTupleError> {
    let sources = inputs.iter().map(Source::open);
    let sources: Vec<Source> = sources.collect::<Result<_, _>>()?;
    let n_ntuples: usize = sources.iter().map(|source| source.paths.len()).sum();
    let (destination, is_folder, naming) = place(destination)?;
    let destination = destination.as_str();
    let mut outputs: Vec<(String, Vec<(&Source, &str)>)> = Vec::new();
    for (source, stem) in sources.iter().zip(stems(inputs)) {
        for path in &source.paths {
            let output = match is_folder {
                true => source.place((destination, &stem), path, sources.len() > 1)?,
                false => destination.to_owned(),
            };
            match outputs.iter_mut().find(|(known, _)| *known == output) {
                Some((_, parts)) => parts.push((source, path)),
                None => outputs.push((output, vec![(source, path)])),
            }
        }
    }
    if n_ntuples > 1 && matches!(options.merge.entries, Entries::Slice { .. }) {
        return Err(usage(format!(
            "entries are those of one ntuple, but there are {n_ntuples}: name one, as FILE:NAME"
        )));
    }
    let made = outputs.into_iter();
    let is_made = is_folder && !is_remote(destination);
    let migrations = made.map(|(output, parts)| {
        let folder = is_made.then(|| local(&output).parent().map(Path::to_path_buf));
        let folder = folder.flatten();
        let migration = Migration::new((output, &naming), &parts, &sources, options)?;
        Ok(Migration {
            folder,
            ..migration
        })
    });
    migrations.collect()
}

/// A destination, whether it is a directory, and the names that ntuples get there.
fn place(destination: &str) -> Result<(String, bool, Naming), RNTupleError> {
    let is_folder = is_folder_name(destination) && !is_daos(destination);
    if !is_folder {
        let Destination { url, naming } = Destination::parse(destination)?;
        return Ok((url, false, naming));
    }
    let url = folder_of(destination)?;
    let naming = match is_object_set(&url) {
        true => Naming::One(None),
        false => Naming::Paths,
    };
    Ok((url, true, naming))
}

impl Source {
    fn open(input: &Input) -> Result<Self, RNTupleError> {
        let opened = Opened::new(input)?;
        let objects = opened.objects(input.path.as_deref())?;
        let ntuples = objects
            .iter()
            .filter(|(_, key)| key.class_name == RNTUPLE_CLASS);
        let paths: Vec<String> = ntuples.map(|(path, _)| path.clone()).collect();
        if paths.is_empty() {
            let shown = input.shown();
            let tree = objects.iter().find(|(_, key)| is_tree(&key.class_name));
            return Err(usage(match tree {
                Some((path, _)) => format!(
                    "{shown} has no RNTuple, but a tree {path:?}: convert it first (fb convert, femtobarn.convert)"
                ),
                None => format!("{shown} has no RNTuple"),
            }));
        }
        Ok(Self {
            input: input.clone(),
            opened,
            paths,
        })
    }

    /// Whether another source is the same file.
    fn is_file_of(&self, other: &Self) -> bool {
        self.input.url == other.input.url
    }

    /// The output of an ntuple in a folder.
    fn place(
        &self,
        (folder, stem): (&str, &str),
        path: &str,
        are_several: bool,
    ) -> Result<String, RNTupleError> {
        if is_object_set(folder) {
            let path = (!is_one_ntuple(&self.input.url)).then_some(path);
            return ntuple_of(folder, (&self.input, stem), path, are_several);
        }
        Ok(file_of(folder, &format!("{stem}.root")))
    }
}

impl Migration {
    fn new(
        (output, naming): (String, &Naming),
        sources: &[(&Source, &str)],
        all: &[Source],
        options: &MigrateOptions,
    ) -> Result<Self, RNTupleError> {
        let name_of = |path: &str| naming.name_of(path).to_owned();
        if *naming != Naming::Leaves {
            let paths: Vec<&str> = sources.iter().map(|(_, path)| *path).collect();
            naming.check(&paths, ", or end the destination with a slash")?;
        }
        let mut names = HashSet::new();
        if let Some((source, path)) = sources
            .iter()
            .find(|(_, path)| !names.insert(name_of(path)))
        {
            let advice = match is_daos(&output) {
                true => {
                    "name one, as FILE:NAME, and give it another name by the destination, as daos://POOL/CONTAINER:NAME"
                }
                false => {
                    "end the destination with a slash for an output each, or merge them (fb merge, femtobarn.merge)"
                }
            };
            return Err(usage(format!(
                "two ntuples {:?} would be written to {} (the second is that of {}): {advice}",
                name_of(path),
                public(&output),
                source.input.shown()
            )));
        }
        let merge = &options.merge;
        let shape = &merge.write;
        let mut text = format!(
            "{} {:?}",
            env!("CARGO_PKG_VERSION"),
            (
                (
                    &merge.fields,
                    merge.compression,
                    merge.level,
                    merge.keep_clusters
                ),
                (shape.cluster_bytes, shape.page_bytes, shape.object_size),
            )
        );
        let mut parts = Vec::with_capacity(sources.len());
        let mut left_behind = AllLeftBehind::default();
        for (source, path) in sources {
            let mut own = sources.iter().filter(|(other, _)| other.is_file_of(source));
            if own.next().is_some_and(|(_, first)| first == path) {
                let moved = all.iter().filter(|other| other.is_file_of(source));
                let moved = moved.flat_map(|other| &other.paths);
                let moved: Vec<&str> = moved.map(String::as_str).collect();
                for item in beside(&source.opened.file, &moved)? {
                    left_behind.add(item, Some(&source.input.shown()));
                }
            }
            let objects = source.opened.objects(Some(path))?;
            let Some((_, key)) = objects.first() else {
                return Err(RNTupleError::internal("an ntuple is missing"));
            };
            let reader = source.opened.reader(path, key)?;
            let entries = merge.entries.range(reader.n_entries());
            if entries.is_empty() && reader.n_entries() > 0 {
                return Err(usage(format!(
                    "the entries that are asked for are none of the {} of {}:{path}",
                    reader.n_entries(),
                    source.input.shown()
                )));
            }
            let descriptor = reader.descriptor();
            // the ranges of attributes must not be cut
            let steps = match descriptor.attribute_sets.is_empty() {
                true => steps(&reader, &entries, options.step_bytes.unwrap_or(STEP))?,
                false => vec![entries.clone()],
            };
            text += &format!(
                " {:?}",
                (
                    source.input.shown(),
                    path,
                    name_of(path),
                    source.opened.source.meta(),
                    descriptor.anchor,
                    entries
                )
            );
            parts.push(Part {
                name: name_of(path),
                input: Input {
                    path: Some((*path).to_owned()),
                    ..source.input.clone()
                },
                steps,
            });
        }
        Ok(Self {
            output,
            naming: naming.clone(),
            parts,
            folder: None,
            mark: Uuid::of(xxh3_128(text.as_bytes())),
            left_behind,
        })
    }

    /// Makes the output.
    ///
    /// # Errors
    /// If an input cannot be read or the output not be written, or it exists and must not be replaced. With
    /// [`resume`](MigrateOptions::resume), complete steps are not repeated later.
    pub fn run(
        &self,
        options: &MigrateOptions,
        progress: OnProgress<'_>,
    ) -> Result<Migrated, RNTupleError> {
        let start = Instant::now();
        if let Some(folder) = &self.folder {
            std::fs::create_dir_all(folder).map_err(|source| IoError::Create {
                url: folder.to_string_lossy().into_owned(),
                source,
            })?;
        }
        let was_complete = options.resume && self.is_complete(&options.merge.settings)?;
        let made = match was_complete {
            true => self.found(&options.merge, progress)?,
            false => {
                let how = (options.resume, self.mark);
                let output = Path::new(&self.output);
                let merge = MergeOptions {
                    naming: self.naming.clone(),
                    ..options.merge.clone()
                };
                make_in_steps(&self.parts, output, &merge, how, progress)?
            }
        };
        Ok(Migrated {
            output: public(&self.output),
            inputs: self.parts.iter().map(|part| part.input.shown()).collect(),
            n_entries: made.n_entries,
            n_before: made.n_before,
            was_complete,
            levels: made.levels,
            bytes_out: made.bytes_out,
            seconds: start.elapsed().as_secs_f64(),
            left_behind: self.left_behind.clone(),
            proof: made.proof,
            delivery: made.delivery,
        })
    }

    /// Whether the output exists and was made from the same inputs in the same way.
    fn is_complete(&self, settings: &BTreeMap<String, String>) -> Result<bool, RNTupleError> {
        let settings = Settings::new(&self.output, settings.clone())?;
        if is_daos(&self.output) {
            let ntuples = self.parts.iter().map(|part| part.name.as_str());
            return has_marked(&self.output, ntuples, &settings, self.mark);
        }
        if is_object_set(&self.output) {
            let anchor = ObjectSet::open(&self.output, &settings)?.anchor()?;
            let anchor = anchor.and_then(|(_, bytes)| ObjectAnchor::parse(&bytes).ok());
            let mark = anchor.and_then(|anchor| anchor.mark);
            return Ok(mark == Some(self.mark.to_string()));
        }
        match open_source_with(&self.output, &settings) {
            Ok(source) => Ok(uuid_of(source) == Some(self.mark)),
            Err(RNTupleError::Io(IoError::NotFound { .. } | IoError::NotAFile { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What a complete output has; it is verified if this is asked for.
    fn found(
        &self,
        options: &MergeOptions,
        progress: OnProgress<'_>,
    ) -> Result<Made, RNTupleError> {
        let proof = match options.verify {
            true => Some(prove_made(&self.parts, &self.output, options, progress)?),
            false => None,
        };
        let parts = self.parts.iter();
        let n_entries = parts.map(|part| (part.name.clone(), part.n_entries()));
        let n_entries: BTreeMap<String, u64> = n_entries.collect();
        Ok(Made {
            n_before: n_entries.values().sum(),
            n_entries,
            proof,
            ..Made::default()
        })
    }
}

fn usage(what: String) -> RNTupleError {
    RNTupleError::Usage { what }
}
