"""The event store for asyncio: the classes of `femtobarn` with the same names and arguments, and methods to be awaited.

Nothing here waits for a store in the thread of the loop. Each object has its twin as ``sync``, and is made of it, as
by ``aio.Event(event)``; ``store.aio`` is that of a store.

Reading that is cancelled ends at once. Writing that is cancelled ends when it is known what came of it: it was done as
a whole, or not at all. ``queue.pop()`` that is cancelled leaves its value in the queue.

Examples
--------
>>> import asyncio
>>> from femtobarn import aio
>>> async def main():
...     store = await aio.DataStore.connect("memory:")
...     dataset = await store.root.create_dataset("fermilab/nova")
...     subrun = await (await dataset.create_run(43)).create_subrun(56)
...     async with store.write_batch() as batch:
...         for n in range(3):
...             event = await subrun.create_event(n, batch=batch)
...             await event.store("n", n * n, batch=batch)
...     event = await store["fermilab/nova"][43][56][2]
...     return await event.load("n"), [await event.load("n") async for event in dataset.events()]
>>> asyncio.run(main())
(4, [0, 1, 4])
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NoReturn, ParamSpec, Self, TypeVar, overload

from femtobarn import _containers, _datastore, _export, _hdf5_cpp, _ingest, _prefetch, _process, _ptr
from femtobarn._containers import _range, at_least
from femtobarn._product_names import named
from femtobarn._ptr import MISSING
from femtobarn._threads import N_THREADS, Threads, in_thread, threads_of
from femtobarn._twins import Closing, Twin, begins, like, made_of, reads, writes
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    import os

    import numpy.typing as npt

    from femtobarn._datastore import Product

__all__ = [
    "Container",
    "DataSet",
    "DataStore",
    "Event",
    "EventBatch",
    "Prefetcher",
    "Ptr",
    "Queue",
    "Run",
    "SubRun",
    "WriteBatch",
    "export",
    "hdf5_schema",
    "ingest",
    "process",
]

# How often an empty queue is looked at: as the store's own threads do, but nobody is kept waiting.
_FIRST_PAUSE = 0.0002
_LONGEST_PAUSE = 0.025
# Products up to this size are decoded where they are; larger ones would hold up the loop.
_LARGEST_HERE = 1 << 16

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class _Found(Generic[T]):
    """A container that is looked for when this is awaited; what is in it is found likewise, by one await for all."""

    def __init__(self, threads: Threads, find: Callable[[], Any], kind: Callable[[Any], T]) -> None:
        self._threads, self._find, self._kind = threads, find, kind

    def __await__(self) -> Generator[Any, None, T]:
        found: T = self._kind((yield from self._threads.read(self._find).__await__()))
        return found

    def _within(self, key: Any) -> Callable[[], Any]:
        if isinstance(key, slice):
            raise UsageError("await the container before a part of it is asked for")
        return lambda: self._find()[key]

    def __getattr__(self, name: str) -> NoReturn:
        # Whoever looks for a method of its own, as protocols of Python do, is told that there is none.
        kind = getattr(self._kind, "__name__", "container")
        hint = f": await it first, as by (await …).{name}" if hasattr(self._kind, name) else ""
        raise AttributeError(f"this {kind} was not looked for yet, and has no {name!r}{hint}")

    def __iter__(self) -> NoReturn:
        raise TypeError("await the container first, and go through it by async for")

    def __contains__(self, key: object) -> bool:
        raise TypeError(f"await the container first, and then its contains({key!r})")


class _FoundSubRun(_Found["SubRun"]):
    def __getitem__(self, number: int) -> Awaitable[Event]:
        return _Found(self._threads, self._within(number), Event)


class _FoundRun(_Found["Run"]):
    def __getitem__(self, number: int) -> _FoundSubRun:
        return _FoundSubRun(self._threads, self._within(number), SubRun)


class _FoundDataSet(_Found["DataSet"]):
    @overload
    def __getitem__(self, key: str) -> _FoundDataSet: ...
    @overload
    def __getitem__(self, key: int) -> _FoundRun: ...
    def __getitem__(self, key: str | int) -> _FoundDataSet | _FoundRun:
        if isinstance(key, str):
            return _FoundDataSet(self._threads, self._within(key), DataSet)
        return _FoundRun(self._threads, self._within(key), Run)


_S = TypeVar("_S", bound="DataStore")
_C = TypeVar("_C", bound=_containers.Container)
_H = TypeVar("_H", bound=_containers._Holder[Any])
_Child = TypeVar("_Child")


class Container(Twin[_C]):
    """A dataset, run, subrun or event: what products can be stored in."""

    __slots__ = ()

    @property
    def datastore(self) -> DataStore:
        """The store that it is in."""
        return DataStore(self.sync.datastore)

    @property
    def dataset(self) -> DataSet:
        """The dataset that it is in; of a dataset, itself."""
        if self.sync._path is None:  # as of what a reference refers to
            raise UsageError(
                f"the name of the dataset of {self.sync} must be looked for: that is {self!r}.sync.dataset"
            )
        return DataSet(self.sync.dataset)

    @like(_containers.Container.store)
    async def store(
        self,
        label: str,
        value: Any,
        *,
        typename: Any = None,
        overwrite: bool = True,
        batch: WriteBatch | None = None,
    ) -> None:
        into = _own(batch)
        await self._threads.write(self.sync.store, label, value, typename=typename, overwrite=overwrite, batch=into)

    load = reads(_containers.Container.load)
    ref = reads(_containers.Container.ref)
    products = reads(_containers.Container.products)
    delete_product = writes(_containers.Container.delete_product)
    exists = reads(_containers.Container.exists)
    delete = writes(_containers.Container.delete)


def _own(batch: WriteBatch | None) -> Any:
    """Return the batch for threads; what is none is told where it is used."""
    return getattr(batch, "sync", batch)


class _Holder(Container[_H], Generic[_H, _Child]):
    """A container that holds others by number."""

    __slots__ = ()

    _child: Callable[[Any], _Child]

    def _slice(self, part: slice) -> AsyncGenerator[_Child, None]:
        start, stop = _range(part)
        return self._children(start, stop)

    async def _children(self, *limits: int) -> AsyncGenerator[_Child, None]:
        async with aclosing(self._threads.each(lambda: self.sync._pages(*limits))) as pages:
            async for page in pages:
                for child in page:
                    yield type(self)._child(child)

    async def contains(self, key: int | str | Container[Any]) -> bool:
        """Return whether it holds what has this number, or name.

        Parameters
        ----------
        key : int, str or Container
            The number; of a dataset in it, the name; or what may be in it itself.

        Returns
        -------
        bool
            Whether it does.
        """
        own = key.sync if isinstance(key, Twin) else key
        return await self._threads.read(self.sync.__contains__, own)

    numbers = reads(_containers._Holder.numbers)
    arrays = reads(_containers._Holder.arrays)
    n_events = reads(_containers._Holder.n_events)
    event_products = reads(_containers._Holder.event_products)
    delete_products = writes(_containers._Holder.delete_products)

    async def events(self, *, batch_size: int = 16_384) -> AsyncGenerator[Event, None]:
        """Iterate over all events in it, in the order of run, subrun and event.

        Parameters
        ----------
        batch_size : int
            How many keys are fetched together.

        Yields
        ------
        Event
            Each of them.
        """
        async with aclosing(self._threads.each(lambda: self.sync._event_pages(batch_size))) as pages:
            async for page in pages:
                for event in page:
                    yield Event(event)


class Event(Container[_containers.Event]):
    """An event: products, by label and type."""

    __slots__ = ()

    @property
    def number(self) -> int:
        """Its number."""
        return self.sync.number

    @property
    def run(self) -> Run:
        """The run that it is in."""
        return Run(self.sync.run)

    @property
    def subrun(self) -> SubRun:
        """The subrun that it is in."""
        return SubRun(self.sync.subrun)


class PrefetchedEvent(Event):
    """An event some of whose products are here already."""

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


class SubRun(_Holder[_containers.SubRun, Event]):
    """A subrun: events, by number, and products of its own."""

    __slots__ = ()

    _child = Event

    @property
    def number(self) -> int:
        """Its number."""
        return self.sync.number

    @property
    def run(self) -> Run:
        """The run that it is in."""
        return Run(self.sync.run)

    @like(_containers.SubRun.create_event)
    async def create_event(self, number: int, *, batch: WriteBatch | None = None) -> Event:
        into = _own(batch)
        return Event(await self._threads.write(self.sync.create_event, number, batch=into))

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


class Run(_Holder[_containers.Run, SubRun]):
    """A run: subruns, by number, and products of its own."""

    __slots__ = ()

    _child = SubRun

    @property
    def number(self) -> int:
        """Its number."""
        return self.sync.number

    @like(_containers.Run.create_subrun)
    async def create_subrun(self, number: int, *, batch: WriteBatch | None = None) -> SubRun:
        into = _own(batch)
        return SubRun(await self._threads.write(self.sync.create_subrun, number, batch=into))

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


class DataSet(_Holder[_containers.DataSet, Run]):
    """A dataset: datasets by name, runs by number, and products of its own."""

    __slots__ = ()

    _child = Run

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
        """What its containers and products are found by, in hexadecimal digits."""
        return self.sync.uuid

    load = reads(_containers.DataSet.load)

    @like(_containers.DataSet.create_dataset)
    async def create_dataset(self, name: str) -> DataSet:
        return DataSet(await self._threads.write(self.sync.create_dataset, name))

    @like(_containers.DataSet.delete_dataset)
    async def delete_dataset(self, name: str) -> None:
        await self._threads.write(self.sync.delete_dataset, name)

    @like(_containers.DataSet.create_run)
    async def create_run(self, number: int, *, batch: WriteBatch | None = None) -> Run:
        into = _own(batch)
        return Run(await self._threads.write(self.sync.create_run, number, batch=into))

    @overload
    def __getitem__(self, key: str) -> _FoundDataSet: ...
    @overload
    def __getitem__(self, key: int) -> _FoundRun: ...
    @overload
    def __getitem__(self, key: slice) -> AsyncGenerator[Run, None]: ...
    def __getitem__(self, key: str | int | slice) -> _FoundDataSet | _FoundRun | AsyncGenerator[Run, None]:
        if isinstance(key, slice):
            return self._slice(key)
        if isinstance(key, str):
            return _FoundDataSet(self._threads, lambda: self.sync[key], DataSet)
        return _FoundRun(self._threads, lambda: self.sync[key], Run)

    def __aiter__(self) -> AsyncIterator[DataSet]:
        return self.datasets()

    async def datasets(self) -> AsyncGenerator[DataSet, None]:
        """Iterate over the datasets in it, in the order of their names.

        Yields
        ------
        DataSet
            Each of them.
        """
        for dataset in await self._threads.read(lambda: list(self.sync.datasets())):
            yield DataSet(dataset)

    def runs(self) -> AsyncGenerator[Run, None]:
        """Iterate over its runs, in the order of their numbers.

        Returns
        -------
        async generator of Run
            Each of them.
        """
        return self._children()

    arrays = reads(_containers.DataSet.arrays)
    delete_products = writes(_containers.DataSet.delete_products)


_TWINS: dict[type, Callable[[Any], Container[Any]]] = {
    _containers.Event: Event,
    _prefetch.PrefetchedEvent: PrefetchedEvent,
    _containers.SubRun: SubRun,
    _containers.Run: Run,
    _containers.DataSet: DataSet,
}


def _twin_of(container: _containers.Container) -> Container[Any]:
    return _TWINS.get(type(container), Container)(container)


class Ptr(Twin[_ptr.Ptr]):
    """A reference to a product: `femtobarn.Ptr`, which is what is stored, with `load` to be awaited."""

    __slots__ = ()

    @property
    def container(self) -> Container[Any]:
        """The dataset, run, subrun or event that has the product."""
        return _twin_of(self.sync.container)

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
        """Which element of it is meant; None for the whole."""
        return self.sync.index

    @like(_ptr.Ptr.load)
    async def load(self, form: Any = None, *, default: Any = MISSING, unpickle: bool = False) -> Any:
        load = functools.partial(self.sync.load, form, default=default, unpickle=unpickle)
        return await self._threads.read(load) if self.sync else load()


class DataStore(Twin[_datastore.DataStore]):
    """An event store; see `femtobarn.DataStore`. At the end of an ``async with``, it is closed."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @like(_datastore.DataStore.close)
    async def close(self) -> None:
        last = Threads(1)  # the others end
        try:
            await last.surely(self.sync.close)
        finally:
            last.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self.sync.closed

    @property
    def _threads(self) -> Threads:
        return threads_of(self.sync)

    @classmethod
    def connect(
        cls,
        url: str | os.PathLike[str],
        *,
        mode: str = "a",
        objects: str | os.PathLike[str] | None = None,
        objects_over: int | str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        threads: int = N_THREADS,
    ) -> _Connecting[Self]:
        """Open a store, and make it if it is not there: ``await`` it, or enter it by ``async with``.

        Parameters
        ----------
        url, mode, objects, objects_over, storage_options
            As of `femtobarn.DataStore.connect`.
        threads : int
            How many calls of it are under way at once; the others wait for their turn.

        Returns
        -------
        DataStore
            The store.
        """
        at_least("threads", threads, 1)
        connect = functools.partial(
            _datastore.DataStore.connect,
            url,
            mode=mode,
            objects=objects,
            objects_over=objects_over,
            storage_options=storage_options,
        )
        return _Connecting(cls, connect, threads)

    @staticmethod
    @like(_datastore.DataStore.compact)
    async def compact(url: str | os.PathLike[str]) -> tuple[int, int]:
        return await asyncio.to_thread(_datastore.DataStore.compact, url)

    @property
    def url(self) -> str:
        """Where it is."""
        return self.sync.url

    @property
    def is_durable(self) -> bool:
        """Whether what was flushed is there when the processes have ended that keep it."""
        return self.sync.is_durable

    @property
    def objects(self) -> str | None:
        """Where large products are, if not in the store."""
        return self.sync.objects

    @property
    def objects_over(self) -> int | None:
        """More bytes than which make a product a large one; None if none is."""
        return self.sync.objects_over

    @property
    def root(self) -> DataSet:
        """The dataset that all others are in. It holds datasets, and neither runs nor products."""
        return DataSet(self.sync.root)

    def __getitem__(self, name: str) -> _FoundDataSet:
        return self.root[name]

    def __aiter__(self) -> AsyncIterator[DataSet]:
        return self.root.datasets()

    async def contains(self, name: str) -> bool:
        """Return whether it holds a dataset.

        Parameters
        ----------
        name : str
            Its full name.

        Returns
        -------
        bool
            Whether it does.
        """
        return await self.root.contains(name)

    @like(_datastore.DataStore.create_dataset)
    async def create_dataset(self, name: str) -> DataSet:
        return await self.root.create_dataset(name)

    flush = writes(_datastore.DataStore.flush)
    sweep_objects = writes(_datastore.DataStore.sweep_objects)
    sweep_nameless = writes(_datastore.DataStore.sweep_nameless)
    forget_class = writes(_datastore.DataStore.forget_class)
    load_refs = reads(_datastore.DataStore.load_refs)
    create_queue = writes(_datastore.DataStore.create_queue)
    destroy_queue = writes(_datastore.DataStore.destroy_queue)

    # They ask the store for nothing: `async with store.write_batch() as batch`
    write_batch = begins(_datastore.DataStore.write_batch, lambda batch: WriteBatch(batch))
    async_write_batch = begins(_datastore.DataStore.async_write_batch, lambda batch: WriteBatch(batch))
    prefetcher = begins(_datastore.DataStore.prefetcher, lambda prefetcher: Prefetcher(prefetcher))

    @like(_datastore.DataStore.open_queue)
    def open_queue(self, name: str, kind: Any = bytes, *, mode: str, unpickle: bool = False) -> _OpenQueue:
        opens = functools.partial(self.sync.open_queue, name, kind, mode=mode, unpickle=unpickle)
        return _OpenQueue(self._threads, opens)


