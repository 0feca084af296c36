"""Soak test of the event store: ten million events are written by processes that are killed, read, and deleted.

    python scripts/soak_event_store.py dir:DIRECTORY
    python scripts/soak_event_store.py DIRECTORY/store.json    # a cluster: fb store up --nodes 3 DIRECTORY
    python scripts/soak_event_store.py memory: --events 1000000

A writer reports what was flushed; it is killed at random times, started again, and continues after the last flush. Then
all events are compared with the expected ones: their keys, in order, and their products, read as arrays, by a loader,
and by `fb.process` on threads and on processes. At the end half of the runs are deleted, and the others must be
complete. Takes minutes and is not part of the tests; the exit code is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import femtobarn as fb

_RUNS, _SUBRUNS = 10, 100
_NAME = "soak"


def events_of(run: int, subrun: int, n: int) -> np.ndarray:
    """Return the event numbers of a subrun: sparse, and different for each subrun."""
    return np.arange(n, dtype=np.uint64) * (1 + (run + subrun) % 3) + subrun


def product(run: int, subrun: int, events: np.ndarray) -> np.ndarray:
    """Return the products of events: a number unique to each event."""
    return events + np.uint64((run * _SUBRUNS + subrun) << 40)


def write(store: fb.DataStore, n: int, start: int) -> Iterator[int]:
    """Write subruns from `start` on; yield each when it is flushed."""
    dataset = store.root.create_dataset(_NAME)
    for at in range(start, _RUNS * _SUBRUNS):
        run, subrun = divmod(at, _SUBRUNS)
        events = events_of(run, subrun, n)
        with store.write_batch() as batch:
            products = {"n": product(run, subrun, events), "hits": np.repeat(events, 3).reshape(-1, 3).astype("f4")}
            batch.store_arrays(dataset, products, run=run, subrun=subrun, event=events)
        store.flush()
        yield at


def write_with_kills(url: str, n: int, kills: int) -> None:
    """Write everything by processes; some of them are killed."""
    draw, done, killed = random.Random(5), 0, 0
    end = _RUNS * _SUBRUNS
    while done < end:
        writer = [sys.executable, __file__, url, "--events", str(n * end), "--write-from", str(done)]
        with subprocess.Popen(writer, stdout=subprocess.PIPE, text=True) as process:
            last = done + draw.randrange(1, 2 * end // (kills + 1)) if killed < kills else end
            assert process.stdout is not None
            for line in process.stdout:
                done = int(line) + 1
                if done >= last < end:
                    time.sleep(draw.random() * 0.05)
                    process.send_signal(signal.SIGKILL)
                    killed += 1
                    break
        if process.returncode not in (0, -signal.SIGKILL):
            raise SystemExit(f"the writer ended with {process.returncode}")
    print(f"  {killed} writers were killed")


def check(dataset: fb.DataSet, run: int, n: int) -> int:
    """Compare a run with the expected values; return its number of events."""
    found = dataset.arrays("n", runs=run, numbers=True)
    at = 0
    for subrun in range(_SUBRUNS):
        events = events_of(run, subrun, n)
        part = found[at : at + n]
        at += n
        assert np.all(np.asarray(part.run) == run), run
        assert np.all(np.asarray(part.subrun) == subrun), (run, subrun)
        assert np.array_equal(np.asarray(part.event), events), (run, subrun)
        assert np.array_equal(np.asarray(part.n), product(run, subrun, events)), (run, subrun)
    assert at == len(found), run
    return at


def sums(batch: fb.EventBatch) -> tuple[int, int, float]:
    """Return the number of events, and the sums of their products."""
    arrays = batch.arrays()
    return len(arrays), int(np.sum(np.asarray(arrays.n))), float(np.sum(np.asarray(arrays.hits), dtype="f8"))


def together(a: tuple[int, int, float], b: tuple[int, int, float]) -> tuple[int, int, float]:
    """Add two results."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def expected(n: int) -> tuple[int, int]:
    """Return the number of events, and the sum of `n`."""
    total = 0
    for run in range(_RUNS):
        for subrun in range(_SUBRUNS):
            total += int(np.sum(product(run, subrun, events_of(run, subrun, n)), dtype=object))
    return _RUNS * _SUBRUNS * n, total


def soak(url: str, n: int, kills: int) -> None:
    """Run the soak test."""
    started = time.perf_counter()

    def say(what: str) -> None:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"{time.perf_counter() - started:7.1f} s  {memory:.2f} GB at most  {what}", flush=True)

    if url == "memory:":
        store = fb.DataStore.connect(url)
        for _ in write(store, n, 0):
            pass
    else:
        write_with_kills(url, n, kills)
        store = fb.DataStore.connect(url)
    dataset = store[_NAME]
    say(f"{_RUNS * _SUBRUNS * n:,} events are written")
    assert sum(check(dataset, run, n) for run in range(_RUNS)) == _RUNS * _SUBRUNS * n
    say("all keys and products are there, in order")
    seen = sum(len(batch) for batch in store.prefetcher(["n"]).batches(dataset))
    assert seen == _RUNS * _SUBRUNS * n, seen
    say("a prefetcher has seen each once")
    results = []
    for executor in ["threads"] if url == "memory:" else ["threads", "processes"]:
        options: dict[str, Any] = {
            "preload": ["n", "hits"],
            "output_batch_size": 4096,
            "executor": executor,
            "workers": 2,
        }
        result = fb.process(dataset, sums, by="batch", reduce=together, progress=False, **options)
        results.append(result.value)
        say(f"processed by {executor}")
    assert all(result[:2] == expected(n) and result == results[0] for result in results), results
    for run in range(0, _RUNS, 2):
        dataset[run].delete()
    assert dataset.numbers() == list(range(1, _RUNS, 2))
    say("half of the runs are deleted")
    assert sum(check(dataset, run, n) for run in range(1, _RUNS, 2)) == _RUNS // 2 * _SUBRUNS * n
    assert sum(len(batch) for batch in store.prefetcher().batches(dataset)) == _RUNS // 2 * _SUBRUNS * n
    dataset.delete()
    assert _NAME not in [child.name for child in store.root.datasets()]
    say("the others were whole; all is deleted")


def main() -> None:
    """Run the soak test of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="an empty store")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--kills", type=int, default=10, help="number of writers to kill")
    parser.add_argument("--write-from", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    n = max(options.events // (_RUNS * _SUBRUNS), 1)
    if options.write_from is not None:
        for at in write(fb.DataStore.connect(options.url), n, options.write_from):
            print(at, flush=True)
    else:
        soak(options.url, n, options.kills)


if __name__ == "__main__":
    main()
