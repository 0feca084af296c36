//! What is converted: entries as record batches, and the fields that they are to become.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{PageCache, ReadOptions};
use femtobarn_rntuple::schema::{Descriptor, FieldId, did_you_mean};
use femtobarn_rntuple::spec::ExtraTypeInfo;
use femtobarn_rntuple::write::FieldModel;
use femtobarn_ttree::Tree;
use femtobarn_ttree::model::TreeModel;

use super::output::Format;
use super::reshape::reshape;
use super::tree::{self, has_data};
use super::{ConvertOptions, tables};
use crate::ntuple::{NTuple, Selection};
use crate::open::OpenOptions;
use crate::pattern::matches;

/// Decoded bytes of a step.
const STEP: u64 = 64 << 20;
/// Bytes of pages that two steps need.
const CACHE: u64 = 256 << 20;

/// A file, and the name of the object in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by their types")]
pub struct Input {
    pub url: String,
    pub path: Option<String>,
}

/// Batches of entries.
pub(super) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, RNTupleError>> + Send>;

/// An input that is being read.
pub(super) struct Source {
    /// The fields with data, and the views of them.
    pub fields: Vec<FieldModel>,
    pub type_infos: Vec<ExtraTypeInfo>,
    pub name: String,
    pub description: String,
    pub n_entries: u64,
    /// Bytes as stored.
    pub n_bytes: u64,
    pub notes: Vec<(String, String)>,
    pub batches: Batches,
}

impl Source {
    /// Opens files of one kind; several are one ntuple.
    pub fn open(
        inputs: &[Input],
        output: Format,
        options: &ConvertOptions,
    ) -> Result<Self, RNTupleError> {
        let [first, ..] = inputs else {
            return Err(refused("", "there is nothing to convert"));
        };
        match Format::of(Path::new(&first.url)) {
            Format::Root => Self::ntuple(inputs, output, options),
            format => tables::open(inputs, format, output, options),
        }
    }

    fn ntuple(
        inputs: &[Input],
        output: Format,
        options: &ConvertOptions,
    ) -> Result<Self, RNTupleError> {
        let files: Vec<(String, Option<String>)> = inputs
            .iter()
            .map(|input| (input.url.clone(), input.path.clone()))
            .collect();
        let ntuple = Arc::new(NTuple::open(&files, OpenOptions::default())?);
        let Some(reader) = ntuple.readers().first().cloned() else {
            return Err(refused("", "there is nothing to convert"));
        };
        if let (Some(model), Format::Root) = (Tree::model(&reader), output) {
            return Self::tree(&ntuple, model, options);
        }
        let descriptor = reader.descriptor();
        let mut chosen = choose(descriptor, options, reader.url())?;
        let fields = if output == Format::Root {
            let fields = FieldModel::from_descriptor(descriptor, &chosen)?;
            materialized(descriptor, &chosen, fields)?
        } else {
            // a table has no views: what they show is a column, and what only they show is none
            chosen.retain(|&id| !is_behind_views(descriptor, id));
            let fields = chosen
                .iter()
                .map(|&id| FieldModel::with_data(descriptor, id));
            fields.collect::<Result<_, _>>()?
        };
        let read: Vec<String> = fields
            .iter()
            .filter(|field| has_data(field))
            .map(|field| field.name.clone())
            .collect();
        let selection = ntuple.select(Some(&read))?;
        let left_out = ntuple.left_out();
        let skipped = descriptor.skipped.iter();
        let notes = skipped
            .map(|skipped| (skipped.name.clone(), skipped.reason.clone()))
            .chain(
                left_out
                    .iter()
                    .map(|(path, why)| (path.to_owned(), why.to_owned())),
            )
            .collect();
        Ok(Self {
            name: descriptor.name.clone(),
            description: descriptor.description.clone(),
            type_infos: descriptor.extra_type_infos.clone(),
            n_entries: ntuple.n_entries(),
            n_bytes: stored_bytes(&ntuple)?,
            notes,
            batches: steps(ntuple, selection, options.write.threads)?,
            fields,
        })
    }

    /// A tree, in the shape that ROOT's importer gives it.
    fn tree(
        ntuple: &Arc<NTuple>,
        model: &TreeModel,
        options: &ConvertOptions,
    ) -> Result<Self, RNTupleError> {
        let Some(reader) = ntuple.readers().first() else {
            return Err(refused("", "there is nothing to convert"));
        };
        let mut shaped = tree::shape(model, ntuple, reader, options)?;
        let left_out = ntuple.left_out();
        shaped.notes.extend(
            left_out
                .iter()
                .map(|(path, why)| (path.to_owned(), why.to_owned())),
        );
        let selection = ntuple.select(Some(&shaped.read))?;
        let batches = steps(ntuple.clone(), selection, options.write.threads)?;
        let pieces = shaped.pieces;
        Ok(Self {
            // objects may have lost the name that their key has
            name: match model.name.as_str() {
                "" => reader
                    .path()
                    .rsplit('/')
                    .next()
                    .unwrap_or("tree")
                    .to_owned(),
                name => name.to_owned(),
            },
            description: model.title.clone(),
            type_infos: Vec::new(),
            n_entries: ntuple.n_entries(),
            n_bytes: stored_bytes(ntuple)?,
            notes: shaped.notes,
            batches: Box::new(batches.map(move |batch| reshape(&batch?, &pieces))),
            fields: shaped.fields,
        })
    }
}

pub(super) fn refused(name: &str, reason: impl Into<String>) -> RNTupleError {
    RNTupleError::Unwritable {
        name: name.to_owned(),
        reason: reason.into(),
    }
}

