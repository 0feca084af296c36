//! The selection of fields.

use std::collections::{BTreeMap, HashMap, HashSet};

use femtobarn_io::did_you_mean;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;

use super::names::plain_name;
use super::options::ConvertOptions;
use crate::pattern::{is_pattern, matches};

/// Names and patterns that match no field, with their errors.
pub(super) type Unmatched = BTreeMap<String, RNTupleError>;

/// The names by which a field can be selected.
pub(super) struct Names {
    /// The name in the input.
    own: String,
    /// The new name, and alternative names.
    others: Vec<String>,
    /// The name of the branch that contains it.
    above: Option<String>,
}

impl Names {
    pub fn new(own: &str) -> Self {
        Self {
            own: own.to_owned(),
            others: vec![own.trim_end_matches('.').to_owned(), plain_name(own)],
            above: None,
        }
    }

    /// The same field with a name that differs from that of a branch.
    pub fn called(mut self, name: String) -> Self {
        self.others.push(name);
        self
    }

    /// The same field as a part of another.
    pub fn below(mut self, above: Option<&str>) -> Self {
        self.above = above.map(str::to_owned);
        self
    }
}

/// Selects names, and records which patterns have matched.
pub(super) struct Wanted<'a> {
    options: &'a ConvertOptions,
    unmatched: HashSet<&'a str>,
    /// All names in the input.
    own: Vec<String>,
    /// The names of the top-level branches, by the names of their sub-branches.
    below: HashMap<String, String>,
}

impl<'a> Wanted<'a> {
    pub fn new<'n>(options: &'a ConvertOptions, own: impl Iterator<Item = &'n str>) -> Self {
        let patterns = options.fields.iter().chain(&options.drop);
        Self {
            options,
            unmatched: patterns.map(String::as_str).collect(),
            own: own.map(str::to_owned).collect(),
            below: HashMap::new(),
        }
    }

    /// Adds the names below the top level.
    pub fn with_below(mut self, below: HashMap<String, String>) -> Self {
        self.below = below;
        self
    }

    pub fn takes(&mut self, names: &Names) -> bool {
        let fitting = |patterns: &'a [String]| -> Vec<&'a str> {
            let patterns = patterns.iter().map(String::as_str);
            patterns.filter(|it| self.fits(it, names)).collect()
        };
        let (asked, dropped) = (fitting(&self.options.fields), fitting(&self.options.drop));
        let is_taken = self.options.fields.is_empty() || !asked.is_empty();
        let is_dropped = !dropped.is_empty();
        for pattern in asked.into_iter().chain(dropped) {
            self.unmatched.remove(pattern);
        }
        is_taken && !is_dropped
    }

    /// Whether the field is dropped explicitly.
    pub fn drops(&self, names: &Names) -> bool {
        let mut dropped = self.options.drop.iter();
        dropped.any(|pattern| self.fits(pattern, names))
    }

    fn fits(&self, pattern: &str, names: &Names) -> bool {
        // an exact name refers only to the field with this own name
        let is_taken = !is_pattern(pattern) && self.own.iter().any(|own| own == pattern);
        let is_other = |name: &String| !is_taken && matches(pattern, name);
        let above = names.above.iter();
        matches(pattern, &names.own)
            || above.map(String::as_str).any(|name| matches(pattern, name))
            || names.others.iter().any(is_other)
    }

    /// Fails if a field that cannot be converted is selected by name.
    pub fn refuse_if_named(
        &self,
        names: &Names,
        reader: &Reader,
        reason: &str,
    ) -> Result<(), RNTupleError> {
        if !self.names(names) {
            return Ok(());
        }
        Err(reader.unsupported(&names.own, &with_drop(reason)))
    }

    /// Whether the field is selected by name, not by a pattern.
    pub fn names(&self, names: &Names) -> bool {
        let is_part = |pattern: &str| names.above.as_deref() == Some(pattern);
        let mut asked = self.options.fields.iter().map(String::as_str);
        asked.any(|name| !is_pattern(name) && !is_part(name) && self.fits(name, names))
    }

    /// The names and patterns that match no field, with errors: a misspelt name must not lose data.
    pub fn unmatched(&self, url: &str, ntuple: &str) -> Unmatched {
        let each = self.unmatched.iter();
        each.map(|pattern| ((*pattern).to_owned(), self.no_field(pattern, url, ntuple)))
            .collect()
    }

    fn no_field(&self, pattern: &str, url: &str, ntuple: &str) -> RNTupleError {
        let mut cuts = pattern.match_indices(['.', '/']);
        let below = self.below.iter();
        let below = below.filter(|(name, _)| matches(pattern, name));
        let below = below.map(|(_, top)| top).min();
        let above = below.or_else(|| {
            cuts.find_map(|(at, _)| {
                let above = pattern.get(..at)?;
                let mut own = self.own.iter();
                own.find(|own| matches(above, own) || matches(above, own.trim_end_matches('.')))
            })
        });
        if let Some(above) = above {
            let place = match ntuple {
                "" => url.to_owned(),
                ntuple => format!("{url}:{ntuple}"),
            };
            return RNTupleError::Usage {
                what: format!(
                    "{place}: {pattern:?} is below the top level, and only top-level fields can be selected: select \
                     {above:?}"
                ),
            };
        }
        RNTupleError::NoSuchField {
            url: url.to_owned(),
            ntuple: ntuple.to_owned(),
            name: pattern.to_owned(),
            hint: did_you_mean(pattern, self.own.iter().map(String::as_str)),
        }
    }
}

/// Adds advice to a reason.
pub(super) fn with_drop(reason: &str) -> String {
    format!("{reason}; leave it out with `drop`")
}
