//! Opens inputs: ntuples, trees and tables.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::{Descriptor, FieldId};
use femtobarn_rntuple::spec::ColumnType;
use femtobarn_rntuple::write::{Digest, FieldModel};
use femtobarn_rootfile::without_cycle;
use femtobarn_ttree::Tree;
use femtobarn_ttree::model::TreeModel;

use super::attributes::{self};
use super::fit::Fit;
use super::format::Format;
use super::names::{FieldNames, plain_ntuple_name};
use super::options::ConvertOptions;
use super::origins::Origin;
use super::reshape::reshape;
use super::source::{Source, elsewhere, has_data, refused, top_branches};
use super::steps::steps;
use super::tables;
use super::tree;
use super::wanted::{Names, Unmatched, Wanted};
use crate::counters::counters;
use crate::inputs::Input;
use crate::ntuple::NTuple;
use crate::open::OpenOptions;
use crate::sizes::PageCounter;

impl Source {
    /// Opens files of one format and selects the fields that match names and patterns.
    pub fn open(
        inputs: &[Input],
        output: Format,
        options: &ConvertOptions,
    ) -> Result<Self, RNTupleError> {
        let how = (options, &FieldNames::default());
        let mut source = Self::open_part(inputs, (None, None), output, how, &[])?;
        match source.unmatched.pop_first() {
            None => Ok(source),
            Some((_, error)) => Err(error),
        }
    }

    /// Opens files of one format; several become one ntuple, which may be open already. If a path is given, it replaces
    /// the ntuple's name. Branches known as unreadable are left out. Field names of a tree that were assigned for
    /// earlier files are reused.
    pub fn open_part(
        inputs: &[Input],
        (ntuple, path): (Option<NTuple>, Option<&str>),
        output: Format,
        (options, names): (&ConvertOptions, &FieldNames),
        unreadable: &[(String, String)],
    ) -> Result<Self, RNTupleError> {
        let [first, ..] = inputs else {
            return Err(refused("", "nothing to convert"));
        };
        check_kinds(first, inputs)?;
        let mut source = match Format::of(Path::new(&first.url)) {
            Format::Root => {
                let ntuple = ntuple.map_or_else(|| open_together(inputs), Ok)?;
                Self::ntuple(Arc::new(ntuple), output, (options, names), unreadable)?
            }
            format => tables::open(inputs, format, output, options)?,
        };
        match &options.name {
            Some(name) => source.name.clone_from(name),
            None if output == Format::Root => source.rename(path),
            None => {}
        }
        Ok(source)
    }

