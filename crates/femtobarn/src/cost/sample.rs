//! Columns of an ntuple, and how codecs do with a sample of their pages.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use femtobarn_codec::settings_name;
use femtobarn_io::units::real;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::spec::Page;
use femtobarn_rntuple::write::PageTrial;

/// The codecs that are tried: those that compress quickly.
const CODECS: [u32; 4] = [0, 404, 501, 505];

/// Number of clusters in the sample, and the most encoded bytes.
const CLUSTERS: usize = 3;
const MOST_BYTES: u64 = 16 << 20;

/// A column, and the size of its pages.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ColumnVolume {
    /// Size of its encoded elements.
    pub packed: u64,
    /// Size of its pages.
    pub stored: u64,
    /// Whether a pass reads it.
    pub is_read: bool,
}

/// How a codec did with the sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// The compression settings.
    pub settings: u32,
    /// The stored size of each column, as a part of its encoded size.
    pub parts: Vec<f64>,
    /// Encoded bytes that a thread decompresses in a second.
    pub speed: f64,
}

impl Trial {
    /// The name of the settings.
    #[must_use]
    pub fn name(&self) -> String {
        settings_name(self.settings)
    }
}

/// The volume of each column that is taken. Pages that columns share are counted for the first one.
pub(super) fn volumes(
    reader: &Reader,
    taken: &HashSet<u32>,
    read: &HashSet<u32>,
) -> Result<Vec<ColumnVolume>, RNTupleError> {
    let mut out: Vec<ColumnVolume> = Vec::new();
    let mut seen = HashSet::new();
    for (_, list) in reader.page_lists(0..u64::MAX)? {
        for index in 0..list.clusters().len() {
            let n_columns = list.n_columns(index);
            if out.len() < n_columns {
                out.resize(n_columns, ColumnVolume::default());
            }
            for (column, volume) in (0u32..).zip(&mut out) {
                volume.is_read = read.contains(&column);
                let record = reader.descriptor().column(column);
                let own = list
                    .column(index, column)
                    .filter(|_| taken.contains(&column));
                let pages = own.map(|own| list.pages(own));
                for page in pages.unwrap_or_default() {
                    if seen.insert(page.body.address) {
                        let packed = record.and_then(|r| r.packed_bytes(page.n_elements.into()));
                        volume.packed += packed.unwrap_or(0);
                        volume.stored += page.body.size;
                    }
                }
            }
        }
    }
    Ok(out)
}

/// A page of the sample.
struct Sampled {
    column: u32,
    n: usize,
    encoded: Vec<u8>,
    /// Its stored size, without a checksum.
    stored: u64,
}

/// Tries all codecs with pages of a few clusters: of the columns that a pass reads, and of others of all sizes.
///
/// The sample tells by which factor the stored sizes of its columns would change. Other columns have the
/// factor of the one that is a little larger.
pub(super) fn trials(
    reader: &Reader,
    columns: &[ColumnVolume],
) -> Result<Vec<Trial>, RNTupleError> {
    let mut trial = PageTrial::default();
    let sample = sampled(reader, columns, &mut trial)?;
    let mut out = Vec::new();
    for settings in CODECS {
        let (mut sealed_bytes, mut stored_bytes) = (vec![0; columns.len()], vec![0; columns.len()]);
        let mut spent = Duration::ZERO;
        let mut total = 0;
        for Sampled {
            column,
            n,
            encoded,
            stored,
        } in &sample
        {
            let Some(record) = reader.descriptor().column(*column) else {
                continue;
            };
            let sealed = trial.sealed(record, settings, (*n, encoded))?;
            let mut opened = vec![0; encoded.len()];
            let start = Instant::now();
            trial.open(&sealed, &mut opened)?;
            spent += start.elapsed();
            total += encoded.len() as u64;
            let at = *column as usize;
            if let (Some(sealed_sum), Some(sum)) =
                (sealed_bytes.get_mut(at), stored_bytes.get_mut(at))
            {
                *sealed_sum += sealed.len() as u64;
                *sum += stored;
            }
        }
        let ratio = |some: u64, all: u64| real(some) / real(all.max(1));
        let mut parts = vec![0.0; columns.len()];
        let mut factor = ratio(sealed_bytes.iter().sum(), stored_bytes.iter().sum());
        for at in by_size(columns) {
            let found = (columns.get(at), sealed_bytes.get(at), stored_bytes.get(at));
            let (Some(column), Some(&sealed), Some(&stored)) = found else {
                continue;
            };
            if stored > 0 {
                factor = ratio(sealed, stored);
            }
            if let Some(part) = parts.get_mut(at) {
                // no codec makes pages larger
                *part = (ratio(column.stored, column.packed) * factor).min(1.0);
            }
        }
        out.push(Trial {
            settings,
            parts,
            speed: real(total) / spent.as_secs_f64().max(1e-9),
        });
    }
    Ok(out)
}

fn sampled(
    reader: &Reader,
    columns: &[ColumnVolume],
    trial: &mut PageTrial,
) -> Result<Vec<Sampled>, RNTupleError> {
    let mut clusters = Vec::new();
    for (first, list) in reader.page_lists(0..u64::MAX)? {
        let all = (first..).zip(0..list.clusters().len());
        clusters.extend(all.map(|(number, index)| (number, list.clone(), index)));
    }
    let last = clusters.len().saturating_sub(1);
    let mut chosen: Vec<usize> = (0..CLUSTERS).map(|i| last * i / (CLUSTERS - 1)).collect();
    chosen.dedup();
    let is_read = |at: &usize| columns.get(*at).is_some_and(|column| column.is_read);
    let (read, others): (Vec<usize>, Vec<usize>) = by_size(columns).into_iter().partition(is_read);
    let mut out = Vec::new();
    let mut n_bytes = 0;
    for at in spread(&read).chain(spread(&others)) {
        let column = u32::try_from(at).unwrap_or(u32::MAX);
        for &cluster in &chosen {
            let Some((number, list, index)) = clusters.get(cluster) else {
                continue;
            };
            let pages = list.column(*index, column).map(|own| list.pages(own));
            let first: Option<&Page> = pages.and_then(|pages| pages.first());
            let Some(page) = first.filter(|_| n_bytes < MOST_BYTES) else {
                continue;
            };
            let encoded = trial.encoded(reader, (column, *number), page)?;
            n_bytes += encoded.len() as u64;
            out.push(Sampled {
                column,
                n: page.n_elements as usize,
                encoded,
                stored: page.body.size,
            });
        }
    }
    Ok(out)
}

/// The numbers of columns, from the largest to the smallest.
fn by_size(columns: &[ColumnVolume]) -> Vec<usize> {
    let mut out: Vec<usize> = (0..columns.len()).collect();
    out.sort_by_key(|at| std::cmp::Reverse(columns.get(*at).map(|column| column.packed)));
    out
}

/// All items, so that the first ones are spread over all: every 64th, then the others of every 32nd, and so on.
fn spread(items: &[usize]) -> impl Iterator<Item = usize> {
    let strides = (0..=6).rev().map(|power| 1usize << power);
    strides.flat_map(move |stride| {
        let is_new = move |at: &usize| stride == 64 || !at.is_multiple_of(2 * stride);
        let places = (0..items.len()).step_by(stride).filter(is_new);
        places.filter_map(|at| items.get(at).copied())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_spread_over_all_columns() {
        let all: Vec<usize> = (0..1000).collect();
        let spread: Vec<usize> = spread(&all).collect();
        assert_eq!(spread[..4], [0, 64, 128, 192]);
        assert_eq!(spread[16..18], [32, 96]);
        let mut sorted = spread.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, all);
    }
}
