//! The proof that a file contains the entries of its inputs, one after another. Equal pages are compared by checksum,
//! all other data by value.
//!
//! Pages are equal if they have the same column and index, and their numbers of elements, stored sizes and XXH3
//! checksums match. Whether the output's pages match their checksums is checked by `verify`; only checksums are read
//! from the inputs. All other values are compared bit by bit, some entries at a time.

mod clusters;
mod compare;
mod fields;
mod joined;
mod report;
mod runs;
mod values;

use std::collections::HashSet;
use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{Reader, Tick};
use femtobarn_rntuple::schema::FieldId;
use femtobarn_rootfile::without_cycle;

pub(crate) use compare::{Unequal, compare};
pub use report::{Difference, NTupleProof, ProofReport};
pub(crate) use values::is_part_of;

use clusters::{Cluster, Pages, clusters, compare_pages};
use fields::{Counterpart, FieldPair, by_name_in, counterpart};
use runs::{Run, runs};
use values::{Comparer, Missing, Task};

use crate::inputs::{
    Chooser, Entries, Input, JoinOptions, Opened, Scope, check_inputs, counted, no_field, wanted,
};
use crate::objects::{self, RNTUPLE_CLASS};
use crate::pattern::{Patterns, matches};
use crate::writable::{file_id, local};

/// Options of a proof.
#[derive(Debug, Clone)]
pub struct ProofOptions {
    /// Compare all values, including those of equal pages.
    pub values: bool,
    /// The selected entries of each input.
    pub entries: Entries,
    /// The first entry of the output that comes from the inputs; entries before it were there before an append.
    pub since: u64,
    /// Names or patterns of the compared top-level fields of the output; all if empty.
    pub fields: Vec<String>,
    /// The inputs are joined side by side with these options, not concatenated.
    pub join: Option<JoinOptions>,
    /// Number of threads.
    pub threads: usize,
}

impl Default for ProofOptions {
    fn default() -> Self {
        Self {
            values: false,
            entries: Entries::default(),
            since: 0,
            fields: Vec::new(),
            join: None,
            threads: 1,
        }
    }
}

/// Compares the ntuples of a file, or the named one, with those of its inputs: entries in the order of the inputs, or
/// with `join` side by side; only fields that the output has. Inputs have the ntuple at the same path, or are given
/// with a name. The checksums of the output are not verified: use `verify`.
///
/// # Errors
/// If a file cannot be opened, or its metadata cannot be read. Differences and unreadable data are in the report.
pub fn prove(
    output: &Input,
    inputs: &[Input],
    options: &ProofOptions,
    tick: Option<Tick<'_>>,
) -> Result<ProofReport, RNTupleError> {
    if inputs.is_empty() {
        let what = "no inputs to compare with".to_owned();
        return Err(RNTupleError::Usage { what });
    }
    check_inputs(inputs)?;
    if is_among(output, inputs) {
        let what = format!(
            "{} is one of its own inputs: give the files that it was made from",
            output.shown()
        );
        return Err(RNTupleError::Usage { what });
    }
    let finder = |(_, input): (usize, &Input), path: &str| find_meant(output, input, path);
    let mut report = prove_found(output, inputs, &finder, options, tick)?;
    if options.join.is_none() {
        let lacking = lacking(output, inputs, &options.fields, &report)?;
        report.ntuples.extend(lacking);
    }
    Ok(report)
}

/// Whether an ntuple would be compared with itself.
fn is_among(output: &Input, inputs: &[Input]) -> bool {
    let Some(own) = file_id(&local(&output.url)) else {
        return false;
    };
    // another ntuple of the same file may be its input
    let may_be = |input: &Input| {
        let names = input.path.as_ref().zip(output.path.as_ref());
        names.is_none_or(|(input, output)| plain(input) == plain(output))
    };
    let is_same = |input: &&Input| file_id(&local(&input.url)) == Some(own);
    inputs.iter().filter(is_same).any(may_be)
}

/// Opens the counterpart of an output ntuple in the input with an index.
pub(crate) type Finder<'f> =
    &'f dyn Fn((usize, &Input), &str) -> Result<Option<Arc<Reader>>, RNTupleError>;

