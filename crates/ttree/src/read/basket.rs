//! Baskets: the key, and the positions of data and entry offsets.

use crate::TreeError;
use crate::cursor::Cursor;
use crate::model::Basket;
use crate::object::EmbeddedBasket;

/// The key of a basket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BasketKey {
    /// Size of the record: this key and the stored data.
    pub n_bytes: u32,
    /// Size of the decompressed data.
    pub object_len: u32,
    /// Size of this key.
    pub key_len: u16,
    /// Number of entries.
    pub n_entries: u32,
    /// End of the values, counted from the beginning of the key.
    pub last: u32,
    /// Whether the values are followed by the sizes of entries instead of their offsets.
    pub has_sizes: bool,
    /// What is stored after the values, for a basket within its branch.
    flag: u8,
}

const WHAT: &str = "key of a basket";
/// ROOT's kGenerateOffsetMap: offsets of entries are not stored if they follow from counters. Otherwise their differences
/// are stored, which compress better.
const GENERATE_OFFSET_MAP: u8 = 1;

impl BasketKey {
    /// Parses a key; anything may follow it.
    pub fn parse(c: &mut Cursor<'_>) -> Result<Self, TreeError> {
        let start = c.position();
        let n_bytes = c.i32(WHAT)?;
        let version = c.u16(WHAT)?;
        let object_len = c.i32(WHAT)?;
        c.skip(4, WHAT)?;
        let key_len = c.u16(WHAT)?;
        c.skip(2, WHAT)?;
        c.skip(if version > 1000 { 16 } else { 8 }, WHAT)?;
        for _ in 0..3 {
            c.string(WHAT)?;
        }
        c.skip(2, WHAT)?;
        let _buffer_size = c.i32(WHAT)?;
        let offsets_size = c.i32(WHAT)?;
        let io_bits = if offsets_size < 0 { c.u8(WHAT)? } else { 0 };
        let (n_entries, last) = (c.i32(WHAT)?, c.i32(WHAT)?);
        let flag = c.u8(WHAT)?;
        let size = |value: i32| {
            u32::try_from(value).map_err(|_| Cursor::at(&[], start).corrupt(WHAT, "a size", value))
        };
        Ok(Self {
            n_bytes: size(n_bytes)?,
            object_len: size(object_len)?,
            key_len,
            n_entries: size(n_entries)?,
            last: size(last)?,
            has_sizes: io_bits & GENERATE_OFFSET_MAP != 0,
            flag,
        })
    }

    /// Size of the values; the entry offsets follow them.
    pub fn border(&self) -> Option<usize> {
        let border = self.last.checked_sub(u32::from(self.key_len))?;
        (border <= self.object_len).then_some(border as usize)
    }
}

/// Converts the sizes of entries after `border` to offsets.
pub(super) fn with_offsets(bytes: &[u8], border: usize, key_len: u16) -> Vec<u8> {
    let mut out = bytes.to_vec();
    // their number comes first
    let behind = out.get_mut(border.saturating_add(4)..).unwrap_or_default();
    let mut offset = u32::from(key_len);
    for (entry, place) in behind.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        // the first item is not a size; each further one is the size of the entry before
        if entry > 0 {
            offset = offset.saturating_add(u32::from_be_bytes(*place));
        }
        *place = offset.to_be_bytes();
    }
    out
}

/// Parses a basket that is stored within its branch; none if it is empty.
pub(crate) fn parse_embedded(c: &mut Cursor<'_>) -> Result<Option<EmbeddedBasket>, TreeError> {
    let key = BasketKey::parse(c)?;
    let generated = key.flag >= 80;
    let flag = if generated { key.flag - 80 } else { key.flag };
    let mut offsets = None;
    if !generated && flag != 0 && flag % 10 != 2 && key.n_entries > 0 {
        offsets = Some(offset_array(c, key.key_len)?);
        if flag > 40 {
            offset_array(c, key.key_len)?;
        }
    }
    if flag != 1 && flag <= 10 {
        // there may be entries without bytes
        let data = c.position()..c.position();
        return Ok((key.n_entries > 0).then_some(EmbeddedBasket {
            n_entries: key.n_entries,
            offsets,
            data,
        }));
    }
    let start = c.position();
    let last = key.last as usize;
    let values = usize::from(key.key_len).min(last);
    c.skip(last, "data of a basket")?;
    Ok(Some(EmbeddedBasket {
        n_entries: key.n_entries,
        offsets,
        data: start + values..start + last,
    }))
}

fn offset_array(c: &mut Cursor<'_>, key_len: u16) -> Result<Vec<u32>, TreeError> {
    let n = c.count(4, "offsets of entries")?;
    let mut out = Vec::with_capacity(n);
    for _ in 0..n {
        let offset = c.u32("offsets of entries")?;
        out.push(offset.saturating_sub(u32::from(key_len)));
    }
    Ok(out)
}

/// Checks that a basket's key matches the record of the branch.
pub(super) fn check_key(key: &BasketKey, basket: &Basket, stored: &[u8]) -> Result<(), TreeError> {
    let bad =
        |what, expected: String, found: u64| Err(Cursor::new(&[]).corrupt(what, expected, found));
    if key.n_bytes as usize != stored.len() {
        return bad(
            "size of the record",
            stored.len().to_string(),
            key.n_bytes.into(),
        );
    }
    if usize::from(key.key_len) > stored.len() {
        return bad(
            "size of the key",
            format!("at most {}", stored.len()),
            key.key_len.into(),
        );
    }
    if u64::from(key.n_entries) != basket.n_entries {
        return bad(
            "number of entries",
            basket.n_entries.to_string(),
            key.n_entries.into(),
        );
    }
    if key.border().is_none() {
        let within = format!("within {} bytes", key.object_len);
        return bad("end of the values", within, key.last.into());
    }
    Ok(())
}
