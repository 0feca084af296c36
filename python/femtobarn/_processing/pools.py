"""Pools of workers on this machine: threads, processes, and executors of concurrent.futures."""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import itertools
import multiprocessing
import multiprocessing.connection
import os
import pickle
import queue
import sys
import threading
import time
import uuid
import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from femtobarn._processing.accumulate import Accumulator, Given, GivenStates, Unfinished
from femtobarn._processing.dask import DaskExecutor
from femtobarn._processing.work import TRIES
from femtobarn._processing.workers import (
    alone,
    end_states,
    events_of,
    given_states,
    pack_outcome,
    pickled_work,
    serve_process,
    timed,
    unpack_outcome,
    with_kept_state,
    work_of,
)
from femtobarn.errors import UsageError, WorkerDiedError

if TYPE_CHECKING:
    from femtobarn._processing.work import Outcome, Piece, Task, Work

__all__ = ["FuturesPool", "ProcessPool", "ThreadPool", "Workers"]


_LARGE = 100_000  # bytes of a work that the workers of Dask copy from each other


class Workers(Protocol):
    """Workers that take pieces and give outcomes."""

    n_workers: int
    shares_memory: bool  # whether loaded products come with pieces; else workers load it themselves

    def has_room(self) -> bool:
        """Return whether another piece can be taken."""

    def send(self, piece: Piece) -> None:
        """Hand over a piece."""

    def wait(self) -> list[Outcome | Piece | Unfinished | GivenStates]:
        """Wait for outcomes, and for pieces of dead workers that must be repeated: a piece may be to blame."""

    def close(self, *, ends_early: bool) -> None:
        """End the workers."""


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
        state = Accumulator(self._task)
        coming = [self._todo.get()]
        while (piece := coming.pop()) is not None and not self._ends:
            load = partial(events_of, self._work, piece)
            outcome = timed(self._work, self._task, piece, load, name, idle_since, self._is_ended, state)
            del piece, load  # an idle thread must not keep loaded products
            idle_since = time.time()
            with contextlib.suppress(queue.Empty):
                coming.append(self._todo.get_nowait())
            state.end(outcome, is_last=not coming or coming[0] is None)
            self._done.put(outcome)
            del outcome
            if not coming:
                coming.append(self._todo.get())

    def _is_ended(self) -> bool:
        return self._ends

    def has_room(self) -> bool:
        return self._n_out < 2 * self.n_workers

    def send(self, piece: Piece) -> None:
        self._n_out += 1
        self._todo.put(piece)

    def wait(self) -> list[Outcome | Piece | Unfinished | GivenStates]:
        outcomes: list[Outcome | Piece | Unfinished | GivenStates] = []
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
        if ends_early:
            _ending.update(self._threads)  # what they do may take long: nobody waits before the end of Python
            return
        for thread in self._threads:
            thread.join()


_ending: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_PATIENCE = 10.0  # seconds at the end of Python for all threads that are ending


@atexit.register
def _join() -> None:
    """Wait for threads: one that comes back from the core into a Python that has ended brings down the process."""
    until = time.monotonic() + _PATIENCE
    for thread in list(_ending):
        thread.join(max(until - time.monotonic(), 0))


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
    n_unconfirmed: int  # works that were sent, and have not been confirmed
    held: dict[int, Piece] = field(default_factory=dict)  # whose results are in its state


