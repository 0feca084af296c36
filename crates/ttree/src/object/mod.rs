//! Reads objects by the streamer infos of the file, as far as a tree needs them.

pub(crate) mod codes;
mod infos;
mod reader;
mod value;

pub(crate) use infos::{Infos, squeezed};
pub(crate) use reader::ObjectReader;
pub(crate) use value::{EmbeddedBasket, Ints, Object, ObjectId, Places, Value};
