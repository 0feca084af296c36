//! The selection of entries of an ntuple.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::Arrays;
use femtobarn_rntuple::read::{ReadOptions, Reader};

use crate::expression::Expression;
use crate::ntuple::{NTuple, Selection};

/// The selection of entries.
#[derive(Debug, Clone, Default)]
pub enum Entries {
    /// All.
    #[default]
    All,
    /// A slice of each ntuple, with Python's rules: negative numbers count from the end, and entries beyond the end are
    /// ignored.
    Slice {
        /// The first entry; `None` for the beginning.
        start: Option<i64>,
        /// The exclusive end; `None` for the end of the ntuple.
        stop: Option<i64>,
    },
    /// Entries that fulfil a condition.
    Where(Expression),
}

impl Entries {
    /// Whether entries are selected by a condition.
    pub(crate) fn is_condition(&self) -> bool {
        matches!(self, Self::Where(_))
    }

    /// The entries of a slice of so many.
    pub(crate) fn range(&self, n_entries: u64) -> Range<u64> {
        let (start, stop) = match *self {
            Self::Slice { start, stop } => (start, stop),
            Self::All | Self::Where(_) => (None, None),
        };
        let start = start.map_or(0, |start| place(start, n_entries));
        let stop = stop.map_or(n_entries, |stop| place(stop, n_entries));
        start..stop.max(start)
    }

    /// Whether all entries are taken.
    pub(crate) fn are_all(&self) -> bool {
        matches!(self, Self::All)
    }
}

/// From which ntuples entries are selected. A condition on whole files selects from ntuples with all its columns; the
/// others are taken as a whole. The first file with an ntuple decides.
pub(crate) struct Scope<'e> {
    entries: &'e Entries,
    /// By path; for ntuples that are taken as a whole, how near they are to the condition, and the error of the column
    /// that they lack.
    known: BTreeMap<String, Option<(Rank, RNTupleError)>>,
}

/// How near an ntuple is to a condition: how many columns it has, whether a similar name is known, and the number of its
/// entries.
type Rank = (usize, bool, u64);

impl<'e> Scope<'e> {
    pub fn new(entries: &'e Entries) -> Self {
        Self {
            entries,
            known: BTreeMap::new(),
        }
    }

    /// The selection of entries of an ntuple with a path, which may be of a file that is given as a whole.
    ///
    /// # Errors
    /// If an ntuple that is named, or is selected from in another file, lacks a column.
    pub fn add(
        &mut self,
        reader: &Arc<Reader>,
        path: &str,
        is_named: bool,
    ) -> Result<&'e Entries, RNTupleError> {
        let Entries::Where(expression) = self.entries else {
            return Ok(self.entries);
        };
        let ntuple = NTuple::of(vec![reader.clone()]);
        let lacking = match columns_of(expression, &ntuple) {
            Err(error @ RNTupleError::NoSuchField { .. }) => Some(error),
            found => found.map(|_| None)?,
        };
        match (lacking, self.known.get_mut(path)) {
            (None, Some(whole)) => match whole.take() {
                Some((_, error)) => {
                    let why = format!("{} has all columns of the condition", reader.url());
                    Err(hinted(error, &why))
                }
                None => Ok(self.entries),
            },
            (None, None) => {
                self.known.insert(path.to_owned(), None);
                Ok(self.entries)
            }
            (Some(error), _) if is_named => Err(error),
            (Some(_), Some(Some(_))) => Ok(&Entries::All),
            (Some(error), Some(None)) => {
                let why = "the condition selects from it in other files";
                Err(hinted(error, why))
            }
            (Some(error), None) => {
                let is_similar =
                    matches!(&error, RNTupleError::NoSuchField { hint, .. } if !hint.is_empty());
                let has = |column: &&String| {
                    let column = numbered(column, reader);
                    ntuple.select(Some(&[column])).is_ok()
                };
                let n_columns = expression.columns().iter().filter(has).count();
                let rank = (n_columns, is_similar, reader.n_entries());
                self.known.insert(path.to_owned(), Some((rank, error)));
                Ok(&Entries::All)
            }
        }
    }

    /// The selection of entries of an ntuple that was added.
    pub fn of(&self, path: &str) -> &'e Entries {
        match self.is_whole(path) {
            true => &Entries::All,
            false => self.entries,
        }
    }

    /// Whether an ntuple is taken as a whole since it lacks columns of the condition.
    pub fn is_whole(&self, path: &str) -> bool {
        matches!(self.known.get(path), Some(Some(_)))
    }

    /// Checks that the condition selects from an ntuple, after all were added.
    ///
    /// # Errors
    /// If none has its columns: that of the nearest one.
    pub fn check(&mut self) -> Result<(), RNTupleError> {
        if self.known.values().any(Option::is_none) {
            return Ok(());
        }
        let n = self.known.len();
        let known = std::mem::take(&mut self.known).into_values().flatten();
        match known.max_by_key(|(rank, _)| *rank) {
            None => Ok(()),
            Some((_, error)) if n == 1 => Err(error),
            Some((_, error)) => {
                let why = "no other ntuple has all columns of the condition";
                Err(hinted(error, why))
            }
        }
    }
}

