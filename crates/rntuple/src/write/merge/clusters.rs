//! Plans the clusters of the output from those of an input: the pages of each column, and what to do with them. No I/O
//! except for page lists.

use std::ops::Range;
use std::sync::Arc;

use femtobarn_codec::Algorithm;

use super::mapping::{FieldMapping, Mapping, Way};
use super::schema::{MergedSchema, expected};
use crate::RNTupleError;
use crate::read::{Reader, check_pages, check_zeros, cover};
use crate::spec::{ClusterSummary, ColumnPages, Page, PageList};

/// Number of elements that a column may lack in any cluster.
const LITTLE: u64 = 1 << 20;

/// A cluster of the output.
#[derive(Debug)]
pub(super) struct PlannedCluster<'a> {
    /// Number of the cluster in the input.
    pub number: u64,
    pub n_entries: u64,
    /// The columns of the output in their order; trailing ones may be left out.
    pub columns: Vec<PlannedColumn<'a>>,
}

/// A column of such a cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct PlannedColumn<'a> {
    /// The column of the input.
    pub input: u32,
    /// Number of zeros before its elements.
    pub zeros: u64,
    pub pages: &'a [Page],
    /// None if the cluster uses another representation.
    pub element_offset: Option<u64>,
    pub settings: u32,
    pub reencode: bool,
    recompress: bool,
    /// Whether the column begins later, so that the cluster has no record of it.
    is_later: bool,
}

impl PlannedColumn<'_> {
    /// Whether its pages are kept unchanged.
    pub fn is_kept(&self) -> bool {
        !self.reencode && !self.recompress
    }
}

/// A cluster of an input.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    pub list: Arc<PageList>,
    index: usize,
    pub number: u64,
    pub summary: ClusterSummary,
}

impl Cluster {
    /// The pages of a column; none if the page list is older than the column.
    pub fn column(&self, column: u32) -> Option<&ColumnPages> {
        self.list.column(self.index, column)
    }

    /// Whether its elements have this representation.
    pub fn uses(&self, way: &Way) -> bool {
        let pages = way.input.first().and_then(|&column| self.column(column));
        pages.is_some_and(|pages| !pages.suppressed())
    }

    /// The pages of all columns.
    pub fn columns(&self) -> impl Iterator<Item = (u32, &[Page])> {
        let columns = u32::try_from(self.list.n_columns(self.index)).unwrap_or(0);
        let pages = |column| Some((column, self.list.pages(self.column(column)?)));
        (0..columns).filter_map(pages)
    }

    /// Whether a column may lack so many elements: not many more than all columns have, whatever the page list states.
    fn may_lack(&self, n: u64) -> bool {
        n <= LITTLE || n <= self.list.n_elements(self.index)
    }

    /// Checks that a column may have so many zeros in the cluster: see [`check_zeros`].
    pub fn check_zeros(&self, reader: &Reader, what: &str, n: u64) -> Result<(), RNTupleError> {
        check_zeros(n, &self.list, self.index).map_err(|wrong| {
            let what = format!("{} of {what:?} in cluster {}", wrong.what, self.number);
            reader.inconsistent(&what, wrong.expected, wrong.found)
        })
    }

    /// Stored size of its pages.
    pub fn n_bytes(&self) -> u64 {
        let pages = self.columns().flat_map(|(_, pages)| pages);
        pages.map(Page::stored_size).sum()
    }

    /// Uncompressed size of its pages.
    pub fn n_packed(&self, reader: &Reader) -> u64 {
        let packed = |(column, pages): (u32, &[Page])| {
            let record = reader.descriptor().column(column)?;
            let n = pages.iter().map(|page| u64::from(page.n_elements)).sum();
            record.packed_bytes(n)
        };
        self.columns().filter_map(packed).sum()
    }
}

/// The clusters of an input, in the order of their entries.
pub(super) fn clusters(reader: &Reader) -> Result<Vec<Cluster>, RNTupleError> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for (first, list) in reader.page_lists(0..u64::MAX)? {
        let all = list.clusters().iter().enumerate();
        clusters.extend(all.map(|(index, &summary)| Cluster {
            number: first.saturating_add(index as u64),
            list: list.clone(),
            index,
            summary,
        }));
    }
    // clusters written by parallel writers may be listed in another order
    clusters.sort_by_key(|cluster| cluster.summary.first_entry);
    let ranges = clusters
        .iter()
        .map(|cluster| cluster.summary.first_entry..cluster.summary.end());
    cover(0..reader.n_entries(), ranges)
        .map_err(|contradiction| reader.contradicted(contradiction))?;
    clusters.retain(|cluster| cluster.summary.n_entries > 0);
    Ok(clusters)
}

