"""Who processes pieces: threads, processes, executors of concurrent.futures, and the ranks of MPI."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import multiprocessing
import multiprocessing.connection
import os
import pickle
import queue
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

from femtobarn._work import Outcome, Piece, Task, Work, run
from femtobarn.errors import FemtobarnError, UsageError

__all__ = ["FuturesPool", "MpiPool", "Pool", "ProcessPool", "ThreadPool", "WorkerDiedError", "serve_mpi"]


class WorkerDiedError(FemtobarnError, RuntimeError):
    """A process that worked on events ended before it had answered, again and again."""

    kind = "worker-died"


class Pool(Protocol):
    """Workers that take pieces and give outcomes."""

    n_workers: int
    shares_memory: bool  # whether what was loaded with pieces comes with them; else workers load it themselves

    def has_room(self) -> bool:
        """Return whether another piece can be taken."""

    def send(self, piece: Piece) -> None:
        """Hand over a piece."""

    def wait(self) -> list[Outcome | Piece]:
        """Wait for outcomes, and for pieces that must be done again, since who had them is gone."""

    def close(self, *, ends_early: bool) -> None:
        """End the workers."""


def timed(work: Work, task: Task, piece: Piece, load: Callable[[], Any], worker: str, idle_since: float) -> Outcome:
    """Process a piece, whose events `load` gives, and say how long each step took."""
    began = time.time()
    clock = time.perf_counter()
    waited = max(began - idle_since, 0.0)
    try:
        loaded = load()
        ready = time.perf_counter()
        values, failures, raised = run(work, task, piece, loaded)
    except BaseException as error:  # whoever waits for the outcome must hear of everything, as of an error of `reduce`
        return Outcome(piece.number, piece.n, [], [], worker, waited, began=began, raised=error)
    done = time.perf_counter()
    times = {"waited": waited, "loading": ready - clock, "processing": done - ready, "began": began}
    return Outcome(piece.number, piece.n, values, failures, worker, **times, raised=raised)


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
            outcome = timed(self._work, self._task, piece, partial(_loaded, self._work, piece), name, idle_since)
            idle_since = time.time()
            self._done.put(outcome)

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


def _outcomes(work: Work, task: Task, name: str, receive: Callable[[bool], Piece | None]) -> Iterator[Outcome]:
    """Process pieces until there are no more; the next one, if it has come, is loaded while one is processed.

    `receive` gives a piece; if it is told to wait, none only at the end.
    """
    with concurrent.futures.ThreadPoolExecutor(1) as loader:

        def begun(piece: Piece | None) -> tuple[Piece, concurrent.futures.Future[Any]] | None:
            return None if piece is None else (piece, loader.submit(work.load, piece))

        idle_since = time.time()
        ahead = None
        while (ready := ahead or begun(receive(True))) is not None:
            piece, events = ready
            ahead = begun(receive(False))
            yield timed(work, task, piece, events.result, name, idle_since)
            idle_since = time.time()


def _serve_process(connection: Any, packed: bytes, name: str) -> None:
    """Process the pieces that come over a connection until it ends."""
    work, task = pickle.loads(packed)

    def receive(waits: bool) -> Piece | None:
        try:
            piece: Piece | None = connection.recv() if waits or connection.poll() else None
        except EOFError:
            return None
        return piece

    for outcome in _outcomes(work, task, name, receive):
        connection.send_bytes(_packed(outcome))


def _packed(outcome: Outcome) -> bytes:
    """Return an outcome as it is sent to another process; an error that cannot be sent is told in words."""
    try:
        return pickle.dumps(outcome)
    except Exception as error:
        what = outcome.raised if outcome.raised is not None else error
        outcome.values = []
        outcome.raised = FemtobarnError(f"{what!r} (what the function gave cannot be sent to another process: {error})")
        return pickle.dumps(outcome)


class ProcessPool:
    """Processes of this machine, each with a connection of its own.

    One that dies is replaced, and its pieces are done again.
    """

    shares_memory = False

    def __init__(self, work: Work, task: Task, n_workers: int) -> None:
        self.n_workers = n_workers
        try:
            self._packed = pickle.dumps((work, task))
        except Exception as error:
            raise UsageError(
                f"this cannot be sent to other processes: {error}; a function must be one of a module, and a store one "
                "in a folder or in Redis (executor='threads' takes any)"
            ) from error
        self._context = multiprocessing.get_context("spawn")
        self._names = itertools.count()
        self._workers: dict[Any, tuple[Any, dict[int, Piece]]] = {}
        for _ in range(n_workers):
            self._start()

    def _start(self) -> None:
        ours, theirs = self._context.Pipe()
        name = f"process {next(self._names)}"
        process = self._context.Process(target=_serve_process, args=(theirs, self._packed, name), daemon=True)
        process.start()
        theirs.close()
        self._workers[ours] = (process, {})

    def has_room(self) -> bool:
        return any(len(pieces) < 2 for _, pieces in self._workers.values())

    def send(self, piece: Piece) -> None:
        connection, (_, pieces) = min(self._workers.items(), key=lambda item: len(item[1][1]))
        pieces[piece.number] = piece
        with contextlib.suppress(OSError):  # it has died: `wait` sees that, and gives the piece back
            connection.send(piece.without_loaded())

    def wait(self) -> list[Outcome | Piece]:
        outcomes: list[Outcome | Piece] = []
        for connection in multiprocessing.connection.wait(list(self._workers)):
            process, pieces = self._workers[connection]
            try:
                outcome = pickle.loads(connection.recv_bytes())  # type: ignore[union-attr]
            except (EOFError, OSError):
                del self._workers[connection]
                process.join()
                outcomes += pieces.values()
                self._start()
                continue
            del pieces[outcome.piece]
            outcomes.append(outcome)
        return outcomes

    def close(self, *, ends_early: bool) -> None:
        for connection, (process, _) in self._workers.items():
            connection.close()
            if ends_early:
                process.terminate()
        for process, _ in self._workers.values():
            process.join()


def _run_future(packed: bytes, piece: Piece, sent: float) -> Outcome:
    """Process a piece in whatever process an executor has."""
    work, task = pickle.loads(packed)
    return timed(work, task, piece, partial(work.load, piece), f"{os.uname().nodename} {os.getpid()}", sent)


class FuturesPool:
    """An executor of concurrent.futures, or what looks like one."""

    shares_memory = False

    def __init__(self, work: Work, task: Task, executor: Any, n_workers: int) -> None:
        self.n_workers = n_workers
        try:
            self._packed = pickle.dumps((work, task))
        except Exception as error:
            raise UsageError(f"this cannot be sent to other processes: {error}") from error
        self._executor = executor
        self._out: dict[Any, Piece] = {}

    def has_room(self) -> bool:
        return len(self._out) < 3 * self.n_workers

    def send(self, piece: Piece) -> None:
        future = self._executor.submit(_run_future, self._packed, piece.without_loaded(), time.time())
        self._out[future] = piece

    def wait(self) -> list[Outcome | Piece]:
        done, _ = concurrent.futures.wait(list(self._out), return_when=concurrent.futures.FIRST_COMPLETED)
        outcomes: list[Outcome | Piece] = []
        for future in done:
            piece = self._out.pop(future)
            try:
                outcomes.append(future.result())
            except concurrent.futures.BrokenExecutor as error:
                raise WorkerDiedError(f"the executor is broken: {error}") from error
            except Exception as error:  # of the executor: what the function raises is in the outcome
                if type(error).__name__ not in ("KilledWorker", "CancelledError"):
                    raise
                outcomes.append(piece)
        return outcomes

    def close(self, *, ends_early: bool) -> None:
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
        self._own: list[Piece] = []
        self._idle_since = time.time()

    def has_room(self) -> bool:
        return bool(self._idle) if self._comm.size > 1 else not self._own

    def send(self, piece: Piece) -> None:
        if self._comm.size == 1:
            self._own.append(piece)
        else:
            self._comm.send(piece.without_loaded(), self._idle.pop(0), _TO_WORKER)

    def wait(self) -> list[Outcome | Piece]:
        if self._comm.size == 1:
            piece = self._own.pop()
            outcome = timed(
                self._work, self._task, piece, partial(_loaded, self._work, piece), "rank 0", self._idle_since
            )
            self._idle_since = time.time()
            return [outcome]
        rank, packed = self._comm.recv(tag=_TO_MASTER)
        self._idle.append(rank)
        return [pickle.loads(packed)]

    def close(self, *, ends_early: bool) -> None:
        for rank in range(1, self._comm.size):
            self._comm.send(None, rank, _TO_WORKER)
        if ends_early and self._comm.size > 1:
            # Answers that are under way must be taken, or their ranks would wait for ever.
            n_out = 2 * (self._comm.size - 1) - len(self._idle)
            for _ in range(n_out):
                self._comm.recv(tag=_TO_MASTER)


def serve_mpi(work: Work, task: Task, comm: Any) -> None:
    """Process pieces on a rank that is not the first, until there are no more."""
    has_ended = False

    def receive(waits: bool) -> Piece | None:
        nonlocal has_ended
        if has_ended or not (waits or comm.iprobe(source=0, tag=_TO_WORKER)):
            return None
        piece: Piece | None = comm.recv(source=0, tag=_TO_WORKER)
        has_ended = piece is None
        return piece

    for outcome in _outcomes(work, task, f"rank {comm.rank}", receive):
        comm.send((comm.rank, _packed(outcome)), 0, _TO_MASTER)
