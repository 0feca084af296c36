//! What a merge did.

use std::collections::BTreeMap;
use std::path::PathBuf;

use femtobarn_io::public;
use femtobarn_rntuple::write::{Levels, Merged, hull};
use serde_json::{Value, json};

use crate::left_behind::{AllLeftBehind, LeftBehind};
use crate::objects::RNTUPLE_CLASS;
use crate::proof::ProofReport;
use crate::staged::Delivery;
use crate::writable::Output;

/// Why a field is not in the output.
const NOT_IN_FIRST: &str = "the first file does not have it";

/// What a merge did.
#[derive(Debug, Clone, Default)]
pub struct MergeReport {
    /// The file that was made.
    pub output: PathBuf,
    /// Its size.
    pub bytes_out: u64,
    /// Its size before; none if it was made.
    pub bytes_before: Option<u64>,
    /// The time that it took.
    pub seconds: f64,
    /// The ntuples of the output by their paths.
    pub ntuples: BTreeMap<String, MergedNTuple>,
    /// Number of histograms in the output, which are sums over the inputs.
    pub histograms: usize,
    /// What came of each input.
    pub inputs: Vec<MergedInput>,
    /// What the inputs have and the output does not.
    pub left_behind: AllLeftBehind,
    /// Bytes of the output that share their disk blocks with the inputs, according to the file system (`FIEMAP`); none
    /// if it does not.
    pub shared_bytes: Option<u64>,
    /// The comparison with the inputs, if it was asked for.
    pub proof: Option<ProofReport>,
    /// How it got to its server, if it is on one.
    pub delivery: Option<Delivery>,
}

/// An ntuple of the output.
#[derive(Debug, Clone, Copy, Default)]
pub struct MergedNTuple {
    /// Number of entries.
    pub n_entries: u64,
    /// Number of entries before.
    pub n_before: u64,
    /// Whether all entries were taken since it lacks columns of the condition.
    pub is_whole: bool,
}

/// What came of an input.
#[derive(Debug, Clone, Default)]
pub struct MergedInput {
    /// The file, without what may be secret in its URL.
    pub url: String,
    /// Its ntuples by their paths.
    pub ntuples: Vec<(String, Merged)>,
    /// How many of its histograms were added up.
    pub histograms: usize,
    /// Its trees that were converted, with their classes.
    pub converted: Vec<(String, String)>,
    /// Fields of these whose names or values were changed, with notes.
    pub notes: Vec<(String, String)>,
    /// Its parts that the output lacks.
    pub(super) left: Vec<LeftBehind>,
    /// Names in the output and paths of its ntuples.
    pub(super) paths: Vec<(String, String)>,
}

impl MergedInput {
    pub(super) fn of(url: &str) -> Self {
        Self {
            url: public(url),
            ..Self::default()
        }
    }

    /// The path of an ntuple with a name in the output.
    pub(super) fn path_of(&self, name: &str) -> Option<&str> {
        let found = self.paths.iter().find(|(known, _)| known == name);
        found.map(|(_, path)| path.as_str())
    }
}

impl MergeReport {
    /// Bytes by level, of all inputs.
    pub fn levels(&self) -> Levels {
        let all = self.inputs.iter().flat_map(|input| &input.ntuples);
        all.fold(Levels::default(), |sum, (_, merged)| sum.and(merged.levels))
    }

    /// Collects the parts of each input that the output lacks.
    pub(super) fn gather_left_behind(&mut self) {
        for input in &mut self.inputs {
            for item in std::mem::take(&mut input.left) {
                self.left_behind.add(item, Some(&input.url));
            }
            for (path, merged) in &input.ntuples {
                for field in merged.left_out.iter() {
                    let object = (path.as_str(), RNTUPLE_CLASS);
                    let item = LeftBehind::field(object, field, NOT_IN_FIRST);
                    self.left_behind.add(item, Some(&input.url));
                }
            }
        }
    }

    /// Bytes of the output that share their disk blocks with other files, according to the file system.
    pub(super) fn shared_in(&self, output: &Output) -> Option<u64> {
        let Output::File(file) = output else {
            return None;
        };
        // asking syncs: once for all, and between copied parts there are only new blocks
        let ntuples = self.inputs.iter().flat_map(|input| &input.ntuples);
        let places = ntuples.map(|(_, merged)| &merged.place);
        file.sink()
            .shared_bytes(&places.fold(0..0, |all, place| hull(&all, place)))
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let inputs = self.inputs.iter().map(|input| {
            let ntuples: serde_json::Map<String, Value> = input
                .ntuples
                .iter()
                .map(|(path, merged)| (path.clone(), merged_json(merged)))
                .collect();
            json!({"input": input.url, "ntuples": ntuples, "histograms": input.histograms, "converted": input.converted, "notes": input.notes})
        });
        let ntuples = self.ntuples.iter();
        let ntuples: serde_json::Map<String, Value> = ntuples
            .map(|(path, ntuple)| {
                (path.clone(), {
                    let (entries, before) = (ntuple.n_entries, ntuple.n_before);
                    json!({"entries": entries, "entries_before": before, "whole": ntuple.is_whole})
                })
            })
            .collect();
        json!({
            "output": self.output.to_string_lossy(),
            "bytes_out": self.bytes_out,
            "bytes_before": self.bytes_before,
            "seconds": self.seconds,
            "ntuples": ntuples,
            "histograms": self.histograms,
            "levels": levels_json(&self.levels()),
            "shared_bytes": self.shared_bytes,
            "inputs": inputs.collect::<Vec<_>>(),
            "left_behind": self.left_behind.to_json(),
            "proof": self.proof.as_ref().map(ProofReport::to_json),
            "delivery": self.delivery.as_ref().map(Delivery::to_json),
        })
    }
}

fn merged_json(merged: &Merged) -> Value {
    json!({
        "entries": merged.n_entries,
        "clusters": merged.n_clusters,
        "pages": merged.n_pages,
        "levels": levels_json(&merged.levels),
        "missing": &*merged.missing,
        "why": merged.why,
    })
}

pub(crate) fn levels_json(levels: &Levels) -> Value {
    json!({
        "L0": levels.shared,
        "L1": levels.copied,
        "L2": levels.recompressed,
        "L3": levels.reencoded,
        "L4": levels.rebuilt,
        "zeros": levels.zeros,
        "refused": levels.refused,
    })
}
