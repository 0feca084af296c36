//! Objects as written by TBuffer: byte counts, versions, class tags.

use std::collections::HashMap;

use crate::RootFileError;
use crate::cursor::{Cursor, Place};

const NEW_CLASS: u32 = 0xFFFF_FFFF;
const CLASS_MASK: u32 = 0x8000_0000;
const BYTE_COUNT_MASK: u32 = 0x4000_0000;
/// Offset between positions and tags, so that no tag is 0 (null) or 1 (the parent).
const MAP_OFFSET: u64 = 2;
/// The flag in the two bytes of a version that they are the upper half of a byte count.
const SHORT_BYTE_COUNT_MASK: u16 = 0x4000;
const IS_REFERENCED: u32 = 1 << 4;

/// The bytes of an object, and the classes that have been named in it so far.
pub(crate) struct Buffer<'a> {
    pub(crate) cursor: Cursor<'a>,
    /// Positions in tags count from the beginning of the record, which is the key.
    displacement: u64,
    classes: HashMap<u64, &'a [u8]>,
}

/// The header of an object with a version.
pub(crate) struct Versioned {
    pub(crate) version: u16,
    /// The end of the object, if there is a byte count.
    pub(crate) end: Option<usize>,
}

/// The header of an object behind a pointer.
pub(crate) struct Tagged<'a> {
    pub(crate) class: &'a [u8],
    /// Offset of the tag, for errors.
    pub(crate) offset: u64,
    /// The end of the object, if there is a byte count.
    pub(crate) end: Option<usize>,
}

impl<'a> Buffer<'a> {
    pub(crate) fn new(payload: &'a [u8], key_len: u16, place: Place<'a>) -> Self {
        let cursor = Cursor::new(payload, 0, place);
        Self {
            cursor,
            displacement: u64::from(key_len),
            classes: HashMap::new(),
        }
    }

    /// Reads a byte count, if there is one, and a version.
    pub(crate) fn begin(&mut self) -> Result<Versioned, RootFileError> {
        let mut ahead = self.cursor.clone();
        let end = match ahead.u32() {
            Ok(count) if count & BYTE_COUNT_MASK != 0 => {
                self.cursor = ahead;
                Some(self.end_of(count & !BYTE_COUNT_MASK)?)
            }
            _ => None,
        };
        Ok(Versioned {
            version: self.cursor.u16()?,
            end,
        })
    }

    /// Moves to the end of the object that `begin` began: later versions may have further members.
    pub(crate) fn finish(&mut self, end: Option<usize>) -> Result<(), RootFileError> {
        let Some(end) = end else { return Ok(()) };
        let position = self.cursor.position();
        if position > end {
            let expected = format_args!("an object that ends at {end}");
            return Err(self
                .cursor
                .place()
                .corrupt(self.cursor.offset(), expected, position));
        }
        self.cursor.seek(end)
    }

    /// Reads the header of an object behind a pointer; `None` for a null pointer.
    ///
    /// References to classes are supported, references to objects are not: no object of a streamer
    /// info record occurs twice.
    pub(crate) fn tagged(&mut self) -> Result<Option<Tagged<'a>>, RootFileError> {
        let offset = self.cursor.offset();
        let mut word = self.cursor.u32()?;
        let mut tag_at = offset;
        let mut end = None;
        if word & BYTE_COUNT_MASK != 0 && word != NEW_CLASS {
            end = Some(self.end_of(word & !BYTE_COUNT_MASK)?);
            tag_at = self.cursor.offset();
            word = self.cursor.u32()?;
        }
        let class = match word {
            0 => {
                self.finish(end)?;
                return Ok(None);
            }
            NEW_CLASS => {
                let class = self.cursor.zero_terminated()?;
                self.classes
                    .insert(tag_at + self.displacement + MAP_OFFSET, class);
                class
            }
            tag if tag & CLASS_MASK != 0 => {
                let position = u64::from(tag & !CLASS_MASK);
                let unknown = || {
                    self.cursor.place().corrupt(
                        tag_at,
                        "the tag of a class",
                        format_args!("{tag:#x}"),
                    )
                };
                self.classes.get(&position).copied().ok_or_else(unknown)?
            }
            tag => {
                let found = format_args!("a reference to an object, {tag:#x}");
                return Err(self.cursor.place().corrupt(tag_at, "an object", found));
            }
        };
        Ok(Some(Tagged { class, offset, end }))
    }

    /// Skips the members of TObject.
    pub(crate) fn object(&mut self) -> Result<(), RootFileError> {
        let version = self.cursor.u16()?;
        if version & SHORT_BYTE_COUNT_MASK != 0 {
            self.cursor.take(4)?;
        }
        let _unique_id = self.cursor.u32()?;
        let bits = self.cursor.u32()?;
        if bits & IS_REFERENCED != 0 {
            let _process_id = self.cursor.u16()?;
        }
        Ok(())
    }

    /// Reads a TNamed: name and title.
    pub(crate) fn named(&mut self) -> Result<(String, String), RootFileError> {
        let start = self.begin()?;
        self.object()?;
        let names = (self.cursor.string()?, self.cursor.string()?);
        self.finish(start.end)?;
        Ok(names)
    }

    /// The end of an item of `count` bytes that begins here, if it is within the buffer.
    fn end_of(&self, count: u32) -> Result<usize, RootFileError> {
        let remaining = self.cursor.remaining();
        match usize::try_from(count) {
            Ok(count) if count <= remaining => Ok(self.cursor.position() + count),
            _ => Err(self.cursor.place().truncated(
                self.cursor.offset(),
                u64::from(count),
                remaining as u64,
            )),
        }
    }
}
