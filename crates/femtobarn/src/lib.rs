//! The facade of femtobarn's crates.
//!
//! ```no_run
//! use femtobarn::{NTuple, OpenOptions};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ntuple = NTuple::open_files(&["run*/events.root:Events"], OpenOptions::default())?;
//! let selection = ntuple.select(Some(&["Muon_pt".to_owned()]))?;
//! let arrays = ntuple.read(&selection, 0..ntuple.n_entries(), &Default::default())?;
//! let batch = arrays.to_arrow()?; // an Arrow record batch
//! # Ok(()) }
//! ```

mod access_records;
pub mod choice;
mod common;
pub mod convert;
mod copy;
pub mod cost;
mod counters;
mod daos;
mod delete;
mod destination;
mod doctor;
pub mod documents;
pub mod export;
pub mod expression;
mod histograms;
pub mod ingest;
mod inputs;
pub mod inspect;
mod iterate;
pub mod kinds;
mod lazy;
mod left_behind;
pub mod lumi_mask;
pub mod merge;
mod migrate;
mod ntuple;
mod objects;
mod odd;
mod open;
mod opening;
mod pattern;
pub mod products;
pub mod proof;
mod query;
pub mod replay;
mod sizes;
mod staged;
mod stream;
mod target;
pub mod transfer;
mod unreadable;
pub mod url;
mod writable;

pub use femtobarn_rntuple::RNTupleError as Error;
pub use femtobarn_rntuple::read::{Damage, PageCache, Plan, ReadOptions, Tick, VerifyReport};

/// Names of compression settings, and checksums.
pub mod codec {
    pub use femtobarn_codec::{parse_settings, settings_name};
    #[doc(hidden)]
    pub use femtobarn_codec::{real, xxh3};
}

/// The event store: products by dataset, run, subrun and event.
pub mod events {
    pub use femtobarn_events::{
        Backend, BatchOptions, Container, DataSet, DataSetEntry, DataSetPath, DataStore,
        Descriptor, EventChunk, EventChunks, EventsError, FILE_NOTES, ItemType, LoadOptions,
        Loaded, Loader, NameCount, ObjectOptions, Overwrite, Parent, Passed, ProcessOptions,
        ProductId, ProductName, Queue, QueueMode, Taken, Uuid, Values, Verified, Wanted,
        WriteBatch, absolute, check_url, compact, connect, connect_to_read, number, objects_moved,
        process,
    };
}

/// Starting and stopping a cluster of Redis servers on this machine.
pub use femtobarn_launcher as launcher;

/// Where bytes come from and go: sources, settings, and I/O statistics.
pub mod io {
    pub use femtobarn_io::{
        ByteSource, CacheEntry, CacheFolder, CacheUse, Check, ForeignFs, IoError, MemorySource,
        Outcome, RecordSource, RemoteEntry, Report, ReportTo, SECRET_SETTINGS, SETTINGS,
        SETTINGS_FOR_ALL, Settings, SourceCost, SourceInfo, SourceMeta, SourceState, SourceStatus,
        Span, Together, Usage, beginning, did_you_mean, end_background, end_record,
        is_in_background, is_object_set, is_remote, is_stopped, join_sources, list_folder,
        local_path, nearest, nearest_within, open_own, printable, public, read_foreign_with,
        record, report_at_exit, set_for_all, summary, sweep, tell_notices_by, units, while_waiting,
        with_causes,
    };
}

/// Results of reading: buffers, and the tree that describes them.
pub mod array {
    pub use femtobarn_rntuple::array::{ArrayError, Arrays, ArrowSchema, SlotData};
}

/// One ntuple in one file.
pub mod read {
    pub use femtobarn_rntuple::read::{
        AccessCounts, AccessedColumn, Accesses, LazyArrays, LazyOptions, NotStored, PageStore,
        Reader, ReaderOptions, SourceStore, verify,
    };
}

/// Single values as bytes.
pub mod rows {
    pub use femtobarn_rntuple::rows::{Columns, Cursor, Fixed, Plan, Record, RowType, Rows};
}

/// The schema of an ntuple.
pub mod schema {
    pub use femtobarn_rntuple::schema::{
        DType, Descriptor, Field, FieldId, ListSort, Node, NodeKind, SlotId, SlotKind, is_anonymous,
    };
}

/// Structures of the file format.
pub mod spec {
    pub use femtobarn_rntuple::spec::{
        Anchor, ClusterGroup, ColumnRecord, Footer, PageAddress, Role, StoredRange,
    };
}

/// Writing ntuples.
pub mod write {
    pub use femtobarn_rntuple::write::{
        AttributeSetWriter, Existing, FieldKind, FieldModel, FillContext, Mode, NTupleWriter,
        ObjectSink, ObjectSize, ObjectsLeft, ObjectsWritten, PageSink, ParallelWriter, SinkPlace,
        Staged, StagingFill, StoredAs, WriteOptions, all_or_none,
    };

    pub use crate::daos::DaosSink;
    pub use crate::delete::{delete_ntuple, sweep_objects};
}

/// ROOT files as containers of objects.
pub mod rootfile {
    pub use femtobarn_rootfile::{Entry, FileWriter, RootFile, without_cycle};
}

/// Histograms and profiles: of files and of columns, and drawings of them.
pub mod histogram {
    pub use femtobarn_histogram::{AxisParts, Bins, Histogram, HistogramError, Moments, Parts};

    pub use crate::histograms::{
        Filled, Filling, HistogramFile, fill, of_bytes, png, svg, text, to_bytes, write_histogram,
    };
}

/// TTrees.
pub mod ttree {
    pub use femtobarn_ttree::{Tree, is_tree};
}

pub use access_records::{accesses_of, schema_id};
pub use common::SkippedFields;
pub use copy::{Copied, CopyOptions, copy, destination};
pub use destination::{Destination, Naming};
pub use doctor::examine;
pub use inputs::EntryIndex;
pub use iterate::{Steps, StepsOptions};
pub use lazy::{LazyReader, LazyStep, LazySteps, StepSize};
pub use left_behind::{AllLeftBehind, LeftBehind};
pub use migrate::{MigrateOptions, Migrated, Migration, plan_migration};
pub use ntuple::{NTuple, Selection};
pub use objects::{RNTUPLE_CLASS, ntuples};
pub use open::{OpenOptions, look_into, open_source};
pub use opening::Opening;
pub use pattern::{is_pattern, matches};
pub use query::{Computed, Query, QueryReader, QueryStep};
pub use sizes::{ClusterSizes, ColumnSizes, PageCounter};
pub use staged::Delivery;
pub use stream::{BatchStream, StreamTypes};
pub use target::{Target, is_store, plain_name};
pub use writable::{
    Output, create_file, create_file_with, create_new_file, create_output, update_file,
};
