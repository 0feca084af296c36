"""Events that come with products of theirs, fetched ahead."""

from __future__ import annotations

import contextlib
import functools
import operator
import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex

from femtobarn._files.libraries import plain_output
from femtobarn._shared.compat import known_options
from femtobarn._store.containers import Event, _Holder, at_least
from femtobarn._store.product_names import check_columns, check_first, named, resolved
from femtobarn._store.product_types import fitting
from femtobarn._store.products import As, Column, decoded, is_opaque, loaded, reading, type_name_of
from femtobarn._store.ptr import MISSING
from femtobarn._store.twins import instead
from femtobarn.errors import FormatError, UsageError

if TYPE_CHECKING:
    from femtobarn import _core
    from femtobarn._store.datastore import DataStore, WriteBatch

__all__ = ["EventBatch", "PrefetchedEvent", "Prefetcher", "opened"]

_MANY = 4  # events whose products are decoded together; numbers of fewer are had sooner one by one


class PrefetchedEvent(Event):
    """An event some of whose products are here already."""

    def __init__(self, batch: EventBatch, at: int) -> None:
        super().__init__(batch._store, batch._keys[at * 40 : at * 40 + 40], batch._path)
        self._batch = batch
        self._at = at

    def __reduce__(self) -> tuple[Any, ...]:
        """Elsewhere, it is an event that loads its products from the store, which is opened to be read."""
        url, mode, settings = self._store._as_read()
        return _event, (url, mode, tuple(settings.items()), self._key, self._path)

    @known_options()
    def load(
        self,
        label: str | tuple[str, Any],
        form: Any = None,
        *,
        typename: Any = None,
        default: Any = MISSING,
        unpickle: bool = False,
    ) -> Any:
        """Load a product: one that was fetched from here, any other from the store; see `Event.load`."""
        label, typename = named(label, typename)
        found = self._fetched(label, form, typename)
        if found is None:
            return super().load(label, form, typename=typename, default=default, unpickle=unpickle)
        at, stored = found
        if stored is None:
            if default is not MISSING:
                return default
            return super().load(label, form, typename=typename, unpickle=unpickle)  # which says what there is
        if (form is None or isinstance(form, As)) and (column := self._batch._column(at)) is not None:
            return column.at(self._at, form)
        return loaded(self._store, label, self._batch._names[at][1], stored, form, unpickle=unpickle)

    def _fetched(self, label: str, form: Any, typename: Any) -> tuple[int, bytes | None] | None:
        """Return which of the products it is, and its stored value, if there is one; None if it must be asked for."""
        stale = self._batch._stale
        if stale and not stale.isdisjoint(((self._at, label), (self._at, None))):
            return None
        kind = None if typename is None else type_name_of(typename)
        matching = [at for at, name in enumerate(self._batch._names) if name[0] == label and kind in (None, name[1])]
        values = ((at, self._batch._events.value(at, self._at)) for at in matching)
        there = {self._batch._names[at][1]: (at, stored) for at, stored in values if stored is not None}
        if len(there) > 1:
            return there.get(fitting(form, there) or "")  # or the store says that there are several
        if there:
            return next(iter(there.values()))
        is_known = kind is not None or form in (None, bytes) or isinstance(form, As)
        if is_known or _name_of(form) in [self._batch._names[at][1] for at in matching]:
            return (matching[0], None) if matching else None
        return None  # it may have one that has the type of the form

    @known_options()
    def store(
        self,
        label: str,
        value: Any,
        *,
        typename: Any = None,
        overwrite: bool = True,
        batch: WriteBatch | None = None,
    ) -> None:
        """Store a product, which is loaded from the store from then on; see `Event.store`."""
        self._batch._stale.add((self._at, label))
        super().store(label, value, typename=typename, overwrite=overwrite, batch=batch)

    def delete_product(self, label: str | tuple[str, Any], *, typename: Any = None) -> None:
        """Delete a product; see `Event.delete_product`."""
        label, typename = named(label, typename)
        self._batch._stale.add((self._at, label))
        super().delete_product(label, typename=typename)

    def delete(self) -> None:
        """Delete it, with all that it holds; see `Event.delete`."""
        self._batch._stale.add((self._at, None))
        super().delete()


def _name_of(form: Any) -> str | None:
    """Return the name of the type that a form is; None if it is none."""
    with contextlib.suppress(UsageError):
        return type_name_of(form)
    return None


def _event(url: str, mode: str, settings: tuple[tuple[str, str], ...], key: bytes, path: str | None = None) -> Event:
    return Event(opened(url, mode, settings), key, path)


def opened(url: str, mode: str, settings: tuple[tuple[str, str], ...]) -> DataStore:
    """Return a store of this process, which all share to whom it was sent."""
    return _opened(url, mode, settings, os.getpid())  # one from before a fork is of no use


@functools.cache
def _opened(url: str, mode: str, settings: tuple[tuple[str, str], ...], _process: int) -> DataStore:
    from femtobarn._store.datastore import reconnect

    return reconnect(url, mode, dict(settings))


