//! The proof of a join: the entries of its inputs are side by side, by number or by key.
//!
//! Matching entries are determined again from the inputs alone. So the proof also finds entries that are missing in the
//! output or in the wrong order.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{Reader, Tick};
use femtobarn_rntuple::schema::FieldId;

use super::clusters::clusters;
use super::fields::{Counterpart, FieldPair, by_name, counterpart};
use super::runs::{Run, behind_one_another};
use super::{Difference, Job, ProofOptions, ProofReport, open};
use crate::inputs::{Entries, Input, JoinOptions, check_joined, chosen, matched, open_joined};

/// Compares an ntuple with the joined ntuples.
///
/// # Errors
/// If an input cannot be opened, entries of the inputs do not match, or other selection options are given.
pub(super) fn prove(
    output: &Input,
    inputs: &[Input],
    join: &JoinOptions,
    options: &ProofOptions,
    tick: Option<Tick<'_>>,
) -> Result<ProofReport, RNTupleError> {
    let is_other =
        !matches!(options.entries, Entries::All) || options.since > 0 || !options.fields.is_empty();
    if is_other {
        return Err(RNTupleError::Usage {
            what: "entries, where and since are for inputs that follow each other, but the inputs of a join are side \
                   by side".to_owned(),
        });
    }
    check_joined(inputs, join)?;
    let readers = inputs.iter().map(open_joined);
    let readers = readers.collect::<Result<Vec<_>, _>>()?;
    let fields = chosen(&readers, join)?;
    check_names(&readers, &fields)?;
    let (entries, _) = matched(&readers, join, tick.unwrap_or(&|_, _| true))?;
    let (path, reader) = only(output)?;
    let mut job = Job::new(&path, reader, options)?;
    for ((reader, fields), entries) in readers.iter().zip(&fields).zip(entries) {
        job.add_beside(reader, fields, entries, tick)?;
    }
    let report = job.finish_beside(&readers, &fields);
    Ok(ProofReport {
        ntuples: vec![report],
    })
}

/// Checks that no two ntuples have a selected field with the same name: one of them would be missing in the output.
fn check_names(readers: &[Arc<Reader>], fields: &[Vec<FieldId>]) -> Result<(), RNTupleError> {
    let mut known: HashMap<&str, &Reader> = HashMap::new();
    for (reader, fields) in readers.iter().zip(fields) {
        let descriptor = reader.descriptor();
        let shown = fields
            .iter()
            .filter(|&&id| !descriptor.is_hidden_source(id));
        for &id in shown {
            let name = descriptor.field_name(id);
            if let Some(other) = known.insert(name, reader) {
                return Err(RNTupleError::Usage {
                    what: format!(
                        "{}:{} and {}:{} both have a field {name:?}, but only one can be in the output: give the \
                         fields of each ntuple (fields, --fields once for each ntuple)",
                        other.url(),
                        other.path(),
                        reader.url(),
                        reader.path()
                    ),
                });
            }
        }
    }
    Ok(())
}

/// The ntuple of the output, which must be the only one if it is not named.
fn only(output: &Input) -> Result<(String, Arc<Reader>), RNTupleError> {
    let mut ntuples = open(output)?;
    match (ntuples.pop(), ntuples.as_slice()) {
        (Some(one), []) => Ok(one),
        (last, others) => {
            let names = others.iter().chain(&last).map(|(path, _)| path.as_str());
            let names: Vec<&str> = names.collect();
            Err(RNTupleError::Usage {
                what: format!(
                    "a join is compared as one ntuple, but {} has {} ({}): name one (FILE:NAME)",
                    output.shown(),
                    names.len(),
                    names.join(", ")
                ),
            })
        }
    }
}

impl Job<'_> {
    /// Compares fields of an input with the whole output: with the given entries of the input, or with all in order.
    fn add_beside(
        &mut self,
        input: &Arc<Reader>,
        fields: &[FieldId],
        entries: Option<Vec<u64>>,
        tick: Option<Tick<'_>>,
    ) -> Result<(), RNTupleError> {
        let name = format!("{}:{}", input.url(), input.path());
        let theirs = clusters(input)?;
        let runs = match entries {
            None => behind_one_another(std::iter::once(0..input.n_entries()), 0),
            Some(entries) => behind_one_another(entries.into_iter().map(|n| n..n + 1), 0),
        };
        self.at = runs.last().map_or(0, Run::output_end);
        self.report.inputs.push((name.clone(), self.at));
        let pairs = self.pair_beside(input, &name, fields);
        self.compare(input, (&theirs, &runs), (&pairs, &[]), 0, tick)
    }

    /// Pairs fields of an input with fields of the output, which must have all of them.
    fn pair_beside(&mut self, input: &Reader, name: &str, fields: &[FieldId]) -> Vec<FieldPair> {
        let (ours, theirs) = (self.output.descriptor(), input.descriptor());
        let (own, known) = (by_name(ours), by_name(theirs));
        let mut pairs = Vec::new();
        // hidden sources may have other names, and are compared through their projected fields
        for &id in fields.iter().filter(|&&id| !theirs.is_hidden_source(id)) {
            let field = theirs.field_name(id).to_owned();
            let found = own.get(field.as_str());
            let found = found.map(|&own| counterpart(&self.output, own, input, &known));
            let lacks = |field: &str| Difference::of(field, name, "no such field", "one");
            let differences = &mut self.report.differences;
            match found {
                Some(Counterpart::Found(mut pair)) => {
                    differences.extend(pair.left_out.drain(..).map(|member| lacks(&member)));
                    pairs.push(pair);
                }
                Some(Counterpart::Other(found, expected)) => {
                    differences.push(Difference::of(&field, name, found, expected));
                }
                Some(
                    Counterpart::Missing | Counterpart::MissingMember | Counterpart::Projected(_),
                )
                | None => {
                    differences.push(lacks(&field));
                }
            }
        }
        pairs
    }

    /// The report, including the fields of the output that come from no input.
    fn finish_beside(
        mut self,
        inputs: &[Arc<Reader>],
        fields: &[Vec<FieldId>],
    ) -> super::NTupleProof {
        let compared = inputs.iter().zip(fields).flat_map(|(input, fields)| {
            let names = fields.iter().map(|&id| input.descriptor().field_name(id));
            names.collect::<Vec<_>>()
        });
        let compared: HashSet<&str> = compared.collect();
        let own = self.output.descriptor();
        let others = own
            .top_level
            .iter()
            .filter(|&&id| !own.is_hidden_source(id));
        let others = others.map(|&id| own.field_name(id));
        let others = others.filter(|name| !compared.contains(name));
        let others = others.map(|name| (name.to_owned(), "no input has it selected".to_owned()));
        self.report.not_compared.extend(others);
        self.finish()
    }
}
