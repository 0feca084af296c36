//! Comparing arrays, bit by bit: the first value of a range that is another one.

use femtobarn_rntuple::array::{Arrays, SlotData};
use femtobarn_rntuple::schema::{Node, NodeKind, SlotId};

use super::text::{bytes_text, length_text, number_text};

/// The first of some values that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unequal {
    /// Its index, counted from the first compared one.
    pub at: u64,
    /// The differing part, such as `[2].pt`; empty if it is a number or a string itself.
    pub item: String,
    pub found: String,
    pub expected: String,
}

impl Unequal {
    /// The same, seen from what holds it.
    fn within(self, at: u64, item: &str) -> Self {
        let item = format!("{item}{}", self.item);
        Self { at, item, ..self }
    }
}

/// Arrays of one schema.
#[derive(Clone, Copy)]
struct Side<'a>(&'a Arrays);

impl<'a> Side<'a> {
    fn leaf(self, slot: SlotId, from: u64, n: u64) -> Option<&'a [u8]> {
        let (dtype, values) = self.0.leaf(slot)?;
        let size = dtype.size() as u64;
        let start = usize::try_from(from.checked_mul(size)?).ok()?;
        let length = usize::try_from(n.checked_mul(size)?).ok()?;
        values.get(start..start.checked_add(length)?)
    }

    /// Where `n` lists begin, and where the last one ends.
    fn offsets(self, slot: SlotId, from: u64, n: u64) -> Option<Vec<u64>> {
        let offsets = self.0.offsets(slot)?;
        let start = usize::try_from(from.checked_mul(8)?).ok()?;
        let length = usize::try_from(n.checked_add(1)?.checked_mul(8)?).ok()?;
        let bytes = offsets.get(start..start.checked_add(length)?)?;
        Some(
            bytes
                .as_chunks::<8>()
                .0
                .iter()
                .map(|b| u64::from_le_bytes(*b))
                .collect(),
        )
    }

    /// The alternative of a variant and its index there; 0 for none.
    fn variant(self, slot: SlotId, at: u64) -> Option<(u8, u64)> {
        let SlotData::Switch {
            tags, positions, ..
        } = self.0.slot(slot)?
        else {
            return None;
        };
        let at = usize::try_from(at).ok()?;
        let position = positions.get(at.checked_mul(8)?..)?.first_chunk::<8>()?;
        Some((*tags.get(at)?, u64::from_le_bytes(*position)))
    }
}

/// The first difference between `n` values of two arrays with one schema, from separate start indices. The outer option
/// is none if the arrays lack something, which they never should.
pub(super) fn compare(
    node: &Node,
    (found, expected): (&Arrays, &Arrays),
    (a, b): (u64, u64),
    n: u64,
) -> Option<Option<Unequal>> {
    let pair = Pair {
        found: Side(found),
        expected: Side(expected),
    };
    pair.values(node, (a, b), n)
}

struct Pair<'a> {
    found: Side<'a>,
    expected: Side<'a>,
}

type At = (u64, u64);

