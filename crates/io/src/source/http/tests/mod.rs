//! Tests with servers: those that there are, and such as do what none of these can be made to do.

use std::collections::BTreeMap;

use super::*;

mod liars;
mod servers;

/// So small that everything else is read by requests of its own.
const SMALL: Ends = Ends { head: 16, tail: 16 };

fn settings(url: &str, given: &[(&str, &str)]) -> Settings {
    let given: BTreeMap<String, String> = given
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Settings::new(url, given).unwrap()
}

/// The error with all that is below it.
fn part<'a>(content: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let place = |place: u64| usize::try_from(place).unwrap();
    &content[place(range.start)..place(range.end)]
}
