//! Names of objects, and the references to them in the store; `docs/specs/event-store.md` specifies both.

use std::fmt::Write;

use crate::{ABSENT, Descriptor, ItemType, Uuid};

/// The tag of a value that is a reference.
pub const BESIDE: u8 = 1;
/// Number of random digits in the name of an object.
const DIGITS: usize = 32;
/// Suffix of the name of an incomplete file.
const PART: &str = ".part";

/// Common prefix of all objects of a container and its contents: the UUID of the dataset, and the numbers.
pub fn prefix(container: &Descriptor) -> String {
    let Descriptor {
        run, subrun, event, ..
    } = *container;
    let mut text = container.dataset.to_string();
    for number in [run, subrun, event] {
        if number != ABSENT {
            let _ = write!(text, "/{number}"); // writing to a string cannot fail
        }
    }
    text
}

/// A new unique name for an object of a container.
pub fn new_name(container: &Descriptor) -> Result<String, getrandom::Error> {
    let mut random = [0; DIGITS / 2];
    getrandom::fill(&mut random)?;
    let mut name = prefix(container);
    name.push('/');
    for byte in random {
        let _ = write!(name, "{byte:02x}"); // as above
    }
    Ok(name)
}

/// The container of an object, from its name; `None` if the name is invalid. The check is needed because names of
/// objects to read or delete come from the store, and must not refer to other files.
pub fn container_of(name: &str) -> Option<Descriptor> {
    let name = name.strip_suffix(PART).unwrap_or(name);
    let (container, random) = name.rsplit_once('/')?;
    let mut parts = container.split('/');
    let dataset = Uuid::parse(parts.next()?)?;
    let mut numbers = [ABSENT; 3];
    let mut places = numbers.iter_mut();
    for part in parts {
        *places.next()? = part.parse().ok()?;
    }
    let [run, subrun, event] = numbers;
    let found = Descriptor {
        dataset,
        run,
        subrun,
        event,
    };
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    // Each number has only one valid form.
    let is_ours = random.len() == DIGITS && random.bytes().all(is_digit);
    (is_ours && prefix(&found) == container).then_some(found)
}

/// Prefix of all objects that are deleted with a container; `None` if it holds no objects itself.
pub fn below(container: &Descriptor) -> Option<String> {
    let is_root = container.item_type() == ItemType::DataSet && container.dataset == Uuid::NIL;
    (!is_root).then(|| prefix(container))
}

/// The stored value of a product whose bytes are an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Size of the product in bytes.
    pub size: u64,
    /// XXH3-128 of the product.
    pub checksum: u128,
    /// The name of the object.
    pub name: String,
}

impl Reference {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.size.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.checksum.to_le_bytes());
        bytes.extend_from_slice(self.name.as_bytes());
        bytes
    }

    /// Parses the stored bytes of a product of a container; otherwise returns the expected and the found value.
    pub fn of(bytes: &[u8], container: &Descriptor) -> Result<Self, (String, String)> {
        let found = || {
            let (size, rest) = bytes.split_first_chunk()?;
            let (checksum, name) = rest.split_first_chunk()?;
            Some(Self {
                size: u64::from_le_bytes(*size),
                checksum: u128::from_le_bytes(*checksum),
                name: std::str::from_utf8(name).ok()?.to_owned(),
            })
        };
        let expected = || "a reference to an object".to_owned();
        let found = found().ok_or_else(|| (expected(), format!("{} bytes", bytes.len())))?;
        match container_of(&found.name) == Some(*container) && !found.name.ends_with(PART) {
            true => Ok(found),
            false => {
                let expected = format!("a reference to an object in {}", prefix(container));
                Err((expected, format!("one to {:?}", found.name)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parent;

    #[test]
    fn objects_are_named_by_their_containers() {
        let dataset = Uuid([0xab; 16]);
        let uuid = "abababab-abab-abab-abab-abababababab";
        for (container, expected) in [
            (Parent::dataset(dataset).descriptor(), uuid.to_owned()),
            (Parent::run(dataset, 0).descriptor(), format!("{uuid}/0")),
            (
                Parent::subrun(dataset, 7, 8).descriptor(),
                format!("{uuid}/7/8"),
            ),
            (
                Parent::subrun(dataset, 7, 8).child(ABSENT - 1),
                format!("{uuid}/7/8/18446744073709551614"),
            ),
        ] {
            assert_eq!(prefix(&container), expected);
            let name = new_name(&container).unwrap();
            assert_ne!(new_name(&container).unwrap(), name);
            assert_eq!(container_of(&name), Some(container));
            assert_eq!(container_of(&format!("{name}.part")), Some(container));
            let reference = Reference {
                size: 3,
                checksum: 1 << 100,
                name,
            };
            let bytes = reference.to_bytes();
            assert_eq!(Reference::of(&bytes, &container), Ok(reference));
            let other = Parent::run(dataset, 9).descriptor();
            assert!(Reference::of(&bytes, &other).is_err());
            for n in 0..bytes.len() {
                assert!(Reference::of(&bytes[..n], &container).is_err());
            }
        }
    }

    #[test]
    fn names_of_others_are_none_of_ours() {
        let uuid = "abababab-abab-abab-abab-abababababab";
        let random = "0123456789abcdef0123456789abcdef";
        assert!(container_of(&format!("{uuid}/1/2/3/{random}")).is_some());
        for bad in [
            format!("../{uuid}/1/{random}"),
            format!("{uuid}/../{random}"),
            format!("{uuid}/01/{random}"),
            format!("{uuid}/+1/{random}"),
            format!("{uuid}/1/2/3/4/{random}"),
            format!("{uuid}//{random}"),
            format!("{uuid}/18446744073709551615/{random}"),
            format!("{uuid}/{random}0"),
            format!("{uuid}/0123456789ABCDEF0123456789abcdef"),
            format!("{}/{random}", uuid.replace('-', "")),
            random.to_owned(),
            "config.json".to_owned(),
        ] {
            assert_eq!(container_of(&bad), None, "{bad}");
        }
    }
}
