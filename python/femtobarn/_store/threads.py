"""Threads for calls that would block the loop of asyncio, and what becomes of calls that are cancelled."""

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

from femtobarn.errors import FemtobarnError

if TYPE_CHECKING:
    from femtobarn._store.datastore import DataStore

__all__ = ["N_THREADS", "Threads", "check_wanted", "in_thread", "threads_of"]

# How many calls of one store are under way at once. They wait for servers, not for processors.
N_THREADS = 64

P = ParamSpec("P")
R = TypeVar("R")

# What says that nobody waits any more for what is done in this context.
_STOP: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar("femtobarn-stop", default=None)


def check_wanted(what: str) -> None:
    """Raise if nobody waits any more for what is being done here: long calls ask between their steps."""
    stop = _STOP.get()
    if stop is not None and stop.is_set():
        raise FemtobarnError(f"{what}: stopped, as its caller has ended", kind="stopped")


async def in_thread(
    call: Callable[P, R], stop: threading.Event, cancel: Callable[[], object], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Return what a long call gives that runs in a thread of its own, and ends between two steps if it is cancelled.

    Parameters
    ----------
    call : callable
        What is called; it calls `check_wanted`.
    stop : threading.Event
        Is set when it is cancelled.
    cancel : callable
        Is called then.
    *args, **kwargs
        Arguments of the call.

    Returns
    -------
    object
        What it gives.
    """
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
    """Threads of one store, which are made when they are needed.

    Not those of the loop, which other code fills. Reading that is cancelled ends at once, and what comes of it is
    dropped. Writing that is cancelled ends when it is known what came of it: it is not begun any more, or it is done.
    """

    def __init__(self, n: int = N_THREADS) -> None:
        self.n = n
        self.process = os.getpid()
        self._pool = concurrent.futures.ThreadPoolExecutor(n, "femtobarn-aio")

    def submit(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> concurrent.futures.Future[R]:
        """Have a call made as soon as a thread is free."""
        return self._pool.submit(call, *args, **kwargs)

    async def read(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what a call gives that changes nothing."""
        return await asyncio.wrap_future(self.submit(call, *args, **kwargs))

    async def write(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what a call gives that changes something: whole or not at all."""
        return await self.whole(functools.partial(call, *args, **kwargs))

    async def surely(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what a call gives that is made whether it is cancelled or not, as closing is."""
        return await self.whole(functools.partial(call, *args, **kwargs), cancel=lambda _: None)

    async def whole(
        self,
        call: Callable[[], R],
        *,
        undo: Callable[[R], object] | None = None,
        cancel: Callable[[concurrent.futures.Future[R]], object] = concurrent.futures.Future.cancel,
    ) -> R:
        """Return what a call gives.

        Parameters
        ----------
        call : callable
            What is called.
        undo : callable, optional
            Takes what the call gave, where it was done although it was cancelled.
        cancel : callable
            Is told of each time that it is cancelled; by default, what has not begun does not.

        Returns
        -------
        object
            What it gives.

        Raises
        ------
        CancelledError
            When it is known what came of it; an error of its own is the cause.
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
        """Iterate over what a generator gives, of which the next is fetched while one is used.

        Parameters
        ----------
        pages : callable
            Makes the generator. It is closed when this ends, or is left early.

        Yields
        ------
        object
            What it gives.
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
        """End a generator in a thread, as what it holds may wait for the store."""
        with contextlib.suppress(RuntimeError):  # the interpreter ends, and with it what is held
            self.submit(source.close)

    def close(self) -> None:
        """Let the threads end when they have done what they do."""
        self._pool.shutdown(wait=False)


async def _settled(
    running: concurrent.futures.Future[R], cancel: Callable[[concurrent.futures.Future[R]], object]
) -> asyncio.CancelledError | None:
    """Wait until a call is over or will not begin; gives the last of what has cancelled the waiting."""
    waiting = asyncio.wrap_future(running)
    told = None
    while not waiting.done():
        try:
            await asyncio.wait((waiting,))
        except asyncio.CancelledError as error:
            told = error
            cancel(running)
    if not waiting.cancelled():
        waiting.exception()  # looked at, so that the loop does not complain of it
    return told


def threads_of(store: DataStore, n: int | None = None) -> Threads:
    """Return the threads of a store.

    Parameters
    ----------
    store : DataStore
        The store.
    n : int, optional
        How many there are at most, if they are made now.

    Returns
    -------
    Threads
        The threads; behind a fork others, as none is there any more.
    """
    threads = store._threads
    if threads is None or threads.process != os.getpid():
        threads = store._threads = Threads(n or N_THREADS)
    return threads
