"""`process` on workers of Dask that die, whose results are lost, or that are not there."""

from __future__ import annotations

import concurrent.futures
import functools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import femtobarn as fb
from femtobarn._processing import dask as femtobarn_dask

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore")

FAULTY = 4000  # the first entry of the batch that takes its worker with it


@pytest.fixture
def client() -> Iterator[Any]:
    """Return a client of six workers, in threads. Dask gives up a task at the first worker that it loses."""
    options = {"threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with (
        distributed.LocalCluster(n_workers=6, scheduler_kwargs={"allowed_failures": 0}, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def process(dimuon: str, function: Any, executor: Any, **options: Any) -> fb.ProcessResult:
    """Process 12 batches of 1,000 entries; an end that never comes is an error."""
    given = {"preload": ["nMuon"], "by": "batch", "output_batch_size": 1000, "progress": False, **options}
    found: concurrent.futures.Future[fb.ProcessResult] = concurrent.futures.Future()

    def run() -> None:
        try:
            found.set_result(fb.process(dimuon, function, executor=executor, **given))
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return found.result(timeout=120)


def leave(worker: Any) -> None:
    """Break the connection of a worker to the scheduler, as its death does."""
    worker.loop.add_callback(worker.batched_stream.comm.abort)


def leaves(batch: Any) -> int:
    if batch.entry_start == FAULTY:
        worker = distributed.get_worker()
        leave(worker)
        while worker.status.name == "running":
            time.sleep(0.01)
    return len(batch)


def leaves_with_its_result(marks: Path, batch: Any) -> int:
    """Lose the first result when it is gathered, and then the worker."""
    if batch.entry_start == FAULTY and not (marks / "once").exists():
        (marks / "once").touch()
        worker = distributed.get_worker()

        async def left(**_: Any) -> None:
            leave(worker)
            raise OSError("the worker has left")

        worker.handlers["get_data"] = left
        return len(batch)
    return leaves(batch)


def test_a_batch_whose_worker_dies_again_when_its_result_was_lost_is_an_error(
    dimuon: str, client: Any, tmp_path: Path
) -> None:
    with pytest.raises(fb.WorkerDiedError, match="3 processes died while they processed entries 4000 to 4999"):
        process(dimuon, functools.partial(leaves_with_its_result, tmp_path), client)


@pytest.mark.parametrize("kind", ["client", "executor"])
def test_only_the_batch_that_kills_its_workers_is_skipped(dimuon: str, client: Any, kind: str) -> None:
    executor = client if kind == "client" else client.get_executor()
    result = process(dimuon, leaves, executor, on_error="skip")
    (failed,) = result.failures
    assert failed.where.startswith("entries 4000 to 4999")
    assert result.value == [1000] * 11


def test_a_cluster_without_workers_is_an_error(dimuon: str, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(femtobarn_dask, "_PATIENCE", 2.0)
    client.cluster.scale(0)
    while client.nthreads():
        time.sleep(0.05)
    with pytest.raises(fb.WorkerDiedError, match="Dask has had no worker for 2 s"):
        process(dimuon, len, client)


def test_a_client_that_is_closed_meanwhile_is_an_error(dimuon: str, client: Any) -> None:
    threading.Timer(2, client.close).start()
    with pytest.raises(fb.WorkerDiedError, match="Dask was closed"):
        process(dimuon, slowly, client)


def slowly(batch: Any) -> int:
    time.sleep(5)
    return len(batch)


def test_futures_that_others_cancel_are_not_waited_for(dimuon: str) -> None:
    """Futures that `shutdown` cancels never wake `concurrent.futures.wait`."""
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        stop = threading.Timer(0.5, functools.partial(executor.shutdown, wait=False, cancel_futures=True))
        stop.start()
        with pytest.raises(RuntimeError, match="after shutdown"):
            process(dimuon, briefly, executor, output_batch_size=4000)  # all three are sent


def briefly(batch: Any) -> int:
    time.sleep(1)
    return len(batch)