/// An error of a missing field with a further hint.
pub(crate) fn hinted(error: RNTupleError, more: &str) -> RNTupleError {
    match error {
        RNTupleError::NoSuchField {
            url,
            ntuple,
            name,
            hint,
        } => RNTupleError::NoSuchField {
            hint: format!("{hint}; {more}"),
            url,
            ntuple,
            name,
        },
        other => other,
    }
}

/// The entry with a number, counted from the end if it is negative.
fn place(number: i64, n_entries: u64) -> u64 {
    match u64::try_from(number) {
        Ok(number) => number.min(n_entries),
        Err(_) => n_entries.saturating_sub(number.unsigned_abs()),
    }
}

/// Selects entries of an ntuple.
pub(crate) enum Chooser<'e> {
    Range(Range<u64>),
    Where {
        expression: &'e Expression,
        ntuple: Box<NTuple>,
        selection: Box<Selection>,
        threads: usize,
    },
}

impl<'e> Chooser<'e> {
    /// The chooser for an ntuple; `None` if all entries are selected.
    ///
    /// # Errors
    /// If the ntuple does not have the entries or columns, or the selection is invalid.
    pub fn new(
        entries: &'e Entries,
        reader: &Arc<Reader>,
        threads: usize,
    ) -> Result<Option<Self>, RNTupleError> {
        match entries {
            Entries::All => Ok(None),
            Entries::Slice { .. } => Ok(Some(Self::Range(entries.range(reader.n_entries())))),
            Entries::Where(expression) => {
                let ntuple = Box::new(NTuple::of(vec![reader.clone()]));
                let selection = Box::new(columns_of(expression, &ntuple)?);
                expression.check(Arc::new(selection.arrow_schema()))?;
                Ok(Some(Self::Where {
                    expression,
                    ntuple,
                    selection,
                    threads,
                }))
            }
        }
    }

    /// The selected entries of a range, in order.
    pub fn choose(&self, range: Range<u64>) -> Result<Vec<Range<u64>>, RNTupleError> {
        match self {
            Self::Range(wanted) => {
                let common = range.start.max(wanted.start)..range.end.min(wanted.end);
                Ok(if common.is_empty() {
                    Vec::new()
                } else {
                    vec![common]
                })
            }
            Self::Where {
                expression,
                ntuple,
                selection,
                threads,
            } => {
                let options = ReadOptions {
                    threads: *threads,
                    ..ReadOptions::default()
                };
                let arrays = ntuple.read(selection, range.clone(), &options)?;
                fulfilling(expression, ntuple, &arrays, range.start)
            }
        }
    }
}

/// The columns of an expression.
pub(crate) fn columns_of(
    expression: &Expression,
    ntuple: &NTuple,
) -> Result<Selection, RNTupleError> {
    ntuple.select(Some(&paths_of(expression, ntuple)))
}

/// The paths of the columns of an expression.
pub(crate) fn paths_of(expression: &Expression, ntuple: &NTuple) -> Vec<String> {
    let columns = expression.columns().iter();
    let paths = columns.map(|column| match ntuple.readers().first() {
        Some(reader) => numbered(column, reader),
        None => column.clone(),
    });
    paths.collect()
}

/// The entries that fulfil an expression. `arrays` has its columns, and begins with the entry `first`.
pub(crate) fn fulfilling(
    expression: &Expression,
    ntuple: &NTuple,
    arrays: &Arrays,
    first: u64,
) -> Result<Vec<Range<u64>>, RNTupleError> {
    let batch = ntuple.to_arrow(arrays)?;
    let chosen = expression.evaluate(&batch, first)?;
    let runs = chosen.values().set_slices();
    let entry = |at: usize| first + at as u64;
    Ok(runs.map(|(start, end)| entry(start)..entry(end)).collect())
}

/// The path of a column with numbers for members of pairs, which are `first` and `second` in C++ and in trees.
pub(crate) fn numbered(column: &str, reader: &Reader) -> String {
    let is_known = |path: &str| reader.find_field(path).is_some();
    if is_known(column) {
        return column.to_owned();
    }
    let mut path = String::new();
    for name in column.split('.') {
        let below = |member: &str| match path.as_str() {
            "" => member.to_owned(),
            above => format!("{above}.{member}"),
        };
        let pair = ["0", "1"].map(below);
        let is_pair = || pair.iter().all(|it| is_known(it)) && !is_known(&below("2"));
        let [first, second] = &pair;
        path = match name {
            "first" if !is_known(&below(name)) && is_pair() => first.clone(),
            "second" if !is_known(&below(name)) && is_pair() => second.clone(),
            _ => below(name),
        };
    }
    match is_known(&path) {
        true => path,
        false => column.to_owned(),
    }
}

/// Merges adjacent ranges.
pub(crate) fn joined(ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut out: Vec<Range<u64>> = Vec::new();
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match out.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => out.push(range),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_from_both_ends_and_stop_there() {
        let found = [0, 3, 10, 11, i64::MAX, -1, -10, -11, i64::MIN].map(|n| place(n, 10));
        assert_eq!(found, [0, 3, 10, 10, 10, 9, 0, 0, 0]);
        assert_eq!([0, -1, 1].map(|n| place(n, 0)), [0, 0, 0]);
    }
}
