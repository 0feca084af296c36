//! Decodes the entries of a basket value by value into columns.

use super::members::{Tally, is_wise};
use super::numbers::numbers;
use super::op::Op;
use super::versions::{is_own_header, version_of};
use crate::TreeError;
use crate::cursor::Cursor;
use crate::interp::{Hidden, ListWire, Number, NumberWire, RecordWire, TextWire};

/// The values of one column, in the order of entries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sink {
    /// Values in their final form, or lengths of lists as `i64`.
    pub bytes: Vec<u8>,
}

/// Decodes into sinks, one for each column of the branch.
pub(crate) struct Decoder<'a> {
    pub sinks: &'a mut [Sink],
    /// The lengths of the next lists of [`ListWire::Elsewhere`].
    pub lengths: &'a [u64],
}

pub(super) type Done = Result<(), TreeError>;

impl Decoder<'_> {
    pub(super) fn length(&mut self, column: Option<usize>, n: usize) {
        if let Some(sink) = column.and_then(|column| self.sinks.get_mut(column)) {
            let n = i64::try_from(n).unwrap_or(i64::MAX);
            sink.bytes.extend_from_slice(&n.to_ne_bytes());
        }
    }

    /// Decodes one value.
    pub fn one(&mut self, op: &Op, c: &mut Cursor<'_>) -> Done {
        match op {
            Op::Number { number, column } => self.numbers(*number, 1, *column, c),
            op if op.is_headed() => self.headed(op, 1, c),
            Op::Text { .. } => self.body(op, c),
            Op::Array { n, item } => self.items(item, *n, c),
            Op::List {
                wire: ListWire::Rest,
                index,
                item,
                ..
            } => {
                let n = self.rest(item, c)?;
                self.length(*index, n);
                Ok(())
            }
            Op::List {
                wire: ListWire::Marked,
                index,
                item,
                ..
            } => {
                let n = match c.remaining() {
                    0 => 0,
                    _ => {
                        c.skip(1, "array")?;
                        self.rest(item, c)?
                    }
                };
                self.length(*index, n);
                Ok(())
            }
            Op::List {
                wire: ListWire::Elsewhere,
                index,
                item,
                ..
            } => {
                let Some(n) = self.lengths.split_off_first() else {
                    return Err(c.corrupt("items", "as many as lengths", "more"));
                };
                let n = match c.u8("array")? {
                    0 => 0,
                    _ => usize::try_from(*n).unwrap_or(usize::MAX),
                };
                self.length(*index, n);
                self.items(item, n, c)
            }
            Op::List { .. } => self.body(op, c),
            Op::Record { .. } => self.record(op, c),
            Op::Hidden(Hidden::Object) => c.object().map(|_| ()),
            Op::Hidden(Hidden::ClassName) => {
                c.string("name of a class")?;
                c.skip(1, "name of a class")
            }
            Op::Hidden(Hidden::Bytes(n)) => c.skip(*n, "unnamed member"),
        }
    }

    /// Decodes a string or a counted list after its header.
    pub(super) fn body(&mut self, op: &Op, c: &mut Cursor<'_>) -> Done {
        match op {
            Op::Text { wire, index, chars } => {
                let bytes = match wire {
                    // an empty string may have no bytes at all
                    _ if c.remaining() == 0 => &[],
                    TextWire::Long => {
                        let n = c.count(1, "length of a string")?;
                        c.take(n, "string")?
                    }
                    _ => c.string("string")?,
                };
                self.length(*index, bytes.len());
                if let Some(sink) = chars.and_then(|chars| self.sinks.get_mut(chars)) {
                    sink.bytes.extend_from_slice(bytes);
                }
                Ok(())
            }
            Op::List {
                index, item, least, ..
            } => {
                let n = c.count(*least, "number of items")?;
                self.length(*index, n);
                self.items(item, n, c)
            }
            other => self.one(other, c),
        }
    }

    pub(super) fn items(&mut self, item: &Op, n: usize, c: &mut Cursor<'_>) -> Done {
        if let Op::Number { number, column } = item {
            return self.numbers(*number, n, *column, c);
        }
        if n > c.remaining() && least_is_zero(item) {
            return Err(c.corrupt("number of items", "items with contents", n));
        }
        for _ in 0..n {
            let before = c.position();
            self.one(item, c)?;
            // otherwise a few bytes of a type could request any number of values
            if n > 1 && c.position() == before && !least_is_zero(item) {
                return Err(c.corrupt("items", "items with contents", "one without"));
            }
        }
        Ok(())
    }

    fn numbers(
        &mut self,
        number: Number,
        n: usize,
        column: Option<usize>,
        c: &mut Cursor<'_>,
    ) -> Done {
        let Some(size) = number.size() else {
            for _ in 0..n {
                self.bits(number, column, c)?;
            }
            return Ok(());
        };
        let Some(n_bytes) = n.checked_mul(size) else {
            return Err(c.corrupt("number of items", "a valid number", n));
        };
        let bytes = c.take(n_bytes, "numbers")?;
        if let Some(sink) = column.and_then(|column| self.sinks.get_mut(column)) {
            append(number, n, bytes, &mut sink.bytes);
        }
        Ok(())
    }

    fn bits(&mut self, number: Number, column: Option<usize>, c: &mut Cursor<'_>) -> Done {
        let bytes = c.take(4, "bits of an object")?;
        if bytes.last().is_some_and(|last| last & (1 << 4) != 0) && number.wire == NumberWire::Bits
        {
            c.skip(2, "bits of an object")?;
        }
        if let Some(sink) = column.and_then(|column| self.sinks.get_mut(column)) {
            append(number, 1, bytes, &mut sink.bytes);
        }
        Ok(())
    }

    fn record(&mut self, op: &Op, c: &mut Cursor<'_>) -> Done {
        let Op::Record { counters, .. } = op else {
            return Ok(());
        };
        self.record_with(op, &mut Tally::new(counters), c)
    }

    /// Decodes an object or a base, whose members `tally` counts together with those of the class.
    fn record_with(&mut self, op: &Op, tally: &mut Tally<'_>, c: &mut Cursor<'_>) -> Done {
        let Op::Record {
            wire,
            members,
            bases,
            others,
            ..
        } = op
        else {
            return Ok(());
        };
        let has_header = match wire {
            RecordWire::Bare => false,
            RecordWire::Headed { .. } => true,
            RecordWire::Maybe { .. } => is_own_header(c, members.first()),
        };
        if !has_header {
            return self.members(members, bases, tally, c);
        }
        let header = c.header("object")?;
        match version_of(op, header.version, c)?.and_then(|at| others.get(at)) {
            None => self.members(members, bases, tally, c)?,
            Some(other) => {
                let mut own = Tally::new(&other.counters);
                self.members(&other.members, &other.bases, &mut own, c)?;
                other.absent.iter().for_each(|op| self.nothing(op, 1));
                tally.next = tally.next.saturating_add(op.n_members());
            }
        }
        c.close(header, "object")
    }

    fn members(
        &mut self,
        members: &[Op],
        bases: &[usize],
        tally: &mut Tally<'_>,
        c: &mut Cursor<'_>,
    ) -> Done {
        for (at, member) in members.iter().enumerate() {
            if bases.contains(&at) {
                let outer = std::mem::replace(&mut tally.first, tally.next);
                self.record_with(member, tally, c)?;
                tally.first = outer;
                continue;
            }
            tally.pass(member, 1, c)?;
            match member {
                Op::List { wire, .. } if wire.counter().is_some() => {
                    self.pointed(member, 1, tally, c)?;
                }
                other => self.one(other, c)?,
            }
        }
        Ok(())
    }

    /// Appends `n` values of an absent member: zero, or empty.
    fn nothing(&mut self, op: &Op, n: usize) {
        match op {
            Op::Number { number, column } => {
                if let Some(sink) = column.and_then(|column| self.sinks.get_mut(column)) {
                    let n_bytes = n.saturating_mul(number.dtype.size());
                    sink.bytes
                        .resize(sink.bytes.len().saturating_add(n_bytes), 0);
                }
            }
            Op::Text { index, .. } | Op::List { index, .. } => {
                (0..n).for_each(|_| self.length(*index, 0));
            }
            Op::Array { n: each, item } => self.nothing(item, n.saturating_mul(*each)),
            Op::Record { members, .. } => members.iter().for_each(|op| self.nothing(op, n)),
            Op::Hidden(_) => {}
        }
    }

    /// Decodes items up to the end; returns their number.
    fn rest(&mut self, item: &Op, c: &mut Cursor<'_>) -> Result<usize, TreeError> {
        if c.remaining() == 0 {
            return Ok(0);
        }
        if let Op::Number { number, column } = item
            && let Some(size) = number.size()
        {
            let n = c.remaining() / size;
            self.numbers(*number, n, *column, c)?;
            return self.at_end(n, c);
        }
        let mut end = c.end();
        let mut wise = false;
        if item.is_headed() {
            let header = c.header("collection")?;
            wise = is_wise(item, header.version, c)?;
            end = header.end.unwrap_or(end);
        }
        let mut n = 0;
        while c.position() < end {
            let before = c.position();
            match item {
                item if item.is_headed() => self.shared(item, wise, c)?,
                item => self.one(item, c)?,
            }
            if c.position() == before {
                return Err(c.corrupt("items", "items with contents", "one without"));
            }
            n += 1;
        }
        self.at_end(n, c)
    }

    fn at_end(&self, n: usize, c: &Cursor<'_>) -> Result<usize, TreeError> {
        match c.remaining() {
            0 => Ok(n),
            left => Err(c.corrupt(
                "items",
                "the end of the entry",
                format_args!("{left} bytes"),
            )),
        }
    }
}

/// Appends numbers to a column.
pub(super) fn append(number: Number, n: usize, bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(
        start.saturating_add(n.saturating_mul(number.dtype.size())),
        0,
    );
    numbers(number, bytes, out.get_mut(start..).unwrap_or_default());
}

pub(super) fn least_is_zero(op: &Op) -> bool {
    matches!(op, Op::Record { members, .. } if members.is_empty())
        || matches!(op, Op::Hidden(Hidden::Bytes(0)) | Op::Array { n: 0, .. })
}