class EventBatch:
    """Events in their order, with the products that were asked for, as they were when they were fetched."""

    def __init__(
        self, store: DataStore, events: _core.Events, names: list[tuple[str, str]], path: str | None = None
    ) -> None:
        self._store = store
        self._path = path
        self._events = events
        self._names = names
        self._keys = events.keys()
        self._columns: dict[int, Column | None] = {}
        # Events and labels (None for all) of what was stored or deleted through the events, and is here as it was
        self._stale: set[tuple[int, str | None]] = set()

    def __len__(self) -> int:
        return len(self._events)

    def __repr__(self) -> str:
        names = "".join(f" {label!r}" for label, _ in self._names)
        return f"<EventBatch of {len(self)} events{f' with{names}' if names else ''}>"

    def __getitem__(self, at: SupportsIndex) -> PrefetchedEvent:
        if isinstance(at, str):
            raise UsageError(
                f"events are had by their place in the batch; a product of all of them is arrays()[{at!r}]"
            )
        n, at = len(self), operator.index(at)
        if not -n <= at < n:
            raise IndexError(f"there are {n} events")
        return PrefetchedEvent(self, at % n)

    def __iter__(self) -> Iterator[PrefetchedEvent]:
        return (PrefetchedEvent(self, at) for at in range(len(self)))

    def _part(self, start: int, n: int) -> EventBatch:
        """Return some of its events, which share what was loaded."""
        if (start, n) == (0, len(self)):
            return self
        part = EventBatch.__new__(EventBatch)
        part._store, part._names, part._path = self._store, self._names, self._path
        part._events = self._events.part(start, n)
        part._keys = self._keys[start * 40 : (start + n) * 40]
        part._columns, part._stale = {}, set()
        return part

    def _column(self, at: int) -> Column | None:
        """Return the values of a product; None if they are to be decoded one by one, as when one is damaged."""
        if at not in self._columns:
            label, type_name = self._names[at]
            column = None
            if len(self) >= _MANY and not is_opaque(type_name):
                stored = [self._events.value(at, n) for n in range(len(self))]
                with contextlib.suppress(FormatError, UsageError):
                    column = decoded(self._store, label, type_name, stored)
            self._columns[at] = column
        return self._columns[at]

    def arrays(self, *, numbers: bool = True, library: str = "ak") -> Any:
        """Return the products as arrays.

        Parameters
        ----------
        numbers : bool
            Whether ``run``, ``subrun`` and ``event`` come with them.
        library : str
            "ak", "np", "arrow", "pd" or "pl".

        Returns
        -------
        array
            Records with a field for each label.
        """
        check_columns(self._names, numbers)
        with reading(self._names):
            batch = self._events.arrays(numbers)
        return plain_output(batch, None, library)


class Prefetcher:
    """Fetches events and products of theirs ahead of who iterates over them.

    Examples
    --------
    >>> import femtobarn as fb
    >>> store = fb.DataStore.connect("memory:")
    >>> dataset = store.root.create_dataset("a")
    >>> dataset.create_run(1).create_subrun(1).create_event(2).store("n", 5)
    >>> prefetcher = store.prefetcher(["n"])
    >>> [event.load("n") for event in prefetcher(dataset)]
    [5]
    """

    def __init__(self, store: DataStore, products: list[str | tuple[str, Any]], batch_size: int, ahead: int) -> None:
        self._store = store
        self._products = products
        self._batch_size = at_least("batch_size", batch_size, 1)
        self._ahead = at_least("ahead", ahead, 0)

    def __repr__(self) -> str:
        return f"<Prefetcher of {self._store.url!r} for {self._products!r}>"

    def batches(self, container: _Holder[Any]) -> Generator[EventBatch, None, None]:
        """Iterate over the events of a dataset, run or subrun, many at a time.

        Parameters
        ----------
        container : DataSet, Run or SubRun
            Whose events they are.

        Returns
        -------
        generator of EventBatch
            Events with the products.

        Raises
        ------
        KeyNotFoundError
            If no event has one of the products, of the type if one was given, or if it is a dataset that was deleted;
            while they are iterated over.
        """
        if not isinstance(container, _Holder):
            raise UsageError(
                "a prefetcher takes the dataset, run or subrun whose events are fetched, and of several one after the "
                f"other, not {container!r}{instead(container, 'use the prefetcher of its store for asyncio')}"
            )
        return self._batches(container)

    def _batches(self, container: _Holder[Any]) -> Generator[EventBatch, None, None]:
        container._check_there()
        names = resolved(container, self._products)
        loader = self._store._core.loader(container._key, names, self._batch_size, self._ahead)
        is_first = True
        try:
            for events in loader:
                if is_first:
                    check_first(container, names, events)
                    is_first = False
                yield EventBatch(self._store, events, names, container._path)
        finally:
            loader.close()

    def __call__(self, container: _Holder[Any]) -> Iterator[PrefetchedEvent]:
        return self._events(self.batches(container))

    @staticmethod
    def _events(batches: Iterator[EventBatch]) -> Iterator[PrefetchedEvent]:
        for batch in batches:
            yield from batch
