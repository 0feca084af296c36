"""Reading HDF5 files to be ingested, in this process or in others.

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
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, cast

from femtobarn._transfer.hdf5_reader import Hdf5Reader
from femtobarn.errors import FemtobarnError, UsageError, WorkerDiedError

if TYPE_CHECKING:
    from femtobarn._transfer.chunk import Chunk
    from femtobarn._transfer.hdf5 import Choice

__all__ = ["Done", "Part", "Source", "classes_of", "messages", "serve"]


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
    size : int
        Its bytes.
    is_wanted : bool
        Whether it is to be read.
    """

    number: int
    path: str
    name: str | None
    kind: str
    size: int
    is_wanted: bool


@dataclass(frozen=True)
class Part:
    """Some events of a file, and the progress."""

    number: int
    chunk: Chunk
    fraction: float


@dataclass(frozen=True)
class Done:
    """The end of a file: parts that were left out, with reasons."""

    number: int
    left_out: dict[str, str]
    unexpected: dict[str, str]


def read(source: Source, choice: Choice) -> Iterator[Part | Done]:
    """Read a file.

    Parameters
    ----------
    source : Source
        The file.
    choice : Choice
        The selected parts.

    Yields
    ------
    Part or Done
        Its events, and then its end.
    """
    if source.name is not None:
        raise UsageError(f"{source.path}: {source.name!r} names an object in a ROOT file, but this is HDF5")
    with Hdf5Reader(source.path, choice) as reader:
        for chunk, fraction in reader.chunks():
            yield Part(source.number, chunk, fraction)
        yield Done(source.number, reader.tables.left_out, reader.tables.unexpected)


def classes_of(path: str, choice: Choice) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the classes of the products that a file has.

    Parameters
    ----------
    path : str
        The file.
    choice : Choice
        The selected parts.

    Returns
    -------
    dict
        Names and types of the members, by the names of the classes.
    """
    with Hdf5Reader(path, choice) as reader:
        return dict(table.class_note for table in reader.tables.tables)


def messages(sources: list[Source], choice: Choice, n_workers: int, *, in_order: bool) -> Generator[Part | Done]:
    """Read files, several at once.

    Parameters
    ----------
    sources : list of Source
        The files.
    choice : Choice
        The selected parts.
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
            yield from read(source, choice)
        return
    readers = _Readers(choice, min(n_workers, len(sources)))
    try:
        yield from readers.run(sources, in_order)
    finally:
        readers.close()


class _Readers:
    """Processes that read."""

    def __init__(self, choice: Choice, n: int) -> None:
        self._processes: dict[Connection, subprocess.Popen[bytes]] = {}
        self._has: dict[Connection, Source] = {}
        for _ in range(n):
            self._start(choice)

    def _start(self, choice: Choice) -> None:
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
        ours.send(choice)

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
        choice = connection.recv()
        while True:
            _serve_one(connection, connection.recv(), choice)
    os._exit(0)


def _serve_one(connection: Connection, source: Source, choice: Choice) -> None:
    try:
        for part in read(source, choice):
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
