//! Reports.

use std::fmt;

use femtobarn_io::units::{self, plural};
use serde_json::{Map, Value, json};

use crate::transfer::joined;

/// A column of an exported file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedProduct {
    /// The label of its products.
    pub label: String,
    /// The type of its products.
    pub type_name: String,
    /// The ntuple.
    pub ntuple: String,
    /// The name of the column.
    pub column: String,
    /// What it holds, as of [`Form`](crate::products::Form).
    pub form: &'static str,
    /// How many products there are.
    pub number: u64,
}

/// The result of an export.
#[derive(Debug, Clone, Default)]
pub struct ExportReport {
    /// The file.
    pub output: String,
    /// The ntuples, and how many entries each has.
    pub ntuples: Vec<(String, u64)>,
    /// Number of events.
    pub events: u64,
    /// The columns.
    pub products: Vec<ExportedProduct>,
    /// Notes on products that are stored in another way than expected, or are not included.
    pub warnings: Vec<String>,
    /// Bytes of the file; none on a server.
    pub bytes_out: Option<u64>,
    /// The time that it took.
    pub seconds: f64,
}

impl ExportReport {
    /// The events, columns and ntuples in words.
    pub fn words(&self) -> String {
        let columns = plural(self.products.len() as u64, "column");
        let mut words = vec![plural(self.events, "event"), columns];
        if self.ntuples.len() > 1 {
            let names = self.ntuples.iter().map(|(name, _)| name.clone());
            words.push(format!("ntuples {}", joined(names)));
        }
        words.join(", ")
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let ntuples = self.ntuples.iter();
        let ntuples: Map<String, Value> = ntuples
            .map(|(name, n)| (name.clone(), (*n).into()))
            .collect();
        let product = |one: &ExportedProduct| {
            json!({
                "label": one.label,
                "type": one.type_name,
                "ntuple": one.ntuple,
                "column": one.column,
                "form": one.form,
                "number": one.number,
            })
        };
        json!({
            "output": self.output,
            "ntuples": ntuples,
            "events": self.events,
            "products": self.products.iter().map(product).collect::<Vec<_>>(),
            "warnings": self.warnings,
            "bytes_out": self.bytes_out,
            "seconds": self.seconds,
        })
    }
}

impl fmt::Display for ExportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.bytes_out.map(|n| format!("{} ", units::bytes(n)));
        write!(
            f,
            "{}: {}\n{}in {}",
            self.output,
            self.words(),
            size.unwrap_or_default(),
            units::seconds(self.seconds)
        )?;
        self.warnings
            .iter()
            .try_for_each(|warning| write!(f, "\nnote: {warning}"))
    }
}
