//! Payloads: from the bytes of a record to those of the object.

use bytes::Bytes;
use femtobarn_codec::{CodecError, Decompressor, RecordHeader};

use crate::RootFileError;
use crate::cursor::{Cursor, Place};
use crate::key::Key;

/// How much larger than its payload the memory for an object is made before any of it has been
/// decompressed; more is added as compression records prove to be there.
const TRUSTED_RATIO: usize = 16;

/// The object in `record`, the bytes of the whole record of `key`.
///
/// The key at the beginning of the record must have the sizes that `key` has: a key list that is
/// out of step with its records would give bytes that are none of the object's.
pub(crate) fn object_of(url: &str, record: &Bytes, key: &Key) -> Result<Bytes, RootFileError> {
    let place = Place {
        url,
        what: "record of an object",
    };
    let describe = |key: &Key| {
        let (n_bytes, key_len, object_len) = (key.n_bytes, key.key_len, key.object_len);
        format!(
            "a record of {n_bytes} bytes, {key_len} of them the key, for an object of {object_len}"
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

/// The object in `record` without regard to the key that it begins with.
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
    decompress(&payload, key.object_len as usize)
        .map(Bytes::from)
        .map_err(|source| RootFileError::Decompress {
            url: url.to_owned(),
            offset: key.payload_offset(),
            source,
        })
}

/// Decompresses one record after the other, so that memory grows only as far as records go on.
fn decompress(payload: &[u8], length: usize) -> Result<Vec<u8>, CodecError> {
    let mut decompressor = Decompressor::new();
    let trusted = payload.len().saturating_mul(TRUSTED_RATIO);
    let mut object = Vec::with_capacity(length.min(trusted));
    let mut rest = payload;
    let mut at = 0;
    while object.len() < length {
        let header = RecordHeader::parse(rest)?;
        let size = header
            .compressed
            .saturating_add(RecordHeader::SIZE)
            .min(rest.len());
        let (record, next) = rest.split_at(size);
        let filled = object.len();
        let room = header.uncompressed.min(length - filled);
        object.resize(filled + room, 0);
        decompressor.decompress(record, object.get_mut(filled..).unwrap_or_default())?;
        (rest, at) = (next, at + size);
    }
    if rest.is_empty() {
        Ok(object)
    } else {
        Err(CodecError::TrailingBytes {
            offset: at,
            found: rest.len(),
        })
    }
}