    fn ntuple(
        ntuple: Arc<NTuple>,
        output: Format,
        (options, names): (&ConvertOptions, &FieldNames),
        unreadable: &[(String, String)],
    ) -> Result<Self, RNTupleError> {
        let Some(reader) = ntuple.readers().first().cloned() else {
            return Err(refused("", "nothing to convert"));
        };
        for (name, reason) in unreadable {
            ntuple.leave_out(name, reason);
        }
        if let (Some(model), Format::Root) = (Tree::model(&reader), output) {
            return Self::tree(&ntuple, model, (options, names));
        }
        let descriptor = reader.descriptor();
        let all = 0..ntuple.n_entries();
        let (mut chosen, mut skipped, mut unmatched) = choose(&ntuple, &reader, options)?;
        if ntuple.find_unreadable(&ntuple.select(Some(&paths(&reader, &chosen)))?, &all) {
            (chosen, skipped, unmatched) = choose(&ntuple, &reader, options)?;
        }
        // tables have no projected fields: their sources become columns, except hidden ones
        if output != Format::Root {
            chosen.retain(|&id| !descriptor.is_hidden_source(id));
        }
        let fit = Fit::new(
            &ntuple,
            &reader,
            &ntuple.select(Some(&paths(&reader, &chosen)))?,
        );
        let is_projected = |&id: &FieldId| {
            output == Format::Root && stays_projected(&ntuple, &reader, id, &chosen, &fit)
        };
        let field = |id: &FieldId| {
            let model = if is_projected(id) {
                FieldModel::from_descriptor(descriptor, &[*id])?.pop()
            } else {
                Some(FieldModel::with_data(descriptor, *id)?)
            };
            let model = model.ok_or_else(|| refused("", "a field is missing"))?;
            Ok(fit.field(descriptor, *id, model))
        };
        let fields = chosen.iter().map(field);
        let mut fields = fields.collect::<Result<Vec<_>, RNTupleError>>()?;
        let meant = fields.iter().zip(&chosen);
        let meant = meant.filter(|(field, _)| has_data(field));
        let meant = meant.map(|(field, &id)| (field.name.clone(), Origin::Field(id)));
        let meant: Vec<(String, Origin)> = meant.collect();
        leave_out_odd_projected(&mut fields, &mut skipped);
        let read: Vec<String> = meant.iter().map(|(name, _)| name.clone()).collect();
        let selection = ntuple.select(Some(&read))?.telling();
        let selection = match output {
            Format::Root => selection.with_raw_strings(),
            _ => selection,
        };
        let (attributes, left_behind) = attributes::find(&ntuple, output);
        let notes = match output {
            Format::Root => no_longer_quantized(descriptor, &chosen),
            _ => Vec::new(),
        };
        Ok(Self {
            name: descriptor.name.clone(),
            description: descriptor.description.clone(),
            type_infos: descriptor.extra_type_infos.clone(),
            n_entries: ntuple.n_entries(),
            n_bytes: stored_bytes(&ntuple)?,
            skipped,
            notes,
            unmatched,
            left_behind,
            attributes,
            names: FieldNames::default(),
            origins: Vec::new(),
            batches: steps(ntuple, selection, &meant, options.write.threads)?,
            fields,
        })
    }

    /// Sets a name that is valid for ntuples: the path, or else its own name.
    fn rename(&mut self, path: Option<&str>) {
        if let Some(path) = path {
            without_cycle(path)
                .trim_matches('/')
                .clone_into(&mut self.name);
        }
        let plain = plain_ntuple_name(&self.name);
        if plain != self.name {
            let given = std::mem::replace(&mut self.name, plain);
            let note = format!("the tree has the name {:?}", self.name);
            self.notes.push((given, note));
        }
    }

    /// A tree, in the layout of ROOT's importer.
    fn tree(
        ntuple: &Arc<NTuple>,
        model: &TreeModel,
        how: (&ConvertOptions, &FieldNames),
    ) -> Result<Self, RNTupleError> {
        let Some(reader) = ntuple.readers().first() else {
            return Err(refused("", "nothing to convert"));
        };
        let mut fit = Fit::default();
        let mut shaped = tree::shape(model, ntuple, reader, &fit, how)?;
        let mut selection = ntuple.select(Some(&shaped.columns()))?;
        if ntuple.find_unreadable(&selection, &(0..ntuple.n_entries())) {
            shaped = tree::shape(model, ntuple, reader, &fit, how)?;
            selection = ntuple.select(Some(&shaped.columns()))?;
        }
        fit = Fit::new(ntuple, reader, &selection);
        if !fit.is_empty() {
            shaped = tree::shape(model, ntuple, reader, &fit, how)?;
        }
        let selection = selection.telling().with_raw_strings();
        let origins = shaped.origins(model);
        let meant = shaped.read.into_iter();
        let meant: Vec<_> = meant.map(|(name, id)| (name, Origin::Branch(id))).collect();
        let batches = steps(ntuple.clone(), selection, &meant, how.0.write.threads)?;
        let pieces = shaped.pieces;
        Ok(Self {
            // an object may lack the name of its key
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
            skipped: shaped.skipped,
            notes: shaped.notes,
            unmatched: shaped.unmatched,
            left_behind: Vec::new(),
            attributes: Vec::new(),
            names: shaped.names,
            origins,
            batches: Box::new(batches.map(move |batch| reshape(&batch?, &pieces))),
            fields: shaped.fields,
        })
    }
}

