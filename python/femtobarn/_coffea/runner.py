"""coffea's Runner, with files that femtobarn reads."""

from __future__ import annotations

import functools
import os
import threading
import time
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import cloudpickle
import lz4.frame
from coffea.dataset_tools import DataGroupSpec
from coffea.nanoevents.schemas import BaseSchema
from coffea.nanoevents.util import key_to_tuple
from coffea.processor import (
    FuturesExecutor,
    IterativeExecutor,
    ProcessorABC,
    set_accumulator,
)
from coffea.processor import Runner as CoffeaRunner
from coffea.processor.checkpointer import CheckpointerABC
from coffea.processor.executor import FileMeta, UprootMissTreeError, WorkItem

from femtobarn._coffea.factory import NanoEventsFactory
from femtobarn._coffea.file_cache import FileCache, Known, metadata_of
from femtobarn._coffea.preprocess import BAD, examine, examined
from femtobarn._files.open import open_pairs
from femtobarn._processing.work import Lazy
from femtobarn.errors import FileError, KeyNotFoundError, UsageError

if TYPE_CHECKING:
    from femtobarn._files.ntuple import NTuple
    from femtobarn._shared.output import Path as PathLike

__all__ = ["Runner"]

_MOST = 4  # ntuples that a process keeps open for further chunks of their files


