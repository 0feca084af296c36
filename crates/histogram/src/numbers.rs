//! Numbers as big-endian bytes.

/// The stored type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
}

impl Kind {
    pub fn size(self) -> usize {
        match self {
            Self::I8 => 1,
            Self::I16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }
}

/// The integer in `bytes`; zero for floating-point types.
pub(crate) fn int(kind: Kind, bytes: &[u8]) -> i64 {
    fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.first_chunk().copied().unwrap_or([0; N])
    }
    match kind {
        Kind::I8 => i64::from(i8::from_be_bytes(array(bytes))),
        Kind::I16 => i64::from(i16::from_be_bytes(array(bytes))),
        Kind::I32 => i64::from(i32::from_be_bytes(array(bytes))),
        Kind::I64 => i64::from_be_bytes(array(bytes)),
        Kind::F32 | Kind::F64 => 0,
    }
}

/// The number in `bytes`.
pub(crate) fn real(kind: Kind, bytes: &[u8]) -> f64 {
    match kind {
        Kind::F32 => {
            let bits = bytes.first_chunk().copied().unwrap_or_default();
            f64::from(f32::from_be_bytes(bits))
        }
        Kind::F64 => f64::from_be_bytes(bytes.first_chunk().copied().unwrap_or_default()),
        #[expect(clippy::cast_precision_loss, reason = "as ROOT reads contents")]
        _ => int(kind, bytes) as f64,
    }
}

/// Writes an integer, limited to the range that ROOT's histograms use: the smallest value of the type is
/// excluded.
pub(crate) fn put_int(kind: Kind, bytes: &mut [u8], value: i64) {
    #[expect(clippy::cast_possible_truncation, reason = "limited to what fits")]
    let write = |bytes: &mut [u8]| match kind {
        Kind::I8 => put(
            bytes,
            (limited(value, i64::from(i8::MAX)) as i8).to_be_bytes(),
        ),
        Kind::I16 => put(
            bytes,
            (limited(value, i64::from(i16::MAX)) as i16).to_be_bytes(),
        ),
        Kind::I32 => put(
            bytes,
            (limited(value, i64::from(i32::MAX)) as i32).to_be_bytes(),
        ),
        _ => put(bytes, limited(value, i64::MAX).to_be_bytes()),
    };
    write(bytes);
}

fn limited(value: i64, most: i64) -> i64 {
    value.clamp(-most, most)
}

fn put<const N: usize>(bytes: &mut [u8], value: [u8; N]) {
    if let Some(place) = bytes.first_chunk_mut() {
        *place = value;
    }
}

/// Writes a number.
pub(crate) fn put_real(kind: Kind, bytes: &mut [u8], value: f64) {
    match kind {
        #[expect(clippy::cast_possible_truncation, reason = "it is stored as such")]
        Kind::F32 => put(bytes, (value as f32).to_be_bytes()),
        Kind::F64 => put(bytes, value.to_be_bytes()),
        #[expect(clippy::cast_possible_truncation, reason = "saturates")]
        _ => put_int(kind, bytes, value as i64),
    }
}

/// Adds a number in place as ROOT does: in its own precision, and limited to the range of integers.
pub(crate) fn add_to(kind: Kind, target: &mut [u8], bytes: &[u8]) {
    let single =
        |bytes: &[u8]| f32::from_be_bytes(bytes.first_chunk().copied().unwrap_or_default());
    match kind {
        Kind::F32 => put(target, (single(target) + single(bytes)).to_be_bytes()),
        Kind::F64 => put_real(kind, target, real(kind, target) + real(kind, bytes)),
        _ => put_int(
            kind,
            target,
            int(kind, target).saturating_add(int(kind, bytes)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_stop_at_their_limits() {
        for (kind, most) in [
            (Kind::I8, 127),
            (Kind::I16, 32767),
            (Kind::I32, i64::from(i32::MAX)),
        ] {
            for sign in [1, -1] {
                let mut bytes = [0; 8];
                put_int(kind, &mut bytes, sign * (most - 1));
                let mut other = [0; 8];
                put_int(kind, &mut other, sign * 5);
                add_to(kind, &mut bytes, &other);
                assert_eq!(int(kind, &bytes), sign * most);
            }
        }
        let mut bytes = (i64::MAX - 1).to_be_bytes();
        add_to(Kind::I64, &mut bytes, &5i64.to_be_bytes());
        assert_eq!(i64::from_be_bytes(bytes), i64::MAX);
    }
}
