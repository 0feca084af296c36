//! The syntax tree of an expression, before the types of its columns are known.

use std::collections::HashSet;
use std::ops::Range;

use super::function::Function;

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
    pub fn columns(&self) -> Vec<String> {
        let (mut names, mut known) = (Vec::new(), HashSet::new());
        self.note_columns(&mut names, &mut known);
        names.into_iter().map(str::to_owned).collect()
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
            Self::Binary(_, nodes) | Self::Index(nodes) => (None, nodes.as_slice(), &[], &[]),
            Self::Chain(node, links) => (Some(node), &[], links, &[]),
            Self::Junction(_, nodes) | Self::Call(_, nodes) => (None, &[], &[], nodes),
        };
        let links = chain.iter().map(|(_, node)| node);
        first.into_iter().chain(pair).chain(links).chain(rest)
    }
}
