//! Reading the events of a ROOT file, and the products of runs, subruns and the dataset of an exported one.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeListArray, RecordBatch, StructArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use femtobarn_events::{ABSENT, Descriptor, Parent, Uuid};
use femtobarn_rntuple::RNTupleError;

use super::choose::{Collection, list_item};
use super::columns::{Column, Kind, columns};
use super::open::{description, ntuples, objects, open, place, skipped};
use super::plan::Plan;
use super::steps::Steps;
use super::{Chunk, IngestFile, IngestOptions, Product, check_groups, numbers};
use crate::ntuple::NTuple;
use crate::transfer::{LEVELS, NUMBERS, TransferError, noted, quoted};

/// What the reader of a file says of it.
#[derive(Debug)]
pub(super) enum Message {
    /// Events or other containers, and which part of the file was read by then.
    Chunk(Chunk, f64),
    /// A warning.
    Warning(String),
}

/// What is known at the end of a file.
#[derive(Debug, Default, Clone)]
pub struct Done {
    /// Parts of the file that were left out, with the reasons.
    pub left_out: Vec<(String, String)>,
    /// Those of them that were not expected.
    pub unexpected: Vec<(String, String)>,
    /// Notes.
    pub notes: Vec<String>,
}

/// The reader of a ROOT file.
pub(super) struct FileReader<'a> {
    pub file: &'a IngestFile,
    pub dataset: Uuid,
    pub options: &'a IngestOptions,
    /// Whether to go on.
    pub waiting: &'a mut dyn FnMut() -> bool,
    /// Takes what is read.
    pub tell: &'a mut dyn FnMut(Message) -> Result<(), TransferError>,
}

