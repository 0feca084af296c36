//! How a value is stored: its bytes, a byte that says what they are, and the lower 32 bits of XXH3-64 of both.
//!
//! The bytes come first, so that they are aligned as the engine aligns values.

use xxhash_rust::xxh3::xxh3_64;

/// How many bytes are stored behind those of a value.
pub const SEAL: usize = 5;

/// The bytes are the product.
pub const INLINE: u8 = 0;

/// Appends a value with its seal.
pub fn seal(value: &[u8], tag: u8, stored: &mut Vec<u8>) {
    let start = stored.len();
    stored.reserve(value.len() + SEAL);
    stored.extend_from_slice(value);
    stored.push(tag);
    let sum = checksum(stored.get(start..).unwrap_or_default());
    stored.extend_from_slice(&sum);
}

/// The value and the tag of what is stored; else what was expected and what found.
pub fn unseal(stored: &[u8]) -> Result<(&[u8], u8), (String, String)> {
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

fn checksum(bytes: &[u8]) -> [u8; 4] {
    let [a, b, c, d, ..] = xxh3_64(bytes).to_le_bytes();
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

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