/// What was asked for makes no sense, whatever is in the files.
pub(super) fn misused(what: &str, reason: impl std::fmt::Display) -> RNTupleError {
    RNTupleError::Usage {
        what: format!("{what:?} cannot be written: {reason}"),
    }
}

/// Whether a name is asked for; notes which patterns have matched.
pub(super) struct Wanted<'a> {
    options: &'a ConvertOptions,
    unmatched: HashSet<&'a str>,
}

impl<'a> Wanted<'a> {
    pub fn new(options: &'a ConvertOptions) -> Self {
        let patterns = options.fields.iter().chain(&options.drop);
        Self {
            options,
            unmatched: patterns.map(String::as_str).collect(),
        }
    }

    pub fn takes(&mut self, name: &str) -> bool {
        let mut any = |patterns: &'a [String]| {
            let mut found = false;
            for pattern in patterns.iter().filter(|pattern| matches(pattern, name)) {
                self.unmatched.remove(pattern.as_str());
                found = true;
            }
            found
        };
        let taken = self.options.fields.is_empty() || any(&self.options.fields);
        let dropped = any(&self.options.drop);
        taken && !dropped
    }

    /// An error if a pattern fits no field: a misspelt name must not lose data.
    pub fn check<'n>(
        &self,
        url: &str,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<(), RNTupleError> {
        match self.unmatched.iter().min() {
            Some(pattern) => Err(RNTupleError::NoSuchField {
                url: url.to_owned(),
                ntuple: "the top level".to_owned(),
                name: (*pattern).to_owned(),
                hint: did_you_mean(pattern, names),
            }),
            None => Ok(()),
        }
    }
}

fn stored_bytes(ntuple: &NTuple) -> Result<u64, RNTupleError> {
    let sizes = ntuple.column_sizes()?;
    Ok(sizes
        .values()
        .fold(0, |sum, sizes| sum.saturating_add(sizes.bytes_on_disk)))
}

fn choose(
    descriptor: &Descriptor,
    options: &ConvertOptions,
    url: &str,
) -> Result<Vec<FieldId>, RNTupleError> {
    let mut wanted = Wanted::new(options);
    let top_level = descriptor.top_level.iter().copied();
    let chosen = top_level
        .filter(|&id| wanted.takes(descriptor.field_name(id)))
        .collect();
    let names = descriptor.top_level.iter();
    wanted.check(url, names.map(|&id| descriptor.field_name(id)))?;
    Ok(chosen)
}

/// Whether a field is one of the collections that ROOT's importer makes for views.
fn is_behind_views(descriptor: &Descriptor, id: FieldId) -> bool {
    let shows = |view: FieldId| {
        let source = descriptor
            .field(view)
            .and_then(|field| field.record.source_id);
        source == Some(id)
    };
    descriptor.field_name(id).starts_with("_collection")
        && descriptor.top_level.iter().any(|&view| shows(view))
}

/// Views whose sources are not converted become fields with data.
fn materialized(
    descriptor: &Descriptor,
    chosen: &[FieldId],
    fields: Vec<FieldModel>,
) -> Result<Vec<FieldModel>, RNTupleError> {
    let is_there = |source: FieldId| chosen.contains(&descriptor.top_of(source));
    let source = |id| {
        descriptor
            .field(id)
            .and_then(|field| field.record.source_id)
    };
    let pairs = chosen.iter().zip(fields);
    pairs
        .map(|(&id, field)| match source(id) {
            Some(source) if !is_there(source) => FieldModel::with_data(descriptor, id),
            _ => Ok(field),
        })
        .collect()
}

/// The entries of an ntuple in steps that end where clusters do.
fn steps(
    ntuple: Arc<NTuple>,
    selection: Selection,
    threads: usize,
) -> Result<Batches, RNTupleError> {
    let ranges = ranges(&ntuple, &selection)?;
    let cache = PageCache::new(CACHE);
    let read = move |range: Range<u64>| {
        let options = ReadOptions {
            threads,
            cache: Some(&cache),
            ..ReadOptions::default()
        };
        let arrays = ntuple.read(&selection, range, &options)?;
        arrays
            .to_arrow()
            .map_err(|error| refused(&error.to_string(), "Arrow refuses it"))
    };
    Ok(Box::new(ranges.into_iter().map(read)))
}

fn ranges(ntuple: &NTuple, selection: &Selection) -> Result<Vec<Range<u64>>, RNTupleError> {
    let n_entries = ntuple.n_entries();
    let n_bytes = ntuple.decoded_bytes(selection, 0..n_entries)?;
    let step = super::share(n_entries, STEP, n_bytes.max(1)).max(1);
    let mut ends = Vec::new();
    for (reader, &first) in ntuple.readers().iter().zip(ntuple.file_starts()) {
        for (_, list) in reader.page_lists(0..u64::MAX)? {
            ends.extend(list.clusters().iter().map(|cluster| first + cluster.end()));
        }
    }
    ends.sort_unstable();
    ends.push(n_entries);
    if n_entries == 0 {
        // who writes a table must see its schema
        return Ok(std::iter::once(0..0).collect());
    }
    let mut out = Vec::new();
    let mut start = 0;
    for (i, &end) in ends.iter().enumerate() {
        // the next cluster still fits
        let next = ends.get(i + 1).copied().unwrap_or(end);
        if next > end && next - start <= step {
            continue;
        }
        while start < end {
            let pieces = (end - start).div_ceil(step.saturating_mul(2)).max(1);
            let stop = start + (end - start).div_ceil(pieces);
            out.push(start..stop);
            start = stop;
        }
    }
    Ok(out)
}
