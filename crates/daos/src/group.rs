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
    let mut requests: Vec<Vec<Member>> = Vec::new();
    let mut open: HashMap<(ObjectId, u64), (usize, u64)> = HashMap::new();
    for value in values {
        let place = (value.key.object, value.key.dkey);
        let known = open
            .get_mut(&place)
            .filter(|(_, bytes)| *bytes < ENOUGH_BYTES);
        let request = known.and_then(|(number, bytes)| Some((requests.get_mut(*number)?, bytes)));
        match request.filter(|(members, _)| members.len() < MOST_VALUES) {
            Some((members, bytes)) => {
                members.push(value);
                *bytes = bytes.saturating_add(value.size);
            }
            None => {
                open.insert(place, (requests.len(), value.size));
                requests.push(vec![value]);
            }
        }
    }
    requests
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
