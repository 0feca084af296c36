"""What a worker does with pieces, and how work and outcomes are sent to and from other processes."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import importlib
import importlib.util
import pickle
import sys
import threading
import time
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from femtobarn._processing.accumulate import Accumulator
from femtobarn._processing.work import Outcome, Piece, Task, Work, failure, is_of_a_store, run, run_singly
from femtobarn._store.write_batch import flush_open
from femtobarn.errors import FemtobarnError, UsageError

__all__ = [
    "alone",
    "end_states",
    "events_of",
    "given_states",
    "outcomes_of",
    "pack_outcome",
    "pickled_work",
    "serve_process",
    "timed",
    "unpack_outcome",
    "with_kept_state",
    "work_of",
    "written",
]


def timed(
    work: Work,
    task: Task,
    piece: Piece,
    load: Callable[[], Any],
    worker: str,
    idle_since: float,
    stops: Callable[[], bool] | None = None,
    state: Accumulator | None = None,
) -> Outcome:
    """Process a piece, whose events `load` returns, and measure each step; `state` is that of the worker."""
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
            if state is not None:
                task = state.task
                state.begin(piece, outcome)
                outcome.is_called = True
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


def events_of(work: Work, piece: Piece) -> Any:
    """Return the events of a piece, which may have come with it."""
    return work.load(piece) if piece.loaded is None else piece.loaded


def written(work: Work, task: Task, piece: Piece, outcome: Outcome) -> Outcome:
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


def outcomes_of(work: Work, task: Task, name: str, receive: Callable[[bool], Piece | None]) -> Iterator[Outcome]:
    """Process pieces until none are left; the next one, if it has come, is loaded while one is processed.

    `receive` returns a piece; if told to wait, it returns None only at the end.
    """
    state = Accumulator(task)
    with concurrent.futures.ThreadPoolExecutor(1) as loader:

        def begun(piece: Piece | None) -> tuple[Piece, concurrent.futures.Future[Any]] | None:
            return None if piece is None else (piece, loader.submit(work.load, piece))

        idle_since = time.time()
        ahead = None
        while (ready := ahead or begun(receive(True))) is not None:
            piece, events = ready
            ahead = begun(receive(False))
            outcome = timed(work, task, piece, events.result, name, idle_since, state=state)
            written(work, task, piece, outcome)
            state.end(outcome, is_last=ahead is None)
            yield outcome
            idle_since = time.time()


def alone(
    work: Work,
    task: Task,
    piece: Piece,
    load: Callable[[], Any],
    worker: str,
    idle_since: float,
    stops: Callable[[], bool] | None = None,
    *,
    writes: bool = False,
) -> Outcome:
    """Process a piece as `timed`, with a state of its own; `writes` tells whether `written` is called."""
    state = Accumulator(task, keeps=False)
    outcome = timed(work, task, piece, load, worker, idle_since, stops, state)
    if writes:
        written(work, task, piece, outcome)
    state.end(outcome, is_last=True)
    return outcome


def serve_process(connection: Any, packed: bytes, name: str) -> None:
    """Process the pieces that come over a connection until it ends; other work may come between them.

    The first message after work has come confirms it.
    """
    following: list[bytes] = []  # the work that comes next

    def receive(waits: bool) -> Piece | None:
        try:
            piece: Piece | bytes | None = connection.recv() if not following and (waits or connection.poll()) else None
        except (EOFError, OSError):
            return None
        if isinstance(piece, bytes):
            following.append(piece)
            return None
        return piece

    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # all is done, or broken off, meanwhile
        if not packed:
            receive(True)
        while packed or following:
            try:
                work, task = pickle.loads(packed or following.pop())
            except Exception as error:
                connection.send_bytes(f"{type(error).__name__}: {error}{_of_import(error)}".encode())
                return
            packed = b""
            connection.send_bytes(b"")
            for outcome in outcomes_of(work, task, name, receive):
                connection.send_bytes(pack_outcome(outcome))


_states: dict[str, list[Accumulator]] = {}  # that no thread uses, by the key of the work
_ended: deque[str] = deque(maxlen=100)  # keys of work that was broken off


def with_kept_state(
    key: str, work: Work, task: Task, piece: Piece, load: Callable[[], Any], worker: str, idle_since: float
) -> Outcome:
    """Process a piece as `timed`, with a state that this process keeps until `given_states` takes it."""
    with _lock:
        idle = _states.get(key)
        state = idle.pop() if idle else Accumulator(task)
    outcome = written(work, task, piece, timed(work, task, piece, load, worker, idle_since, state=state))
    state.end(outcome, is_last=False)
    with _lock:
        if key not in _ended:
            _states.setdefault(key, []).append(state)
    return outcome


def given_states(key: str) -> bytes:
    """Return the states of some work that this process has kept, pickled."""
    with _lock:
        states = _states.pop(key, [])
    given = [one for state in states for one in state.give()]
    try:
        return pickle.dumps(given)
    except Exception as error:
        return pickle.dumps(FemtobarnError(f"the state cannot be sent to another process: {error}"))


def end_states(key: str) -> None:
    """Forget the states of some work, also those that threads use now."""
    with _lock:
        _states.pop(key, None)
        _ended.append(key)


_KEPT = 8  # works that a process of an executor keeps
_works: OrderedDict[str, tuple[Work, Task]] = OrderedDict()
_lock = threading.Lock()


def work_of(key: str, packed: bytes) -> tuple[Work, Task] | None:
    """Return work that this process has got before, or gets now; None if it has not got it.

    Parameters
    ----------
    key : str
        Identifies the work.
    packed : bytes
        The work as `pickled_work` returns it, or nothing.
    """
    with _lock:
        known = _works.get(key)
        if known is None:
            if not packed:
                return None
            known = _works[key] = pickle.loads(packed)
            if len(_works) > _KEPT:
                _works.popitem(last=False)
        _works.move_to_end(key)
        return known


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


def pack_outcome(outcome: Outcome) -> bytes:
    """Return an outcome as sent to another process, after its number; if this fails, an error message."""
    number = outcome.piece.to_bytes(8, "big")
    if outcome.raised is not None:
        outcome.advice = _advice(outcome.raised)
        trace = "".join(traceback.format_exception(outcome.raised)).rstrip()
        try:
            pickle.loads(pickle.dumps(outcome.raised))  # many classes of errors can only be pickled
        except Exception:
            outcome.raised = FemtobarnError(repr(outcome.raised))
        # tracebacks cannot be pickled
        outcome.raised.add_note(f"in a worker:\n{trace}")
    try:
        return number + pickle.dumps(outcome)
    except Exception as error:
        told = FemtobarnError(f"the result of the function cannot be sent to another process: {error}")
        failed = dataclasses.replace(outcome, values=[], given=[], is_held=False, raised=outcome.raised or told)
        return number + pickle.dumps(failed)


def unpack_outcome(packed: bytes) -> Outcome:
    """Return an outcome that another process has packed."""
    try:
        outcome: Outcome = pickle.loads(memoryview(packed)[8:])
    except Exception as error:
        told = FemtobarnError(f"the result of the function cannot be received from another process: {error}")
        return Outcome(int.from_bytes(packed[:8], "big"), 0, raised=told)
    return outcome


def pickled_work(work: Work, task: Task, *, by_name: bool) -> bytes:
    """Return the work as sent to other processes, or raise an error that names what cannot be sent.

    `by_name` tells whether these run the same script; else the code of its functions is sent.
    """
    is_script = Path(getattr(sys.modules["__main__"], "__file__", None) or "").is_file()  # "<stdin>" is none
    by_value = False
    for what, function in (("the function", task.function), ("reduce", task.reduce), ("state", task.state)):
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
