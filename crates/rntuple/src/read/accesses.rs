//! The record of a lazy read: which columns its steps touched, from which follows what belongs together.
//!
//! Every column has a history: a bit for each of the last [`REMEMBERED`] steps, set if the step touched it. Two rules
//! follow from it. What most of the last [`RECENT`] steps touched is the *main set*: a step fetches it at once. A column
//! outside of it is fetched together with what was touched in at least half of the steps that touched this column, which
//! is its *trigger set*. So sets grow and shrink with what steps touch.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;

use femtobarn_fork::lock;

/// Steps that decide on the main set: a column leaves it after five steps without it.
const RECENT: u32 = 8;

/// A column is forgotten after so many steps without it.
const REMEMBERED: u32 = u64::BITS;

/// What steps touched. Several threads can use it at the same time.
#[derive(Debug, Default)]
pub struct Accesses {
    known: Mutex<Known>,
    keep: Option<Keep>,
    /// Whether it only counts.
    is_off: bool,
}

/// Receives the number of steps, and the columns, whenever sets have changed.
struct Keep(Box<KeepFunction>);

type KeepFunction = dyn Fn(u64, &[AccessedColumn]) + Send + Sync;

impl fmt::Debug for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keep")
    }
}

#[derive(Debug, Default, Clone)]
struct Known {
    /// Steps that have ended and touched something.
    steps: u64,
    /// Steps that touched each column: the last bit is that of the last step.
    columns: BTreeMap<String, u64>,
    /// Columns that unfinished steps have touched, until a first step has ended.
    early: BTreeSet<String>,
    counts: AccessCounts,
}

/// What lazy reads have cost, and what they were for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct AccessCounts {
    /// Steps that have ended and touched something.
    pub steps: u64,
    /// Fetches of columns that belong together.
    pub fetches: u64,
    /// Stored size of the fetched columns.
    pub bytes_fetched: u64,
    /// Stored size of columns that were fetched by steps that have ended, and never touched.
    pub bytes_unused: u64,
}

/// A column of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessedColumn {
    /// Its name: that of a field; offsets of lists end with `[]`.
    pub name: String,
    /// The last steps that touched it, a bit for each; the last bit is that of the last step.
    pub history: u64,
    /// Whether it is in the main set, else in a trigger set.
    pub is_main: bool,
}

impl Accesses {
    /// The record of an earlier run: its number of steps, and names and histories of columns.
    pub fn of_run(steps: u64, columns: impl IntoIterator<Item = (String, u64)>) -> Self {
        let columns = columns.into_iter().filter(|(_, history)| *history != 0);
        let known = Known {
            steps,
            columns: columns.collect(),
            ..Known::default()
        };
        Self {
            known: Mutex::new(known),
            ..Self::default()
        }
    }

    /// A record that learns nothing: each touch fetches one column.
    pub fn off() -> Self {
        Self {
            is_off: true,
            ..Self::default()
        }
    }

    /// The same, calling `keep` with the number of steps and the columns whenever a step has changed the sets.
    #[must_use]
    pub fn kept_by(self, keep: impl Fn(u64, &[AccessedColumn]) + Send + Sync + 'static) -> Self {
        Self {
            keep: Some(Keep(Box::new(keep))),
            ..self
        }
    }

    /// Number of steps that the record has learned from, those of earlier runs included.
    pub fn steps(&self) -> u64 {
        lock(&self.known).steps
    }

    /// What the reads of this process have cost.
    pub fn counts(&self) -> AccessCounts {
        lock(&self.known).counts
    }

    /// The columns in the order of their names.
    pub fn columns(&self) -> Vec<AccessedColumn> {
        lock(&self.known).all()
    }

    /// The columns that a step fetches at once; none if nothing was learned yet.
    pub(super) fn main(&self) -> Option<Vec<String>> {
        let known = lock(&self.known);
        (known.steps > 0).then(|| known.named(|history| known.is_main(history)))
    }

    /// The columns to fetch together with one that is not in the main set; none if no step has touched it.
    pub(super) fn together_with(&self, name: &str) -> Option<Vec<String>> {
        if self.is_off {
            return Some(Vec::new());
        }
        let known = lock(&self.known);
        let own = known.columns.get(name)?;
        let is_together =
            |history: u64| (own & history).count_ones() * 2 >= own.count_ones().max(1);
        Some(known.named(is_together))
    }

    /// Notes a touch, and returns what other unfinished steps have touched before anything was learned.
    pub(super) fn touch(&self, name: &str) -> Vec<String> {
        let mut known = lock(&self.known);
        if self.is_off || known.steps > 0 {
            return Vec::new();
        }
        let early = known.early.iter().cloned().collect();
        known.early.insert(name.to_owned());
        early
    }

    /// Notes a fetch of columns with these bytes.
    pub(super) fn note_fetch(&self, n_bytes: u64) {
        let mut known = lock(&self.known);
        known.counts.fetches += 1;
        known.counts.bytes_fetched = known.counts.bytes_fetched.saturating_add(n_bytes);
    }

