//! Names of expressions, for use in other expressions.

use std::collections::{HashMap, HashSet};

use femtobarn_rntuple::RNTupleError;

use super::excerpt::shortened;
use super::tree::{Kind, MAX_DEPTH, Node};
use super::{Problem, parse};
use crate::lumi_mask::OpenMask;

/// Expressions by their names. An alias may use others, and hides a column of the same name.
#[derive(Debug, Clone, Default)]
pub struct Aliases(HashMap<String, Alias>);

/// An expression with a name.
#[derive(Debug, Clone)]
pub(super) struct Alias {
    text: String,
    tree: Node,
}

impl Alias {
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn tree(&self) -> &Node {
        &self.tree
    }
}

impl Aliases {
    /// Parses expressions by their names.
    ///
    /// # Errors
    /// If one is invalid, or aliases use each other in a cycle.
    pub fn parse<'t>(
        given: impl IntoIterator<Item = (&'t str, &'t str)>,
        masks: OpenMask<'_>,
    ) -> Result<Self, RNTupleError> {
        let mut out = HashMap::new();
        for (name, text) in given {
            let tree = parse::parse(text, masks).map_err(|problem| RNTupleError::Usage {
                what: format!("alias {name:?}: {}", problem.message(text)),
            })?;
            let text = text.to_owned();
            out.insert(name.to_owned(), Alias { text, tree });
        }
        let out = Self(out);
        let mut names: Vec<&str> = out.0.keys().map(String::as_str).collect();
        names.sort_unstable();
        let mut depths = HashMap::new();
        for name in names {
            out.depth(name, &mut Vec::new(), &mut depths)?;
        }
        Ok(out)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Alias> {
        self.0.get(name)
    }

    /// The column that a name stands for, if its expression is only the name of a column.
    pub fn renamed<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        let mut name = name;
        while let Some(alias) = self.get(name) {
            match &alias.tree.kind {
                Kind::Column(column) => name = column,
                _ => return None,
            }
        }
        Some(name)
    }

    /// The columns that an expression reads, in the order of their first use.
    pub(super) fn columns(&self, tree: &Node) -> Vec<String> {
        let (mut out, mut known) = (Vec::new(), HashSet::new());
        self.note_columns(tree, &mut out, &mut known);
        out
    }

    /// Each alias is visited once.
    fn note_columns<'a>(
        &'a self,
        tree: &'a Node,
        out: &mut Vec<String>,
        known: &mut HashSet<&'a str>,
    ) {
        for name in tree.columns() {
            if !known.insert(name) {
                continue;
            }
            match self.get(name) {
                Some(alias) => self.note_columns(&alias.tree, out, known),
                None => out.push(name.to_owned()),
            }
        }
    }

    /// Checks that an expression with its aliases is not nested too deeply.
    pub(super) fn check_depth(&self, tree: &Node) -> Result<(), Problem> {
        let mut depths = HashMap::new();
        let below = self.depth_below(tree, &mut Vec::new(), &mut depths);
        let below = below.map_err(|error| Problem::new(&tree.span, error.to_string()))?;
        match tree.depth.saturating_add(below) <= MAX_DEPTH {
            true => Ok(()),
            false => Err(Problem::new(&tree.span, too_deep())),
        }
    }

    /// The depth of an alias with those that it uses. `line` are the aliases that led to it.
    fn depth<'a>(
        &'a self,
        name: &'a str,
        line: &mut Vec<&'a str>,
        depths: &mut HashMap<&'a str, usize>,
    ) -> Result<usize, RNTupleError> {
        if let Some(&known) = depths.get(name) {
            return Ok(known);
        }
        let Some(alias) = self.get(name) else {
            return Ok(0);
        };
        if let Some(at) = line.iter().position(|own| *own == name) {
            let cycle = line.iter().skip(at).chain([&name]);
            let cycle: Vec<String> = cycle.map(|name| format!("{:?}", shortened(name))).collect();
            let what = format!(
                "aliases use each other: {}; give one of them another name than the column it uses",
                cycle.join(" → ")
            );
            return Err(RNTupleError::Usage { what });
        }
        line.push(name);
        let below = match line.len() > MAX_DEPTH {
            true => Err(RNTupleError::Usage { what: too_deep() }),
            false => self.depth_below(&alias.tree, line, depths),
        };
        line.pop();
        let depth = alias.tree.depth.saturating_add(below?);
        if depth > MAX_DEPTH {
            let what = format!("alias {name:?}: {}", too_deep());
            return Err(RNTupleError::Usage { what });
        }
        depths.insert(name, depth);
        Ok(depth)
    }

    fn depth_below<'a>(
        &'a self,
        tree: &'a Node,
        line: &mut Vec<&'a str>,
        depths: &mut HashMap<&'a str, usize>,
    ) -> Result<usize, RNTupleError> {
        let mut most = 0;
        for name in tree.columns() {
            most = self.depth(name, line, depths)?.max(most);
        }
        Ok(most)
    }
}

fn too_deep() -> String {
    format!("aliases and parentheses have more than {MAX_DEPTH} levels")
}
