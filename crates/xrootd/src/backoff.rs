//! The time to wait before a retry.

use std::time::Duration;

/// The wait before the first delayed retry. It doubles for each further one.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// The wait before the next retry, after so many delayed retries: exponential, with a random part, so that clients of one
/// server do not retry all at once.
#[must_use]
pub fn backoff(tries: usize) -> Duration {
    let doubled = FIRST * (1 << tries.min(10));
    let chance = getrandom::u32().unwrap_or(u32::MAX / 2);
    doubled
        .min(LONGEST)
        .mul_f64(0.5 + f64::from(chance) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_differ() {
        for tries in [0, 3, 50] {
            let usual = (FIRST * (1 << tries.min(10))).min(LONGEST);
            let found = backoff(tries);
            assert!(found >= usual / 2 && found <= usual * 3 / 2, "{found:?}");
        }
    }
}
