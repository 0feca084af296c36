//! The list of streamer infos.

use super::buffer::{Buffer, Tagged};
use super::element::{StreamerElement, parse_element};
use crate::RootFileError;
use crate::cursor::Place;

/// Maximum nesting of lists. ROOT nests one list: the schema evolution rules.
const DEEPEST_LIST: usize = 8;

/// The description of one version of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamerInfo {
    /// Name of the class.
    pub name: String,
    /// Version of the class.
    pub version: i32,
    /// Checksum of its members.
    pub checksum: u32,
    /// Title.
    pub title: String,
    /// Base classes and members, in their order.
    pub elements: Vec<StreamerElement>,
}

/// Parses the TList of a streamer info record; `key_len` is the length of the record's key.
pub(crate) fn parse_streamer_infos(
    url: &str,
    payload: &[u8],
    key_len: u16,
) -> Result<Vec<StreamerInfo>, RootFileError> {
    let place = Place {
        url,
        what: "streamer info object",
    };
    let mut buffer = Buffer::new(payload, key_len, place);
    let mut infos = Vec::new();
    list(&mut buffer, 0, &mut infos)?;
    Ok(infos)
}

/// Reads a TList and adds the streamer infos in it to `infos`.
fn list(
    buffer: &mut Buffer<'_>,
    depth: usize,
    infos: &mut Vec<StreamerInfo>,
) -> Result<(), RootFileError> {
    let start = buffer.begin()?;
    let count = collection(buffer, start.version)?;
    for _ in 0..count {
        if let Some(tagged) = buffer.tagged()? {
            list_item(buffer, &tagged, depth, infos)?;
        }
        if start.version > 3 {
            let length = match buffer.cursor.u8()? {
                255 if start.version > 4 => buffer.cursor.count(1)?,
                short => usize::from(short),
            };
            let _option = buffer.cursor.take(length)?;
        }
    }
    buffer.finish(start.end)
}

/// Reads the common members of TList and TObjArray; returns the number of objects.
fn collection(buffer: &mut Buffer<'_>, version: u16) -> Result<usize, RootFileError> {
    if version > 2 {
        buffer.object()?;
    }
    if version > 1 {
        let _name = buffer.cursor.string()?;
    }
    buffer.cursor.count(4)
}

fn list_item(
    buffer: &mut Buffer<'_>,
    tagged: &Tagged<'_>,
    depth: usize,
    infos: &mut Vec<StreamerInfo>,
) -> Result<(), RootFileError> {
    match tagged.class {
        b"TStreamerInfo" => infos.push(info(buffer)?),
        b"TList" if depth < DEEPEST_LIST => list(buffer, depth + 1, infos)?,
        // schema evolution rules, as strings
        b"TObjString" if tagged.end.is_some() => {
            return buffer.cursor.seek(tagged.end.unwrap_or(0));
        }
        class => {
            let found = class.escape_ascii();
            return Err(buffer
                .cursor
                .place()
                .corrupt(tagged.offset, "a TStreamerInfo", found));
        }
    }
    buffer.finish(tagged.end)
}

fn info(buffer: &mut Buffer<'_>) -> Result<StreamerInfo, RootFileError> {
    let start = buffer.begin()?;
    let (name, title) = buffer.named()?;
    let (checksum, version) = (buffer.cursor.u32()?, buffer.cursor.i32()?);
    let elements = match buffer.tagged()? {
        Some(tagged) if tagged.class == b"TObjArray" => elements(buffer, &tagged)?,
        Some(tagged) => {
            let found = tagged.class.escape_ascii();
            return Err(buffer
                .cursor
                .place()
                .corrupt(tagged.offset, "a TObjArray", found));
        }
        None => Vec::new(),
    };
    buffer.finish(start.end)?;
    Ok(StreamerInfo {
        name,
        version,
        checksum,
        title,
        elements,
    })
}

/// Reads the TObjArray of a class's elements.
fn elements(
    buffer: &mut Buffer<'_>,
    tagged: &Tagged<'_>,
) -> Result<Vec<StreamerElement>, RootFileError> {
    let start = buffer.begin()?;
    let count = collection(buffer, start.version)?;
    let _lower_bound = buffer.cursor.i32()?;
    let mut elements = Vec::new();
    for _ in 0..count {
        if let Some(tagged) = buffer.tagged()? {
            elements.push(parse_element(buffer, &tagged)?);
        }
    }
    buffer.finish(start.end)?;
    buffer.finish(tagged.end)?;
    Ok(elements)
}
