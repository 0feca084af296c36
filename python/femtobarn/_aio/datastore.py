"""Event stores, batches and prefetchers for asyncio."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from femtobarn._aio.containers import Container, DataSet, FoundDataSet, PrefetchedEvent, Run, SubRun
from femtobarn._aio.queue import OpenQueue
from femtobarn._store import containers as _containers
from femtobarn._store import datastore as _datastore
from femtobarn._store import prefetch as _prefetch
from femtobarn._store.containers import at_least
from femtobarn._store.threads import N_THREADS, Threads, threads_of
from femtobarn._store.twins import Closing, Twin, begins, like, reads, twin_of, writes

if TYPE_CHECKING:
    import os

    import numpy.typing as npt

    from femtobarn._store.datastore import Product

__all__ = ["DataStore", "EventBatch", "Prefetcher", "WriteBatch"]

_S = TypeVar("_S", bound="DataStore")


class DataStore(Twin[_datastore.DataStore], of=_datastore.DataStore):
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

    def __getitem__(self, name: str) -> FoundDataSet:
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
    def open_queue(self, name: str, kind: Any = bytes, *, mode: str, unpickle: bool = False) -> OpenQueue:
        opens = functools.partial(self.sync.open_queue, name, kind, mode=mode, unpickle=unpickle)
        return OpenQueue(self._threads, opens)


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
        return [(twin_of(container), product) for container, product in self.sync.kept]

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
