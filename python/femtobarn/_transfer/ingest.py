"""Bringing files into an event store."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from femtobarn import _core
from femtobarn._files.open import is_of_uproot, resolve, settings_of
from femtobarn._shared.compat import known_options
from femtobarn._shared.progress import Progress
from femtobarn._shared.repr import format_bytes, format_seconds, plural, shortened
from femtobarn._shared.warning import warn_of_left_out, warn_outside
from femtobarn._store.containers import Event, Run, SubRun, container_of
from femtobarn._store.dataset import DataSet
from femtobarn._store.datastore import DataStore
from femtobarn._store.product_encoding import column
from femtobarn._store.threads import check_wanted
from femtobarn._store.twins import instead
from femtobarn._store.write_batch import WriteBatch, keys_of
from femtobarn._transfer.chunk import Chunk
from femtobarn._transfer.export_names import NUMBERS, is_file_note
from femtobarn._transfer.hdf5 import choice_of
from femtobarn._transfer.hdf5_tables import check_patterns
from femtobarn._transfer.ingest_root import store_above
from femtobarn._transfer.ingest_worker import Done, Options, Part, Source, classes_of, kind_of, messages
from femtobarn.errors import ExistsError, FemtobarnError, FileError, FormatError, UnreadableWarning, UsageError

if TYPE_CHECKING:
    from femtobarn._files.open import Files

__all__ = ["IngestReport", "ingest", "look"]

_Kept = tuple[bytes, str, str]  # the key of a container, label and type

_CONFLICTS = ("raise", "keep", "replace")
_MAX_ITEMS = 1 << 16
_MAX_BYTES = 32 << 20
_WORTH = 64 << 20  # bytes of files for which processes are started, which takes seconds
_PATIENCE = 20.0  # time limit in seconds for checking other files for an error message
_NEGATIVE = re.compile(r"-\d+")
_EMPTY = "no events found in the file"


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
        Products that already existed with another value, and were kept or replaced according to `on_conflict`.
    n_bytes : int
        Bytes of the files that were read.
    seconds : float
        The time that it took.
    left_out : dict
        Groups and datasets that were left out: why, and in how many files.
    warnings : list of str
        Labels whose products have several types in these files, and files of which `collections` has collected nothing.
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
    warnings: list[str] = field(default_factory=list)

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
            f"{plural(self.files, 'file')} read"
            + (f", {self.skipped} skipped (already in the dataset)" if self.skipped else ""),
            f"{plural(self.events, 'event')}, {plural(self.products, 'product')} written"
            + (f", {self.kept} unchanged" if self.kept else "")
            + (f", {plural(self.conflicts, 'conflict')}" if self.conflicts else ""),
            f"{format_bytes(self.n_bytes)} in {format_seconds(self.seconds)}",
        ]
        by_reason: dict[str, list[str]] = {}
        for name, (reason, _) in sorted(self.left_out.items()):
            by_reason.setdefault(reason, []).append(name)
        for reason, names in by_reason.items():
            lines.append(f"left out: {shortened(names)}: {reason}")
        return "\n".join(lines + [f"note: {warning}" for warning in self.warnings])

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
    run: str | int | None = None,
    subrun: str | int | None = None,
    event: str | int | None = None,
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
    but `run`, `subrun` and `evt`. Events that only have a row in ``spill`` are created, too. Each field of an ntuple or
    a tree becomes a product of each event.

    A file that is wholly in the dataset is noted there, and not read again. One that was broken off is, with the same
    result: existing products with the same value are kept, and another value is a conflict.

    Parameters
    ----------
    files : str, path, dict or list
        What to read, as for `open`. What a file is is seen from its content. HDF5 files must be local.
    dataset : DataSet
        Where it is brought.
    groups : str or list of str, optional
        The groups of HDF5 files; ``*`` and ``?`` stand for any characters.
    fields : str or list of str, optional
        The fields of ntuples and trees; of HDF5 files, the datasets, as ``group/dataset``.
    drop : str or list of str, optional
        Groups and datasets of HDF5 files that are left out, as ``*/batch``.
    namespace : str
        The namespace of the classes of groups of HDF5 files, such as "hep"; classes of ROOT files are put into it:
        classes that files of another version have with other members go into another one.
    tree : str, optional
        The name of the ntuple or tree in ROOT files; a name after the path has priority.
    run, subrun, event : str or int, optional
        The source of the numbers of each event: the datasets of HDF5 files, by default "run", "subrun" and "evt"; the
        fields of ROOT files, by default "run", "luminosityBlock" and "event". Of ROOT files `run` and `subrun` may be
        numbers, which all events have, and `event` that of the first entry, from which on they are counted.
    collections : bool
        Whether ``nMuon`` and ``Muon_pt``, ``Muon_eta``, … of NanoAOD become one product ``Muon``.
    on_conflict : str
        Action if a product already exists with another value: "raise", "keep" it, or "replace" it.
    again : bool
        Whether files are read that are noted to be in the dataset.
    workers : int, optional
        Processes that read; by default as many as there are processors, and of less than 64 MiB this one. One process
        writes: this one.
    progress : bool, optional
        Whether a bar is shown; by default on a terminal and in a notebook. True shows lines now and then elsewhere.
    storage_options : dict, optional
        Settings of how servers are asked, as for `open`.

    Returns
    -------
    IngestReport
        The report.

    Raises
    ------
    ExistsError
        If a product already exists with another value; the message names file, event and product, and how many others
        of the file are stored by now. They stay: ingest the file again with another `on_conflict`, or delete them.
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
    _check(files, dataset, on_conflict, workers)
    options = _options(groups, fields, drop, namespace, tree, (run, subrun, event), collections, storage_options)
    choice = options.choice
    pairs = resolve(files, options.root["storage_options"])
    job = _Job(dataset, options, on_conflict)
    todo = job.find_todo(pairs, again)
    _check_kinds([file.source for file in (*todo, *job.skipped)], options)
    is_mixed = any(file.source.kind == "root" for file in todo)
    # a field may be one of the ROOT files, which their reader checks
    wanted = replace(choice, fields=()) if is_mixed else choice
    check_patterns([file.source.path for file in (*todo, *job.skipped) if file.source.kind == "hdf5"], wanted)
    total = sum(file.size for file in todo)
    n_workers = workers or (len(os.sched_getaffinity(0)) if total >= _WORTH else 1)
    reading = messages([file.source for file in todo], options, n_workers, in_order=on_conflict != "raise")
    by_number = {file.source.number: file for file in todo}
    done = 0
    # closed by itself: the error would keep it alive, and its reading processes
    with (
        Progress(f"ingesting {plural(len(todo), 'file')}", progress) as bar,
        contextlib.closing(reading),
        _told_how_far(job, dataset),
    ):
        for message in reading:
            file = by_number[message.number]
            if isinstance(message, Part):
                job.write(file, message.what)
                bar.tick(done + int(file.size * message.fraction), total)
            else:
                job.finish(file, message)
                done += file.size
                bar.tick(done, total)
    notes = job.notes()
    job.report.warnings = job.warnings() + notes
    job.report.seconds = time.monotonic() - started
    warn_of_left_out(job.unexpected, plural(len(todo), "file"), "ingested", "report's left_out")
    for note in notes:
        warn_outside(note, UserWarning)
    if job.empty:
        warn_outside(f"{shortened(job.empty)}: {_EMPTY}", UnreadableWarning)
    return job.report


def look(
    files: Files,
    *,
    groups: str | Iterable[str] | None = None,
    fields: str | Iterable[str] | None = None,
    drop: str | Iterable[str] | None = None,
    namespace: str = "",
    tree: str | None = None,
    run: str | int | None = None,
    subrun: str | int | None = None,
    event: str | int | None = None,
    collections: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **_: Any,
) -> None:
    """Look whether there are files, and whether the first of them can be brought in, before a store is made for it.

    Parameters
    ----------
    files, groups, fields, drop, namespace, tree, run, subrun, event, collections, storage_options
        As in `ingest`.

    Raises
    ------
    FemtobarnError
        As of `ingest`.
    """
    options = _options(groups, fields, drop, namespace, tree, (run, subrun, event), collections, storage_options)
    pairs = resolve(files, options.root["storage_options"])
    sources = [Source(number, path, name, kind_of(path)) for number, (path, name) in enumerate(pairs)]
    _check_kinds(sources, options)
    classes_of(sources[0], options)


def _options(
    groups: str | Iterable[str] | None,
    fields: str | Iterable[str] | None,
    drop: str | Iterable[str] | None,
    namespace: str,
    tree: str | None,
    numbers: tuple[str | int | None, str | int | None, str | int | None],
    collections: bool,
    storage_options: Mapping[str, Any] | None,
) -> Options:
    said = {name: _number(name, given) for name, given in zip(NUMBERS, numbers, strict=True) if given is not None}
    choice = choice_of(groups, fields, drop, namespace, [said.get(name) for name in NUMBERS])
    settings = {} if storage_options is None else settings_of(storage_options)
    return Options(choice, {"tree": tree, "collections": collections, **said, "storage_options": settings or None})


def _number(name: str, given: Any) -> str | int:
    """Return the sources of the event numbers: the name of a field, or a number."""
    if isinstance(given, SupportsIndex) and not isinstance(given, bool):
        given = int(given)
    if not isinstance(given, str | int) or isinstance(given, bool):
        raise UsageError(f"{name} must be the name of a field, or a number that is not negative, not {given!r}")
    if (isinstance(given, int) and given < 0) or _NEGATIVE.fullmatch(str(given)):
        raise UsageError(
            f"{name}={given}: {name} numbers must not be negative: give another number, or the name of a field"
        )
    return given


@contextlib.contextmanager
def _told_how_far(job: _Job, dataset: DataSet) -> Iterator[None]:
    """Add the state of the dataset to an interruption."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        report = job.report
        there = report.files + report.skipped
        interrupt.add_note(
            f"{there} of {plural(len(job.todo) + report.skipped, 'file')} "
            f"{'is' if there == 1 else 'are'} completely in {dataset}, "
            f"at least {plural(report.events, 'event')} of this call {'is' if report.events == 1 else 'are'} there: "
            "repeat the call to continue"
        )
        raise


