//! Golden JSON: the certified luminosity blocks of each run.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use femtobarn_io::{Settings, public};
use femtobarn_rntuple::RNTupleError;
use serde_json::{Map, Value};

use crate::open::open_source_with;

/// Certified luminosity blocks: ranges of blocks, both ends included, for each run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LumiMask {
    /// Sorted, without overlaps.
    runs: HashMap<i64, Vec<(i64, i64)>>,
}

/// Opens the golden JSON that a string names; the error is a message.
pub type OpenMask<'a> = &'a dyn Fn(&str) -> Result<Arc<LumiMask>, String>;

/// The largest file that is read; those of a year have about 100 kB.
const LARGEST: u64 = 256 << 20;

/// The mask in a file, or in a string that is JSON itself.
pub fn open_mask(place: &str) -> Result<Arc<LumiMask>, String> {
    match LumiMask::open(place, BTreeMap::new()) {
        Ok(mask) => Ok(Arc::new(mask)),
        Err(error) => Err(error.with_causes()),
    }
}

/// The mask in a string that is JSON; files are refused.
pub(crate) fn no_files(place: &str) -> Result<Arc<LumiMask>, String> {
    match is_json(place) {
        true => LumiMask::parse(place).map(Arc::new),
        false => Err("files cannot be opened here".to_owned()),
    }
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

impl LumiMask {
    /// Reads a golden JSON: a path, a URL, or the JSON itself.
    ///
    /// # Errors
    /// If it cannot be read, or is not a golden JSON.
    pub fn open(place: &str, settings: BTreeMap<String, String>) -> Result<Self, RNTupleError> {
        if is_json(place) {
            return Self::parse(place).map_err(|what| RNTupleError::Usage { what });
        }
        let refused = |what: String| RNTupleError::Usage {
            what: format!("{}: {what}", public(place)),
        };
        let source = open_source_with(place, &Settings::new(place, settings)?)?;
        let size = source.meta().size;
        if size > LARGEST {
            return Err(refused(format!(
                "{size} bytes are too many for a golden JSON"
            )));
        }
        let bytes = source.read_ranges(std::slice::from_ref(&(0..size)))?.pop();
        let bytes = bytes.unwrap_or_default();
        let text = std::str::from_utf8(&bytes).map_err(|_| refused(not_golden("binary data")))?;
        Self::parse(text).map_err(refused)
    }

    /// Parses `{"297056": [[1, 90], [93, 120]]}`; the error is a message.
    ///
    /// # Errors
    /// If it is not of this form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let json: Value = serde_json::from_str(text).map_err(not_golden)?;
        let Value::Object(json) = json else {
            return Err(not_golden("no object"));
        };
        Self::of_json(&json)
    }

    fn of_json(json: &Map<String, Value>) -> Result<Self, String> {
        let mut runs = HashMap::with_capacity(json.len());
        for (run, ranges) in json {
            let number = run.trim().parse::<i64>();
            let number = number.map_err(|_| not_golden(format!("run {run:?}")))?;
            let ranges = ranges.as_array();
            let ranges =
                ranges.ok_or_else(|| not_golden(format!("run {run}: no list of ranges")))?;
            let ranges = ranges.iter().map(|range| {
                let ends: Option<Vec<i64>> = range.as_array().and_then(|ends| {
                    let ends = ends.iter().map(Value::as_i64);
                    ends.collect()
                });
                match ends.as_deref() {
                    Some(&[first, last]) if first <= last => Ok((first, last)),
                    _ => Err(not_golden(format!("run {run}: range {range}"))),
                }
            });
            let ranges = ranges.collect::<Result<Vec<_>, String>>()?;
            runs.insert(number, joined(ranges));
        }
        Ok(Self { runs })
    }

    /// Whether a block is certified.
    pub fn contains(&self, run: i64, block: i64) -> bool {
        self.runs
            .get(&run)
            .is_some_and(|ranges| is_in(ranges, block))
    }

    /// [`contains`](Self::contains) for many blocks, which is fast if neighbours have the same run.
    pub fn lookup(&self) -> impl FnMut(i64, i64) -> bool {
        let mut last: Option<(i64, &[(i64, i64)])> = None;
        move |run, block| {
            let ranges = match last {
                Some((known, ranges)) if known == run => ranges,
                _ => self.runs.get(&run).map_or(&[][..], Vec::as_slice),
            };
            last = Some((run, ranges));
            is_in(ranges, block)
        }
    }

    /// Number of runs.
    pub fn n_runs(&self) -> usize {
        self.runs.len()
    }

    /// Number of certified blocks.
    pub fn n_blocks(&self) -> u64 {
        let ranges = self.runs.values().flatten();
        ranges
            .map(|(first, last)| last.abs_diff(*first).saturating_add(1))
            .sum()
    }

    /// The golden JSON, sorted, with each range as large as possible.
    pub fn to_json(&self) -> String {
        let runs: BTreeMap<i64, &Vec<(i64, i64)>> = self
            .runs
            .iter()
            .map(|(run, ranges)| (*run, ranges))
            .collect();
        let each = runs.into_iter().map(|(run, ranges)| {
            let ranges = ranges
                .iter()
                .map(|(first, last)| format!("[{first}, {last}]"));
            format!("\"{run}\": [{}]", ranges.collect::<Vec<_>>().join(", "))
        });
        format!("{{{}}}", each.collect::<Vec<_>>().join(", "))
    }
}

