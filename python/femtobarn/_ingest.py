"""Bringing files into an event store."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from femtobarn import _core
from femtobarn._compat import known_options
from femtobarn._containers import Container, DataSet
from femtobarn._datastore import _keys
from femtobarn._hdf5 import check_patterns, choice_of
from femtobarn._ingest_worker import Done, Options, Part, Source, kind_of, messages
from femtobarn._open import resolve, settings_of
from femtobarn._products import column
from femtobarn._progress import Progress
from femtobarn._repr import format_bytes, format_seconds, plural
from femtobarn._warnings import warn_of_left_out
from femtobarn.errors import ExistsError, FemtobarnError, FileError, FormatError, UsageError

if TYPE_CHECKING:
    from femtobarn._chunk import Chunk
    from femtobarn._open import Files

__all__ = ["IngestReport", "ingest"]

_CONFLICTS = ("raise", "keep", "replace")
_MAX_ITEMS = 1 << 16
_MAX_BYTES = 32 << 20
_WORTH = 64 << 20  # bytes of files for which processes are started, which takes seconds
_NOTE = "ingested"  # the beginning of the labels of notes of files


@dataclass(repr=False)
class IngestReport:
    """What became of files that were to be brought into a store.

    Parameters
    ----------
    files : int
        Files that were read.
    skipped : int
        Files that were not, since the dataset has all of them already.
    events : int
        Events in the files that were read.
    products : int
        Products that were written.
    kept : int
        Products that were there already with the same value.
    conflicts : int
        Products that were there already with another value, and were kept or replaced as `on_conflict` said.
    n_bytes : int
        Bytes of the files that were read.
    seconds : float
        The time that it took.
    left_out : dict
        Groups and datasets that were left out: why, and in how many files.
    """

    files: int = 0
    skipped: int = 0
    events: int = 0
    products: int = 0
    kept: int = 0
    conflicts: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    left_out: dict[str, tuple[str, int]] = field(default_factory=dict)

    def _leave_out(self, names: Mapping[str, str]) -> None:
        for name, reason in names.items():
            before = self.left_out.get(name, (reason, 0))
            self.left_out[name] = (before[0], before[1] + 1)

    def to_dict(self) -> dict[str, Any]:
        """Return it as what JSON can hold.

        Returns
        -------
        dict
            Its values by their names.
        """
        given = asdict(self)
        given["left_out"] = [
            {"name": name, "reason": reason, "files": n} for name, (reason, n) in sorted(self.left_out.items())
        ]
        return given

    def __str__(self) -> str:
        lines = [
            f"{plural(self.files, 'file')} read, {self.skipped} skipped, which the dataset has already",
            f"{plural(self.events, 'event')}, {plural(self.products, 'product')} written"
            + (f", {self.kept} kept that are the same" if self.kept else "")
            + (f", {plural(self.conflicts, 'conflict')}" if self.conflicts else ""),
            f"{format_bytes(self.n_bytes)} in {format_seconds(self.seconds)}",
        ]
        by_reason: dict[str, list[str]] = {}
        for name, (reason, _) in sorted(self.left_out.items()):
            by_reason.setdefault(reason, []).append(name)
        for reason, names in by_reason.items():
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            lines.append(f"left out: {', '.join(names[:5])}{more}: {reason}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<IngestReport: {str(self).splitlines()[0]}; {str(self).splitlines()[1]}>"


@known_options()
def ingest(
    files: Files,
    dataset: DataSet,
    *,
    groups: str | Iterable[str] | None = None,
    fields: str | Iterable[str] | None = None,
    drop: str | Iterable[str] | None = None,
    namespace: str = "",
    tree: str | None = None,
    run: str = "run",
    subrun: str = "luminosityBlock",
    event: str = "event",
    collections: bool = False,
    on_conflict: str = "raise",
    again: bool = False,
    workers: int | None = None,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> IngestReport:
    """Bring HDF5 files, RNTuples and TTrees into a dataset of an event store, event by event.

    Each group of an HDF5 file becomes a product of the events that it has rows of: its label is the group's name
    (``rec.slc``), its type a ``std::vector`` of a class of that name (``rec_slc``), which has a member for each dataset
    but `run`, `subrun` and `evt`. Events that only have a row in ``spill`` are there as well. Each field of an ntuple
    or a tree becomes a product of each event.

    A file that is wholly in the dataset is noted there, and not read again. One that was broken off is, with the same
    result: what is there and has the same value stays, and another value is a conflict.

    Parameters
    ----------
    files : str, path, dict or list
        What to read, as for `open`. What a file is is seen from its content. HDF5 files are those of this machine.
    dataset : DataSet
        Where it is brought.
    groups : str or list of str, optional
        The groups of HDF5 files; ``*`` and ``?`` stand for any characters.
    fields : str or list of str, optional
        The fields of ntuples and trees; of HDF5 files, the datasets, as ``group/dataset``.
    drop : str or list of str, optional
        Groups and datasets of HDF5 files that are left out, as ``*/batch``.
    namespace : str
        The namespace of the classes of groups, as "hep".
    tree : str, optional
        The name of the ntuple or tree in ROOT files; a name behind the path wins.
    run, subrun, event : str
        The fields of ROOT files that have the numbers of each event.
    collections : bool
        Whether ``nMuon`` and ``Muon_pt``, ``Muon_eta``, … of NanoAOD become one product ``Muon``.
    on_conflict : str
        What is done if a product is there already with another value: "raise", "keep" it, or "replace" it.
    again : bool
        Whether files are read that are noted to be in the dataset.
    workers : int, optional
        Processes that read; by default as many as there are processors, and of less than 64 MiB this one. One process
        writes: this one.
    progress : bool, optional
        Whether a bar is shown; by default on a terminal and in a notebook.
    storage_options : dict, optional
        Settings of how servers are asked, as for `open`.

    Returns
    -------
    IngestReport
        What was done.

    Raises
    ------
    ExistsError
        If a product is there already with another value; the message names file, event and product. What was written
        before stays.
    FemtobarnError
        If a file cannot be read, or has what no product can be; files that were done before stay noted as done.

    Examples
    --------
    >>> import h5py, numpy as np, femtobarn as fb
    >>> with h5py.File(tmp / "a.h5", "w") as file:
    ...     for name, values in {"run": [7, 7, 7], "subrun": [1, 1, 1], "evt": [3, 3, 9], "nhit": [25, 31, 4]}.items():
    ...         _ = file.create_dataset(f"rec.slc/{name}", data=np.array(values, "u4")[:, None])
    >>> dataset = fb.DataStore.connect("memory:").root.create_dataset("nova")
    >>> report = fb.ingest(tmp / "a.h5", dataset)
    >>> report.events, report.products
    (2, 2)
    >>> dataset[7][1][3].load("rec.slc").nhit
    <Array [25, 31] type='2 * uint32'>
    """
    started = time.monotonic()
    _check(dataset, on_conflict, workers)
    choice = choice_of(groups, fields, drop, namespace)
    settings = {} if storage_options is None else settings_of(storage_options)
    root = {"tree": tree, "run": run, "subrun": subrun, "event": event, "collections": collections}
    options = Options(choice, {**root, "storage_options": settings or None})
    pairs = resolve(files, settings)
    job = _Job(dataset, options, on_conflict)
    todo = job.find_todo(pairs, again)
    is_mixed = any(file.source.kind == "root" for file in todo)
    # a field may be one of the ROOT files, of which their reader knows
    wanted = replace(choice, fields=()) if is_mixed else choice
    check_patterns([file.source.path for file in (*todo, *job.skipped) if file.source.kind == "hdf5"], wanted)
    total = sum(file.size for file in todo)
    n_workers = workers or (len(os.sched_getaffinity(0)) if total >= _WORTH else 1)
    with Progress(f"ingesting {plural(len(todo), 'file')}", progress) as bar:
        done = 0
        sources = [file.source for file in todo]
        by_number = {file.source.number: file for file in todo}
        for message in messages(sources, options, n_workers, in_order=on_conflict != "raise"):
            file = by_number[message.number]
            if isinstance(message, Part):
                job.write(file, message.chunk)
                bar.tick(done + int(file.size * message.fraction), total)
            else:
                job.finish(file, message)
                done += file.size
                bar.tick(done, total)
    job.report.seconds = time.monotonic() - started
    warn_of_left_out(job.unexpected, plural(len(todo), "file"), "ingested", "report's left_out")
    return job.report


def _check(dataset: Any, on_conflict: str, workers: int | None) -> None:
    if not isinstance(dataset, DataSet) or not dataset.path:
        raise UsageError(
            f"events are brought into a dataset of a store, as store.root.create_dataset(…), not {dataset!r}"
        )
    if on_conflict not in _CONFLICTS:
        raise UsageError(f"on_conflict is 'raise', 'keep' or 'replace', not {on_conflict!r}")
    if workers is not None and workers < 1:
        raise UsageError(f"workers must be 1 or more, not {workers}")


@dataclass
class _File:
    """A file that is read, and what is known of it."""

    source: Source
    size: int
    note: dict[str, Any] | None
    label: str
    events: int = 0
    products: int = 0


class _Job:
    """Files that are being brought into a dataset."""

    def __init__(self, dataset: DataSet, options: Options, on_conflict: str) -> None:
        self.report = IngestReport()
        self.unexpected: list[tuple[str, str]] = []
        self.skipped: list[_File] = []
        self._dataset = dataset
        self._store = dataset.datastore
        self._options = options
        self._on_conflict = on_conflict
        chosen = {**asdict(options.choice), **options.root}
        chosen.pop("storage_options", None)
        self._chosen = json.loads(json.dumps(chosen))

    def find_todo(self, pairs: list[tuple[str, str | None]], again: bool) -> list[_File]:
        """Return the files that are not yet wholly in the dataset."""
        todo = []
        seen = set()
        for number, (path, name) in enumerate(pairs):
            file = self._file(Source(number, path, name, kind_of(path)))
            if (file.label, name) in seen:
                continue
            seen.add((file.label, name))
            if file.note is not None and not again and self._is_done(file):
                self.report.skipped += 1
                self.skipped.append(file)
            else:
                todo.append(file)
        return todo

    def _file(self, source: Source) -> _File:
        public = _core.public_url(source.path)
        if "://" in source.path:
            # of a server's file it is not known how old it is: it is read again
            return _File(source, 0, None, public)
        path = os.path.realpath(source.path)
        stat = Path(path).stat()
        note = {
            "file": path,
            "name": source.name,
            "size": stat.st_size,
            "mtime_ns": stat.st_mtime_ns,
            "chosen": self._chosen,
        }
        digest = hashlib.sha256(f"{path}\0{source.name or ''}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
        name = Path(path).name.replace("#", "_").encode("utf-8", "replace").decode()[:200]
        return _File(source, stat.st_size, note, f"{_NOTE}/{name}/{digest}")

    def _is_done(self, file: _File) -> bool:
        text = self._dataset.load(file.label, typename="std::string", default=None)
        if text is None or file.note is None:
            return False
        noted = json.loads(text)
        return all(noted.get(name) == value for name, value in file.note.items())

    def finish(self, file: _File, done: Done) -> None:
        """Note that a file is wholly in the dataset."""
        self.report.files += 1
        self.report.n_bytes += file.size
        self.report._leave_out(done.left_out)
        self.unexpected += done.unexpected.items()
        if file.note is None:
            return
        if self._file(file.source).note != file.note:
            raise FileError(f"{file.source.path}: the file was changed while it was read: ingest it again")
        note = {**file.note, "events": file.events, "products": file.products}
        self._dataset.store(file.label, json.dumps(note, ensure_ascii=True), typename="std::string")
        self._store.flush()

    def write(self, file: _File, chunk: Chunk) -> None:
        """Write some events."""
        path = file.source.path
        try:
            keys = _keys(self._dataset, chunk.run, chunk.subrun, chunk.event)
            _check_unique(keys)
            written = [self._column(keys, label, chunk) for label in chunk.products]
            batch = self._store._core.write_batch(_MAX_ITEMS, _MAX_BYTES, 0, False)
            batch.create_all(keys)
            for one in written:
                batch.store_rows(one.keys, one.name, one.batches)
            batch.flush()
            kept = batch.take_kept()
        except FemtobarnError as error:
            raise type(error)(f"{path}: {error}", kind=error.kind) from error
        n = sum(len(one.keys) // 40 for one in written)
        conflicts = self._compare(path, written, kept) if kept else 0
        replaced = conflicts if self._on_conflict == "replace" else 0
        self.report.events += len(chunk)
        self.report.products += n - len(kept) + replaced
        self.report.kept += len(kept) - conflicts
        self.report.conflicts += conflicts
        file.events += len(chunk)
        file.products += n

    def _column(self, keys: bytes, label: str, chunk: Chunk) -> _Written:
        """Return a product of those events that have it."""
        values, kind = chunk.products[label], chunk.types.get(label)
        own = keys
        if kind is not None and not str(kind).startswith("std::optional<"):
            own, values = _present(keys, values)
        try:
            type_name, batches = column(self._store._core, label, values, kind)
        except UsageError as error:
            if error.kind != "product-type":
                raise
            raise UsageError(
                f"product {label!r}: {error}. Where files differ in a dataset, drop leaves it out of all",
                kind=error.kind,
            ) from error
        return _Written((label, type_name), own, batches)

    def _compare(self, path: str, written: list[_Written], kept: list[tuple[bytes, str, str]]) -> int:
        """Compare products that were there with those that were to be written; gives how many differ."""
        by_name: dict[tuple[str, str], set[bytes]] = {}
        for key, label, kind in kept:
            by_name.setdefault((label, kind), set()).add(key)
        n = 0
        for one in written:
            there = by_name.get(one.name)
            if there:
                n += self._compare_one(path, one, there)
        return n

    def _compare_one(self, path: str, one: _Written, there: set[bytes]) -> int:
        core = self._store._core
        keys = [one.keys[at : at + 40] for at in range(0, len(one.keys), 40)]
        rows = [row for row, key in enumerate(keys) if key in there]
        stored = core.load_events(b"".join(keys[row] for row in rows), [one.name])
        values, ends = core.encode_all(one.batches, one.name[1])
        different = []
        for at, row in enumerate(rows):
            own = values[ends[row - 1] if row else 0 : ends[row]]
            if stored.value(0, at) != own:
                different.append((keys[row], own))
        if different and self._on_conflict == "raise":
            where = Container._of(self._store, different[0][0])
            raise ExistsError(
                f"{path}: {where} has a product {one.name[0]!r} of the type {one.name[1]} in {self._dataset} already, "
                "with another value; on_conflict='keep' keeps such products, 'replace' replaces them",
                kind="conflict",
            )
        if different and self._on_conflict == "replace":
            batch = core.write_batch(_MAX_ITEMS, _MAX_BYTES, 0, True)
            for key, own in different:
                batch.store(key, one.name, own)
            batch.flush()
        return len(different)


@dataclass
class _Written:
    """A product of some events."""

    name: tuple[str, str]
    keys: bytes
    batches: _core.Batches


def _check_unique(keys: bytes) -> None:
    found = np.frombuffer(keys, "S40")
    unique, n = np.unique(found, return_counts=True)
    if len(unique) == len(found):
        return
    twice = unique[n > 1][0].ljust(40, b"\0")
    run, subrun, event = (int.from_bytes(twice[at : at + 8], "big") for at in (16, 24, 32))
    raise FormatError(f"run {run}, subrun {subrun}, event {event} is there several times")


def _present(keys: bytes, values: Any) -> tuple[bytes, Any]:
    """Return the keys of events that have a value, and these values."""
    layout = getattr(values, "layout", None)
    if layout is None or not layout.is_option:
        return keys, values
    there = ~np.asarray(layout.mask_as_bool(valid_when=False))
    own = np.frombuffer(keys, "V40")[there].tobytes()
    return own, type(values)(layout.project())
