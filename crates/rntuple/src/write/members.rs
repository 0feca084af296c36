//! Records: which array is which member's.

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, StructArray};

use super::conform::{conform, wrong};
use super::model::{Shape, unwritable};
use super::values::Values;
use crate::RNTupleError;

/// The values of a record. Members go by their names, those of tuples and maps by their positions; members of base classes
/// may stand among those of the class, as they are read.
///
/// # Errors
/// If a member is missing or does not fit, or one was given that there is not.
pub(super) fn record(
    class: &str,
    members: &[(String, Shape)],
    array: &ArrayRef,
    path: &str,
) -> Result<Values, RNTupleError> {
    let Some(record) = array.as_struct_opt() else {
        return Err(wrong(path, array, "records"));
    };
    let names = record.column_names();
    let wanted: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    let has_all = wanted.iter().all(|name| names.contains(name));
    if names.len() == members.len() && !has_all && (is_tuple(&wanted) || is_tuple(&names)) {
        let columns = members.iter().zip(record.columns());
        let each =
            columns.map(|((name, shape), column)| conform(shape, column, &below(path, name)));
        return Ok(Values::Record(each.collect::<Result<_, _>>()?));
    }
    let mut given = Given {
        record,
        is_used: vec![false; names.len()],
        names,
    };
    let values = given.members(&[class], members, path)?;
    match given
        .names
        .iter()
        .zip(&given.is_used)
        .find(|(_, used)| !**used)
    {
        Some((other, _)) => {
            let reason = format!("it has no member {other:?}, which was given");
            Err(unwritable(path, reason))
        }
        None => Ok(values),
    }
}

fn below(path: &str, name: &str) -> String {
    format!("{path}.{name}")
}

fn is_tuple(names: &[&str]) -> bool {
    let mut numbered = (0..).zip(names);
    numbered.all(|(i, name): (usize, &&str)| *name == format!("_{i}"))
}

/// The members that were given.
struct Given<'a> {
    record: &'a StructArray,
    names: Vec<&'a str>,
    is_used: Vec<bool>,
}

impl Given<'_> {
    /// Members of a class, behind the classes that it is a base of.
    fn members(
        &mut self,
        classes: &[&str],
        members: &[(String, Shape)],
        path: &str,
    ) -> Result<Values, RNTupleError> {
        let mut out = Vec::with_capacity(members.len());
        // a class's own members come before those of its bases, which may have the same names
        let is_base = |name: &str| name.starts_with(":_");
        let own = members.iter().filter(|(name, _)| !is_base(name));
        for (name, shape) in own {
            out.push((name, self.member(classes, name, shape, path)?));
        }
        for (name, shape) in members.iter().filter(|(name, _)| is_base(name)) {
            let values = match shape {
                Shape::Record { class, members } if !self.names.contains(&name.as_str()) => {
                    let classes = [classes, &[class]].concat();
                    self.members(&classes, members, path)?
                }
                _ => self.member(classes, name, shape, path)?,
            };
            out.push((name, values));
        }
        let place = |name: &str| members.iter().position(|(known, _)| known == name);
        out.sort_by_key(|(name, _)| place(name));
        Ok(Values::Record(
            out.into_iter().map(|(_, values)| values).collect(),
        ))
    }

    fn member(
        &mut self,
        classes: &[&str],
        name: &str,
        shape: &Shape,
        path: &str,
    ) -> Result<Values, RNTupleError> {
        let path = below(path, name);
        let place = |wanted: &str| {
            let mut places = self.names.iter().zip(&self.is_used);
            places.position(|(&given, &used)| !used && given == wanted)
        };
        // where names meet, those of bases are given with as many classes in front, from the outermost base on, as it takes
        let qualified = (1..classes.len()).rev().find_map(|innermost| {
            let above = classes.get(1..=innermost).unwrap_or_default();
            place(&format!("{}::{name}", above.join("::")))
        });
        let at = qualified.or_else(|| place(name));
        let column = at.and_then(|at| self.record.columns().get(at));
        let (Some(at), Some(column)) = (at, column) else {
            let there = self.names.join(", ");
            return Err(unwritable(
                &path,
                format!("it was not given; there are {there}"),
            ));
        };
        if let Some(used) = self.is_used.get_mut(at) {
            *used = true;
        }
        conform(shape, column, &path)
    }
}