class _Connecting(Generic[_S]):
    """A store that is opened when this is awaited, or entered by ``async with``."""

    def __init__(self, kind: Callable[[_datastore.DataStore], _S], opens: Callable[[], Any], threads: int) -> None:
        self._kind, self._opens, self._n_threads = kind, opens, threads
        self._store: _S | None = None

    def __await__(self) -> Generator[Any, None, _S]:
        return self._open().__await__()

    async def _open(self) -> _S:
        first = Threads(1)
        try:
            sync = await first.whole(self._opens, undo=lambda store: store.close())
        finally:
            first.close()
        threads_of(sync, self._n_threads)
        return self._kind(sync)

    async def __aenter__(self) -> _S:
        self._store = await self._open()
        return self._store

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            await self._store.close()


class WriteBatch(Closing[_datastore.WriteBatch]):
    """Containers and products that are collected, and written when there are many, or at the end of an ``async with``.

    What could not be written is kept, and written by the next `flush` if that can.
    """

    __slots__ = ()

    flush = writes(_datastore.WriteBatch.flush)

    @like(_datastore.WriteBatch.close)
    async def close(self) -> None:
        await super().close()

    @property
    def kept(self) -> list[tuple[Container[Any], Product]]:
        """The products that were there and stayed as they were, as far as was written, with their containers."""
        return [(_twin_of(container), product) for container, product in self.sync.kept]

    async def size(self) -> int:
        """Return how many containers and products wait to be written.

        Returns
        -------
        int
            How many.
        """
        return await self._threads.read(self.sync.__len__)

    @like(_datastore.WriteBatch.store_arrays)
    async def store_arrays(
        self,
        dataset: DataSet,
        products: Mapping[str, Any],
        *,
        run: npt.ArrayLike,
        subrun: npt.ArrayLike,
        event: npt.ArrayLike,
        types: Mapping[str, Any] | None = None,
    ) -> None:
        own: Any = getattr(dataset, "sync", dataset)  # what is no dataset is told
        store = functools.partial(self.sync.store_arrays, own, products, types=types)
        await self._threads.write(store, run=run, subrun=subrun, event=event)


