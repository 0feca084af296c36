//! UUIDs of datasets.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A universally unique identifier. Each dataset gets a new one, so a dataset that is deleted and created again
/// shares no data with the old one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// The UUID of the root dataset.
    pub const NIL: Self = Self([0; 16]);

    /// A new random UUID (version 4 of RFC 9562).
    ///
    /// # Errors
    ///
    /// If the operating system has no random bytes.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        let [.., b6, _, b8, _, _, _, _, _, _, _] = &mut bytes;
        *b6 = *b6 & 0x0f | 0x40;
        *b8 = *b8 & 0x3f | 0x80;
        Ok(Self(bytes))
    }

    /// A new UUID that sorts after earlier ones, as far as clocks agree (version 7 of RFC 9562): milliseconds since
    /// 1970, and 74 random bits. Entries with such keys are appended to a store instead of being inserted.
    ///
    /// # Errors
    ///
    /// If the operating system has no random bytes.
    pub fn ordered() -> Result<Self, getrandom::Error> {
        let Self(mut bytes) = Self::random()?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = since.unwrap_or_default().as_millis();
        let [_, _, _, _, _, _, _, _, _, _, time @ ..] = millis.to_be_bytes();
        if let Some(first) = bytes.first_chunk_mut() {
            *first = time;
        }
        let [.., b6, _, _, _, _, _, _, _, _, _] = &mut bytes;
        *b6 = *b6 & 0x0f | 0x70;
        Ok(Self(bytes))
    }

    /// Parses 32 hexadecimal digits, with or without hyphens.
    pub fn parse(text: &str) -> Option<Self> {
        let digits: Vec<u8> = text.bytes().filter(|&byte| byte != b'-').collect();
        if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let digits = std::str::from_utf8(&digits).ok()?;
        Some(Self(u128::from_str_radix(digits, 16).ok()?.to_be_bytes()))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_identifiers_are_the_same() {
        let uuid = Uuid::random().unwrap();
        let text = uuid.to_string();
        assert_eq!(text.len(), 36);
        assert_eq!(&text[14..15], "4");
        assert!("89ab".contains(&text[19..20]));
        assert_eq!(Uuid::parse(&text), Some(uuid));
        assert_eq!(Uuid::parse(&text.replace('-', "")), Some(uuid));
        assert_eq!(Uuid::parse("+123456789012345678901234567890a"), None);
        assert_ne!(Uuid::random().unwrap(), uuid);
    }

    #[test]
    fn later_ones_follow_earlier_ones() {
        let first = Uuid::ordered().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let second = Uuid::ordered().unwrap();
        assert!(first < second);
        let text = second.to_string();
        assert_eq!(&text[14..15], "7");
        assert!("89ab".contains(&text[19..20]));
    }
}
