"""The workers of Dask as an executor."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Callable, Mapping
from typing import Any

from femtobarn._processing.work import TRIES
from femtobarn._shared.optional import optional
from femtobarn.errors import UsageError, WorkerDiedError

__all__ = ["DaskExecutor", "dask_client", "dask_executor"]

_CLOSED = "the client of Dask was closed before all events were processed"
_PATIENCE = 300.0  # seconds in which a cluster may start workers after all have died


class DaskExecutor:
    """The workers of a client of Dask, with futures that always complete.

    Futures of ``client.get_executor()`` do not complete if a task fails while its result is gathered.

    Parameters
    ----------
    client : distributed.Client
        The client.
    options : dict, optional
        Options of `distributed.Client.submit`.
    """

    def __init__(self, client: Any, options: Mapping[str, Any] | None = None) -> None:
        if client.asynchronous:
            raise UsageError("the client of Dask is asynchronous: create one without asynchronous=True")
        self.client = client
        self._options = {"retries": TRIES - 1, **(options or {}), "pure": False}
        self._had_workers = time.monotonic()

    @property
    def _max_workers(self) -> int:
        """The number of threads of all workers, as executors of concurrent.futures have it."""
        return max(int(sum(self._asked(self.client.nthreads).values())), 1)

    def check(self) -> None:
        """Raise if no future can complete any more: the client is closed, or no worker is left."""
        if self.client.status == "closed":  # which answers to nothing
            raise WorkerDiedError(_CLOSED)
        if self._asked(self.client.nthreads):
            self._had_workers = time.monotonic()
        elif time.monotonic() > self._had_workers + _PATIENCE:
            raise WorkerDiedError(
                f"Dask has had no worker for {_PATIENCE:.0f} s: they have died or were not started; with "
                "checkpoint='path', another call continues the work"
            )

    def submit(self, function: Callable[..., Any], *args: Any) -> concurrent.futures.Future[Any]:
        """Return the future of a call."""
        future = self._asked(self.client.submit, function, *args, **self._options)
        return asyncio.run_coroutine_threadsafe(_result(future), self.client.loop.asyncio_loop)

    def _asked(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a method of the client. Errors of any type may only mean that it is being closed."""
        try:
            return method(*args, **kwargs)
        except Exception as error:
            if self.client.status in ("closing", "closed"):
                raise WorkerDiedError(_CLOSED) from error
            raise


async def _result(future: Any) -> Any:
    return await future


def dask_client() -> Any:
    """Return the client of Dask of this process."""
    try:
        return optional("distributed", "dask").get_client()
    except ValueError as error:
        raise UsageError(
            "executor='dask' needs a client in this process: create one with distributed.Client(…)"
        ) from error


def dask_executor(executor: Any) -> Any:
    """Return the workers of "dask", of a client of Dask or of its executor; anything else as it is."""
    if executor == "dask":
        return DaskExecutor(dask_client())
    if hasattr(executor, "get_executor"):
        return DaskExecutor(executor)
    if type(executor).__name__ == "ClientExecutor":
        return DaskExecutor(executor._client, executor._kwargs)
    return executor