class Queue(Closing[_datastore.Queue]):
    """A queue between programs: values come out in the order in which they went in, each once.

    With ``async with``, it is closed at the end; ``async for`` takes values until no producer has it open.
    """

    __slots__ = ("_back",)

    def __init__(self, sync: _datastore.Queue) -> None:
        super().__init__(sync)
        self._back: list[bytes] = []  # what could not be given back to the store

    @property
    def name(self) -> str:
        """Its name."""
        return self.sync.name

    @property
    def type(self) -> str:
        """The type of its values."""
        return self.sync.type

    push = writes(_datastore.Queue.push)

    @like(_datastore.Queue.pop)
    async def pop(self) -> Any:
        pause = _FIRST_PAUSE
        while True:
            # No thread waits for a value, so that any number of tasks may.
            stored, has_ended, value = await self._threads.whole(self._take, undo=self._put_back)
            if stored is not None:
                return value
            if has_ended:
                raise self.sync._ended()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _take(self) -> tuple[bytes | None, bool, Any]:
        """Return a value, stored and as users have it, if one is there, and whether none will be any more."""
        self.sync._check()
        stored, has_ended = (self._back.pop(0), False) if self._back else self.sync._core.take()
        return stored, has_ended, None if stored is None else self.sync._value(stored)

    def _put_back(self, taken: tuple[bytes | None, bool, Any]) -> None:
        """Give back what nobody waits for any more."""
        if taken[0] is not None:
            self._back.append(taken[0])
            self._give_back()

    def _give_back(self) -> None:
        while self._back:
            self.sync._core.put_back(self._back[-1])
            self._back.pop()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.pop()
        except EOFError:
            raise StopAsyncIteration from None

    async def size(self) -> int:
        """Return how many values are in it.

        Returns
        -------
        int
            How many.
        """
        return await self._threads.read(self.sync.__len__)

    @like(_datastore.Queue.close)
    async def close(self) -> None:
        await super().close()

    def _close(self) -> None:
        try:
            self._give_back()
        finally:
            super()._close()