/// Opens an ntuple of an input, if it belongs to the output's ntuple: if the input is named, the output must be named,
/// too, or have the same path.
pub(crate) fn find_meant(
    output: &Input,
    input: &Input,
    path: &str,
) -> Result<Option<Arc<Reader>>, RNTupleError> {
    let is_meant =
        output.path.is_some() || input.path.as_deref().is_none_or(|own| plain(own) == path);
    match is_meant {
        true => find(input, input.path.as_deref().unwrap_or(path)),
        false => Ok(None),
    }
}

/// Compares the given ntuples of the output; other ntuples of the inputs are ignored.
pub(crate) fn prove_found(
    output: &Input,
    inputs: &[Input],
    finder: Finder<'_>,
    options: &ProofOptions,
    tick: Option<Tick<'_>>,
) -> Result<ProofReport, RNTupleError> {
    if let Some(join) = &options.join {
        return joined::prove(output, inputs, join, options, tick);
    }
    let mut report = ProofReport::default();
    let ntuples = open(output)?;
    check_fields(output, &ntuples, &options.fields)?;
    check_since(&ntuples, options.since)?;
    let mut scope = Scope::new(&options.entries);
    for (path, reader) in ntuples {
        let mut job = Job::new(&path, reader, options)?;
        for numbered in inputs.iter().enumerate() {
            if let Some(reader) = finder(numbered, &path)? {
                let is_named = numbered.1.path.is_some();
                let entries = scope.add(&reader, &path, is_named)?;
                job.add(&reader, entries, tick)?;
            }
        }
        report.ntuples.push(job.finish());
    }
    scope.check()?;
    Ok(report)
}

/// Checks that a first entry is given for a single ntuple, and lies within it.
fn check_since(ntuples: &[(String, Arc<Reader>)], since: u64) -> Result<(), RNTupleError> {
    let what = match ntuples {
        _ if since == 0 => return Ok(()),
        [(_, reader)] if since <= reader.n_entries() => return Ok(()),
        [(path, reader)] => format!(
            "{}:{path} has {}, so the inputs cannot begin at entry {since}",
            reader.url(),
            counted(reader.n_entries())
        ),
        _ => format!(
            "since (--since) is the first entry of one ntuple, but there are {}: name one (FILE:NAME)",
            ntuples.len()
        ),
    };
    Err(RNTupleError::Usage { what })
}

/// Checks that every given name is a field.
fn check_fields(
    output: &Input,
    ntuples: &[(String, Arc<Reader>)],
    fields: &[String],
) -> Result<(), RNTupleError> {
    for pattern in fields {
        let mut names = ntuples
            .iter()
            .flat_map(|(_, reader)| reader.descriptor().field_names());
        if !names.any(|name| matches(pattern, name)) {
            return Err(no_field(std::slice::from_ref(output), pattern));
        }
    }
    Ok(())
}

/// The ntuples of inputs that are missing in the output, if the whole output is compared: only those with a selected
/// field.
fn lacking(
    output: &Input,
    inputs: &[Input],
    fields: &[String],
    found: &ProofReport,
) -> Result<Vec<NTupleProof>, RNTupleError> {
    let mut out: Vec<NTupleProof> = Vec::new();
    if output.path.is_some() {
        return Ok(out);
    }
    let fields = Patterns::new(fields.iter().map(String::as_str));
    let found = found.ntuples.iter().map(|proof| proof.ntuple.clone());
    let mut known: HashSet<String> = found.collect();
    for input in inputs {
        let opened = Opened::new(input)?;
        for (path, key) in wanted(&opened.file, input.path.as_deref())? {
            if key.class_name != RNTUPLE_CLASS || known.contains(&path) {
                continue;
            }
            let reader = opened.reader(&path, &key)?;
            let mut names = reader.descriptor().field_names();
            if names.any(|name| fields.takes(name)) {
                out.push(NTupleProof::lacking(path.clone(), &input.shown()));
                known.insert(path);
            }
        }
    }
    Ok(out)
}

/// A path without cycle.
fn plain(path: &str) -> &str {
    without_cycle(path).trim_matches('/')
}

/// The ntuples of a file by their paths.
fn open(output: &Input) -> Result<Vec<(String, Arc<Reader>)>, RNTupleError> {
    let opened = Opened::new(output)?;
    let mut out = Vec::new();
    for (path, key) in wanted(&opened.file, output.path.as_deref())? {
        if key.class_name == RNTUPLE_CLASS {
            let reader = opened.reader(&path, &key)?;
            out.push((path, Arc::new(reader)));
        }
    }
    if out.is_empty() {
        return Err(RNTupleError::Usage {
            what: format!(
                "{} has no RNTuple to compare with the inputs",
                output.shown()
            ),
        });
    }
    Ok(out)
}

