//! The records of a segment's index, as docs/specs/cache.md describes them. Pure.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

/// Size of a record, of the header, and of the counter of hits behind it.
pub(super) const RECORD: usize = 64;

/// Where the records of an index begin: behind the header and the counter.
pub(super) const FIRST_RECORD: u64 = 2 * RECORD as u64;

const MAGIC: u64 = u64::from_le_bytes(*b"fbcache1");
const ENTRY: u64 = u64::from_le_bytes(*b"entry   ");
const CLAIM: u64 = u64::from_le_bytes(*b"claim   ");
const DONE: u64 = u64::from_le_bytes(*b"done    ");
const VOID: u64 = u64::from_le_bytes(*b"void    ");

/// A process that writes, so that others on its machine can tell whether it is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WriterId {
    /// A hash of the machine, its boot, and its numbering of processes.
    pub host: u64,
    pub process: u64,
    /// When the process began, in the machine's own unit.
    pub start: u64,
}

/// The beginning of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub writer: WriterId,
    pub segment: u64,
    /// Nanoseconds since 1970.
    pub time: u64,
}

/// How often a segment was of use. Any process writes it, so that it may lose a little, and has no checksum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Hits {
    /// Bytes that came from the segment, halved for each day without any.
    pub bytes: u64,
    /// When they were last written, in nanoseconds since 1970.
    pub time: u64,
}

/// A record of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// Bytes of the file, and where they are in the segment.
    Entry {
        range: Range<u64>,
        position: u64,
        hash: u64,
        time: u64,
    },
    /// The writer is about to fetch a range.
    Claim { range: Range<u64>, time: u64 },
    /// It has fetched the range, or has given up.
    Done { range: Range<u64>, time: u64 },
    /// Bytes of any segment are bad.
    Void {
        segment: u64,
        position: u64,
        time: u64,
    },
}

/// Seven numbers and their checksum.
fn sealed(numbers: [u64; 7]) -> [u8; RECORD] {
    let mut out = [0; RECORD];
    let (places, check) = out.split_at_mut(RECORD - 8);
    for (place, number) in places.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
        *place = number.to_le_bytes();
    }
    check.copy_from_slice(&xxh3_64(places).to_le_bytes());
    out
}

/// The seven numbers, if their checksum is right.
fn opened(bytes: &[u8]) -> Option<[u64; 7]> {
    let bytes: &[u8; RECORD] = bytes.first_chunk()?;
    let (content, check) = bytes.split_last_chunk::<8>()?;
    if xxh3_64(content) != u64::from_le_bytes(*check) {
        return None;
    }
    let mut out = [0; 7];
    for (number, place) in out.iter_mut().zip(content.as_chunks::<8>().0) {
        *number = u64::from_le_bytes(*place);
    }
    Some(out)
}

impl Header {
    pub fn bytes(&self) -> [u8; RECORD] {
        let WriterId {
            host,
            process,
            start,
        } = self.writer;
        sealed([MAGIC, host, process, start, self.segment, self.time, 0])
    }

    /// None if these are not the beginning of an index.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let [MAGIC, host, process, start, segment, time, _] = opened(bytes)? else {
            return None;
        };
        Some(Self {
            writer: WriterId {
                host,
                process,
                start,
            },
            segment,
            time,
        })
    }
}

impl Hits {
    pub fn bytes(self) -> [u8; 16] {
        let mut out = [0; 16];
        let (bytes, time) = out.split_at_mut(8);
        bytes.copy_from_slice(&self.bytes.to_le_bytes());
        time.copy_from_slice(&self.time.to_le_bytes());
        out
    }

    /// The counter behind the header of an index; without a valid counter, there were no hits.
    pub fn parse(index: &[u8]) -> Self {
        let number = |at| {
            let place = index.get(at..).and_then(|rest| rest.first_chunk::<8>());
            place.map_or(0, |place| u64::from_le_bytes(*place))
        };
        Self {
            bytes: number(RECORD),
            time: number(RECORD + 8),
        }
    }

