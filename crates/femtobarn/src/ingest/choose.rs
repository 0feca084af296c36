//! The fields that were chosen, and the collections among them.

use std::collections::HashSet;

use femtobarn_io::did_you_mean;

use super::IngestOptions;
use super::columns::{Column, Kind};
use super::numbers::{self, Number};
use super::open::{place, skipped};
use crate::ntuple::NTuple;
use crate::products::{ClassNote, Form, Member};
use crate::transfer::{NUMBERS, TransferError, quoted};

/// Fields that become one product: lists of the same lengths.
#[derive(Debug, Clone)]
pub(super) struct Collection {
    pub label: String,
    pub counter: String,
    /// Fields, and the names of the members.
    pub members: Vec<(String, String)>,
    pub kind: Kind,
}

impl Collection {
    /// The fields that it is made of.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        let members = self.members.iter().map(|(field, _)| field.as_str());
        std::iter::once(self.counter.as_str()).chain(members)
    }
}

/// What fields are chosen from.
pub(super) struct Choosing<'a> {
    pub ntuple: &'a NTuple,
    pub numbers: &'a [Number; 3],
    pub options: &'a IngestOptions,
}

impl Choosing<'_> {
    /// The columns that fit `fields`, or all, without dropped ones.
    pub fn chosen(
        &self,
        columns: &[Column],
        fields: &[String],
    ) -> Result<Vec<Column>, TransferError> {
        let wanted = self.fitting(columns, "fields", fields)?;
        let dropped = self.fitting(columns, "drop", &self.options.drop)?;
        let is_chosen = |column: &&Column| {
            let field = column.field.as_str();
            (fields.is_empty() || wanted.contains(field)) && !dropped.contains(field)
        };
        Ok(columns.iter().filter(is_chosen).cloned().collect())
    }

    /// The names of the fields that fit some patterns.
    fn fitting<'c>(
        &self,
        columns: &'c [Column],
        option: &str,
        patterns: &[String],
    ) -> Result<HashSet<&'c str>, TransferError> {
        let mut found = HashSet::new();
        for pattern in patterns {
            let is_named = |column: &&Column| column.field == *pattern || column.label == *pattern;
            let fits = |column: &&Column| crate::matches(pattern, &column.field);
            let mut own: Vec<_> = columns.iter().filter(is_named).collect();
            if own.is_empty() {
                own = columns.iter().filter(fits).collect();
            }
            if own.is_empty() {
                self.check_unreadable(columns, option, pattern)?;
            }
            found.extend(own.into_iter().map(|column| column.field.as_str()));
        }
        Ok(found)
    }

    /// The error of a pattern that no column fits; a dropped field may be one that cannot be read.
    fn check_unreadable(
        &self,
        columns: &[Column],
        option: &str,
        pattern: &str,
    ) -> Result<(), TransferError> {
        let (place, words) = (place(self.ntuple), self.options.words);
        let reason = skipped(self.ntuple)
            .into_iter()
            .find(|(name, _)| name == pattern);
        match reason {
            Some(_) if option == "drop" => return Ok(()),
            Some((_, reason)) => {
                return Err(TransferError::usage(format!(
                    "{place}: field {} cannot be read: {reason}",
                    quoted(pattern)
                )));
            }
            None => {}
        }
        let mut numbers = NUMBERS.iter().zip(self.numbers);
        if let Some((number, _)) = numbers.find(|(_, field)| field.field() == Some(pattern)) {
            return Err(TransferError::usage(format!(
                "{place}: field {} is the {number} of each event and cannot be a product: leave it out of {}",
                quoted(pattern),
                words.name(option)
            )));
        }
        let parts: Vec<&str> = pattern.split(',').map(str::trim).collect();
        let hint = match parts.len() > 1 {
            true => format!(
                "; pass several as a list: {}",
                words.with_all(option, &parts)
            ),
            false => did_you_mean(pattern, columns.iter().map(|column| column.field.as_str())),
        };
        let what = format!("{place}: no field matches {}{hint}", quoted(pattern));
        Err(TransferError::new("key-not-found", what))
    }

    /// Adds the counter of each collection that has chosen members.
    pub fn add_counters(&self, chosen: &mut Vec<Column>, known: Vec<Column>) {
        let own: Vec<String> = chosen.iter().map(|column| column.field.clone()).collect();
        let mut counters: HashSet<String> = self.ntuple.counters(&own).into_iter().collect();
        if self.options.collections {
            // these go by their names
            for one in collections(&known) {
                if one.members.iter().any(|(field, _)| own.contains(field)) {
                    counters.insert(one.counter);
                }
            }
        }
        let is_new =
            |column: &Column| counters.contains(&column.field) && !own.contains(&column.field);
        chosen.extend(known.into_iter().filter(is_new));
    }
}

/// The collections that are spread over fields, as in NanoAOD: `nMuon`, `Muon_pt`, `Muon_eta`, ….
pub(super) fn collections(columns: &[Column]) -> Vec<Collection> {
    let mut found = Vec::new();
    for counter in columns {
        let Some(label) = counter
            .field
            .strip_prefix('n')
            .filter(|rest| !rest.is_empty())
        else {
            continue;
        };
        let is_taken = columns.iter().any(|column| column.field == label);
        if is_taken || !numbers::is_integer(&counter.kind.name) {
            continue;
        }
        let prefix = format!("{label}_");
        let (mut members, mut classes, mut own) = (Vec::new(), Vec::new(), Vec::new());
        for column in columns {
            let (Some(member), Some(item)) = (
                column.field.strip_prefix(&prefix),
                list_item(&column.kind.name),
            ) else {
                continue;
            };
            members.push((column.field.clone(), member.to_owned()));
            own.push(Member {
                name: member.to_owned(),
                type_name: item.to_owned(),
            });
            for class in &column.kind.classes {
                if !classes.contains(class) {
                    classes.push(class.clone());
                }
            }
        }
        if members.is_empty() {
            continue;
        }
        classes.push(ClassNote {
            name: label.to_owned(),
            members: own,
        });
        found.push(Collection {
            label: label.to_owned(),
            counter: counter.field.clone(),
            members,
            kind: Kind {
                name: format!("std::vector<{label}>"),
                classes,
                form: Form::Value,
            },
        });
    }
    found
}

/// The type of the items of lists.
pub(super) fn list_item(type_name: &str) -> Option<&str> {
    let templates = ["std::vector<", "ROOT::VecOps::RVec<"];
    let mut items = templates.iter().filter_map(|t| type_name.strip_prefix(t));
    items.next()?.strip_suffix('>')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_lists_have_a_type() {
        assert_eq!(
            list_item("std::vector<std::pair<A,B>>"),
            Some("std::pair<A,B>")
        );
        assert_eq!(list_item("ROOT::VecOps::RVec<float>"), Some("float"));
        assert_eq!(list_item("float"), None);
    }
}
