//! Conditions on entries as strings, such as `nMuon >= 2 && any(Muon_pt > 20)`.
//!
//! [`Expression::parse`] builds a tree from a string, [`Expression::columns`] lists its columns, and
//! [`Expression::evaluate`] returns one boolean per entry of a record batch. The batch determines the types: type
//! errors are found with the first batch, or from a schema with [`Expression::check`]. docs/guides/expressions.md
//! describes the language.
//!
//! Every step works on whole columns: a list's elements are one column with offsets, and a constant is one element.

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

use std::ops::Range;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use femtobarn_rntuple::RNTupleError;

use tree::Node;

/// A condition on entries.
#[derive(Debug, Clone)]
pub struct Expression {
    text: String,
    tree: Node,
    columns: Vec<String>,
}

impl Expression {
    /// Parses a string. An error contains the position and the expected syntax.
    pub fn parse(text: &str) -> Result<Self, RNTupleError> {
        let tree = parse::parse(text).map_err(|problem| problem.in_text(text))?;
        let columns = tree.columns();
        Ok(Self {
            text: text.to_owned(),
            tree,
            columns,
        })
    }

    /// The columns that it reads, in the order of their first use. Members are dotted paths.
    pub fn columns(&self) -> &[String] {
        &self.columns
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
        evaluate::evaluate(&self.tree, &self.text, batch, first_entry)
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
        let before = text.get(..self.span.start).unwrap_or(text);
        RNTupleError::Usage {
            what: format!(
                "expression {:?}, character {}: {}",
                excerpt::around(text, &self.span),
                before.chars().count() + 1,
                self.what
            ),
        }
    }
}
