//! Classes that inherit a base class twice.

use std::collections::HashSet;

use crate::interp::{Record, Shape};

/// The path of base classes for each member of a record, including members of its bases, outermost first; none if all
/// member names are different.
pub(super) fn bases(record: &Record) -> Option<Vec<Vec<String>>> {
    let mut found = Vec::new();
    members(record, &[], &mut found);
    let mut names = HashSet::new();
    let is_twice = found.iter().any(|(_, name)| !names.insert(*name));
    is_twice.then(|| found.into_iter().map(|(bases, _)| bases).collect())
}

fn members<'r>(record: &'r Record, above: &[String], out: &mut Vec<(Vec<String>, &'r str)>) {
    for member in &record.members {
        match &member.shape {
            Shape::Hidden(_) => {}
            Shape::Record(base) if member.is_base => {
                members(
                    base,
                    &[above, std::slice::from_ref(&member.name)].concat(),
                    out,
                );
            }
            _ => out.push((above.to_vec(), &member.name)),
        }
    }
}
