"""Workers that process pieces: threads, processes, executors of concurrent.futures, and the ranks of MPI."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import importlib
import importlib.util
import itertools
import multiprocessing
import multiprocessing.connection
import os
import pickle
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from femtobarn._processing.work import Outcome, Piece, Task, Work, failure, is_of_a_store, run, run_singly
from femtobarn._store.datastore import flush_open
from femtobarn.errors import FemtobarnError, UsageError, WorkerDiedError

__all__ = ["FuturesPool", "MpiPool", "Pool", "ProcessPool", "ThreadPool", "serve_mpi"]


class Pool(Protocol):
    """Workers that take pieces and give outcomes."""

    n_workers: int
    shares_memory: bool  # whether loaded products come with pieces; else workers load it themselves

    def has_room(self) -> bool:
        """Return whether another piece can be taken."""

    def send(self, piece: Piece) -> None:
        """Hand over a piece."""

    def wait(self) -> list[Outcome | Piece]:
        """Wait for outcomes, and for pieces of dead workers that must be repeated."""

    def close(self, *, ends_early: bool) -> None:
        """End the workers."""


def timed(
    work: Work,
    task: Task,
    piece: Piece,
    load: Callable[[], Any],
    worker: str,
    idle_since: float,
    stops: Callable[[], bool] | None = None,
) -> Outcome:
    """Process a piece, whose events `load` returns, and measure each step."""
    began = time.time()
    clock = time.perf_counter()
    is_local = piece.loaded is None
    waited = max(began - idle_since, 0.0)
    outcome = Outcome(piece.number, piece.n, worker=worker, is_local=is_local, waited=waited, began=began)
    try:  # the caller that waits for the outcome must get every error
        loaded, failed = load(), None
    except BaseException as error:
        loaded, failed = None, error
    outcome.loading = time.perf_counter() - clock
    try:
        if failed is None:
            run(work, task, piece, loaded, outcome, stops)
        elif not task.skips or not isinstance(failed, Exception) or is_of_a_store(failed):
            outcome.raised, outcome.what = failed, "loading"
        elif task.by_event and piece.n > 1:
            run_singly(work, task, piece, outcome, stops)
        else:
            outcome.failures.append(failure(work.where(piece, None), failed, piece.n))
    except BaseException as error:
        outcome.raised = error
    outcome.processing = time.perf_counter() - clock - outcome.loading
    return outcome


def _loaded(work: Work, piece: Piece) -> Any:
    """Return the events of a piece, which may have come with it."""
    return work.load(piece) if piece.loaded is None else piece.loaded


class ThreadPool:
    """Threads of this process, which take pieces from a bounded queue."""

    shares_memory = True

    def __init__(self, work: Work, task: Task, n_workers: int) -> None:
        self.n_workers = n_workers
        self._work, self._task = work, task
        self._todo: queue.Queue[Piece | None] = queue.Queue()
        self._done: queue.Queue[Outcome] = queue.Queue()
        self._n_out = 0
        self._ends = False
        self._threads = [
            threading.Thread(target=self._serve, args=(f"thread {n}",), daemon=True) for n in range(n_workers)
        ]
        for thread in self._threads:
            thread.start()

    def _serve(self, name: str) -> None:
        idle_since = time.time()
        while (piece := self._todo.get()) is not None and not self._ends:
            load = partial(_loaded, self._work, piece)
            outcome = timed(self._work, self._task, piece, load, name, idle_since, self._is_ended)
            del piece, load  # an idle thread must not keep loaded products
            idle_since = time.time()
            self._done.put(outcome)

    def _is_ended(self) -> bool:
        return self._ends

    def has_room(self) -> bool:
        return self._n_out < 2 * self.n_workers

    def send(self, piece: Piece) -> None:
        self._n_out += 1
        self._todo.put(piece)

    def wait(self) -> list[Outcome | Piece]:
        outcomes: list[Outcome | Piece] = []
        while not outcomes:
            try:
                outcomes.append(self._done.get(timeout=0.1))  # so that Ctrl-C is heard
            except queue.Empty:
                continue
        while not self._done.empty():
            outcomes.append(self._done.get())
        self._n_out -= len(outcomes)
        return outcomes

    def close(self, *, ends_early: bool) -> None:
        self._ends = ends_early
        for _ in self._threads:
            self._todo.put(None)
        if not ends_early:
            for thread in self._threads:
                thread.join()


def _written(work: Work, task: Task, piece: Piece, outcome: Outcome) -> Outcome:
    """Write what functions have put into batches of this process, before anybody hears that the piece is done.

    Nobody else would: the process may be killed, and many end without closing anything.
    """
    clock = time.perf_counter()
    for left in reversed(range(task.tries)):
        try:
            flush_open(durable=False)
            break
        except Exception as error:
            if (left and not is_of_a_store(error)) or outcome.raised is not None:
                continue
            outcome.values = []
            outcome.failures.append(failure(work.where(piece, None), error, piece.n))
            if not task.skips or is_of_a_store(error):
                outcome.raised, outcome.what = error, "writing batches"
            break
    outcome.processing += time.perf_counter() - clock
    return outcome


def _outcomes(work: Work, task: Task, name: str, receive: Callable[[bool], Piece | None]) -> Iterator[Outcome]:
    """Process pieces until none are left; the next one, if it has come, is loaded while one is processed.

    `receive` returns a piece; if told to wait, it returns None only at the end.
    """
    with concurrent.futures.ThreadPoolExecutor(1) as loader:

        def begun(piece: Piece | None) -> tuple[Piece, concurrent.futures.Future[Any]] | None:
            return None if piece is None else (piece, loader.submit(work.load, piece))

        idle_since = time.time()
        ahead = None
        while (ready := ahead or begun(receive(True))) is not None:
            piece, events = ready
            ahead = begun(receive(False))
            yield _written(work, task, piece, timed(work, task, piece, events.result, name, idle_since))
            idle_since = time.time()


def _serve_process(connection: Any, packed: bytes, name: str) -> None:
    """Process the pieces that come over a connection until it ends. The first message confirms the start."""

    def receive(waits: bool) -> Piece | None:
        try:
            piece: Piece | None = connection.recv() if waits or connection.poll() else None
        except (EOFError, OSError):
            return None
        return piece

    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # all is done, or broken off, meanwhile
        try:
            work, task = pickle.loads(packed)
        except Exception as error:
            connection.send_bytes(f"{type(error).__name__}: {error}{_of_import(error)}".encode())
            return
        connection.send_bytes(b"")
        for outcome in _outcomes(work, task, name, receive):
            connection.send_bytes(_packed(outcome))


def _of_import(error: BaseException) -> str:
    """Return what to do about what another process cannot unpickle: a store that it cannot open, or a function."""
    if isinstance(error, FemtobarnError):
        return "; each process opens the store by itself: it must exist and be accessible to all of them"
    return "; a function must be in a module that the process can import"


_ONE_WRITES = (
    "; only one process at a time can write to a store in a directory: return values and store them where process "
    "was called, or use executor='threads' or a store in Redis"
)


def _advice(error: BaseException) -> str:
    """Return advice if a function has tried to write to a directory from another process, which only reads it."""
    return _ONE_WRITES if getattr(error, "kind", "") in ("read-only", "store-locked") else ""


def _packed(outcome: Outcome) -> bytes:
    """Return an outcome as sent to another process, after its number; if this fails, an error message."""
    number = outcome.piece.to_bytes(8, "big")
    if outcome.raised is not None:
        outcome.advice = _advice(outcome.raised)
        try:
            pickle.loads(pickle.dumps(outcome.raised))  # many classes of errors can only be pickled
        except Exception:
            outcome.raised = FemtobarnError(repr(outcome.raised))
    try:
        return number + pickle.dumps(outcome)
    except Exception as error:
        told = FemtobarnError(f"the result of the function cannot be sent to another process: {error}")
        return number + pickle.dumps(dataclasses.replace(outcome, values=[], raised=outcome.raised or told))


def _unpacked(packed: bytes) -> Outcome:
    """Return an outcome that another process has packed."""
    try:
        outcome: Outcome = pickle.loads(memoryview(packed)[8:])
    except Exception as error:
        told = FemtobarnError(f"the result of the function cannot be received from another process: {error}")
        return Outcome(int.from_bytes(packed[:8], "big"), 0, raised=told)
    return outcome


def _pickled(work: Work, task: Task, *, by_name: bool) -> bytes:
    """Return the work as sent to other processes, or raise an error that names what cannot be sent.

    `by_name` tells whether these run the same script; else the code of its functions is sent.
    """
    is_script = Path(getattr(sys.modules["__main__"], "__file__", None) or "").is_file()  # "<stdin>" is none
    by_value = False
    for what, function in (("the function", task.function), ("reduce", task.reduce)):
        is_of_main = getattr(getattr(function, "func", function), "__module__", None) == "__main__"
        try:
            pickle.dumps(function)
            if not is_of_main or (by_name and is_script):
                continue
            reason = "it is defined in a notebook or at a prompt, which other processes do not have"
        except Exception as error:
            reason = str(error)
        if not is_of_main:
            raise UsageError(
                f"{what} {function!r} cannot be sent to other processes: {reason}; define it at the top level of a "
                "module (executor='threads' accepts any function)"
            )
        if importlib.util.find_spec("cloudpickle") is None:
            raise UsageError(
                f"{what} {function!r} cannot be sent to other processes: {reason}; define it in an imported module, "
                "or install cloudpickle, which sends its code: pip install cloudpickle"
            )
        by_value = True
    try:
        return bytes((importlib.import_module("cloudpickle") if by_value else pickle).dumps((work, task)))
    except Exception as error:
        raise UsageError(
            f"the work cannot be sent to other processes: {error}; the store must be in a directory or in Redis "
            "(executor='threads' accepts any)"
        ) from error


@contextlib.contextmanager
def _without_no_script() -> Iterator[None]:
    """Start processes without the script of this one, if it is not a file: they would look for it."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is None or Path(file).is_file():
        yield
        return
    del main.__file__
    try:
        yield
    finally:
        main.__file__ = file


