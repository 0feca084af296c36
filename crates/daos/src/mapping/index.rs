//! The index of an ntuple in its container.

/// Constants of `std::hash<std::string>` of libstdc++ on machines of 64 bits, a variant of MurmurHash64A.
const SEED: u64 = 0xc70f_6907;
const MUL: u64 = 0xc6a4_a793_5bd1_e995;

/// The index of an ntuple, by its name: the lower half of the upper half of the IDs of its objects. Two names may have the
/// same index; then the second ntuple cannot be in the same container.
pub fn ntuple_index(name: &str) -> u32 {
    let hash = hash(name.as_bytes());
    #[expect(clippy::cast_possible_truncation, reason = "both halves of the hash")]
    let (upper, lower) = ((hash >> 32) as u32, hash as u32);
    let mixed = lower
        .wrapping_add(0x9e37_79b9)
        .wrapping_add(upper << 6)
        .wrapping_add(upper >> 2);
    // 0 is for what belongs to the container as a whole
    (upper ^ mixed).max(1)
}

fn hash(bytes: &[u8]) -> u64 {
    let shift = |value: u64| value ^ (value >> 47);
    let (words, tail) = bytes.as_chunks::<8>();
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(MUL);
    for word in words {
        let word = shift(u64::from_le_bytes(*word).wrapping_mul(MUL)).wrapping_mul(MUL);
        hash = (hash ^ word).wrapping_mul(MUL);
    }
    if !tail.is_empty() {
        let last = tail
            .iter()
            .rev()
            .fold(0, |last, &byte| last << 8 | u64::from(byte));
        hash = (hash ^ last).wrapping_mul(MUL);
    }
    shift(shift(hash).wrapping_mul(MUL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_those_that_root_computes() {
        // by std::hash of libstdc++ and ROOT's way of folding it
        VECTORS
            .iter()
            .for_each(|&(name, index)| assert_eq!(ntuple_index(name), index, "{name}"));
    }

    const VECTORS: [(&str, u32); 11] = [
        ("Events", 0x87d4_b929),
        ("ntuple", 0x5ceb_4a60),
        ("", 0x744c_be9b),
        ("a", 0xce89_4939),
        ("Runs", 0x4cb8_0a03),
        ("LuminosityBlocks", 0x3a40_e85c),
        ("12345678", 0x9e6c_f3e5),
        ("123456789", 0xf346_f6be),
        ("DecayTree", 0x9923_67fb),
        ("Größe", 0x9b48_788c),
        (
            "a long name with more than two words of eight bytes",
            0x4479_ffc8,
        ),
    ];
}
