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
}

impl VerifyReport {
    /// Before anything is checked: the fields of a reader that are not read are not checked.
    pub fn new(reader: &Reader) -> Self {
        let skipped = reader.descriptor().skipped.iter();
        let not_checked = skipped.map(|skipped| (skipped.name.clone(), skipped.reason.clone()));
        Self {
            not_checked: not_checked.collect(),
            ..Self::default()
        }
    }
}
