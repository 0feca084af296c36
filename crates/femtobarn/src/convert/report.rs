//! The report of a conversion.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::Certificate;
use super::source::Source;
use crate::left_behind::AllLeftBehind;
use crate::staged::Delivery;

/// The report of a conversion.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "named by their types")]
pub struct Converted {
    pub output: PathBuf,
    /// The ntuples of the output; a table is one.
    pub ntuples: Vec<ConvertedNTuple>,
    /// Objects and fields of the inputs that are not in the output.
    pub left_behind: AllLeftBehind,
    /// Stored bytes of the output.
    pub bytes_out: u64,
    pub seconds: f64,
    /// The delivery to its server, for a remote output.
    pub delivery: Option<Delivery>,
}

/// An ntuple of the output.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "named by their types")]
pub struct ConvertedNTuple {
    pub name: String,
    pub n_entries: u64,
    /// Bytes of the input as stored.
    pub bytes_in: u64,
    /// Fields whose names or values were changed, with notes.
    pub notes: Vec<(String, String)>,
    pub certificate: Option<Certificate>,
}

impl ConvertedNTuple {
    pub(super) fn new(source: Source, certificate: Option<Certificate>) -> Self {
        Self {
            name: source.name,
            n_entries: source.n_entries,
            bytes_in: source.n_bytes,
            notes: source.notes,
            certificate,
        }
    }
}

impl Converted {
    /// Total number of entries.
    pub fn n_entries(&self) -> u64 {
        self.ntuples.iter().map(|ntuple| ntuple.n_entries).sum()
    }

    /// Total stored bytes of the converted inputs.
    pub fn bytes_in(&self) -> u64 {
        self.ntuples.iter().map(|ntuple| ntuple.bytes_in).sum()
    }

    /// Fields whose names or values were changed, with notes. If there are several ntuples, the
    /// names of the fields include them.
    pub fn notes(&self) -> impl Iterator<Item = (String, &str)> {
        let are_several = self.ntuples.len() > 1;
        self.ntuples.iter().flat_map(move |ntuple| {
            ntuple
                .notes
                .iter()
                .map(move |(field, note)| match are_several {
                    true => (format!("{}:{field}", ntuple.name), note.as_str()),
                    false => (field.clone(), note.as_str()),
                })
        })
    }

    /// Number of compared columns; `None` if the output was not verified.
    pub fn n_compared(&self) -> Option<usize> {
        let each = self.ntuples.iter().map(|it| it.certificate.as_ref());
        each.map(|it| it.map(|it| it.columns.len())).sum()
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let ntuples = self.ntuples.iter();
        let ntuples: Map<String, Value> = ntuples
            .map(|it| {
                let value = json!({"entries": it.n_entries, "bytes_in": it.bytes_in});
                (it.name.clone(), value)
            })
            .collect();
        json!({
            "output": self.output.to_string_lossy(),
            "ntuples": ntuples,
            "entries": self.n_entries(),
            "bytes_in": self.bytes_in(),
            "bytes_out": self.bytes_out,
            "seconds": self.seconds,
            "left_behind": self.left_behind.to_json(),
            "notes": self.notes().collect::<Vec<_>>(),
            "certificate": self.certificate_json(),
            "delivery": self.delivery.as_ref().map(Delivery::to_json),
        })
    }

    /// All certificates as one.
    fn certificate_json(&self) -> Value {
        let (mut columns, mut is_equal) = (Vec::new(), true);
        for ntuple in &self.ntuples {
            let Some(certificate) = &ntuple.certificate else {
                return Value::Null;
            };
            is_equal &= certificate.is_equal();
            columns.extend(certificate.columns_json(&ntuple.name));
        }
        json!({"equal": is_equal, "entries": self.n_entries(), "columns": columns})
    }
}
