//! Single values of a field as bytes, as `docs/specs/event-products.md` draws them, and back to arrays.
//!
//! Products of an event store are such values: what a program of C++ holds in memory, where that is plain, is stored as it
//! is there, and comes back as columns.

mod cursor;
mod decode;
mod encode;
mod plan;

#[cfg(test)]
mod tests;

use arrow_array::ArrayRef;

use crate::RNTupleError;
use crate::array::Arrays;
use crate::write::{FieldModel, Layout, Shape, conform, ordered};
pub use cursor::{Cursor, Fault};
pub use decode::Columns;
pub use plan::{Fixed, Plan, Record};

/// How the values of a type are stored.
#[derive(Debug, Clone)]
pub struct RowType {
    model: FieldModel,
    shape: Shape,
    plan: Plan,
}

/// A stored value that is none of its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFault {
    /// Which of the values that were given.
    pub row: usize,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
}

/// Values, one behind the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// The bytes of all.
    pub bytes: Vec<u8>,
    /// Where each ends.
    pub ends: Vec<usize>,
}

impl Rows {
    /// One of them.
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        let start = match at.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.bytes.get(start..*self.ends.get(at)?)
    }
}

impl RowType {
    /// That of a field.
    ///
    /// # Errors
    ///
    /// If values of its type cannot be stored by themselves: views of other fields, objects as streamers write them, and
    /// lists of what has no bytes.
    pub fn new(model: FieldModel) -> Result<Self, RNTupleError> {
        let mut layout = Layout::unwritten();
        layout.extend(std::slice::from_ref(&model), 0, 0)?;
        let Some((_, shape)) = layout.tops.pop() else {
            return Err(RNTupleError::internal("a product that is a view"));
        };
        let plan = Plan::new(&shape, &model.name)?;
        Ok(Self { model, shape, plan })
    }

    /// The field.
    pub fn model(&self) -> &FieldModel {
        &self.model
    }

    /// Where the parts of a value lie.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether all numbers, in any order, are values: there are no sets, maps or variants in it, and no numbers that are kept
    /// with less than their precision.
    pub fn takes_all(&self) -> bool {
        self.shape.takes_all()
    }

    /// How many bytes each value has, if that is the same for all.
    pub fn size(&self) -> Option<usize> {
        self.plan.fixed().map(|fixed| fixed.size)
    }

    /// Where the members of a record lie in each value, if they have a size.
    pub fn places(&self) -> Option<&[usize]> {
        match &self.plan {
            Plan::Record(record) => record.fixed.as_ref().map(|(_, places)| places.as_slice()),
            _ => None,
        }
    }

    /// The values of an array.
    ///
    /// # Errors
    ///
    /// If the array is not of the type.
    pub fn encode(&self, array: &ArrayRef) -> Result<Rows, RNTupleError> {
        let name = &self.model.name;
        let values = conform(&self.shape, array, name)?;
        let values = ordered(values, &self.shape, name, &|entry| entry)?;
        encode::encode(&values, &self.plan, array.len())
    }

    /// An array of values: of one column, which has the name of the field. Where there is no value, one is missing.
    ///
    /// # Errors
    ///
    /// The first value that is none of the type.
    pub fn decode<'a>(
        &self,
        values: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    ) -> Result<Arrays, RowFault> {
        let mut columns = Columns::new(values.len());
        columns.add(self, values)?;
        Ok(columns.finish())
    }
}
