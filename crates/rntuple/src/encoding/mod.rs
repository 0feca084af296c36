//! Decodes the stored bytes of a page into elements of the result.

mod promote;

use femtobarn_codec::{CodecError, Decompressor, bits, delta, real, transpose, zigzag};

pub use promote::promote;

use crate::schema::DType;
use crate::spec::{ColumnRecord, ColumnType};

/// The largest compression ratio of any codec: zstd needs 4 bytes for a block of 128 KiB of one repeated
/// byte.
pub const LARGEST_RATIO: u64 = 1 << 15;

/// Reusable memory for pages, aligned for every element type.
#[derive(Debug, Default)]
pub struct Scratch(Vec<u64>);

impl Scratch {
    /// The first `n` bytes, with arbitrary content.
    pub fn bytes(&mut self, n: usize) -> Result<&mut [u8], PageError> {
        let words = n.div_ceil(8);
        let more = words.saturating_sub(self.0.len());
        if self.0.try_reserve_exact(more).is_err() {
            return Err(PageError::Memory { bytes: n as u64 });
        }
        if more > 0 {
            self.0.resize(words, 0);
        }
        Ok(bytemuck::cast_slice_mut(self.0.as_mut_slice())
            .get_mut(..n)
            .unwrap_or_default())
    }
}

/// The form of decoded elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// Values of this type.
    Leaf(DType),
    /// Unsigned 64-bit offsets.
    Index,
    /// 64-bit positions, then 32-bit tags: 12 bytes per element, as stored.
    Switch,
}

impl Target {
    /// Size of a decoded element in bytes.
    pub fn size(self) -> usize {
        match self {
            Self::Leaf(dtype) => dtype.size(),
            Self::Index => 8,
            Self::Switch => 12,
        }
    }
}

/// Why a page cannot be decoded.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The compressed bytes are damaged.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// Not enough memory.
    #[error("cannot allocate {bytes} bytes")]
    Memory {
        /// Bytes needed.
        bytes: u64,
    },
    /// Stored and required sizes contradict each other.
    #[error("{what}: expected {expected} bytes, found {found}")]
    Size {
        /// The item with the wrong size.
        what: &'static str,
        /// The required size.
        expected: u64,
        /// The size found.
        found: u64,
    },
}

/// The size of `n` elements in an uncompressed page; an error if `stored` bytes cannot contain so many.
pub fn packed_size(column: &ColumnRecord, n: u64, stored: u64) -> Result<usize, PageError> {
    let packed = column.packed_bytes(n).unwrap_or(u64::MAX);
    let most = stored.saturating_mul(LARGEST_RATIO);
    match usize::try_from(packed) {
        Ok(size) if packed >= stored && packed <= most => Ok(size),
        _ => Err(PageError::Size {
            what: "page of that many elements",
            expected: packed,
            found: stored,
        }),
    }
}

/// Decodes pages. It has the contexts and the memory of one thread.
#[derive(Debug, Default)]
pub struct PageDecoder {
    decompressor: Decompressor,
    packed: Scratch,
    natural: Scratch,
    /// Nanoseconds spent in decompression.
    pub decompress_ns: u64,
    /// Whether the field has type `double`: quantized values are then computed in double precision, as
    /// ROOT does.
    pub of_double: bool,
}

impl PageDecoder {
    /// Decodes the `n` elements of a page into `out`, which must have exactly their size.
    pub fn decode(
        &mut self,
        column: &ColumnRecord,
        n: usize,
        stored: &[u8],
        target: Target,
        out: &mut [u8],
    ) -> Result<(), PageError> {
        let size = packed_size(column, n as u64, stored.len() as u64)?;
        let wanted = n.saturating_mul(target.size());
        if out.len() != wanted {
            return Err(PageError::Size {
                what: "output of a page",
                expected: wanted as u64,
                found: out.len() as u64,
            });
        }
        let plain = is_plain(column.column_type, target);
        if stored.len() == size {
            return if plain {
                copy(stored, out)
            } else {
                unpack(
                    column,
                    stored,
                    target,
                    self.of_double,
                    out,
                    &mut self.natural,
                )
            };
        }
        let start = std::time::Instant::now();
        let result = if plain {
            self.decompressor.decompress(stored, out)
        } else {
            self.decompressor
                .decompress(stored, self.packed.bytes(size)?)
        };
        self.decompress_ns += u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        result?;
        if plain {
            Ok(())
        } else {
            unpack(
                column,
                self.packed.bytes(size)?,
                target,
                self.of_double,
                out,
                &mut self.natural,
            )
        }
    }
}

/// Whether the stored elements are those of the result, byte by byte.
pub fn is_plain(column_type: ColumnType, target: Target) -> bool {
    use ColumnType as C;
    match (column_type, target) {
        (C::Index64, Target::Index) | (C::Switch, Target::Switch) => true,
        (
            C::Byte
            | C::Char
            | C::Int8
            | C::UInt8
            | C::Int16
            | C::UInt16
            | C::Int32
            | C::UInt32
            | C::Int64
            | C::UInt64
            | C::Real16
            | C::Real32
            | C::Real64,
            Target::Leaf(dtype),
        ) => DType::of_column(column_type) == Some(dtype),
        _ => false,
    }
}

