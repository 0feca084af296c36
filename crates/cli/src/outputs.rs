//! Which of the names on the command line is the output: that of `--output`, or else the first or the last one.

use std::borrow::Cow;
use std::path::Path;

use femtobarn::convert::Input;
use femtobarn::io::{Settings, is_remote, local_path};
use femtobarn::ttree::is_tree;
use femtobarn::{RNTUPLE_CLASS, look_into};

use crate::failure::{Failure, code};
use crate::open;

/// Position of the output among the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    First,
    Last,
}

/// The output and the other names.
#[derive(Debug, Clone)]
pub struct Named<'a> {
    pub output: Cow<'a, str>,
    pub inputs: &'a [String],
    /// None: it was given by `--output`.
    pub position: Option<Position>,
}

impl<'a> Named<'a> {
    /// Finds the output.
    pub fn new(
        names: &'a [String],
        output: Option<&'a str>,
        position: Position,
    ) -> Result<Self, Failure> {
        let by_position = || {
            let (output, inputs) = match position {
                Position::First => names.split_first(),
                Position::Last => names.split_last(),
            }?;
            Some((output.as_str(), inputs, Some(position)))
        };
        let split = match output {
            Some(output) => Some((output, names, None)),
            None => by_position(),
        };
        match split {
            Some((output, inputs @ [_, ..], position)) => Ok(Self {
                output: local_path(output),
                inputs,
                position,
            }),
            _ => {
                let given = names.first().map_or("", String::as_str);
                Err(usage(format!(
                    "output missing: only {given:?} is given; name the output with -o OUTPUT"
                )))
            }
        }
    }

    /// The same, for a command with one input.
    pub fn of_one(
        names: &'a [String],
        output: Option<&'a str>,
    ) -> Result<(&'a String, Self), Failure> {
        let named = Self::new(names, output, Position::Last)?;
        match named.inputs {
            [one] => Ok((one, named)),
            [_, ..] | [] => Err(usage(format!(
                "unexpected argument {:?}: one input and one output are expected",
                names.last().map_or("", String::as_str)
            ))),
        }
    }

    /// What messages about the output add: which name it is.
    pub fn told(&self) -> &'static str {
        match self.position {
            None => "",
            Some(Position::First) => "; the first argument is the output (or name it with -o)",
            Some(Position::Last) => "; the last argument is the output (or name it with -o)",
        }
    }

    /// Refuses to replace a file by a smaller one that is the only input: the names were most probably swapped.
    pub fn check_order(&self, inputs: &[Input]) -> Result<(), Failure> {
        let (Some(_), [input]) = (self.position, inputs) else {
            return Ok(());
        };
        let Some((n_old, n_new)) = n_entries(&self.output).zip(n_entries(&input.url)) else {
            return Ok(());
        };
        if n_old <= n_new {
            return Ok(());
        }
        let (output, input) = (&self.output, input.shown());
        let message = format!(
            "the output {output} exists and has {n_old} entries, more than the only input {input} ({n_new}): the \
             names are probably swapped"
        );
        Err(Failure {
            next: Some(format!(
                "swap the names, or write -o {output} to replace it with what {input} has"
            )),
            ..usage(message)
        })
    }
}

/// The most entries that an ntuple or a tree of a file of this machine has.
fn n_entries(file: &str) -> Option<u64> {
    if is_remote(file) || !Path::new(file).is_file() {
        return None;
    }
    let walked = look_into(file, &Settings::of(file), |file| Ok(file.walk()?));
    let entries = walked.ok()?.into_iter();
    let with_entries = entries.filter(|entry| {
        let class = &entry.key.class_name;
        class == RNTUPLE_CLASS || is_tree(class)
    });
    let n = with_entries.filter_map(|entry| {
        let path = format!("{};{}", entry.path, entry.key.cycle);
        let opened = open::open(file, Some(&path)).ok()?;
        Some(opened.ntuple.n_entries())
    });
    n.max()
}

fn usage(message: String) -> Failure {
    Failure::new(code::USAGE, "usage", message)
}
