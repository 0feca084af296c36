//! Evaluates a tree column by column.

use std::borrow::Cow;
use std::collections::HashMap;

use arrow_array::{BooleanArray, LargeStringArray, RecordBatch};
use arrow_buffer::BooleanBuffer;

use super::Problem;
use super::aliases::{Alias, Aliases};
use super::arithmetic::{self, Fault, valid_of};
use super::column::{Bits, Column, Data, Integers, Shape, Side};
use super::compare;
use super::excerpt::shortened;
use super::index;
use super::load::load;
use super::shape::{Pair, align};
use super::tree::{Binary, Comparison, Constant, Junction, Kind, Node, Unary};
use crate::lumi_mask::LumiMask;

/// The number of the entry in a row of the batch, for messages.
pub(super) type EntryOf<'a> = &'a dyn Fn(usize) -> u64;

/// Evaluates to one boolean per entry.
pub(super) fn evaluate(
    tree: &Node,
    text: &str,
    aliases: &Aliases,
    (batch, entry): (&RecordBatch, EntryOf<'_>),
) -> Result<BooleanArray, Problem> {
    let mut evaluator = Evaluator::new(text, aliases, (batch, entry));
    let column = evaluator.value(tree)?;
    let refused = |what: String| Problem::new(&tree.span, what);
    let piece = evaluator.piece(tree);
    if !column.levels().is_empty() {
        let (list, each) = match column.data {
            Data::Bool(_) => ("a list of conditions", piece.to_string()),
            _ => ("a list", format!("({piece}) != 0")),
        };
        return Err(refused(format!(
            "`{piece}` is {list} per entry, but one condition is needed: any({each}), all({each}) or count({each}) >= 1"
        )));
    }
    let Some(truths) = column.truths() else {
        let kind = column.data.kind();
        let hint = match column.data.as_floats() {
            Some(_) => format!(": `{piece} != 0`?"),
            None => String::new(),
        };
        return Err(refused(format!(
            "`{piece}` is {kind} per entry, but a condition is needed{hint}"
        )));
    };
    let truths = match column.shape {
        Shape::Constant if truths.has_true() => BooleanBuffer::new_set(batch.num_rows()),
        Shape::Constant => BooleanBuffer::new_unset(batch.num_rows()),
        Shape::Levels(_) => truths,
    };
    Ok(BooleanArray::new(truths, None))
}

/// Evaluates to the numbers of all entries, one after another, without missing ones.
pub(super) fn numbers(
    tree: &Node,
    text: &str,
    aliases: &Aliases,
    (batch, entry): (&RecordBatch, EntryOf<'_>),
) -> Result<Vec<f64>, Problem> {
    let mut evaluator = Evaluator::new(text, aliases, (batch, entry));
    let column = evaluator.value(tree)?;
    let Some(values) = column.data.as_floats() else {
        let (piece, kind) = (evaluator.piece(tree), column.data.kind());
        let what = format!("`{piece}` is {kind}, but numbers are needed");
        return Err(Problem::new(&tree.span, what));
    };
    let is_constant = matches!(column.shape, Shape::Constant);
    Ok(match column.valid {
        _ if is_constant => {
            let value = values.first().copied().unwrap_or_default();
            vec![value; batch.num_rows()]
        }
        Some(valid) => {
            let both = values.iter().zip(valid.iter());
            both.filter(|(_, is_there)| *is_there)
                .map(|(value, _)| *value)
                .collect()
        }
        None => values.to_vec(),
    })
}

/// Evaluates to the values of a batch.
pub(super) fn values(
    tree: &Node,
    text: &str,
    aliases: &Aliases,
    (batch, entry): (&RecordBatch, EntryOf<'_>),
) -> Result<Column, Problem> {
    Evaluator::new(text, aliases, (batch, entry)).value(tree)
}

/// Evaluates nodes.
pub(super) struct Evaluator<'a> {
    text: &'a str,
    aliases: &'a Aliases,
    pub batch: &'a RecordBatch,
    entry: EntryOf<'a>,
    /// Columns that were loaded or computed already.
    columns: HashMap<String, Column>,
}

impl<'a> Evaluator<'a> {
    fn new(
        text: &'a str,
        aliases: &'a Aliases,
        (batch, entry): (&'a RecordBatch, EntryOf<'a>),
    ) -> Self {
        Self {
            text,
            aliases,
            batch,
            entry,
            columns: HashMap::new(),
        }
    }

    /// The text of a node, for messages.
    pub fn piece(&self, node: &Node) -> Cow<'a, str> {
        shortened(self.text.get(node.span.clone()).unwrap_or_default())
    }

    pub fn value(&mut self, node: &Node) -> Result<Column, Problem> {
        match &node.kind {
            Kind::Constant(constant) => Ok(Column::constant(of_constant(constant))),
            Kind::Column(name) => self.column(name, node),
            Kind::Unary(unary, inner) => self.unary(*unary, inner, node),
            Kind::Binary(binary, sides) => self.binary(*binary, sides, node),
            Kind::Chain(first, links) => self.chain(first, links),
            Kind::Junction(junction, nodes) => self.junction(*junction, nodes),
            Kind::Within {
                value,
                list,
                negated,
            } => self.within(value, list, *negated),
            Kind::Index(sides) => self.index(sides),
            Kind::Call(function, arguments) => self.call(*function, arguments, node),
            Kind::Certified(mask, columns) => self.certified(mask, columns),
        }
    }

    fn column(&mut self, name: &str, node: &Node) -> Result<Column, Problem> {
        if let Some(column) = self.columns.get(name) {
            return Ok(column.clone());
        }
        let column = match self.aliases.get(name) {
            Some(alias) => self.alias(name, alias),
            None => load(self.batch, name),
        };
        let column = column.map_err(|what| Problem::new(&node.span, what))?;
        self.columns.insert(name.to_owned(), column.clone());
        Ok(column)
    }

    /// The values of an alias; the error is a message.
    fn alias(&mut self, name: &str, alias: &'a Alias) -> Result<Column, String> {
        let mut inner = Evaluator {
            text: alias.text(),
            columns: std::mem::take(&mut self.columns),
            ..*self
        };
        let column = inner.value(alias.tree());
        self.columns = inner.columns;
        column.map_err(|problem| format!("alias {name:?}: {}", problem.message(alias.text())))
    }

    /// Whether luminosity blocks are certified.
    fn certified(&mut self, mask: &LumiMask, columns: &[Node; 2]) -> Result<Column, Problem> {
        let [run_node, block_node] = columns;
        let (run, block) = (self.value(run_node)?, self.value(block_node)?);
        let pair = self.aligned((&run, run_node), (&block, block_node))?;
        let integers = |column: &Column, node: &Node| match column.data.as_integers() {
            Some(Integers::Narrow(values)) => Ok(values),
            Some(Integers::Wide(_)) | None => {
                let what = format!("`{}` must be integers of 64 bits", self.piece(node));
                Err(Problem::new(&node.span, what))
            }
        };
        let (runs, blocks) = (integers(&pair.a, run_node)?, integers(&pair.b, block_node)?);
        let (runs, blocks) = (pair.a.shape.side(&runs), pair.b.shape.side(&blocks));
        let mut certified = mask.lookup();
        let Bits(truths) = match (runs, blocks) {
            (Side::One(run), Side::One(block)) => [certified(run, block)].into_iter().collect(),
            (Side::One(run), Side::Many(blocks)) => {
                blocks.iter().map(|&block| certified(run, block)).collect()
            }
            (Side::Many(runs), Side::One(block)) => {
                runs.iter().map(|&run| certified(run, block)).collect()
            }
            (Side::Many(runs), Side::Many(blocks)) => {
                let each = runs.iter().zip(blocks);
                each.map(|(&run, &block)| certified(run, block)).collect()
            }
        };
        let truths = match pair.valid(truths.len()) {
            Some(valid) => &truths & valid.inner(),
            None => truths,
        };
        Ok(Column {
            data: Data::Bool(truths),
            valid: None,
            shape: pair.shape,
        })
    }

    /// Brings two values into one shape.
    pub fn aligned<'c>(
        &self,
        (a, a_node): (&'c Column, &Node),
        (b, b_node): (&'c Column, &Node),
    ) -> Result<Pair<'c>, Problem> {
        align(a, b).map_err(|mismatch| {
            let [left, right] = mismatch.lengths;
            let entry = (self.entry)(mismatch.entry);
            Problem::new(
                &a_node.span,
                format!(
                    "`{}` and `{}` are lists of different lengths in entry {entry}: {left} and {right}",
                    self.piece(a_node),
                    self.piece(b_node)
                ),
            )
        })
    }

    fn unary(&mut self, unary: Unary, inner: &Node, node: &Node) -> Result<Column, Problem> {
        let column = self.value(inner)?;
        if unary == Unary::Not || (unary == Unary::Invert && matches!(column.data, Data::Bool(_))) {
            let truths = self.truths(&column, inner)?;
            return Ok(Column {
                data: Data::Bool(!&truths),
                valid: None,
                shape: column.shape,
            });
        }
        let data = match unary {
            Unary::Minus => arithmetic::negated(&column.data),
            Unary::Invert => arithmetic::inverted(&column.data),
            _ if column.data.as_floats().is_some() => Ok(column.data.clone()),
            _ => Err(Fault::Kind),
        };
        let data = data.map_err(|fault| self.fault(&fault, node, &[(inner, &column)]))?;
        Ok(column.with_data(data))
    }

    /// The boolean values of a condition, or an error for other values.
    fn truths(&self, column: &Column, node: &Node) -> Result<BooleanBuffer, Problem> {
        column.truths().ok_or_else(|| {
            let (piece, kind) = (self.piece(node), column.data.kind());
            let hint = match column.data.as_floats() {
                Some(_) => format!(": `{piece} != 0`?"),
                None => String::new(),
            };
            Problem::new(
                &node.span,
                format!("`{piece}` is {kind}, but a condition is needed{hint}"),
            )
        })
    }

    pub fn fault(&self, fault: &Fault, node: &Node, operands: &[(&Node, &Column)]) -> Problem {
        let whole = self.piece(node);
        let what = match fault {
            Fault::Overflow => {
                format!(
                    "`{whole}`: an integer needs more than 128 bits, or a shift is invalid; floats have no such \
                     limit: 1.0 * …"
                )
            }
            Fault::Kind => {
                let sides = operands.iter().map(|(node, column)| {
                    let integer = column.data.as_integers().is_none();
                    let kind = match column.data.as_floats() {
                        Some(_) if integer => "a float",
                        _ => column.data.kind(),
                    };
                    format!("`{}` is {kind}", self.piece(node))
                });
                let sides: Vec<String> = sides.collect();
                format!("`{whole}` cannot be computed: {}", sides.join(", "))
            }
        };
        Problem::new(&node.span, what)
    }

    fn binary(
        &mut self,
        binary: Binary,
        sides: &[Node; 2],
        node: &Node,
    ) -> Result<Column, Problem> {
        let [left, right] = sides;
        let (a, b) = (self.value(left)?, self.value(right)?);
        let pair = self.aligned((&a, left), (&b, right))?;
        if let (Data::Bool(_), Data::Bool(_)) = (&a.data, &b.data) {
            let junction = match binary {
                Binary::BitAnd => Some(Junction::And),
                Binary::BitOr => Some(Junction::Or),
                _ => None,
            };
            if let Some(junction) = junction {
                return self.joined(junction, &pair, [left, right]);
            }
        }
        let is_bits = matches!(binary, Binary::BitAnd | Binary::BitOr);
        let has_truth = [&a, &b].iter().any(|it| matches!(it.data, Data::Bool(_)));
        let outcome = match is_bits && has_truth {
            true => Err(Fault::Kind),
            false => arithmetic::binary(binary, &pair),
        };
        let (data, has) =
            outcome.map_err(|fault| self.fault(&fault, node, &[(left, &a), (right, &b)]))?;
        let n = length(&pair);
        let valid = valid_of(&pair, n, has);
        Ok(Column {
            data,
            valid,
            shape: pair.shape,
        })
    }

    fn chain(&mut self, first: &Node, links: &[(Comparison, Node)]) -> Result<Column, Problem> {
        let mut before = (self.value(first)?, first);
        let mut all: Option<Column> = None;
        for (comparison, node) in links {
            let next = (self.value(node)?, node);
            let pair = self.aligned((&before.0, before.1), (&next.0, next.1))?;
            let truths = compare::compare(*comparison, &pair).map_err(|what| {
                let (a, b) = (self.piece(before.1), self.piece(next.1));
                Problem::new(&before.1.span, format!("`{a}` and `{b}`: {what}"))
            })?;
            let truths = match pair.valid(truths.len()) {
                Some(valid) => &truths & valid.inner(),
                None => truths,
            };
            let column = Column {
                data: Data::Bool(truths),
                valid: None,
                shape: pair.shape,
            };
            all = Some(match all {
                None => column,
                Some(all) => {
                    let pair = self.aligned((&all, first), (&column, node))?;
                    self.joined(Junction::And, &pair, [first, node])?
                }
            });
            before = next;
        }
        all.ok_or_else(|| Problem::new(&first.span, "nothing is compared"))
    }

    fn junction(&mut self, junction: Junction, nodes: &[Node]) -> Result<Column, Problem> {
        let mut all: Option<(Column, &Node)> = None;
        for node in nodes {
            let column = self.value(node)?;
            // checked for each condition, before it is combined
            let truths = self.truths(&column, node)?;
            let column = Column {
                data: Data::Bool(truths),
                valid: None,
                shape: column.shape,
            };
            all = Some(match all {
                None => (column, node),
                Some((before, first)) => {
                    let pair = self.aligned((&before, first), (&column, node))?;
                    (self.joined(junction, &pair, [first, node])?, first)
                }
            });
        }
        let all = all.map(|(column, _)| column);
        all.ok_or_else(|| Problem::new(&(0..0), "nothing is joined"))
    }

    fn joined(
        &self,
        junction: Junction,
        pair: &Pair<'_>,
        [left, right]: [&Node; 2],
    ) -> Result<Column, Problem> {
        let (a, b) = (self.truths(&pair.a, left)?, self.truths(&pair.b, right)?);
        let is_constant = |column: &Column| matches!(column.shape, Shape::Constant);
        let n = if is_constant(&pair.a) {
            b.len()
        } else {
            a.len()
        };
        let spread = |truths: BooleanBuffer, column: &Column| match is_constant(column) {
            true if truths.has_true() => BooleanBuffer::new_set(n),
            true => BooleanBuffer::new_unset(n),
            false => truths,
        };
        let (a, b) = (spread(a, &pair.a), spread(b, &pair.b));
        Ok(Column {
            data: Data::Bool(match junction {
                Junction::And => &a & &b,
                Junction::Or => &a | &b,
            }),
            valid: None,
            shape: pair.shape.clone(),
        })
    }

    fn within(&mut self, node: &Node, list: &[Constant], negated: bool) -> Result<Column, Problem> {
        let column = self.value(node)?;
        let found = compare::within(&column.data, list)
            .map_err(|what| Problem::new(&node.span, format!("`{}`: {what}", self.piece(node))))?;
        let found = if negated { !&found } else { found };
        let data = Data::Bool(match &column.valid {
            Some(valid) => &found & valid.inner(),
            None => found,
        });
        Ok(Column {
            data,
            valid: None,
            shape: column.shape,
        })
    }

    fn index(&mut self, sides: &[Node; 2]) -> Result<Column, Problem> {
        let [list_node, place_node] = sides;
        let (list, places) = (self.value(list_node)?, self.value(place_node)?);
        let (piece, place) = (self.piece(list_node), self.piece(place_node));
        let refused = |node: &Node, what: String| Err(Problem::new(&node.span, what));
        let [offsets] = list.levels() else {
            let what = match list.levels() {
                [] if matches!(list_node.kind, Kind::Index(_)) => format!(
                    "`{piece}` is not a list: it has no element `[{place}]`; an array of arrays of a tree is one array here, so give the index in that"
                ),
                [] => format!("`{piece}` is not a list: it has no element `[{place}]`"),
                _ => format!(
                    "`{piece}` is a list of lists, which cannot be indexed: reduce it first, e.g. with max({piece})"
                ),
            };
            return refused(list_node, what);
        };
        match (&places.data, places.levels()) {
            (Data::Int(_) | Data::Wide(_), []) => Ok(index::element(&list, offsets, &places)),
            (Data::Bool(_), [_]) => {
                self.aligned((&list, list_node), (&places, place_node))?;
                let keep = self.truths(&places, place_node)?;
                Ok(index::filter(&list, &keep))
            }
            _ => refused(
                place_node,
                format!(
                    "`{place}` is neither an integer per entry nor a condition per element of `{piece}`"
                ),
            ),
        }
    }
}

/// Number of values in the result of a pair.
pub(super) fn length(pair: &Pair<'_>) -> usize {
    let of = |column: &Column| match &column.data {
        Data::Bool(bits) => bits.len(),
        Data::Int(values) => values.len(),
        Data::Wide(values) => values.len(),
        Data::Float(values) => values.len(),
        Data::Text(texts) => arrow_array::Array::len(texts),
        Data::Other(_) => 0,
    };
    match (&pair.a.shape, &pair.b.shape) {
        (Shape::Constant, _) => of(&pair.b),
        _ => of(&pair.a),
    }
}

fn of_constant(constant: &Constant) -> Data {
    match constant {
        Constant::Bool(truth) => Data::truths(std::iter::once(*truth)),
        Constant::Int(integer) => Data::integers(vec![*integer]),
        Constant::Float(float) => Data::floats(std::iter::once(*float)),
        Constant::Text(text) => Data::Text(LargeStringArray::from_iter_values([text])),
    }
}
