"""Event stores, batches and prefetchers for asyncio."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self

from femtobarn._aio.containers import Container, DataSet, FoundDataSet, PrefetchedEvent, Run, SubRun
from femtobarn._aio.making import Closing, Entered, Opening, Twin, begins, like, own, reads, twin_of, writes
from femtobarn._aio.queue import Queue
from femtobarn._store import containers as _containers
from femtobarn._store import datastore as _datastore
from femtobarn._store import prefetch as _prefetch
from femtobarn._store import write_batch as _write_batch
from femtobarn._store.arguments import at_least
from femtobarn._store.threads import N_THREADS, Threads, threads_of

if TYPE_CHECKING:
    import os

    import numpy.typing as npt

    from femtobarn._store.product_names import Product

__all__ = ["DataStore", "EventBatch", "Prefetcher", "WriteBatch"]


class DataStore(Entered[_datastore.DataStore], of=_datastore.DataStore):
    """An event store; see `femtobarn.DataStore`. It is closed at the end of ``async with``."""

    __slots__ = ()

    @like(_datastore.DataStore.close)
    async def close(self) -> None:
        last = Threads(1)  # the other threads end
        try:
            await last.surely(self.sync.close)
        finally:
            last.close()

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
    ) -> Opening[Self]:
        """Open a store, and create it if it does not exist: ``await`` it, or use ``async with``.

        Parameters
        ----------
        url, mode, objects, objects_over, storage_options
            As for `femtobarn.DataStore.connect`.
        threads : int
            Number of calls that run at the same time; further calls wait.

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
        return Opening(functools.partial(cls._connect, connect, threads))

    @classmethod
    async def _connect(cls, connect: Callable[[], _datastore.DataStore], n_threads: int) -> Self:
        first = Threads(1)
        try:
            sync = await first.whole(connect, undo=lambda store: store.close())
        finally:
            first.close()
        threads_of(sync, n_threads)
        return cls(sync)

    @staticmethod
    @like(_datastore.DataStore.compact)
    async def compact(url: str | os.PathLike[str]) -> tuple[int, int]:
        return await asyncio.to_thread(_datastore.DataStore.compact, url)

    def __getitem__(self, name: str) -> FoundDataSet:
        return self.root[name]

    def __aiter__(self) -> AsyncIterator[DataSet]:
        return self.root.datasets()

    async def contains(self, name: str) -> bool:
        """Return whether the store has a dataset.

        Parameters
        ----------
        name : str
            The full name of the dataset.

        Returns
        -------
        bool
            Whether it exists.
        """
        return await self.root.contains(name)

    @like(_datastore.DataStore.open_queue)
    def open_queue(self, name: str, kind: Any = bytes, *, mode: str, unpickle: bool = False) -> Opening[Queue]:
        opens = functools.partial(self.sync.open_queue, name, kind, mode=mode, unpickle=unpickle)

        async def opened() -> Queue:
            return Queue(await self._threads.whole(opens, undo=lambda queue: queue.close()))

        return Opening(opened)

    # twins of _datastore.DataStore

    @property
    def closed(self) -> bool:
        """Whether the store was closed."""
        return self.sync.closed

    @property
    def url(self) -> str:
        """The URL of the store."""
        return self.sync.url

    @property
    def is_durable(self) -> bool:
        """Whether flushed data survive the end of the processes that hold the store."""
        return self.sync.is_durable

    @property
    def objects(self) -> str | None:
        """Location of the objects of large products; None if all products are in the store."""
        return self.sync.objects

    @property
    def objects_over(self) -> int | None:
        """Size in bytes above which a product is stored as an object; None if there are no objects."""
        return self.sync.objects_over

    sweep_objects = writes(_datastore.DataStore.sweep_objects)
    flush = writes(_datastore.DataStore.flush)
    sweep_nameless = writes(_datastore.DataStore.sweep_nameless)
    forget_class = writes(_datastore.DataStore.forget_class)

    @property
    def root(self) -> DataSet:
        """The dataset that contains all others. It holds datasets, and neither runs nor products."""
        return DataSet(self.sync.root)

    @like(_datastore.DataStore.create_dataset)
    async def create_dataset(self, name: str) -> DataSet:
        return DataSet(await self._threads.write(self.sync.create_dataset, name))

    write_batch = begins(_datastore.DataStore.write_batch, lambda one: WriteBatch(one))
    async_write_batch = begins(_datastore.DataStore.async_write_batch, lambda one: WriteBatch(one))
    prefetcher = begins(_datastore.DataStore.prefetcher, lambda one: Prefetcher(one))
    load_refs = reads(_datastore.DataStore.load_refs)
    create_queue = writes(_datastore.DataStore.create_queue)
    destroy_queue = writes(_datastore.DataStore.destroy_queue)


class WriteBatch(Closing[_write_batch.WriteBatch]):
    """Collects containers and products, and writes them when there are many, or at the end of ``async with``.

    Items that could not be written stay in the batch; the next `flush` tries them again.
    """

    __slots__ = ()

    @like(_write_batch.WriteBatch.close)
    async def close(self) -> None:
        await super().close()

    @property
    def kept(self) -> list[tuple[Container[Any], Product]]:
        """The products that existed and were kept, among those written so far, with their containers."""
        return [(twin_of(container), product) for container, product in self.sync.kept]

    async def size(self) -> int:
        """Return the number of containers and products that wait to be written.

        Returns
        -------
        int
            The number.
        """
        return await self._threads.read(self.sync.__len__)

    # twins of _write_batch.WriteBatch

    flush = writes(_write_batch.WriteBatch.flush)

    @like(_write_batch.WriteBatch.store_arrays)
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
        await self._threads.write(
            self.sync.store_arrays, own(dataset), products, run=run, subrun=subrun, event=event, types=types
        )


class EventBatch(Twin[_prefetch.EventBatch]):
    """Consecutive events with the requested products."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self.sync)

    def __getitem__(self, at: int) -> PrefetchedEvent:
        return PrefetchedEvent(self.sync[at])

    def __iter__(self) -> Iterator[PrefetchedEvent]:
        return map(PrefetchedEvent, self.sync)

    # twins of _prefetch.EventBatch

    arrays = reads(_prefetch.EventBatch.arrays)


class Prefetcher(Twin[_prefetch.Prefetcher]):
    """Fetches events and some of their products in advance of an iteration.

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
        """Iterate over the events of a dataset, run or subrun in batches.

        Parameters
        ----------
        container : DataSet, Run or SubRun
            The container of the events.

        Yields
        ------
        EventBatch
            Events with their products.
        """
        own: Any = getattr(container, "sync", container)  # anything else raises below
        async with aclosing(self._threads.each(lambda: self._pages(own))) as batches:
            async for batch in batches:
                yield EventBatch(batch)

    def _pages(self, container: _containers.Holder[Any]) -> Generator[_prefetch.EventBatch, None, None]:
        for batch in self.sync.batches(container):
            for at in range(len(batch._names)):  # decode products here, not in the thread of the event loop
                batch._column(at)
            yield batch

    async def __call__(self, container: DataSet | Run | SubRun) -> AsyncGenerator[PrefetchedEvent, None]:
        async with aclosing(self.batches(container)) as batches:
            async for batch in batches:
                for event in batch:
                    yield event

    # twins of _prefetch.Prefetcher
