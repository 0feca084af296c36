//! Tests with real servers, and with fake ones for cases that real servers cannot produce.

use super::*;

mod liars;
mod servers;
mod slow;

/// So small that everything else needs separate requests.
const SMALL: Ends = Ends { head: 16, tail: 16 };

/// The bytes of a range.
fn part<'a>(content: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let place = |place: u64| usize::try_from(place).unwrap();
    &content[place(range.start)..place(range.end)]
}
