//! Small values of the format: dates and UUIDs.

use std::fmt;

/// A TDatime: local time of the writer, to the second, from 1995 to 2058.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Datime(pub u32);

impl Datime {
    /// The year.
    #[must_use]
    pub fn year(self) -> u32 {
        1995 + (self.0 >> 26)
    }

    /// The month, 1 to 12 in an intact file.
    #[must_use]
    pub fn month(self) -> u32 {
        self.0 >> 22 & 0xF
    }

    /// The day of the month, 1 to 31 in an intact file.
    #[must_use]
    pub fn day(self) -> u32 {
        self.0 >> 17 & 0x1F
    }

    /// The hour.
    #[must_use]
    pub fn hour(self) -> u32 {
        self.0 >> 12 & 0x1F
    }

    /// The minute.
    #[must_use]
    pub fn minute(self) -> u32 {
        self.0 >> 6 & 0x3F
    }

    /// The second.
    #[must_use]
    pub fn second(self) -> u32 {
        self.0 & 0x3F
    }
}

impl fmt::Display for Datime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = (self.year(), self.month(), self.day());
        write!(f, "{year:04}-{month:02}-{day:02} ")?;
        write!(
            f,
            "{:02}:{:02}:{:02}",
            self.hour(),
            self.minute(),
            self.second()
        )
    }
}

/// A TUUID: the file's universally unique identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// A random UUID (version 4 of RFC 9562).
    pub fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        // the standard library seeds its hash maps from the system's random numbers, once for a process and its forks
        let own = || (std::process::id(), std::time::Instant::now());
        let random = || RandomState::new().hash_one(own()).to_be_bytes();
        let mut bytes = [0; 16];
        let (high, low) = bytes.split_at_mut(8);
        high.copy_from_slice(&random());
        low.copy_from_slice(&random());
        Self(bytes).with_version(4)
    }

    /// A UUID with these bits (version 8 of RFC 9562).
    pub fn of(bits: u128) -> Self {
        Self(bits.to_be_bytes()).with_version(8)
    }

    fn with_version(mut self, number: u8) -> Self {
        let [.., version, _, variant, _, _, _, _, _, _, _] = &mut self.0;
        *version = *version & 0x0f | number << 4;
        *variant = *variant & 0x3f | 0x80;
        self
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let dash = if matches!(index, 4 | 6 | 8 | 10) {
                "-"
            } else {
                ""
            };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datime_unpacks_to_the_second() {
        let packed = (2024 - 1995) << 26 | 12 << 22 | 31 << 17 | 23 << 12 | 59 << 6 | 58;
        assert_eq!(Datime(packed).to_string(), "2024-12-31 23:59:58");
    }

    #[test]
    fn uuid_is_written_as_everywhere() {
        let uuid = Uuid(std::array::from_fn(|index| u8::try_from(index).unwrap()));
        assert_eq!(uuid.to_string(), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
