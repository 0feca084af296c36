"""Load balance of workers that sleep for the cost of each event: by events from a store, and file by file.

As a program, it processes all events once and prints the seconds: ``_balance.py store|files WORKERS EVENTS MEAN``.
"""

from __future__ import annotations

import concurrent.futures
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from _measure import say
from _report import table

N_FILES = 165  # NOvA's near detector: 165 files of 410,679 spills in all
SPREAD = 0.5  # of the logarithms of file sizes: two thirds are within a factor of 1.6
SIGMA = 0.8  # of the logarithms of event costs: one event in a hundred takes five times the mean
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128)
_MEAN = 0.02  # seconds per event
_BATCH = 2  # events that a worker takes at a time


def sample(n_events: int, mean: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the file number of each event, and its cost in seconds; always the same values."""
    draw = np.random.default_rng(20)
    sizes = draw.lognormal(0, SPREAD, N_FILES)
    files = np.repeat(
        np.arange(N_FILES), np.diff(np.round(np.cumsum([0, *sizes]) / sizes.sum() * n_events).astype(int))
    )
    return files, draw.lognormal(np.log(mean) - SIGMA**2 / 2, SIGMA, n_events)


def by_files(n_workers: int, files: np.ndarray, costs: np.ndarray) -> float:
    """Return the seconds if each worker takes whole files, one after another, as a process pool does."""
    whole = [costs[files == file].tolist() for file in range(N_FILES)]
    started = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(n_workers) as pool:
        list(pool.map(lambda events: [time.sleep(cost) for cost in events], whole))
    return time.perf_counter() - started


def by_events(n_workers: int, files: np.ndarray, costs: np.ndarray) -> float:
    """Return the seconds if workers take events from a store."""
    import femtobarn as fb

    store = fb.DataStore.connect("memory:")
    dataset = store.root.create_dataset("nova")
    with store.write_batch() as batch:
        batch.store_arrays(dataset, {"cost": costs}, run=1, subrun=files, event=np.arange(len(costs)))
    started = time.perf_counter()
    result = fb.process(
        dataset,
        lambda event: time.sleep(event.load("cost")),
        preload=["cost"],
        workers=n_workers,
        output_batch_size=_BATCH,
        progress=False,
    )
    assert result.n_events == len(costs)
    return time.perf_counter() - started


WAYS = {"store": by_events, "files": by_files}


def measured(total: float, runs: int) -> dict[str, dict[int, float]]:
    """Return the efficiency of each way by number of workers: the cost of all events over the time of all workers."""
    n_events = round(total / _MEAN)
    _, costs = sample(n_events, _MEAN)
    found: dict[str, dict[int, float]] = {way: {} for way in WAYS}
    lock = threading.Lock()

    def one(way: str, n_workers: int) -> None:
        times = []
        for _ in range(runs if n_workers >= WORKERS[4] else 1):
            command = [sys.executable, __file__, way, str(n_workers), str(n_events), str(_MEAN)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20 * total)
            times.append(json.loads(done.stdout))
        with lock:
            found[way][n_workers] = float(costs.sum() / n_workers / np.median(times))
            say(f"  {way}, {n_workers} workers: {found[way][n_workers]:.1%}")

    # a few sleeping workers do not disturb each other
    with concurrent.futures.ThreadPoolExecutor(len(WAYS) * 4) as pool:
        list(pool.map(one, [way for _ in range(4) for way in WAYS], [n for n in WORKERS[:4] for _ in WAYS]))
    for n_workers in WORKERS[4:]:
        for way in WAYS:
            one(way, n_workers)
    return {way: dict(sorted(ways.items())) for way, ways in found.items()}


def text(found: dict[str, dict[int, float]], total: float) -> str:
    rows = [[str(n), f"{found['store'][n]:.1%}", f"{found['files'][n]:.1%}"] for n in WORKERS]
    rows[-1].append("✓" if found["store"][WORKERS[-1]] >= 0.95 else "✗")
    header = ["workers", "by events of the store", "file by file", "goal, 95 % at 128 workers"]
    rows = [[*row, ""][: len(header)] for row in rows]
    about = f"{total:.0f} s of work in {round(total / _MEAN)} events of {N_FILES} files; workers sleep"
    return "\n".join([f"## Balance: {about}", "", table(header, rows), ""])


def figure(path: Path, found: dict[str, dict[int, float]]) -> None:
    """Draw efficiency against the number of workers."""
    from matplotlib import pyplot

    drawing, ax = pyplot.subplots(figsize=(5, 3.2))
    for way, label in (("store", "by events, from the store"), ("files", "file by file")):
        ax.plot(
            found[way].keys(), [100 * value for value in found[way].values()], marker="o", markersize=4, label=label
        )
    ax.axhline(100, color="black", linewidth=0.8, linestyle=":")
    ax.set_xscale("log", base=2)
    ax.set_xticks(list(WORKERS), map(str, WORKERS))
    ax.set_ylim(0, 105)
    ax.set_xlabel("workers")
    ax.set_ylabel("strong-scaling efficiency [%]")
    ax.grid(visible=True, linewidth=0.3)
    ax.legend(frameon=False)
    drawing.tight_layout()
    drawing.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main(way: str, n_workers: str, n_events: str, mean: str) -> None:
    arrays: Any = sample(int(n_events), float(mean))
    print(WAYS[way](int(n_workers), *arrays))


if __name__ == "__main__":
    main(*sys.argv[1:])
