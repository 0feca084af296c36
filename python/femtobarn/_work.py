"""What is to be processed, cut into pieces that are handed to workers."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from femtobarn._prefetch import EventBatch

if TYPE_CHECKING:
    from femtobarn._containers import _Holder
    from femtobarn._datastore import DataStore
    from femtobarn._ntuple import NTuple

__all__ = ["Failure", "NTupleWork", "Outcome", "Piece", "StoreWork", "Task", "Work", "run"]

_KEY = 40


@dataclass(frozen=True)
class Piece:
    """Consecutive events: their keys, one behind the other, or a range of entries."""

    number: int
    n: int
    keys: bytes = b""
    start: int = 0
    loaded: Any = field(default=None, compare=False)  # what came with them, where it can be handed over

    def without_loaded(self) -> Piece:
        """Return what can be sent to another process."""
        return Piece(self.number, self.n, self.keys, self.start)


@dataclass(frozen=True)
class Failure:
    """An event, or some, of which the function has failed.

    Attributes
    ----------
    where : str
        Which: run, subrun and event, or the entries of an ntuple.
    error : str
        The error, as Python prints it.
    details : str
        With its traceback.
    """

    where: str
    error: str
    details: str


@dataclass
class Outcome:
    """What came of a piece."""

    piece: int
    n: int
    values: list[Any]
    failures: list[Failure]
    worker: str = ""
    waited: float = 0.0
    loading: float = 0.0
    processing: float = 0.0
    began: float = 0.0
    raised: BaseException | None = None


@dataclass(frozen=True)
class Task:
    """What is done with each piece."""

    function: Callable[[Any], Any]
    by_event: bool
    reduce: Callable[[Any, Any], Any] | None
    skips: bool


class Work(Protocol):
    """Where events come from."""

    name: str

    def pieces(self, sizes: tuple[int, int], number: int, after: Any, *, loads: bool) -> Iterator[Piece]:
        """Iterate over the pieces, from one on, behind what was done before.

        `sizes` are those of pieces and of what is fetched together; `loads` says whether products are fetched here.
        """

    def load(self, piece: Piece) -> Any:
        """Return the events of a piece, as the function takes them."""

    def each(self, loaded: Any) -> Iterator[Any]:
        """Iterate over the events of what was loaded."""

    def where(self, piece: Piece, at: int | None) -> str:
        """Say which events a piece has, or which one of them it is."""

    def last(self, piece: Piece) -> Any:
        """Return what `pieces` takes to go on behind a piece."""


class StoreWork:
    """The events of a dataset, run or subrun of a store."""

    def __init__(self, container: _Holder[Any], products: tuple[str | tuple[str, Any], ...]) -> None:
        self._store: DataStore = container._store
        self._key = container._key
        self._products = container._resolve(products)
        self.name = f"{self._store.url} {container}"

    def __getstate__(self) -> dict[str, Any]:
        """In another process, the store is opened to be read: only one may write to a folder."""
        return {**self.__dict__, "_store": self._store._as_read()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        url, mode, settings = state.pop("_store")
        self.__dict__.update(state, _store=_connected(url, mode, tuple(settings.items())))

    def pieces(self, sizes: tuple[int, int], number: int, after: bytes | None, *, loads: bool) -> Iterator[Piece]:
        size, input_size = sizes
        products = self._products if loads else []
        loader = self._store._core.loader(self._key, products, max(input_size, size), 2, after)
        try:
            for events in loader:
                whole = EventBatch(self._store, events, products)
                for start in range(0, len(whole), size):
                    n = min(size, len(whole) - start)
                    part = whole._part(start, n)
                    yield Piece(number, n, part._keys, loaded=part if loads else None)
                    number += 1
        finally:
            loader.close()

    def load(self, piece: Piece) -> EventBatch:
        events = self._store._core.load_events(piece.keys, self._products)
        return EventBatch(self._store, events, self._products)

    def each(self, loaded: EventBatch) -> Iterator[Any]:
        return iter(loaded)

    def where(self, piece: Piece, at: int | None) -> str:
        numbers = [int.from_bytes(piece.keys[i : i + 8], "big") for i in range(0, len(piece.keys), 8)]
        first, last = (numbers[i : i + 5][2:] for i in (0 if at is None else at * 5, len(numbers) - 5))
        name = "run {}, subrun {}, event {}".format(*first)
        return name if at is not None or piece.n == 1 else f"{name} to run {last[0]}, subrun {last[1]}, event {last[2]}"

    def last(self, piece: Piece) -> bytes:
        return piece.keys[-_KEY:]


@functools.cache
def _connected(url: str, mode: str, settings: tuple[tuple[str, str], ...]) -> DataStore:
    """Return a store of this process, which all pieces share."""
    from femtobarn._datastore import reconnect

    return reconnect(url, mode, dict(settings))


class NTupleWork:
    """The entries of an ntuple, or of many files."""

    def __init__(self, ntuple: NTuple, fields: tuple[str, ...]) -> None:
        self._ntuple = ntuple
        self._fields = list(fields) or None
        self.name = f"{ntuple!r}"

    def pieces(self, sizes: tuple[int, int], number: int, after: int | None, *, loads: bool) -> Iterator[Piece]:
        size, input_size = sizes
        start = after or 0
        steps = self._steps(start, max(input_size // size, 1) * size) if loads else [None]
        for events in steps:
            end = self._ntuple.num_entries if events is None else start + len(events)
            for first in range(start, end, size):
                n = min(size, end - first)
                part = None if events is None else events[first - start : first - start + n]
                yield Piece(number, n, start=first, loaded=part)
                number += 1
            start = end

    def _steps(self, start: int, size: int) -> Iterator[Any]:
        return self._ntuple.iterate(self._fields, step_size=size, entry_start=start)

    def load(self, piece: Piece) -> Any:
        return self._ntuple.arrays(self._fields, entry_start=piece.start, entry_stop=piece.start + piece.n)

    def each(self, loaded: Any) -> Iterator[Any]:
        return iter(loaded)

    def where(self, piece: Piece, at: int | None) -> str:
        if at is not None:
            return f"entry {piece.start + at}"
        return f"entries {piece.start} to {piece.start + piece.n - 1}"

    def last(self, piece: Piece) -> int:
        return piece.start + piece.n


def run(work: Work, task: Task, piece: Piece, loaded: Any) -> tuple[list[Any], list[Failure], BaseException | None]:
    """Call the function for a piece.

    Parameters
    ----------
    work : Work
        Where it is from.
    task : Task
        What is done.
    piece : Piece
        The piece.
    loaded : object
        Its events.

    Returns
    -------
    tuple
        The results, one if they are put together; what failed; the error that ends the work, if one does.
    """
    values: list[Any] = []
    failures: list[Failure] = []
    items = enumerate(work.each(loaded)) if task.by_event else iter([(None, loaded)])
    for at, item in items:
        try:
            value = task.function(item)
        except Exception as error:
            failure = Failure(work.where(piece, at), repr(error), traceback.format_exc())
            failures.append(failure)
            if not task.skips:
                return values, failures, error
            continue
        if value is None:
            continue
        if task.reduce is not None and values:
            values[0] = task.reduce(values[0], value)
        else:
            values.append(value)
    return values, failures, None