class _OpenQueue:
    """A queue that is opened when this is awaited, or entered by ``async with``."""

    def __init__(self, threads: Threads, opens: Callable[[], _datastore.Queue]) -> None:
        self._threads, self._opens = threads, opens
        self._queue: Queue | None = None

    def __await__(self) -> Generator[Any, None, Queue]:
        return self._open().__await__()

    async def _open(self) -> Queue:
        return Queue(await self._threads.whole(self._opens, undo=lambda queue: queue.close()))

    async def __aenter__(self) -> Queue:
        self._queue = await self._open()
        return self._queue

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._queue is not None:
            await self._queue.close()


class EventBatch(Twin[_prefetch.EventBatch]):
    """Events in their order, with the products that were asked for."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self.sync)

    def __getitem__(self, at: int) -> PrefetchedEvent:
        return PrefetchedEvent(self.sync[at])

    def __iter__(self) -> Iterator[PrefetchedEvent]:
        return map(PrefetchedEvent, self.sync)

    arrays = reads(_prefetch.EventBatch.arrays)


class Prefetcher(Twin[_prefetch.Prefetcher]):
    """Fetches events and products of theirs ahead of who iterates over them.

    Examples
    --------
    >>> import asyncio
    >>> from femtobarn import aio
    >>> async def main():
    ...     store = await aio.DataStore.connect("memory:")
    ...     dataset = await store.root.create_dataset("a")
    ...     async with store.write_batch() as batch:
    ...         await batch.store_arrays(dataset, {"n": [5, 7]}, run=1, subrun=1, event=[1, 2])
    ...     return [await event.load("n") async for event in store.prefetcher(["n"])(dataset)]
    >>> asyncio.run(main())
    [5, 7]
    """

    __slots__ = ()

    async def batches(self, container: DataSet | Run | SubRun) -> AsyncGenerator[EventBatch, None]:
        """Iterate over the events of a dataset, run or subrun, many at a time.

        Parameters
        ----------
        container : DataSet, Run or SubRun
            Whose events they are.

        Yields
        ------
        EventBatch
            Events with the products.
        """
        own: Any = getattr(container, "sync", container)  # what is no container is told
        async with aclosing(self._threads.each(lambda: self._pages(own))) as batches:
            async for batch in batches:
                yield EventBatch(batch)

    def _pages(self, container: _containers._Holder[Any]) -> Generator[_prefetch.EventBatch, None, None]:
        for batch in self.sync.batches(container):
            for at in range(len(batch._names)):  # products are decoded here, and not in the thread of the loop
                batch._column(at)
            yield batch

    async def __call__(self, container: DataSet | Run | SubRun) -> AsyncGenerator[PrefetchedEvent, None]:
        async with aclosing(self.batches(container)) as batches:
            async for batch in batches:
                for event in batch:
                    yield event


def _processes(
    method: Callable[Concatenate[Any, Callable[[Any], Any], P], R],
) -> Callable[Concatenate[Any, Callable[[Any], Any], P], Coroutine[Any, Any, R]]:
    """Return the twin of `process`, which takes a function that is awaited as well."""

    async def process(source: Any, function: Callable[[Any], Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        sync = source.sync if isinstance(source, Twin) else source
        stop, running = threading.Event(), set[Future[Any]]()
        if inspect.iscoroutinefunction(function):
            if kwargs.get("executor", "threads") != "threads":
                raise UsageError("a function that is awaited is called in the loop of asyncio: executor is 'threads'")
            function = _awaiting(function, asyncio.get_running_loop(), stop, running)

        def cancel() -> None:
            for call in list(running):
                call.cancel()

        return await in_thread(method, stop, cancel, sync, function, *args, **kwargs)

    return made_of(method, process)


def _awaiting(
    function: Callable[[Any], Coroutine[Any, Any, T]],
    loop: asyncio.AbstractEventLoop,
    stop: threading.Event,
    running: set[Future[Any]],
) -> Callable[[Any], T]:
    """Return what calls a function in the loop, with events for asyncio, and waits for it in a thread of a worker."""

    @functools.wraps(function)  # a checkpoint names the function, and not this one
    def call(item: Any) -> T:
        twin: Any = item
        if isinstance(item, _prefetch.EventBatch):
            twin = EventBatch(item)
        elif isinstance(item, _containers.Container):
            twin = _twin_of(item)
        future = asyncio.run_coroutine_threadsafe(function(twin), loop)
        running.add(future)
        try:
            if stop.is_set():
                future.cancel()
            return future.result()
        finally:
            running.discard(future)

    return call


def _in_thread(function: Callable[..., R]) -> Callable[..., Coroutine[Any, Any, R]]:
    """Return the twin of a function, which runs in a thread and takes objects for asyncio as well."""

    async def twin(*args: Any, **kwargs: Any) -> R:
        own = [one.sync if isinstance(one, Twin) else one for one in args]
        named = {name: one.sync if isinstance(one, Twin) else one for name, one in kwargs.items()}
        return await in_thread(function, threading.Event(), lambda: None, *own, **named)

    return made_of(function, twin)


process = _processes(_process.process)
ingest = _in_thread(_ingest.ingest)
export = _in_thread(_export.export)
hdf5_schema = _in_thread(_hdf5_cpp.hdf5_schema)
