//! The report of a proof.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The proof for the ntuples of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by its type")]
pub struct ProofReport {
    pub ntuples: Vec<NTupleProof>,
}

/// The proof for an ntuple.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NTupleProof {
    /// Its path.
    pub ntuple: String,
    /// Number of its entries.
    pub n_entries: u64,
    /// Number of entries of the inputs.
    pub n_expected: u64,
    /// The inputs that have the ntuple, with their numbers of entries.
    pub inputs: Vec<(String, u64)>,
    /// Number of pages that are equal to those of the inputs, by their stored checksums.
    pub pages_equal: u64,
    /// Their bytes.
    pub bytes_equal: u64,
    /// Fields that were compared by value, with the number of entries.
    pub by_value: BTreeMap<String, u64>,
    /// Fields that an input (by name) lacks; they must be zero, empty or missing in its entries.
    pub missing: Vec<(String, String)>,
    /// Fields of inputs (by name) that the output lacks.
    pub left_out: Vec<(String, String)>,
    /// Fields that were not compared, with reasons.
    pub not_compared: Vec<(String, String)>,
    /// The first difference of each field.
    pub differences: Vec<Difference>,
}

/// A difference from the inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The field or a part of it, such as `tracks[2].pt`; empty for the number of entries.
    pub field: String,
    /// The first differing entry; `None` if the difference is not in an entry.
    pub entry: Option<u64>,
    /// The input; empty if the difference concerns all of them.
    pub input: String,
    /// The entry of the input.
    pub input_entry: Option<u64>,
    /// The found value.
    pub found: String,
    /// The value of the input.
    pub expected: String,
}

impl ProofReport {
    /// Whether everything was compared and is equal.
    pub fn is_equal(&self) -> bool {
        self.ntuples.iter().all(NTupleProof::is_equal)
    }

    /// All differences with their ntuples.
    pub fn differences(&self) -> impl Iterator<Item = (&str, &Difference)> {
        let ntuples = self.ntuples.iter();
        ntuples.flat_map(|proof| {
            let differences = proof.differences.iter();
            differences.map(|difference| (proof.ntuple.as_str(), difference))
        })
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let ntuples = self.ntuples.iter().map(NTupleProof::to_json);
        json!({
            "equal": self.is_equal(),
            "ntuples": ntuples.collect::<Vec<_>>(),
        })
    }
}

impl NTupleProof {
    /// The report for an ntuple of an input that is missing in the output.
    pub(super) fn lacking(path: String, input: &str) -> Self {
        Self {
            ntuple: path,
            differences: vec![Difference::of("", input, "no such ntuple", "one")],
            ..Self::default()
        }
    }

    /// Records damaged pages of fields in the output: they do not match their checksums.
    pub fn note_damage<'f>(&mut self, fields: impl IntoIterator<Item = &'f str>) {
        for field in fields {
            let mut known = self.not_compared.iter();
            if !known.any(|(name, _)| name == field) {
                let reason = "its pages are damaged".to_owned();
                self.not_compared.push((field.to_owned(), reason));
            }
        }
    }

    /// Whether everything was compared and is equal.
    pub fn is_equal(&self) -> bool {
        self.differences.is_empty() && self.not_compared.is_empty()
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let pairs = |pairs: &[(String, String)], names: [&str; 2]| {
            let one = |(a, b): &(String, String)| json!({names[0]: a, names[1]: b});
            pairs.iter().map(one).collect::<Vec<_>>()
        };
        let inputs = self.inputs.iter();
        let inputs = inputs.map(|(input, n)| json!({"input": input, "entries": n}));
        let by_value = self.by_value.iter();
        let by_value = by_value.map(|(field, n)| json!({"field": field, "entries": n}));
        let differences = self.differences.iter().map(Difference::to_json);
        json!({
            "ntuple": self.ntuple,
            "equal": self.is_equal(),
            "entries": self.n_entries,
            "entries_expected": self.n_expected,
            "inputs": inputs.collect::<Vec<_>>(),
            "pages_equal": self.pages_equal,
            "bytes_equal": self.bytes_equal,
            "by_value": by_value.collect::<Vec<_>>(),
            "missing": pairs(&self.missing, ["field", "input"]),
            "left_out": pairs(&self.left_out, ["field", "input"]),
            "not_compared": pairs(&self.not_compared, ["field", "reason"]),
            "differences": differences.collect::<Vec<_>>(),
        })
    }
}

impl Difference {
    /// A difference that is not in an entry.
    pub(super) fn of(
        field: &str,
        input: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self {
            field: field.to_owned(),
            entry: None,
            input: input.to_owned(),
            input_entry: None,
            found: found.into(),
            expected: expected.into(),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "field": self.field,
            "entry": self.entry,
            "input": self.input,
            "input_entry": self.input_entry,
            "found": self.found,
            "expected": self.expected,
        })
    }

    /// The difference in words.
    pub fn describe(&self) -> String {
        let Self {
            field,
            input,
            found,
            expected,
            ..
        } = self;
        match (self.entry, self.input_entry) {
            (Some(entry), Some(other)) => {
                format!(
                    "{field}: entry {entry} has {found}, but entry {other} of {input} has {expected}"
                )
            }
            (Some(entry), None) => {
                format!(
                    "{field}: entry {entry} has {found}, expected {expected}, as {input} does not have it"
                )
            }
            _ if field.is_empty() && input.is_empty() => {
                format!("{found} entries, but {expected} in the inputs")
            }
            _ if field.is_empty() => format!("{found}, but {input} has {expected}"),
            _ => format!("{field}: {found}, but in {input} {expected}"),
        }
    }
}
