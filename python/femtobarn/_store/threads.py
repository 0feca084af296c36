"""Threads for calls that would block the loop of asyncio, and handling of cancelled calls."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import os
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from femtobarn._shared.caller import note_line
from femtobarn.errors import FemtobarnError

if TYPE_CHECKING:
    from femtobarn._store.datastore import DataStore

__all__ = ["N_THREADS", "Threads", "check_wanted", "in_thread", "threads_of"]

# Number of concurrent calls per store. They wait for servers, not for processors.
N_THREADS = 64

P = ParamSpec("P")
R = TypeVar("R")

# Tells whether the caller of the work in this context has stopped waiting.
_STOP: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar("femtobarn-stop", default=None)


def check_wanted(what: str) -> None:
    """Raise if the caller has stopped waiting: long calls check this between their steps."""
    stop = _STOP.get()
    if stop is not None and stop.is_set():
        raise FemtobarnError(f"{what}: stopped, as its caller has ended", kind="stopped")


async def in_thread(
    call: Callable[P, R], stop: threading.Event, cancel: Callable[[], object], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Return the result of a long call in its own thread; if it is cancelled, it ends between two steps.

    Parameters
    ----------
    call : callable
        The function; it calls `check_wanted`.
    stop : threading.Event
        Set when it is cancelled.
    cancel : callable
        Called when it is cancelled.
    *args, **kwargs
        Arguments of the call.

    Returns
    -------
    object
        The result.
    """
    note_line()
    context = contextvars.copy_context()
    context.run(_STOP.set, stop)

    def told(_: object) -> None:
        stop.set()
        cancel()

    threads = Threads(1)
    try:
        return await threads.whole(lambda: context.run(call, *args, **kwargs), cancel=told)
    finally:
        threads.close()


class Threads:
    """Threads of one store, created on demand.

    These are not the threads of the loop, which other code can occupy. Cancelled reading ends at once, and its result
    is dropped. Cancelled writing ends when its outcome is known: it was not started, or it is finished.
    """

    def __init__(self, n: int = N_THREADS) -> None:
        self.n = n
        self.process = os.getpid()
        self._pool = concurrent.futures.ThreadPoolExecutor(n, "femtobarn-aio")

    def submit(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> concurrent.futures.Future[R]:
        """Queue a call for the next free thread."""
        return self._pool.submit(call, *args, **kwargs)

    async def read(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of a call that only reads."""
        return await asyncio.wrap_future(self.submit(call, *args, **kwargs))

    async def write(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of a call that writes, completely or not at all."""
        return await self.whole(functools.partial(call, *args, **kwargs))

    async def surely(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of a call that is made even if it is cancelled, such as closing."""
        return await self.whole(functools.partial(call, *args, **kwargs), cancel=lambda _: None)

    async def whole(
        self,
        call: Callable[[], R],
        *,
        undo: Callable[[R], object] | None = None,
        cancel: Callable[[concurrent.futures.Future[R]], object] = concurrent.futures.Future.cancel,
    ) -> R:
        """Return the result of a call.

        Parameters
        ----------
        call : callable
            The function.
        undo : callable, optional
            Called with the result if the call has finished although it was cancelled.
        cancel : callable
            Called at each cancellation; by default, a call that has not started is not made.

        Returns
        -------
        object
            The result.

        Raises
        ------
        CancelledError
            When the outcome is known; an error of the call is the cause.
        """
        running = self.submit(call)
        told = await _settled(running, cancel)
        if told is None:
            return running.result()
        if not running.cancelled():
            if (error := running.exception()) is not None:
                raise told from error
            if undo is not None:
                undoing = self.submit(undo, running.result())
                await _settled(undoing, lambda _: None)
                undoing.result()
        raise told

    async def each(self, pages: Callable[[], Generator[R, None, None]]) -> AsyncGenerator[R, None]:
        """Iterate over the items of a generator; the next item is fetched while one is used.

        Parameters
        ----------
        pages : callable
            Creates the generator. It is closed when the iteration ends or is left early.

        Yields
        ------
        object
            The result.
        """
        source = pages()
        coming = self.submit(next, source, None)
        try:
            while (page := await asyncio.wrap_future(coming)) is not None:
                coming = self.submit(next, source, None)
                yield page
        finally:
            coming.cancel()
            coming.add_done_callback(lambda _: self._close(source))

    def _close(self, source: Generator[R, None, None]) -> None:
        """Close a generator in a thread, as closing may wait for the store."""
        with contextlib.suppress(RuntimeError):  # the interpreter ends, and releases everything
            self.submit(source.close)

    def close(self) -> None:
        """Let the threads end after their current calls."""
        self._pool.shutdown(wait=False)


async def _settled(
    running: concurrent.futures.Future[R], cancel: Callable[[concurrent.futures.Future[R]], object]
) -> asyncio.CancelledError | None:
    """Wait until a call has ended or will not start; returns the last cancellation."""
    waiting = asyncio.wrap_future(running)
    told = None
    while not waiting.done():
        try:
            await asyncio.wait((waiting,))
        except asyncio.CancelledError as error:
            told = error
            cancel(running)
    if not waiting.cancelled():
        waiting.exception()  # retrieved, so that the loop does not warn about it
    return told


def threads_of(store: DataStore, n: int | None = None) -> Threads:
    """Return the threads of a store.

    Parameters
    ----------
    store : DataStore
        The store.
    n : int, optional
        Maximum number, if they are created now.

    Returns
    -------
    Threads
        The threads; after a fork new ones, as threads do not survive it.
    """
    threads = store._threads
    if threads is None or threads.process != os.getpid():
        threads = store._threads = Threads(n or N_THREADS)
    return threads