/// An ntuple of an input; only an unnamed one may be missing.
fn find(input: &Input, path: &str) -> Result<Option<Arc<Reader>>, RNTupleError> {
    let opened = Opened::new(input)?;
    let key = match objects::find(&opened.file, path) {
        Ok(key) => key,
        Err(_) if input.path.is_none() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if key.class_name != RNTUPLE_CLASS {
        return Err(RNTupleError::Usage {
            what: format!(
                "{}:{path} is a {}, but only RNTuples can be compared with RNTuples (fb convert verifies its own \
                 output)",
                input.shown(),
                key.class_name
            ),
        });
    }
    let reader = opened.reader(plain(path), &key)?;
    Ok(Some(Arc::new(reader)))
}

/// The state of the comparison of an ntuple.
struct Job<'o> {
    output: Arc<Reader>,
    clusters: Vec<Cluster>,
    options: &'o ProofOptions,
    /// The selection to compare.
    wanted: Patterns<'o>,
    /// The next entry of the output to compare with an input.
    at: u64,
    report: NTupleProof,
}

impl<'o> Job<'o> {
    fn new(
        path: &str,
        output: Arc<Reader>,
        options: &'o ProofOptions,
    ) -> Result<Self, RNTupleError> {
        let wanted = Patterns::new(options.fields.iter().map(String::as_str));
        let skipped = output.descriptor().skipped.iter();
        let skipped = skipped.filter(|field| wanted.takes(&field.name));
        let skipped = skipped.map(|field| (field.name.clone(), field.reason.clone()));
        let skipped: Vec<_> = skipped.collect();
        Ok(Self {
            clusters: clusters(&output)?,
            options,
            wanted,
            at: options.since,
            report: NTupleProof {
                ntuple: path.to_owned(),
                n_entries: output.n_entries(),
                not_compared: skipped,
                ..NTupleProof::default()
            },
            output,
        })
    }

    /// Compares the entries of the next input.
    fn add(
        &mut self,
        input: &Arc<Reader>,
        entries: &Entries,
        tick: Option<Tick<'_>>,
    ) -> Result<(), RNTupleError> {
        let name = format!("{}:{}", input.url(), input.path());
        let theirs = clusters(input)?;
        let chooser = Chooser::new(entries, input, self.options.threads)?;
        let runs = runs(input, &theirs, chooser.as_ref(), self.at, tick)?;
        let (fields, missing) = self.pair(input, &name);
        let first = self.at;
        self.at += runs.iter().map(Run::n_entries).sum::<u64>();
        self.report.inputs.push((name.clone(), self.at - first));
        self.compare(input, (&theirs, &runs), (&fields, &missing), first, tick)
    }

    /// Compares the entries of the output with runs of an input's entries, from the input's first entry on. Missing
    /// entries of the output are reported at the end.
    fn compare(
        &mut self,
        input: &Arc<Reader>,
        (theirs, runs): (&[Cluster], &[Run]),
        (fields, missing): (&[FieldPair], &[Missing]),
        first: u64,
        tick: Option<Tick<'_>>,
    ) -> Result<(), RNTupleError> {
        let entries = first..self.at.min(self.output.n_entries());
        let name = format!("{}:{}", input.url(), input.path());
        let mut comparer = Comparer {
            readers: (&self.output, input),
            name: &name,
            runs,
            fields,
            missing,
            threads: self.options.threads,
            tick,
            report: &mut self.report,
        };
        let tasks = tasks(&self.clusters, theirs, entries, self.options, &mut comparer)?;
        comparer.compare(tasks)
    }

