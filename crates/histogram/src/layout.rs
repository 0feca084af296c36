//! Positions in a streamed object.

use std::collections::HashMap;

use crate::numbers::Kind;

/// The location of consecutive numbers of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub kind: Kind,
    pub at: usize,
    pub n: usize,
}

impl Place {
    /// The range of bytes.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.at
            ..self
                .at
                .saturating_add(self.n.saturating_mul(self.kind.size()))
    }
}

/// The name and the title of an object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    pub name: Vec<u8>,
    /// Where the name is, with its length.
    pub name_at: std::ops::Range<usize>,
    pub title: Vec<u8>,
}

/// The labels of an axis.
#[derive(Debug, Clone, Default)]
pub(crate) struct Labels {
    /// Bin and label of each.
    pub items: Vec<(u32, Vec<u8>)>,
    /// Position of the number of items, and end of the items; none if there is no list.
    pub list: Option<(usize, usize)>,
    /// The tag of the class of an item.
    pub tag: u32,
}

/// Positions in a streamed object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    /// Numbers by member name; those of member objects by a path such as `fXaxis.fNbins`.
    pub members: HashMap<String, Place>,
    /// Labels by axis name.
    pub labels: HashMap<String, Labels>,
    /// Names and titles by the path of their object: that of the histogram is empty, that of an axis is as `fXaxis.`.
    pub names: HashMap<String, Names>,
    /// Positions of byte counts.
    pub counts: Vec<usize>,
    /// Positions of tags of classes and objects.
    pub tags: Vec<usize>,
    /// Classes that were only partly parsed, and may contain tags.
    pub opaque: Vec<String>,
    /// The first class without a description in the file, and its version.
    pub undescribed: Option<String>,
}
