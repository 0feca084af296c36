//! The stored value of a dataset's name.

use crate::Uuid;

/// The byte after the UUID while the dataset is being deleted.
const DELETING: u8 = 0;

/// The stored value of a dataset's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataSetEntry {
    /// The UUID, which is part of the keys of its containers and products.
    pub uuid: Uuid,
    /// Whether the dataset is being deleted: it is invisible, and its name is not free yet.
    pub is_deleting: bool,
}

impl DataSetEntry {
    /// An existing dataset.
    pub const fn live(uuid: Uuid) -> Self {
        Self {
            uuid,
            is_deleting: false,
        }
    }

    /// The same dataset while it is being deleted.
    pub const fn deleting(uuid: Uuid) -> Self {
        Self {
            uuid,
            is_deleting: true,
        }
    }

    /// The stored bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.uuid.0.to_vec();
        bytes.extend(self.is_deleting.then_some(DELETING));
        bytes
    }

    /// Parses stored bytes; `None` if they are invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (uuid, rest) = bytes.split_at_checked(16)?;
        let uuid = Uuid(uuid.try_into().ok()?);
        match rest {
            [] => Some(Self::live(uuid)),
            [DELETING] => Some(Self::deleting(uuid)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_they_were_made_of() {
        for entry in [
            DataSetEntry::live(Uuid([7; 16])),
            DataSetEntry::deleting(Uuid([7; 16])),
        ] {
            assert_eq!(DataSetEntry::from_bytes(&entry.to_bytes()), Some(entry));
        }
        for bad in [&[7; 15][..], &[7; 17], &[0; 18], &[]] {
            assert_eq!(DataSetEntry::from_bytes(bad), None);
        }
    }
}
