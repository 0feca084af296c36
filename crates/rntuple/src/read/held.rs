//! Stored bytes that are in memory before it is known whether they will be decoded.

use std::collections::HashMap;

use bytes::Bytes;

use crate::spec::{PageAddress, StoredRange};

/// Pages or baskets as they are stored, in memory.
#[derive(Debug, Default)]
pub struct Held {
    /// By the index of the part, and the address.
    pub(super) found: HashMap<(usize, PageAddress), Bytes>,
}

impl Held {
    /// The bytes of a page or basket of a part.
    pub(super) fn get(&self, part: usize, stored: &StoredRange) -> Option<&Bytes> {
        let found = self.found.get(&(part, stored.address))?;
        (found.len() as u64 == stored.size).then_some(found)
    }
}
