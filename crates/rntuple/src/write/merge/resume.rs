//! Continues an ntuple that is in the file, from its metadata alone.

use super::super::catalog::Catalog;
use super::options::{MergeOptions, quick};
use super::pages::Remaker;
use super::rebuild::Rebuilder;
use super::schema::{MergedSchema, expected};
use super::writer::NTupleMerger;
use crate::RNTupleError;
use crate::read::Reader;

/// The latest format version whose footer can be rewritten without loss.
const LATEST: (u16, u16, u16) = (1, 1, 0);

impl NTupleMerger {
    /// Continues an ntuple of this name in a directory of the file: others are merged into it as into a new one. Its
    /// header, page lists and pages stay as they are. The maximum record size is that of its anchor.
    ///
    /// # Errors
    /// If it has unsupported features, which would be lost, or its page lists cannot be read.
    pub fn resume(
        place: (usize, &str),
        ntuple: &Reader,
        mut options: MergeOptions,
    ) -> Result<Self, RNTupleError> {
        let schema = MergedSchema::new(ntuple, &ntuple.descriptor().top_level, (false, false))?;
        insist_on_all(ntuple, &schema)?;
        options.write.max_key_size = ntuple.store().largest_piece();
        let threads = options.write.threads.max(1);
        let mut rebuilder = Rebuilder::new(&options.write, options.compression);
        rebuilder.grow(&schema);
        Ok(Self {
            rebuilder,
            n_elements: n_elements(ntuple, &schema)?,
            n_listed: schema.schema.columns.len(),
            catalog: Catalog::resume(place, ntuple, &quick(&options.write)),
            workers: (0..threads).map(|_| Remaker::default()).collect(),
            schema,
            options,
            failed: false,
            last: None,
            trial: None,
        })
    }
}

/// Checks that everything in an ntuple is supported, and that fields and columns keep their IDs.
fn insist_on_all(ntuple: &Reader, schema: &MergedSchema) -> Result<(), RNTupleError> {
    let descriptor = ntuple.descriptor();
    let anchor = &descriptor.anchor;
    let [epoch, major, minor, _] = anchor.version;
    if (epoch, major, minor) > LATEST {
        let reason = format!(
            "it has format version {}, whose new features would be lost: merge it with the others into a new file",
            anchor.version()
        );
        return Err(ntuple.unsupported(ntuple.path(), &reason));
    }
    if let Some(skipped) = descriptor.skipped.first() {
        let reason = format!(
            "{}; nothing can be added to an ntuple with an unsupported field",
            skipped.reason
        );
        return Err(ntuple.unsupported(&skipped.name, &reason));
    }
    let fields = descriptor.fields.iter().map(|field| &field.record);
    let columns = descriptor.columns.iter();
    let (n_fields, n_columns, _) = schema.in_header;
    if fields.ne(&schema.schema.fields)
        || columns.ne(&schema.schema.columns)
        || (n_fields, n_columns) != descriptor.in_header
    {
        let reason =
            "several of its fields have the same name: merge it with the others into a new file";
        return Err(ntuple.unsupported(ntuple.path(), reason));
    }
    Ok(())
}

/// Columns at one position of a field's representations, which have the same number of elements.
struct Counted {
    columns: Vec<u32>,
    n_elements: Option<u64>,
}

/// The number of elements of each column: known from the schema, or from the last cluster that has some.
fn n_elements(ntuple: &Reader, schema: &MergedSchema) -> Result<Vec<u64>, RNTupleError> {
    let mut counted = counted(ntuple, schema);
    let groups = &ntuple.descriptor().cluster_groups;
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|&at| {
        groups
            .get(at)
            .map(|group| group.min_entry + group.entry_span)
    });
    for at in order.into_iter().rev() {
        if counted.iter().all(|some| some.n_elements.is_some()) {
            break;
        }
        let Some(list) = ntuple.page_list(at)? else {
            continue;
        };
        for some in counted.iter_mut().filter(|some| some.n_elements.is_none()) {
            let clusters = 0..list.clusters().len();
            let listed = clusters.flat_map(|cluster| {
                let columns = some.columns.iter();
                columns
                    .filter_map(|&column| list.column(cluster, column))
                    .collect::<Vec<_>>()
            });
            let used = listed.filter(|listed| !listed.suppressed());
            let ends = used.map(|listed| {
                let pages = list.pages(listed).iter();
                let n: u64 = pages.map(|page| u64::from(page.n_elements)).sum();
                listed.element_offset.unsigned_abs().saturating_add(n)
            });
            some.n_elements = ends.max();
        }
    }
    let mut out = vec![0; schema.schema.columns.len()];
    for some in counted {
        let columns = some.columns.iter().map(|&column| column as usize);
        let begin = |column: usize| {
            let record = schema.schema.columns.get(column);
            record.map_or(0, |record| record.first_element.unsigned_abs())
        };
        // a column without pages ends where it begins
        let n = some.n_elements.or_else(|| columns.clone().map(begin).max());
        for column in columns {
            if let Some(slot) = out.get_mut(column) {
                *slot = n.unwrap_or(0);
            }
        }
    }
    Ok(out)
}

/// All columns, with the numbers of elements that do not depend on the data.
fn counted(ntuple: &Reader, schema: &MergedSchema) -> Vec<Counted> {
    let n_entries = ntuple.n_entries();
    let field = |id: u32| schema.schema.fields.get(id as usize);
    let mut out = Vec::new();
    for (id, representations) in (0u32..).zip(&schema.representations) {
        let n_positions = representations.first().map_or(0, Vec::len);
        for position in 0..n_positions {
            let columns = representations.iter();
            let columns = columns.filter_map(|all| all.get(position).copied());
            let known = expected(field, id, n_entries).filter(|_| position == 0);
            out.push(Counted {
                columns: columns.collect(),
                n_elements: known,
            });
        }
    }
    out
}
