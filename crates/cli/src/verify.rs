//! `fb verify`: checks every checksum of every ntuple, and every basket of every tree.

use std::ops::Range;
use std::sync::Arc;

use femtobarn::documents::{self, extended};
use femtobarn::io::Settings;
use femtobarn::proof::ProofReport;
use femtobarn::read::{Reader, verify};
use femtobarn::{Error, OpenOptions, VerifyReport};
use serde_json::{Value, json};

use crate::args::VerifyArgs;
use crate::failure::{Failure, code};
use crate::open;
use crate::output::Output;
use crate::progress::Show;
use crate::proof;
use crate::verify_text;
use femtobarn::Target;
use femtobarn::kinds::is_damage;

/// What verification found in one ntuple.
#[derive(Debug)]
pub struct Verified {
    /// Its path, or the name of an attribute set.
    pub ntuple: String,
    /// The ntuple to which an attribute set belongs.
    pub attribute_set_of: Option<String>,
    pub n_entries: u64,
    pub report: VerifyReport,
    /// Damage of the metadata: no part of the ntuple can be read.
    pub error: Option<Failure>,
}

/// What verification found in a file.
#[derive(Debug)]
pub struct Verdict {
    /// For people.
    pub file: String,
    pub ntuples: Vec<Verified>,
    /// Damage of the container: nothing in the file can be found.
    pub error: Option<Failure>,
    /// The comparison with inputs, if any are given.
    pub against: Option<ProofReport>,
}

pub fn run(target: &Target, args: &VerifyArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let threads = args.threads.number()?;
    let show = Show::new(1, out.is_json);
    let verdict = verdict(target, threads, &show);
    let mut verdict = verdict.map_err(|failure| failure.advise(target))?;
    if verdict.can_be_opened() {
        verdict.against = proof::against(target, args, threads, &show)?;
        if let Some(report) = &mut verdict.against {
            let own = verdict.ntuples.iter();
            for verified in own.filter(|verified| verified.attribute_set_of.is_none()) {
                let mut proofs = report.ntuples.iter_mut();
                if let Some(proof) = proofs.find(|proof| proof.ntuple == verified.ntuple) {
                    proof.note_damage(verified.report.damages.iter().map(|it| it.field.as_str()));
                }
            }
        }
    }
    show.end();
    if out.is_json {
        out.json(&document(&verdict))?;
    } else {
        verify_text::write(&verdict, out)?;
    }
    Ok(if verdict.is_ok() {
        code::FINE
    } else {
        code::DAMAGED
    })
}

impl Verdict {
    pub fn is_ok(&self) -> bool {
        let is_equal = self.against.as_ref().is_none_or(ProofReport::is_equal);
        self.error.is_none() && is_equal && self.ntuples.iter().all(Verified::is_ok)
    }

    /// Whether all metadata could be read.
    fn can_be_opened(&self) -> bool {
        let mut ntuples = self.ntuples.iter();
        self.error.is_none() && ntuples.all(|verified| verified.error.is_none())
    }
}

impl Verified {
    pub fn is_ok(&self) -> bool {
        self.error.is_none() && self.report.is_good()
    }

    /// The entries that cannot be read completely, as ranges that neither overlap nor touch.
    pub fn lost(&self) -> Vec<Range<u64>> {
        if self.error.is_some() {
            return std::iter::once(0..self.n_entries).collect();
        }
        union(
            self.report
                .damages
                .iter()
                .map(|damage| damage.entries.0..damage.entries.1),
        )
    }
}

