//! Payloads: from the bytes of a record to the bytes of the object.

use bytes::Bytes;
use femtobarn_codec::{CodecError, Decompressor, RecordHeader};

use crate::RootFileError;
use crate::cursor::{Cursor, Place};
use crate::key::Key;

/// Before decompression, memory of at most so many times the payload's size is allocated. More is added
/// as compression records turn out to exist.
const TRUSTED_RATIO: usize = 16;

/// The object in `record`, the bytes of the whole record of `key`.
///
/// The key at the beginning of the record must have the sizes and names of `key`. Otherwise, with a key
/// list that does not match the records, bytes would be returned that do not belong to the object.
pub(crate) fn object_of(url: &str, record: &Bytes, key: &Key) -> Result<Bytes, RootFileError> {
    let place = Place {
        url,
        what: "record of an object",
    };
    let describe = |key: &Key| {
        let (n_bytes, key_len, object_len) = (key.n_bytes, key.key_len, key.object_len);
        let (class, name, cycle) = (&key.class_name, &key.name, key.cycle);
        format!(
            "a record of {n_bytes} bytes, {key_len} of them the key, for the {class} {name:?};{cycle} of {object_len} bytes"
        )
    };
    let found = Key::parse(&mut Cursor::new(record, key.seek_key, place))
        .map_or_else(|_| "no record".to_owned(), |found| describe(&found));
    let expected = describe(key);
    if found != expected {
        return Err(place.corrupt(key.seek_key, expected, found));
    }
    payload_of(url, record, key)
}

/// The object in `record`, without checking the record's own key.
pub(crate) fn payload_of(url: &str, record: &Bytes, key: &Key) -> Result<Bytes, RootFileError> {
    let place = Place {
        url,
        what: "record of an object",
    };
    let (start, end) = (usize::from(key.key_len), key.n_bytes as usize);
    let truncated = || place.truncated(key.seek_key, u64::from(key.n_bytes), record.len() as u64);
    if start > end || end > record.len() {
        return Err(truncated());
    }
    let payload = record.slice(start..end);
    if !key.is_compressed() {
        let length = key.object_len as usize;
        return if length <= payload.len() {
            Ok(payload.slice(..length))
        } else {
            Err(truncated())
        };
    }
    let mut object = Vec::new();
    match decompress(&payload, key.object_len as usize, &mut object) {
        Ok(()) => Ok(Bytes::from(object)),
        Err((at, source)) => {
            let offset = key.payload_offset().saturating_add(at as u64);
            Err(RootFileError::Decompress {
                url: url.to_owned(),
                offset,
                source,
            })
        }
    }
}

/// Decompresses records one by one, so that memory grows only as far as records exist. An error comes
/// with the position of its record in the payload.
fn decompress(
    payload: &[u8],
    length: usize,
    object: &mut Vec<u8>,
) -> Result<(), (usize, CodecError)> {
    let mut decompressor = Decompressor::new();
    object.reserve_exact(length.min(payload.len().saturating_mul(TRUSTED_RATIO)));
    let mut rest = payload;
    let mut at = 0;
    while object.len() < length {
        let header = RecordHeader::parse(rest).map_err(|error| (at, error))?;
        let size = header
            .compressed
            .saturating_add(RecordHeader::SIZE)
            .min(rest.len());
        let (record, next) = rest.split_at(size);
        let filled = object.len();
        object.resize(filled + header.uncompressed.min(length - filled), 0);
        let target = object.get_mut(filled..).unwrap_or_default();
        if target.is_empty() {
            return Err((
                at,
                CodecError::EmptyRecord {
                    offset: 0,
                    expected: length - filled,
                },
            ));
        }
        decompressor
            .decompress(record, target)
            .map_err(|error| (at, error))?;
        (rest, at) = (next, at + size);
    }
    match rest.len() {
        0 => Ok(()),
        found => Err((at, CodecError::TrailingBytes { offset: 0, found })),
    }
}
