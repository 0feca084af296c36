//! Remakes pages: recompressed, re-encoded, or zeros.

use femtobarn_codec::Decompressor;

use super::super::column::{SealedPage, Sealer};
use super::super::model::Limits;
use super::super::numbers::check_limits;
use super::clusters::clusters;
use crate::RNTupleError;
use crate::encoding::{PageDecoder, Scratch, Target, packed_size};
use crate::read::{Reader, check_page, page_error};
use crate::schema::DType;
use crate::spec::{ColumnRecord, ColumnType, Page, SchemaDescription};

/// The most zeros per page.
const ZEROS: u64 = 64 << 10;

/// A page of an input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub reader: &'a Reader,
    pub column: u32,
    pub cluster: u64,
    pub page: Page,
}

/// How the elements of a page are re-encoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Encoding {
    /// Their type in between.
    pub dtype: DType,
    /// Which values are representable.
    pub limits: Limits,
}

/// Remakes pages. It has the contexts and the memory of one thread.
#[derive(Debug, Default)]
pub(super) struct Remaker {
    decompressor: Decompressor,
    decoder: PageDecoder,
    sealer: Sealer,
    scratch: Scratch,
}

impl Remaker {
    /// Makes a page of column `to` from the stored bytes of one of `from`: recompressed, and re-encoded if necessary.
    pub fn remake(
        &mut self,
        source: &Source<'_>,
        stored: &[u8],
        to: &ColumnRecord,
        encoding: Option<Encoding>,
        (settings, checksum): (u32, bool),
    ) -> Result<SealedPage, RNTupleError> {
        let Source {
            reader,
            column,
            cluster,
            page,
        } = *source;
        let Some(from) = reader.descriptor().column(column) else {
            return Err(RNTupleError::internal("a page of no column"));
        };
        let body = check_page(reader, from, (column, cluster), &page, stored)?;
        let failed = |error| page_error(reader, from, cluster, page.body.address, error);
        let n = page.n_elements as usize;
        if let Some(Encoding { dtype, limits }) = encoding {
            let target = element_target(from, dtype);
            let elements = self
                .scratch
                .bytes(n.saturating_mul(target.size()))
                .map_err(failed)?;
            self.decoder.of_double = is_of_double(reader, from);
            self.decoder
                .decode(from, n, body, target, elements)
                .map_err(failed)?;
            check_limits(dtype, limits, elements, &reader.label(from.field_id))
                .map_err(|error| in_place(error, reader, cluster))?;
            return self
                .sealer
                .seal_elements(to, Some(dtype), settings, (n, elements), checksum);
        }
        let size = packed_size(from, n as u64, body.len() as u64).map_err(failed)?;
        if size == body.len() {
            return self.sealer.seal_encoded(to, settings, (n, body), checksum);
        }
        let packed = self.scratch.bytes(size).map_err(failed)?;
        self.decompressor
            .decompress(body, packed)
            .map_err(|error| failed(error.into()))?;
        self.sealer
            .seal_encoded(to, settings, (n, packed), checksum)
    }

    /// Pages of `n` zeros. None if the column has no zero.
    pub fn zeros(
        &mut self,
        record: &ColumnRecord,
        n: u64,
        (settings, checksum): (u32, bool),
    ) -> Result<Option<Vec<SealedPage>>, RNTupleError> {
        if record
            .range
            .is_some_and(|(min, max)| min > 0.0 || max < 0.0)
        {
            return Ok(None);
        }
        let (target, dtype) = target(record);
        let mut pages = Vec::new();
        let mut left = n;
        while left > 0 {
            let some = usize::try_from(left.min(ZEROS)).unwrap_or(0);
            let elements = vec![0; some.saturating_mul(target.size())];
            pages.push(self.sealer.seal_elements(
                record,
                dtype,
                settings,
                (some, &elements),
                checksum,
            )?);
            left -= some as u64;
        }
        Ok(Some(pages))
    }
}

/// The form of a column's elements in which nothing is lost.
fn target(column: &ColumnRecord) -> (Target, Option<DType>) {
    match column.column_type {
        ColumnType::Switch => (Target::Switch, None),
        column_type if column_type.is_index() => (Target::Index, None),
        ColumnType::Real16 | ColumnType::SplitReal16 => {
            (Target::Leaf(DType::Float32), Some(DType::Float32))
        }
        column_type => {
            let dtype = DType::of_column(column_type).unwrap_or(DType::UInt8);
            (Target::Leaf(dtype), Some(dtype))
        }
    }
}

/// Adds the location to the error of a value that cannot be stored.
pub(super) fn in_place(error: RNTupleError, reader: &Reader, cluster: u64) -> RNTupleError {
    let RNTupleError::Unwritable { name, reason } = error else {
        return error;
    };
    let (url, ntuple) = (reader.url(), reader.path());
    let all = clusters(reader).unwrap_or_default();
    let entries = all.iter().find(|own| own.number == cluster);
    let entries = entries.map_or(String::new(), |own| {
        format!(
            ", entries {}:{}",
            own.summary.first_entry,
            own.summary.end()
        )
    });
    RNTupleError::Unwritable {
        name,
        reason: format!("{reason} (in {url}:{ntuple}{entries})"),
    }
}

/// The form of elements whose leaves shall have a type.
pub(super) fn element_target(column: &ColumnRecord, dtype: DType) -> Target {
    match target(column).0 {
        Target::Leaf(_) => Target::Leaf(dtype),
        other => other,
    }
}

/// The type of waiting elements for a column of the output: it represents all values of any input.
pub(super) fn element_type(schema: &SchemaDescription, column: &ColumnRecord) -> DType {
    let field = schema.fields.get(column.field_id as usize);
    let is_double = field.is_some_and(|field| field.type_name == DOUBLE);
    match target(column).1 {
        Some(dtype) if dtype.is_float() && is_double => DType::Float64,
        dtype => dtype.unwrap_or(DType::UInt8),
    }
}

/// Whether a column has the values of a `double`, which are computed in double precision if they are quantized.
pub(super) fn is_of_double(reader: &Reader, column: &ColumnRecord) -> bool {
    let field = reader.descriptor().field(column.field_id);
    field.is_some_and(|field| field.record.type_name == DOUBLE)
}

/// The type name of double-precision floats.
pub(super) const DOUBLE: &str = "double";
