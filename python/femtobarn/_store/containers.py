"""Datasets, runs, subruns and events of an event store."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from femtobarn._shared.compat import known_options
from femtobarn._store.arguments import ABSENT, at_least, checked_number, number_range, range_end
from femtobarn._store.container import Container, put_in
from femtobarn._store.event_columns import arrays_of, delete_event_products, one_argument, typed
from femtobarn._store.product_names import (
    Product,
    counts_of,
)
from femtobarn._store.twins import paged, reads

if TYPE_CHECKING:
    from femtobarn import _core
    from femtobarn._store.datastore import DataStore
    from femtobarn._store.write_batch import WriteBatch

__all__ = ["Event", "Holder", "Run", "SubRun", "container_of", "count_events", "of_key"]

_PAGE = 4096
_COUNTED = 65_536  # events whose keys are fetched together to be counted

_Child = TypeVar("_Child", bound=Container)


class Holder(Container, Generic[_Child]):
    """A container with numbered containers."""

    _child: type[_Child]

    def _create(self, number: int, batch: WriteBatch | None) -> _Child:
        number = checked_number(number)
        if batch is None:
            self._check_there()
            return self._child(self._store, self._core.create(number))
        put_in(batch, self)
        core = self._core.child(number)
        batch._core.create(core)
        return self._child(self._store, core)

    @overload
    def __getitem__(self, number: int) -> _Child: ...
    @overload
    def __getitem__(self, number: slice) -> Iterator[_Child]: ...
    def __getitem__(self, number: int | slice) -> _Child | Iterator[_Child]:
        if isinstance(number, slice):
            return self._children(*number_range(number))
        return self._child(self._store, self._core.get(checked_number(number)))

    def _pages(self, start: int = 0, stop: int = ABSENT) -> Generator[Iterable[_Child], None, None]:
        """Iterate over its containers, in pages of one request."""
        self._check_there()
        while start < stop:
            numbers = self._core.numbers(start, stop, _PAGE)
            yield map(self._child, itertools.repeat(self._store), map(self._core.child, numbers))
            if len(numbers) < _PAGE:
                return
            start = numbers[-1] + 1

    _children = paged(_pages)

    def __contains__(self, number: object) -> bool:
        if isinstance(number, Container):
            return self._holds(number) and number.exists()
        if not isinstance(number, int) or not 0 <= number < ABSENT:
            return False
        return self._core.child(number).exists()

    def _holds(self, other: Container) -> bool:
        """Whether a container would be in this one, if it exists."""
        return isinstance(other, self._child) and self._core.child(other._core.number) == other._core

    @reads
    def numbers(self, start: int = 0, stop: int | None = None) -> list[int]:
        """Return the numbers of its containers, in ascending order.

        Parameters
        ----------
        start : int
            Lowest number.
        stop : int, optional
            End of the range, exclusive.

        Returns
        -------
        list of int
            The numbers.

        Raises
        ------
        KeyNotFoundError
            If this is a deleted dataset.
        """
        self._check_there()
        stop = ABSENT if stop is None else range_end(stop)
        return self._core.numbers(checked_number(start), stop, 2**63 - 1)

    @paged
    def events(self, *, batch_size: int = 16_384) -> Iterator[Iterable[Event]]:
        """Iterate over all events, sorted by run, subrun and event.

        Parameters
        ----------
        batch_size : int
            Number of keys fetched per request.

        Returns
        -------
        iterator of Event
            The items, one by one.

        Raises
        ------
        KeyNotFoundError
            If this is a deleted dataset.
        """
        self._check_there()
        loader = self._core.loader([], at_least("batch_size", batch_size, 1), 1)
        try:
            for some in loader:
                yield map(Event, itertools.repeat(self._store), map(some.container, range(len(some))))
        finally:
            loader.close()

    @reads
    def n_events(self) -> int:
        """Count all events, by reading their keys.

        Returns
        -------
        int
            Number of events.

        Raises
        ------
        KeyNotFoundError
            If this is a deleted dataset.

        Examples
        --------
        >>> import femtobarn as fb
        >>> dataset = fb.DataStore.connect("memory:").root.create_dataset("a")
        >>> _ = dataset.create_run(43).create_subrun(1).create_event(2)
        >>> dataset.n_events()
        1
        """
        self._check_there()
        return count_events(self._core)

    @reads
    def event_products(self) -> dict[Product, int]:
        """Count the events that have each product, by reading the names of all products.

        Returns
        -------
        dict of Product to int
            Number of events for each product, sorted by label.

        Examples
        --------
        >>> import femtobarn as fb
        >>> store = fb.DataStore.connect("memory:")
        >>> dataset = store.root.create_dataset("a")
        >>> with store.write_batch() as batch:
        ...     batch.store_arrays(dataset, {"n": range(3)}, run=1, subrun=2, event=range(3))
        >>> dataset[1][2][0].store("weight", 0.5)
        >>> dataset.event_products()
        {Product(label='n', type='std::int64_t'): 3, Product(label='weight', type='double'): 1}
        """
        return {Product(*name): n for name, n in sorted(counts_of([self]).items())}

    @reads
    @known_options()
    @one_argument
    def arrays(
        self,
        products: str | tuple[str, Any] | Iterable[str | tuple[str, Any]],
        *,
        typename: Any = None,
        numbers: bool = False,
        library: str = "ak",
    ) -> Any:
        """Load products of all events as arrays.

        Parameters
        ----------
        products : str, tuple or list
            A label, or a label and a type; or several of these. Missing types are found by reading the names of all
            products.
        typename : str or type, optional
            The type, for a single label.
        numbers : bool
            Whether to add the fields ``run``, ``subrun`` and ``event``.
        library : str
            "ak", "np", "arrow", "pd" or "pl".

        Returns
        -------
        array
            For one product its values, for several products records with a field per label. If an event lacks a
            product, its value is missing.

        Raises
        ------
        KeyNotFoundError
            If no event has the product (with this type, if given), or if this is a deleted dataset.
        UsageError
            If events have products with this label of several types, and no type is given.
        """
        return arrays_of(self, [self], typed(products, typename), numbers, library)

    @known_options()
    def delete_products(self, label: str | tuple[str, Any], *, typename: Any = None) -> int:
        """Delete a product of all events.

        Products of the container itself, and of its runs and subruns, are kept. If the deletion was interrupted, some
        products remain: delete them again.

        Parameters
        ----------
        label : str or tuple
            The label of the product, or label and type.
        typename : str or type, optional
            The type; by default products of all types are deleted.

        Returns
        -------
        int
            Number of deleted products.

        Raises
        ------
        KeyNotFoundError
            If no event has the product (with this type, if given).

        Examples
        --------
        >>> import femtobarn as fb
        >>> run = fb.DataStore.connect("memory:").root.create_dataset("a").create_run(43)
        >>> for number in range(3):
        ...     run.create_subrun(1).create_event(number).store("mass", 91.2)
        >>> run.delete_products("mass")
        3
        """
        return delete_event_products(self, [self], label, typename)

    def _subruns(self) -> Iterator[SubRun]:
        """Iterate over the subruns of its events."""
        below: Iterator[Any] = self._children()
        return itertools.chain.from_iterable(child._subruns() for child in below)


class Event(Container):
    """An event: holds products by label and type."""

    @property
    def number(self) -> int:
        """Its number."""
        return self._core.number

    @property
    def run(self) -> Run:
        """Its run."""
        return Run(self._store, self._core.above(1))

    @property
    def subrun(self) -> SubRun:
        """Its subrun."""
        return SubRun(self._store, self._core.above(2))


class SubRun(Holder[Event]):
    """A subrun: holds events by number, and products."""

    _child = Event

    @property
    def number(self) -> int:
        """Its number."""
        return self._core.number

    @property
    def run(self) -> Run:
        """Its run."""
        return Run(self._store, self._core.above(1))

    def create_event(self, number: int, *, batch: WriteBatch | None = None) -> Event:
        """Create an event; an existing one is returned.

        Parameters
        ----------
        number : int
            Its number, from 0 to 2**64 - 2.
        batch : WriteBatch, optional
            Batch that collects the write; by default it is written at once.

        Returns
        -------
        Event
            The event.
        """
        return self._create(number, batch)

    def __iter__(self) -> Iterator[Event]:
        return self.events()

    def _subruns(self) -> Iterator[SubRun]:
        return iter((self,))


class Run(Holder[SubRun]):
    """A run: holds subruns by number, and products."""

    _child = SubRun

    @property
    def number(self) -> int:
        """Its number."""
        return self._core.number

    def create_subrun(self, number: int, *, batch: WriteBatch | None = None) -> SubRun:
        """Create a subrun; an existing one is returned.

        Parameters
        ----------
        number : int
            Its number, from 0 to 2**64 - 2.
        batch : WriteBatch, optional
            Batch that collects the write; by default it is written at once.

        Returns
        -------
        SubRun
            The subrun.
        """
        return self._create(number, batch)

    def __iter__(self) -> Iterator[SubRun]:
        return self._children()

    def _subruns(self) -> Iterator[SubRun]:
        return self._children()


def count_events(core: _core.Container, is_enough: Callable[[int], bool] = lambda _: False) -> int:
    """Count the events of a container by reading their keys, until there are enough."""
    n = 0
    with contextlib.closing(core.loader([], _COUNTED, 1)) as loader:
        for some in loader:
            n += len(some)
            if is_enough(n):
                break
    return n


def container_of(store: DataStore, core: _core.Container) -> Container:
    """Return a run, a subrun, an event, or a dataset of unknown name."""
    return (Container, Run, SubRun, Event)[core.level](store, core)


def of_key(store: DataStore, key: bytes, path: str | None) -> Container:
    """Return the container of a key, in the dataset of a name, if it is known: what is pickled of containers."""
    return container_of(store, store._core.container(key, path))
