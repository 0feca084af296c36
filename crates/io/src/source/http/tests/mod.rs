//! Tests with servers: those that there are, and such as do what none of these can be made to do.

use super::*;

mod liars;
mod servers;
mod slow;

/// So small that everything else is read by requests of its own.
const SMALL: Ends = Ends { head: 16, tail: 16 };

/// What a range is of a content.
fn part<'a>(content: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let place = |place: u64| usize::try_from(place).unwrap();
    &content[place(range.start)..place(range.end)]
}
