//! Which entries of an input are to be in the output, and where.

use std::ops::Range;
use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;

use super::ProofOptions;
use super::clusters::Cluster;
use crate::merge::Chooser;

/// Entries of an input that follow one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub entries: Range<u64>,
    /// The entry of the output that is the first of them.
    pub output: u64,
}

impl Run {
    pub fn n_entries(&self) -> u64 {
        self.entries.end - self.entries.start
    }

    /// The entry of the output behind the last.
    pub fn output_end(&self) -> u64 {
        self.output + self.n_entries()
    }
}

/// The entries of an input that are to be in the output from entry `at` on, in their order.
pub(super) fn runs(
    input: &Arc<Reader>,
    clusters: &[Cluster],
    options: &ProofOptions,
    mut at: u64,
) -> Result<Vec<Run>, RNTupleError> {
    let chooser = Chooser::new(&options.entries, input, options.threads)?;
    let mut out: Vec<Run> = Vec::new();
    for cluster in clusters {
        let chosen = match &chooser {
            None => vec![cluster.entries()],
            Some(chooser) => chooser.choose(cluster.entries())?,
        };
        for entries in chosen.into_iter().filter(|entries| !entries.is_empty()) {
            let n = entries.end - entries.start;
            match out.last_mut() {
                Some(last) if last.entries.end == entries.start => last.entries.end = entries.end,
                _ => out.push(Run {
                    entries,
                    output: at,
                }),
            }
            at += n;
        }
    }
    Ok(out)
}
