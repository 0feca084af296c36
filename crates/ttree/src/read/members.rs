//! Shared parts of several values: headers of arrays and of members of items, and counter members.

use femtobarn_rootfile::MEMBER_WISE;

use super::op::Op;
use super::values::{Decoder, Done, append, least_is_zero};
use super::versions::class_version;
use crate::TreeError;
use crate::cursor::Cursor;
use crate::interp::ListWire;

/// The values of counter members read so far.
pub(super) struct Tally<'o> {
    /// The counter members; members of bases count in place of the base.
    wanted: &'o [usize],
    /// The next member.
    pub next: usize,
    /// The first member of the class or base that is being read.
    pub first: usize,
    /// Members and their values: one value per object that is read together.
    found: Vec<(usize, usize)>,
}

impl<'o> Tally<'o> {
    pub fn new(wanted: &'o [usize]) -> Self {
        Self {
            wanted,
            next: 0,
            first: 0,
            found: Vec::new(),
        }
    }

    /// Passes the next member of `n` objects.
    pub fn pass(&mut self, member: &Op, n: usize, c: &Cursor<'_>) -> Done {
        if self.wanted.contains(&self.next) {
            let mut ahead = c.clone();
            for _ in 0..n {
                self.found.push((self.next, count(member, &mut ahead)?));
            }
        }
        self.next += 1;
        Ok(())
    }

    /// The values of a counter for a later member.
    fn counts(&self, counter: usize) -> impl Iterator<Item = usize> {
        let wanted = self.first.saturating_add(counter);
        let found = self.found.iter().filter(move |(at, _)| *at == wanted);
        found.map(|&(_, n)| n)
    }
}

/// Reads the value of a counter member.
fn count(member: &Op, c: &mut Cursor<'_>) -> Result<usize, TreeError> {
    let Op::Number { number, .. } = member else {
        return Ok(0);
    };
    let bytes = c.take(number.size().unwrap_or(4), "number of items")?;
    let value = bytes
        .iter()
        .fold(0u64, |sum, &byte| (sum << 8) | u64::from(byte));
    let is_negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    if is_negative && !matches!(bytes.len(), 1 | 2) {
        return Err(c.corrupt("number of items", "a count", value));
    }
    Ok(usize::try_from(value).unwrap_or(usize::MAX))
}

