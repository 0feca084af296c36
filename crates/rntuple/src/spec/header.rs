//! The header envelope.

use super::cursor::{Cursor, SpecError};
use super::description::SchemaDescription;
use super::envelope::{Envelope, EnvelopeKind};

/// The feature flag of deferred columns below collections or variants.
pub const NESTED_DEFERRED_COLUMNS: u64 = 1;

/// Feature flags that this reader supports.
const SUPPORTED: u64 = NESTED_DEFERRED_COLUMNS;

/// Parses feature flags; an unknown one is an error with its bit number.
pub fn feature_flags(c: &mut Cursor<'_>) -> Result<u64, SpecError> {
    let mut first = 0;
    for word in 0u32.. {
        let flags = c.u64("feature flags")?;
        let bits = flags & !(1 << 63);
        let unknown = if word == 0 { bits & !SUPPORTED } else { bits };
        if unknown != 0 {
            return Err(SpecError::UnknownFeature {
                bit: word * 64 + unknown.trailing_zeros(),
            });
        }
        if word == 0 {
            first = bits;
        }
        if flags >> 63 == 0 {
            break;
        }
    }
    Ok(first)
}

/// The content of the header envelope.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the specification's names")]
pub struct Header {
    pub feature_flags: u64,
    pub name: String,
    pub description: String,
    pub writer: String,
    pub schema: SchemaDescription,
    pub checksum: u64,
}

impl Header {
    /// Parses only the name of the ntuple, of an uncompressed header envelope.
    pub fn parse_name(bytes: &[u8]) -> Result<String, SpecError> {
        let Envelope { payload: mut c, .. } = Envelope::parse(bytes, EnvelopeKind::Header)?;
        feature_flags(&mut c)?;
        c.string("ntuple name")
    }

    /// Parses an uncompressed header envelope.
    pub fn parse(bytes: &[u8]) -> Result<Self, SpecError> {
        let Envelope {
            payload: mut c,
            checksum,
        } = Envelope::parse(bytes, EnvelopeKind::Header)?;
        Ok(Self {
            feature_flags: feature_flags(&mut c)?,
            name: c.string("ntuple name")?,
            description: c.string("ntuple description")?,
            writer: c.string("writer")?,
            schema: SchemaDescription::parse(&mut c)?,
            checksum,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &[u64]) -> Result<u64, SpecError> {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        feature_flags(&mut Cursor::new(&bytes))
    }

    #[test]
    fn nested_deferred_columns_are_supported() {
        assert_eq!(flags(&[1]), Ok(1));
    }

    #[test]
    fn unknown_flags_are_refused_by_number() {
        assert_eq!(flags(&[2]), Err(SpecError::UnknownFeature { bit: 1 }));
        // ROOT tests bit 137, which is bit 9 of the third word
        assert_eq!(
            flags(&[1 << 63, 1 << 63, 1 << 9]),
            Err(SpecError::UnknownFeature { bit: 137 })
        );
    }
}
