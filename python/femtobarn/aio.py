"""The event store for asyncio: the classes of `femtobarn` with the same names and arguments, and async methods.

No method blocks the thread of the event loop. The attribute ``sync`` is the blocking object, from which the async one
is made, as in ``aio.Event(event)``; ``store.aio`` is the async object of a store.

A cancelled read ends at once. A cancelled write ends when its outcome is known: it was done completely or not at all.
A cancelled ``queue.pop()`` leaves its value in the queue.

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
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Concatenate, ParamSpec, TypeVar

from femtobarn._aio.containers import Container, DataSet, Event, Ptr, Run, SubRun
from femtobarn._aio.datastore import DataStore, EventBatch, Prefetcher, WriteBatch
from femtobarn._aio.making import Twin, made_of, twin_of
from femtobarn._aio.queue import Queue
from femtobarn._processing import process as _process
from femtobarn._store import container as _container
from femtobarn._store import prefetch as _prefetch
from femtobarn._store.threads import in_thread
from femtobarn._transfer import export as _export
from femtobarn._transfer import hdf5_cpp as _hdf5_cpp
from femtobarn._transfer import ingest as _ingest
from femtobarn.errors import UsageError

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

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def _processes(
    method: Callable[Concatenate[Any, Callable[[Any], Any], P], R],
) -> Callable[Concatenate[Any, Callable[[Any], Any], P], Coroutine[Any, Any, R]]:
    """Return the async version of `process`, which also accepts an async function."""

    async def process(source: Any, function: Callable[[Any], Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        sync = source.sync if isinstance(source, Twin) else source
        stop, running = threading.Event(), set[Future[Any]]()
        if inspect.iscoroutinefunction(function):
            if kwargs.get("executor", "threads") != "threads":
                raise UsageError("an async function runs in the event loop of asyncio: use executor='threads'")
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
    """Return a function that runs an async function in the event loop, and waits for it in the thread of a worker."""

    @functools.wraps(function)  # a checkpoint stores the name of the function
    def call(item: Any) -> T:
        twin: Any = item
        if isinstance(item, _prefetch.EventBatch):
            twin = EventBatch(item)
        elif isinstance(item, _container.Container):
            twin = twin_of(item)
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
    """Return the async version of a function: it runs in a thread and also accepts asyncio objects."""

    async def twin(*args: Any, **kwargs: Any) -> R:
        own = [one.sync if isinstance(one, Twin) else one for one in args]
        named = {name: one.sync if isinstance(one, Twin) else one for name, one in kwargs.items()}
        return await in_thread(function, threading.Event(), lambda: None, *own, **named)

    return made_of(function, twin)


process = _processes(_process.process)
ingest = _in_thread(_ingest.ingest)
export = _in_thread(_export.export)
hdf5_schema = _in_thread(_hdf5_cpp.hdf5_schema)
