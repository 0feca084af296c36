"""Reading files to be ingested, in this process or in others.

HDF5 has one lock a process, so that several files are read at once by several processes. They read, and whoever
started them writes.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing.connection
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from femtobarn import _core
from femtobarn._transfer import ingest_root as _ingest_root
from femtobarn._transfer.hdf5 import Choice, is_hdf5
from femtobarn._transfer.hdf5_reader import Hdf5Reader
from femtobarn.errors import FemtobarnError, FileError, FormatError, NotFoundError, UsageError, WorkerDiedError

if TYPE_CHECKING:
    from femtobarn._transfer.chunk import Chunk

__all__ = ["Done", "Options", "Part", "Source", "classes_of", "kind_of", "messages", "serve"]


@dataclass(frozen=True)
class Options:
    """How files are read.

    Attributes
    ----------
    choice : Choice
        The selection for HDF5 files.
    root : dict
        Arguments of the reader of ROOT files.
    """

    choice: Choice
    root: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """A file that is to be read.

    Attributes
    ----------
    number : int
        Which of all it is.
    path : str
        Its path or URL.
    name : str or None
        The name of the ntuple or tree in it.
    kind : str
        "hdf5" or "root".
    """

    number: int
    path: str
    name: str | None
    kind: str


@dataclass(frozen=True)
class Part:
    """Some events of a file, or its products of runs, subruns and the dataset, and the progress."""

    number: int
    what: Chunk | Any
    fraction: float


@dataclass(frozen=True)
class Done:
    """The end of a file: parts that were left out, with reasons, and notes."""

    number: int
    left_out: dict[str, str]
    unexpected: dict[str, str]
    notes: list[str] = field(default_factory=list)


def kind_of(path: str) -> str:
    """Return what a file is, by its content.

    Parameters
    ----------
    path : str
        A path; files on servers are assumed to be ROOT files, unless their names end like HDF5 files.

    Returns
    -------
    str
        "hdf5" or "root".

    Raises
    ------
    NotFoundError
        If it does not exist.
    FormatError
        If it is neither.
    UsageError
        If it is a directory, or HDF5 on a server.
    """
    if _core.is_remote(path) or "://" in path:
        public = _core.public_url(path)
        if public.partition("?")[0].lower().endswith((".h5", ".hdf5", ".he5")):
            raise UsageError(f"{public}: HDF5 files can only be read from local disks: copy it with `fb cp`")
        return "root"
    if Path(path).is_dir():
        kind = "*.root" if any(Path(path).glob("*.root")) and not any(Path(path).glob("*.h5")) else "*.h5"
        raise UsageError(f"{path}: this is a directory: give its files, e.g. {os.path.join(path, kind)!r}")  # noqa: PTH118
    try:
        with Path(path).open("rb") as file:

            def head(at: int, n: int) -> bytes:
                file.seek(at)
                return file.read(n)

            # the first object of a ROOT file is at 100; a text file may begin with "root" as well
            if head(0, 4) == b"root" and int.from_bytes(head(8, 4)) <= 1 << 16:
                return "root"
            if is_hdf5(head):
                return "hdf5"
            start = head(0, 8)
    except FileNotFoundError:
        raise NotFoundError(f"{path}: no such file") from None
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from error
    found = f"it begins with {start!r}" if start else "it is empty"
    raise FormatError(f"{path}: neither HDF5 nor a ROOT file: {found}")


def read(source: Source, options: Options) -> Iterator[Part | Done]:
    """Read a file.

    Parameters
    ----------
    source : Source
        The file.
    options : Options
        How it is read.

    Yields
    ------
    Part or Done
        Its events, and then its end.
    """
    if source.kind == "hdf5":
        if source.name is not None:
            raise UsageError(f"{source.path}: {source.name!r} names an object in a ROOT file, but this is HDF5")
        with Hdf5Reader(source.path, options.choice) as reader:
            for chunk, fraction in reader.chunks():
                yield Part(source.number, chunk, fraction)
            yield Done(source.number, reader.tables.left_out, reader.tables.unexpected)
        return
    if options.choice.groups:
        raise UsageError(f"{source.path}: groups is for HDF5 files; select fields of this ROOT file with fields")
    given = _of_root(source, options)
    left_out: dict[str, str] = {}
    notes: list[str] = []
    for chunk in _ingest_root.chunks(source.path, **given, left_out=left_out, notes=notes):
        yield Part(source.number, chunk, 0.0)
    tree, storage_options = given["tree"], given["storage_options"]
    with _ingest_root.open_events(source.path, tree, None, storage_options) as events:
        for above in _ingest_root.above(events, storage_options=storage_options):
            yield Part(source.number, above, 0.0)
        if tree is None:  # else no other tree was meant
            left_out |= _ingest_root.other_objects(events, storage_options=storage_options)
    yield Done(source.number, left_out, {}, notes)


def _of_root(source: Source, options: Options) -> dict[str, Any]:
    """Return how a ROOT file is read."""
    choice = options.choice
    given = {**options.root, "namespace": choice.namespace}
    if source.name is not None:
        given["tree"] = source.name
    for name, some in (("fields", choice.fields), ("drop", choice.drop)):
        if some:
            given[name] = list(some)
    return given


def classes_of(source: Source, options: Options) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the classes of the products that a file has.

    Parameters
    ----------
    source : Source
        The file.
    options : Options
        How it is read.

    Returns
    -------
    dict
        Names and types of the members, by the names of the classes.
    """
    if source.kind == "hdf5":
        with Hdf5Reader(source.path, options.choice) as reader:
            tables = reader.tables.tables
            return {table.class_name: tuple((one.member, one.type) for one in table.columns) for table in tables}
    return _ingest_root.classes_of(source.path, **_of_root(source, options))