class ProcessPool:
    """Processes of this machine, each with a connection of its own.

    One that dies is replaced, and its pieces are done again. With `is_kept`, they wait for other work when all is done.
    """

    shares_memory = False

    def __init__(self, n_workers: int, packed: bytes = b"", *, is_kept: bool = False) -> None:
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise UsageError(_GUARD)  # the script is imported again by a process that was started to work for it
        self.n_workers = n_workers
        self._is_kept = is_kept
        self._is_used = False
        self._packed = packed
        self._context = multiprocessing.get_context("spawn")
        self._names = itertools.count()
        self._n_stillborn = 0
        self._workers: dict[Any, _Process] = {}
        for _ in range(n_workers):
            self._start({})

    def begun(self, packed: bytes) -> ProcessPool:
        """Return itself, with other work for its processes."""
        if self._is_used:
            raise UsageError("another call of process uses this pool: use one pool for each thread")
        self._is_used = True
        self._packed = packed
        self._n_stillborn = 0
        for connection, worker in self._workers.items():
            worker.n_unconfirmed += 1  # one that replaced a dead process may not have confirmed the work before
            worker.held = {}
            with contextlib.suppress(OSError):  # it has died: `wait` detects this
                connection.send(packed)
        while len(self._workers) < self.n_workers:
            self._start({})
        return self

    def _start(self, pieces: dict[int, Piece]) -> None:
        ours, theirs = self._context.Pipe()
        name = f"process {next(self._names)}"
        process = self._context.Process(target=serve_process, args=(theirs, self._packed, name), daemon=True)
        with _without_no_script():
            process.start()
        theirs.close()
        self._workers[ours] = _Process(process, pieces, n_unconfirmed=1 if self._packed else 0)
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

    def wait(self) -> list[Outcome | Piece | Unfinished | GivenStates]:
        outcomes: list[Outcome | Piece | Unfinished | GivenStates] = []
        for connection in multiprocessing.connection.wait(list(self._workers)):
            worker = self._workers[connection]
            try:
                packed = connection.recv_bytes()  # type: ignore[union-attr]
            except (EOFError, OSError):
                outcomes += self._replace(connection)
                continue
            if not worker.n_unconfirmed:
                outcome = unpack_outcome(packed)
                piece = worker.pieces.pop(outcome.piece)
                if outcome.is_held:
                    worker.held[piece.number] = piece
                for number in itertools.chain(outcome.lost, *(numbers for numbers, _ in outcome.given)):
                    worker.held.pop(number, None)
                outcomes.append(outcome)
            elif packed:
                raise UsageError(f"another process cannot load the function or its events: {packed.decode()}")
            else:
                worker.n_unconfirmed -= 1
        return outcomes

    def _replace(self, connection: Any) -> list[Piece | Unfinished]:
        """Start another process for one that has died; returns its current piece, and those that its state had."""
        worker = self._workers.pop(connection)
        worker.process.join()
        if worker.n_unconfirmed:
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
        return [*first, *map(Unfinished, worker.held.values())]

    def close(self, *, ends_early: bool) -> None:
        self._is_used = False
        if self._is_kept:
            if ends_early:  # what they are at is not wanted any more
                self.end(early=True)
        else:
            self.end(early=ends_early)

    def end(self, *, early: bool) -> None:
        """End the processes, in the midst of their work if `early`."""
        for connection, worker in self._workers.items():
            connection.close()
            if early:
                worker.process.terminate()
        for worker in self._workers.values():
            worker.process.join()
        self._workers = {}


_GUARD = (
    "other processes import the script of this one; put calls of process under "
    "`if __name__ == '__main__':`, or they are repeated there"
)


def _broken(error: BaseException) -> WorkerDiedError:
    return WorkerDiedError(
        f"the executor is broken and cannot replace dead workers: {error}; with checkpoint='path', another call "
        "continues the work; executor='processes' replaces dead processes"
    )


def _run_future(key: str, packed: bytes, piece: Piece, sent: float, keeps_state: bool) -> bytes:
    """Process a piece in whatever process an executor has; returns nothing if this needs the work, and lacks it."""
    known = work_of(key, packed)
    if known is None:
        return b""
    work, task = known
    worker = f"{os.uname().nodename} {os.getpid()}"
    load = partial(work.load, piece)
    if keeps_state:
        return pack_outcome(with_kept_state(key, work, task, piece, load, worker, sent))
    return pack_outcome(alone(work, task, piece, load, worker, sent, writes=True))


