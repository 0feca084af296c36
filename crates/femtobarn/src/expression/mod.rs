//! Conditions on entries as strings, such as `nMuon >= 2 && any(Muon_pt > 20)`.
//!
//! [`Expression::parse`] builds a tree from a string, [`Expression::columns`] lists its columns, and
//! [`Expression::evaluate`] returns one boolean per entry of a record batch, [`Expression::numbers`] all its numbers. The batch determines the types: type
//! errors are found with the first batch, or from a schema with [`Expression::check`]. docs/guides/expressions.md
//! describes the language.
//!
//! Every step works on whole columns: a list's elements are one column with offsets, and a constant is one element.

mod aliases;
mod arithmetic;
mod call;
mod column;
mod compare;
mod evaluate;
mod excerpt;
mod function;
mod index;
mod lex;
mod load;
mod operand;
mod parse;
mod reduce;
mod shape;
#[cfg(test)]
mod tests;
mod tree;
mod values;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::Arrays;

pub use aliases::Aliases;

use crate::lumi_mask::{OpenMask, no_files, open_mask};
use evaluate::EntryOf;
use tree::{Kind, Node};

/// A condition on entries, or values that are computed for each entry.
#[derive(Debug, Clone)]
pub struct Expression {
    text: String,
    tree: Node,
    columns: Vec<String>,
    aliases: Arc<Aliases>,
}

impl Expression {
    /// Parses a string. An error contains the position and the expected syntax. Golden JSON files that it names are read.
    pub fn parse(text: &str) -> Result<Self, RNTupleError> {
        Self::parse_with(text, &Arc::default(), &open_mask)
    }

    /// Parses a string in which names may stand for other expressions; `masks` reads golden JSON files.
    pub fn parse_with(
        text: &str,
        aliases: &Arc<Aliases>,
        masks: OpenMask<'_>,
    ) -> Result<Self, RNTupleError> {
        let parsed = parse::parse(text, masks).and_then(|tree| {
            aliases.check_depth(&tree)?;
            Ok(tree)
        });
        let tree = parsed.map_err(|problem| problem.in_text(text))?;
        Ok(Self {
            columns: aliases.columns(&tree),
            text: text.to_owned(),
            tree,
            aliases: aliases.clone(),
        })
    }

    /// Parses a string that must not name files.
    #[doc(hidden)]
    pub fn parse_alone(text: &str) -> Result<Self, RNTupleError> {
        Self::parse_with(text, &Arc::default(), &no_files)
    }

    /// The column that it is, if it is only the name of a column.
    pub fn column(&self) -> Option<&str> {
        match &self.tree.kind {
            Kind::Column(name) => self.aliases.renamed(name),
            _ => None,
        }
    }

    /// The columns that it reads, in the order of their first use. Members are dotted paths.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The string.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Checks that it can be evaluated on batches of this schema; errors are those of [`Expression::evaluate`].
    pub fn check(&self, schema: SchemaRef) -> Result<(), RNTupleError> {
        self.evaluate(&RecordBatch::new_empty(schema), 0).map(drop)
    }

    /// Evaluates a batch: whether each entry is selected. `first_entry` is the entry number of the first row, for
    /// messages.
    ///
    /// A column `a.b` is the batch's column with this name, or the member `b` of its column `a`, which may also be a
    /// list of records. The result has no missing values.
    pub fn evaluate(
        &self,
        batch: &RecordBatch,
        first_entry: u64,
    ) -> Result<BooleanArray, RNTupleError> {
        let entry = |row: usize| first_entry.saturating_add(row as u64);
        let of = (batch, &entry as EntryOf<'_>);
        evaluate::evaluate(&self.tree, &self.text, &self.aliases, of)
            .map_err(|problem| problem.in_text(&self.text))
    }

    /// Computes its values for the entries of a batch, and adds them to the arrays of these entries: as a column with a
    /// name, before the column with the index `at`. `entry` is the number of the entry in a row, for messages.
    pub(crate) fn insert_into(
        &self,
        arrays: &mut Arrays,
        (at, name): (usize, &str),
        (batch, entry): (&RecordBatch, EntryOf<'_>),
    ) -> Result<(), RNTupleError> {
        let values = evaluate::values(&self.tree, &self.text, &self.aliases, (batch, entry));
        let inserted = values.and_then(|values| {
            values::insert(arrays, (at, name), values)
                .map_err(|what| Problem::new(&self.tree.span, what))
        });
        inserted.map_err(|problem| problem.in_text(&self.text))
    }

    /// Evaluates a batch to numbers: those of all entries, one after another. An expression may have one number per entry or
    /// lists of numbers; conditions are 0 and 1. Missing values are left out.
    ///
    /// # Errors
    /// If it is not about numbers, and errors of [`Expression::evaluate`].
    pub fn numbers(&self, batch: &RecordBatch, first_entry: u64) -> Result<Vec<f64>, RNTupleError> {
        let entry = |row: usize| first_entry.saturating_add(row as u64);
        evaluate::numbers(&self.tree, &self.text, &self.aliases, (batch, &entry))
            .map_err(|problem| problem.in_text(&self.text))
    }
}

/// An error in a part of an expression.
#[derive(Debug)]
struct Problem {
    span: Range<usize>,
    what: String,
}

impl Problem {
    fn new(span: &Range<usize>, what: impl Into<String>) -> Self {
        Self {
            span: span.clone(),
            what: what.into(),
        }
    }

    fn in_text(self, text: &str) -> RNTupleError {
        RNTupleError::Usage {
            what: self.message(text),
        }
    }

    fn message(&self, text: &str) -> String {
        let before = text.get(..self.span.start).unwrap_or(text);
        format!(
            "expression {:?}, character {}: {}",
            excerpt::around(text, &self.span),
            before.chars().count() + 1,
            self.what
        )
    }
}
