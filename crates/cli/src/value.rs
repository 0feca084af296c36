//! Values of arrays as text and as JSON.
//!
//! JSON has the form of Awkward's `to_list`: lists as arrays, records as objects, tuples as arrays, options and
//! variants as their value or `null`. Floating-point numbers have the fewest digits that reproduce them; values without
//! a JSON number are "NaN", "Infinity", "-Infinity". A string that is not UTF-8 is `{"bytes": hex}`, an object that
//! ROOT streamed `{"class": name, "bytes": hex}`. Text looks like C++ and Python instead, and may be cut.

use std::fmt::Write;
use std::ops::Range;

use femtobarn::array::{Arrays, SlotData};
use femtobarn::codec::real::half_to_f32;
use femtobarn::schema::{DType, Node, NodeKind};

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// For people; long lists end when this many bytes are written.
    Text(usize),
    /// For programs.
    Json,
}

/// Writes values of arrays.
#[derive(Clone, Copy)]
pub struct Values<'a> {
    pub arrays: &'a Arrays,
    pub style: Style,
}

impl Values<'_> {
    /// Appends value `index` of `node`; none if the arrays are incomplete, which is a bug.
    pub fn write(self, node: &Node, index: usize, out: &mut String) -> Option<()> {
        match &node.kind {
            NodeKind::Leaf { slot } => {
                let (dtype, values) = self.arrays.leaf(*slot)?;
                let size = dtype.size();
                let start = index.checked_mul(size)?;
                self.number(dtype, values.get(start..start.checked_add(size)?)?, out)
            }
            NodeKind::Cardinality { index: slot, .. } => {
                write!(out, "{}", self.range(*slot, index)?.len()).ok()
            }
            NodeKind::String { index: slot, chars } => {
                self.string(self.bytes(*slot, *chars, index)?, out);
                Some(())
            }
            NodeKind::Bytes {
                index: slot,
                bytes,
                class_name,
            } => {
                self.object(class_name, self.bytes(*slot, *bytes, index)?, out);
                Some(())
            }
            NodeKind::List {
                index: slot, item, ..
            } => self.list(item, self.range(*slot, index)?, out),
            NodeKind::Optional { index: slot, item } => {
                let range = self.range(*slot, index)?;
                match range.len() {
                    0 => self.null(out),
                    1 => self.write(item, range.start, out),
                    _ => None,
                }
            }
            NodeKind::Regular { size, item } => {
                let size = usize::try_from(*size).ok()?;
                let start = index.checked_mul(size)?;
                self.list(item, start..start.checked_add(size)?, out)
            }
            NodeKind::Record { names, members, .. } => {
                self.record(names.as_deref(), members, index, out)
            }
            NodeKind::Variant {
                switch,
                alternatives,
            } => self.variant(*switch, alternatives, index, out),
        }
    }

    /// Items of list `index`.
    fn range(self, slot: usize, index: usize) -> Option<Range<usize>> {
        let offsets = self.arrays.offsets(slot)?;
        let start = index.checked_mul(8)?;
        let pair = offsets.get(start..start.checked_add(16)?)?;
        let (first, last) = pair.split_first_chunk::<8>()?;
        let number = |bytes: [u8; 8]| usize::try_from(i64::from_le_bytes(bytes)).ok();
        Some(number(*first)?..number(*last.first_chunk()?)?)
    }

    fn bytes(&self, slot: usize, content: usize, index: usize) -> Option<&[u8]> {
        self.arrays.leaf(content)?.1.get(self.range(slot, index)?)
    }

    fn null(self, out: &mut String) -> Option<()> {
        out.push_str("null");
        Some(())
    }

    fn is_full(self, out: &str) -> bool {
        matches!(self.style, Style::Text(most) if out.len() > most)
    }

    fn list(self, item: &Node, range: Range<usize>, out: &mut String) -> Option<()> {
        out.push('[');
        for (i, index) in range.enumerate() {
            self.separate(i, out);
            if self.is_full(out) {
                out.push('…');
                break;
            }
            self.write(item, index, out)?;
        }
        out.push(']');
        Some(())
    }

    fn record(
        self,
        names: Option<&[String]>,
        members: &[Node],
        index: usize,
        out: &mut String,
    ) -> Option<()> {
        let (open, close) = match (names, self.style) {
            (Some(_), _) => ('{', '}'),
            // a class without members: without its name it looks like an empty tuple
            (None, _) if members.is_empty() => ('{', '}'),
            (None, Style::Text(_)) => ('(', ')'),
            (None, Style::Json) => ('[', ']'),
        };
        out.push(open);
        for (i, member) in members.iter().enumerate() {
            self.separate(i, out);
            if let Some(name) = names.and_then(|names| names.get(i)) {
                self.key(name, out);
            }
            self.write(member, index, out)?;
        }
        out.push(close);
        Some(())
    }

    fn separate(self, i: usize, out: &mut String) {
        match self.style {
            _ if i == 0 => {}
            Style::Text(_) => out.push_str(", "),
            Style::Json => out.push(','),
        }
    }

    fn key(self, name: &str, out: &mut String) {
        match self.style {
            Style::Text(_) => {
                out.push_str(name);
                out.push_str(": ");
            }
            Style::Json => {
                json_string(name, out);
                out.push(':');
            }
        }
    }

    fn variant(
        self,
        switch: usize,
        alternatives: &[Node],
        index: usize,
        out: &mut String,
    ) -> Option<()> {
        let SlotData::Switch {
            tags, positions, ..
        } = self.arrays.slot(switch)?
        else {
            return None;
        };
        let Some(alternative) = usize::from(*tags.get(index)?).checked_sub(1) else {
            return self.null(out);
        };
        let position = positions.get(index.checked_mul(8)?..)?.first_chunk::<8>()?;
        let position = usize::try_from(i64::from_le_bytes(*position)).ok()?;
        self.write(alternatives.get(alternative)?, position, out)
    }

    fn string(self, bytes: &[u8], out: &mut String) {
        match (std::str::from_utf8(bytes), self.style) {
            (Ok(text), Style::Json) => json_string(text, out),
            (Ok(text), Style::Text(most)) => {
                let end = text.char_indices().map(|(at, _)| at).find(|&at| at > most);
                let shown = end.and_then(|end| text.get(..end)).unwrap_or(text);
                // writing to a string cannot fail
                let _ = write!(out, "{shown:?}");
            }
            (Err(_), Style::Json) => {
                out.push_str("{\"bytes\":\"");
                hex(bytes, out);
                out.push_str("\"}");
            }
            (Err(_), Style::Text(most)) => {
                let shown = bytes.get(..most).unwrap_or(bytes);
                let _ = write!(out, "b\"{}\"", shown.escape_ascii());
            }
        }
    }

    /// An object as ROOT streamed it.
    fn object(self, class_name: &str, bytes: &[u8], out: &mut String) {
        if self.style != Style::Json {
            let class = if class_name.is_empty() {
                "bytes"
            } else {
                class_name
            };
            let _ = write!(out, "<{class}, {} B>", bytes.len());
            return;
        }
        out.push_str("{\"class\":");
        json_string(class_name, out);
        out.push_str(",\"bytes\":\"");
        hex(bytes, out);
        out.push_str("\"}");
    }

    fn number(self, dtype: DType, bytes: &[u8], out: &mut String) -> Option<()> {
        macro_rules! integer {
            ($type:ty) => {
                write!(out, "{}", <$type>::from_le_bytes(bytes.try_into().ok()?)).ok()
            };
        }
        match dtype {
            DType::Bool => {
                out.push_str(if bytes == [0] { "false" } else { "true" });
                Some(())
            }
            DType::Int8 => integer!(i8),
            DType::UInt8 => integer!(u8),
            DType::Int16 => integer!(i16),
            DType::UInt16 => integer!(u16),
            DType::Int32 => integer!(i32),
            DType::UInt32 => integer!(u32),
            DType::Int64 => integer!(i64),
            DType::UInt64 => integer!(u64),
            DType::Float16 => {
                let mut value = [0.0];
                half_to_f32(bytes, &mut value).ok()?;
                let [value] = value;
                self.real(value.into(), &format_args!("{value:?}"), out)
            }
            DType::Float32 => {
                let value = f32::from_le_bytes(bytes.try_into().ok()?);
                self.real(value.into(), &format_args!("{value:?}"), out)
            }
            DType::Float64 => {
                let value = f64::from_le_bytes(bytes.try_into().ok()?);
                self.real(value, &format_args!("{value:?}"), out)
            }
        }
    }

    /// A number given as its value and its shortest digits.
    fn real(self, value: f64, digits: &std::fmt::Arguments<'_>, out: &mut String) -> Option<()> {
        if value.is_finite() {
            return out.write_fmt(*digits).ok();
        }
        let (text, name) = if value.is_nan() {
            ("nan", "\"NaN\"")
        } else if value > 0.0 {
            ("inf", "\"Infinity\"")
        } else {
            ("-inf", "\"-Infinity\"")
        };
        out.push_str(if self.style == Style::Json {
            name
        } else {
            text
        });
        Some(())
    }
}

/// Appends a string with JSON's quotes and escapes.
pub fn json_string(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

fn hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
}