/// Cuts a range of entries at borders of clusters, into parts of at least so many stored bytes; the last one may be smaller.
///
/// # Errors
/// If the page lists cannot be read.
pub fn steps(
    reader: &Reader,
    entries: &Range<u64>,
    least: u64,
) -> Result<Vec<Range<u64>>, RNTupleError> {
    let mut steps = Vec::new();
    let (mut start, mut n_bytes) = (entries.start, 0);
    for cluster in clusters(reader)? {
        let end = cluster.summary.end().min(entries.end);
        if end <= start {
            continue;
        }
        n_bytes += cluster.n_bytes();
        if n_bytes >= least {
            steps.push(start..end);
            (start, n_bytes) = (end, 0);
        }
    }
    if start < entries.end || steps.is_empty() {
        steps.push(start..entries.end);
    }
    Ok(steps)
}

/// Plans clusters of the output whose pages are kept. `n_elements` is the number of elements of each column of the output
/// before, and then after these clusters. `n_listed` is the number of columns in the last cluster's page list: ROOT's
/// merger assumes that later clusters have them, too.
pub(super) fn plan<'a>(
    reader: &Reader,
    schema: &MergedSchema,
    mapping: &Mapping,
    clusters: &'a [Cluster],
    (n_elements, n_listed): (&mut [u64], &mut usize),
    (compression, settings): (Option<u32>, u32),
) -> Result<Vec<PlannedCluster<'a>>, RNTupleError> {
    let mut seen = vec![0; n_elements.len()];
    let mut out = Vec::with_capacity(clusters.len());
    for cluster in clusters {
        let mut columns = vec![PlannedColumn::default(); schema.schema.columns.len()];
        for column in &mut columns {
            column.is_later = true;
        }
        for field in &mapping.fields {
            let planner = Planner {
                reader,
                schema,
                mapping,
                field,
                cluster,
                compression,
                settings,
            };
            planner.plan(&mut columns, n_elements, &mut seen)?;
        }
        let n_least = schema.in_header.1.max(*n_listed);
        while columns.len() > n_least && columns.last().is_some_and(|column| column.is_later) {
            columns.pop();
        }
        *n_listed = columns.len();
        out.push(PlannedCluster {
            number: cluster.number,
            n_entries: cluster.summary.n_entries,
            columns,
        });
    }
    Ok(out)
}

struct Planner<'a, 'c> {
    /// Settings for pages that have to be made.
    settings: u32,
    reader: &'a Reader,
    schema: &'a MergedSchema,
    mapping: &'a Mapping,
    field: &'a FieldMapping,
    cluster: &'c Cluster,
    compression: Option<u32>,
}

