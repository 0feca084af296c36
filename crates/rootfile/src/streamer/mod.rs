//! Streamer infos: descriptions of the classes in a file.

mod buffer;
mod element;
mod info;

pub use element::{Counter, ElementKind, StreamerElement};
pub use info::StreamerInfo;
pub(crate) use info::parse_streamer_infos;
