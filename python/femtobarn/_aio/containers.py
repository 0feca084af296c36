"""Datasets, runs, subruns, events and references for asyncio."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

from femtobarn._aio.making import Twin, like, own, pages, reads, twin_of, writes
from femtobarn._store import container as _container
from femtobarn._store import containers as _containers
from femtobarn._store import dataset as _dataset
from femtobarn._store import prefetch as _prefetch
from femtobarn._store import ptr as _ptr
from femtobarn._store.arguments import number_range
from femtobarn._store.product_names import named
from femtobarn._store.ptr import MISSING
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._aio.datastore import DataStore, WriteBatch
    from femtobarn._store.threads import Threads

__all__ = ["Container", "DataSet", "Event", "FoundDataSet", "PrefetchedEvent", "Ptr", "Run", "SubRun"]

# Products up to this size are decoded in the thread of the event loop; larger ones would block it.
_LARGEST_HERE = 1 << 16

T = TypeVar("T")


class _Found(Generic[T]):
    """A lookup of a container that has not run yet; children are looked up with it, by a single await."""

    def __init__(self, threads: Threads, find: Callable[[], Any], kind: Callable[[Any], T]) -> None:
        self._threads, self._find, self._kind = threads, find, kind

    def __await__(self) -> Generator[Any, None, T]:
        found: T = self._kind((yield from self._threads.read(self._find).__await__()))
        return found

    def _within(self, key: Any) -> Callable[[], Any]:
        if isinstance(key, slice):
            raise UsageError("await the container before slicing it")
        return lambda: self._find()[key]

    def __getattr__(self, name: str) -> NoReturn:
        # tell callers who look for optional methods, as Python's protocols do, that there is none
        kind = getattr(self._kind, "__name__", "container")
        hint = f": await it first, as in (await …).{name}" if hasattr(self._kind, name) else ""
        raise AttributeError(f"this {kind} was not awaited yet and has no {name!r}{hint}")

    def __iter__(self) -> NoReturn:
        raise TypeError("await the container first, then iterate with async for")

    def __contains__(self, key: object) -> bool:
        raise TypeError(f"await the container first, then its contains({key!r})")


class _FoundSubRun(_Found["SubRun"]):
    def __getitem__(self, number: int) -> Awaitable[Event]:
        return _Found(self._threads, self._within(number), Event)


class _FoundRun(_Found["Run"]):
    def __getitem__(self, number: int) -> _FoundSubRun:
        return _FoundSubRun(self._threads, self._within(number), SubRun)


class FoundDataSet(_Found["DataSet"]):
    @overload
    def __getitem__(self, key: str) -> FoundDataSet: ...
    @overload
    def __getitem__(self, key: int) -> _FoundRun: ...
    def __getitem__(self, key: str | int) -> FoundDataSet | _FoundRun:
        if isinstance(key, str):
            return FoundDataSet(self._threads, self._within(key), DataSet)
        return _FoundRun(self._threads, self._within(key), Run)


_C = TypeVar("_C", bound=_container.Container)
_H = TypeVar("_H", bound=_containers.Holder[Any])
_Child = TypeVar("_Child")


class Container(Twin[_C], of=_container.Container):
    """A dataset, run, subrun or event, which can have products."""

    __slots__ = ()

    @property
    def datastore(self) -> DataStore:
        """The store of the container."""
        store: DataStore = twin_of(self.sync.datastore)
        return store

    @property
    def dataset(self) -> DataSet:
        """The dataset of the container; a dataset returns itself."""
        if self.sync._core.path is None:  # for example the container of a reference
            raise UsageError(f"the name of the dataset of {self.sync} must be looked up: use {self!r}.sync.dataset")
        return DataSet(self.sync.dataset)

    # twins of _container.Container

    @like(_container.Container.store)
    async def store(
        self, label: str, value: Any, *, typename: Any = None, overwrite: bool = True, batch: WriteBatch | None = None
    ) -> None:
        await self._threads.write(
            self.sync.store, label, value, typename=typename, overwrite=overwrite, batch=own(batch)
        )

    load = reads(_container.Container.load)
    ref = reads(_container.Container.ref)
    products = reads(_container.Container.products)
    delete_product = writes(_container.Container.delete_product)
    exists = reads(_container.Container.exists)
    delete = writes(_container.Container.delete)


class Holder(Container[_H], Generic[_H, _Child]):
    """A container that has children, identified by numbers."""

    __slots__ = ()

    _child: Callable[[Any], _Child]

    def _slice(self, part: slice) -> AsyncGenerator[_Child, None]:
        start, stop = number_range(part)
        return self._children(start, stop)

    async def _children(self, *limits: int) -> AsyncGenerator[_Child, None]:
        async with aclosing(self._threads.each(lambda: self.sync._pages(*limits))) as found:
            async for page in found:
                for child in page:
                    yield type(self)._child(child)

    async def contains(self, key: int | str | Container[Any]) -> bool:
        """Return whether the container has this child.

        Parameters
        ----------
        key : int, str or Container
            The number of the child; for a dataset in a dataset, its name; or the child itself.

        Returns
        -------
        bool
            Whether the child exists.
        """
        return await self._threads.read(self.sync.__contains__, own(key))

    # twins of _containers.Holder

    numbers = reads(_containers.Holder.numbers)
    events = pages(_containers.Holder.events, lambda one: Event(one))
    n_events = reads(_containers.Holder.n_events)
    event_products = reads(_containers.Holder.event_products)
    arrays = reads(_containers.Holder.arrays)
    delete_products = writes(_containers.Holder.delete_products)


class Event(Container[_containers.Event], of=_containers.Event):
    """An event: products, by label and type."""

    __slots__ = ()

    # twins of _containers.Event

    @property
    def number(self) -> int:
        """Its number."""
        return self.sync.number

    @property
    def run(self) -> Run:
        """Its run."""
        return Run(self.sync.run)

    @property
    def subrun(self) -> SubRun:
        """Its subrun."""
        return SubRun(self.sync.subrun)


class PrefetchedEvent(Event, of=_prefetch.PrefetchedEvent):
    """An event with some of its products in memory."""

    __slots__ = ()

    @like(_containers.Event.load)
    async def load(
        self,
        label: str | tuple[str, Any],
        form: Any = None,
        *,
        typename: Any = None,
        default: Any = MISSING,
        unpickle: bool = False,
    ) -> Any:
        label, typename = named(label, typename)
        sync: _prefetch.PrefetchedEvent = self.sync  # type: ignore[assignment]
        found = sync._fetched(label, form, typename)
        stored = None if found is None else found[1]
        is_here = len(stored) <= _LARGEST_HERE if stored is not None else found is not None and default is not MISSING
        if is_here:
            return sync.load(label, form, typename=typename, default=default, unpickle=unpickle)
        return await super().load(label, form, typename=typename, default=default, unpickle=unpickle)


class SubRun(Holder[_containers.SubRun, Event], of=_containers.SubRun):
    """A subrun: events by number, and products."""

    __slots__ = ()

    _child = Event

    @overload
    def __getitem__(self, number: int) -> Awaitable[Event]: ...
    @overload
    def __getitem__(self, number: slice) -> AsyncGenerator[Event, None]: ...
    def __getitem__(self, number: int | slice) -> Awaitable[Event] | AsyncGenerator[Event, None]:
        if isinstance(number, slice):
            return self._slice(number)
        return _Found(self._threads, lambda: self.sync[number], Event)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self.events()

    # twins of _containers.SubRun

    @property
    def number(self) -> int:
        """Its number."""
        return self.sync.number

    @property
    def run(self) -> Run:
        """Its run."""
        return Run(self.sync.run)

    @like(_containers.SubRun.create_event)
    async def create_event(self, number: int, *, batch: WriteBatch | None = None) -> Event:
        return Event(await self._threads.write(self.sync.create_event, number, batch=own(batch)))


class Run(Holder[_containers.Run, SubRun], of=_containers.Run):
    """A run: subruns by number, and products."""

    __slots__ = ()

    _child = SubRun

    @overload
    def __getitem__(self, number: int) -> _FoundSubRun: ...
    @overload
    def __getitem__(self, number: slice) -> AsyncGenerator[SubRun, None]: ...
    def __getitem__(self, number: int | slice) -> _FoundSubRun | AsyncGenerator[SubRun, None]:
        if isinstance(number, slice):
            return self._slice(number)
        return _FoundSubRun(self._threads, lambda: self.sync[number], SubRun)

    def __aiter__(self) -> AsyncIterator[SubRun]:
        return self._children()

    # twins of _containers.Run

    @property
    def number(self) -> int:
        """Its number."""
        return self.sync.number

    @like(_containers.Run.create_subrun)
    async def create_subrun(self, number: int, *, batch: WriteBatch | None = None) -> SubRun:
        return SubRun(await self._threads.write(self.sync.create_subrun, number, batch=own(batch)))


class DataSet(Holder[_dataset.DataSet, Run], of=_dataset.DataSet):
    """A dataset: datasets by name, runs by number, and products."""

    __slots__ = ()

    _child = Run

    @overload
    def __getitem__(self, key: str) -> FoundDataSet: ...
    @overload
    def __getitem__(self, key: int) -> _FoundRun: ...
    @overload
    def __getitem__(self, key: slice) -> AsyncGenerator[Run, None]: ...
    def __getitem__(self, key: str | int | slice) -> FoundDataSet | _FoundRun | AsyncGenerator[Run, None]:
        if isinstance(key, slice):
            return self._slice(key)
        if isinstance(key, str):
            return FoundDataSet(self._threads, lambda: self.sync[key], DataSet)
        return _FoundRun(self._threads, lambda: self.sync[key], Run)

    def __aiter__(self) -> AsyncIterator[DataSet]:
        return self.datasets()

    # twins of _dataset.DataSet

    @property
    def path(self) -> str:
        """Its full name."""
        return self.sync.path

    @property
    def name(self) -> str:
        """The last part of its full name."""
        return self.sync.name

    @property
    def uuid(self) -> str:
        """The UUID in the keys of its containers and products, in hexadecimal digits."""
        return self.sync.uuid

    @like(_dataset.DataSet.create_dataset)
    async def create_dataset(self, name: str) -> DataSet:
        return DataSet(await self._threads.write(self.sync.create_dataset, name))

    delete_dataset = writes(_dataset.DataSet.delete_dataset)

    @like(_dataset.DataSet.create_run)
    async def create_run(self, number: int, *, batch: WriteBatch | None = None) -> Run:
        return Run(await self._threads.write(self.sync.create_run, number, batch=own(batch)))

    load = reads(_dataset.DataSet.load)
    datasets = pages(_dataset.DataSet.datasets, lambda one: DataSet(one))
    runs = pages(_dataset.DataSet.runs, lambda one: Run(one))
    arrays = reads(_dataset.DataSet.arrays)
    delete_products = writes(_dataset.DataSet.delete_products)


class Ptr(Twin[_ptr.Ptr]):
    """A reference to a product: like `femtobarn.Ptr`, which is stored, with an async `load`."""

    __slots__ = ()

    @property
    def container(self) -> Container[Any]:
        """The dataset, run, subrun or event that has the product."""
        twin: Container[Any] = twin_of(self.sync.container)
        return twin

    @like(_ptr.Ptr.load)
    async def load(self, form: Any = None, *, default: Any = MISSING, unpickle: bool = False) -> Any:
        load = functools.partial(self.sync.load, form, default=default, unpickle=unpickle)
        return await self._threads.read(load) if self.sync else load()

    # twins of _ptr.Ptr

    @property
    def label(self) -> str:
        """The label of the product."""
        return self.sync.label

    @property
    def type(self) -> str:
        """The name of its type."""
        return self.sync.type

    @property
    def index(self) -> int | None:
        """Index of the element; None for the whole product."""
        return self.sync.index
