//! Compares values: some entries of both files at a time.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt64Array};
use arrow_select::take::take_record_batch;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{
    Binding, PageCache, Part, ReadOptions, ReadSchema, Reader, Tick, decoded_bytes, read,
};
use femtobarn_rntuple::schema::FieldId;

use super::compare::{Unequal, compare, make_plain, zeros};
use super::fields::FieldPair;
use super::report::{Difference, NTupleProof};
use super::runs::Run;

/// Decoded bytes per step, for each file.
const STEP: u64 = 64 << 20;
/// Decoded bytes per step if the entries of the input are in another order: each step may need all pages, so there
/// should be few steps.
const UNORDERED_STEP: u64 = 256 << 20;
/// Bytes of the page cache for adjacent steps, for each file.
const CACHE: u64 = 128 << 20;

/// A range of entries of the output, and the fields (by index) to compare by value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub entries: Range<u64>,
    pub fields: Vec<usize>,
}

/// The first difference in a column, with its entries in the output and in the input.
#[derive(Clone)]
struct First {
    entry: u64,
    input_entry: Option<u64>,
    unequal: Unequal,
}

/// A field of the output that the input does not have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Missing {
    pub id: FieldId,
    /// It is a list, and the input has the collection: the items are zero.
    pub has_items: bool,
}

/// Compares values of the output with one input.
pub(super) struct Comparer<'a> {
    /// The output and the input.
    pub readers: (&'a Arc<Reader>, &'a Arc<Reader>),
    pub name: &'a str,
    pub runs: &'a [Run],
    pub fields: &'a [FieldPair],
    /// Fields of the output that the input does not have.
    pub missing: &'a [Missing],
    pub threads: usize,
    pub tick: Option<Tick<'a>>,
    pub report: &'a mut NTupleProof,
}

/// A top-level field of the output, and its selections in the output and in the input.
#[derive(Clone)]
struct Column {
    name: String,
    read: [Vec<FieldId>; 2],
    /// Where the input does not have it: whether it has as many items.
    has_items: bool,
}

/// Fields that are read together.
struct Columns {
    /// Their names.
    names: Vec<String>,
    has_items: Vec<bool>,
    schema: ReadSchema,
    bindings: Vec<Arc<Binding>>,
    /// The caches for the output and for the input.
    caches: [PageCache; 2],
}

impl Columns {
    fn new(readers: &[Arc<Reader>], columns: &[Column]) -> Result<Self, RNTupleError> {
        let [mut own, mut others] = [Vec::new(), Vec::new()];
        for Column { read, .. } in columns {
            own.extend(&read[0]);
            others.extend(&read[1]);
        }
        let (mut schema, bindings) = ReadSchema::of_fields(readers, &[own, others])?;
        let nodes = schema.columns.iter_mut().map(|(_, node)| node);
        nodes.for_each(make_plain);
        Ok(Self {
            names: columns.iter().map(|column| column.name.clone()).collect(),
            has_items: columns.iter().map(|column| column.has_items).collect(),
            schema,
            bindings,
            caches: [PageCache::new(CACHE), PageCache::new(CACHE)],
        })
    }

    fn part(&self, reader: &Arc<Reader>, which: usize, entries: &Range<u64>) -> Vec<Part> {
        let binding = self.bindings.get(which).cloned();
        let part = binding.map(|binding| Part {
            reader: reader.clone(),
            binding,
            start: entries.start,
            stop: entries.end,
        });
        Vec::from_iter(part)
    }
}

impl<'a> Comparer<'a> {
    pub fn pair(&self) -> (&'a Reader, &'a Reader) {
        (self.readers.0, self.readers.1)
    }

    /// The entries of the input for entries of the output, if they are consecutive.
    pub fn place(&self, entries: &Range<u64>) -> Option<Range<u64>> {
        let run = self.runs_in(entries).first()?;
        let is_within = run.output <= entries.start && entries.end <= run.output_end();
        is_within.then(|| {
            let first = run.entries.start + (entries.start - run.output);
            first..first + (entries.end - entries.start)
        })
    }