impl<'c> Planner<'_, 'c> {
    /// Plans the columns of a field. `seen` is the number of elements of the input so far.
    fn plan(
        &self,
        columns: &mut [PlannedColumn<'c>],
        n_elements: &mut [u64],
        seen: &mut [u64],
    ) -> Result<(), RNTupleError> {
        let way = self.field.ways.iter().find(|way| self.cluster.uses(way));
        let representations = self.schema.representations.get(self.field.output as usize);
        let Some(first) = representations.and_then(|all| all.first()) else {
            return Ok(());
        };
        let output = way.map_or(first, |way| &way.output);
        for (position, &own) in output.iter().enumerate() {
            let input = way.and_then(|way| way.input.get(position).copied());
            let place = (own, position);
            let n = self.column(place, input, way, columns, n_elements, seen)?;
            // all representations have the same number of elements
            for column in representations
                .into_iter()
                .flatten()
                .filter_map(|all| all.get(position))
            {
                for counts in [&mut *n_elements, &mut *seen] {
                    if let Some(count) = counts.get_mut(*column as usize) {
                        *count += n;
                    }
                }
            }
        }
        Ok(())
    }

    /// Plans a column, by its ID and position; returns the number of its elements.
    fn column(
        &self,
        (own, position): (u32, usize),
        input: Option<u32>,
        way: Option<&Way>,
        columns: &mut [PlannedColumn<'c>],
        n_elements: &[u64],
        seen: &[u64],
    ) -> Result<u64, RNTupleError> {
        let at = own as usize;
        let (Some(column), Some(&before), Some(&seen), Some(record)) = (
            columns.get_mut(at),
            n_elements.get(at),
            seen.get(at),
            self.schema.schema.columns.get(at),
        ) else {
            return Err(RNTupleError::internal("a column that is not there"));
        };
        let listed = input.and_then(|id| self.cluster.column(id));
        let pages = listed.map_or(&[][..], |listed| self.cluster.list.pages(listed));
        let n_there: u64 = pages.iter().map(|page| u64::from(page.n_elements)).sum();
        let offset = listed.map(|listed| listed.element_offset.unsigned_abs());
        let n = self.n_elements(position, n_there, offset, seen)?;
        let zeros = n - n_there;
        if zeros > 0 {
            let label = self.field.input.map(|id| self.reader.label(id));
            let label = label.unwrap_or_default();
            self.cluster.check_zeros(self.reader, &label, zeros)?;
        }
        let begins = input.and_then(|id| self.reader.descriptor().column(id));
        // missing elements are zeros only before the column begins
        if zeros > 0 && listed.is_some() && begins.is_some_and(|record| record.first_element == 0) {
            let label = self
                .field
                .input
                .map_or(String::new(), |id| self.reader.label(id));
            let what = format!("number of elements of {label:?} in a cluster");
            return Err(self.reader.inconsistent(&what, n, n_there));
        }
        // zeros before a column's first element need not be stored
        let begin = record.first_element.unsigned_abs();
        let implied = zeros.min(begin.saturating_sub(before));
        check_pages(self.reader, self.cluster.number, input.unwrap_or(0), pages)?;
        let settings = listed.map(|listed| listed.compression);
        column.input = input.unwrap_or(0);
        column.zeros = zeros - implied;
        column.pages = pages;
        column.element_offset = Some(before + implied);
        column.reencode = way.is_some_and(|way| way.reencode);
        // pages with unknown settings can be copied, but not made
        let is_made = column.reencode || column.zeros > 0;
        let own = settings.filter(|&own| !is_made || Algorithm::of_settings(own).is_some());
        column.settings = match settings {
            Some(_) => self.compression.or(own).unwrap_or(self.settings),
            None => self.settings,
        };
        column.recompress = settings.is_some_and(|settings| settings != column.settings);
        column.is_later = listed.is_none() && column.zeros == 0;
        Ok(n)
    }

    /// Number of elements of a column in the cluster, including zeros that are not stored.
    fn n_elements(
        &self,
        position: usize,
        n_there: u64,
        offset: Option<u64>,
        seen: u64,
    ) -> Result<u64, RNTupleError> {
        let n_entries = self.cluster.summary.n_entries;
        let known = match self.field.input {
            // the content of strings and streamed objects
            Some(_) if position > 0 => None,
            None if position > 0 => Some(0),
            Some(id) => {
                let descriptor = self.reader.descriptor();
                expected(
                    |id| descriptor.field(id).map(|field| &field.record),
                    id,
                    n_entries,
                )
            }
            None => {
                let fields = &self.schema.schema.fields;
                // a collection that does not exist has no items
                let own = expected(|id| fields.get(id as usize), self.field.output, n_entries);
                match self.schema.collection_of(self.field.output) {
                    Some(above)
                        if self
                            .mapping
                            .field(above)
                            .is_some_and(|it| it.input.is_some()) =>
                    {
                        return self.n_of_sibling();
                    }
                    _ => Some(own.unwrap_or(0)),
                }
            }
        };
        let label = || {
            self.field
                .input
                .map_or(String::new(), |id| self.reader.label(id))
        };
        match (known, offset) {
            (Some(known), _) if known < n_there => {
                let what = format!("number of elements of {:?} in a cluster", label());
                Err(self.reader.inconsistent(&what, known, n_there))
            }
            (Some(known), _) => Ok(known),
            (None, _) if !self.begins_later(position) => Ok(n_there),
            // what is missing before the existing elements
            (None, Some(offset)) if self.cluster.may_lack(offset.saturating_sub(seen)) => {
                Ok(n_there.saturating_add(offset.saturating_sub(seen)))
            }
            // the number follows from the offsets of collections
            (None, _) => Err(RNTupleError::NeedsRebuild {
                url: self.reader.url().to_owned(),
                other: "others".to_owned(),
                name: label(),
                reason: "it was added to its collection later, and its zeros are not stored"
                    .to_owned(),
            }),
        }
    }

    /// Number of elements of a member that the items of the input do not have: that of another member, if it is stored.
    fn n_of_sibling(&self) -> Result<u64, RNTupleError> {
        let descriptor = self.reader.descriptor();
        let columns = self
            .field
            .sibling
            .map(|id| descriptor.representations(id, 0));
        let mut columns = columns.into_iter().flatten();
        let n_stored = columns.find_map(|id| {
            let listed = self.cluster.column(id).filter(|it| !it.suppressed())?;
            let record = descriptor.column(id)?;
            let pages = self.cluster.list.pages(listed).iter();
            let n = pages.map(|page| u64::from(page.n_elements)).sum();
            (record.first_element == 0).then_some(n)
        });
        n_stored.ok_or_else(|| RNTupleError::NeedsRebuild {
            url: self.reader.url().to_owned(),
            other: "others".to_owned(),
            name: self.schema.shown_path(self.field.output),
            reason: "its items have no such member here, and no page tells how many they are"
                .to_owned(),
        })
    }

    /// Whether the columns of a field begin later than with the first element.
    fn begins_later(&self, position: usize) -> bool {
        let columns = self.field.ways.iter();
        let columns = columns.filter_map(|way| way.input.get(position));
        let mut records = columns.filter_map(|&id| self.reader.descriptor().column(id));
        records.any(|record| record.first_element != 0)
    }
}
