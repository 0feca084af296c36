//! What files and directories contain, from metadata: `fb ls` and `fb info`.

mod info;
mod listing;
mod sizes;

pub use info::{AttributeSet, Cluster, Info, feature_flags};
pub use listing::{
    FileListing, FolderListing, Listed, ListedNTuple, ListedObject, list, names_folder,
};
pub use sizes::{Bytes, Sizes, metadata, total};
