//! Evaluates function calls.

use arrow_buffer::BooleanBuffer;

use super::Problem;
use super::arithmetic::{self, Fault};
use super::column::{Column, Data, Shape};
use super::evaluate::{Evaluator, length};
use super::function::{Function, Reduction};
use super::reduce;
use super::shape::Pair;
use super::tree::Node;

impl Evaluator<'_> {
    pub fn call(
        &mut self,
        function: Function,
        arguments: &[Node],
        node: &Node,
    ) -> Result<Column, Problem> {
        let mut columns: Vec<(Column, &Node)> = Vec::with_capacity(arguments.len());
        for argument in arguments {
            columns.push((self.value(argument)?, argument));
        }
        match (function, columns.as_slice()) {
            (Function::Pi, _) => {
                let pi = std::iter::once(std::f64::consts::PI);
                Ok(Column::constant(Data::floats(pi)))
            }
            (Function::Real2(function), [a, b]) => {
                let pair = self.aligned((&a.0, a.1), (&b.0, b.1))?;
                self.combined(&pair, arithmetic::of_floats(&pair, function), node, [a, b])
            }
            (Function::Min | Function::Max, [_, _, ..]) => {
                self.extreme_of(matches!(function, Function::Max), &columns, node)
            }
            (_, [(column, argument)]) => self.call_one(function, column, argument, node),
            _ => Err(Problem::new(&node.span, "wrong number of arguments")),
        }
    }

    fn extreme_of(
        &self,
        greater: bool,
        columns: &[(Column, &Node)],
        node: &Node,
    ) -> Result<Column, Problem> {
        let mut all: Option<(Column, &Node)> = None;
        for next in columns {
            all = Some(match all {
                None => next.clone(),
                Some(before) => {
                    let pair = self.aligned((&before.0, before.1), (&next.0, next.1))?;
                    let data = arithmetic::extreme(greater, &pair);
                    (self.combined(&pair, data, node, [&before, next])?, next.1)
                }
            });
        }
        let all = all.map(|(column, _)| column);
        all.ok_or_else(|| Problem::new(&node.span, "nothing is compared"))
    }

    fn combined(
        &self,
        pair: &Pair<'_>,
        data: Option<Data>,
        node: &Node,
        [a, b]: [&(Column, &Node); 2],
    ) -> Result<Column, Problem> {
        let sides = [(a.1, &a.0), (b.1, &b.0)];
        let data = data.ok_or_else(|| self.fault(&Fault::Kind, node, &sides))?;
        Ok(Column {
            data,
            valid: pair.valid(length(pair)),
            shape: pair.shape.clone(),
        })
    }

    fn call_one(
        &self,
        function: Function,
        column: &Column,
        argument: &Node,
        node: &Node,
    ) -> Result<Column, Problem> {
        let fault = |fault: Fault| self.fault(&fault, node, &[(argument, column)]);
        let floats = || column.data.as_floats().ok_or_else(|| fault(Fault::Kind));
        let named = |what: String| {
            let piece = self.piece(node);
            Problem::new(&node.span, format!("`{piece}` {what}"))
        };
        let data = match function {
            Function::Real(function) => Data::floats(floats()?.iter().map(|&it| function(it))),
            Function::Round(function) => match &column.data {
                Data::Float(values) => Data::floats(values.iter().map(|&it| function(it))),
                _ => floats().map(|_| column.data.clone())?,
            },
            Function::Abs => arithmetic::absolute(&column.data).map_err(fault)?,
            Function::Test(test) => {
                let values = floats()?;
                let truths = values.iter().map(|&it| test(it));
                return Ok(holding(column, Data::truths(truths)));
            }
            Function::Has | Function::IsMissing => {
                return self.presence(column, argument, matches!(function, Function::Has));
            }
            Function::Min => return reduce::extreme(false, column).map_err(named),
            Function::Max => return reduce::extreme(true, column).map_err(named),
            Function::Reduce(Reduction::Len) => {
                let offsets = column.levels().first();
                let none = || named("takes a list, found one value per entry".to_owned());
                return Ok(reduce::lengths(offsets.ok_or_else(none)?));
            }
            Function::Reduce(reduction) => return reduce::reduce(reduction, column).map_err(named),
            Function::Pi | Function::Real2(_) => return Err(fault(Fault::Kind)),
        };
        Ok(column.clone().with_data(data))
    }

    /// Tests for existing or missing values.
    fn presence(&self, column: &Column, argument: &Node, wanted: bool) -> Result<Column, Problem> {
        let n = match (&column.data, column.levels().last()) {
            (_, Some(inner)) => usize::try_from(inner.last()).unwrap_or(0),
            (_, None) if matches!(column.shape, Shape::Constant) => 1,
            _ => self.batch.num_rows(),
        };
        let valid = match &column.valid {
            Some(valid) => valid.inner().clone(),
            None => BooleanBuffer::new_set(n),
        };
        if valid.len() != n {
            return Err(Problem::new(&argument.span, "has no values"));
        }
        Ok(Column {
            data: Data::Bool(if wanted { valid } else { !&valid }),
            valid: None,
            shape: column.shape.clone(),
        })
    }
}

/// A condition on each value; false for missing values.
fn holding(column: &Column, data: Data) -> Column {
    let column = column.clone().with_data(data);
    let truths = column.truths().map(Data::Bool);
    Column {
        data: truths.unwrap_or(column.data),
        valid: None,
        shape: column.shape,
    }
}
