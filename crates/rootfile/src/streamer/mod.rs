//! Streamer infos: the descriptions of classes that a file carries.

mod buffer;
mod element;
mod info;

pub use element::{Counter, ElementKind, StreamerElement};
pub use info::StreamerInfo;
pub(crate) use info::parse_streamer_infos;
