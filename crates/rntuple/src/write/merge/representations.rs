//! Encodings of a field's columns: finds the output's representation for each of an input's.

use super::mapping::Way;
use super::pages::DOUBLE;
use super::schema::{MergedSchema, defer, expected, id_of};
use crate::RNTupleError;
use crate::read::Reader;
use crate::schema::{DType, FieldId};
use crate::spec::{AliasColumn, ColumnRecord, ColumnType};

impl MergedSchema {
    /// Maps the representations of an input's field.
    pub(super) fn ways(
        &mut self,
        reader: &Reader,
        own: u32,
        other: FieldId,
        compatible: bool,
        n_elements: &[u64],
    ) -> Result<Vec<Way>, RNTupleError> {
        let descriptor = reader.descriptor();
        let n = self
            .representations
            .get(own as usize)
            .and_then(|all| all.first())
            .map_or(0, Vec::len);
        let by_position: Vec<Vec<u32>> = (0..n)
            .map(|position| descriptor.representations(other, position))
            .collect();
        let n_ways = by_position.first().map_or(0, Vec::len);
        let mut ways = Vec::with_capacity(n_ways);
        for at in 0..n_ways {
            let input: Vec<u32> = by_position
                .iter()
                .filter_map(|columns| columns.get(at).copied())
                .collect();
            let records: Vec<&ColumnRecord> = input
                .iter()
                .filter_map(|&id| descriptor.column(id))
                .collect();
            let representations = self.representations.get(own as usize);
            let equal = representations.and_then(|all| {
                let is_equal = |columns: &&Vec<u32>| {
                    columns.len() == records.len()
                        && columns.iter().zip(&records).all(|(&id, record)| {
                            let own = self.schema.columns.get(id as usize);
                            own.is_some_and(|own| is_same_encoding(own, record))
                        })
                };
                all.iter().find(is_equal).cloned()
            });
            let way = match equal {
                Some(output) => Way {
                    input,
                    output,
                    reencode: false,
                },
                None if !compatible => {
                    let output = self.add_representation(own, &records, n_elements);
                    Way {
                        input,
                        output,
                        reencode: false,
                    }
                }
                None => {
                    let widest = representations.and_then(|all| all.get(self.widest(own)));
                    let output = widest.cloned();
                    let output = output.unwrap_or_default();
                    for (&id, record) in output.iter().zip(&records) {
                        self.insist(reader, (own, id), record)?;
                    }
                    Way {
                        input,
                        output,
                        reencode: true,
                    }
                }
            };
            ways.push(way);
        }
        Ok(ways)
    }

    /// The representation for rebuilt clusters: the first that represents the values of all.
    pub(super) fn widest(&self, id: u32) -> usize {
        let is_double = self
            .record(id)
            .is_some_and(|record| record.type_name == DOUBLE);
        let all = self
            .representations
            .get(id as usize)
            .map_or(&[][..], Vec::as_slice);
        let record = |id: &u32| self.schema.columns.get(*id as usize);
        let holds = |to: &Vec<u32>, from: &Vec<u32>| {
            let mut pairs = from.iter().map(record).zip(to.iter().map(record));
            pairs.all(|pair| matches!(pair, (Some(a), Some(b)) if holds_all(a, b, is_double)))
        };
        let widest = all
            .iter()
            .position(|to| all.iter().all(|from| holds(to, from)));
        widest.unwrap_or(0)
    }

    /// Keeps one representation of each field, which represents the values of all.
    pub(super) fn collapse(&mut self) {
        let mut kept: Vec<Option<u32>> = vec![None; self.schema.columns.len()];
        let mut columns = Vec::new();
        let mut taken: Vec<u32> = Vec::new();
        for id in 0..id_of(self.schema.fields.len()) {
            let widest = self.widest(id);
            let own = self.representations.get(id as usize);
            taken.extend(own.and_then(|all| all.get(widest)).into_iter().flatten());
        }
        taken.sort_unstable();
        for id in taken {
            let record = self.schema.columns.get(id as usize);
            let place = kept.get_mut(id as usize);
            if let (Some(record), Some(place)) = (record, place) {
                *place = Some(id_of(columns.len()));
                columns.push(ColumnRecord {
                    representation: 0,
                    ..record.clone()
                });
            }
        }
        self.schema.columns = columns;
        let place = |id: u32| kept.get(id as usize).copied().flatten();
        self.schema.alias_columns.retain_mut(|alias| {
            let own = place(alias.physical_id);
            alias.physical_id = own.unwrap_or(alias.physical_id);
            own.is_some()
        });
        for all in &mut self.representations {
            all.retain_mut(|columns| {
                *columns = columns.iter().filter_map(|&id| place(id)).collect();
                !columns.is_empty()
            });
        }
    }

