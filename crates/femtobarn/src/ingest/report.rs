//! Reports.

use std::collections::BTreeMap;
use std::fmt;

use femtobarn_io::units::{self, plural};
use serde_json::{Value, json};

use crate::transfer::{quoted, shortened};

/// What became of files.
#[derive(Debug, Clone, Default)]
pub struct IngestReport {
    /// Files that were read.
    pub files: u64,
    /// Files that were not, as the dataset has them.
    pub skipped: u64,
    /// Events in the files that were read.
    pub events: u64,
    /// Products that were written.
    pub products: u64,
    /// Products that existed with the same value.
    pub kept: u64,
    /// Products that existed with another value.
    pub conflicts: u64,
    /// Bytes of the files that were read.
    pub n_bytes: u64,
    /// The time that it took.
    pub seconds: f64,
    /// Parts of files that were left out: why, and in how many files.
    pub left_out: BTreeMap<String, (String, u64)>,
    /// Labels whose products have several types, and notes on files.
    pub warnings: Vec<String>,
}

impl IngestReport {
    pub(super) fn leave_out(&mut self, names: &[(String, String)]) {
        for (name, reason) in names {
            let known = self.left_out.entry(name.clone());
            known.or_insert_with(|| (reason.clone(), 0)).1 += 1;
        }
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let left_out = self
            .left_out
            .iter()
            .map(|(name, (reason, n))| json!({"name": name, "reason": reason, "files": n}));
        json!({
            "files": self.files,
            "skipped": self.skipped,
            "events": self.events,
            "products": self.products,
            "kept": self.kept,
            "conflicts": self.conflicts,
            "n_bytes": self.n_bytes,
            "seconds": self.seconds,
            "left_out": left_out.collect::<Vec<_>>(),
            "warnings": self.warnings,
        })
    }
}

impl fmt::Display for IngestReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} read", plural(self.files, "file"))?;
        if self.skipped > 0 {
            write!(f, ", {} skipped (already in the dataset)", self.skipped)?;
        }
        let (events, products) = (
            plural(self.events, "event"),
            plural(self.products, "product"),
        );
        write!(f, "\n{events}, {products} written")?;
        if self.kept > 0 {
            write!(f, ", {} unchanged", self.kept)?;
        }
        if self.conflicts > 0 {
            write!(f, ", {}", plural(self.conflicts, "conflict"))?;
        }
        write!(
            f,
            "\n{} in {}",
            units::bytes(self.n_bytes),
            units::seconds(self.seconds)
        )?;
        let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
        for (name, (reason, _)) in &self.left_out {
            match by_reason.iter_mut().find(|(known, _)| known == reason) {
                Some((_, names)) => names.push(name),
                None => by_reason.push((reason, vec![name])),
            }
        }
        for (reason, names) in by_reason {
            write!(f, "\nleft out: {}: {reason}", shortened(&names))?;
        }
        self.warnings
            .iter()
            .try_for_each(|warning| write!(f, "\nnote: {warning}"))
    }
}

/// The warning that parts of `place` are left out; none if there are none. `listed` has all reasons.
pub(super) fn left_out(
    skipped: &[(String, String)],
    place: &str,
    what: &str,
    listed: &str,
) -> Option<String> {
    let mut reasons: Vec<(&str, &str)> = Vec::new();
    for (name, reason) in skipped {
        if !reasons.iter().any(|(known, _)| known == name) {
            reasons.push((name, reason));
        }
    }
    let names: Vec<String> = reasons.iter().map(|(name, _)| quoted(name)).collect();
    let why = match reasons.as_slice() {
        [] => return None,
        [(_, reason)] => format!("is left out: {reason}"),
        _ => format!("are left out: see the `skipped` of the {listed} for the reasons"),
    };
    Some(format!(
        "{} of {place} cannot be {what} and {why}",
        shortened(&names)
    ))
}
