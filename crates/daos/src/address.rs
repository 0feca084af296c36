//! Addresses of containers.

use std::ffi::CString;
use std::fmt::{Display, Formatter};

use crate::DaosError;

/// The longest label of a pool or container.
const LONGEST_LABEL: usize = 127;

/// A container: `daos://POOL/CONTAINER`, each as a label or a UUID.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    pool: String,
    container: String,
}

impl Address {
    /// Parses `daos://POOL/CONTAINER`.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn parse(address: &str) -> Result<Self, DaosError> {
        let error = |why| DaosError::Address {
            address: address.to_owned(),
            why,
        };
        let rest = address.strip_prefix("daos://");
        let rest = rest.ok_or_else(|| error("it does not begin with daos://"))?;
        let (pool, container) = rest.split_once('/').unwrap_or((rest, ""));
        let container = container.trim_end_matches('/');
        for (name, missing) in [
            (pool, "the pool is missing"),
            (container, "the container is missing"),
        ] {
            if name.is_empty() {
                return Err(error(missing));
            }
            if name.len() > LONGEST_LABEL {
                return Err(error("a label is longer than 127 bytes"));
            }
            if !name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b":.-_".contains(&byte))
            {
                return Err(error(
                    "labels have letters, digits, and the characters : . - _",
                ));
            }
        }
        Ok(Self {
            pool: pool.to_owned(),
            container: container.to_owned(),
        })
    }

    /// Parses `daos://POOL/CONTAINER:NTUPLE`, where the ntuple's name may be missing. A container whose label has a colon is
    /// named by its UUID.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn with_ntuple(address: &str) -> Result<(Self, Option<&str>), DaosError> {
        let (container, name) = Self::split(address);
        Ok((Self::parse(container)?, name))
    }

    /// Splits `daos://POOL/CONTAINER:NTUPLE`. The container is not checked.
    #[must_use]
    pub fn split(address: &str) -> (&str, Option<&str>) {
        let start = address.find("://").map_or(0, |at| at + 3);
        let path = address.get(start..).and_then(|rest| rest.find('/'));
        let path = path.map_or(address.len(), |at| start + at);
        let colon = address.get(path..).and_then(|rest| rest.find(':'));
        match colon.and_then(|at| address.split_at_checked(path + at)) {
            Some((container, name)) => {
                let name = name.get(1..).filter(|name| !name.is_empty());
                (container, name)
            }
            None => (address, None),
        }
    }

    /// Label or UUID of the pool.
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// Label or UUID of the container.
    pub fn container(&self) -> &str {
        &self.container
    }

    /// Whether the container is named by a label: only such containers can be created.
    pub(crate) fn has_label(&self) -> bool {
        !is_uuid(&self.container)
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "daos://{}/{}", self.pool, self.container)
    }
}

/// A name for the library. Labels have no 0.
pub(crate) fn c_string(name: &str) -> CString {
    CString::new(name).unwrap_or_default()
}

fn is_uuid(name: &str) -> bool {
    let is_right = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    name.len() == 36 && name.bytes().enumerate().all(is_right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_and_container_are_labels_or_uuids() {
        let address = Address::parse("daos://my-pool/data.2026:a_b/").unwrap();
        assert_eq!(
            (address.pool(), address.container()),
            ("my-pool", "data.2026:a_b")
        );
        assert_eq!(address.to_string(), "daos://my-pool/data.2026:a_b");
        assert!(address.has_label());
        let uuid = Address::parse("daos://p/00112233-4455-6677-8899-AAbbccddeeff").unwrap();
        assert!(!uuid.has_label());
    }

    #[test]
    fn the_name_of_an_ntuple_follows_the_container() {
        let of = |text| {
            let (address, name) = Address::with_ntuple(text).unwrap();
            (address.to_string(), name.map(str::to_owned))
        };
        let container = "daos://p:1/c".to_owned();
        for (text, name) in [
            ("daos://p:1/c", None),
            ("daos://p:1/c/", None),
            ("daos://p:1/c:", None),
            ("daos://p:1/c:Events", Some("Events")),
            ("daos://p:1/c/:a/b:c", Some("a/b:c")),
        ] {
            assert_eq!(of(text), (container.clone(), name.map(str::to_owned)));
        }
        assert!(Address::with_ntuple("daos://p:c").is_err());
    }

    #[test]
    fn other_addresses_are_refused_with_the_form() {
        let long = format!("daos://p/{}", "c".repeat(128));
        for wrong in [
            "",
            "daos:p/c",
            "daos://",
            "daos://p",
            "daos://p/",
            "daos:///c",
            "daos://p/a/b",
            "daos://p q/c",
            &long,
        ] {
            let error = Address::parse(wrong).unwrap_err();
            assert_eq!(error.kind(), "daos-address");
            assert!(
                error.to_string().contains("daos://POOL/CONTAINER"),
                "{error}"
            );
        }
    }
}