    /// Checks that a column can represent the values of an input's column, unless a loss is allowed.
    pub(super) fn insist(
        &self,
        reader: &Reader,
        (field, column): (u32, u32),
        from: &ColumnRecord,
    ) -> Result<(), RNTupleError> {
        let is_double = self
            .record(field)
            .is_some_and(|record| record.type_name == DOUBLE);
        match self.schema.columns.get(column as usize) {
            Some(to) if !self.lossy.contains_key(&column) && !holds_all(from, to, is_double) => {
                Err(RNTupleError::NeedsRebuild {
                    url: reader.url().to_owned(),
                    other: self.origin(field).to_owned(),
                    name: self.path(field),
                    reason: format!(
                        "its column is a {} here, and a {} there",
                        described(from),
                        described(to)
                    ),
                })
            }
            _ => Ok(()),
        }
    }

    /// Adds a representation to a field, which begins where the others are.
    fn add_representation(
        &mut self,
        own: u32,
        records: &[&ColumnRecord],
        n_elements: &[u64],
    ) -> Vec<u32> {
        let all = self.representations.get(own as usize);
        let first = all.and_then(|all| all.first()).cloned().unwrap_or_default();
        let number = all.map_or(0, Vec::len);
        let mut output = Vec::with_capacity(records.len());
        for (record, like) in records.iter().zip(first) {
            let mut record = ColumnRecord {
                field_id: own,
                representation: u16::try_from(number).unwrap_or(u16::MAX),
                ..(*record).clone()
            };
            let begin = n_elements.get(like as usize).copied().unwrap_or(0);
            defer(&mut record, begin, true);
            let per_entry = expected(|id| self.record(id), own, 1);
            let is_nested = per_entry.is_none() || !output.is_empty();
            self.has_nested_deferred |= is_nested && begin > 0;
            output.push(self.push_column(record));
        }
        let projected = (0u32..).zip(&self.schema.fields);
        let projected = projected.filter(|(_, field)| field.source_id == Some(own));
        let aliases: Vec<AliasColumn> = projected
            .flat_map(|(field_id, _)| {
                output.iter().map(move |&physical_id| AliasColumn {
                    physical_id,
                    field_id,
                })
            })
            .collect();
        self.schema.alias_columns.extend(aliases);
        output
    }
}

fn described(column: &ColumnRecord) -> String {
    match column.range {
        None => format!("{} of {} bits", column.column_type.name(), column.bits),
        Some((min, max)) => {
            format!(
                "{} of {} bits from {min} to {max}",
                column.column_type.name(),
                column.bits
            )
        }
    }
}

/// Whether a column represents every value of another one; `is_double` says whether the field has type `double`.
pub(super) fn holds_all(from: &ColumnRecord, to: &ColumnRecord, is_double: bool) -> bool {
    use ColumnType as C;
    let (a, b) = (from.column_type.unsplit(), to.column_type.unsplit());
    match (a, b) {
        (C::Index32, C::Index64) => true,
        (C::Real32Trunc, C::Real32Trunc) => from.bits <= to.bits,
        // in double precision, quantized values do not fit single precision
        (C::Real32Quant, C::Real32) => !is_double,
        (C::Real32Quant, C::Real32Quant) => is_same_encoding(from, to),
        _ if a == b => true,
        _ => match DType::of_column(a).zip(DType::of_column(b)) {
            Some((DType::Bool, _) | (_, DType::Bool)) | None => false,
            _ if matches!(b, C::Real32Trunc | C::Real32Quant) => false,
            Some((a, b)) if a.is_float() == b.is_float() => a.promote(b) == b,
            Some(_) => false,
        },
    }
}

fn is_same_encoding(a: &ColumnRecord, b: &ColumnRecord) -> bool {
    a.column_type == b.column_type && a.bits == b.bits && a.range == b.range
}