@dataclass
class _Process:
    """A process with its pieces, in order."""

    process: Any
    pieces: dict[int, Piece]
    has_begun: bool = False


class ProcessPool:
    """Processes of this machine, each with a connection of its own.

    One that dies is replaced, and its pieces are done again.
    """

    shares_memory = False

    def __init__(self, work: Work, task: Task, n_workers: int) -> None:
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise UsageError(_GUARD)  # the script is imported again by a process that was started to work for it
        self.n_workers = n_workers
        self._packed = _pickled(work, task, by_name=True)
        self._context = multiprocessing.get_context("spawn")
        self._names = itertools.count()
        self._n_stillborn = 0
        self._workers: dict[Any, _Process] = {}
        for _ in range(n_workers):
            self._start({})

    def _start(self, pieces: dict[int, Piece]) -> None:
        ours, theirs = self._context.Pipe()
        name = f"process {next(self._names)}"
        process = self._context.Process(target=_serve_process, args=(theirs, self._packed, name), daemon=True)
        with _without_no_script():
            process.start()
        theirs.close()
        self._workers[ours] = _Process(process, pieces)
        with contextlib.suppress(OSError):
            for piece in pieces.values():
                ours.send(piece.without_loaded())

    def has_room(self) -> bool:
        return any(len(worker.pieces) < 2 for worker in self._workers.values())

    def send(self, piece: Piece) -> None:
        connection, worker = min(self._workers.items(), key=lambda item: len(item[1].pieces))
        worker.pieces[piece.number] = piece
        with contextlib.suppress(OSError):  # it has died: `wait` detects this, and returns the piece
            connection.send(piece.without_loaded())

    def wait(self) -> list[Outcome | Piece]:
        outcomes: list[Outcome | Piece] = []
        for connection in multiprocessing.connection.wait(list(self._workers)):
            worker = self._workers[connection]
            try:
                packed = connection.recv_bytes()  # type: ignore[union-attr]
            except (EOFError, OSError):
                outcomes += self._replace(connection)
                continue
            if worker.has_begun:
                outcome = _unpacked(packed)
                del worker.pieces[outcome.piece]
                outcomes.append(outcome)
            elif packed:
                raise UsageError(f"another process cannot load the function or its events: {packed.decode()}")
            worker.has_begun = True
        return outcomes

    def _replace(self, connection: Any) -> list[Piece]:
        """Start another process for one that has died; returns its current piece."""
        worker = self._workers.pop(connection)
        worker.process.join()
        if not worker.has_begun:
            self._n_stillborn += 1
            if worker.process.exitcode >= 0:
                raise UsageError(f"a process ended before it could start (see its own message): {_GUARD}")
            if self._n_stillborn >= 3:
                raise WorkerDiedError(f"{self._n_stillborn} processes were killed before they could start")
            self._start(worker.pieces)
            return []
        # The next piece, which it may have begun to load, is not to blame: another process has it next.
        first = [worker.pieces.pop(number) for number in list(worker.pieces)[:1]]
        self._start(worker.pieces)
        return first

    def close(self, *, ends_early: bool) -> None:
        for connection, worker in self._workers.items():
            connection.close()
            if ends_early:
                worker.process.terminate()
        for worker in self._workers.values():
            worker.process.join()


