"""Measure `process`: cost per event and per task, pools of processes, many files, states.

    python benchmarks/process.py [--runs N] [--events N] [--files N] [--only events dask processes files state]
                                 [--out DIR] [--json FILE]

The script writes its input: files of 15 columns, four of them lists, with one cluster each. Prints a Markdown report
with medians; the exit code is always 0. README.md in this directory describes the measurement.
"""

from __future__ import annotations

import argparse
import functools
import json
import operator
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import awkward as ak
import numba
import numpy as np
from _measure import say
from _report import machine, table

import femtobarn as fb

LISTS = ["pt", "eta", "phi", "mass"]
COLUMNS = [f"Jet_{name}" for name in LISTS]
N_TASKS = 360
BINS = 100


# -- the input -----------------------------------------------------------------------------------------------


def write(path: Path, n_events: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(4, n_events)
    columns: dict[str, Any] = {f"x{n}": rng.normal(size=n_events).astype("float32") for n in range(11)}
    for name in COLUMNS:
        columns[name] = ak.unflatten(rng.exponential(30, counts.sum()).astype("float32"), counts)
    fb.write(path, columns, name="Events")


def links(folder: Path, path: Path, n: int) -> list[str]:
    """Return the paths of many links to a file."""
    folder.mkdir(exist_ok=True)
    for number in range(n):
        link = folder / f"{number:05}.root"
        if not link.exists():
            os.link(path, link)
    return [f"{folder}/{number:05}.root:Events" for number in range(n)]


# -- the functions -------------------------------------------------------------------------------------------


def number(event: fb.Entry) -> float:
    return event.x0


def largest(event: fb.Entry) -> float:
    return event.Jet_pt.max(initial=0)


@numba.njit(cache=True)
def compiled(event):
    """Return the sum of the momenta of the jets."""
    total = 0.0
    for i in range(len(event.Jet_pt)):
        total += event.Jet_pt[i]
    return total


def n_entries(batch: Any) -> int:
    return len(batch)


def select(batch: fb.EntryBatch) -> Any:
    """Return a histogram of the mass of three jets, by Awkward."""
    jets = ak.zip({name: batch[f"Jet_{name}"] for name in LISTS})
    three = ak.combinations(jets[jets.pt > 20], 3, fields=["a", "b", "c"])
    total = three.a.pt + three.b.pt + three.c.pt
    best = ak.flatten(three[ak.argmax(total, axis=1, keepdims=True)], axis=None)
    mass = best if not best.fields else best.a.mass + best.b.mass + best.c.mass
    return np.histogram(ak.to_numpy(ak.drop_none(mass)), BINS, (0, 500))[0]


def made() -> Any:
    return np.zeros((1000, 1000))


def returned(batch: fb.EntryBatch) -> Any:
    filled = made()
    filled[0, 0] += len(batch)
    return filled


def fill(batch: fb.EntryBatch, state: Any) -> None:
    state[0, 0] += len(batch)


def n_open(folder: str, batch: fb.EntryBatch) -> int:
    """Return how many files of a folder this process has open or mapped."""
    links = [os.path.realpath(one) for one in Path("/proc/self/fd").iterdir()]
    return sum(folder in line for line in [*links, *Path("/proc/self/maps").read_text().splitlines()])


# -- measuring -----------------------------------------------------------------------------------------------


@dataclass
class Time:
    """Seconds of one run: elapsed, and of the processor with ended children."""

    wall: float
    cpu: float


def timed(call: Callable[[], Any]) -> Time:
    def used() -> float:
        of = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(one.ru_utime + one.ru_stime for one in of)

    began, before = time.perf_counter(), used()
    call()
    return Time(time.perf_counter() - began, used() - before)


@dataclass
class Row:
    label: str
    runs: list[Time]
    per: int = 1  # what the times are divided by
    unit: tuple[str, float] = ("s", 1)
    note: str = ""

    def median(self, name: str) -> float:
        return statistics.median(getattr(run, name) for run in self.runs) / self.per / self.unit[1]

    def cells(self) -> list[str]:
        wall, cpu = (f"{self.median(name):.3g} {self.unit[0]}" for name in ("wall", "cpu"))
        return [self.label, wall, cpu, self.note]


def alternate(calls: dict[str, Callable[[], Any]], runs: int) -> dict[str, list[Time]]:
    """Measure calls in turn; the first round is not counted."""
    found: dict[str, list[Time]] = {name: [] for name in calls}
    for turn in range(runs + 1):
        for name, call in calls.items():
            run = timed(call)
            if turn:
                found[name].append(run)
    return found


def events(options: argparse.Namespace, path: Path) -> Iterator[Row]:
    files = links(path.parent / "events", path, 4)
    functions = {"by event, compiled": compiled, "by event, a number": number, "by event, a list": largest}
    process = functools.partial(fb.process, workers=1, progress=False, reduce=operator.add)
    calls = {
        label: functools.partial(process, files, function, preload=["x0", "Jet_pt"])
        for label, function in functions.items()
    }
    for label, runs in alternate(calls, options.runs).items():
        yield Row(label, runs, 4 * options.events, ("µs", 1e-6), f"goal {2 if label.endswith('compiled') else 5} µs")


def dask(options: argparse.Namespace, path: Path) -> Iterator[Row]:
    import concurrent.futures

    import distributed

    files = links(path.parent / "dask", path, N_TASKS)
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:

        def bare() -> None:
            """Do tasks of Dask alone, as many at a time as process does."""
            executor, out, given = client.get_executor(pure=False), set(), 0
            while given < N_TASKS or out:
                while given < N_TASKS and len(out) < 6:
                    out.add(executor.submit(len, b"x" * 500))
                    given += 1
                out = concurrent.futures.wait(out, return_when="FIRST_COMPLETED").not_done

        size = -(-options.events // N_TASKS)
        process = functools.partial(
            fb.process,
            function=n_entries,
            by="batch",
            preload=["x0"],
            executor=client,
            reduce=operator.add,
            progress=False,
        )
        calls = {
            "Dask alone": bare,
            f"one file, {N_TASKS} tasks": functools.partial(process, files[:1], output_batch_size=size),
            f"{N_TASKS} files, {N_TASKS} tasks": functools.partial(process, files, output_batch_size=options.events),
        }
        for label, runs in alternate(calls, options.runs).items():
            yield Row(label, runs, N_TASKS, ("ms", 1e-3), "a task; goal 6 ms" if "file" in label else "a task")


def processes(options: argparse.Namespace, path: Path) -> Iterator[Row]:
    files = links(path.parent / "processes", path, options.repeat)
    process = functools.partial(
        fb.process, files, select, by="batch", preload=COLUMNS, reduce=operator.add, progress=False
    )
    with fb.Pool("processes", workers=2) as pool:
        found = alternate(
            {
                "one process (threads, workers=1)": functools.partial(process, workers=1),
                "processes, workers=2": functools.partial(process, executor="processes", workers=2),
                "a Pool of 2 processes": functools.partial(process, executor=pool),
            },
            options.runs,
        )
    rows = [Row(label, runs) for label, runs in found.items()]
    limit = 1.1 * rows[0].median("cpu") / 2 + 1.5
    rows[1].note = f"goal: elapsed ≤ 1.1 times half of the CPU of one process + 1.5 s = {limit:.2f} s"
    rows[2].note = "its CPU time is not in the table, as it goes on"
    yield from rows


def many_files(options: argparse.Namespace, path: Path) -> Iterator[Row]:
    folder = path.parent / "many"
    small = path.parent / "small.root"
    write(small, 100, 1)
    files = {"many": links(folder, small, options.files)}
    process = functools.partial(fb.process, files, by="batch", preload=["x0"], progress=False)
    count = functools.partial(n_open, str(folder))
    for executor in ("threads", "processes"):
        most = process(count, executor=executor, workers=2, reduce=max).value
        runs = alternate(
            {executor: functools.partial(process, n_entries, executor=executor, workers=2, reduce=operator.add)}, 1
        )
        yield Row(
            f"{options.files} files, {executor}",
            runs[executor],
            options.files,
            ("ms", 1e-3),
            f"a file; {most} open at most",
        )


def state(options: argparse.Namespace, path: Path) -> Iterator[Row]:
    files = links(path.parent / "state", path, 2)
    with fb.Pool("processes", workers=2) as pool:
        process = functools.partial(
            fb.process,
            files,
            by="batch",
            preload=["x0"],
            reduce=operator.add,
            progress=False,
            output_batch_size=1000,
            executor=pool,
        )
        calls = {
            "returned arrays of 8 MB": functools.partial(process, returned),
            "one state of 8 MB per worker": functools.partial(process, fill, state=made),
        }
        for label, runs in alternate(calls, options.runs).items():
            yield Row(label, runs, note="CPU of the calling process only")


GROUPS: dict[str, Callable[[argparse.Namespace, Path], Iterator[Row]]] = {
    "events": events,
    "dask": dask,
    "processes": processes,
    "files": many_files,
    "state": state,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="timed rounds (default: 5)")
    parser.add_argument("--events", type=int, default=100_000, help="events of a file")
    parser.add_argument("--repeat", type=int, default=12, help="files of the comparison of processes")
    parser.add_argument("--files", type=int, default=10_000, help="number of small files")
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), help="some of the tables")
    parser.add_argument("--out", type=Path, help="where the input is written")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every time of every run there, too")
    options = parser.parse_args()
    found: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory(dir=options.out) as folder:
        path = Path(folder) / "input.root"
        write(path, options.events, 0)
        load = os.getloadavg()[0]
        for name in options.only or GROUPS:
            say(name)
            found[name] = list(GROUPS[name](options, path))
    rows = [row.cells() for some in found.values() for row in some]
    print("# process\n\n" + table(["", "elapsed", "CPU", ""], rows))
    print(f"\nLoad of the machine before and after: {load:.1f}, {os.getloadavg()[0]:.1f}. {machine()}")
    if options.json:
        times = {name: {row.label: [vars(run) for run in row.runs] for row in rows} for name, rows in found.items()}
        options.json.write_text(json.dumps(times, indent=1))


if __name__ == "__main__":
    main()