    /// What they are worth later.
    pub fn aged(self, now: u64) -> u64 {
        const DAY: u64 = 86_400_000_000_000;
        let days = now.saturating_sub(self.time) / DAY;
        let days = u32::try_from(days).unwrap_or(u32::MAX);
        self.bytes.checked_shr(days).unwrap_or(0)
    }
}

impl Record {
    pub fn bytes(&self) -> [u8; RECORD] {
        sealed(match self {
            Self::Entry {
                range,
                position,
                hash,
                time,
            } => [ENTRY, range.start, range.end, *position, *hash, *time, 0],
            Self::Claim { range, time } => [CLAIM, range.start, range.end, 0, 0, *time, 0],
            Self::Done { range, time } => [DONE, range.start, range.end, 0, 0, *time, 0],
            Self::Void {
                segment,
                position,
                time,
            } => [VOID, *segment, 0, *position, 0, *time, 0],
        })
    }

    /// None if these bytes are none, because their writing was interrupted, or is not visible yet.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let [kind, start, end, position, hash, time, _] = opened(bytes)?;
        let range = start..end;
        match kind {
            ENTRY if !range.is_empty() && position.checked_add(end - start).is_some() => {
                Some(Self::Entry {
                    range,
                    position,
                    hash,
                    time,
                })
            }
            CLAIM => Some(Self::Claim { range, time }),
            DONE => Some(Self::Done { range, time }),
            VOID => Some(Self::Void {
                segment: start,
                position,
                time,
            }),
            _ => None,
        }
    }

    /// The records at the beginning of these bytes, up to the first that is none.
    pub fn parse_all(bytes: &[u8]) -> Vec<Self> {
        let records = bytes.as_chunks::<RECORD>().0.iter();
        records.map_while(|bytes| Self::parse(bytes)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_written_and_damage_in_any_byte_is_noticed() {
        let records = [
            Record::Entry {
                range: 5..9,
                position: 100,
                hash: u64::MAX,
                time: 7,
            },
            Record::Claim {
                range: 0..1 << 40,
                time: 1,
            },
            Record::Done {
                range: 3..4,
                time: 2,
            },
            Record::Void {
                segment: 77,
                position: 12,
                time: 3,
            },
        ];
        for record in &records {
            let bytes = record.bytes();
            assert_eq!(Record::parse(&bytes).as_ref(), Some(record));
            for at in 0..RECORD {
                let mut damaged = bytes;
                damaged[at] ^= 16;
                assert_eq!(Record::parse(&damaged), None, "{record:?}, byte {at}");
            }
        }
        let mut all = records.each_ref().map(Record::bytes).concat();
        assert_eq!(Record::parse_all(&all), records);
        // a torn record, and memory that was never written
        assert_eq!(Record::parse_all(&all[..3 * RECORD + 63]), records[..3]);
        all[RECORD..2 * RECORD].fill(0);
        assert_eq!(Record::parse_all(&all), records[..1]);
    }

    #[test]
    fn a_header_is_no_record_and_hits_are_worth_less_each_day() {
        let header = Header {
            writer: WriterId {
                host: 1,
                process: 2,
                start: 3,
            },
            segment: 4,
            time: 5,
        };
        assert_eq!(Header::parse(&header.bytes()), Some(header));
        assert_eq!(Record::parse(&header.bytes()), None);
        assert_eq!(Header::parse(&[0; RECORD]), None);
        let hits = Hits {
            bytes: 1000,
            time: 10,
        };
        let index = [&header.bytes()[..], &hits.bytes()].concat();
        assert_eq!(Hits::parse(&index), hits);
        assert_eq!(Hits::parse(&index[..RECORD]), Hits::default());
        let day = 86_400_000_000_000;
        assert_eq!((hits.aged(9), hits.aged(day + 10)), (1000, 500));
        assert_eq!(hits.aged(u64::MAX), 0);
    }
}