/// Opens ROOT files as one ntuple.
fn open_together(inputs: &[Input]) -> Result<NTuple, RNTupleError> {
    let files = inputs.iter();
    let files = files.map(|input| (input.url.clone(), input.path.clone()));
    // all files have the same settings
    let settings = inputs.first().map(|input| input.settings.clone());
    let opening = OpenOptions {
        settings: settings.unwrap_or_default(),
        ..OpenOptions::default()
    };
    NTuple::open(&files.collect::<Vec<_>>(), opening)
}

/// Checks that the inputs have one format; tables have no object names.
fn check_kinds(first: &Input, inputs: &[Input]) -> Result<(), RNTupleError> {
    let kind = |input: &Input| Format::of(Path::new(&input.url));
    if let Some(other) = inputs.iter().find(|&input| kind(input) != kind(first)) {
        return Err(RNTupleError::Usage {
            what: format!(
                "{} is {}, {} is {}: inputs of different formats cannot be combined; convert each into a ROOT file \
                 first",
                first.shown(),
                kind(first).name(),
                other.shown(),
                kind(other).name()
            ),
        });
    }
    let is_named = |input: &&Input| kind(input) != Format::Root && input.path.is_some();
    match inputs.iter().find(is_named) {
        None => Ok(()),
        Some(input) => Err(RNTupleError::Usage {
            what: format!(
                "{url} is {}, and a table has no object {:?}: give only {url}",
                kind(input).name(),
                input.path.as_deref().unwrap_or_default(),
                url = input.shown()
            ),
        }),
    }
}

/// Leaves out projected fields with another type than their source, which ROOT can create: an optional value from a
/// list.
fn leave_out_odd_projected(fields: &mut Vec<FieldModel>, skipped: &mut Vec<(String, String)>) {
    while let Err(RNTupleError::Unwritable { name, reason }) = Digest::new(fields) {
        let is_odd = |field: &FieldModel| field.name == name && !has_data(field);
        let Some(at) = fields.iter().position(is_odd) else {
            return;
        };
        fields.remove(at);
        skipped.push((name, reason));
    }
}

fn stored_bytes(ntuple: &NTuple) -> Result<u64, RNTupleError> {
    // each file has all of its columns, whichever the first one has
    ntuple.readers().iter().try_fold(0u64, |sum, reader| {
        let mut counter = PageCounter::new(reader);
        let lists = reader.page_lists(0..u64::MAX)?;
        let sizes = lists.iter().flat_map(|(_, list)| {
            let clusters = 0..list.clusters().len();
            let sizes = clusters.map(|at| counter.cluster(list, at).bytes_on_disk);
            sizes.collect::<Vec<_>>()
        });
        Ok(sizes.fold(sum, u64::saturating_add))
    })
}

/// The reason why Arrow cannot represent the values of a field without loss, if so.
fn ambiguous_in_arrow(descriptor: &Descriptor, id: FieldId) -> Option<String> {
    let field = descriptor.field(id)?;
    let mut below = field.children.iter();
    if field.record.is_optional()
        && below.any(|&child| (descriptor.field(child)).is_some_and(|it| it.record.is_optional()))
    {
        let name = descriptor.field_name(id);
        return Some(format!(
            "{name:?} is an optional value of an optional value, and Arrow has only one level of missing values"
        ));
    }
    let mut below = field.children.iter();
    below.find_map(|&child| ambiguous_in_arrow(descriptor, child))
}

