//! Encodes structures of the container.

use crate::{Datime, DirectoryRecord, FileHeader, FreeSegment, Key, Uuid};

/// Positions from here on have 64 bits: ROOT's kStartBigFile.
pub(super) const BIG: u64 = 2_000_000_000;

/// Size of a directory's record of either width: the narrow one has room for the wide one.
pub(super) const DIRECTORY_SIZE: usize = 60;

/// Size of the record up to the last position, with 32-bit and with 64-bit positions.
pub(super) const NARROW_RECORD: usize = 30;
pub(super) const WIDE_RECORD: usize = 42;

/// Big-endian values, one after another.
#[derive(Debug, Default)]
pub(super) struct Encoder(pub Vec<u8>);

impl Encoder {
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// A position, of 64 bits if `wide`.
    pub fn position(&mut self, value: u64, wide: bool) -> &mut Self {
        let bytes = value.to_be_bytes();
        self.0.extend(if wide { &bytes[..] } else { &bytes[4..] });
        self
    }

    /// A TString: its length in one byte, or 255 and a 32-bit length.
    pub fn string(&mut self, text: &str) -> &mut Self {
        match u8::try_from(text.len()) {
            Ok(length) if length < 255 => self.u8(length),
            _ => self
                .u8(255)
                .u32(u32::try_from(text.len()).unwrap_or(u32::MAX)),
        };
        self.0.extend(text.as_bytes());
        self
    }

    pub fn uuid(&mut self, uuid: Uuid) -> &mut Self {
        self.u16(1);
        self.0.extend(uuid.0);
        self
    }
}

/// Whether a record needs 64-bit positions.
pub(super) fn is_wide(positions: &[u64]) -> bool {
    positions.iter().any(|&position| position > BIG)
}

/// A key, as in front of a record and in key lists.
pub(crate) fn key(key: &Key) -> Vec<u8> {
    let wide = key.version > 1000;
    let mut out = Encoder::default();
    out.u32(key.n_bytes)
        .u16(key.version)
        .u32(key.object_len)
        .u32(key.datetime.0);
    out.u16(key.key_len).u16(key.cycle);
    out.position(key.seek_key, wide)
        .position(key.seek_parent, wide);
    out.string(&key.class_name)
        .string(&key.name)
        .string(&key.title);
    out.0
}

/// A directory's record. Its size is constant, so that it can be overwritten.
pub(super) fn directory(record: &DirectoryRecord, uuid: Uuid) -> Vec<u8> {
    let wide = is_wide(&[record.seek_dir, record.seek_parent, record.seek_keys]);
    let mut out = Encoder::default();
    out.u16(if wide { 1005 } else { 5 })
        .u32(record.created.0)
        .u32(record.modified.0);
    out.u32(record.n_bytes_keys).u32(record.n_bytes_name);
    for position in [record.seek_dir, record.seek_parent, record.seek_keys] {
        out.position(position, wide);
    }
    out.uuid(uuid);
    out.0.resize(DIRECTORY_SIZE, 0);
    out.0
}

/// The file header.
pub(super) fn header(header: &FileHeader) -> Vec<u8> {
    let wide = header.version >= 1_000_000;
    let mut out = Encoder(b"root".to_vec());
    out.u32(header.version)
        .u32(u32::try_from(header.begin).unwrap_or(u32::MAX));
    out.position(header.end, wide)
        .position(header.seek_free, wide);
    out.u32(header.n_bytes_free)
        .u32(header.n_free)
        .u32(header.n_bytes_name)
        .u8(header.units);
    out.u32(header.compression)
        .position(header.seek_info, wide)
        .u32(header.n_bytes_info);
    out.uuid(header.uuid);
    out.0
}

/// A free segment.
pub(super) fn free_segment(segment: FreeSegment) -> Vec<u8> {
    let wide = is_wide(&[segment.first, segment.last]);
    let mut out = Encoder::default();
    out.u16(if wide { 1001 } else { 1 })
        .position(segment.first, wide)
        .position(segment.last, wide);
    out.0
}

/// A time in ROOT's packed form.
pub(super) fn datime(seconds: u64) -> Datime {
    // days to a Gregorian date: Howard Hinnant's civil_from_days
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let year = year.clamp(1995, 1995 + 63) - 1995;
    let packed = year << 26 | month << 22 | day << 17 | hour << 12 | minute << 6 | second;
    Datime(u32::try_from(packed).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(datime(1_709_251_199).to_string(), "2024-02-29 23:59:59");
        assert_eq!(datime(1_709_251_200).to_string(), "2024-03-01 00:00:00");
        assert_eq!(datime(946_684_800).to_string(), "2000-01-01 00:00:00");
        assert_eq!(datime(1_795_305_600).to_string(), "2026-11-22 00:00:00");
    }

    #[test]
    fn long_strings_have_long_lengths() {
        let mut out = Encoder::default();
        out.string(&"x".repeat(254)).string(&"y".repeat(255));
        assert_eq!(out.0[0], 254);
        assert_eq!(out.0[255..260], [255, 0, 0, 0, 255]);
    }
}
