//! What verification finds.

use super::reader::Reader;
use crate::spec::PageAddress;

/// Something that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by their types")]
pub struct Damage {
    pub field: String,
    pub column: u32,
    pub cluster: u64,
    /// First and one past the last of the entries that need the page's cluster.
    pub entries: (u64, u64),
    /// Where its bytes are stored.
    pub address: PageAddress,
    pub n_bytes: u64,
    pub problem: String,
}

/// What verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by their types")]
pub struct VerifyReport {
    pub clusters: u64,
    pub pages: u64,
    pub pages_without_checksum: u64,
    pub bytes: u64,
    pub damages: Vec<Damage>,
    /// Fields that were not checked, or not in full, as nobody knows what their bytes should be, with the reasons.
    pub not_checked: Vec<(String, String)>,
    /// There are entries, and none of their fields could be checked.
    pub nothing_checked: bool,
}

impl VerifyReport {
    /// Before anything is checked: the fields of a reader that are not read are not checked, or damaged.
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

    /// Notes how many fields, or pages of fields that are not read, were checked of those of a reader.
    pub fn note_checked(&mut self, reader: &Reader, n: u64) {
        let has_fields = !reader.descriptor().fields.is_empty();
        self.nothing_checked = n == 0 && has_fields && reader.n_entries() > 0;
    }

    /// Whether nothing is wrong. An ntuple with entries of which no field could be checked is not good: nobody knows.
    pub fn is_good(&self) -> bool {
        self.damages.is_empty() && !self.nothing_checked
    }
}