def _check(files: Any, dataset: Any, on_conflict: str, workers: int | None) -> None:
    if not isinstance(dataset, DataSet) or not dataset.path:
        raise UsageError(
            "dataset must be a dataset of a store, e.g. store.root.create_dataset(…), not "
            f"{dataset!r}{instead(dataset, 'await aio.ingest(…)')}"
        )
    if _has_values(files):
        raise UsageError(
            f"files must be a path, a pattern, or a list of these, not {type(files).__name__}; store arrays, dicts of "
            "arrays and tables with batch.store_arrays of store.write_batch()"
        )
    if on_conflict not in _CONFLICTS:
        raise UsageError(f"on_conflict must be 'raise', 'keep' or 'replace', not {on_conflict!r}")
    if workers is not None and workers < 1:
        raise UsageError(f"workers must be 1 or more, not {workers}")


def _has_values(files: Any) -> bool:
    """Whether arrays were given instead of files."""
    if is_of_uproot(files):
        return False  # which is reported with other things that are not paths
    if isinstance(files, Mapping):
        return any(not isinstance(value, str | Mapping | None) for value in files.values())
    return any(hasattr(files, name) for name in ("__array__", "__arrow_c_stream__", "__arrow_c_array__", "layout"))


def _check_kinds(sources: list[Source], options: Options) -> None:
    """Raise if an argument does not apply to the given files."""
    own = {kind: [source.path for source in sources if source.kind == kind] for kind in ("hdf5", "root")}
    root = options.root
    if own["hdf5"]:
        path = own["hdf5"][0]
        for name in ("tree", "collections"):
            if root[name]:
                raise UsageError(f"{path}: {name}= is for ROOT files, but this is HDF5; ingest one format at a time")
        for name in ("run", "subrun", "event"):
            if str(root.get(name, "")).isdecimal():
                raise UsageError(f"{path}: for HDF5 files, {name}= must be the name of a dataset, not a number")
    if len(own["root"]) > 1 and str(root.get("event", "")).isdecimal():
        raise UsageError(
            f"{own['root'][1]}: events of several files would get the same numbers: with a number for event=, ingest "
            "one file at a time, each with another run=, subrun= or event="
        )


