//! Records: assigns arrays to members.

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, StructArray};

use super::conform::{conform, wrong};
use super::model::{Shape, unwritable};
use super::values::Values;
use crate::RNTupleError;

/// The values of a record. Members are identified by name, those of tuples and maps by position. Members of base classes
/// may be among those of the class, as they are when read.
///
/// # Errors
/// If a member is missing or does not match, or does not exist.
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
            let reason = format!("it was given {other:?}, but has no such member");
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

/// The members given.
struct Given<'a> {
    record: &'a StructArray,
    names: Vec<&'a str>,
    is_used: Vec<bool>,
}

impl Given<'_> {
    /// Members of a class, with the classes that it is a base of.
    fn members(
        &mut self,
        classes: &[&str],
        members: &[(String, Shape)],
        path: &str,
    ) -> Result<Values, RNTupleError> {
        let mut out = Vec::with_capacity(members.len());
        // a class's own members precede those of its bases, which may have the same names
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
        // if names are equal, those of base classes have class names prepended from the outermost base on, as many as
        // needed
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
                format!("it was not given; given are {there}"),
            ));
        };
        if let Some(used) = self.is_used.get_mut(at) {
            *used = true;
        }
        conform(shape, column, &path)
    }
}
