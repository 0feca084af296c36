//! The expected positions of an input's entries in the output.

use std::ops::Range;
use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{Reader, Tick};

use super::clusters::Cluster;
use crate::inputs::{Chooser, joined};

/// Consecutive entries of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub entries: Range<u64>,
    /// The entry of the output with the first of them.
    pub output: u64,
}

impl Run {
    pub fn n_entries(&self) -> u64 {
        self.entries.end - self.entries.start
    }

    /// The exclusive end in the output.
    pub fn output_end(&self) -> u64 {
        self.output + self.n_entries()
    }
}

/// The runs of selected entries of an input, which begin at entry `at` of the output.
pub(super) fn runs(
    input: &Arc<Reader>,
    clusters: &[Cluster],
    chooser: Option<&Chooser<'_>>,
    at: u64,
    tick: Option<Tick<'_>>,
) -> Result<Vec<Run>, RNTupleError> {
    let mut taken = Vec::new();
    for cluster in clusters {
        if tick.is_some_and(|tick| !tick(cluster.entries().start, input.n_entries())) {
            return Err(RNTupleError::Interrupted);
        }
        match chooser {
            None => taken.push(cluster.entries()),
            Some(chooser) => taken.extend(chooser.choose(cluster.entries())?),
        }
    }
    Ok(behind_one_another(taken, at))
}

/// The runs of given entries of an input, which are consecutive in the output from entry `at` on.
pub(super) fn behind_one_another(
    entries: impl IntoIterator<Item = Range<u64>>,
    mut at: u64,
) -> Vec<Run> {
    let run = |entries: Range<u64>| {
        let output = at;
        at += entries.end - entries.start;
        Run { entries, output }
    };
    joined(entries).into_iter().map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_follow_one_another_are_one_run() {
        let runs = |entries: &[u64]| behind_one_another(entries.iter().map(|&n| n..n + 1), 0);
        let run = |entries: Range<u64>, output| Run { entries, output };
        assert_eq!(
            runs(&[4, 5, 6, 2, 3, 9]),
            [run(4..7, 0), run(2..4, 3), run(9..10, 5)]
        );
        assert_eq!(runs(&[]), []);
        let ranges = [0..0, 3..5, 5..5, 5..6, 0..2];
        assert_eq!(behind_one_another(ranges, 7), [run(3..6, 7), run(0..2, 10)]);
    }
}