@dataclass
class Runner(CoffeaRunner):  # type: ignore[misc]
    """coffea's Runner, with files that femtobarn reads.

    Arguments and methods are those of `coffea.processor.Runner`; executors, processors and schemas are coffea's. A
    chunk fetches what earlier chunks have touched in one read. Files that are not ROOT files count as bad files, as
    those that cannot be read. Filesets can have the `steps` of `preprocess`, which are then the chunks.

    Parameters
    ----------
    cache : str, path or FileCache, optional
        A file of SQLite that keeps the numbers of entries of files for later runs. See `FileCache`.
    record : str, path or False, optional
        A directory that keeps what chunks have touched, for other processes and later runs; or False to learn nothing.
    threads : int, optional
        Number of threads for reading a chunk. By default all cores with IterativeExecutor, and 1 with others.
    storage_options : dict, optional
        Settings for servers, as for `femtobarn.open`.

    Examples
    --------
    >>> from coffea import processor
    >>> from coffea.nanoevents import BaseSchema
    >>> from coffea.util import coffea_console
    >>> from femtobarn.coffea import Runner
    >>> coffea_console.quiet = True  # no progress bars
    >>> def count(events):
    ...     return {"events": len(events), "muons": int(events.nMuon.to_numpy().sum())}
    >>> run = Runner(processor.IterativeExecutor(status=False), schema=BaseSchema)
    >>> run({"muons": {"files": {dimuon: "Events"}}}, count)
    {'events': 12000, 'muons': ...}
    """

    cache: PathLike | FileCache | None = None
    record: PathLike | Literal[False] | None = None
    threads: int | None = None
    storage_options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Complete the arguments."""
        super().__post_init__()
        given: Any = self.skipbadfiles  # type: ignore[has-type]
        self.skipbadfiles = BAD if given is True else given
        if self.cache is not None:
            kept: Any = self.cache if isinstance(self.cache, FileCache) else FileCache(self.cache)
            self.metadata_cache = kept

    @property
    def _reading(self) -> dict[str, Any]:
        is_iterative = isinstance(self.executor, IterativeExecutor)
        threads = self.threads or (None if is_iterative else 1)
        record = os.fspath(self.record) if self.record else self.record
        return {"threads": threads, "record": record, "storage_options": self.storage_options}

    # coffea has static functions in their place, which it gives to executors
    @property
    def metadata_fetcher_root(self) -> Callable[..., Any]:
        """The function that finds out how many entries a file has."""
        return functools.partial(_fetched, self.storage_options)

    @property
    def _work_function(self) -> Callable[..., Any]:
        return functools.partial(_processed, self._reading)

    @staticmethod
    def _normalize_fileset(fileset: Any, treename: str | None) -> Iterator[Any]:
        """Yield what coffea yields, and files with steps."""
        if isinstance(fileset, DataGroupSpec):
            fileset = fileset.model_dump()
        if not isinstance(fileset, Mapping):
            yield from CoffeaRunner._normalize_fileset(fileset, treename)
            return
        for dataset, described in fileset.items():
            files = described.get("files") if isinstance(described, Mapping) else None
            if not isinstance(files, Mapping) or not any(isinstance(file, Mapping) for file in files.values()):
                yield from CoffeaRunner._normalize_fileset({dataset: described}, treename)
                continue
            fallback = described.get("treename", treename)
            named = {url: _name(url, file, fallback) for url, file in files.items()}
            plain = {key: value for key, value in described.items() if key in ("metadata", "preload")}
            for meta in CoffeaRunner._normalize_fileset({dataset: plain | {"files": named}}, None):
                file = files[meta.filename]
                yield _Meta.of(meta, file) if isinstance(file, Mapping) else meta

    def _preprocess_fileset_root(self, fileset: Any, uproot_options: dict[str, Any]) -> None:
        """Open the files whose number of entries is unknown: here, many at the same time, if executors are local."""
        if not isinstance(self.pre_executor, (IterativeExecutor, FuturesExecutor)):
            super()._preprocess_fileset_root(fileset, uproot_options)
            return
        wanted: dict[tuple[str, str], list[Any]] = {}
        for meta in fileset:
            if not meta.populated(clusters=self.align_clusters):
                wanted.setdefault((meta.filename, meta.treename), []).append(meta)
        cache = self.metadata_cache if isinstance(self.metadata_cache, FileCache) else None
        shown = None if getattr(self.pre_executor, "status", True) else False
        failed: dict[tuple[str, str], BaseException] = {}
        for attempt in range(self.retries + 1):
            again = list(failed or wanted)
            failed = {}
            options = {"clusters": self.align_clusters, "cache": cache, "storage_options": self.storage_options}
            for key, outcome in examined(again, progress=shown, **options):
                if isinstance(outcome, Known):
                    self._populate(wanted[key], metadata_of(outcome))
                elif attempt == self.retries and not self._is_skipped(outcome):
                    raise _as_coffeas(outcome)
                else:
                    failed[key] = outcome
            if failed and attempt < self.retries:
                warnings.warn(f"{len(failed)} files could not be opened: they are tried again", stacklevel=2)
        if failed:
            few = "".join(f"\n  {error}" for error in list(failed.values())[:5])
            warnings.warn(f"{len(failed)} bad files are skipped:{few}", stacklevel=2)

    def _populate(self, metas: list[Any], found: dict[str, Any]) -> None:
        """Add what was found to the metadata of a file, which may be in several datasets."""
        for meta in metas:
            meta.metadata = (meta.metadata or {}) | found
            if not isinstance(self.metadata_cache, FileCache):
                self.metadata_cache[meta] = meta.metadata

    def _is_skipped(self, error: BaseException) -> bool:
        return not self.use_result_type and isinstance(error, self._allowed_exceptions)

    def _trace_preload(
        self, fileset: list[Any], trace_fn: Callable[..., Any], process_fn: Callable[..., Any], uproot_options: Any
    ) -> None:
        """Find the columns that a processor touches, with the first file of each dataset that can be opened."""
        datasets: dict[str, list[Any]] = {}
        for meta in fileset:
            datasets.setdefault(meta.dataset, []).append(meta)
        for dataset, metas in datasets.items():
            errors: list[Exception] = []
            for meta in metas:
                known = {"dataset": dataset, "filename": meta.filename, "treename": meta.treename}
                try:
                    ntuple = open_pairs([(meta.filename, meta.treename)], storage_options=self.storage_options)
                    options = {"schemaclass": self.schema, "metadata": known, "record": False}
                    events = NanoEventsFactory.from_root(ntuple, entry_start=0, entry_stop=0, **options).events()
                    found = frozenset(trace_fn(process_fn, events))
                except Exception as error:
                    errors.append(error)
                    continue
                for each in metas:
                    each.preload = found
                break
            else:
                message = f"no file of dataset {dataset!r} could be opened to find its columns: {errors[-1]}"
                if not self.skipbadfiles:
                    raise FileError(message) from errors[-1]
                warnings.warn(f"{message}; its columns are read when they are touched", stacklevel=2)


class _Meta(FileMeta):  # type: ignore[misc]
    """A file whose steps are known."""

    __slots__ = ("steps",)

    @classmethod
    def of(cls, meta: Any, file: Mapping[str, Any]) -> _Meta:
        """Return a file with what a preprocessed fileset says of it."""
        known = dict(meta.metadata or {})
        if file.get("num_entries") is not None and file.get("uuid"):
            known |= {"numentries": file["num_entries"], "uuid": uuid.UUID(file["uuid"]).bytes}
        made = cls(meta.dataset, meta.filename, meta.treename, known or None, meta.preload)
        made.steps = file.get("steps")
        return made

    def chunks(self, target_chunksize: int, align_clusters: bool) -> Any:
        """Yield the steps as chunks; without steps what coffea yields."""
        if self.steps is None:
            return (yield from super().chunks(target_chunksize, align_clusters))
        known = {key: value for key, value in self.metadata.items() if key not in ("numentries", "uuid", "clusters")}
        for start, stop in self.steps:
            where = self.dataset, self.filename, self.treename, start, stop
            yield WorkItem(*where, self.metadata["uuid"], known, self.preload)
        return target_chunksize

    def populated(self, clusters: bool = False) -> bool:
        """Return whether the number of entries is known, and the clusters if they are needed."""
        return bool(super().populated(clusters=clusters and self.steps is None))


def _name(url: str, file: Any, fallback: str | None) -> str:
    name = file.get("object_path") if isinstance(file, Mapping) else file
    if name is None and fallback is None:
        raise UsageError(f"{url!r} has no name of its ntuple: write {{url: 'Events'}}, or give treename=")
    return str(name or fallback)


def _as_coffeas(error: BaseException) -> BaseException:
    """Return the error that coffea raises in the same case."""
    if not isinstance(error, KeyNotFoundError):
        return error
    made: BaseException = UprootMissTreeError(str(error))
    made.__cause__ = error
    return made


def _fetched(
    storage_options: Mapping[str, Any] | None,
    xrootdtimeout: int | None,
    align_clusters: bool,
    uproot_options: dict[str, Any],
    item: Any,
) -> Any:
    """Return the metadata of a file, as coffea's function of an executor does."""
    settings = _with_timeout(storage_options, uproot_options.get("timeout", xrootdtimeout))
    try:
        known = examine(item.filename, item.treename, align_clusters, settings)
    except KeyNotFoundError as error:
        raise _as_coffeas(error) from error
    metadata = (item.metadata or {}) | metadata_of(known)
    return set_accumulator([FileMeta(item.dataset, item.filename, item.treename, metadata)])


