"""Events with prefetched products."""

from __future__ import annotations

import contextlib
import functools
import operator
import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex

from femtobarn._files.libraries import plain_output
from femtobarn._shared.compat import known_options
from femtobarn._store.arguments import at_least
from femtobarn._store.containers import Event, Holder
from femtobarn._store.product_decoding import Column, decoded, loaded, reading
from femtobarn._store.product_forms import As
from femtobarn._store.product_names import check_columns, check_first, named, resolved
from femtobarn._store.product_types import fitting, is_opaque, type_name_of
from femtobarn._store.ptr import MISSING
from femtobarn._store.twins import instead, reads
from femtobarn.errors import FormatError, UsageError

if TYPE_CHECKING:
    from femtobarn import _core
    from femtobarn._store.datastore import DataStore
    from femtobarn._store.write_batch import WriteBatch

__all__ = ["EventBatch", "PrefetchedEvent", "Prefetcher", "opened"]

_MANY = 4  # minimum number of events whose products are decoded together; for fewer, single numbers are faster


class PrefetchedEvent(Event):
    """An event with prefetched products."""

    def __init__(self, batch: EventBatch, at: int) -> None:
        super().__init__(batch._store, batch._events.container(at))
        self._batch = batch
        self._at = at

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process, it is an event that loads its products from the store, opened for reading."""
        url, mode, settings = self._store._as_read()
        return _event, (url, mode, tuple(settings.items()), self._core.key, self._core.path)

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
        """Load a product, from memory if it was prefetched, else from the store; see `Event.load`."""
        label, typename = named(label, typename)
        found = self._fetched(label, form, typename)
        if found is None:
            return super().load(label, form, typename=typename, default=default, unpickle=unpickle)
        at, stored = found
        if stored is None:
            if default is not MISSING:
                return default
            return super().load(label, form, typename=typename, unpickle=unpickle)  # its error lists the products
        if (form is None or isinstance(form, As)) and (column := self._batch._column(at)) is not None:
            return column.at(self._at, form)
        return loaded(self._store, label, self._batch._names[at][1], stored, form, unpickle=unpickle)

    def _fetched(self, label: str, form: Any, typename: Any) -> tuple[int, bytes | None] | None:
        """Return the index and the stored value of a prefetched product; None if the store must be asked."""
        stale = self._batch._stale
        if stale and not stale.isdisjoint(((self._at, label), (self._at, None))):
            return None
        kind = None if typename is None else type_name_of(typename)
        matching = [at for at, name in enumerate(self._batch._names) if name[0] == label and kind in (None, name[1])]
        values = ((at, self._batch._events.value(at, self._at)) for at in matching)
        there = {self._batch._names[at][1]: (at, stored) for at, stored in values if stored is not None}
        if len(there) > 1:
            return there.get(fitting(form, there) or "")  # or the store reports that there are several
        if there:
            return next(iter(there.values()))
        is_known = kind is not None or form in (None, bytes) or isinstance(form, As)
        if is_known or _name_of(form) in [self._batch._names[at][1] for at in matching]:
            return (matching[0], None) if matching else None
        return None  # it may have a product with the type of the form

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
        """Store a product; from then on, it is loaded from the store; see `Event.store`."""
        self._batch._stale.add((self._at, label))
        super().store(label, value, typename=typename, overwrite=overwrite, batch=batch)

    def delete_product(self, label: str | tuple[str, Any], *, typename: Any = None) -> None:
        """Delete a product; see `Event.delete_product`."""
        label, typename = named(label, typename)
        self._batch._stale.add((self._at, label))
        super().delete_product(label, typename=typename)

    def delete(self) -> None:
        """Delete the event with its products; see `Event.delete`."""
        self._batch._stale.add((self._at, None))
        super().delete()


def _name_of(form: Any) -> str | None:
    """Return the type name of a form; None if the form is not a type."""
    with contextlib.suppress(UsageError):
        return type_name_of(form)
    return None


def _event(url: str, mode: str, settings: tuple[tuple[str, str], ...], key: bytes, path: str | None) -> Event:
    store = opened(url, mode, settings)
    return Event(store, store._core.container(key, path))


def opened(url: str, mode: str, settings: tuple[tuple[str, str], ...]) -> DataStore:
    """Return the store of this process for a URL, shared by all received batches."""
    return _opened(url, mode, settings, os.getpid())  # a store from before a fork cannot be used


@functools.cache
def _opened(url: str, mode: str, settings: tuple[tuple[str, str], ...], _process: int) -> DataStore:
    from femtobarn._store.datastore import DataStore

    return DataStore._reconnect(url, mode, dict(settings))


class EventBatch:
    """A sequence of events with their requested products, as they were when fetched."""

    def __init__(self, store: DataStore, events: _core.Events, names: list[tuple[str, str]]) -> None:
        self._store = store
        self._events = events
        self._names = names
        self._columns: dict[int, Column | None] = {}
        # Events and labels (None for all) of products that were changed through the events and are outdated here
        self._stale: set[tuple[int, str | None]] = set()

    def __len__(self) -> int:
        return len(self._events)

    def __repr__(self) -> str:
        names = "".join(f" {label!r}" for label, _ in self._names)
        return f"<EventBatch of {len(self)} events{f' with{names}' if names else ''}>"

    def __getitem__(self, at: SupportsIndex) -> PrefetchedEvent:
        if isinstance(at, str):
            raise UsageError(
                f"get events by their position in the batch; for a product of all events use arrays()[{at!r}]"
            )
        n, at = len(self), operator.index(at)
        if not -n <= at < n:
            raise IndexError(f"the batch has {n} events")
        return PrefetchedEvent(self, at % n)

    def __iter__(self) -> Iterator[PrefetchedEvent]:
        return (PrefetchedEvent(self, at) for at in range(len(self)))

    def _part(self, start: int, n: int) -> EventBatch:
        """Return a slice of its events, which shares the loaded products."""
        if (start, n) == (0, len(self)):
            return self
        part = EventBatch.__new__(EventBatch)
        part._store, part._names = self._store, self._names
        part._events = self._events.part(start, n)
        part._columns, part._stale = {}, set()
        return part

    def _column(self, at: int) -> Column | None:
        """Return the values of a product; None if they must be decoded one by one, e.g. because one is damaged."""
        if at not in self._columns:
            label, type_name = self._names[at]
            column = None
            if len(self) >= _MANY and not is_opaque(type_name):
                stored = [self._events.value(at, n) for n in range(len(self))]
                with contextlib.suppress(FormatError, UsageError):
                    column = decoded(self._store, label, type_name, stored)
            self._columns[at] = column
        return self._columns[at]

    @reads
    def arrays(self, *, numbers: bool = True, library: str = "ak") -> Any:
        """Return the products as arrays.

        Parameters
        ----------
        numbers : bool
            Whether to add the fields ``run``, ``subrun`` and ``event``.
        library : str
            "ak", "np", "arrow", "pd" or "pl".

        Returns
        -------
        array
            Records with a field per label.
        """
        check_columns(self._names, numbers)
        with reading(self._names):
            batch = self._events.arrays(numbers)
        return plain_output(batch, None, library)


class Prefetcher:
    """Fetches events and their products ahead of a loop.

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

    def batches(self, container: Holder[Any]) -> Generator[EventBatch, None, None]:
        """Iterate over the events of a dataset, run or subrun in batches.

        Parameters
        ----------
        container : DataSet, Run or SubRun
            The container of the events.

        Returns
        -------
        generator of EventBatch
            Batches of events with their products.

        Raises
        ------
        KeyNotFoundError
            If no event has one of the products (with the type, if given), or for a deleted dataset; raised during
            iteration.
        """
        if not isinstance(container, Holder):
            raise UsageError(
                "a prefetcher takes one dataset, run or subrun at a time, "
                f"not {container!r}{instead(container, 'use the prefetcher of its store for asyncio')}"
            )
        return self._batches(container)

    def _batches(self, container: Holder[Any]) -> Generator[EventBatch, None, None]:
        container._check_there()
        names = resolved(container, self._products)
        loader = container._core.loader(names, self._batch_size, self._ahead)
        is_first = True
        try:
            for events in loader:
                if is_first:
                    check_first(container, names, events)
                    is_first = False
                yield EventBatch(self._store, events, names)
        finally:
            loader.close()

    def __call__(self, container: Holder[Any]) -> Iterator[PrefetchedEvent]:
        return self._events(self.batches(container))

    @staticmethod
    def _events(batches: Iterator[EventBatch]) -> Iterator[PrefetchedEvent]:
        for batch in batches:
            yield from batch
