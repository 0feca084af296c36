//! Single values of a field as bytes, in the format of `docs/specs/event-products.md`, and back to arrays.
//!
//! Products of an event store are such values. Plain C++ data are stored as they are in memory, and are read as columns.

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

/// The storage of a type's values.
#[derive(Debug, Clone)]
pub struct RowType {
    model: FieldModel,
    shape: Shape,
    plan: Plan,
}

/// A stored value that does not match its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFault {
    /// Index of the value.
    pub row: usize,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
}

/// Values, one after another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// The bytes of all values.
    pub bytes: Vec<u8>,
    /// The end of each value.
    pub ends: Vec<usize>,
}

impl Rows {
    /// One of the values.
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        let start = match at.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.bytes.get(start..*self.ends.get(at)?)
    }
}

impl RowType {
    /// The row type of a field.
    ///
    /// # Errors
    ///
    /// If values of its type cannot be stored alone: projected fields, streamed objects, and lists of items without
    /// bytes.
    pub fn new(model: FieldModel) -> Result<Self, RNTupleError> {
        let mut layout = Layout::unwritten();
        layout.extend(std::slice::from_ref(&model), 0, 0)?;
        let Some((_, shape)) = layout.tops.pop() else {
            return Err(RNTupleError::internal(
                "a product that is a projected field",
            ));
        };
        let plan = Plan::new(&shape, &model.name)?;
        Ok(Self { model, shape, plan })
    }

    /// The field.
    pub fn model(&self) -> &FieldModel {
        &self.model
    }

    /// The encoding of a value.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether any sequence of numbers is a valid value: it contains no sets, maps, variants or numbers of reduced
    /// precision.
    pub fn takes_all(&self) -> bool {
        self.shape.takes_all()
    }

    /// The size of a value, if it is constant.
    pub fn size(&self) -> Option<usize> {
        self.plan.fixed().map(|fixed| fixed.size)
    }

    /// The offsets of a record's members, if they have a fixed size.
    pub fn places(&self) -> Option<&[usize]> {
        match &self.plan {
            Plan::Record(record) => record.fixed.as_ref().map(|(_, places)| places.as_slice()),
            _ => None,
        }
    }

    /// Encodes the values of an array.
    ///
    /// # Errors
    ///
    /// If the array does not have the type.
    pub fn encode(&self, array: &ArrayRef) -> Result<Rows, RNTupleError> {
        let name = &self.model.name;
        let values = conform(&self.shape, array, name)?;
        let values = ordered(values, &self.shape, name, &|entry| entry)?;
        encode::encode(&values, &self.plan, array.len())
    }

    /// Decodes values to an array with one column, named after the field. Entries without a value are missing.
    ///
    /// # Errors
    ///
    /// The first value that does not match the type.
    pub fn decode<'a>(
        &self,
        values: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    ) -> Result<Arrays, RowFault> {
        let mut columns = Columns::new(values.len());
        columns.add(self, values)?;
        Ok(columns.finish())
    }
}
