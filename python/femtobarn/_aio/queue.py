"""Queues for asyncio."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from femtobarn._aio.making import Closing, like, writes
from femtobarn._store import queue as _queue

__all__ = ["Queue"]

# Pauses between checks of an empty queue.
_FIRST_PAUSE = 0.0002
_LONGEST_PAUSE = 0.025


class Queue(Closing[_queue.Queue]):
    """A queue between programs: values come out in the order in which they were pushed, each once.

    It is closed at the end of ``async with``; ``async for`` takes values until no producer has the queue open.
    """

    __slots__ = ("_back",)

    def __init__(self, sync: _queue.Queue) -> None:
        super().__init__(sync)
        self._back: list[bytes] = []  # values that could not be returned to the store

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self.sync.name

    @property
    def type(self) -> str:
        """The type of the values."""
        return self.sync.type

    @like(_queue.Queue.pop)
    async def pop(self) -> Any:
        pause = _FIRST_PAUSE
        while True:
            # no thread waits for a value, so that any number of tasks can wait
            stored, has_ended, value = await self._threads.whole(self._take, undo=self._put_back)
            if stored is not None:
                return value
            if has_ended:
                raise self.sync._ended()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _take(self) -> tuple[bytes | None, bool, Any]:
        """Return a value, as stored and decoded, if there is one, and whether the queue has ended."""
        self.sync._check()
        stored, has_ended = (self._back.pop(0), False) if self._back else self.sync._core.take()
        return stored, has_ended, None if stored is None else self.sync._value(stored)

    def _put_back(self, taken: tuple[bytes | None, bool, Any]) -> None:
        """Return a value to the queue after a cancelled `pop`."""
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
        """Return the number of values in the queue.

        Returns
        -------
        int
            The number.
        """
        return await self._threads.read(self.sync.__len__)

    @like(_queue.Queue.close)
    async def close(self) -> None:
        await super().close()

    def _close(self) -> None:
        try:
            self._give_back()
        finally:
            super()._close()

    # twins of _queue.Queue

    push = writes(_queue.Queue.push)