impl FileReader<'_> {
    /// Reads its events, then what else an exported file has.
    pub fn read(&mut self) -> Result<Done, TransferError> {
        let (path, options) = (self.file.path.as_str(), self.options);
        check_groups(path, options)?;
        let tree = self.file.name.as_deref().or(options.tree.as_deref());
        let plan = Plan::new(path, tree, options)?;
        self.warn(&plan.ntuple)?;
        let mut done = Done::default();
        if options.fields.is_empty() {
            let is_dropped =
                |name: &str| options.drop.iter().any(|drop| crate::matches(drop, name));
            let skipped = skipped(&plan.ntuple).into_iter();
            done.left_out = skipped.filter(|(name, _)| !is_dropped(name)).collect();
        }
        let is_list = |column: &Column| list_item(&column.kind.name).is_some();
        if options.collections && plan.collections.is_empty() && plan.columns.iter().any(is_list) {
            let on = options.words.on("collections");
            done.notes.push(format!(
                "{on} has found no collections: no integer field nX has matching lists X_…"
            ));
        }
        let [.., event] = &plan.numbers;
        if event.field().is_some() {
            numbers::check_different(&plan.ntuple, &plan.numbers, options, self.waiting)?;
        }
        self.read_events(&plan)?;
        self.read_above(&plan.ntuple)?;
        if tree.is_none() {
            // otherwise no other tree was meant
            done.left_out.extend(others(path, &plan.ntuple, options)?);
        }
        Ok(done)
    }

    /// Warns of fields that are left out.
    fn warn(&mut self, ntuple: &NTuple) -> Result<(), TransferError> {
        let Some(reader) = ntuple.readers().first() else {
            return Ok(());
        };
        for (field, reason) in ntuple.left_out().unreadable() {
            let name = &reader.descriptor().name;
            (self.tell)(Message::Warning(format!(
                "field {} of {} is skipped: {reason}",
                quoted(field),
                quoted(name)
            )))?;
        }
        let known = reader.descriptor().skipped.iter();
        let known: Vec<_> = known
            .map(|one| (one.name.clone(), one.reason.clone()))
            .collect();
        match super::report::left_out(&known, &place(ntuple), "written", "ntuple") {
            Some(text) => (self.tell)(Message::Warning(text)),
            None => Ok(()),
        }
    }

    fn read_events(&mut self, plan: &Plan) -> Result<(), TransferError> {
        let options = self.options;
        let ntuple = &plan.ntuple;
        let numbers = plan.numbers.iter().filter_map(|number| number.field());
        let own = plan.columns.iter().map(|column| column.field.as_str());
        let within = plan.collections.iter().flat_map(Collection::fields);
        let wanted: Vec<String> = numbers
            .chain(own)
            .chain(within)
            .map(str::to_owned)
            .collect();
        if wanted.is_empty() {
            return Err(TransferError::usage(format!(
                "{}: nothing to read: run, subrun and event are numbers, and no field is selected",
                place(ntuple)
            )));
        }
        let mut steps = Steps::new(ntuple, &wanted, options.step_bytes, options)?;
        let mut start = 0;
        while let Some(batch) = steps.next(self.waiting)? {
            let [runs, subruns, events] = numbers::of_batch(ntuple, &plan.numbers, &batch, start)?;
            let numbers = runs.into_iter().zip(subruns).zip(events);
            let containers = numbers.map(|((run, subrun), event)| Descriptor {
                dataset: self.dataset,
                run,
                subrun,
                event,
            });
            let mut products = products(&plan.columns, &batch)?;
            for one in &plan.collections {
                let values = zipped(ntuple, one, &batch, start, options)?;
                products.push(Product::new(&one.label, &one.kind, values));
            }
            let chunk = Chunk {
                containers: containers.collect(),
                products,
                is_created: true,
            };
            start += batch.num_rows() as u64;
            #[expect(clippy::cast_precision_loss, reason = "a part that is shown")]
            let part = start as f64 / ntuple.n_entries().max(1) as f64;
            (self.tell)(Message::Chunk(chunk, part))?;
        }
        Ok(())
    }

    /// Reads the products of the dataset itself, and of its runs and subruns, from a file that was exported.
    fn read_above(&mut self, events: &NTuple) -> Result<(), TransferError> {
        let (path, options) = (self.file.path.as_str(), self.options);
        if noted("level", description(events)).is_none() {
            return Ok(());
        }
        let there = ntuples(path, options)?;
        for (n, (level, name)) in LEVELS.iter().zip(levels(events)).enumerate() {
            if !there.contains(&name) {
                continue;
            }
            let ntuple = Arc::new(open(path, Some(&name), options)?);
            let own = noted("level", description(&ntuple));
            if own.as_ref().and_then(|own| own.get("level")?.as_str()) != Some(level) {
                continue;
            }
            let (numbers, columns): (Vec<Column>, Vec<Column>) = columns(&ntuple)?
                .into_iter()
                .partition(|column| column.number.is_some());
            let field = |number: &&str| {
                let own = numbers
                    .iter()
                    .find(|one| one.number.as_deref() == Some(number));
                own.map(|one| one.field.clone()).ok_or_else(|| {
                    let what = format!(
                        "{}: no field has the number of the {number}",
                        place(&ntuple)
                    );
                    TransferError::new("key-not-found", what)
                })
            };
            let numbers: Vec<String> = NUMBERS
                .iter()
                .take(n)
                .map(field)
                .collect::<Result<_, _>>()?;
            let own = columns.iter().map(|column| column.field.clone());
            let fields: Vec<String> = numbers.iter().cloned().chain(own).collect();
            let mut steps = Steps::new(&ntuple, &fields, options.step_bytes, options)?;
            while let Some(batch) = steps.next(self.waiting)? {
                let chunk = Chunk {
                    containers: containers(self.dataset, &numbers, &batch)?,
                    products: products(&columns, &batch)?,
                    is_created: n > 0,
                };
                (self.tell)(Message::Chunk(chunk, 1.0))?;
            }
        }
        Ok(())
    }
}

impl Product {
    fn new(label: &str, kind: &Kind, values: ArrayRef) -> Self {
        Self {
            label: label.to_owned(),
            type_name: kind.name.clone(),
            classes: kind.classes.clone(),
            form: kind.form,
            values,
        }
    }
}

fn products(columns: &[Column], batch: &RecordBatch) -> Result<Vec<Product>, TransferError> {
    let product = |column: &Column| {
        Ok(Product::new(
            &column.label,
            &column.kind,
            values(batch, &column.field)?.clone(),
        ))
    };
    columns.iter().map(product).collect()
}

fn values<'b>(batch: &'b RecordBatch, field: &str) -> Result<&'b ArrayRef, TransferError> {
    let missing = || RNTupleError::Internal {
        what: format!("field {field:?} was not read"),
    };
    Ok(batch.column_by_name(field).ok_or_else(missing)?)
}

