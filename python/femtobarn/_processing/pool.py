"""Workers that several calls of `process` use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Self

from femtobarn._processing.dask import dask_client
from femtobarn._processing.pools import ProcessPool
from femtobarn._store.arguments import at_least
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Pool"]


class Pool:
    """Workers that several calls of `process` use, one after another, with ``executor=pool``.

    Processes are started once, and keep their modules and their files open between calls.

    Parameters
    ----------
    executor : str or executor
        As for `process`. Processes are started here; clients of Dask and executors of ``concurrent.futures`` are the
        caller's, and are not closed.
    workers : int, optional
        Number of workers, as for `process`.

    Examples
    --------
    >>> import femtobarn as fb
    >>> from operator import add
    >>> with fb.Pool("threads", workers=2) as pool:
    ...     for dataset in ("zmumu", "ttbar"):
    ...         print(fb.process({dataset: [dimuon]}, len, by="batch", reduce=add, executor=pool).value)
    12000
    12000
    """

    def __init__(self, executor: Any = "processes", *, workers: int | None = None) -> None:
        if isinstance(executor, Pool):
            raise UsageError("executor is a Pool already: use it as it is")
        if workers is not None:
            at_least("workers", workers, 1)
        self._executor = dask_client() if executor == "dask" else executor
        self._workers = workers
        self._processes: ProcessPool | None = None
        self._is_closed = False
        if executor == "processes":
            self._processes = ProcessPool(workers or len(os.sched_getaffinity(0)), is_kept=True)

    def _for_call(self, workers: int | None) -> tuple[Any, int | None, ProcessPool | None]:
        """Return the executor, the number of workers and the processes for a call of `process`."""
        if self._is_closed:
            raise UsageError("the pool is closed: create another one")
        if workers is not None:
            raise UsageError("workers is an argument of the Pool: leave it out here")
        if self._processes is None:
            return self._executor, self._workers, None
        return self._executor, self._processes.n_workers, self._processes

    def close(self) -> None:
        """End the processes that the pool has started."""
        self._is_closed = True
        if self._processes is not None:
            self._processes.end(early=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = " (closed)" if self._is_closed else ""
        workers = "" if self._processes is None else f", workers={self._processes.n_workers}"
        return f"<Pool {self._executor!r}{workers}{closed}>"