impl Decoder<'_> {
    /// Reads `n` values of a type with a header, which they share.
    pub(super) fn headed(&mut self, op: &Op, n: usize, c: &mut Cursor<'_>) -> Done {
        let header = c.header("collection")?;
        let wise = is_wise(op, header.version, c)?;
        self.several(op, n, wise, c)?;
        c.close(header, "collection")
    }

    fn several(&mut self, op: &Op, n: usize, wise: bool, c: &mut Cursor<'_>) -> Done {
        for _ in 0..n {
            let before = c.position();
            self.shared(op, wise, c)?;
            // otherwise a few bytes of a type could request any number of values
            if n > 1 && c.position() == before {
                return match least_is_zero(op) {
                    true => Ok(()),
                    false => Err(c.corrupt("items", "items with contents", "one without")),
                };
            }
        }
        Ok(())
    }

    /// Reads a value after its header: strings, counted lists, and arrays of these.
    pub(super) fn shared(&mut self, op: &Op, wise: bool, c: &mut Cursor<'_>) -> Done {
        match op {
            Op::Array { n, item } => self.several(item, *n, wise, c),
            Op::List { index, item, .. } if wise => self.member_wise(*index, item, c),
            other => self.body(other, c),
        }
    }

    /// Reads items of a collection that are stored member-wise.
    fn member_wise(&mut self, index: Option<usize>, item: &Op, c: &mut Cursor<'_>) -> Done {
        let Op::Record { counters, .. } = item else {
            return Err(TreeError::Unsupported(
                "member-wise values that are not objects".into(),
            ));
        };
        let n = c.count(1, "number of items")?;
        self.length(index, n);
        match n {
            0 => Ok(()),
            n => self.columns(item, n, &mut Tally::new(counters), c),
        }
    }

    /// Reads the members of `n` objects member-wise, including those of bases.
    fn columns(
        &mut self,
        record: &Op,
        n: usize,
        tally: &mut Tally<'_>,
        c: &mut Cursor<'_>,
    ) -> Done {
        let Op::Record { members, bases, .. } = record else {
            return Ok(());
        };
        for (at, member) in members.iter().enumerate() {
            if bases.contains(&at) {
                let outer = std::mem::replace(&mut tally.first, tally.next);
                self.columns(member, n, tally, c)?;
                tally.first = outer;
                continue;
            }
            tally.pass(member, n, c)?;
            match member {
                Op::List { wire, .. } if wire.counter().is_some() => {
                    self.pointed(member, n, tally, c)?;
                }
                member if member.has_common_header() => self.headed(member, n, c)?,
                member => self.items(member, n, c)?,
            }
        }
        Ok(())
    }

    /// Writes all elements of a symmetric matrix of `n` rows.
    fn triangle(&mut self, index: Option<usize>, item: &Op, n: usize, c: &mut Cursor<'_>) -> Done {
        let Op::Number { number, column } = item else {
            return Ok(());
        };
        let size = number.size().unwrap_or(8);
        let n_stored = n.checked_add(1).and_then(|more| more.checked_mul(n));
        let n_bytes = n_stored.and_then(|twice| (twice / 2).checked_mul(size));
        let Some(n_bytes) = n_bytes else {
            return Err(c.corrupt("number of rows", "a valid number", n));
        };
        let stored = c.take(n_bytes, "elements of a symmetric matrix")?;
        self.length(index, n.saturating_mul(n));
        let mut all = Vec::with_capacity(n_bytes.saturating_mul(2));
        for (row, column) in (0..n).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let at = row_of(row.min(column), n) + row.max(column);
            let bytes = stored.get(at * size..(at + 1) * size);
            all.extend_from_slice(bytes.unwrap_or_default());
        }
        if let Some(sink) = column.and_then(|column| self.sinks.get_mut(column)) {
            append(*number, n.saturating_mul(n), &all, &mut sink.bytes);
        }
        Ok(())
    }

    /// Reads lists of `n` objects, whose lengths are in another member.
    pub(super) fn pointed(
        &mut self,
        list: &Op,
        n: usize,
        tally: &Tally<'_>,
        c: &mut Cursor<'_>,
    ) -> Done {
        let Op::List {
            wire, index, item, ..
        } = list
        else {
            return self.items(list, n, c);
        };
        let (mark, header) = match wire {
            ListWire::Pointed { mark, header, .. } => (*mark, *header),
            _ => (false, false),
        };
        let header = header.then(|| c.header("objects")).transpose()?;
        let mut counts = tally.counts(wire.counter().unwrap_or(0));
        for _ in 0..n {
            let Some(mut n) = counts.next() else {
                return Err(TreeError::Unsupported(
                    "a list whose length is in a different version of a base class".into(),
                ));
            };
            if let ListWire::Triangle { .. } = wire {
                self.triangle(*index, item, n, c)?;
                continue;
            }
            if mark && c.u8("array")? == 0 {
                n = 0;
            }
            self.length(*index, n);
            self.items(item, n, c)?;
        }
        header.map_or(Ok(()), |header| c.close(header, "objects"))
    }
}

/// The position at which row `row` of the triangle would begin if it had the elements left of the diagonal.
fn row_of(row: usize, n: usize) -> usize {
    (row * n).saturating_sub(row * (row + 1) / 2)
}

/// Whether items after a header with this version are stored member-wise. If so, reads the version of their class, which
/// comes next.
pub(super) fn is_wise(op: &Op, version: u16, c: &mut Cursor<'_>) -> Result<bool, TreeError> {
    let is_wise = version & MEMBER_WISE != 0;
    let mut inner = op;
    while let Op::Array { item, .. } = inner {
        inner = item;
    }
    if let (true, Op::List { item, .. }) = (is_wise, inner) {
        class_version(item, version & !MEMBER_WISE, c)?;
    }
    Ok(is_wise)
}
