//! The stored form of a value: its bytes, a tag byte, and the lower 32 bits of XXH3-64 of both.
//!
//! The bytes come first, so they keep the alignment of the engine's values.

use std::cell::RefCell;

use xxhash_rust::xxh3::xxh3_64;
use zstd_safe::{CCtx, DCtx};

/// Number of bytes after the value.
pub const SEAL: usize = 5;

/// The bytes are the product itself.
pub const INLINE: u8 = 0;

/// The bytes are a zstd frame with its content size; its content is the product.
pub const ZSTD: u8 = 2;

/// Smaller products are not compressed: this would save little and make loading slower.
const LEAST: usize = 128;
/// Larger products are not compressed either. Frames are limited to this size, so a few bytes cannot allocate much
/// memory.
const MOST: usize = 64 << 20;
/// Higher levels save little more, because a single product is short.
const LEVEL: i32 = 1;

thread_local! {
    /// A zstd context is expensive to create, so each thread keeps one.
    static COMPRESSOR: RefCell<Option<(CCtx<'static>, Vec<u8>)>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// The expected and the found content of a stored value.
pub type Damage = (String, String);

/// Appends a value with its seal.
pub fn seal(value: &[u8], tag: u8, stored: &mut Vec<u8>) {
    let start = stored.len();
    stored.reserve(value.len() + SEAL);
    stored.extend_from_slice(value);
    stored.push(tag);
    let sum = checksum(stored.get(start..).unwrap_or_default());
    stored.extend_from_slice(&sum);
}

/// The value and the tag of stored bytes; otherwise the expected and the found content.
pub fn unseal(stored: &[u8]) -> Result<(&[u8], u8), Damage> {
    let Some((sealed, found)) = stored.split_last_chunk() else {
        let found = format!("{} bytes", stored.len());
        return Err((format!("at least {SEAL} bytes"), found));
    };
    let expected = checksum(sealed);
    if expected != *found {
        let [expected, found] = [expected, *found].map(u32::from_le_bytes);
        return Err((
            format!("checksum {expected:#010x}"),
            format!("{found:#010x}"),
        ));
    }
    let (&tag, value) = sealed.split_last().unwrap_or((&INLINE, &[]));
    Ok((value, tag))
}

/// Compresses a sealed value in its buffer if this saves 10 %; returns the new size.
pub fn compress(stored: &mut [u8]) -> Option<usize> {
    let length = stored.len().checked_sub(SEAL)?;
    if !may_be_compressed(length) || stored.get(length) != Some(&INLINE) {
        return None;
    }
    COMPRESSOR.with_borrow_mut(|kept| {
        let (context, room) = match kept {
            Some(kept) => kept,
            empty => empty.insert((CCtx::try_create()?, Vec::new())),
        };
        // If it saves less, the buffer is too small and zstd stops.
        room.resize(length - length.div_ceil(10), 0);
        let n = context
            .compress(room.as_mut_slice(), stored.get(..length)?, LEVEL)
            .ok()?;
        stored.get_mut(..n)?.copy_from_slice(room.get(..n)?);
        *stored.get_mut(n)? = ZSTD;
        let sum = checksum(stored.get(..=n)?);
        stored.get_mut(n + 1..n + SEAL)?.copy_from_slice(&sum);
        Some(n + SEAL)
    })
}

/// Whether a value of this size is worth trying to compress.
pub fn may_be_compressed(length: usize) -> bool {
    (LEAST..=MOST).contains(&length)
}

/// The product of stored bytes, or the bytes with another tag. Compressed products are decompressed into `room`.
pub fn open<'s>(stored: &'s [u8], room: &'s mut Vec<u8>) -> Result<(&'s [u8], u8), Damage> {
    match unseal(stored)? {
        (frame, ZSTD) => Ok((decompress(frame, room)?, INLINE)),
        value => Ok(value),
    }
}

fn decompress<'r>(frame: &[u8], room: &'r mut Vec<u8>) -> Result<&'r [u8], Damage> {
    let size = zstd_safe::get_frame_content_size(frame).ok().flatten();
    let size = size.and_then(|size| usize::try_from(size).ok());
    let Some(size) = size.filter(|size| *size <= MOST) else {
        let expected = format!("a zstd frame with its size, {MOST} bytes at most");
        return Err((expected, format!("{} bytes without one", frame.len())));
    };
    if zstd_safe::find_frame_compressed_size(frame) != Ok(frame.len()) {
        let expected = "one zstd frame without further bytes".into();
        return Err((expected, format!("{} bytes of other data", frame.len())));
    }
    room.resize(size, 0);
    let found = DECOMPRESSOR.with_borrow_mut(|kept| {
        let context = match kept {
            Some(kept) => kept,
            empty => empty.insert(DCtx::try_create().ok_or("not enough memory")?),
        };
        let decompressed = context.decompress(room.as_mut_slice(), frame);
        decompressed.map_err(zstd_safe::get_error_name)
    });
    match found {
        Ok(found) if found == size => Ok(room),
        found => {
            let found = found.map_or_else(str::to_owned, |found| format!("{found} bytes"));
            Err((format!("{size} bytes of zstd"), found))
        }
    }
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    let [a, b, c, d, ..] = xxh3_64(bytes).to_le_bytes();
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealed(value: &[u8], tag: u8) -> Vec<u8> {
        let mut stored = Vec::new();
        seal(value, tag, &mut stored);
        stored
    }

    #[test]
    fn what_saves_a_tenth_is_compressed_and_comes_back() {
        let noise: Vec<u8> = (0..2000_u64)
            .flat_map(|n| xxh3_64(&n.to_le_bytes()).to_le_bytes())
            .collect();
        for (value, is_smaller) in [
            (vec![7; LEAST - 1], false),
            (vec![7; LEAST], true),
            (vec![7; MOST], true),
            (vec![7; MOST + 1], false),
            (noise.clone(), false),
            (
                [noise.as_slice(), &vec![0; noise.len() / 12]].concat(),
                false,
            ),
            ([noise.as_slice(), &vec![0; noise.len() / 8]].concat(), true),
        ] {
            let mut stored = sealed(&value, INLINE);
            let n = compress(&mut stored);
            assert_eq!(n.is_some(), is_smaller, "{} bytes", value.len());
            stored.truncate(n.unwrap_or(stored.len()));
            assert!(n.is_none_or(|n| (n - SEAL) * 10 <= value.len() * 9));
            assert_eq!(
                open(&stored, &mut Vec::new()),
                Ok((value.as_slice(), INLINE))
            );
            assert_eq!(
                compress(&mut stored),
                None,
                "it is compressed, or not worth it"
            );
        }
        let mut reference = sealed(&[7; 1000], 1);
        assert_eq!(compress(&mut reference), None);
    }

    #[test]
    fn frames_that_are_not_whole_or_too_long_are_damage() {
        let frame = |size: u64, value: &[u8]| {
            let mut context = CCtx::create();
            context.set_pledged_src_size(Some(size)).unwrap();
            let mut frame = vec![0; 1000];
            let n = context.compress(frame.as_mut_slice(), value, 1).unwrap();
            frame.truncate(n);
            frame
        };
        let good = frame(500, &[7; 500]);
        assert_eq!(
            open(&sealed(&good, ZSTD), &mut Vec::new()),
            Ok((&[7; 500][..], INLINE))
        );
        // 4 bytes of size, and one segment
        let endless = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &[0xff; 8], &good[6..]].concat();
        for bad in [
            &good[..good.len() - 1],
            &[good.as_slice(), &[0]].concat(),
            &[good.as_slice(), &good].concat(),
            &endless,
            b"",
        ] {
            let mut room = Vec::new();
            assert!(open(&sealed(bad, ZSTD), &mut room).is_err());
            assert!(room.capacity() < 1000);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_value_or_damage(bytes: Vec<u8>, is_frame: bool) {
            let magic: &[u8] = if is_frame { &[0x28, 0xb5, 0x2f, 0xfd] } else { &[] };
            let stored = sealed(&[magic, &bytes].concat(), ZSTD);
            let mut room = Vec::new();
            let opened = open(&stored, &mut room).is_ok();
            prop_assert!(opened || room.len() <= MOST);
        }
    }

    #[test]
    fn a_value_comes_back_and_a_damaged_one_does_not() {
        for value in [&b""[..], b"a", &[7; 1000]] {
            let mut stored = vec![1, 2, 3];
            seal(value, INLINE, &mut stored);
            let sealed = &stored[3..];
            assert_eq!(unseal(sealed), Ok((value, INLINE)));
            for at in 0..sealed.len() {
                let mut bad = sealed.to_vec();
                bad[at] ^= 1;
                assert!(unseal(&bad).is_err());
                assert!(unseal(&sealed[..at]).is_err());
            }
        }
    }
}