/// The top-level fields to convert, fields that cannot be converted with the reasons, and the names and patterns that
/// match nothing.
#[expect(clippy::type_complexity, reason = "used once")]
fn choose(
    ntuple: &NTuple,
    reader: &Reader,
    options: &ConvertOptions,
) -> Result<(Vec<FieldId>, Vec<(String, String)>, Unmatched), RNTupleError> {
    let descriptor = reader.descriptor();
    let left_out = ntuple.left_out();
    let above = Tree::model(reader).map_or_else(HashMap::new, |tree| top_branches(tree, reader));
    let names = |name: &str| Names::new(name).below(above.get(name).map(String::as_str));
    let field = |&id: &FieldId| (Some(id), descriptor.field_name(id));
    let unknown = descriptor.skipped.iter();
    let all: Vec<(Option<FieldId>, &str)> = (descriptor.top_level.iter().map(field))
        .chain(unknown.map(|skipped| (None, skipped.name.as_str())))
        .collect();
    let mut wanted = Wanted::new(options, all.iter().map(|(_, name)| *name));
    let (mut chosen, mut skipped) = (Vec::new(), Vec::new());
    for &(id, name) in &all {
        let names = names(name);
        if !wanted.takes(&names) {
            continue;
        }
        let mut unknown = descriptor.skipped.iter();
        let reason = match id {
            Some(id) => {
                let reason = left_out.reason(name).map(str::to_owned);
                reason.or_else(|| ambiguous_in_arrow(descriptor, id))
            }
            None => unknown
                .find(|skipped| skipped.name == name)
                .map(|skipped| skipped.reason.clone()),
        };
        match (id, reason) {
            (Some(id), None) => chosen.push(id),
            (_, reason) => {
                let reason = reason.unwrap_or_else(|| "it cannot be read".to_owned());
                wanted.refuse_if_named(&names, reader, &reason)?;
                skipped.push((name.to_owned(), reason));
            }
        }
    }
    let mut counters = counters(reader, &chosen);
    counters.retain(|&id| {
        let name = descriptor.field_name(id);
        left_out.reason(name).is_none() && !wanted.drops(&names(name))
    });
    if !counters.is_empty() {
        let all: HashSet<FieldId> = chosen.iter().copied().chain(counters).collect();
        let top_level = descriptor.top_level.iter().copied();
        chosen = top_level.filter(|id| all.contains(id)).collect();
    }
    let member = |(path, reason): (&str, &str)| {
        let found = reader.find_field(path)?;
        let is_chosen = chosen.contains(&descriptor.top_of(found));
        is_chosen.then(|| (path.to_owned(), reason.to_owned()))
    };
    skipped.extend(left_out.iter().filter_map(member));
    let names = paths(reader, &chosen);
    skipped.extend(elsewhere(&left_out, reader, &mut wanted, &names)?);
    let unmatched = wanted.unmatched(reader.url(), reader.path());
    Ok((chosen, skipped, unmatched))
}

fn paths(reader: &Reader, fields: &[FieldId]) -> Vec<String> {
    let descriptor = reader.descriptor();
    let names = fields.iter().map(|&id| descriptor.field_name(id));
    names.map(str::to_owned).collect()
}

/// Whether a projected field stays one: its source is converted as well, and is the same in all files.
fn stays_projected(
    ntuple: &NTuple,
    first: &Reader,
    id: FieldId,
    chosen: &[FieldId],
    fit: &Fit,
) -> bool {
    let source = |reader: &Reader, id: FieldId| {
        let descriptor = reader.descriptor();
        let source = descriptor.field(id)?.record.source_id?;
        Some((source, descriptor.qualified_name(source)))
    };
    let Some((shown, name)) = source(first, id) else {
        return false;
    };
    let descriptor = first.descriptor();
    let own = descriptor.field_name(id);
    let is_same = |reader: &Arc<Reader>| {
        let found = reader.find_field(own);
        let found = found.and_then(|id| source(reader, id));
        found.is_some_and(|(_, other)| other == name)
    };
    chosen.contains(&descriptor.top_of(shown))
        && fit.has(descriptor, shown)
        && ntuple.readers().iter().skip(1).all(is_same)
}

/// Fields that are quantized (Real32Quant) in the input and stored as ordinary floats in the output, with notes.
fn no_longer_quantized(descriptor: &Descriptor, chosen: &[FieldId]) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for column in &descriptor.columns {
        let id = column.field_id;
        if column.column_type != ColumnType::Real32Quant || !chosen.contains(&descriptor.top_of(id))
        {
            continue;
        }
        let type_name = descriptor
            .field(id)
            .map_or("", |field| &field.record.type_name);
        let note = format!(
            "stored as {type_name}; the input has fractions of a range (Real32Quant) of {} bits",
            column.bits
        );
        let note = (descriptor.qualified_name(id), note);
        if !out.contains(&note) {
            out.push(note);
        }
    }
    out
}