    /// The runs that contain entries of the output.
    fn runs_in(&self, entries: &Range<u64>) -> &'a [Run] {
        let first = self
            .runs
            .partition_point(|run| run.output_end() <= entries.start);
        let last = self.runs.partition_point(|run| run.output < entries.end);
        self.runs.get(first..last).unwrap_or_default()
    }

    /// Executes tasks. Only the first difference of each field is reported.
    pub fn compare(&mut self, tasks: Vec<Task>) -> Result<(), RNTupleError> {
        let last = tasks.last().map_or(0, |task| task.entries.end);
        let whole = tasks.first().map(|task| task.entries.start..last);
        for task in joined(tasks) {
            self.task(&task)?;
            if let Some(tick) = self.tick
                && !tick(task.entries.end, last)
            {
                return Err(RNTupleError::Interrupted);
            }
        }
        match whole {
            Some(whole) => self.zeros(whole),
            None => Ok(()),
        }
    }

    fn task(&mut self, task: &Task) -> Result<(), RNTupleError> {
        let fields = task.fields.iter().filter_map(|&at| self.fields.get(at));
        let fields = fields.filter(|field| !field.read.is_empty() && !self.is_done(&field.name));
        let fields: Vec<&FieldPair> = fields.collect();
        let column = |field: &&FieldPair| {
            let (own, others) = field.read.iter().copied().unzip();
            Column {
                name: field.name.clone(),
                read: [own, others],
                has_items: false,
            }
        };
        let columns: Vec<Column> = fields.iter().map(column).collect();
        let n = task.entries.end - task.entries.start;
        for field in fields {
            *self.report.by_value.entry(field.name.clone()).or_default() += n;
        }
        let readers = [self.readers.0.clone(), self.readers.1.clone()];
        self.each(&readers, columns, task.entries.clone())
    }

    /// Checks that fields that the input lacks are zero, empty or missing.
    fn zeros(&mut self, entries: Range<u64>) -> Result<(), RNTupleError> {
        let descriptor = self.readers.0.descriptor();
        let column = |missing: &Missing| Column {
            name: descriptor.field_name(missing.id).to_owned(),
            read: [vec![missing.id], Vec::new()],
            has_items: missing.has_items,
        };
        let columns = self.missing.iter().map(column);
        let columns = columns.filter(|column| !self.is_done(&column.name));
        let columns = columns.collect();
        let readers = [self.readers.0.clone()];
        self.each(&readers, columns, entries)
    }

    fn is_done(&self, name: &str) -> bool {
        let mut differences = self.report.differences.iter();
        differences.any(|difference| is_part_of(&difference.field, name))
    }

    /// Compares columns; separately if they cannot be read together.
    fn each(
        &mut self,
        readers: &[Arc<Reader>],
        columns: Vec<Column>,
        entries: Range<u64>,
    ) -> Result<(), RNTupleError> {
        if columns.is_empty() {
            return Ok(());
        }
        let known = self.report.differences.len();
        let opened = Columns::new(readers, &columns);
        let done = opened.and_then(|opened| self.steps(readers, &opened, entries.clone()));
        match (done, columns.as_slice()) {
            (Ok(()), _) => Ok(()),
            (Err(error), _) if error.is_interrupted() => Err(error),
            (Err(error), [column]) => {
                let (found, expected) = (error.with_causes(), "values that can be compared");
                let difference = Difference::of(&column.name, self.name, found, expected);
                self.report.differences.push(difference);
                Ok(())
            }
            (Err(_), _) => {
                self.report.differences.truncate(known);
                for column in columns {
                    self.each(readers, vec![column], entries.clone())?;
                }
                Ok(())
            }
        }
    }

    /// Compares entries; splits them if there are too many.
    fn steps(
        &mut self,
        readers: &[Arc<Reader>],
        columns: &Columns,
        entries: Range<u64>,
    ) -> Result<(), RNTupleError> {
        let [output, others @ ..] = readers else {
            return Ok(());
        };
        let n = entries.end - entries.start;
        let mut runs = clipped(self.runs_in(&entries), &entries);
        let is_in_order = runs.is_sorted_by(|a, b| a.entries.end <= b.entries.start);
        let parts = columns.part(output, 0, &entries);
        let mut size = decoded_bytes(&columns.schema, &parts)?;
        if let Some(input) = others.first()
            && is_in_order
        {
            let theirs = columns.part(input, 1, &hull(&runs));
            size = size.max(decoded_bytes(&columns.schema, &theirs)?);
        }
        let step = match is_in_order {
            true => STEP,
            false => UNORDERED_STEP,
        };
        if size > step && n > 1 {
            let middle = entries.start + n / 2;
            self.steps(readers, columns, entries.start..middle)?;
            return self.steps(readers, columns, middle..entries.end);
        }
        self.progress(entries.start)?;
        let found = self.read(columns, 0, &parts)?;
        let mut firsts = vec![None; columns.names.len()];
        match others.first() {
            None => {
                let expected = zeros(&found, &columns.has_items);
                let expected = expected.map_err(RNTupleError::internal)?;
                let place = |row| (entries.start + row, None);
                self.note((&columns.names, &found, &expected), &place, &mut firsts);
            }
            Some(input) => {
                runs.sort_by_key(|run| run.entries.start);
                let found = (&found, entries.start);
                self.against(input, columns, found, &runs, &mut firsts)?;
            }
        }
        self.tell(columns, firsts);
        Ok(())
    }

    /// Compares values in the order of the input's entries; splits them if there are too many.
    fn against(
        &mut self,
        input: &Arc<Reader>,
        columns: &Columns,
        (found, start): (&RecordBatch, u64),
        runs: &[Run],
        firsts: &mut [Option<First>],
    ) -> Result<(), RNTupleError> {
        let theirs = hull(runs);
        let parts = columns.part(input, 1, &theirs);
        if runs.len() > 1 && decoded_bytes(&columns.schema, &parts)? > UNORDERED_STEP {
            let (first, second) = runs.split_at(runs.len() / 2);
            self.against(input, columns, (found, start), first, firsts)?;
            return self.against(input, columns, (found, start), second, firsts);
        }
        self.progress(start)?;
        let expected = self.read(columns, 1, &parts)?;
        let mut runs = runs.to_vec();
        runs.sort_by_key(|run| run.output);
        let outputs = runs.iter().map(|run| run.output..run.output_end());
        let found = rows(found, start, outputs)?;
        let inputs = runs.iter().map(|run| run.entries.clone());
        let expected = rows(&expected, theirs.start, inputs)?;
        let place = |row| place_of(&runs, row);
        self.note((&columns.names, &found, &expected), &place, firsts);
        Ok(())
    }

    fn progress(&self, entry: u64) -> Result<(), RNTupleError> {
        match self.tick {
            Some(tick) if !tick(entry, self.report.n_entries) => Err(RNTupleError::Interrupted),
            _ => Ok(()),
        }
    }

    fn read(
        &self,
        columns: &Columns,
        which: usize,
        parts: &[Part],
    ) -> Result<RecordBatch, RNTupleError> {
        let options = ReadOptions {
            threads: self.threads,
            cache: columns.caches.get(which),
            ..ReadOptions::default()
        };
        let arrays = read(&columns.schema, parts, &options)?;
        arrays.to_arrow().map_err(RNTupleError::internal)
    }

    /// Compares rows, which are pairs of an output entry and an input entry. For each column, the difference with the
    /// lowest output entry is kept.
    fn note(
        &self,
        (names, found, expected): (&[String], &RecordBatch, &RecordBatch),
        place: &dyn Fn(u64) -> (u64, Option<u64>),
        firsts: &mut [Option<First>],
    ) {
        let columns = found.columns().iter().zip(expected.columns());
        for (((found, expected), name), known) in columns.zip(names).zip(firsts) {
            if self.is_done(name) {
                continue;
            }
            let Some(unequal) = compare(found, expected) else {
                continue;
            };
            let (entry, input_entry) = place(unequal.at as u64);
            if known.as_ref().is_none_or(|first| entry < first.entry) {
                *known = Some(First {
                    entry,
                    input_entry,
                    unequal,
                });
            }
        }
    }

    /// Reports the first difference of each field.
    fn tell(&mut self, columns: &Columns, firsts: Vec<Option<First>>) {
        let paths = columns.schema.columns.iter().map(|(path, _)| path);
        for ((name, path), first) in columns.names.iter().zip(paths).zip(firsts) {
            let Some(first) = first.filter(|_| !self.is_done(name)) else {
                continue;
            };
            self.report.differences.push(Difference {
                field: format!("{path}{}", first.unequal.item),
                entry: Some(first.entry),
                input: self.name.to_owned(),
                input_entry: first.input_entry,
                found: first.unequal.found,
                expected: first.unequal.expected,
            });
        }
    }
}

