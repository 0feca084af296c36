//! Objects as a file's streamer infos describe them, as far as a tree needs them.

mod infos;
mod reader;
mod value;

pub(crate) use infos::{Infos, squeezed};
pub(crate) use reader::{ObjectReader, codes};
pub(crate) use value::{EmbeddedBasket, Object, ObjectId};
