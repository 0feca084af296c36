//! Byte sources, layers over them, coalescing of ranges, and byte sinks. Independent of file formats.
//!
//! A [`ByteSource`] has a size and can be read by ranges: a local file ([`LocalSource`]), memory ([`MemorySource`]), a
//! file on a server ([`XrootdSource`], [`HttpSource`]), an object of an object store ([`ObjectSource`]), or a layer
//! over another source ([`RecordSource`], [`HeldSource`]). All reads are vector reads: one call of
//! [`ByteSource::read_ranges`] is one request to the storage. Each source declares in its [`SourceCost`] how requests
//! should be split; [`coalesce`] splits them.
//!
//! A [`ByteSink`] is written by position, and the data appear as a whole: a local file ([`LocalSink`]), which has a
//! temporary name until then ([`TempSibling`]), a file on a server ([`XrootdSink`], [`HttpSink`]), an object of an
//! object store ([`ObjectSink`]), or memory ([`MemorySink`]).
//!
//! # Synchronous interface
//!
//! The readers above decompress and decode on threads of their own. So blocking a thread costs nothing that more
//! threads would not recover, and callers need no async runtime. An asynchronous source (HTTP, XRootD) starts all
//! ranges of a call on its own runtime and waits for them in `read_ranges`. Threads provide concurrency across calls;
//! [`SourceCost::concurrency`] is the recommended number of concurrent calls.
//!
//! # Invariants
//!
//! - A read returns exactly the requested bytes or an error, never fewer bytes.
//! - Nothing is allocated for a range before it was checked against the source's size.
//! - Every source and layer passes the suite in `tests/conformance`.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "a vector read of one range is intended"
)]

pub mod units;

mod at_exit;
mod cache;
mod coalesce;
mod doctor;
mod error;
mod layer;
mod metalink;
mod meter;
mod monitor;
mod nearest;
mod object;
mod object_folder;
mod object_set;
mod pace;
mod pieces;
mod progress;
mod redirect;
mod remote;
mod report;
mod runtime;
mod settings;
mod sink;
mod source;
mod threads;
mod together;
mod trace;
mod url;
mod usage;

#[cfg(test)]
mod tests;

pub use cache::{
    CacheEntry, CacheFolder, CachePruned, CacheStatus, CacheVerified, has_logical_name,
};
pub use coalesce::{Request, coalesce};
pub use doctor::{Check, FailedStep, NTupleSteps, Outcome, Readable, Step, examine};
pub use error::IoError;
pub use femtobarn_xrootd::{notice, open_own, printable, tell_notices_by, with_causes};
pub use layer::{
    AsObject, CachedSource, HeldSource, LazyDownload, MeteredSource, OriginSource, RecordSource,
    open_layered,
};
pub use metalink::{is_metalink, read_metalink};
pub use meter::{
    CacheUse, Meter, Metered, Opening, Reads, Span, Spread, Stage, Traffic, beginning,
};
pub use nearest::{did_you_mean, most_alike, nearest, nearest_within};
pub use object_folder::{FoundObject, ObjectFolder};
pub use object_set::{
    ANCHOR_BASES, ANCHOR_ENVELOPES, ANCHOR_MAKER, ANCHOR_MAKERS, LARGEST_ANCHOR, LARGEST_OBJECT,
    OBJECT_TEMPLATE, ObjectSet, ObjectSetSource, Uploads, anchor_range, embedded, located,
    object_address,
};
pub use pieces::pieces;
pub use remote::{
    ForeignFs, OpenForeign, create_remote, foreign_for, is_remote, list_folder, open_remote,
    read_foreign_with,
};
pub use report::{Report, ReportTo, report_at_exit};
pub use runtime::{PULSE, goes_on, while_waiting};
pub use settings::{
    IDLE_MEMORY, SECRET_SETTINGS, SETTINGS, SETTINGS_FOR_ALL, STORAGE_OPTIONS, Settings,
    set_for_all,
};
pub use sink::{
    ByteSink, HttpSink, LocalSink, MemorySink, ObjectSink, OnBytes, Sent, TempSibling, Transferred,
    UploadRequests, XrootdSink, send, sweep, wanted_name,
};
pub use source::{
    ByteSource, HttpError, HttpSource, LocalSource, MemorySource, ObjectSource, SourceCost,
    SourceInfo, SourceMeta, SourceState, SourceStatus, SparseMemory, XrootdSource,
};
pub use threads::{MayInterrupt, on_threads};
pub use together::{Together, end_background, is_in_background, is_stopped};
pub use trace::{Access, Action, Operation, end_record, record};
pub use url::{
    RemoteEntry, begins_as_anchor, encoded, expand_home, is_daos, is_foreign, is_object,
    is_object_set, is_of_xrootd, join_sources, local_path, ntuple_of_anchor, public, scheme,
    split_sources,
};
pub use usage::{Process, Rates, ServerTotals, Totals, Usage, note_used, plot, summary};