@dataclass
class _File:
    """A file to read, and its state."""

    source: Source
    size: int
    note: dict[str, Any] | None
    label: str
    events: int = 0
    products: int = 0
    conflicts: int = 0
    new: int = 0  # new products


class _Job:
    """Files that are being brought into a dataset."""

    def __init__(self, dataset: DataSet, options: Options, on_conflict: str) -> None:
        self.report = IngestReport()
        self.unexpected: list[tuple[str, str]] = []
        self._notes: dict[str, list[str]] = {}  # with the files
        self.empty: list[str] = []
        self.todo: list[_File] = []
        self.skipped: list[_File] = []
        self._dataset = dataset
        self._store = dataset.datastore
        self._options = options
        self._on_conflict = on_conflict
        self._types: dict[str, dict[str, str]] = {}  # of each label, with a file that has it so
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
        self.todo = todo
        return todo

    def _file(self, source: Source) -> _File:
        public = _core.public_url(source.path)
        if "://" in source.path:
            # of a server's file it is not known how old it is: it is read again
            return _File(source, 0, None, public)
        path = os.path.realpath(source.path)
        stat = Path(path).stat()
        note = {
            # so that a copied record does not apply to another dataset
            "dataset": self._dataset.uuid,
            "file": path,
            "name": source.name,
            "size": stat.st_size,
            "mtime_ns": stat.st_mtime_ns,
            "chosen": self._chosen,
        }
        digest = hashlib.sha256(f"{path}\0{source.name or ''}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
        name = Path(path).name.replace("#", "_").encode("utf-8", "replace").decode()[:200]
        return _File(source, stat.st_size, note, f"{_core.FILE_NOTES}{name}/{digest}")

    def _is_done(self, file: _File) -> bool:
        text = self._dataset.load(file.label, typename="std::string", default=None)
        if text is None or file.note is None:
            return False
        noted = json.loads(text)
        own, before = self._chosen["namespace"], noted.get("chosen", self._chosen).get("namespace")
        if own != before and noted.get("dataset") == self._dataset.uuid:
            raise UsageError(
                f"{file.source.path}: {self._dataset} already has this file, with classes of namespace={before!r}: "
                f"with namespace={own!r} it would have each product twice, with two types; force this with again=True"
            )
        if noted.get("conflicts") and noted.get("on_conflict") != self._on_conflict:
            return False  # what came of them was to be something else
        return all(noted.get(name) == value for name, value in file.note.items())

    def finish(self, file: _File, done: Done) -> None:
        """Note that a file is wholly in the dataset."""
        self.report.files += 1
        self.report.n_bytes += file.size
        self.report._leave_out(done.left_out)
        self.unexpected += done.unexpected.items()
        for said in done.notes:
            self._notes.setdefault(said, []).append(_core.public_url(file.source.path))
        if not file.products and not file.events:
            name = _core.public_url(file.source.path)
            self.report._leave_out({name: _EMPTY})
            self.empty.append(name)
        if file.note is None:
            return
        if self._file(file.source).note != file.note:
            raise FileError(f"{file.source.path}: the file changed while it was read: ingest it again")
        note = {**file.note, "events": file.events, "products": file.products}
        if file.conflicts:
            note |= {"conflicts": file.conflicts, "on_conflict": self._on_conflict}
        if file.conflicts and self._on_conflict == "replace":
            self._forget_others()
        self._dataset.store(file.label, json.dumps(note, ensure_ascii=True), typename="std::string")
        self._store.flush()

    def _forget_others(self) -> None:
        """Forget that other files than those at hand are in the dataset: values of theirs were replaced."""
        own = {file.label for file in (*self.todo, *self.skipped)}
        for product in self._dataset.products():
            if is_file_note((product.label, product.type)) and product.label not in own:
                self._dataset.delete_product(product.label)

    def write(self, file: _File, what: Any) -> None:
        """Write some events, or what a file has of runs, subruns and the dataset."""
        for piece in _pieces(what) if isinstance(what, Chunk) else [what]:
            check_wanted(f"ingesting {file.source.path}")
            self._write(file, piece)

    def _write(self, file: _File, what: Any) -> None:
        path = file.source.path
        names: set[tuple[str, str]] = set()
        try:
            with self._store.write_batch(max_items=_MAX_ITEMS, max_bytes=_MAX_BYTES, overwrite=False) as batch:
                n = _store(batch, self._dataset, what, names)
            kept = batch._take_kept()
        except _TypeError as error:
            raise UsageError(f"{path}: {error}. {self._way_out(file, error)}", kind=error.kind) from error
        except FemtobarnError as error:
            raise type(error)(f"{path}: {error}", kind=error.kind) from error
        for label, kind in names:
            self._types.setdefault(label, {}).setdefault(kind, path)
        file.new += n - len(kept)
        conflicts = self._compare(file, what, kept) if kept else 0
        replaced = conflicts if self._on_conflict == "replace" else 0
        n_events = len(what) if isinstance(what, Chunk) else 0
        self.report.events += n_events
        self.report.products += n - len(kept) + replaced
        self.report.kept += len(kept) - conflicts
        self.report.conflicts += conflicts
        file.conflicts += conflicts
        file.events += n_events
        file.products += n

    def warnings(self) -> list[str]:
        """Say which labels have products of several types, which are columns of their own."""
        return [
            f"products {label!r} have several types: "
            f"{', '.join(f'{kind} ({_core.public_url(path)})' for kind, path in kinds.items())}: select one as "
            "(label, type)"
            for label, kinds in sorted(self._types.items())
            if len(kinds) > 1
        ]

    def notes(self) -> list[str]:
        """Return notes on files."""
        return [f"{note} ({shortened(files)})" for note, files in self._notes.items()]

    def _way_out(self, file: _File, error: _TypeError) -> str:
        """Return advice for a product whose type does not fit, with the affected files."""
        label = error.label
        is_spread = file.source.kind == "root" and self._options.root["collections"]
        drop = f"drop=['n{label}', '{label}_*']" if is_spread else f"drop={label!r}"
        if error.kind != "class-differs":
            return f"If files differ in a dataset, leave it out of all files with {drop}"
        member = {"hdf5": f"drop='{label}/…'"}.get(file.source.kind, f"drop='{label}_…'" if is_spread else "")
        members = f", or the members that some files lack ({member})" if member else ""
        return (
            f"{self._chosen_before()}{self._alike(file)}: ingest these separately with namespace=, e.g. "
            f"namespace='v2', or leave out of all files the product ({drop}){members}"
        )

    def _chosen_before(self) -> str:
        """Return how the selection differed for a file in the dataset, which may explain different members."""
        for product in self._dataset.products():
            if not is_file_note((product.label, product.type)):
                continue
            noted = json.loads(self._dataset.load(product.label, typename=product.type))
            before, own = noted.get("chosen", {}), self._chosen
            other = [name for name in ("groups", "fields", "drop") if before.get(name, own[name]) != own[name]]
            if other:
                told = " and ".join(f"{name}={before[name] or None!r}" for name in other)
                return f"{noted.get('file')} was ingested with {told}, which may be the reason. "
        return ""

    def _alike(self, file: _File) -> str:
        """Return the files whose class has the same members, different from the class in the store."""
        files = [one for one in self.todo if one.source.kind == file.source.kind]
        noted = self._store._core.classes
        classes = [
            (name, members)
            for name, members in classes_of(file.source, self._options).items()
            if (there := dict(noted(name)).get(name)) is not None and tuple(there) != members
        ]
        paths, n, until = [], 0, time.monotonic() + _PATIENCE
        for one in files:
            if one is file:
                paths.append(_core.public_url(one.source.path))
            elif time.monotonic() < until:
                n += 1
                with contextlib.suppress(FemtobarnError):  # its errors are reported when it is read
                    found = classes_of(one.source, self._options)
                    if all(found.get(name) == members for name, members in classes):
                        paths.append(_core.public_url(one.source.path))
        of = f"Of {n + 1} checked files, " if n else ""
        have = "has" if len(paths) == 1 else "have"
        return f"{of}{plural(len(paths), 'file')} {have} these members, {shortened(paths)}"

    def _compare(self, file: _File, what: Any, kept: list[_Kept]) -> int:
        """Compare existing products with new ones; returns how many differ."""
        by_name: dict[tuple[str, str], list[bytes]] = {}
        for key, label, kind in sorted(kept):
            by_name.setdefault((label, kind), []).append(key)
        # the new values as they would be stored
        other = DataStore.connect("memory:")
        with other.write_batch() as batch:
            _store(batch, DataSet(other, other._core.dataset(self._dataset.path, self._dataset._core.key)), what, set())
        n = 0
        for name, keys in by_name.items():
            here, there = (_loaded(store, keys, name) for store in (self._store, other))
            different = [(key, new) for key, old, new in zip(keys, here, there, strict=True) if old != new]
            if different:
                self._settle(file, name, different)
            n += len(different)
        return n

    def _settle(self, file: _File, name: tuple[str, str], different: list[tuple[bytes, bytes | None]]) -> None:
        """Treat existing products with other values according to `on_conflict`."""
        label, kind = name
        if self._on_conflict == "raise":
            where = container_of(self._store, self._store._core.container(different[0][0]))
            where_in = f"{where} has" if isinstance(where, Event | SubRun | Run) else "the dataset has"
            stored = (
                f"{plural(file.new, 'product')} of this file, also of other events, "
                f"{'is' if file.new == 1 else 'are'} already stored: ingest it again with on_conflict='keep', which "
                "keeps existing products, or 'replace', or delete the wrong products"
                if file.new
                else "nothing of this file was stored; on_conflict='keep' keeps existing ones, 'replace' replaces them"
            )
            raise ExistsError(
                f"{file.source.path}: {where_in} a product {label!r} of the type {kind} in {self._dataset} "
                f"with another value; {stored}",
                kind="conflict",
            )
        if self._on_conflict == "replace":
            batch = self._store._core.write_batch(_MAX_ITEMS, _MAX_BYTES, 0, True)
            for key, value in different:
                batch.store(self._store._core.container(key), name, value or b"")
            batch.close()


class _TypeError(UsageError):
    """Error of a product's type."""

    def __init__(self, message: str, *, kind: str, label: str) -> None:
        super().__init__(message, kind=kind)
        self.label = label


def _pieces(chunk: Chunk) -> Iterator[Chunk]:
    """Give events so many at a time that a batch holds all products of them: products of an event lie side by side.

    Written column by column, each batch of many events with many products would write to all of these locations again.
    """
    n = max(1, _MAX_ITEMS // (len(chunk.products) + 1))
    if len(chunk) <= n:
        yield chunk
        return
    for first in range(0, len(chunk), n):
        own = slice(first, first + n)
        products = {name: values[own] for name, values in chunk.products.items()}
        yield Chunk(chunk.run[own], chunk.subrun[own], chunk.event[own], products, chunk.types)


def _store(batch: WriteBatch, dataset: DataSet, what: Any, names: set[tuple[str, str]]) -> int:
    """Store the read data; returns the number of products, and adds names of event products to `names`."""
    if not isinstance(what, Chunk):
        store_above(batch, dataset, what)
        n = len(what.numbers[0]) if what.numbers else 1
        return sum(_n_there(values, what.types.get(name), n) for name, values in what.products.items())
    keys = keys_of(dataset, what.run, what.subrun, what.event)
    _check_unique(keys)
    columns = [
        _column(dataset.datastore, keys, name, values, what.types.get(name)) for name, values in what.products.items()
    ]
    batch._core.create_all(keys)
    n = 0
    for own, name, more, batches, n_own in columns:
        batch._core.store_rows(own, name, batches, *more)
        n += n_own
        if n_own:
            names.add(name)
    return n


def _column(store: DataStore, keys: bytes, label: str, values: Any, kind: Any) -> Any:
    """Return a product of those events that have it: their keys, its name, its form, its values, and how many."""
    form = getattr(kind, "form", "value")  # of a type that is more than a name
    own = getattr(kind, "label", None)
    label = label if own is None else own
    if isinstance(kind, str) and not kind.startswith("std::optional<"):
        keys, values = _present(keys, values)
    n = _n_there(values, kind, len(keys) // 40)
    try:
        type_name, batches = column(store, label, values, kind)
    except UsageError as error:
        if error.kind not in ("product-type", "class-differs"):
            raise
        raise _TypeError(f"product {label!r}: {error}", kind=error.kind, label=label) from error
    return keys, (label, type_name), () if form == "value" else (form,), batches, n


def _n_there(values: Any, kind: Any, n: int) -> int:
    """Return how many of `n` containers have a value."""
    import awkward as ak

    form = getattr(kind, "form", "value")
    if form == "value" or form == "bytes":
        return n
    return int(ak.sum(ak.num(values)) if form == "list" else ak.sum(~ak.is_none(values)))


def _loaded(store: DataStore, keys: list[bytes], name: tuple[str, str]) -> list[bytes | None]:
    """Return the stored values of products of one name."""
    if all(key[32:] != b"\xff" * 8 for key in keys):
        events = store._core.load_events(b"".join(keys), [name])
        return [events.value(0, at) for at in range(len(keys))]
    return [store._core.container(key).load(name) for key in keys]


def _check_unique(keys: bytes) -> None:
    found = np.frombuffer(keys, "S40")
    unique, n = np.unique(found, return_counts=True)
    if len(unique) == len(found):
        return
    twice = unique[n > 1][0].ljust(40, b"\0")
    run, subrun, event = (int.from_bytes(twice[at : at + 8], "big") for at in (16, 24, 32))
    raise FormatError(f"run {run}, subrun {subrun}, event {event} occurs several times")


def _present(keys: bytes, values: Any) -> tuple[bytes, Any]:
    """Return the keys of events that have a value, and these values."""
    layout = getattr(values, "layout", None)
    if layout is None or not layout.is_option:
        return keys, values
    there = np.asarray(layout.mask_as_bool(valid_when=True))
    own = np.frombuffer(keys, "V40")[there].tobytes()
    return own, type(values)(layout.project())
