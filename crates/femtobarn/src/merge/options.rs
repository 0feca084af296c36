//! How files are merged, and what makes no sense.

use std::collections::BTreeMap;
use std::path::Path;

use femtobarn_io::{IoError, is_object_set, is_remote, public};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::{Mode, StoredAs, WriteOptions};

use super::proven;
use crate::choice::Choice;
use crate::destination::{Destination, Naming};
use crate::inputs::{Entries, Input, OtherObjects, check_apart, check_inputs};
use crate::pattern::is_pattern;
use crate::staged::shown;
use crate::transfer::Words;
use crate::writable::{local, not_added_to};

/// Treatment of pages, as levels of ROOT's `tree/ntuple/doc/Merging.md`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Level {
    /// The cheapest that keeps the result right, for each input.
    #[default]
    Auto,
    /// They share the blocks of the input's file; an error where they cannot.
    L0,
    /// They are copied.
    L1,
    /// They are decompressed and compressed where their settings are others.
    L2,
    /// They are decoded and encoded where the output's encodings are others.
    L3,
    /// Pages and clusters are rebuilt, with the requested sizes.
    L4,
}

impl Choice for Level {
    const ALL: &[(&str, Self)] = &[
        ("auto", Self::Auto),
        ("L0", Self::L0),
        ("L1", Self::L1),
        ("L2", Self::L2),
        ("L3", Self::L3),
        ("L4", Self::L4),
    ];
}

/// How files are merged.
#[derive(Debug, Clone)]
pub struct MergeOptions {
    /// Treatment of pages.
    pub level: Level,
    /// Which fields the inputs must have.
    pub mode: Mode,
    /// Patterns (`*`, `?`, `[abc]`) of the top-level fields to take; all if empty.
    pub fields: Vec<String>,
    /// The entries to take.
    pub entries: Entries,
    /// Settings that all pages are to have; none: each keeps its own.
    pub compression: Option<u32>,
    /// Whether the bytes of numbers are split and offsets are differences; none: as they are.
    pub split: Option<bool>,
    /// Names or patterns of fields, and the encoding of all floats at and below them; of several that fit, the first
    /// counts.
    pub precision: Vec<(String, StoredAs)>,
    /// Level L4 rebuilds pages, and keeps clusters.
    pub keep_clusters: bool,
    /// Only what ROOT 6.40 and uproot 5.7 read is written: columns get no further representations.
    pub compatible: bool,
    /// Treatment of objects that are neither ntuples nor directories nor histograms; histograms are added.
    pub others: OtherObjects,
    /// Names of ntuples in the output. Those of a merge are given by its URL.
    pub naming: Naming,
    /// Whether to replace an existing output.
    pub overwrite: bool,
    /// Whether to append the inputs to an existing output.
    pub append: bool,
    /// Whether this is a merge: it can append, and refer to objects of its inputs.
    pub takes_append: bool,
    /// How the caller names options, for messages.
    pub words: Words,
    /// Whether a new output is compared with the inputs before it appears.
    pub verify: bool,
    /// How metadata and new pages are written; its threads are the threads of the whole merge.
    pub write: WriteOptions,
    /// Settings for the server of the output, which override the environment and the settings file.
    pub settings: BTreeMap<String, String>,
}

impl Default for MergeOptions {
    fn default() -> Self {
        Self {
            level: Level::default(),
            mode: Mode::default(),
            fields: Vec::new(),
            entries: Entries::default(),
            compression: None,
            split: None,
            precision: Vec::new(),
            keep_clusters: false,
            compatible: true,
            others: OtherObjects::default(),
            naming: Naming::default(),
            overwrite: false,
            append: false,
            takes_append: false,
            words: Words::default(),
            verify: false,
            write: WriteOptions::default(),
            settings: BTreeMap::new(),
        }
    }
}

/// Checks that an output is one ROOT file, by its name.
///
/// # Errors
/// If its scheme is unknown, or it is a pattern or has another ending, and there is nothing of that name.
pub fn check_output(output: &str) -> Result<(), RNTupleError> {
    Destination::parse(output)?;
    let path = local(output);
    // the query of a URL is not part of the name
    let output = public(output);
    let is_other = !is_object_set(&output)
        && (output.to_ascii_lowercase().contains(".root:") || !output.contains(".root"));
    let wrong = if path.exists() {
        None
    } else if is_pattern(&output) {
        Some("an output cannot be a pattern")
    } else if is_other {
        Some("a ROOT file's name ends with .root, e.g. out.root")
    } else {
        None
    };
    match wrong {
        None => Ok(()),
        Some(wrong) => Err(RNTupleError::Usage {
            what: format!("invalid output {output:?}: {wrong}"),
        }),
    }
}

/// Checks that the request is possible.
pub(super) fn check(
    inputs: &[Input],
    output: &Path,
    options: &MergeOptions,
) -> Result<(), RNTupleError> {
    let misused = |what: String| RNTupleError::Usage { what };
    if inputs.is_empty() {
        return Err(misused("nothing to merge".to_owned()));
    }
    check_output(&output.to_string_lossy())?;
    check_inputs(inputs)?;
    check_apart(inputs, output)?;
    if options.level == Level::L2 && options.compression.is_none() {
        return Err(misused(
            "level L2 recompresses: give a compression".to_owned(),
        ));
    }
    let is_recoded = options.split.is_some() || !options.precision.is_empty();
    let asked = match options.level {
        Level::L0 | Level::L1 if options.compression.is_some() => Some("compression"),
        Level::L0 | Level::L1 | Level::L2 if is_recoded => Some("encoding and precision"),
        _ => None,
    };
    if let Some(asked) = asked {
        let what = format!(
            "level {:?} does not change pages: leave out {asked}",
            options.level
        );
        return Err(misused(what));
    }
    if options.append && (is_recoded || options.level == Level::L3) {
        let what = "an append keeps the encodings of the output: leave out level L3, encoding and precision";
        return Err(misused(what.to_owned()));
    }
    if inputs.len() > 1 && matches!(options.entries, Entries::Slice { .. }) {
        let what = format!(
            "entries are counted in one file, but there are {}: name one, or select entries with a condition",
            inputs.len()
        );
        return Err(misused(what));
    }
    if options.append && options.overwrite {
        let what = "use either append or overwrite, not both";
        return Err(misused(what.to_owned()));
    }
    if options.append && is_remote(&output.to_string_lossy()) {
        return Err(not_added_to(&output.to_string_lossy()));
    }
    if options.verify {
        proven::check(output, options)?;
    }
    Ok(())
}

/// Advice for an output that exists. Some callers could append to it.
pub(super) fn if_taken(
    error: RNTupleError,
    output: &Path,
    (words, takes_append): (Words, bool),
) -> RNTupleError {
    if !matches!(&error, RNTupleError::Io(IoError::Exists { .. })) {
        return error;
    }
    let replace = match words {
        Words::Python => words.on("overwrite"),
        Words::Shell => words.on("force"),
    };
    // files of servers are not added to
    let append = match takes_append && !is_remote(&output.to_string_lossy()) {
        true => format!(", or append to it ({})", words.on("append")),
        false => String::new(),
    };
    RNTupleError::Usage {
        what: format!(
            "{:?} already exists: give another name, or replace it ({replace}){append}",
            shown(output).to_string_lossy()
        ),
    }
}
