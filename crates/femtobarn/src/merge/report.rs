//! What a merge did.

use std::collections::BTreeMap;
use std::path::PathBuf;

use femtobarn_rntuple::write::{Levels, Merged};
use serde_json::{Value, json};

/// What a merge did.
#[derive(Debug, Clone, Default)]
pub struct MergeReport {
    /// The file that was made.
    pub output: PathBuf,
    /// Its size.
    pub bytes_out: u64,
    /// The time that it took.
    pub seconds: f64,
    /// The ntuples of the output by their paths.
    pub ntuples: BTreeMap<String, MergedNTuple>,
    /// What came of each input.
    pub inputs: Vec<MergedInput>,
    /// Bytes of the output that share their blocks with the inputs, as the file system says (`FIEMAP`); none if it does not.
    pub shared_bytes: Option<u64>,
}

/// An ntuple of the output.
#[derive(Debug, Clone, Copy, Default)]
pub struct MergedNTuple {
    /// Number of entries.
    pub n_entries: u64,
}

/// What came of an input.
#[derive(Debug, Clone, Default)]
pub struct MergedInput {
    /// The file.
    pub url: String,
    /// Its ntuples by their paths.
    pub ntuples: Vec<(String, Merged)>,
    /// Objects that the output does not have, with their classes.
    pub dropped: Vec<(String, String)>,
}

impl MergedInput {
    pub(super) fn of(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            ..Self::default()
        }
    }
}

impl MergeReport {
    /// Bytes by level, of all inputs.
    pub fn levels(&self) -> Levels {
        let all = self.inputs.iter().flat_map(|input| &input.ntuples);
        all.fold(Levels::default(), |sum, (_, merged)| sum.and(merged.levels))
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let inputs = self.inputs.iter().map(|input| {
            let ntuples: serde_json::Map<String, Value> = input
                .ntuples
                .iter()
                .map(|(path, merged)| (path.clone(), merged_json(merged)))
                .collect();
            json!({"input": input.url, "ntuples": ntuples, "dropped": input.dropped})
        });
        let ntuples = self.ntuples.iter();
        let ntuples: serde_json::Map<String, Value> = ntuples
            .map(|(path, ntuple)| (path.clone(), json!({"entries": ntuple.n_entries})))
            .collect();
        json!({
            "output": self.output.to_string_lossy(),
            "bytes_out": self.bytes_out,
            "seconds": self.seconds,
            "ntuples": ntuples,
            "levels": levels_json(&self.levels()),
            "shared_bytes": self.shared_bytes,
            "inputs": inputs.collect::<Vec<_>>(),
        })
    }
}

fn merged_json(merged: &Merged) -> Value {
    json!({
        "entries": merged.n_entries,
        "clusters": merged.n_clusters,
        "pages": merged.n_pages,
        "levels": levels_json(&merged.levels),
        "left_out": merged.left_out,
        "missing": merged.missing,
    })
}

fn levels_json(levels: &Levels) -> Value {
    json!({
        "L0": levels.shared,
        "L1": levels.copied,
        "L2": levels.recompressed,
        "L3": levels.reencoded,
        "zeros": levels.zeros,
        "refused": levels.refused,
    })
}
