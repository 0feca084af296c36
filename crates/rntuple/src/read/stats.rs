//! Counters of reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of an ntuple's reads; they only increase.
        #[derive(Debug, Default)]
        pub struct Stats { $($(#[$doc])* pub $name: AtomicU64,)* }

        impl Stats {
            /// Names and current values.
            pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Relaxed)),)*]
            }

            /// Adds the counters of another.
            pub fn merge(&self, other: &Stats) {
                $(self.$name.fetch_add(other.$name.load(Relaxed), Relaxed);)*
            }
        }
    };
}

stats! {
    /// Bytes of the pages and envelopes that were needed.
    bytes_needed,
    /// Pages decoded.
    pages,
    /// Bytes after decompression.
    bytes_decompressed,
    /// Bytes of the results.
    bytes_decoded,
    /// Pages found in the cache of an iteration.
    cached_pages,
    /// Nanoseconds in I/O, summed over threads.
    io_ns,
    /// Nanoseconds in decompression, summed over threads.
    decompress_ns,
    /// Nanoseconds in checksums and decoding, summed over threads.
    decode_ns,
}

/// Adds to a counter.
pub fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}

/// Nanoseconds since `start`.
pub fn elapsed(start: std::time::Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
