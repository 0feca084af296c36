//! Grouping of values into requests. Pure.

use std::collections::HashMap;

use crate::{ObjectId, ValueKey};

/// The most values of a request.
const MOST_VALUES: usize = 128;
/// A request is closed when it has so many bytes: larger ones gain nothing, and several in flight do.
const ENOUGH_BYTES: u64 = 1 << 20;

/// A value of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its place among what the caller wants.
    pub at: usize,
    pub key: ValueKey,
    /// Its size, or the memory for it.
    pub size: u64,
}

/// Cuts values into requests: each is for one dkey of one object, as the library takes them. Requests are in the order of
/// their first values.
pub(crate) fn requests(values: impl IntoIterator<Item = Member>) -> Vec<Vec<Member>> {
    let mut requests: Vec<(Vec<Member>, u64)> = Vec::new();
    let mut open: HashMap<(ObjectId, u64), usize> = HashMap::new();
    let mut last = None;
    for value in values {
        let place = (value.key.object, value.key.dkey);
        // values of a request are mostly beside each other
        let number = match last {
            Some((known, number)) if known == place => Some(number),
            _ => open.get(&place).copied(),
        };
        let request = number.and_then(|number| requests.get_mut(number));
        let has_room = |(members, bytes): &&mut (Vec<Member>, u64)| {
            members.len() < MOST_VALUES && *bytes < ENOUGH_BYTES
        };
        if let Some((members, bytes)) = request.filter(has_room) {
            members.push(value);
            *bytes = bytes.saturating_add(value.size);
            last = number.map(|number| (place, number));
        } else {
            open.insert(place, requests.len());
            last = Some((place, requests.len()));
            requests.push((vec![value], value.size));
        }
    }
    requests.into_iter().map(|(members, _)| members).collect()
}

/// The number of requests that write values, given as keys and sizes, in one call.
#[must_use]
pub fn n_requests(values: impl IntoIterator<Item = (ValueKey, u64)>) -> u64 {
    let member = |(at, (key, size))| Member { at, key, size };
    requests(values.into_iter().enumerate().map(member)).len() as u64
}

/// A key that occurs more than once.
pub(crate) fn repeated(keys: impl Iterator<Item = ValueKey>) -> Option<ValueKey> {
    let mut keys: Vec<ValueKey> = keys.collect();
    keys.sort_unstable();
    let pair = keys.array_windows().find(|[one, next]| one == next);
    pair.map(|[key, _]| *key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(lo: u64, dkey: u64, akey: u64) -> ValueKey {
        let object = ObjectId { lo, hi: 1 };
        ValueKey { object, dkey, akey }
    }

    /// The places of the values of each request.
    fn cut(values: impl IntoIterator<Item = (ValueKey, u64)>) -> Vec<Vec<usize>> {
        let member = |(at, (key, size))| Member { at, key, size };
        let requests = requests(values.into_iter().enumerate().map(member));
        let places = |members: &Vec<Member>| members.iter().map(|value| value.at).collect();
        requests.iter().map(places).collect()
    }

    #[test]
    fn values_of_one_object_and_dkey_are_one_request() {
        let keys = [
            key(1, 1, 1),
            key(1, 2, 1),
            key(1, 1, 2),
            key(2, 1, 1),
            key(1, 2, 2),
        ];
        assert_eq!(
            cut(keys.map(|key| (key, 10))),
            [vec![0, 2], vec![1, 4], vec![3]]
        );
    }

    #[test]
    fn a_request_with_enough_bytes_or_values_is_closed() {
        let half = ENOUGH_BYTES / 2;
        let sizes = [half, half, half, 2 * half, 1];
        let requests = cut(sizes.map(|size| (key(1, 1, size), size)));
        assert_eq!(requests, [vec![0, 1], vec![2, 3], vec![4]]);
        let many = cut((0..2 * MOST_VALUES as u64 + 1).map(|akey| (key(1, 1, akey), 0)));
        let sizes: Vec<_> = many.iter().map(Vec::len).collect();
        assert_eq!(sizes, [MOST_VALUES, MOST_VALUES, 1]);
        assert!(cut([]).is_empty());
    }
}
