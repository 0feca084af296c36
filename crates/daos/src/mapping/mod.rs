//! How an ntuple is mapped to keys of a container, as ROOT does it; `docs/specs/ntuple-daos.md` draws it. Pure.

mod anchor;
mod earlier;
mod index;
mod keys;
mod splice;

pub use anchor::{ANCHOR_SIZE, DaosAnchor, Spliced};
pub use earlier::{EarlierPage, EarlierPages};
pub use index::ntuple_index;
pub(crate) use keys::{DKEY, name_of};
pub use keys::{FOOTER, HEADER, LISTS, Layout, Places};
pub use splice::{MOST_PIECES, Piece, SPLICE_BYTES, splice};