/// The rows of runs of entries in a batch that begins at entry `start`.
fn rows(
    batch: &RecordBatch,
    start: u64,
    ranges: impl Iterator<Item = Range<u64>>,
) -> Result<RecordBatch, RNTupleError> {
    let rows: UInt64Array = ranges
        .flat_map(|range| range.start - start..range.end - start)
        .collect::<Vec<_>>()
        .into();
    let mut pairs = rows.values().iter().zip(0..);
    match rows.len() == batch.num_rows() && pairs.all(|(&row, at)| row == at) {
        true => Ok(batch.clone()),
        false => take_record_batch(batch, &rows).map_err(RNTupleError::internal),
    }
}

/// The output and input entries of a row in these runs.
fn place_of(runs: &[Run], mut row: u64) -> (u64, Option<u64>) {
    for run in runs {
        match row.checked_sub(run.n_entries()) {
            Some(rest) => row = rest,
            None => return (run.output + row, Some(run.entries.start + row)),
        }
    }
    (0, None)
}

/// Whether a path is a field or a part of it.
pub(crate) fn is_part_of(path: &str, name: &str) -> bool {
    let rest = path.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The range from the first to the last input entry of runs.
fn hull(runs: &[Run]) -> Range<u64> {
    let first = runs.iter().map(|run| run.entries.start).min();
    let last = runs.iter().map(|run| run.entries.end).max();
    first.unwrap_or(0)..last.unwrap_or(0)
}

/// The parts of runs within entries of the output.
fn clipped(runs: &[Run], entries: &Range<u64>) -> Vec<Run> {
    let clip = |run: &Run| {
        let output = run.output.max(entries.start);
        let first = run.entries.start + (output - run.output);
        let n = run.output_end().min(entries.end) - output;
        Run {
            entries: first..first + n,
            output,
        }
    };
    runs.iter().map(clip).collect()
}

/// Merges consecutive tasks with the same fields; drops tasks without fields.
fn joined(tasks: Vec<Task>) -> Vec<Task> {
    let mut out: Vec<Task> = Vec::new();
    for task in tasks.into_iter().filter(|task| !task.fields.is_empty()) {
        match out.last_mut() {
            Some(last) if last.entries.end == task.entries.start && last.fields == task.fields => {
                last.entries.end = task.entries.end;
            }
            _ => out.push(task),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_its_field_and_to_no_other() {
        for path in ["Muon", "Muon.pt", "Muon[2].pt", "Muon[0]"] {
            assert!(is_part_of(path, "Muon"), "{path}");
        }
        for path in ["Muon_pt", "Muo", "nMuon"] {
            assert!(!is_part_of(path, "Muon"), "{path}");
        }
    }

    #[test]
    fn clusters_with_the_same_fields_are_read_together() {
        let task = |entries, fields: &[usize]| Task {
            entries,
            fields: fields.to_vec(),
        };
        let tasks = vec![
            task(0..10, &[1]),
            task(10..20, &[1]),
            task(20..30, &[]),
            task(30..40, &[1]),
            task(40..50, &[0, 1]),
        ];
        let expected = [task(0..20, &[1]), task(30..40, &[1]), task(40..50, &[0, 1])];
        assert_eq!(joined(tasks), expected);
    }

    #[test]
    fn the_entries_of_an_input_span_those_that_are_not_taken() {
        let run = |entries: Range<u64>, output| Run { entries, output };
        let runs = [run(5..8, 100), run(20..21, 103), run(30..40, 104)];
        assert_eq!(
            clipped(&runs, &(101..106)),
            [run(6..8, 101), run(20..21, 103), run(30..32, 104)]
        );
        assert_eq!(hull(&clipped(&runs, &(101..106))), 6..32);
        assert_eq!(hull(&runs[1..2]), 20..21);
        assert_eq!(hull(&[]), 0..0);
        // another order than in the output
        assert_eq!(hull(&[run(30..31, 0), run(2..4, 1), run(9..10, 3)]), 2..31);
    }
}
