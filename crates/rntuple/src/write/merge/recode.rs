//! Columns with other encodings than in the first input.

use std::collections::HashMap;

use super::pages::DOUBLE;
use super::schema::MergedSchema;
use crate::RNTupleError;
use crate::schema::DType;
use crate::spec::{ColumnFlags, ColumnRecord};
use crate::write::model::{
    LeafModel, Limits, StoredAs, check_stored, limits, plain_and_split, unwritable,
};

/// How columns are re-encoded.
#[derive(Debug, Clone, Default)]
pub struct Encodings {
    /// Whether columns are split and offsets stored as differences, which compresses better; none to keep the encodings.
    pub split: Option<bool>,
    /// Storage of floats; if several match a field, the first counts.
    pub reals: Vec<StoredReals>,
}

/// The storage of floats in some fields.
#[derive(Debug, Clone)]
pub struct StoredReals {
    /// The name given by the user, for messages.
    pub name: String,
    /// Paths of the fields; all floats at and below them are meant, and there must be at least one.
    pub paths: Vec<String>,
    /// The storage.
    pub stored: StoredAs,
}

impl Encodings {
    /// Whether everything is kept.
    pub fn is_none(&self) -> bool {
        self.split.is_none() && self.reals.is_empty()
    }
}

impl MergedSchema {
    /// Sets the encodings of all columns.
    ///
    /// # Errors
    /// If the storage of floats is invalid, or there are no floats.
    pub(super) fn recode(&mut self, encodings: &Encodings) -> Result<(), RNTupleError> {
        let mut first: HashMap<&str, usize> = HashMap::new();
        for (at, reals) in encodings.reals.iter().enumerate() {
            for path in &reals.paths {
                first.entry(path).or_insert(at);
            }
        }
        let mut asked: Vec<Option<usize>> = Vec::with_capacity(self.schema.fields.len());
        for (id, field) in (0u32..).zip(&self.schema.fields) {
            let own = first.get(self.path(id).as_str()).copied();
            let above = asked.get(field.parent_id as usize).copied().flatten();
            asked.push(own.or(above));
        }
        let mut found = vec![false; encodings.reals.len()];
        let mut lossy = Vec::new();
        let fields = &self.schema.fields;
        for (id, column) in (0u32..).zip(&mut self.schema.columns) {
            let at = asked.get(column.field_id as usize).copied().flatten();
            let reals = at.and_then(|at| encodings.reals.get(at));
            let dtype = DType::of_column(column.column_type);
            if let (Some(StoredReals { name, stored, .. }), true) =
                (reals, dtype.is_some_and(DType::is_float))
            {
                let field = fields.get(column.field_id as usize);
                let is_double = field.is_some_and(|field| field.type_name == DOUBLE);
                let leaf = LeafModel {
                    dtype: if is_double {
                        DType::Float64
                    } else {
                        DType::Float32
                    },
                    stored: Some(*stored),
                };
                store(name, column, leaf)?;
                lossy.push((id, limits(leaf)));
                at.and_then(|at| found.get_mut(at))
                    .into_iter()
                    .for_each(|found| *found = true);
            }
            if let Some(split) = encodings.split {
                let (plain, other) = plain_and_split(column.column_type.unsplit());
                column.column_type = if split { other } else { plain };
            }
        }
        self.lossy.extend(lossy);
        let Some((reals, _)) = encodings.reals.iter().zip(found).find(|(_, found)| !found) else {
            return Ok(());
        };
        // a path that another name has selected already
        let taken = reals
            .paths
            .iter()
            .filter_map(|path| first.get(path.as_str()));
        let mut taken = taken.filter_map(|&at| encodings.reals.get(at));
        let reason = match taken.find(|other| other.name != reals.name) {
            Some(other) => format!(
                "the storage of all of its floats is set already by {:?}",
                other.name
            ),
            None => "its precision is set, but it has no floats".to_owned(),
        };
        Err(unwritable(&reals.name, reason))
    }

    /// Which values of an input's column a column represents.
    pub(super) fn limits(&self, column: u32) -> Limits {
        self.lossy.get(&column).copied().unwrap_or(Limits::None)
    }
}

/// Sets the storage of a column of floats.
fn store(name: &str, column: &mut ColumnRecord, leaf: LeafModel) -> Result<(), RNTupleError> {
    use crate::spec::ColumnType as C;
    let Some(stored) = leaf.stored else {
        return Ok(());
    };
    check_stored(name, stored)?;
    let most = f64::from(f32::MAX);
    (column.column_type, column.bits, column.range) = match stored {
        StoredAs::Column(column) => {
            let (_, split) = plain_and_split(column);
            (split, split.default_bits(), None)
        }
        StoredAs::Truncated(bits) => (C::Real32Trunc, bits, None),
        StoredAs::Quantized { min, max, .. }
            if leaf.dtype == DType::Float32 && (min < -most || max > most) =>
        {
            let reason = format!("{min} to {max} is not a valid range in single precision");
            return Err(unwritable(name, reason));
        }
        StoredAs::Quantized { bits, min, max } => (C::Real32Quant, bits, Some((min, max))),
    };
    let has_range = u16::from(column.range.is_some()) << 1;
    column.flags = ColumnFlags(column.flags.0 & !2 | has_range);
    Ok(())
}
