//! Column types.

/// The type of a column on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the specification's names")]
pub enum ColumnType {
    Bit,
    Byte,
    Char,
    Int8,
    UInt8,
    Int16,
    UInt16,
    Int32,
    UInt32,
    Int64,
    UInt64,
    Real16,
    Real32,
    Real64,
    Index32,
    Index64,
    Switch,
    SplitInt16,
    SplitUInt16,
    SplitInt32,
    SplitUInt32,
    SplitInt64,
    SplitUInt64,
    SplitReal16,
    SplitReal32,
    SplitReal64,
    SplitIndex32,
    SplitIndex64,
    Real32Trunc,
    Real32Quant,
    /// A type of a later version; the top-level field is skipped.
    Unknown(u16),
}

const COLUMN_TYPES: [(ColumnType, &str, u16, u16); 30] = [
    (ColumnType::Bit, "Bit", 1, 1),
    (ColumnType::Byte, "Byte", 8, 8),
    (ColumnType::Char, "Char", 8, 8),
    (ColumnType::Int8, "Int8", 8, 8),
    (ColumnType::UInt8, "UInt8", 8, 8),
    (ColumnType::Int16, "Int16", 16, 16),
    (ColumnType::UInt16, "UInt16", 16, 16),
    (ColumnType::Int32, "Int32", 32, 32),
    (ColumnType::UInt32, "UInt32", 32, 32),
    (ColumnType::Int64, "Int64", 64, 64),
    (ColumnType::UInt64, "UInt64", 64, 64),
    (ColumnType::Real16, "Real16", 16, 16),
    (ColumnType::Real32, "Real32", 32, 32),
    (ColumnType::Real64, "Real64", 64, 64),
    (ColumnType::Index32, "Index32", 32, 32),
    (ColumnType::Index64, "Index64", 64, 64),
    (ColumnType::Switch, "Switch", 96, 96),
    (ColumnType::SplitInt16, "SplitInt16", 16, 16),
    (ColumnType::SplitUInt16, "SplitUInt16", 16, 16),
    (ColumnType::SplitInt32, "SplitInt32", 32, 32),
    (ColumnType::SplitUInt32, "SplitUInt32", 32, 32),
    (ColumnType::SplitInt64, "SplitInt64", 64, 64),
    (ColumnType::SplitUInt64, "SplitUInt64", 64, 64),
    (ColumnType::SplitReal16, "SplitReal16", 16, 16),
    (ColumnType::SplitReal32, "SplitReal32", 32, 32),
    (ColumnType::SplitReal64, "SplitReal64", 64, 64),
    (ColumnType::SplitIndex32, "SplitIndex32", 32, 32),
    (ColumnType::SplitIndex64, "SplitIndex64", 64, 64),
    (ColumnType::Real32Trunc, "Real32Trunc", 10, 31),
    (ColumnType::Real32Quant, "Real32Quant", 1, 32),
];

impl ColumnType {
    /// The type of a code on disk.
    pub fn from_code(code: u16) -> Self {
        COLUMN_TYPES
            .get(usize::from(code))
            .map_or(Self::Unknown(code), |entry| entry.0)
    }

    /// The code on disk.
    pub(crate) fn code(self) -> u16 {
        let known = COLUMN_TYPES
            .iter()
            .zip(0u16..)
            .find(|(entry, _)| entry.0 == self);
        match (known, self) {
            (Some((_, code)), _) | (None, Self::Unknown(code)) => code,
            (None, _) => u16::MAX,
        }
    }

    /// The name in the specification.
    pub fn name(self) -> &'static str {
        COLUMN_TYPES
            .iter()
            .find(|entry| entry.0 == self)
            .map_or("unknown", |entry| entry.1)
    }

    /// The width, or the smallest width if the type has several.
    pub fn default_bits(self) -> u16 {
        let known = COLUMN_TYPES.iter().find(|entry| entry.0 == self);
        known.map_or(0, |entry| entry.2)
    }

    /// Whether the type may have a width of `bits`.
    pub fn allows_bits(self, bits: u16) -> bool {
        COLUMN_TYPES
            .iter()
            .any(|entry| entry.0 == self && (entry.2..=entry.3).contains(&bits))
    }

    /// Whether it is an index column of collections.
    pub fn is_index(self) -> bool {
        matches!(
            self,
            Self::Index32 | Self::Index64 | Self::SplitIndex32 | Self::SplitIndex64
        )
    }

    /// The type with the same elements in plain encoding: not split, no differences.
    #[must_use]
    pub fn unsplit(self) -> Self {
        match self {
            Self::SplitInt16 => Self::Int16,
            Self::SplitUInt16 => Self::UInt16,
            Self::SplitInt32 => Self::Int32,
            Self::SplitUInt32 => Self::UInt32,
            Self::SplitInt64 => Self::Int64,
            Self::SplitUInt64 => Self::UInt64,
            Self::SplitReal16 => Self::Real16,
            Self::SplitReal32 => Self::Real32,
            Self::SplitReal64 => Self::Real64,
            Self::SplitIndex32 => Self::Index32,
            Self::SplitIndex64 => Self::Index64,
            other => other,
        }
    }

    /// Whether pages have the first bytes of all elements, then the second bytes, and so on.
    pub fn is_split(self) -> bool {
        matches!(
            self,
            Self::SplitIndex32
                | Self::SplitIndex64
                | Self::SplitInt16
                | Self::SplitInt32
                | Self::SplitInt64
                | Self::SplitUInt16
                | Self::SplitUInt32
                | Self::SplitUInt64
                | Self::SplitReal32
                | Self::SplitReal64
        )
    }
}
