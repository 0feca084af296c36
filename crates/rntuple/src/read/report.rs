//! The result of a verification.

use super::reader::Reader;
use crate::spec::PageAddress;

/// Data that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by their types")]
pub struct Damage {
    pub field: String,
    pub column: u32,
    pub cluster: u64,
    /// First entry that needs the page's cluster, and one past the last.
    pub entries: (u64, u64),
    /// Address of the bytes.
    pub address: PageAddress,
    pub n_bytes: u64,
    pub problem: String,
}

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by their types")]
pub struct VerifyReport {
    pub clusters: u64,
    pub pages: u64,
    pub pages_without_checksum: u64,
    pub bytes: u64,
    pub damages: Vec<Damage>,
    /// Fields that were not checked, or not completely, because their structure is unknown, with the reasons.
    pub not_checked: Vec<(String, String)>,
    /// Whether there are entries, but no field could be checked.
    pub nothing_checked: bool,
}

impl VerifyReport {
    /// A report before anything is checked: fields that a reader skips are not checked, or damaged.
    pub fn new(reader: &Reader) -> Self {
        let mut report = Self::default();
        for skipped in &reader.descriptor().skipped {
            let (field, problem) = (skipped.name.clone(), skipped.reason.clone());
            if skipped.is_damage {
                report.damages.push(Damage {
                    field,
                    column: 0,
                    cluster: 0,
                    entries: (0, reader.n_entries()),
                    address: PageAddress::File(0),
                    n_bytes: 0,
                    problem,
                });
            } else {
                report.not_checked.push((field, problem));
            }
        }
        report
    }

    /// Adds to the number of checked fields, or checked pages of skipped fields.
    pub fn note_checked(&mut self, reader: &Reader, n: u64) {
        let has_fields = !reader.descriptor().fields.is_empty();
        self.nothing_checked = n == 0 && has_fields && reader.n_entries() > 0;
    }

    /// Whether nothing is wrong. If no field of an ntuple with entries could be checked, it is not good.
    pub fn is_good(&self) -> bool {
        self.damages.is_empty() && !self.nothing_checked
    }
}