/// The union of ranges, in order.
pub fn union(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> = ranges.collect();
    sorted.sort_unstable_by_key(|range| (range.start, range.end));
    let mut out: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

fn verdict(target: &Target, threads: usize, show: &Show) -> Result<Verdict, Failure> {
    let mut verdict = Verdict {
        file: target.shown(),
        ntuples: Vec::new(),
        error: None,
        against: None,
    };
    // what servers have is verified, not what a cache has of it
    let options = OpenOptions {
        settings: [("cache".to_owned(), "off".to_owned())].into(),
        ..OpenOptions::default()
    };
    let settings = Settings::new(&target.file, options.settings.clone()).map_err(Error::from)?;
    let names = femtobarn::look_into(&target.file, &settings, |file| match &target.name {
        Some(name) => Ok(vec![name.clone()]),
        None => femtobarn::ntuples(file),
    });
    let names = match names {
        Ok(names) => names,
        Err(error) => {
            verdict.error = Some(damage(error, target)?);
            return Ok(verdict);
        }
    };
    if names.is_empty() {
        let message = format!("{}: no RNTuple or TTree to verify", verdict.file);
        return Err(Failure::new(code::NOT_THERE, "no-ntuple", message));
    }
    for name in names {
        match open::open_with(&target.file, Some(&name), options.clone()) {
            Ok(opened) => {
                let job = (threads, target, show);
                with_attributes(&opened.reader, name, job, &mut verdict)?;
            }
            Err(error) => {
                let error = damage(error, target)?;
                verdict.ntuples.push(unreadable(name, None, error));
            }
        }
    }
    Ok(verdict)
}

/// Converts an error to damage; other errors end the verification.
fn damage(error: Error, target: &Target) -> Result<Failure, Failure> {
    let is_damage = is_damage(&error);
    let failure = Failure::from(error).advise(target);
    if is_damage { Ok(failure) } else { Err(failure) }
}

fn unreadable(ntuple: String, attribute_set_of: Option<String>, error: Failure) -> Verified {
    Verified {
        ntuple,
        attribute_set_of,
        n_entries: 0,
        report: VerifyReport::default(),
        error: Some(error),
    }
}

/// Verifies an ntuple and its attribute sets.
fn with_attributes(
    reader: &Arc<Reader>,
    name: String,
    job: (usize, &Target, &Show),
    verdict: &mut Verdict,
) -> Result<(), Failure> {
    let whole = one(reader, name.clone(), None, job)?;
    verdict.ntuples.push(whole);
    for link in &reader.descriptor().attribute_sets {
        let (set, of) = (link.name.clone(), Some(name.clone()));
        let verified = match reader.attribute_set(link) {
            Ok(reader) => one(&Arc::new(reader), set, of, job)?,
            Err(error) => unreadable(set, of, damage(error, job.1)?),
        };
        verdict.ntuples.push(verified);
    }
    Ok(())
}

fn one(
    reader: &Arc<Reader>,
    ntuple: String,
    attribute_set_of: Option<String>,
    (threads, target, show): (usize, &Target, &Show),
) -> Result<Verified, Failure> {
    let n_entries = reader.n_entries();
    let what = format!("{ntuple}: verifying");
    let tick = |done, total| show.tick_share(&what, done, total);
    let report = match verify(reader, threads, Some(&tick)) {
        Ok(report) => report,
        Err(error) => {
            return Ok(Verified {
                n_entries,
                ..unreadable(ntuple, attribute_set_of, damage(error, target)?)
            });
        }
    };
    Ok(Verified {
        ntuple,
        attribute_set_of,
        n_entries,
        report,
        error: None,
    })
}

fn document(verdict: &Verdict) -> Value {
    let ntuples = verdict.ntuples.iter().map(ntuple_json);
    let out = json!({
        "file": verdict.file,
        "ok": verdict.is_ok(),
        "error": verdict.error.as_ref().map(error_json),
        "ntuples": ntuples.collect::<Vec<_>>(),
    });
    match &verdict.against {
        Some(report) => extended(out, json!({"against": report.to_json()})),
        None => out,
    }
}

fn error_json(error: &Failure) -> Value {
    json!({"kind": error.kind, "message": error.message, "next": error.next})
}

fn ntuple_json(verified: &Verified) -> Value {
    let lost = verified.lost();
    let ntuple = json!({
        "ntuple": verified.ntuple,
        "attribute_set_of": verified.attribute_set_of,
        "ok": verified.is_ok(),
        "num_entries": verified.n_entries,
    });
    let result = json!({
        "entries_lost": lost.iter().map(|range| range.end - range.start).sum::<u64>(),
        "lost": lost.iter().map(|range| [range.start, range.end]).collect::<Vec<_>>(),
        "error": verified.error.as_ref().map(error_json),
    });
    extended(
        extended(ntuple, documents::verified(&verified.report)),
        result,
    )
}

#[cfg(test)]
mod tests {
    use super::union;

    #[test]
    fn ranges_that_touch_are_one() {
        let ranges = [20..30, 0..5, 5..10, 25..26, 40..41];
        assert_eq!(union(ranges.into_iter()), [0..10, 20..30, 40..41]);
    }
}