    /// Learns from a step that has ended.
    pub(super) fn learn<'a>(&self, touched: impl IntoIterator<Item = &'a str>, bytes_unused: u64) {
        let mut known = lock(&self.known);
        known.counts.bytes_unused = known.counts.bytes_unused.saturating_add(bytes_unused);
        let touched: BTreeSet<&str> = touched.into_iter().collect();
        if touched.is_empty() {
            return;
        }
        if self.is_off {
            known.counts.steps += 1;
            return;
        }
        let before = self.keep.as_ref().map(|_| known.all());
        known.add_step(&touched);
        let (steps, after) = (known.steps, before.as_ref().map(|_| known.all()));
        drop(known);
        if let (Some(Keep(keep)), Some(before), Some(after)) = (&self.keep, before, after) {
            let sets = |columns: &[AccessedColumn]| -> Vec<(String, bool)> {
                let columns = columns.iter();
                columns.map(|one| (one.name.clone(), one.is_main)).collect()
            };
            if sets(&before) != sets(&after) {
                keep(steps, &after);
            }
        }
    }
}

impl Known {
    fn all(&self) -> Vec<AccessedColumn> {
        let columns = self.columns.iter().map(|(name, &history)| AccessedColumn {
            name: name.clone(),
            history,
            is_main: self.is_main(history),
        });
        columns.collect()
    }

    fn add_step(&mut self, touched: &BTreeSet<&str>) {
        self.steps += 1;
        self.counts.steps += 1;
        self.early.clear();
        for history in self.columns.values_mut() {
            *history <<= 1;
        }
        for &name in touched {
            match self.columns.get_mut(name) {
                Some(history) => *history |= 1,
                None => {
                    self.columns.insert(name.to_owned(), 1);
                }
            }
        }
        self.columns.retain(|_, history| *history != 0);
    }

    fn is_main(&self, history: u64) -> bool {
        let n = u32::try_from(self.steps).unwrap_or(u32::MAX).min(RECENT);
        let recent = history & (u64::MAX >> (REMEMBERED - n.max(1)));
        recent.count_ones() * 2 >= n.max(1)
    }

    fn named(&self, is_wanted: impl Fn(u64) -> bool) -> Vec<String> {
        let columns = self.columns.iter();
        let wanted = columns.filter(|(_, history)| is_wanted(**history));
        wanted.map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(steps: &[&[&str]]) -> Accesses {
        let accesses = Accesses::default();
        for step in steps {
            accesses.learn(step.iter().copied(), 0);
        }
        accesses
    }

    #[test]
    fn nothing_is_known_before_a_step_has_ended() {
        let accesses = Accesses::default();
        assert!(accesses.main().is_none());
        assert!(accesses.touch("a").is_empty());
        assert_eq!(accesses.touch("b"), ["a"]);
        accesses.learn([], 3);
        assert!(accesses.main().is_none(), "a step that touched nothing");
        assert_eq!(accesses.counts().bytes_unused, 3);
        accesses.learn(["a"], 0);
        assert_eq!(accesses.main().unwrap(), ["a"]);
        assert!(accesses.touch("b").is_empty());
    }

    #[test]
    fn a_record_that_is_off_counts_and_learns_nothing() {
        let accesses = Accesses::off();
        assert!(accesses.touch("a").is_empty() && accesses.touch("b").is_empty());
        accesses.learn(["a", "b"], 3);
        assert!(accesses.main().is_none());
        assert_eq!(accesses.together_with("a").unwrap(), [""; 0]);
        let counts = accesses.counts();
        assert_eq!((counts.steps, counts.bytes_unused), (1, 3));
    }

    #[test]
    fn what_half_of_the_last_steps_touched_is_the_main_set() {
        let accesses = learned(&[&["a", "b"], &["a"], &["a", "c"], &["a"]]);
        assert_eq!(accesses.main().unwrap(), ["a"]);
        let accesses = learned(&[&["a", "b"], &["a"], &["a", "b"], &["a"]]);
        assert_eq!(accesses.main().unwrap(), ["a", "b"]);
    }

    #[test]
    fn a_trigger_set_is_what_was_touched_in_the_same_steps() {
        let accesses = learned(&[&["a"], &["a", "x", "y"], &["a"], &["a", "z"], &["a"]]);
        assert_eq!(accesses.together_with("x").unwrap(), ["a", "x", "y"]);
        assert_eq!(accesses.together_with("z").unwrap(), ["a", "z"]);
        assert!(accesses.together_with("w").is_none());
    }

    #[test]
    fn a_column_leaves_the_main_set_after_five_steps_without_it_and_is_forgotten_after_64() {
        let accesses = learned(&[&["a", "b"][..]; 20]);
        for _ in 0..4 {
            accesses.learn(["a"], 0);
        }
        assert_eq!(accesses.main().unwrap(), ["a", "b"]);
        accesses.learn(["a"], 0);
        assert_eq!(accesses.main().unwrap(), ["a"]);
        assert_eq!(accesses.columns().len(), 2);
        for _ in 5..64 {
            accesses.learn(["a"], 0);
        }
        assert_eq!(accesses.columns().len(), 1);
        assert_eq!(accesses.steps(), 84);
    }

    #[test]
    fn a_record_continues_that_of_an_earlier_run() {
        let first = learned(&[&["a", "x"], &["a"], &["a"]]);
        let columns = first.columns().into_iter();
        let columns = columns.map(|column| (column.name, column.history));
        let second = Accesses::of_run(first.steps(), columns);
        assert_eq!(second.columns(), first.columns());
        assert_eq!(second.main(), first.main());
        assert_eq!(second.counts().steps, 0);
    }
}
