//! Where things are in a streamed object.

use std::collections::HashMap;

use crate::numbers::Kind;

/// Numbers of one kind, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub kind: Kind,
    pub at: usize,
    pub n: usize,
}

impl Place {
    /// Where they are, as far as that can be said in numbers.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.at
            ..self
                .at
                .saturating_add(self.n.saturating_mul(self.kind.size()))
    }
}

/// The labels of an axis.
#[derive(Debug, Clone, Default)]
pub(crate) struct Labels {
    /// Bin and text of each.
    pub items: Vec<(u32, Vec<u8>)>,
    /// Where the number of items is, and where the items end; none if there is no list.
    pub list: Option<(usize, usize)>,
    /// The tag of the class of an item.
    pub tag: u32,
}

/// Where things are in a streamed object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    /// Numbers by the names of members, those of members that are objects as `fXaxis.fNbins`.
    pub members: HashMap<String, Place>,
    /// By the names of the axes.
    pub labels: HashMap<String, Labels>,
    pub title: Vec<u8>,
    /// Where byte counts are.
    pub counts: Vec<usize>,
    /// Where tags of classes and objects are.
    pub tags: Vec<usize>,
    /// Classes of which not all was understood, and which may have tags within.
    pub opaque: Vec<String>,
    /// The first class that the file does not describe, and its version.
    pub undescribed: Option<String>,
}
