"""The work, divided into pieces for workers."""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from femtobarn import _core
from femtobarn._processing.compiled import is_compiled
from femtobarn._processing.statistics import TimeStatistics
from femtobarn._shared.caller import name_of
from femtobarn._store.containers import count_events
from femtobarn._store.prefetch import EventBatch, opened
from femtobarn._store.product_names import check_first, resolved
from femtobarn.errors import FemtobarnError

if TYPE_CHECKING:
    from femtobarn._core import Loader
    from femtobarn._files.pickled import Place
    from femtobarn._processing.accumulate import Given
    from femtobarn._processing.compiled import CompiledCalls
    from femtobarn._store.containers import Holder
    from femtobarn._store.datastore import DataStore

__all__ = [
    "BATCH",
    "PER_WORKER",
    "TRIES",
    "Failure",
    "Lazy",
    "Outcome",
    "Piece",
    "Sizes",
    "StoreWork",
    "Task",
    "Work",
    "failure",
    "is_of_a_store",
    "run",
    "run_singly",
]

BATCH = 64
TRIES = 3  # of a piece that fails or whose worker dies
PER_WORKER = 8  # minimum number of batches per worker
_COLUMNS = 1024  # events per batch, if the function takes batches: their cost per call is that of columns
_KEY = 40
_FIRST = 16  # first events in which products are looked up


@dataclass(frozen=True)
class Piece:
    """Consecutive events: their concatenated keys, or a range of entries."""

    number: int
    n: int
    keys: bytes = b""
    start: int = 0
    # of entries of files: where they are, for another process; the number of the file, and its dataset
    place: Place | None = None
    file: int = 0
    dataset: str | None = None
    loaded: Any = field(default=None, compare=False)  # what came with them, where it can be handed over

    def without_loaded(self) -> Piece:
        """Return what can be sent to another process."""
        return replace(self, loaded=None)


@dataclass(frozen=True)
class Failure:
    """One or more events for which the function has failed.

    Attributes
    ----------
    where : str
        Which: run, subrun and event, or the entries of an ntuple.
    error : str
        The error, as Python prints it.
    details : str
        With its traceback.
    n_events : int
        How many events it is about.
    """

    where: str
    error: str
    details: str
    n_events: int = 1


@dataclass
class Outcome:
    """What came of a piece."""

    piece: int
    n: int
    values: list[Any] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    worker: str = ""
    is_local: bool = False  # whether the worker has loaded it
    waited: float = 0.0
    loading: float = 0.0
    processing: float = 0.0
    calls: TimeStatistics = field(default_factory=TimeStatistics)
    began: float = 0.0
    # with states of workers: whether the function was called; whether the result is in a state; which pieces must be
    # repeated, as their state is spoiled; states, and the pieces whose results they have
    is_called: bool = False
    is_held: bool = False
    lost: tuple[int, ...] = ()
    given: list[Given] = field(default_factory=list)
    raised: BaseException | None = None
    what: str = "the function"  # that has raised it
    advice: str = ""


@dataclass(frozen=True)
class Task:
    """Treatment of each piece."""

    function: Callable[[Any], Any]
    by_event: bool
    reduce: Callable[[Any, Any], Any] | None
    skips: bool
    tries: int = 1  # how often the function is called for an event, or a batch, that it fails for
    state: Callable[[], Any] | None = None  # makes what the function fills; else it takes no state
    keeps_state: bool = True  # for many pieces


Sizes: TypeAlias = "tuple[int | None, int]"
"""Events of a piece, None if the work chooses it; and events that are fetched together."""


class Work(Protocol):
    """Where events come from."""

    @property
    def name(self) -> str:
        """What errors and the progress bar call the work."""

    def identity(self) -> dict[str, str]:
        """Return the identity of the work, for a checkpoint."""

    def total(self, patience: float) -> int | None:
        """Return how many events there are; None if counting them takes longer than some seconds."""

    def batch_size(self, by: str, n_workers: int, in_threads: bool) -> int | None:
        """Return a size of pieces that gives each worker several; None if it depends on the file."""

    def pieces(self, sizes: Sizes, number: int, after: Any, *, loads: bool) -> Iterator[Piece]:
        """Iterate over the pieces after a position.

        `sizes` are the sizes of pieces and of fetches; `loads` tells whether products are fetched here.
        """

    def load(self, piece: Piece) -> Any:
        """Return the events of a piece, as the function takes them."""

    def each(self, loaded: Any) -> Iterator[Any]:
        """Iterate over the loaded events."""

    def compiled(self, function: Any, loaded: Any) -> CompiledCalls | None:
        """Return the calls of a compiled function for loaded events; None if it is called for each of them."""

    def single(self, piece: Piece, at: int) -> Piece:
        """Return one of the events of a piece."""

    def reloaded(self, piece: Piece, at: int | None) -> Iterator[Any]:
        """Iterate over what to call the function with after the piece, or one of its events, could not be read."""

    def where(self, piece: Piece, at: int | None) -> str:
        """Say which events a piece has, or which one of them it is."""

    def last(self, piece: Piece) -> Any:
        """Return the position after a piece, for `pieces`."""

    def check_left(self) -> None:
        """Raise if others have deleted the events while they were processed."""