_GUARD = (
    "other processes import the script of this one; put calls of process under "
    "`if __name__ == '__main__':`, or they are repeated there"
)


def _broken(error: BaseException) -> WorkerDiedError:
    return WorkerDiedError(
        f"the executor is broken and cannot replace dead workers: {error}; with checkpoint='path', another call "
        "continues the work; executor='processes' replaces dead processes"
    )


def _run_future(packed: bytes, piece: Piece, sent: float) -> bytes:
    """Process a piece in whatever process an executor has."""
    work, task = pickle.loads(packed)
    worker = f"{os.uname().nodename} {os.getpid()}"
    return _packed(_written(work, task, piece, timed(work, task, piece, partial(work.load, piece), worker, sent)))


class FuturesPool:
    """An executor of concurrent.futures, or what looks like one.

    Its threads get functions and events as they are; to other processes they are sent. `by_name` tells whether these
    have the script of this one.
    """

    def __init__(self, work: Work, task: Task, executor: Any, n_workers: int, *, by_name: bool = True) -> None:
        self.n_workers = n_workers
        self.shares_memory = isinstance(executor, concurrent.futures.ThreadPoolExecutor)
        self._work, self._task = work, task
        self._packed = b"" if self.shares_memory else _pickled(work, task, by_name=by_name)
        self._executor = executor
        self._ended = threading.Event()
        self._out: dict[Any, Piece] = {}

    def _run_here(self, piece: Piece, sent: float) -> Outcome:
        load, name = partial(_loaded, self._work, piece), threading.current_thread().name
        return timed(self._work, self._task, piece, load, name, sent, self._ended.is_set)

    def has_room(self) -> bool:
        return len(self._out) < 3 * self.n_workers

    def send(self, piece: Piece) -> None:
        try:
            if self.shares_memory:
                future = self._executor.submit(self._run_here, piece, time.time())
            else:
                future = self._executor.submit(_run_future, self._packed, piece.without_loaded(), time.time())
        except concurrent.futures.BrokenExecutor as error:
            raise _broken(error) from error
        self._out[future] = piece

    def wait(self) -> list[Outcome | Piece]:
        done, _ = concurrent.futures.wait(list(self._out), return_when=concurrent.futures.FIRST_COMPLETED)
        outcomes: list[Outcome | Piece] = []
        for future in done:
            piece = self._out.pop(future)
            try:
                given = future.result()
            except concurrent.futures.BrokenExecutor as error:
                raise _broken(error) from error
            except Exception as error:  # of the executor: what the function raises is in the outcome
                if type(error).__name__ not in ("KilledWorker", "CancelledError"):
                    raise
                outcomes.append(piece)
                continue
            outcomes.append(_unpacked(given) if isinstance(given, bytes) else given)
        return outcomes

    def close(self, *, ends_early: bool) -> None:
        self._ended.set()
        for future in self._out:
            future.cancel()


