//! How long to wait before something is tried again.

use std::time::Duration;

/// The wait before the first try that has one, doubled for each further one.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// The wait after so many tries that had one: longer from try to try, and not the same for all who wait for the same server.
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