/// Lists of records from the lists of the members.
fn zipped(
    ntuple: &NTuple,
    one: &Collection,
    batch: &RecordBatch,
    start: u64,
    options: &IngestOptions,
) -> Result<ArrayRef, TransferError> {
    let counter = values(batch, &one.counter)?;
    let counts = lengths_of(counter).unwrap_or_default();
    let mut offsets = vec![0i64];
    let mut end = 0i64;
    for count in &counts {
        end = end.saturating_add(*count);
        offsets.push(end);
    }
    let (mut fields, mut contents) = (Vec::new(), Vec::new());
    for (field, member) in &one.members {
        let lists = values(batch, field)?;
        let lists = lists
            .as_list_opt::<i64>()
            .ok_or_else(|| RNTupleError::Internal {
                what: format!("field {field:?} was not read as lists"),
            })?;
        let own = lists.offsets();
        let lengths = own.windows(2).map(|pair| match pair {
            [a, b] => b - a,
            _ => 0,
        });
        let mut both = (start..).zip(lengths.zip(&counts));
        if let Some((entry, (length, count))) = both.find(|(_, (length, count))| length != *count) {
            return Err(TransferError::usage(format!(
                "{}: {field} has {length} items in entry {entry}, but {} is {count}: they are not a collection; \
                 leave out {}, or drop one",
                place(ntuple),
                one.counter,
                options.words.name("collections")
            )));
        }
        let at = |end: i64| usize::try_from(end).unwrap_or(0);
        let (first, last) = (at(own.first()), at(own.last()));
        let content = lists.values().slice(first, last.saturating_sub(first));
        fields.push(Field::new(member, content.data_type().clone(), true));
        contents.push(content);
    }
    let refused = |error: arrow_schema::ArrowError| RNTupleError::Internal {
        what: error.to_string(),
    };
    let records = StructArray::try_new(fields.into(), contents, None).map_err(refused)?;
    let item = Field::new("item", DataType::Struct(records.fields().clone()), false);
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let lists = LargeListArray::try_new(Arc::new(item), offsets, Arc::new(records), None);
    Ok(Arc::new(lists.map_err(refused)?))
}

fn lengths_of(counter: &ArrayRef) -> Option<Vec<i64>> {
    let counts = numbers::integers(counter)?;
    counts
        .into_iter()
        .map(|count| i64::try_from(count).ok())
        .collect()
}

/// The containers of these numbers: the dataset, runs or subruns.
fn containers(
    dataset: Uuid,
    numbers: &[String],
    batch: &RecordBatch,
) -> Result<Vec<Descriptor>, TransferError> {
    let mut all = vec![Parent::dataset(dataset).descriptor(); batch.num_rows()];
    for (at, field) in numbers.iter().enumerate() {
        let own = numbers::integers(values(batch, field)?).unwrap_or_default();
        for (container, number) in all.iter_mut().zip(own) {
            let number = u64::try_from(number).unwrap_or(ABSENT);
            match at {
                0 => container.run = number,
                _ => container.subrun = number,
            }
        }
    }
    Ok(all)
}

/// The paths of the ntuples that an exported file can have beside that of the events.
fn levels(events: &NTuple) -> [String; 3] {
    let name = events.readers().first().map_or("", |reader| reader.path());
    LEVELS.map(|level| format!("{name}_{level}"))
}

/// The objects of a file that are not read, with the reason.
fn others(
    path: &str,
    events: &NTuple,
    options: &IngestOptions,
) -> Result<Vec<(String, String)>, TransferError> {
    let name = events.readers().first().map_or("", |reader| reader.path());
    let is_exported = noted("level", description(events)).is_some();
    let levels = levels(events);
    let is_read = |path: &String| path == name || is_exported && levels.contains(path);
    let mut found: Vec<(String, String)> = Vec::new();
    for (path, class) in objects(path, options)? {
        let why = format!(
            "it is a {class} beside {}; only one ntuple or tree is ingested",
            quoted(name)
        );
        match found.iter_mut().find(|(known, _)| *known == path) {
            Some((_, known)) => *known = why,
            None if !is_read(&path) => found.push((path, why)),
            None => {}
        }
    }
    Ok(found)
}
