//! On-disk structures of the RNTuple format: parses and encodes them, without I/O.

mod address;
mod anchor;
mod column_type;
mod cursor;
mod description;
mod envelope;
mod footer;
mod header;
mod locator;
mod object_anchor;
mod out;
mod page_list;
pub(crate) mod write;

pub use address::{PageAddress, StoredRange};
pub use anchor::Anchor;
pub use column_type::ColumnType;
pub use cursor::{Cursor, Frame, SpecError};
pub use description::{
    AliasColumn, ColumnFlags, ColumnRecord, ExtraTypeInfo, FieldFlags, FieldRecord, Role,
    SchemaDescription,
};
pub use envelope::{Envelope, EnvelopeKind};
pub use footer::{ClusterGroup, Footer, LinkedAttributeSet};
pub use header::{Header, NESTED_DEFERRED_COLUMNS, feature_flags};
pub use locator::EnvelopeLink;
pub use object_anchor::{MadeObjects, ObjectAnchor, OtherBase};
pub use page_list::{ClusterSummary, ColumnPages, Page, PageList, PagesOfColumn};
pub use write::{WrittenCluster, WrittenColumn};
