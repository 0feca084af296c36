//! The proof that a merge is correct, before its output gets its name.

use std::path::Path;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Tick;

use super::{MergeOptions, OnProgress, Progress};
use crate::inputs::{Input, share};
use crate::ntuple::NTuple;
use crate::open::OpenOptions;
use crate::proof::{Finder, NTupleProof, ProofOptions, ProofReport, prove_found};

/// Insists that the output is new, and to have the values of the inputs.
pub(super) fn check(output: &Path, options: &MergeOptions) -> Result<(), RNTupleError> {
    let what = if options.append && output.exists() {
        "an append cannot be verified before it appears: afterwards, compare the new entries with the files \
         (verify(against=files, since=report.entries_before[name]), fb verify OUTPUT:NAME --against FILES --since N)"
    } else if !options.precision.is_empty() {
        "values with another precision differ from the inputs and cannot be verified: compare the other fields \
         afterwards (verify(against=…, fields=[…]), fb verify OUTPUT --against INPUT --fields …)"
    } else {
        return Ok(());
    };
    Err(RNTupleError::Usage {
        what: what.to_owned(),
    })
}

/// Reads a file without a name, or with `is_kept` one that exists, and compares it with its inputs.
///
/// # Errors
/// If it cannot be read, or anything is not as in the inputs.
pub(super) fn prove_staged(
    output: &Input,
    inputs: &[Input],
    finder: Finder<'_>,
    options: ProofOptions,
    (all, is_kept): (Progress, bool),
    progress: OnProgress<'_>,
) -> Result<ProofReport, RNTupleError> {
    let tick = |done, total| {
        progress(Progress {
            files: all.n_files,
            bytes: share(all.n_bytes, done, total),
            verifying: true,
            ..all
        })
    };
    let report = prove_found(output, inputs, finder, &options, Some(&tick))?;
    let refused = |ntuple: &str, what: &str| match is_kept {
        true => RNTupleError::Inconsistent {
            url: output.shown(),
            ntuple: ntuple.to_owned(),
            what: "the complete output".to_owned(),
            expected: "the values of its sources (overwrite=True, --force, makes it anew)"
                .to_owned(),
            found: what.to_owned(),
        },
        false => RNTupleError::internal(format!(
            "the written {ntuple:?} differs from the inputs ({what}), and the output was discarded"
        )),
    };
    if let Some((ntuple, difference)) = report.differences().next() {
        return Err(refused(ntuple, &difference.describe()));
    }
    for proof in &report.ntuples {
        if let Some((field, reason)) = proof.not_compared.first() {
            return Err(refused(&proof.ntuple, &format!("{field}: {reason}")));
        }
        let files = [(output.url.clone(), Some(proof.ntuple.clone()))];
        let opening = OpenOptions {
            settings: output.settings.clone(),
            ..OpenOptions::default()
        };
        let ntuple = NTuple::open(&files, opening)?;
        let found = ntuple.verify(options.threads.max(1), Some(&tick))?;
        if let Some(damage) = found.iter().flat_map(|found| &found.damages).next() {
            check_inputs(proof, inputs, &options, &tick)?;
            let what = format!("{}: {}", damage.field, damage.problem);
            return Err(refused(&proof.ntuple, &what));
        }
    }
    Ok(report)
}

/// Checks whether damage came from an input.
fn check_inputs(
    proof: &NTupleProof,
    inputs: &[Input],
    options: &ProofOptions,
    tick: Tick<'_>,
) -> Result<(), RNTupleError> {
    for input in inputs {
        let path = match options.join {
            Some(_) => input.path.clone(),
            None => input.path.clone().or_else(|| Some(proof.ntuple.clone())),
        };
        let file = [(input.url.clone(), path.clone())];
        // an input may lack it
        let opening = OpenOptions {
            settings: input.settings.clone(),
            ..OpenOptions::default()
        };
        let Ok(ntuple) = NTuple::open(&file, opening) else {
            continue;
        };
        let found = ntuple.verify(options.threads.max(1), Some(tick))?;
        if let Some(damage) = found.into_iter().flat_map(|found| found.damages).next() {
            return Err(RNTupleError::Inconsistent {
                url: input.shown(),
                ntuple: path.unwrap_or_else(|| {
                    let reader = ntuple.readers().first();
                    reader.map_or(String::new(), |reader| reader.path().to_owned())
                }),
                what: format!(
                    "the page of field {:?} in cluster {} at {}",
                    damage.field, damage.cluster, damage.address
                ),
                expected:
                    "an undamaged page (the output was discarded: repair the input or leave it out)"
                        .to_owned(),
                found: damage.problem,
            });
        }
    }
    Ok(())
}