def messages(sources: list[Source], options: Options, n_workers: int, *, in_order: bool) -> Generator[Part | Done]:
    """Read files, several at once.

    Parameters
    ----------
    sources : list of Source
        The files.
    options : Options
        How they are read.
    n_workers : int
        Processes that read; with 1, this one does.
    in_order : bool
        Whether files are read one after the other.

    Yields
    ------
    Part or Done
        The read data; of one file in its order.
    """
    if n_workers <= 1 or len(sources) <= 1:
        for source in sources:
            yield from read(source, options)
        return
    readers = _Readers(options, min(n_workers, len(sources)))
    try:
        yield from readers.run(sources, in_order)
    finally:
        readers.close()


class _Readers:
    """Processes that read."""

    def __init__(self, options: Options, n: int) -> None:
        self._processes: dict[Connection, subprocess.Popen[bytes]] = {}
        self._has: dict[Connection, Source] = {}
        for _ in range(n):
            self._start(options)

    def _start(self, options: Options) -> None:
        # Not multiprocessing's own processes, which run the user's main module again.
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            code = (
                f"import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
                f"from femtobarn._transfer.ingest_worker import serve; serve({theirs.fileno()})"
            )
            command = [sys.executable, "-c", code, json.dumps(sys.path)]
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        self._processes[ours] = process
        ours.send(options)

    def run(self, sources: list[Source], in_order: bool) -> Iterator[Part | Done]:
        todo = list(reversed(sources))
        for connection in self._processes:
            self._give(connection, todo.pop())
        while self._has:
            heard = list(self._has)
            if in_order:
                heard = [min(heard, key=lambda connection: self._has[connection].number)]
            for ready in multiprocessing.connection.wait(heard):
                connection = cast("Connection", ready)
                answer = self._answer(connection)
                yield answer
                if isinstance(answer, Done):
                    del self._has[connection]
                    if todo:
                        self._give(connection, todo.pop())

    def _give(self, connection: Connection, source: Source) -> None:
        self._has[connection] = source
        with contextlib.suppress(OSError):  # it has died: its answer confirms it
            connection.send(source)

    def _answer(self, connection: Connection) -> Part | Done:
        try:
            answer: Part | Done | BaseException = pickle.loads(connection.recv_bytes())
        except (EOFError, OSError):
            code = self._processes[connection].wait()
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            path = self._has[connection].path
            raise WorkerDiedError(
                f"{path}: the process that read it ended with {how}: check whether there is enough memory"
            ) from None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        for connection, process in self._processes.items():
            connection.close()
            process.terminate()
        for process in self._processes.values():
            process.wait()


def serve(descriptor: int) -> None:
    """Read the files that come over a connection until it ends.

    Parameters
    ----------
    descriptor : int
        Of the connection.
    """
    # the parent process gets Ctrl-C, and ends it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(descriptor)
    with contextlib.suppress(EOFError, OSError):  # the parent is gone
        options = connection.recv()
        while True:
            _serve_one(connection, connection.recv(), options)
    os._exit(0)


def _serve_one(connection: Connection, source: Source, options: Options) -> None:
    try:
        for part in read(source, options):
            connection.send_bytes(pickle.dumps(part, protocol=5))
    except (BrokenPipeError, ConnectionResetError):
        raise
    except BaseException as error:
        connection.send_bytes(_packed(error))


def _packed(error: BaseException) -> bytes:
    """Return an error as it is sent; an error that cannot be sent is sent as a message."""
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)
    except Exception:
        packed = pickle.dumps(FemtobarnError(f"{type(error).__name__}: {error}"))
    return packed