def _with_timeout(storage_options: Mapping[str, Any] | None, timeout: float | None) -> Mapping[str, Any] | None:
    """Return settings with coffea's timeout, if it is not the default and nothing else is set."""
    if timeout in (None, 60) or "request_timeout" in (storage_options or {}):
        return storage_options
    return {**(storage_options or {}), "request_timeout": timeout}


_opened: OrderedDict[Any, NTuple] = OrderedDict()
_lock = threading.Lock()


def _open(item: Any, storage_options: Mapping[str, Any] | None) -> NTuple:
    """Return the ntuple of a chunk, which stays open for further chunks of its file."""
    key = os.getpid(), item.filename, item.treename, item.fileuuid, repr(storage_options)
    with _lock:
        ntuple = _opened.get(key)
    if ntuple is None:
        ntuple = _open_anew(item, storage_options)
    with _lock:
        _opened[key] = ntuple
        _opened.move_to_end(key)
        while len(_opened) > _MOST:
            _opened.popitem(last=False)
    if item.entrystop > ntuple.num_entries:
        raise FileError(
            f"{item.filename} has {ntuple.num_entries:,} entries, but a step of the fileset ends at "
            f"{item.entrystop:,}: make the fileset again"
        )
    return ntuple


def _open_anew(item: Any, storage_options: Mapping[str, Any] | None) -> NTuple:
    ntuple = open_pairs([(item.filename, item.treename)], progress=False, storage_options=storage_options)
    if item.fileuuid and any(item.fileuuid) and ntuple.uuid.bytes != item.fileuuid:  # many files have none
        expected = uuid.UUID(bytes=item.fileuuid)
        raise FileError(
            f"{item.filename} has changed since the fileset was preprocessed: expected UUID {expected}, found "
            f"{ntuple.uuid}; preprocess it again"
        )
    return ntuple


