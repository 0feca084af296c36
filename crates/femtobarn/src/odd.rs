//! Finds the file that differs from the others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::schema::Schema;

use crate::common::structure;

/// The first value that differs from the most frequent one, and the first most frequent one, by index. Of equally
/// frequent values the earlier one counts. `None` if all are equal.
pub(crate) fn odd_one<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Option<(usize, usize)> {
    // there are few different values
    let mut known: Vec<(T, usize, usize)> = Vec::new();
    for (at, value) in values.into_iter().enumerate() {
        match known.iter_mut().find(|(other, ..)| *other == value) {
            Some((_, _, n)) => *n += 1,
            None => known.push((value, at, 1)),
        }
    }
    let most = known.iter().map(|&(_, _, n)| n).max()?;
    let usual = known.iter().position(|&(_, _, n)| n == most)?;
    let (_, other, _) = known.swap_remove(usual);
    let odd = known.iter().map(|&(_, first, _)| first).min()?;
    Some((odd, other))
}

/// For files without a common field: the first file that lacks the most common field, and the first that has it.
pub(crate) fn without_common_field(readers: &[Arc<Reader>]) -> Option<(usize, usize)> {
    // the number of files and the first one, for each schema
    let mut schemas: HashMap<*const Schema, (usize, usize)> = HashMap::new();
    for (at, reader) in readers.iter().enumerate() {
        let schema = schemas.entry(Arc::as_ptr(&reader.descriptor().schema));
        schema.or_insert((0, at)).0 += 1;
    }
    let mut counts: HashMap<&str, (usize, usize)> = HashMap::new();
    for &(n, first) in schemas.values() {
        let names = readers.get(first).map(|reader| reader.descriptor());
        let names: HashSet<&str> = names.into_iter().flat_map(|it| it.field_names()).collect();
        for name in names {
            let (sum, earliest) = counts.entry(name).or_insert((0, first));
            *sum += n;
            *earliest = first.min(*earliest);
        }
    }
    let usual = counts
        .iter()
        .max_by_key(|&(name, &(n, first))| (n, std::cmp::Reverse(first), std::cmp::Reverse(*name)));
    let (name, &(_, other)) = usual?;
    let lacks = |reader: &Arc<Reader>| !reader.descriptor().field_names().any(|own| own == *name);
    Some((readers.iter().position(lacks)?, other))
}

/// The error for a field that differs between files, with a note if the file that it is compared with is the odd one.
pub(crate) fn telling<'r>(
    error: RNTupleError,
    readers: impl IntoIterator<Item = &'r Arc<Reader>>,
) -> RNTupleError {
    let RNTupleError::SchemaMismatch {
        url,
        other,
        ntuple,
        name,
        reason,
    } = error
    else {
        return error;
    };
    let readers: Vec<&Arc<Reader>> = readers.into_iter().collect();
    let of = |url: &str| {
        let found = readers.iter().find(|reader| reader.url() == url);
        found.map(|reader| kind(reader, &name))
    };
    let (here, there) = (of(&url), of(&other));
    let count = |wanted: &Option<Option<String>>| {
        let alike = readers.iter().filter(|it| Some(kind(it, &name)) == *wanted);
        alike.count()
    };
    let (n_here, n_there) = (count(&here), count(&there));
    let reason = match here != there && n_here > n_there {
        true => format!(
            "{reason}; {other} differs from the others: {n_here} of {} files agree with {url}",
            readers.len()
        ),
        false => reason,
    };
    RNTupleError::SchemaMismatch {
        url,
        other,
        ntuple,
        name,
        reason,
    }
}

/// The kind of a path's top-level field; `None` if it does not exist.
fn kind(reader: &Reader, path: &str) -> Option<String> {
    let descriptor = reader.descriptor();
    let mut top_level = descriptor.top_level.iter();
    let top = top_level.find(|&&id| {
        let rest = path.strip_prefix(descriptor.field_name(id));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })?;
    let mut out = String::new();
    structure(descriptor, *top, &mut out);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::odd_one;

    #[test]
    fn the_odd_one_is_that_which_differs_from_most() {
        for (values, wanted) in [
            (&[0, 1, 0][..], Some((1, 0))),
            (&[1, 0, 0], Some((0, 1))),
            (&[0, 0, 1], Some((2, 0))),
            (&[0, 1], Some((1, 0))),
            (&[0, 1, 2], Some((1, 0))),
            (&[2, 0, 1, 0, 1, 1], Some((0, 2))),
            (&[0, 0], None),
            (&[], None),
        ] {
            assert_eq!(odd_one(values), wanted, "{values:?}");
        }
    }
}
