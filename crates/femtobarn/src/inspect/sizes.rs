//! Sizes of ntuples, fields and columns.

use std::collections::BTreeMap;
use std::ops::{Add, AddAssign};

use femtobarn_codec::settings_name;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::Descriptor;

use crate::ntuple::NTuple;
use crate::sizes::ColumnSizes;

/// Bytes as stored, and uncompressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what they are")]
pub struct Bytes {
    pub on_disk: u64,
    pub uncompressed: u64,
}

impl Bytes {
    /// The compression factor; none if nothing is stored.
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    pub fn factor(self) -> Option<f64> {
        let has_one = self.on_disk > 0 && self.uncompressed > 0;
        has_one.then(|| self.uncompressed as f64 / self.on_disk as f64)
    }

    /// The compression factor to four decimals: more are not significant.
    pub fn rounded_factor(self) -> Option<f64> {
        self.factor().map(|factor| (factor * 1e4).round() / 1e4)
    }
}

impl Add for Bytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            on_disk: self.on_disk.saturating_add(other.on_disk),
            uncompressed: self.uncompressed.saturating_add(other.uncompressed),
        }
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl From<&ColumnSizes> for Bytes {
    fn from(sizes: &ColumnSizes) -> Self {
        Self {
            on_disk: sizes.bytes_on_disk,
            uncompressed: sizes.bytes_uncompressed,
        }
    }
}

/// Header, footer and page lists.
pub fn metadata(descriptor: &Descriptor) -> Bytes {
    let anchor = &descriptor.anchor;
    let ends = Bytes {
        on_disk: anchor
            .header
            .stored
            .size
            .saturating_add(anchor.footer.stored.size),
        uncompressed: anchor.header.length.saturating_add(anchor.footer.length),
    };
    let lists = descriptor.cluster_groups.iter().map(|group| Bytes {
        on_disk: group.page_list.stored.size,
        uncompressed: group.page_list.length,
    });
    lists.fold(ends, Bytes::add)
}

/// Total size of an ntuple, without its attribute sets.
///
/// # Errors
/// If the page lists cannot be read.
pub fn total(ntuple: &NTuple, reader: &Reader) -> Result<Bytes, RNTupleError> {
    let columns = ntuple.column_sizes()?;
    let pages = columns.values().map(Bytes::from);
    Ok(pages.fold(metadata(reader.descriptor()), Bytes::add))
}

/// Sizes of all fields and columns.
#[derive(Debug)]
pub struct Sizes {
    /// By column.
    pub columns: BTreeMap<u32, ColumnSizes>,
    /// By field: its columns and all fields below it.
    fields: Vec<Bytes>,
    /// By field: its compression settings and those of all fields below it.
    compressions: Vec<Vec<u32>>,
    /// By field: whether its size is known. A tree stores the members of an object together.
    is_known: Vec<bool>,
}

impl Sizes {
    /// Reads the page lists of an ntuple of one file.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn new(ntuple: &NTuple, reader: &Reader) -> Result<Self, RNTupleError> {
        let descriptor = reader.descriptor();
        let columns = ntuple.column_sizes()?;
        let mut fields = vec![Bytes::default(); descriptor.fields.len()];
        let mut compressions: Vec<Vec<u32>> = vec![Vec::new(); descriptor.fields.len()];
        for (&id, sizes) in &columns {
            // from the field that holds the column upwards: projected fields have no size
            let mut field = descriptor.column(id).map(|column| column.field_id);
            while let Some(id) = field {
                if let Some(bytes) = fields.get_mut(id as usize) {
                    *bytes += sizes.into();
                }
                if let Some(known) = compressions.get_mut(id as usize) {
                    let new = sizes.compressions.iter().filter(|c| !known.contains(c));
                    let new: Vec<u32> = new.copied().collect();
                    known.extend(new);
                }
                field = descriptor.field(id).and_then(|field| field.parent);
            }
        }
        Ok(Self {
            columns,
            fields,
            compressions,
            is_known: known(reader),
        })
    }

    /// Size of a field; none if unknown.
    pub fn field(&self, id: u32) -> Option<Bytes> {
        let is_known = self.is_known.get(id as usize).copied();
        let bytes = self.fields.get(id as usize).copied();
        bytes.filter(|_| is_known.unwrap_or(true))
    }

    /// Names of the compression settings of a field and those below it.
    pub fn compressions(&self, id: u32) -> Vec<String> {
        let settings = self.compressions.get(id as usize);
        settings.map_or(Vec::new(), |settings| names(settings))
    }

    /// All pages.
    pub fn pages(&self) -> Bytes {
        let columns = self.columns.values().map(Bytes::from);
        columns.fold(Bytes::default(), Bytes::add)
    }

    /// All compression settings.
    pub fn all_compressions(&self) -> Vec<String> {
        let mut settings: Vec<u32> = Vec::new();
        for sizes in self.columns.values() {
            let new = sizes.compressions.iter().filter(|c| !settings.contains(c));
            let new: Vec<u32> = new.copied().collect();
            settings.extend(new);
        }
        names(&settings)
    }
}

/// By field, whether its bytes can be separated from others: false only for members of objects in trees, as several
/// share baskets.
fn known(reader: &Reader) -> Vec<bool> {
    let descriptor = reader.descriptor();
    let ids = 0..u32::try_from(descriptor.fields.len()).unwrap_or(u32::MAX);
    if reader.storage().is_none() {
        return ids.map(|_| true).collect();
    }
    // offsets are computed from the baskets of the values
    let has_values = |id: u32| {
        let columns = descriptor.field(id).map_or(&[][..], |field| &field.columns);
        let mut columns = columns.iter().filter_map(|&id| descriptor.column(id));
        columns.any(|column| !column.column_type.is_index())
    };
    let mut n_values = vec![0; descriptor.fields.len()];
    for id in ids.clone().filter(|&id| has_values(id)) {
        if let Some(n) = n_values.get_mut(descriptor.top_of(id) as usize) {
            *n += 1;
        }
    }
    let is_alone = |id: u32| {
        let top = descriptor.top_of(id);
        top == id || n_values.get(top as usize).is_some_and(|&n: &i32| n < 2)
    };
    ids.map(is_alone).collect()
}

/// Names of compression settings.
pub fn names(settings: &[u32]) -> Vec<String> {
    settings.iter().map(|&s| settings_name(s)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stored_has_no_factor() {
        let factor = |uncompressed, on_disk| {
            Bytes {
                on_disk,
                uncompressed,
            }
            .rounded_factor()
        };
        assert_eq!((factor(10, 0), factor(0, 10)), (None, None));
        assert_eq!((factor(300, 100), factor(1, 3)), (Some(3.0), Some(0.3333)));
    }
}