def _processed(
    reading: dict[str, Any],
    format: str,  # noqa: A002
    xrootdtimeout: int | None,
    schema: Any,
    use_dataframes: bool,
    savemetrics: bool,
    item: Any,
    processor_instance: Any,
    uproot_options: dict[str, Any],
    iteritems_options: dict[str, Any],
    checkpointer: Any,
    cache_function: Callable[[], Any],
) -> Any:
    """Process a chunk, as coffea's function of an executor does."""
    if format != "root":
        arguments = (uproot_options, iteritems_options, checkpointer, cache_function)
        options = (format, xrootdtimeout, schema, use_dataframes, savemetrics, item, processor_instance)
        return CoffeaRunner._work_function(*options, *arguments)
    if isinstance(processor_instance, str) and processor_instance == "heavy":
        item, processor_instance = item
    if not isinstance(processor_instance, ProcessorABC) and not callable(processor_instance):
        processor_instance = cloudpickle.loads(lz4.frame.decompress(processor_instance))
    metadata = {
        "dataset": item.dataset,
        "filename": item.filename,
        "treename": item.treename,
        "entrystart": item.entrystart,
        "entrystop": item.entrystop,
        "fileuuid": str(uuid.UUID(bytes=item.fileuuid)) if item.fileuuid else "",
        **(item.usermeta or {}),
    }
    if checkpointer is not None:
        if not isinstance(checkpointer, CheckpointerABC):
            raise TypeError(f"checkpointer must be one of coffea's, not {type(checkpointer).__name__}")
        known = checkpointer.load(metadata, processor_instance)
        if known is not None:
            return known
    if not (isinstance(schema, type) and issubclass(schema, BaseSchema)):
        raise ValueError(f"schema must be a schema of coffea, not {schema!r}")
    storage_options = _with_timeout(reading["storage_options"], uproot_options.get("timeout", xrootdtimeout))
    function = processor_instance.process if isinstance(processor_instance, ProcessorABC) else processor_instance
    try:
        ntuple = _open(item, storage_options)
    except Exception as error:
        raise Exception(f"Failed to open file: {item!r}. The error was: {error!r}.") from error
    before = ntuple.metrics.bytes_read if savemetrics else 0
    touched: list[Any] = []
    try:
        events = NanoEventsFactory.from_root(
            ntuple,
            entry_start=item.entrystart,
            entry_stop=item.entrystop,
            schemaclass=schema,
            metadata=metadata,
            access_log=touched,
            preload=item.preload,
            buffer_cache=cache_function(),
            iteritems_options=iteritems_options,
            function=Lazy.of(function, None).function,
            threads=reading["threads"],
            record=reading["record"],
        ).events()
    except Exception as error:
        raise Exception(f"Failed creating nanoevents: {item!r}. The error was: {error!r}.") from error
    began = time.time()
    try:
        out = function(events)
    except Exception as error:
        raise Exception(f"Failed processing file: {item!r}. The error was: {error!r}.") from error
    if out is None:
        raise ValueError("process() returned None: it must return an accumulator")
    if not use_dataframes:
        out = {"out": out, "processed": {item}}
        if savemetrics:
            out["metrics"] = {
                "bytesread": ntuple.metrics.bytes_read - before,
                "columns": {f"{one.branch}-{key_to_tuple(one.buffer_key)[3]}" for one in touched},
                "entries": len(events),
                "processtime": time.time() - began,
            }
    if checkpointer is not None:
        checkpointer.save(out, metadata, processor_instance)
    return out