/// Copies the elements of a page.
pub(crate) fn copy(from: &[u8], to: &mut [u8]) -> Result<(), PageError> {
    if from.len() != to.len() {
        return Err(PageError::Size {
            what: "elements of a page",
            expected: to.len() as u64,
            found: from.len() as u64,
        });
    }
    to.copy_from_slice(from);
    Ok(())
}

fn unpack(
    column: &ColumnRecord,
    packed: &[u8],
    target: Target,
    of_double: bool,
    out: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), PageError> {
    match target {
        Target::Switch => copy(packed, out),
        Target::Index => unpack_index(column.column_type, packed, out),
        Target::Leaf(DType::Float64)
            if of_double && column.column_type == ColumnType::Real32Quant =>
        {
            let (min, max) = column.range.unwrap_or((0.0, 1.0));
            Ok(real::unpack_quantized_f64(
                packed,
                u32::from(column.bits),
                min,
                max,
                typed(out)?,
            )?)
        }
        Target::Leaf(dtype) => match DType::of_column(column.column_type) {
            Some(natural) if natural == dtype => unpack_leaf(column, packed, out),
            Some(natural) => {
                let n = out.len() / dtype.size();
                let values = scratch.bytes(n.saturating_mul(natural.size()))?;
                unpack_leaf(column, packed, values)?;
                promote(values, natural, dtype, out);
                Ok(())
            }
            None => Err(PageError::Size {
                what: "column without values",
                expected: 0,
                found: packed.len() as u64,
            }),
        },
    }
}

fn unpack_index(column_type: ColumnType, packed: &[u8], out: &mut [u8]) -> Result<(), PageError> {
    use ColumnType as C;
    match column_type {
        C::SplitIndex32 => delta::unsplit_delta_32(packed, typed(out)?)?,
        C::SplitIndex64 => delta::unsplit_delta_64(packed, typed(out)?)?,
        C::Index32 => {
            for (value, bytes) in typed::<u64>(out)?.iter_mut().zip(packed.as_chunks::<4>().0) {
                *value = u64::from(u32::from_le_bytes(*bytes));
            }
        }
        _ => return copy(packed, out),
    }
    Ok(())
}

fn unpack_leaf(column: &ColumnRecord, packed: &[u8], out: &mut [u8]) -> Result<(), PageError> {
    use ColumnType as C;
    match column.column_type {
        C::Bit => bits::unpack_bools(packed, out)?,
        C::SplitUInt16 | C::SplitReal16 => transpose::unsplit(packed, 2, out)?,
        C::SplitUInt32 | C::SplitReal32 => transpose::unsplit(packed, 4, out)?,
        C::SplitUInt64 | C::SplitReal64 => transpose::unsplit(packed, 8, out)?,
        C::SplitInt16 => zigzag::unsplit_zigzag(packed, 2, out)?,
        C::SplitInt32 => zigzag::unsplit_zigzag(packed, 4, out)?,
        C::SplitInt64 => zigzag::unsplit_zigzag(packed, 8, out)?,
        C::Real32Trunc => real::unpack_truncated(packed, u32::from(column.bits), typed(out)?)?,
        C::Real32Quant => {
            let (min, max) = column.range.unwrap_or((0.0, 1.0));
            real::unpack_quantized(packed, u32::from(column.bits), min, max, typed(out)?)?;
        }
        _ => return copy(packed, out),
    }
    Ok(())
}

fn typed<T: bytemuck::Pod>(out: &mut [u8]) -> Result<&mut [T], PageError> {
    let found = out.len() as u64;
    bytemuck::try_cast_slice_mut(out).map_err(|_| PageError::Size {
        what: "alignment of an output",
        expected: size_of::<T>() as u64,
        found,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantized_values_have_the_precision_of_their_field() {
        let column = ColumnRecord {
            column_type: ColumnType::Real32Quant,
            bits: 8,
            field_id: 0,
            flags: crate::spec::ColumnFlags(2),
            representation: 0,
            first_element: 0,
            range: Some((0.0, 1.0)),
        };
        let decoded = |of_double, dtype: DType| {
            let mut decoder = PageDecoder {
                of_double,
                ..PageDecoder::default()
            };
            let mut out = vec![0u64];
            let place = bytemuck::cast_slice_mut(&mut out)
                .get_mut(..dtype.size())
                .unwrap();
            decoder
                .decode(&column, 1, &[77], Target::Leaf(dtype), place)
                .unwrap();
            match dtype {
                DType::Float64 => bytemuck::pod_read_unaligned(place),
                _ => f64::from(bytemuck::pod_read_unaligned::<f32>(place)),
            }
        };
        assert_eq!(decoded(true, DType::Float64), 77.0 / 255.0);
        let single = decoded(false, DType::Float32);
        assert_ne!(single, 77.0 / 255.0);
        assert_eq!(
            decoded(false, DType::Float64),
            single,
            "promoted, not computed anew"
        );
    }

    #[test]
    fn pages_that_claim_too_much_are_refused_before_memory_is_taken() {
        let column = ColumnRecord {
            column_type: ColumnType::Real32,
            bits: 32,
            field_id: 0,
            flags: crate::spec::ColumnFlags(0),
            representation: 0,
            first_element: 0,
            range: None,
        };
        assert!(packed_size(&column, 100 << 13, 100).is_ok());
        assert!(packed_size(&column, (100 << 13) + 1, 100).is_err());
        assert!(Scratch::default().bytes(usize::MAX / 2).is_err());
    }
}
