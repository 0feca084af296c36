//! The slots of a cluster, which determine the server of a key.

/// The number of slots of a cluster.
pub const N_SLOTS: u16 = 16384;

/// The slot of all keys with a hash tag: the tag of `a{tag}b` is `tag`.
#[must_use]
pub fn slot(tag: &[u8]) -> u16 {
    crc16(tag) % N_SLOTS
}

/// The CRC-16 of Redis Cluster (XMODEM: polynomial 0x1021, initial value 0).
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 {
                shifted
            } else {
                shifted ^ 0x1021
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // from the specification of Redis Cluster, and CLUSTER KEYSLOT
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot(b"user1000"), 3443);
    }
}