_TO_WORKER, _TO_MASTER = 71, 72


class MpiPool:
    """The other ranks of an MPI communicator, which ask the first for pieces. With one rank, that works itself."""

    def __init__(self, work: Work, task: Task, comm: Any) -> None:
        self._work, self._task, self._comm = work, task, comm
        self.shares_memory = comm.size == 1
        self.n_workers = max(comm.size - 1, 1)
        self._idle: list[int] = [rank for rank in range(1, comm.size) for _ in range(2)]
        self._sends: list[Any] = []
        self._own: list[Piece] = []
        self._idle_since = time.time()

    def has_room(self) -> bool:
        return bool(self._idle) if self._comm.size > 1 else not self._own

    def send(self, piece: Piece) -> None:
        if self._comm.size == 1:
            self._own.append(piece)
            return
        # Not waited for: a rank that has an answer to send takes no piece, and both would wait for each other.
        self._sends = [sent for sent in self._sends if not sent.test()[0]]
        self._sends.append(self._comm.isend(piece.without_loaded(), self._idle.pop(0), _TO_WORKER))

    def wait(self) -> list[Outcome | Piece]:
        if self._comm.size == 1:
            piece = self._own.pop()
            outcome = timed(
                self._work, self._task, piece, partial(_loaded, self._work, piece), "rank 0", self._idle_since
            )
            self._idle_since = time.time()
            return [outcome]
        rank, packed = self._comm.recv(tag=_TO_MASTER)
        if isinstance(packed, str):
            raise WorkerDiedError(f"rank {rank} has failed: {packed}")
        self._idle.append(rank)
        return [_unpacked(packed)]

    def close(self, *, ends_early: bool) -> None:
        self._sends += [self._comm.isend(None, rank, _TO_WORKER) for rank in range(1, self._comm.size)]
        n_working = self._comm.size - 1
        while n_working:  # answers that are under way must be taken, or their ranks would wait for ever
            n_working -= self._comm.recv(tag=_TO_MASTER)[1] is None
        for sent in self._sends:
            sent.wait()


def serve_mpi(work: Work, task: Task, comm: Any) -> None:
    """Process pieces on a rank other than the first, until none are left.

    The first hears of all that happens here, and that it has ended.
    """
    has_ended = False

    def receive(waits: bool) -> Piece | None:
        nonlocal has_ended
        if has_ended or not (waits or comm.iprobe(source=0, tag=_TO_WORKER)):
            return None
        piece: Piece | None = comm.recv(source=0, tag=_TO_WORKER)
        has_ended = piece is None
        return piece

    try:
        for outcome in _outcomes(work, task, f"rank {comm.rank}", receive):
            comm.send((comm.rank, _packed(outcome)), 0, _TO_MASTER)
    except BaseException as error:
        comm.send((comm.rank, f"{type(error).__name__}: {error}"), 0, _TO_MASTER)
        raise
    finally:
        while not has_ended:
            receive(True)
        comm.send((comm.rank, None), 0, _TO_MASTER)
