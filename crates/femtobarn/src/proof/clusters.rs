//! Finds equal pages of two files by their checksums.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use femtobarn_io::on_threads;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::spec::{ClusterSummary, Page, PageList, StoredRange};

use super::fields::FieldPair;

/// Size of a page's checksum, which follows the page.
const CHECKSUM: u64 = 8;

/// A cluster of a file.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    pub summary: ClusterSummary,
    list: Arc<PageList>,
    index: usize,
}

impl Cluster {
    pub fn entries(&self) -> Range<u64> {
        self.summary.first_entry..self.summary.end()
    }

    /// The column with the elements, and its pages; `None` if the page list is older than all columns.
    fn used(&self, columns: &[u32]) -> Option<(u32, &[Page])> {
        columns.iter().find_map(|&column| {
            let listed = self.list.column(self.index, column)?;
            (!listed.suppressed()).then(|| (column, self.list.pages(listed)))
        })
    }
}

/// The non-empty clusters of a file in order; together they have every entry exactly once.
pub(super) fn clusters(reader: &Reader) -> Result<Vec<Cluster>, RNTupleError> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for (_, list) in reader.page_lists(0..u64::MAX)? {
        let all = list.clusters().iter().enumerate();
        clusters.extend(all.map(|(index, &summary)| Cluster {
            summary,
            list: list.clone(),
            index,
        }));
    }
    clusters.retain(|cluster| cluster.summary.n_entries > 0);
    clusters.sort_by_key(|cluster| cluster.summary.first_entry);
    let mut end = 0;
    for cluster in &clusters {
        let first = cluster.summary.first_entry;
        if first != end {
            return Err(reader.inconsistent("first entry of a cluster", end, first));
        }
        end = cluster.summary.end();
    }
    if end != reader.n_entries() {
        return Err(reader.inconsistent("end of the last cluster", reader.n_entries(), end));
    }
    Ok(clusters)
}

/// The pages of a field in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pages {
    /// The pages are equal: their number, and their bytes, without pages that fields before it have, too.
    Equal(u64, u64),
    /// The pages differ or have no checksums, so the values must be compared.
    Other,
}

/// Compares the pages of fields in pairs of clusters with the same entries. Only the checksums are read from both
/// files.
pub(super) fn compare_pages(
    (output, input): (&Reader, &Reader),
    fields: &[FieldPair],
    pairs: Vec<(&Cluster, &Cluster)>,
    threads: usize,
) -> Result<Vec<Vec<Pages>>, RNTupleError> {
    let mut workers = vec![(); threads.max(1)];
    on_threads(&mut workers, pairs, |(), (here, there)| {
        let candidates = fields
            .iter()
            .map(|field| candidates((output, here), (input, there), field));
        let candidates: Vec<Option<Vec<Candidate>>> = candidates.collect();
        let all = || candidates.iter().flatten().flatten();
        let ours = checksums(output, all().map(|it| &it.ours))?;
        let theirs = checksums(input, all().map(|it| &it.theirs))?;
        let mut equal = ours.iter().zip(&theirs).map(|(a, b)| a == b);
        let mut counted = HashSet::new();
        let verdict = |pages: &Option<Vec<Candidate>>| match pages {
            None => Pages::Other,
            Some(pages) => {
                let n_equal = equal.by_ref().take(pages.len()).filter(|&it| it).count();
                if n_equal < pages.len() {
                    return Pages::Other;
                }
                // projected fields have the pages of others
                let new = pages.iter().filter(|page| counted.insert(page.number));
                let sizes = new.map(|page| page.ours.stored_size());
                let (n, n_bytes) = sizes.fold((0, 0), |(n, sum), size| (n + 1, sum + size));
                Pages::Equal(n, n_bytes)
            }
        };
        Ok(candidates.iter().map(verdict).collect())
    })
}

/// Two pages that may be equal.
struct Candidate {
    /// The column of the output, and the number of the page in it.
    number: (u32, usize),
    ours: Page,
    theirs: Page,
}

/// Pages of a field that may be equal; `None` if some cannot be.
fn candidates(
    (output, here): (&Reader, &Cluster),
    (input, there): (&Reader, &Cluster),
    field: &FieldPair,
) -> Option<Vec<Candidate>> {
    let mut out = Vec::new();
    for (own, others) in &field.columns {
        let (own, others) = (here.used(own), there.used(others));
        let pages = |used: Option<(u32, &[Page])>| used.map_or(Vec::new(), |(_, p)| p.to_vec());
        let (ours, theirs) = (pages(own), pages(others));
        if ours.len() != theirs.len() {
            return None;
        }
        if let (Some((own, _)), Some((other, _))) = (own, others)
            && !ours.is_empty()
            && !has_same_encoding(output, own, input, other)
        {
            return None;
        }
        let column = own.map_or(0, |(column, _)| column);
        for (number, (ours, theirs)) in ours.into_iter().zip(theirs).enumerate() {
            let may_be = ours.n_elements == theirs.n_elements
                && ours.stored_size() == theirs.stored_size()
                && has_checksum(output, &ours)
                && has_checksum(input, &theirs);
            if !may_be {
                return None;
            }
            out.push(Candidate {
                number: (column, number),
                ours,
                theirs,
            });
        }
    }
    Some(out)
}

/// Whether equal bytes mean equal elements.
fn has_same_encoding(output: &Reader, own: u32, input: &Reader, other: u32) -> bool {
    let records = output.descriptor().column(own);
    let records = records.zip(input.descriptor().column(other));
    records.is_some_and(|(a, b)| {
        a.column_type == b.column_type && a.bits == b.bits && a.range == b.range
    })
}

/// Whether a checksum directly follows a page.
fn has_checksum(reader: &Reader, page: &Page) -> bool {
    let is_whole = page.stored_size() <= reader.store().largest_piece();
    page.has_checksum && is_whole && reader.store().check(&page.stored()).is_ok()
}

fn checksums<'a>(
    reader: &Reader,
    pages: impl Iterator<Item = &'a Page>,
) -> Result<Vec<Vec<u8>>, RNTupleError> {
    let stored: Vec<StoredRange> = pages.map(|page| page.stored().last(CHECKSUM)).collect();
    let found = reader.store().read(&stored)?;
    reader.note_used(CHECKSUM * found.len() as u64);
    Ok(found.iter().map(|bytes| bytes.to_vec()).collect())
}
