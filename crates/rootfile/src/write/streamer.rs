//! Encodes the list of streamer infos as TBuffer does.

use std::collections::HashMap;

use super::encode::Encoder;
use crate::{Counter, ElementKind, StreamerElement, StreamerInfo};

const NEW_CLASS: u32 = 0xFFFF_FFFF;
const CLASS_MASK: u32 = 0x8000_0000;
const BYTE_COUNT_MASK: u32 = 0x4000_0000;
/// Offset between positions and tags.
const MAP_OFFSET: usize = 2;
/// The beginning of a TList without a name: byte count, version, TObject (version, number, bits), name. The number of
/// items follows.
const HEAD: [u8; 17] = [0x40, 0, 0, 0, 0, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// The bit of a TObject that a process ID follows.
const IS_REFERENCED: u8 = 1 << 4;
/// The bits that ROOT sets in the TObject of a streamer info.
const INFO_BITS: u32 = 1 << 16;

/// Encodes a list of `infos`, for a record with a key of `key_len` bytes; `None` if it is too long.
pub(super) fn list(infos: &[StreamerInfo], key_len: u16) -> Option<Vec<u8>> {
    let empty = [&HEAD[..], &[0; 4]].concat();
    extended(empty, infos, key_len)
}

/// Appends `infos` to an encoded list; `None` if it does not begin as ROOT's lists do.
pub(super) fn extended(old: Vec<u8>, infos: &[StreamerInfo], key_len: u16) -> Option<Vec<u8>> {
    let head: &[u8; HEAD.len()] = old.first_chunk()?;
    let (bits, name_len) = (head[15], head[16]);
    let is_known = HEAD[4..8] == head[4..8] && bits & IS_REFERENCED == 0 && name_len < 255;
    let count_at = HEAD.len() + usize::from(name_len);
    let rest = old.get(count_at..).filter(|_| is_known)?;
    let count = u32::from_be_bytes(*rest.first_chunk()?);
    let mut out = Writer {
        out: Encoder(old),
        key_len: usize::from(key_len),
        classes: HashMap::new(),
    };
    for info in infos {
        out.tagged("TStreamerInfo", |out| out.info(info));
        out.out.u8(0);
    }
    let mut bytes = out.out.0;
    let n_bytes = u32::try_from(bytes.len() - 4).ok()?;
    let count = count.checked_add(u32::try_from(infos.len()).ok()?)?;
    for (at, value) in [(0, n_bytes | BYTE_COUNT_MASK), (count_at, count)] {
        bytes
            .get_mut(at..at + 4)?
            .copy_from_slice(&value.to_be_bytes());
    }
    Some(bytes)
}

struct Writer {
    out: Encoder,
    key_len: usize,
    /// Tags of the classes named so far.
    classes: HashMap<&'static str, u32>,
}

impl Writer {
    /// Writes the output of `write` after its size.
    fn counted(&mut self, write: impl FnOnce(&mut Self)) {
        let at = self.out.0.len();
        self.out.u32(0);
        write(self);
        let n_bytes = u32::try_from(self.out.0.len() - at - 4).unwrap_or(0);
        if let Some(place) = self.out.0.get_mut(at..at + 4) {
            place.copy_from_slice(&(n_bytes | BYTE_COUNT_MASK).to_be_bytes());
        }
    }

    /// Writes an object behind a pointer.
    fn tagged(&mut self, class: &'static str, write: impl FnOnce(&mut Self)) {
        self.counted(|this| {
            match this.classes.get(class) {
                Some(&tag) => {
                    this.out.u32(tag);
                }
                None => {
                    let position = this.out.0.len() + this.key_len + MAP_OFFSET;
                    let tag = u32::try_from(position).unwrap_or(0) | CLASS_MASK;
                    this.classes.insert(class, tag);
                    this.out.u32(NEW_CLASS);
                    this.out.0.extend(class.as_bytes());
                    this.out.u8(0);
                }
            }
            write(this);
        });
    }

    fn named(&mut self, bits: u32, name: &str, title: &str) {
        self.counted(|this| {
            this.out.u16(1).u16(1).u32(0).u32(bits);
            this.out.string(name).string(title);
        });
    }

    fn info(&mut self, info: &StreamerInfo) {
        self.counted(|this| {
            this.out.u16(9);
            this.named(INFO_BITS, &info.name, &info.title);
            this.out
                .u32(info.checksum)
                .u32(info.version.cast_unsigned());
            this.tagged("TObjArray", |this| {
                this.counted(|this| {
                    let count = u32::try_from(info.elements.len()).unwrap_or(0);
                    this.out
                        .u16(3)
                        .u16(1)
                        .u32(0)
                        .u32(0)
                        .string("")
                        .u32(count)
                        .u32(0);
                    for element in &info.elements {
                        this.element(element);
                    }
                });
            });
        });
    }

    /// Writes an element as its subclass of TStreamerElement.
    fn element(&mut self, element: &StreamerElement) {
        match &element.kind {
            ElementKind::Other => self.tagged("TStreamerElement", |this| this.members(element)),
            ElementKind::Base { version } => self.subclass("TStreamerBase", 3, |this| {
                this.members(element);
                this.out.u32(version.cast_unsigned());
            }),
            ElementKind::BasicType => self.plain("TStreamerBasicType", 2, element),
            ElementKind::BasicPointer(counter) => {
                self.subclass("TStreamerBasicPointer", 2, |this| {
                    this.counter(element, counter)
                });
            }
            ElementKind::Loop(counter) => {
                self.subclass("TStreamerLoop", 2, |this| this.counter(element, counter));
            }
            ElementKind::Object => self.plain("TStreamerObject", 2, element),
            ElementKind::ObjectPointer => self.plain("TStreamerObjectPointer", 2, element),
            ElementKind::ObjectAny => self.plain("TStreamerObjectAny", 2, element),
            ElementKind::ObjectAnyPointer => self.plain("TStreamerObjectAnyPointer", 1, element),
            ElementKind::String => self.plain("TStreamerString", 2, element),
            ElementKind::Stl { container, content } => {
                self.subclass("TStreamerSTL", 3, |this| {
                    this.stl(element, *container, *content)
                });
            }
            ElementKind::StlString { container, content } => {
                self.subclass("TStreamerSTLstring", 2, |this| {
                    this.counted(|this| {
                        this.out.u16(3);
                        this.stl(element, *container, *content);
                    });
                });
            }
        }
    }

    /// Writes an element of a subclass; `write` writes what follows the version.
    fn subclass(&mut self, class: &'static str, version: u16, write: impl FnOnce(&mut Self)) {
        self.tagged(class, |this| {
            this.counted(|this| {
                this.out.u16(version);
                write(this);
            });
        });
    }

    /// Writes an element of a subclass without members of its own.
    fn plain(&mut self, class: &'static str, version: u16, element: &StreamerElement) {
        self.subclass(class, version, |this| this.members(element));
    }

    fn counter(&mut self, element: &StreamerElement, counter: &Counter) {
        self.members(element);
        self.out.u32(counter.version.cast_unsigned());
        self.out.string(&counter.name).string(&counter.class_name);
    }

    fn stl(&mut self, element: &StreamerElement, container: i32, content: i32) {
        self.members(element);
        self.out
            .u32(container.cast_unsigned())
            .u32(content.cast_unsigned());
    }

    /// Writes the members of TStreamerElement.
    fn members(&mut self, element: &StreamerElement) {
        self.counted(|this| {
            this.out.u16(4);
            this.named(0, &element.name, &element.title);
            let numbers = [
                element.type_code,
                element.size,
                element.array_length,
                element.array_dim,
            ];
            for number in numbers.into_iter().chain(element.max_index) {
                this.out.u32(number.cast_unsigned());
            }
            this.out.string(&element.type_name);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_older_versions_of_root_are_added_to() {
        // old elements have bits and may have a name, newer ones have neither
        let info = StreamerInfo {
            name: "Thing".to_owned(),
            version: 1,
            checksum: 0,
            title: String::new(),
            elements: Vec::new(),
        };
        let expected = list(&[info.clone(), info.clone()], 64).unwrap();
        for (bits, name) in [
            ([0, 0, 0, 0], ""),
            ([2, 0, 0, 0], ""),
            ([3, 0, 0, 8], "infos"),
        ] {
            let mut old = list(&[], 64).unwrap();
            old[12..16].copy_from_slice(&bits);
            old[16] = name.len().try_into().unwrap();
            old.splice(17..17, name.bytes());
            let found = extended(old, &[info.clone(), info.clone()], 64).unwrap();
            assert_eq!(found[4..12], expected[4..12], "{name}");
            assert_eq!(found[12..16], bits);
            let behind = 17 + name.len();
            assert_eq!(found[behind..behind + 4], [0, 0, 0, 2]);
            assert_eq!(found.len(), expected.len() + name.len());
            let n_bytes = u32::from_be_bytes(found[..4].try_into().unwrap());
            assert_eq!(
                n_bytes ^ BYTE_COUNT_MASK,
                u32::try_from(found.len()).unwrap() - 4
            );
        }
    }

    #[test]
    fn what_is_laid_out_in_another_way_is_not_added_to() {
        let old = list(&[], 64).unwrap();
        for (at, byte) in [(5, 4), (7, 2), (15, IS_REFERENCED), (16, 255), (16, 9)] {
            let mut other = old.clone();
            other[at] = byte;
            assert!(extended(other, &[], 64).is_none(), "{at}");
        }
        assert!(extended(old[..20].to_vec(), &[], 64).is_none());
    }
}