impl Pair<'_> {
    fn values(&self, node: &Node, at: At, n: u64) -> Option<Option<Unequal>> {
        match &node.kind {
            NodeKind::Leaf { slot } => self.leaf(*slot, at, n),
            NodeKind::Cardinality { index, .. } => self.lists(*index, None, at, n),
            NodeKind::String { index, chars } => self.texts(*index, *chars, at, n),
            NodeKind::Bytes { index, bytes, .. } => self.texts(*index, *bytes, at, n),
            NodeKind::List { index, item, .. } | NodeKind::Optional { index, item } => {
                self.lists(*index, Some(item), at, n)
            }
            NodeKind::Regular { size, item } => {
                let within = |at: u64| at.checked_mul(*size);
                let inner = self.values(item, (within(at.0)?, within(at.1)?), within(n)?)?;
                let size = (*size).max(1);
                Some(inner.map(|it| {
                    let item = format!("[{}]", it.at % size);
                    let at = it.at / size;
                    it.within(at, &item)
                }))
            }
            NodeKind::Record { names, members, .. } => {
                let mut first: Option<Unequal> = None;
                for (i, member) in members.iter().enumerate() {
                    // only what comes before the difference that is known
                    let n = first.as_ref().map_or(n, |first| first.at);
                    if let Some(it) = self.values(member, at, n)? {
                        let name = names.as_ref().and_then(|names| names.get(i));
                        let name = name.map_or(format!("[{i}]"), |name| format!(".{name}"));
                        let at = it.at;
                        first = Some(it.within(at, &name));
                    }
                }
                Some(first)
            }
            NodeKind::Variant {
                switch,
                alternatives,
            } => self.variants(*switch, alternatives, at, n),
        }
    }

    fn leaf(&self, slot: SlotId, (a, b): At, n: u64) -> Option<Option<Unequal>> {
        let (dtype, _) = self.found.0.leaf(slot)?;
        let found = self.found.leaf(slot, a, n)?;
        let expected = self.expected.leaf(slot, b, n)?;
        if found == expected {
            return Some(None);
        }
        let size = dtype.size();
        let mut each = found.chunks(size).zip(expected.chunks(size)).zip(0..);
        let ((found, expected), at) = each.find(|((a, b), _)| a != b)?;
        Some(Some(Unequal {
            at,
            item: String::new(),
            found: number_text(dtype, found)?,
            expected: number_text(dtype, expected)?,
        }))
    }

    /// Lists, and their items if there are any.
    fn lists(
        &self,
        slot: SlotId,
        item: Option<&Node>,
        (a, b): At,
        n: u64,
    ) -> Option<Option<Unequal>> {
        let found = self.found.offsets(slot, a, n)?;
        let expected = self.expected.offsets(slot, b, n)?;
        let (n_equal, lengths) = equal_lengths(&found, &expected)?;
        let (first, other) = (*found.first()?, *expected.first()?);
        let n_items = found.get(usize::try_from(n_equal).ok()?)? - first;
        if let Some(item) = item
            && let Some(it) = self.values(item, (first, other), n_items)?
        {
            let place = first + it.at;
            let at = (found.partition_point(|&offset| offset <= place) as u64).checked_sub(1)?;
            let start = *found.get(usize::try_from(at).ok()?)?;
            return Some(Some(it.within(at, &format!("[{}]", place - start))));
        }
        Some(lengths.map(|(a, b)| Unequal {
            at: n_equal,
            item: String::new(),
            found: length_text(a),
            expected: length_text(b),
        }))
    }

    fn texts(&self, slot: SlotId, content: SlotId, (a, b): At, n: u64) -> Option<Option<Unequal>> {
        let found = self.found.offsets(slot, a, n)?;
        let expected = self.expected.offsets(slot, b, n)?;
        let whole = |side: Side<'_>, offsets: &[u64]| {
            let (first, last) = (*offsets.first()?, *offsets.last()?);
            Some(
                side.leaf(content, first, last.checked_sub(first)?)?
                    .to_vec(),
            )
        };
        let (_, lengths) = equal_lengths(&found, &expected)?;
        if lengths.is_none() && whole(self.found, &found)? == whole(self.expected, &expected)? {
            return Some(None);
        }
        for (at, (a, b)) in (0..).zip(found.windows(2).zip(expected.windows(2))) {
            let text = |side: Side<'_>, pair: &[u64]| match *pair {
                [start, end] => Some(side.leaf(content, start, end.checked_sub(start)?)?.to_vec()),
                _ => None,
            };
            let (found, expected) = (text(self.found, a)?, text(self.expected, b)?);
            if found != expected {
                return Some(Some(Unequal {
                    at,
                    item: String::new(),
                    found: bytes_text(&found),
                    expected: bytes_text(&expected),
                }));
            }
        }
        Some(None)
    }

    fn variants(
        &self,
        switch: SlotId,
        alternatives: &[Node],
        (a, b): At,
        n: u64,
    ) -> Option<Option<Unequal>> {
        for at in 0..n {
            let (tag, found) = self.found.variant(switch, a + at)?;
            let (other, expected) = self.expected.variant(switch, b + at)?;
            if tag != other {
                let text = |tag: u8| match tag.checked_sub(1) {
                    None => "no value".to_owned(),
                    Some(tag) => format!("alternative {tag}"),
                };
                return Some(Some(Unequal {
                    at,
                    item: String::new(),
                    found: text(tag),
                    expected: text(other),
                }));
            }
            let Some(node) = usize::from(tag).checked_sub(1) else {
                continue;
            };
            if let Some(it) = self.values(alternatives.get(node)?, (found, expected), 1)? {
                return Some(Some(it.within(at, "")));
            }
        }
        Some(None)
    }
}

