//! Strings that many trees share.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A name, title or class, shared by trees with the same branches.
#[derive(Clone, Default, Eq)]
pub struct Text(Arc<str>);

impl Text {
    /// As a string slice.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether its bytes are these. Empty slices are not compared: they may point to unmapped memory, and accessing that
    /// with AVX-512 takes a hundred times longer than comparing a name.
    pub(crate) fn is(&self, bytes: &[u8]) -> bool {
        self.0.len() == bytes.len() && (bytes.is_empty() || self.0.as_bytes() == bytes)
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&*self.0, formatter)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, formatter)
    }
}
