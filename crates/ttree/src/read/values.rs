//! Decoding the entries of a basket, value by value, into columns.

use femtobarn_rootfile::MEMBER_WISE;

use super::numbers::numbers;
use super::op::Op;
use super::versions::{class_version, is_own_header, version_of};
use crate::TreeError;
use crate::cursor::Cursor;
use crate::interp::{Hidden, ListWire, Number, NumberWire, RecordWire, TextWire};

/// Values of one column, in the order of entries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sink {
    /// Values as they will be, or lengths of lists as `i64`.
    pub bytes: Vec<u8>,
}

/// Decodes into sinks, one for each column of the branch.
pub(crate) struct Decoder<'a> {
    pub sinks: &'a mut [Sink],
}

type Done = Result<(), TreeError>;

impl Decoder<'_> {
    fn length(&mut self, column: Option<usize>, n: usize) {
        if let Some(sink) = column.and_then(|column| self.sinks.get_mut(column)) {
            let n = i64::try_from(n).unwrap_or(i64::MAX);
            sink.bytes.extend_from_slice(&n.to_ne_bytes());
        }
    }

    /// One value.
    pub fn one(&mut self, op: &Op, c: &mut Cursor<'_>) -> Done {
        match op {
            Op::Number { number, column } => self.numbers(*number, 1, *column, c),
            Op::Text { wire, .. } => {
                if *wire == (TextWire::Short { header: true }) {
                    let header = c.header("std::string")?;
                    self.body(op, c)?;
                    return c.finish(header, "std::string");
                }
                self.body(op, c)
            }
            Op::Array { n, item } => self.items(item, *n, c),
            Op::List {
                wire: ListWire::Counted { header: true },
                index,
                item,
                ..
            } => {
                let header = c.header("collection")?;
                if header.version & MEMBER_WISE != 0 {
                    class_version(item, header.version & !MEMBER_WISE, c)?;
                    self.member_wise(*index, item, c)?;
                } else {
                    self.body(op, c)?;
                }
                c.finish(header, "collection")
            }
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
            Op::List { .. } => self.body(op, c),
            Op::Record { .. } => self.record(op, c),
            Op::Hidden(Hidden::Object) => c.object().map(|_| ()),
            Op::Hidden(Hidden::ClassName) => {
                c.string("name of a class")?;
                c.skip(1, "name of a class")
            }
            Op::Hidden(Hidden::Bytes(n)) => c.skip(*n, "member that is not shown"),
        }
    }

    /// A text or a counted list without its header.
    fn body(&mut self, op: &Op, c: &mut Cursor<'_>) -> Done {
        match op {
            Op::Text { wire, index, chars } => {
                let bytes = match wire {
                    // an empty text may leave nothing at all
                    _ if c.remaining() == 0 => &[],
                    TextWire::Long => {
                        let n = c.count(1, "length of a text")?;
                        c.take(n, "text")?
                    }
                    _ => c.string("text")?,
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

    fn items(&mut self, item: &Op, n: usize, c: &mut Cursor<'_>) -> Done {
        if let Op::Number { number, column } = item {
            return self.numbers(*number, n, *column, c);
        }
        if n > c.remaining() && least_is_zero(item) {
            return Err(c.corrupt("number of items", "items with contents", n));
        }
        for _ in 0..n {
            let before = c.position();
            self.one(item, c)?;
            // else a few bytes of a type could ask for any number of values
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
            return Err(c.corrupt("number of items", "a number that can be", n));
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
        let Op::Record {
            wire,
            members,
            counters,
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
            return self.members(members, counters, c);
        }
        let header = c.header("object")?;
        match version_of(op, header.version, c)?.and_then(|at| others.get(at)) {
            None => self.members(members, counters, c)?,
            Some(other) => {
                self.members(&other.members, &other.counters, c)?;
                other.absent.iter().for_each(|op| self.nothing(op, 1));
            }
        }
        c.finish(header, "object")
    }

    fn members(&mut self, members: &[Op], counters: &[usize], c: &mut Cursor<'_>) -> Done {
        let mut counts: Vec<(usize, usize)> = Vec::new();
        for (at, member) in members.iter().enumerate() {
            if counters.contains(&at) {
                counts.push((at, peek_count(member, c)?));
            }
            match member {
                Op::List {
                    wire:
                        ListWire::Pointed {
                            counter,
                            mark,
                            header,
                        },
                    index,
                    item,
                    ..
                } => {
                    let known = counts.iter().find(|(at, _)| at == counter);
                    let mut n = known.map_or(0, |&(_, n)| n);
                    if *mark && c.u8("array")? == 0 {
                        n = 0;
                    }
                    let header = header.then(|| c.header("objects")).transpose()?;
                    self.length(*index, n);
                    self.items(item, n, c)?;
                    if let Some(header) = header {
                        c.finish(header, "objects")?;
                    }
                }
                other => self.one(other, c)?,
            }
        }
        Ok(())
    }

    /// `n` values of what is not stored: zero, or empty.
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

    /// Items up to the end; gives their number.
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
            wise = header.version & MEMBER_WISE != 0;
            if let (true, Op::List { item, .. }) = (wise, item) {
                class_version(item, header.version & !MEMBER_WISE, c)?;
            }
            end = header.end.unwrap_or(end);
        }
        let mut n = 0;
        while c.position() < end {
            let before = c.position();
            match item {
                Op::List { index, item, .. } if wise => self.member_wise(*index, item, c)?,
                item if item.is_headed() => self.body(item, c)?,
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

    /// Items of a collection, first one member of all, then the next.
    fn member_wise(&mut self, index: Option<usize>, item: &Op, c: &mut Cursor<'_>) -> Done {
        if !matches!(item, Op::Record { .. }) {
            return Err(TreeError::Unsupported(
                "values that are no objects, stored member by member".into(),
            ));
        }
        let n = c.count(1, "number of items")?;
        self.length(index, n);
        match n {
            0 => Ok(()),
            n => self.columns(item, n, c),
        }
    }

    /// The members of `n` objects, one member of all after the other; those of bases among them.
    fn columns(&mut self, record: &Op, n: usize, c: &mut Cursor<'_>) -> Done {
        let Op::Record { members, bases, .. } = record else {
            return Ok(());
        };
        for (at, member) in members.iter().enumerate() {
            if bases.contains(&at) {
                self.columns(member, n, c)?;
                continue;
            }
            if !member.has_common_header() {
                self.items(member, n, c)?;
                continue;
            }
            let header = c.header("members of items")?;
            let wise = header.version & MEMBER_WISE != 0;
            if let (true, Op::List { item, .. }) = (wise, member) {
                class_version(item, header.version & !MEMBER_WISE, c)?;
            }
            for _ in 0..n {
                match member {
                    Op::List { index, item, .. } if wise => self.member_wise(*index, item, c)?,
                    member => self.body(member, c)?,
                }
            }
            c.finish(header, "members of items")?;
        }
        Ok(())
    }
}

/// Appends numbers to a column.
fn append(number: Number, n: usize, bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(
        start.saturating_add(n.saturating_mul(number.dtype.size())),
        0,
    );
    numbers(number, bytes, out.get_mut(start..).unwrap_or_default());
}

fn least_is_zero(op: &Op) -> bool {
    matches!(op, Op::Record { members, .. } if members.is_empty())
        || matches!(op, Op::Hidden(Hidden::Bytes(0)) | Op::Array { n: 0, .. })
}

/// The value of a member that counts, which comes next.
fn peek_count(member: &Op, c: &Cursor<'_>) -> Result<usize, TreeError> {
    let Op::Number { number, .. } = member else {
        return Ok(0);
    };
    let mut ahead = c.clone();
    let bytes = ahead.take(number.size().unwrap_or(4), "number of items")?;
    let value = bytes
        .iter()
        .fold(0u64, |sum, &byte| (sum << 8) | u64::from(byte));
    let is_negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    if is_negative && !matches!(bytes.len(), 1 | 2) {
        return Err(c.corrupt("number of items", "a count", value));
    }
    Ok(usize::try_from(value).unwrap_or(usize::MAX))
}