/// How many lists from the first on have equal lengths, and the lengths of the next one.
fn equal_lengths(found: &[u64], expected: &[u64]) -> Option<(u64, Option<(u64, u64)>)> {
    let length = |pair: &[u64]| match *pair {
        [start, end] => end.checked_sub(start),
        _ => None,
    };
    for (at, (a, b)) in (0..).zip(found.windows(2).zip(expected.windows(2))) {
        let (a, b) = (length(a)?, length(b)?);
        if a != b {
            return Some((at, Some((a, b))));
        }
    }
    Some((found.len().saturating_sub(1) as u64, None))
}

/// The first of some values that is not zero, empty or missing.
pub(super) fn first_value(
    node: &Node,
    arrays: &Arrays,
    from: u64,
    n: u64,
) -> Option<Option<Unequal>> {
    let side = Side(arrays);
    let unequal = |at: u64, found: String, expected: &str| {
        Some(Some(Unequal {
            at,
            item: String::new(),
            found,
            expected: expected.to_owned(),
        }))
    };
    match &node.kind {
        NodeKind::Leaf { slot } => {
            let (dtype, _) = arrays.leaf(*slot)?;
            let values = side.leaf(*slot, from, n)?.chunks(dtype.size());
            match (0..)
                .zip(values)
                .find(|(_, value)| value.iter().any(|&byte| byte != 0))
            {
                None => Some(None),
                Some((at, value)) => unequal(at, number_text(dtype, value)?, "zero"),
            }
        }
        NodeKind::Cardinality { index, .. }
        | NodeKind::String { index, .. }
        | NodeKind::Bytes { index, .. }
        | NodeKind::List { index, .. }
        | NodeKind::Optional { index, .. } => {
            let offsets = side.offsets(*index, from, n)?;
            let mut each = (0..).zip(offsets.windows(2));
            match each.find_map(|(at, pair)| match *pair {
                [start, end] if start != end => Some((at, end.saturating_sub(start))),
                _ => None,
            }) {
                None => Some(None),
                Some((at, length)) => unequal(at, length_text(length), "empty"),
            }
        }
        NodeKind::Regular { size, item } => {
            let found = first_value(
                item,
                arrays,
                from.checked_mul(*size)?,
                n.checked_mul(*size)?,
            )?;
            Some(found.map(|it| {
                let at = it.at / (*size).max(1);
                it.within(at, "")
            }))
        }
        NodeKind::Record { members, .. } => {
            let mut first: Option<Unequal> = None;
            for member in members {
                let n = first.as_ref().map_or(n, |first| first.at);
                first = first_value(member, arrays, from, n)?.or(first);
            }
            Some(first)
        }
        NodeKind::Variant { switch, .. } => {
            for at in 0..n {
                if side.variant(*switch, from + at)?.0 != 0 {
                    return unequal(at, "a value".to_owned(), "no value");
                }
            }
            Some(None)
        }
    }
}
