//! A sink in memory.

use std::sync::{Mutex, PoisonError};

use super::ByteSink;
use crate::IoError;

/// Bytes in memory; gaps are zero.
#[derive(Debug, Default)]
pub struct MemorySink {
    bytes: Mutex<Vec<u8>>,
}

impl MemorySink {
    /// The written data.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.bytes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl ByteSink for MemorySink {
    fn url(&self) -> &str {
        "mem:sink"
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        let mut held = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(bytes.len());
        if held.len() < end {
            held.resize(end, 0);
        }
        if let Some(place) = held.get_mut(start..end) {
            place.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), IoError> {
        Ok(())
    }

    fn commit(&self) -> Result<(), IoError> {
        Ok(())
    }
}
