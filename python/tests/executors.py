"""Executors of each kind, for tests of `process`."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

import femtobarn as fb

__all__ = ["executor_of"]


@contextlib.contextmanager
def executor_of(kind: str) -> Iterator[Any]:
    """Return what `process` takes as executor, with two workers; it is closed at the end."""
    if kind == "pool":
        with fb.Pool("processes", workers=2) as pool:
            yield pool
    elif kind == "threadpool":
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            yield threads
    elif kind == "futures":
        with concurrent.futures.ProcessPoolExecutor(2) as processes:
            yield processes
    elif kind == "dask":
        distributed = pytest.importorskip("distributed")
        cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        with cluster, distributed.Client(cluster):
            yield "dask"
    else:
        yield kind