    /// The paired fields of an input, and the fields that it lacks. Fields with a known difference are skipped.
    fn pair(&mut self, input: &Reader, name: &str) -> (Vec<FieldPair>, Vec<Missing>) {
        let (mut fields, mut missing) = (Vec::new(), Vec::new());
        let (descriptor, theirs) = (self.output.descriptor(), input.descriptor());
        let known = by_name_in(descriptor, theirs);
        for &id in &descriptor.top_level {
            let field = descriptor.field_name(id).to_owned();
            if !self.wanted.takes(&field) {
                continue;
            }
            let found = counterpart(&self.output, id, input, &known);
            match found {
                Counterpart::Missing | Counterpart::MissingMember => {
                    self.report.missing.push((field, name.to_owned()));
                    let has_items = matches!(found, Counterpart::MissingMember);
                    missing.push(Missing { id, has_items });
                }
                // it has the values of its source, which is compared
                Counterpart::Projected(shown) => {
                    let shown = shown.into_iter().find(|name| !self.wanted.takes(name));
                    if let Some(shown) = shown {
                        let reason = format!(
                            "it is projected from {shown:?}, its only counterpart in {name}: compare that field, too"
                        );
                        self.report.not_compared.push((field, reason));
                    }
                }
                Counterpart::Found(pair) => {
                    let members = pair.left_out.iter();
                    let members = members.map(|member| (member.clone(), name.to_owned()));
                    self.report.left_out.extend(members);
                    fields.push(pair);
                }
                Counterpart::Other(found, expected) => {
                    let difference = Difference::of(&field, name, found, expected);
                    self.report.differences.push(difference);
                }
            }
        }
        // members of numbered collections are compared by value as the fields projected from them
        let source = |id: FieldId| {
            descriptor
                .field(id)
                .and_then(|field| field.record.source_id)
        };
        let read = fields.iter().flat_map(|pair| &pair.read);
        let items = read.filter_map(|&(id, _)| descriptor.field(id));
        let items = items.flat_map(|field| &field.children);
        let shown: HashSet<FieldId> = items.filter_map(|&item| source(item)).collect();
        for pair in &mut fields {
            pair.read.retain(|(own, _)| !shown.contains(own));
        }
        let own = descriptor.fields.iter();
        let own = own.filter(|field| field.parent.is_none());
        let paired = own.filter_map(|field| known.get(field.record.name.as_str()));
        let paired: HashSet<FieldId> = paired.copied().collect();
        let others = theirs.top_level.iter().filter(|id| !paired.contains(id));
        let others = others.map(|&id| theirs.field_name(id));
        let left_out = others.filter(|other| self.wanted.takes(other));
        let left_out = left_out.map(|other| (other.to_owned(), name.to_owned()));
        self.report.left_out.extend(left_out);
        (fields, missing)
    }

    fn finish(mut self) -> NTupleProof {
        let since = self.options.since;
        self.report.n_expected = self.at - since;
        if self.report.n_entries != self.at {
            let found = self.report.n_entries.saturating_sub(since).to_string();
            let expected = self.report.n_expected.to_string();
            let difference = Difference::of("", "", found, expected);
            self.report.differences.push(difference);
        }
        self.report
    }
}

/// The tasks for comparing the remaining fields by value, in the order of the entries.
fn tasks(
    ours: &[Cluster],
    theirs: &[Cluster],
    entries: std::ops::Range<u64>,
    options: &ProofOptions,
    comparer: &mut Comparer<'_>,
) -> Result<Vec<Task>, RNTupleError> {
    let n_fields = comparer.fields.len();
    let mut tasks = Vec::new();
    let mut pairs = Vec::new();
    for cluster in ours {
        let common = cluster.entries();
        let common = common.start.max(entries.start)..common.end.min(entries.end);
        if common.is_empty() {
            continue;
        }
        let is_whole = common == cluster.entries() && !options.values;
        let other = comparer.place(&common).filter(|_| is_whole);
        let other = other.and_then(|place| {
            let first = |other: &Cluster| other.summary.first_entry;
            let at = theirs.binary_search_by_key(&place.start, first).ok()?;
            theirs.get(at).filter(|other| other.entries() == place)
        });
        if let Some(other) = other {
            pairs.push((tasks.len(), (cluster, other)));
        }
        tasks.push(Task {
            entries: common,
            fields: (0..n_fields).collect(),
        });
    }
    let (places, pairs): (Vec<usize>, Vec<_>) = pairs.into_iter().unzip();
    let found = compare_pages(comparer.pair(), comparer.fields, pairs, options.threads)?;
    for (at, verdicts) in places.into_iter().zip(found) {
        let Some(task) = tasks.get_mut(at) else {
            continue;
        };
        let mut others = verdicts.iter();
        task.fields
            .retain(|_| matches!(others.next(), Some(Pages::Other)));
        for verdict in &verdicts {
            if let Pages::Equal(n_pages, n_bytes) = verdict {
                comparer.report.pages_equal += n_pages;
                comparer.report.bytes_equal += n_bytes;
            }
        }
    }
    Ok(tasks)
}