fn is_in(ranges: &[(i64, i64)], block: i64) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= block);
    let range = after.checked_sub(1).and_then(|at| ranges.get(at));
    range.is_some_and(|(_, last)| block <= *last)
}

/// Sorts ranges, and joins those that overlap or follow each other.
fn joined(mut ranges: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    ranges.sort_unstable();
    let mut out: Vec<(i64, i64)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match out.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => out.push((first, last)),
        }
    }
    out
}

fn not_golden(found: impl std::fmt::Display) -> String {
    format!(
        "not a golden JSON ({found}): expected ranges of luminosity blocks by run, as in {{\"297056\": [[1, 90], [93, 120]]}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_range_are_certified_and_other_runs_are_not() {
        let mask = LumiMask::parse(r#"{"1": [[3, 5], [9, 9]], "2": []}"#).unwrap();
        let found: Vec<i64> = (0..12).filter(|&block| mask.contains(1, block)).collect();
        assert_eq!(found, [3, 4, 5, 9]);
        assert!(!mask.contains(2, 3) && !mask.contains(3, 3));
        let mut lookup = mask.lookup();
        let found = [(1, 3), (2, 3), (1, 9), (1, 10), (7, 9), (1, 5)];
        let found = found.map(|(run, block)| lookup(run, block));
        assert_eq!(found, [true, false, true, false, false, true]);
    }

    #[test]
    fn ranges_that_touch_or_overlap_are_joined() {
        let mask = LumiMask::parse(r#"{"2": [[7, 8], [1, 4], [3, 6]], "10": [[1, 1]]}"#).unwrap();
        assert_eq!(mask.to_json(), r#"{"2": [[1, 8]], "10": [[1, 1]]}"#);
        assert_eq!((mask.n_runs(), mask.n_blocks()), (2, 9));
    }

    #[test]
    fn other_json_is_refused_with_the_run_that_is_wrong() {
        for (text, part) in [
            ("[1]", "no object"),
            (r#"{"x": []}"#, "run \"x\""),
            (r#"{"1": 5}"#, "run 1: no list"),
            (r#"{"1": [[5, 3]]}"#, "range [5,3]"),
            (r#"{"1": [[5]]}"#, "range [5]"),
            (r#"{"1": [[1, 2.5]]}"#, "range [1,2.5]"),
            (r#"{"1": "#, "EOF"),
        ] {
            let error = LumiMask::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
