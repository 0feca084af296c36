//! Redis keys and their slots; `docs/specs/event-store-redis.md` specifies them.
//!
//! A parent's key is its hash tag, in hexadecimal because a tag ends at the first brace. The children of a parent,
//! the names of its products, and the products are in one slot.

use femtobarn_redis::slot;

use crate::{Descriptor, Parent, ProductName};

/// The current version of the layout, as stored.
pub const LAYOUT: &[u8] = b"2";
/// The first layout, without compression; it is read and written.
pub const FIRST_LAYOUT: &[u8] = b"1";
/// The field of the layout version.
pub const LAYOUT_FIELD: &[u8] = b"layout";

/// The field of the store ID.
pub const ID_FIELD: &[u8] = b"id";

/// The keys of one parent.
pub struct ParentKeys {
    /// Common prefix of the keys: the store's prefix and the tag.
    stem: Vec<u8>,
    pub slot: u16,
}

impl ParentKeys {
    pub fn new(prefix: &str, parent: &Parent) -> Self {
        let mut stem = Vec::with_capacity(prefix.len() + 2 * Parent::LENGTH + 3);
        stem.extend_from_slice(prefix.as_bytes());
        stem.push(b'{');
        let start = stem.len();
        push_hex(&mut stem, &parent.to_bytes());
        let slot = slot(stem.get(start..).unwrap_or_default());
        stem.push(b'}');
        Self { stem, slot }
    }

    /// The sorted set of its children.
    pub fn children(&self) -> Vec<u8> {
        [&self.stem, b"c".as_slice()].concat()
    }

    /// The set of product names.
    pub fn names(&self) -> Vec<u8> {
        [&self.stem, b"n".as_slice()].concat()
    }

    /// The hash of the products with a name, by event.
    pub fn products(&self, name: &ProductName) -> Vec<u8> {
        self.products_named(name.as_str().as_bytes())
    }

    pub fn products_named(&self, name: &[u8]) -> Vec<u8> {
        [&self.stem, b"p".as_slice(), name].concat()
    }
}

/// The parent of a key; `None` if it is not a parent's key.
pub fn parent_of(prefix: &str, key: &[u8]) -> Option<Parent> {
    let rest = key.strip_prefix(prefix.as_bytes())?.strip_prefix(b"{")?;
    let (tag, rest) = rest.split_at_checked(2 * Parent::LENGTH)?;
    let is_own = matches!(rest, [b'}', b'c' | b'n'] | [b'}', b'p', ..]);
    let mut bytes = Vec::with_capacity(Descriptor::LENGTH);
    for pair in tag.as_chunks::<2>().0 {
        let digits = std::str::from_utf8(pair).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
    }
    bytes.resize(Descriptor::LENGTH, 0xff);
    let parent = Descriptor::from_bytes(&bytes)?.placed_by();
    is_own.then_some(parent)
}

/// The keys of the store as a whole, or of one of its queues; the tag shows the kind.
pub struct Tagged {
    stem: Vec<u8>,
    pub slot: u16,
}

impl Tagged {
    fn new(prefix: &str, tag: &[u8]) -> Self {
        Self {
            stem: [prefix.as_bytes(), b"{", tag, b"}"].concat(),
            slot: slot(tag),
        }
    }

    pub fn datasets(prefix: &str) -> Self {
        Self::new(prefix, b"datasets")
    }

    pub fn store(prefix: &str) -> Self {
        Self::new(prefix, b"store")
    }

    pub fn notes(prefix: &str) -> Self {
        Self::new(prefix, b"notes")
    }

    pub fn queue(prefix: &str, name: &str) -> Self {
        let mut tag = b"queue:".to_vec();
        push_hex(&mut tag, name.as_bytes());
        Self::new(prefix, &tag)
    }

    /// The key of a kind.
    pub fn key(&self, kind: &str) -> Vec<u8> {
        [&self.stem, kind.as_bytes()].concat()
    }
}

/// Parses a number in a member or field: big-endian, so byte order is number order.
pub fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

fn push_hex(to: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let digit = |n: u8| DIGITS.get(usize::from(n & 15)).copied().unwrap_or_default();
    to.extend(
        bytes
            .iter()
            .flat_map(|&byte| [digit(byte >> 4), digit(byte)]),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Uuid;

    #[test]
    fn the_slot_of_a_key_is_that_of_its_tag() {
        assert_eq!(Tagged::new("", b"user1000").slot, 3443);
        assert_eq!(Tagged::new("a:", b"user1000").slot, 3443);
    }

    #[test]
    fn keys_of_a_parent_share_its_tag() {
        let keys = ParentKeys::new("x:", &Parent::run(Uuid([0x7d; 16]), 0x7b));
        let tag = format!("x:{{{}{:016x}{}}}", "7d".repeat(16), 0x7b, "f".repeat(16));
        let name = ProductName::new("a}b", "T").unwrap();
        for (key, end) in [
            (keys.children(), "c"),
            (keys.names(), "n"),
            (keys.products(&name), "pa}b#T"),
        ] {
            assert_eq!(key, format!("{tag}{end}").as_bytes());
            let parent = Parent::run(Uuid([0x7d; 16]), 0x7b);
            assert_eq!(parent_of("x:", &key), Some(parent));
            assert_eq!(parent_of("", &key), None);
        }
        for other in [Tagged::notes("x:").key("h"), format!("{tag}x").into_bytes()] {
            assert_eq!(parent_of("x:", &other), None);
        }
        let queue = Tagged::queue("", "a}");
        assert_eq!(queue.key("v"), b"{queue:617d}v");
    }
}
