//! The syntax tree of an expression, before the types of its columns are known.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use super::function::{Function, Reduction};
use crate::lumi_mask::LumiMask;

/// Maximum depth of a tree, because recursive functions walk it.
pub(super) const MAX_DEPTH: usize = 100;

/// A part of an expression.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub kind: Kind,
    /// Its position in the string, in bytes.
    pub span: Range<usize>,
    /// Number of nodes on the longest path down.
    pub depth: usize,
    /// Whether the part has its own parentheses.
    pub closed: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Constant(Constant),
    Column(String),
    Unary(Unary, Box<Node>),
    Binary(Binary, Box<[Node; 2]>),
    /// `a < b < c`: compares each value with the next.
    Chain(Box<Node>, Vec<(Comparison, Node)>),
    Junction(Junction, Vec<Node>),
    Within {
        value: Box<Node>,
        list: Vec<Constant>,
        negated: bool,
    },
    /// A list, and the index or mask in brackets.
    Index(Box<[Node; 2]>),
    Call(Function, Vec<Node>),
    /// Whether luminosity blocks are certified: a run and a block.
    Certified(Arc<LumiMask>, Box<[Node; 2]>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Constant {
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unary {
    Plus,
    Minus,
    Not,
    /// `~`: negates a boolean, or inverts the bits of an integer.
    Invert,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
    ShiftLeft,
    ShiftRight,
    BitAnd,
    BitOr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Junction {
    And,
    Or,
}

impl Comparison {
    pub fn is_equality(self) -> bool {
        matches!(self, Self::Equal | Self::NotEqual)
    }
}

impl Node {
    pub fn new(kind: Kind, span: Range<usize>) -> Self {
        let below = kind.children().map(|child| child.depth).max();
        Self {
            kind,
            span,
            depth: 1 + below.unwrap_or(0),
            closed: false,
        }
    }

    /// The names of the columns, in the order of their first use.
    pub fn columns(&self) -> Vec<&str> {
        let (mut names, mut known) = (Vec::new(), HashSet::new());
        self.note_columns(&mut names, &mut known);
        names
    }

    /// Whether it is a condition in any case, whatever the types of columns are.
    pub fn is_condition(&self) -> bool {
        match &self.kind {
            Kind::Constant(Constant::Bool(_))
            | Kind::Unary(Unary::Not, _)
            | Kind::Chain(..)
            | Kind::Junction(..)
            | Kind::Within { .. }
            | Kind::Certified(..)
            | Kind::Call(
                Function::Test(_)
                | Function::Has
                | Function::IsMissing
                | Function::Reduce(Reduction::Any | Reduction::All),
                _,
            ) => true,
            Kind::Unary(Unary::Invert, inner) => inner.is_condition(),
            Kind::Binary(Binary::BitAnd | Binary::BitOr, sides) => {
                sides.iter().all(Self::is_condition)
            }
            _ => false,
        }
    }

    /// Whether it is a number or a string in any case.
    pub fn is_value(&self) -> bool {
        match &self.kind {
            Kind::Constant(constant) => !matches!(constant, Constant::Bool(_)),
            Kind::Unary(Unary::Plus | Unary::Minus, _)
            | Kind::Call(
                Function::Real(_)
                | Function::Real2(_)
                | Function::Round(_)
                | Function::Abs
                | Function::Pi
                | Function::Reduce(
                    Reduction::Len | Reduction::Sum | Reduction::Mean | Reduction::Count,
                ),
                _,
            ) => true,
            Kind::Binary(operator, _) => !matches!(operator, Binary::BitAnd | Binary::BitOr),
            _ => false,
        }
    }

    /// The first operand of a comparison.
    pub fn first_operand(&self) -> &Self {
        match &self.kind {
            Kind::Chain(first, _) | Kind::Within { value: first, .. } if !self.closed => first,
            _ => self,
        }
    }

    /// The last operand of a comparison or of `&`; none for a list of constants.
    pub fn last_operand(&self) -> Option<&Self> {
        match &self.kind {
            Kind::Chain(_, links) if !self.closed => links.last().map(|(_, node)| node),
            Kind::Within { .. } if !self.closed => None,
            Kind::Binary(Binary::BitAnd | Binary::BitOr, sides) if !self.closed => {
                let [_, last] = sides.as_ref();
                last.last_operand()
            }
            _ => Some(self),
        }
    }

    fn note_columns<'a>(&'a self, names: &mut Vec<&'a str>, known: &mut HashSet<&'a str>) {
        if let Kind::Column(name) = &self.kind
            && known.insert(name)
        {
            names.push(name);
        }
        for child in self.kind.children() {
            child.note_columns(names, known);
        }
    }
}

impl Kind {
    fn children(&self) -> impl Iterator<Item = &Node> {
        let (first, pair, chain, rest): (Option<&Node>, &[Node], &[_], &[Node]) = match self {
            Self::Constant(_) | Self::Column(_) => (None, &[], &[], &[]),
            Self::Unary(_, node) | Self::Within { value: node, .. } => (Some(node), &[], &[], &[]),
            Self::Binary(_, nodes) | Self::Index(nodes) | Self::Certified(_, nodes) => {
                (None, nodes.as_slice(), &[], &[])
            }
            Self::Chain(node, links) => (Some(node), &[], links, &[]),
            Self::Junction(_, nodes) | Self::Call(_, nodes) => (None, &[], &[], nodes),
        };
        let links = chain.iter().map(|(_, node)| node);
        first.into_iter().chain(pair).chain(links).chain(rest)
    }
}