class StoreWork:
    """The events of a dataset, run or subrun of a store."""

    def __init__(self, container: Holder[Any], products: list[str | tuple[str, Any]]) -> None:
        self._store: DataStore = container._store
        self._core = container._core
        self._products = resolved(container, products)
        if not all(isinstance(product, str) for product in products):  # products without a type were looked up
            self._check_there(container)
        self._passes: list[Loader] = []  # that were started here
        self.name = f"{self._store.url} {container}"

    def _check_there(self, container: Holder[Any]) -> None:
        """Raise if no event has one of the products; the first events have all of them as a rule."""
        first = None
        loader = self._core.loader(self._products, _FIRST, 0)
        with contextlib.closing(loader), contextlib.suppress(FemtobarnError):  # which is raised in its order
            first = next(iter(loader), None)
        if first is not None:
            check_first(container, self._products, first)

    def identity(self) -> dict[str, str]:
        # The key has the UUID of the dataset, which changes if the dataset is deleted and created again.
        return {"events": f"{self.name} (key {self._core.key.hex()})", "preload": str(self._products)}

    def __getstate__(self) -> dict[str, Any]:
        """In another process, the store is opened to be read: only one process can write to a directory."""
        core = (self._core.key, self._core.path)
        return {**self.__dict__, "_store": self._store._as_read(), "_core": core, "_passes": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        url, mode, settings = state.pop("_store")
        store = opened(url, mode, tuple(settings.items()))
        self.__dict__.update(state, _store=store, _core=store._core.container(*state["_core"]))

    def total(self, patience: float) -> int | None:
        until = time.monotonic() + patience
        n = count_events(self._core, lambda _: time.monotonic() > until)
        return None if time.monotonic() > until else n

    def batch_size(self, by: str, n_workers: int, in_threads: bool) -> int:
        if by == "event":
            return BATCH
        n_batches = PER_WORKER * n_workers
        most = n_batches * _COLUMNS
        n = count_events(self._core, lambda n: n >= most)
        return _COLUMNS if n >= most else max(n // n_batches, BATCH)

    def pieces(self, sizes: Sizes, number: int, after: bytes | None, *, loads: bool) -> Iterator[Piece]:
        size, input_size = sizes[0] or BATCH, sizes[1]
        products = self._products if loads else []
        # Fetches are whole pieces, so that the boundaries of pieces do not depend on the fetch size.
        loader = self._core.loader(products, max(input_size // size, 1) * size, 2, after)
        self._passes.append(loader)
        try:
            for events in loader:
                whole = EventBatch(self._store, events, products)
                for start in range(0, len(whole), size):
                    n = min(size, len(whole) - start)
                    part = whole._part(start, n)
                    yield Piece(number, n, part._events.keys(), loaded=part if loads else None)
                    number += 1
        finally:
            loader.close()

    def load(self, piece: Piece) -> EventBatch:
        events = self._store._core.load_events(piece.keys, self._products, self._core.path)
        return EventBatch(self._store, events, self._products)

    def each(self, loaded: EventBatch) -> Iterator[Any]:
        return iter(loaded)

    def compiled(self, function: Any, loaded: Any) -> None:
        return None

    def single(self, piece: Piece, at: int) -> Piece:
        return Piece(piece.number, 1, piece.keys[at * _KEY : (at + 1) * _KEY])

    def reloaded(self, piece: Piece, at: int | None) -> Iterator[Any]:
        return iter(())  # products are read before

    def where(self, piece: Piece, at: int | None) -> str:
        numbers = [int.from_bytes(piece.keys[i : i + 8], "big") for i in range(0, len(piece.keys), 8)]
        first, last = (numbers[i : i + 5][2:] for i in (0 if at is None else at * 5, len(numbers) - 5))
        name = "run {}, subrun {}, event {}".format(*first)
        return name if at is not None or piece.n == 1 else f"{name} to run {last[0]}, subrun {last[1]}, event {last[2]}"

    def last(self, piece: Piece) -> bytes:
        return piece.keys[-_KEY:]

    def check_left(self) -> None:
        for loader in self._passes:
            loader.check_left()


@dataclass(frozen=True)
class Lazy:
    """How columns are read when they are touched.

    Attributes
    ----------
    function : str
        The name of the function that touches them.
    record : path or False, optional
        The directory of records, or False if nothing is learned.
    """

    function: str
    record: str | os.PathLike[str] | Literal[False] | None = None

    @classmethod
    def of(cls, function: Callable[[Any], Any], record: str | os.PathLike[str] | Literal[False] | None) -> Lazy:
        """Return that of a function."""
        called = getattr(function, "func", function)  # of a partial
        if not hasattr(called, "__qualname__"):
            called = type(called)
        code = getattr(called, "__code__", None)
        name = f"{called.__module__}:{called.__qualname__}" if code is None else name_of(called.__module__, code)
        return cls(name, record)


def run(
    work: Work, task: Task, piece: Piece, loaded: Any, outcome: Outcome, stops: Callable[[], bool] | None = None
) -> None:
    """Call the function for a piece, and note what comes of it.

    Parameters
    ----------
    work : Work
        Where it is from.
    task : Task
        Finished work.
    piece : Piece
        The piece.
    loaded : object
        Its events.
    outcome : Outcome
        Takes the results, put together if they are; what failed; the error that ends the work, if one does.
    stops : callable, optional
        Returns whether the caller has stopped waiting for the outcome.
    """
    times: list[float] = []
    if task.by_event and is_compiled(task.function):
        began = time.perf_counter()
        calls = work.compiled(task.function, loaded)
        found = calls and calls.all()
        if found is not None:
            if found:
                each = (time.perf_counter() - began) / len(found)
                outcome.calls = outcome.calls.merged(TimeStatistics(len(found), each, each, each))
            for value in found:
                if not _add(task, outcome, value):
                    return
            return
        loaded = loaded if calls is None else calls
    items = enumerate(work.each(loaded)) if task.by_event else iter([(None, loaded)])
    try:
        _run(work, task, piece, items, outcome, times, stops)
    finally:
        outcome.calls = outcome.calls.merged(TimeStatistics.of(times))


def _run(
    work: Work,
    task: Task,
    piece: Piece,
    items: Iterator[tuple[int | None, Any]],
    outcome: Outcome,
    times: list[float],
    stops: Callable[[], bool] | None,
) -> None:
    function, clock = task.function, time.perf_counter
    for at, item in items:
        if stops is not None and stops():
            return
        began = clock()
        try:
            try:
                value = function(item)
            finally:
                times.append(clock() - began)
        except BaseException as error:  # of `sys.exit`, too, the event must be known
            try:
                value = _called_again(work, task, piece, (at, item), error, times, stops)
            except BaseException as last:
                outcome.failures.append(failure(work.where(piece, at), last, piece.n if at is None else 1))
                if not task.skips or not isinstance(last, Exception) or is_of_a_store(last):
                    outcome.raised = last
                    return
                continue
        if not _add(task, outcome, value):
            return


def _add(task: Task, outcome: Outcome, value: Any) -> bool:
    """Add a result to the outcome; returns whether that was possible."""
    values = outcome.values
    if value is None:
        return True
    if task.reduce is None or not values:
        values.append(value)
        return True
    try:
        values[0] = task.reduce(values[0], value)
    except BaseException as error:
        outcome.raised, outcome.what = error, "reduce"
        return False
    return True


def _called_again(
    work: Work,
    task: Task,
    piece: Piece,
    part: tuple[int | None, Any],
    error: BaseException,
    times: list[float],
    stops: Callable[[], bool] | None,
) -> Any:
    """Call the function again after an error, if it may be tried again, or with what is read anew; or raise the error.

    What is read anew is what it touches and could not be read.
    """
    at, item = part
    anew: Iterator[Any] | None = None
    n_left = task.tries - 1
    while True:
        ends = not isinstance(error, Exception) or (stops is not None and stops()) or is_of_a_store(error)
        if n_left and not ends:
            n_left -= 1
        else:
            if not (isinstance(error, Exception) and any(isinstance(one, FemtobarnError) for one in _causes(error))):
                raise error
            anew = work.reloaded(piece, at) if anew is None else anew
            item = next(anew, None)
            if item is None:
                raise error
            n_left = task.tries - 1
        began = time.perf_counter()
        try:
            return task.function(item)
        except BaseException as last:
            error = last
        finally:
            times.append(time.perf_counter() - began)


def run_singly(work: Work, task: Task, piece: Piece, outcome: Outcome, stops: Callable[[], bool] | None) -> None:
    """Load and process the events of a piece one by one, skipping events that cannot be loaded."""
    for at in range(piece.n):
        one = work.single(piece, at)
        try:
            loaded = work.load(one)
        except Exception as error:
            outcome.failures.append(failure(work.where(one, None), error, one.n))
            if is_of_a_store(error):
                outcome.raised, outcome.what = error, "loading"
                return
            continue
        run(work, task, one, loaded, outcome, stops)
        if outcome.raised is not None:
            return


def is_of_a_store(error: BaseException) -> bool:
    """Return whether an error, or its cause, concerns a whole store, so that continuing would fail for all events."""
    return any(isinstance(cause, FemtobarnError) and _core.is_of_store(cause.kind) for cause in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Iterate over an error and those that it follows from."""
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        yield at
        seen.append(at)
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)


def failure(where: str, error: BaseException, n_events: int) -> Failure:
    """Return the record of an error."""
    return Failure(where, repr(error), "".join(traceback.format_exception(error)), n_events)
