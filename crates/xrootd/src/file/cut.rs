//! Cuts a read into requests: small ranges together, long ranges in pieces.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::protocol::{LARGEST_ELEMENT, MOST_ELEMENTS};

/// Ranges up to this size are joined into vector reads. Longer ones are read by requests of their own, which servers send
/// while they read.
const LARGE: u64 = 1 << 20;

/// Bytes per read of a long range.
const PIECE: u64 = 8 << 20;

/// The most bytes of a vector read: the server holds them in memory until they are sent.
const MOST_BYTES: u64 = 64 << 20;

/// A server's limits on vector reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most elements per request.
    pub most_elements: usize,
    /// The most bytes of one element.
    pub largest_element: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            most_elements: MOST_ELEMENTS,
            largest_element: LARGEST_ELEMENT,
        }
    }
}

impl Limits {
    /// Parses the server's configuration values.
    pub(crate) fn parse(lines: &[String]) -> Self {
        let number = |at: usize| {
            lines
                .get(at)
                .and_then(|line| line.trim().parse::<u64>().ok())
        };
        let default = Self::default();
        let most = number(0).and_then(|most| usize::try_from(most).ok());
        Self {
            most_elements: most
                .filter(|&most| most > 0)
                .unwrap_or(default.most_elements),
            largest_element: number(1)
                .filter(|&most| most > 0)
                .unwrap_or(default.largest_element),
        }
    }
}

/// The content of one request.
pub(super) enum Read {
    One(Range<u64>),
    Several(Vec<Range<u64>>),
}

impl Read {
    pub fn of(ranges: Vec<Range<u64>>) -> Self {
        match <[Range<u64>; 1]>::try_from(ranges) {
            Ok([one]) => Self::One(one),
            Err(several) => Self::Several(several),
        }
    }

    pub fn ranges(&self) -> &[Range<u64>] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(several) => several,
        }
    }
}

/// Cuts ranges into requests, each with the numbers of the ranges of its parts. Empty ranges need no request.
pub(super) fn reads(ranges: &[Range<u64>], limits: Limits) -> Vec<(Read, Vec<usize>)> {
    let mut out = Vec::new();
    let mut together: (Vec<Range<u64>>, Vec<usize>, u64) = Default::default();
    let small = LARGE.min(limits.largest_element);
    for (at, range) in ranges
        .iter()
        .enumerate()
        .filter(|(_, range)| !range.is_empty())
    {
        let n_bytes = range.end - range.start;
        if n_bytes > small {
            let mut start = range.start;
            while start < range.end {
                let end = range.end.min(start + PIECE);
                out.push((Read::One(start..end), vec![at]));
                start = end;
            }
            continue;
        }
        let is_full = together.0.len() >= limits.most_elements || together.2 + n_bytes > MOST_BYTES;
        if is_full {
            out.push(request(std::mem::take(&mut together)));
        }
        together.0.push(range.clone());
        together.1.push(at);
        together.2 += n_bytes;
    }
    if !together.0.is_empty() {
        out.push(request(together));
    }
    out
}

fn request((ranges, owners, _): (Vec<Range<u64>>, Vec<usize>, u64)) -> (Read, Vec<usize>) {
    (Read::of(ranges), owners)
}

pub(super) fn joined(parts: Vec<Bytes>) -> Bytes {
    let mut parts = parts.into_iter();
    match (parts.next(), parts.len()) {
        (None, _) => Bytes::new(),
        (Some(only), 0) => only,
        (Some(first), _) => {
            let mut all = BytesMut::from(first);
            parts.for_each(|part| all.extend_from_slice(&part));
            all.freeze()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_ranges_go_together_and_long_ones_in_pieces() {
        let limits = Limits {
            most_elements: 2,
            largest_element: 1 << 21,
        };
        let long = 5..5 + (PIECE + 10);
        let ranges = [0..10, 10..10, long, 20..30, 40..50];
        let found = reads(&ranges, limits);
        let shape: Vec<(usize, Vec<usize>)> = found
            .iter()
            .map(|(read, owners)| match read {
                Read::One(_) => (1, owners.clone()),
                Read::Several(ranges) => (ranges.len(), owners.clone()),
            })
            .collect();
        assert_eq!(
            shape,
            [(1, vec![2]), (1, vec![2]), (2, vec![0, 3]), (1, vec![4])]
        );
        let bytes: u64 = found
            .iter()
            .map(|(read, _)| match read {
                Read::One(range) => range.end - range.start,
                Read::Several(ranges) => ranges.iter().map(|range| range.end - range.start).sum(),
            })
            .sum();
        assert_eq!(bytes, 30 + PIECE + 10);
    }

    #[test]
    fn limits_are_those_that_the_server_says() {
        let lines = |lines: &[&str]| {
            lines
                .iter()
                .map(|&line| line.to_owned())
                .collect::<Vec<_>>()
        };
        let found = Limits::parse(&lines(&["512", "100000"]));
        assert_eq!((found.most_elements, found.largest_element), (512, 100_000));
        // servers repeat names that they do not know
        assert_eq!(
            Limits::parse(&lines(&["readv_iov_max", "0"])),
            Limits::default()
        );
        assert_eq!(Limits::parse(&[]), Limits::default());
    }
}
