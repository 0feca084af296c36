"""Fast reading and writing of ROOT's RNTuple format.

The names and arguments are the same as in uproot, so code written for uproot often only needs another import::

    import femtobarn as fb

    nt = fb.open("events.root:Events")
    events = nt.arrays(["nMuon", "Muon_pt"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from femtobarn._files.access_log import AccessLog
from femtobarn._files.bad_files import BadFile
from femtobarn._files.explain import Cluster, Plan, VerifyReport
from femtobarn._files.field import Field
from femtobarn._files.golden import lumi_mask
from femtobarn._files.histogram import Histogram, HistogramAxis, histogram, histograms
from femtobarn._files.listing import FoundFile, FoundObject, Info, Listing, info, ls
from femtobarn._files.lumi_mask import LumiMask
from femtobarn._files.many import concatenate, iterate
from femtobarn._files.metrics import Metrics, Request, Source, SourceMetrics
from femtobarn._files.ntuple import NTuple
from femtobarn._files.open import open
from femtobarn._files.rdataframe import rdataframe
from femtobarn._files.report import Report
from femtobarn._files.tracing import Recording, Replay, record, replay, report
from femtobarn._operations.convert import ConvertReport, convert
from femtobarn._operations.cost import Advice, Costs, LayoutCost, advise, cost
from femtobarn._operations.delete import delete, sweep
from femtobarn._operations.join import join_columns
from femtobarn._operations.left_behind import LeftBehind
from femtobarn._operations.merge import MergeReport, merge
from femtobarn._operations.migrate import MigrateReport, migrate
from femtobarn._operations.reshape import clone, reshape, skim
from femtobarn._processing.pool import Pool
from femtobarn._processing.process import ProcessError, ProcessResult, process
from femtobarn._processing.statistics import ProcessStatistics, TimeStatistics, WorkerStatistics
from femtobarn._processing.work import Failure
from femtobarn._store.connection import Swept
from femtobarn._store.containers import Event, Run, SubRun
from femtobarn._store.dataset import DataSet
from femtobarn._store.datastore import DataStore
from femtobarn._store.prefetch import EventBatch, Prefetcher
from femtobarn._store.product_forms import Arrow, As, Awkward, NumPy
from femtobarn._store.product_names import Product
from femtobarn._store.ptr import Ptr
from femtobarn._store.queue import Queue
from femtobarn._store.write_batch import WriteBatch
from femtobarn._transfer.export import ExportedProduct, ExportReport, export
from femtobarn._transfer.hdf5_cpp import hdf5_schema
from femtobarn._transfer.ingest import IngestReport, ingest
from femtobarn._writing.file_writer import FileWriter
from femtobarn._writing.ntuple_writer import AttributeSetWriter, NTupleWriter
from femtobarn._writing.spec import Cardinality, Class, Enum, Projected, Type
from femtobarn._writing.writable_directory import WritableDirectory
from femtobarn._writing.write import create, recreate, update, write
from femtobarn.errors import (
    ChecksumError,
    ExistsError,
    FemtobarnError,
    FileError,
    FormatError,
    KeyNotFoundError,
    MissingDependencyError,
    NotFoundError,
    QueueEndedError,
    ResourceError,
    ServerWarning,
    UnreadableWarning,
    UsageError,
    WorkerDiedError,
)

if TYPE_CHECKING:
    from femtobarn import aio
    from femtobarn._files.entry import Entry
    from femtobarn._files.entry_batch import EntryBatch

__all__ = [
    "AccessLog",
    "Advice",
    "Arrow",
    "As",
    "AttributeSetWriter",
    "Awkward",
    "BadFile",
    "Cardinality",
    "ChecksumError",
    "Class",
    "Cluster",
    "ConvertReport",
    "Costs",
    "DataSet",
    "DataStore",
    "Entry",
    "EntryBatch",
    "Enum",
    "Event",
    "EventBatch",
    "ExistsError",
    "ExportReport",
    "ExportedProduct",
    "Failure",
    "FemtobarnError",
    "Field",
    "FileError",
    "FileWriter",
    "FormatError",
    "FoundFile",
    "FoundObject",
    "Histogram",
    "HistogramAxis",
    "Info",
    "IngestReport",
    "KeyNotFoundError",
    "LayoutCost",
    "LeftBehind",
    "Listing",
    "LumiMask",
    "MergeReport",
    "Metrics",
    "MigrateReport",
    "MissingDependencyError",
    "NTuple",
    "NTupleWriter",
    "NotFoundError",
    "NumPy",
    "Plan",
    "Pool",
    "Prefetcher",
    "ProcessError",
    "ProcessResult",
    "ProcessStatistics",
    "Product",
    "Projected",
    "Ptr",
    "Queue",
    "QueueEndedError",
    "Recording",
    "Replay",
    "Report",
    "Request",
    "ResourceError",
    "Run",
    "ServerWarning",
    "Source",
    "SourceMetrics",
    "SubRun",
    "Swept",
    "TimeStatistics",
    "Type",
    "UnreadableWarning",
    "UsageError",
    "VerifyReport",
    "WorkerDiedError",
    "WorkerStatistics",
    "WritableDirectory",
    "WriteBatch",
    "advise",
    "aio",
    "clone",
    "concatenate",
    "convert",
    "cost",
    "create",
    "delete",
    "export",
    "hdf5_schema",
    "histogram",
    "histograms",
    "info",
    "ingest",
    "iterate",
    "join_columns",
    "ls",
    "lumi_mask",
    "merge",
    "migrate",
    "open",
    "process",
    "rdataframe",
    "record",
    "recreate",
    "replay",
    "report",
    "reshape",
    "skim",
    "sweep",
    "update",
    "write",
]


# Names that users of other libraries look for, and their names here.
_SYNONYMS = {"join": "join_columns", "hadd": "merge", "remove": "delete", "verify": "open(…).verify"}


def __getattr__(name: str) -> Any:
    if name in ("aio", "coffea", "graphed"):  # what they need is imported only if they are used
        import importlib

        return importlib.import_module(f"femtobarn.{name}")
    if name in ("Entry", "EntryBatch"):  # they need Awkward
        from femtobarn._files import entry, entry_batch

        return entry.Entry if name == "Entry" else entry_batch.EntryBatch
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("femtobarn")
        except PackageNotFoundError:  # the package has no metadata, as in a source checkout
            from femtobarn import _core

            return _core.__version__
    near = _SYNONYMS.get(name)
    hint = f"; did you mean {near!r}?" if near else ""
    raise AttributeError(f"module 'femtobarn' has no attribute {name!r}{hint}")
