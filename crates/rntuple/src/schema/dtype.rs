//! Types of decoded elements.

use crate::spec::ColumnType;

/// Type of the elements of a decoded column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "Arrow's and NumPy's names")]
pub enum DType {
    Bool,
    Int8,
    UInt8,
    Int16,
    UInt16,
    Int32,
    UInt32,
    Int64,
    UInt64,
    Float16,
    Float32,
    Float64,
}

impl DType {
    /// All types.
    pub const ALL: [Self; 12] = [
        Self::Bool,
        Self::Int8,
        Self::UInt8,
        Self::Int16,
        Self::UInt16,
        Self::Int32,
        Self::UInt32,
        Self::Int64,
        Self::UInt64,
        Self::Float16,
        Self::Float32,
        Self::Float64,
    ];

    /// Size of an element in bytes; a boolean takes one.
    pub fn size(self) -> usize {
        match self {
            Self::Bool | Self::Int8 | Self::UInt8 => 1,
            Self::Int16 | Self::UInt16 | Self::Float16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 => 8,
        }
    }

    /// The NumPy name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int8 => "int8",
            Self::UInt8 => "uint8",
            Self::Int16 => "int16",
            Self::UInt16 => "uint16",
            Self::Int32 => "int32",
            Self::UInt32 => "uint32",
            Self::Int64 => "int64",
            Self::UInt64 => "uint64",
            Self::Float16 => "float16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
        }
    }

    /// The usual C++ name, in RNTuple's spelling.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int8 => "std::int8_t",
            Self::UInt8 => "std::uint8_t",
            Self::Int16 => "std::int16_t",
            Self::UInt16 => "std::uint16_t",
            Self::Int32 => "std::int32_t",
            Self::UInt32 => "std::uint32_t",
            Self::Int64 => "std::int64_t",
            Self::UInt64 => "std::uint64_t",
            Self::Float16 | Self::Float32 => "float",
            Self::Float64 => "double",
        }
    }

    /// The type of numbers in a field: `char` is signed, and ROOT computes quantized `double`s in double precision.
    pub fn of_leaf(column_type: ColumnType, type_name: &str) -> Option<Self> {
        match column_type {
            ColumnType::Real32Quant if type_name == "double" => Some(Self::Float64),
            ColumnType::Char => Some(Self::Int8),
            _ => Self::of_column(column_type),
        }
    }

    /// The type that a column decodes to; none for index and switch columns and unknown types.
    pub fn of_column(column_type: ColumnType) -> Option<Self> {
        use ColumnType as C;
        Some(match column_type {
            C::Bit => Self::Bool,
            C::Byte | C::Char | C::UInt8 => Self::UInt8,
            C::Int8 => Self::Int8,
            C::Int16 | C::SplitInt16 => Self::Int16,
            C::UInt16 | C::SplitUInt16 => Self::UInt16,
            C::Int32 | C::SplitInt32 => Self::Int32,
            C::UInt32 | C::SplitUInt32 => Self::UInt32,
            C::Int64 | C::SplitInt64 => Self::Int64,
            C::UInt64 | C::SplitUInt64 => Self::UInt64,
            C::Real16 | C::SplitReal16 => Self::Float16,
            C::Real32 | C::SplitReal32 | C::Real32Trunc | C::Real32Quant => Self::Float32,
            C::Real64 | C::SplitReal64 => Self::Float64,
            C::Index32
            | C::Index64
            | C::SplitIndex32
            | C::SplitIndex64
            | C::Switch
            | C::Unknown(_) => return None,
        })
    }

    /// The column type that stores the elements unchanged.
    pub fn plain_column(self) -> ColumnType {
        use ColumnType as C;
        match self {
            Self::Bool => C::Bit,
            Self::Int8 => C::Int8,
            Self::UInt8 => C::UInt8,
            Self::Int16 => C::Int16,
            Self::UInt16 => C::UInt16,
            Self::Int32 => C::Int32,
            Self::UInt32 => C::UInt32,
            Self::Int64 => C::Int64,
            Self::UInt64 => C::UInt64,
            Self::Float16 => C::Real16,
            Self::Float32 => C::Real32,
            Self::Float64 => C::Real64,
        }
    }

    /// The smallest type for the values of both, by NumPy's promotion rules.
    pub fn promote(self, other: Self) -> Self {
        if self == other {
            return self;
        }
        let (low, high) = if self < other {
            (self, other)
        } else {
            (other, self)
        };
        if low == Self::Bool {
            return high;
        }
        if high.is_float() {
            return match (low, high) {
                (Self::Int8 | Self::UInt8 | Self::Float16, _) | (Self::Float32, Self::Float64) => {
                    high
                }
                (Self::Int16 | Self::UInt16, Self::Float16 | Self::Float32) => Self::Float32,
                _ => Self::Float64,
            };
        }
        match (low.is_signed(), high.is_signed()) {
            (true, true) | (false, false) => high,
            (false, true) if low.size() < high.size() => high,
            _ => match low.size().max(high.size()) {
                1 => Self::Int16,
                2 => Self::Int32,
                4 => Self::Int64,
                _ => Self::Float64,
            },
        }
    }

    /// The smallest type that represents every value of both exactly; none if there is none.
    pub fn promote_exactly(self, other: Self) -> Option<Self> {
        let both = self.promote(other);
        let wide = |dtype: Self| matches!(dtype, Self::Int64 | Self::UInt64);
        (!both.is_float() || !(wide(self) || wide(other))).then_some(both)
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, Self::Float16 | Self::Float32 | Self::Float64)
    }

    fn is_signed(self) -> bool {
        matches!(self, Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64)
    }
}

#[cfg(test)]
mod tests {
    use super::DType::{self, *};

    #[test]
    fn plain_columns_hold_their_type() {
        for dtype in DType::ALL {
            assert_eq!(DType::of_column(dtype.plain_column()), Some(dtype));
        }
    }

    #[test]
    fn promotion_is_numpys() {
        for (a, b, want) in [
            (Bool, UInt16, UInt16),
            (Int8, UInt8, Int16),
            (UInt8, Int16, Int16),
            (Int16, UInt8, Int16),
            (Int32, UInt32, Int64),
            (Int64, UInt64, Float64),
            (Float16, Float32, Float32),
            (Int16, Float16, Float32),
            (Int32, Float32, Float64),
            (UInt32, UInt64, UInt64),
        ] {
            assert_eq!(a.promote(b), want, "{a:?} {b:?}");
            assert_eq!(b.promote(a), want, "{b:?} {a:?}");
            let exact = !matches!((a, b), (Int64, UInt64));
            assert_eq!(a.promote_exactly(b), exact.then_some(want));
        }
    }
}