class FuturesPool:
    """An executor of concurrent.futures, or what looks like one.

    Its threads get functions and events as they are. Other processes keep the work by a key: the first pieces come with
    it, and those of a process that lacks it are sent again with it. Workers of Dask keep states until they are asked,
    and copy large works from each other. If one dies, Dask suspects all tasks that it had: each is then done alone, so
    that only the piece to blame is given up.
    """

    def __init__(
        self,
        work: Work,
        task: Task,
        executor: Any,
        n_workers: int,
    ) -> None:
        self.n_workers = n_workers
        self.shares_memory = isinstance(executor, concurrent.futures.ThreadPoolExecutor)
        self._work, self._task = work, task
        client: Any = executor.client if isinstance(executor, DaskExecutor) else None
        by_name = client is None  # workers of Dask do not have the script of this process
        self._packed = b"" if self.shares_memory else pickled_work(work, task, by_name=by_name)
        self._key = uuid.uuid4().hex
        self._n_with_work = n_workers  # pieces that are still to be sent with the work
        self._client: Any = client
        self._scattered: Any = None
        self._keeps_state = client is not None and task.state is not None and task.keeps_state
        self._held: dict[int, Piece] = {}  # whose results are in states of workers
        self._executor = executor
        self._ended = threading.Event()
        self._out: dict[Any, Piece] = {}
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()  # futures, also those that others have cancelled
        self._suspects: Counter[int] = Counter()  # pieces to repeat, and how often their worker has died

    def _run_here(self, piece: Piece, sent: float) -> Outcome:
        load, name = partial(events_of, self._work, piece), threading.current_thread().name
        return alone(self._work, self._task, piece, load, name, sent, self._ended.is_set)

    def has_room(self) -> bool:
        return len(self._out) < (1 if self._suspects else 3 * self.n_workers)

    def send(self, piece: Piece) -> None:
        self._send(piece, self._n_with_work > 0)

    def _send(self, piece: Piece, with_work: bool) -> None:
        try:
            if self.shares_memory:
                future = self._executor.submit(self._run_here, piece, time.time())
            else:
                packed = self._carried() if with_work else b""
                sent = piece.without_loaded(), time.time()
                future = self._executor.submit(_run_future, self._key, packed, *sent, self._keeps_state)
                self._n_with_work -= with_work
        except concurrent.futures.BrokenExecutor as error:
            raise _broken(error) from error
        self._out[future] = piece
        future.add_done_callback(self._done.put)

    def _carried(self) -> Any:
        """Return the work as an argument of a task."""
        if self._client is None or len(self._packed) <= _LARGE:
            return self._packed
        if self._scattered is None:
            self._scattered = self._client.scatter(self._packed, hash=False)
        return self._scattered

    def wait(self) -> list[Outcome | Piece | Unfinished | GivenStates]:
        if not self._out:
            return self._collected()
        outcomes: list[Outcome | Piece | Unfinished | GivenStates] = []
        while not outcomes:
            for future in self._completed():
                piece = self._out.pop(future)
                try:
                    given = future.result()
                except concurrent.futures.BrokenExecutor as error:
                    raise _broken(error) from error
                except Exception as error:  # of the executor: what the function raises is in the outcome
                    if type(error).__name__ not in ("KilledWorker", "CancelledError", "FutureCancelledError"):
                        raise
                    self._scattered = None  # it may have died with the worker
                    self._suspects[piece.number] += 1
                    if self._suspects[piece.number] == TRIES:  # it is not done again
                        del self._suspects[piece.number]
                    outcomes.append(piece)
                    continue
                if given == b"":
                    self._send(piece, True)
                    continue
                self._suspects.pop(piece.number, None)
                outcome: Outcome = unpack_outcome(given) if isinstance(given, bytes) else given
                if self._keeps_state:
                    if outcome.is_held:
                        self._held[piece.number] = piece.without_loaded()
                    outcome.given, again = self._accepted(outcome.given)
                    # what is not held any more was done again elsewhere
                    outcome.lost = tuple(n for n in outcome.lost if self._held.pop(n, None) is not None)
                    outcomes += again
                outcomes.append(outcome)
        return outcomes

    def _completed(self) -> list[Any]:
        """Wait for a future that has completed; returns all that have."""
        completed: list[Any] = []
        while not completed:
            try:
                completed.append(self._done.get(timeout=1.0))
            except queue.Empty:
                if isinstance(self._executor, DaskExecutor):
                    self._executor.check()
        while not self._done.empty():
            completed.append(self._done.get())
        return completed

    def _collected(self) -> list[Outcome | Piece | Unfinished | GivenStates]:
        """Take the states of all workers; pieces of states that have died with their worker are unfinished."""
        answers: dict[str, bytes] = self._client.run(given_states, self._key, on_error="ignore")
        given: list[Given] = []
        for packed in answers.values():
            states = pickle.loads(packed)
            if isinstance(states, Exception):
                raise states
            given += states
        accepted, again = self._accepted(given)
        again += map(Unfinished, self._held.values())
        self._held.clear()
        return [GivenStates(accepted), *again]

    def _accepted(self, given: list[Given]) -> tuple[list[Given], list[Unfinished]]:
        """Separate states from those with a piece that was done again, as Dask had given up the worker."""
        accepted: list[Given] = []
        again: list[Unfinished] = []
        for numbers, state in given:
            if all(number in self._held for number in numbers):
                accepted.append((numbers, state))
            else:
                again += [Unfinished(self._held[number]) for number in numbers if number in self._held]
            for number in numbers:
                self._held.pop(number, None)
        return accepted, again

    def close(self, *, ends_early: bool) -> None:
        self._ended.set()
        for future in self._out:
            future.cancel()
        if ends_early and self._keeps_state:
            with contextlib.suppress(Exception):  # the error of the work is raised
                self._client.run(end_states, self._key, on_error="ignore")
