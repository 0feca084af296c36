"""Measure reading one file from several servers: of unequal speed, one that falls silent, one that goes away.

    python benchmarks/sources.py [--size MB] [--runs N] [--rate MB/s] [--pairs ...] [--json FILE]

Writes a file of random numbers, and puts it on two servers of this machine, each behind a Toxiproxy that limits the
rate of each connection. Every run is a separate process that reads all of the file. Prints a Markdown report with the
goals; the exit code is always 0.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from _measure import say
from _report import duration, machine, table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from object_servers import Minio
from servers import Nginx, Server, Xrootd, own
from toxiproxy import Toxiproxy

PAIRS = ["XRootD+XRootD", "XRootD+HTTP", "XRootD+S3"]
AFTER = 1.0  # seconds from the beginning of a read until a server fails
RATIO = 10  # the second server of unequal ones is so much slower
ALONE = 1.05  # how much longer a good server may take with this layer

CHILD = """
import json, sys, time
import femtobarn as fb
urls, options, warm = json.loads(sys.argv[1])
with fb.open(warm, storage_options=options) as nt:
    nt.arrays(entry_stop=1000)
print("begin", flush=True)
start = time.perf_counter()
with fb.open([urls], storage_options=options) as nt:
    array = nt.arrays()
    seconds = time.perf_counter() - start
    sources = [source.to_dict() for source in nt.sources]
    size, requests = nt.metrics.bytes_read, nt.metrics.requests
total = float(sum(array[name][-1] for name in array.fields))
print(json.dumps({"seconds": seconds, "bytes": size, "requests": requests, "last": total, "sources": sources}))
"""


@dataclass
class Place:
    """A server with the file, and a proxy before it."""

    protocol: str
    server: Server
    proxy: int

    def url(self, port: int | None = None) -> str:
        port = self.proxy if port is None else port
        if self.protocol == "S3":
            return "s3://public/f.root"
        return f"root://127.0.0.1:{port}//f.root" if self.protocol == "XRootD" else f"http://127.0.0.1:{port}/f.root"

    @property
    def options(self) -> dict[str, Any]:
        is_s3 = self.protocol == "S3"
        return {"anonymous": True, "endpoint": f"http://127.0.0.1:{self.proxy}"} if is_s3 else {}


@dataclass
class Case:
    """One row: how a file is read, and what was found."""

    label: str
    runs: list[dict[str, Any]] = field(default_factory=list)

    def seconds(self) -> float:
        return statistics.median(run["seconds"] for run in self.runs)

    def rate(self) -> float:
        return statistics.median(run["bytes"] / run["seconds"] for run in self.runs)

    def shares(self) -> str:
        sources = self.runs[-1]["sources"]
        return ", ".join(f"{source['num_bytes'] / 1e6:.0f} MB ({source['state']})" for source in sources)


class Pair:
    """Two servers with the same file."""

    def __init__(self, name: str, path: Path, toxiproxy: Toxiproxy, stack: ExitStack) -> None:
        self.name, self.toxiproxy = name, toxiproxy
        self.places = [self._place(protocol, path, stack) for protocol in name.split("+")]

    def _place(self, protocol: str, path: Path, stack: ExitStack) -> Place:
        server: Server = {"XRootD": Xrootd, "HTTP": Nginx, "S3": Minio}[protocol]()
        stack.callback(server.close)
        name = "public/f.root" if protocol == "S3" else "f.root"
        server.put(name, path.read_bytes())
        if protocol == "XRootD":
            own(server.data)
        return Place(protocol, server, self.toxiproxy.before(server.port))

    def heal(self, *rates: float) -> None:
        """Set the rate of each proxy, in bytes per second for each connection; 0 means no limit."""
        for place, rate in zip(self.places, rates, strict=True):
            self.toxiproxy.heal(place.proxy)
            if rate:
                self.toxiproxy.poison(place.proxy, "bandwidth", rate=int(rate / 1000))

    def read(self, places: list[Place], after: Callable[[], None] | None = None) -> dict[str, Any]:
        """Read the file in a process of its own; something happens meanwhile."""
        options = {name: value for place in places for name, value in place.options.items()}
        first = self.places[0]
        warm = first.url(first.server.port)
        given = json.dumps([[place.url() for place in places], options, warm])
        command = [sys.executable, "-W", "ignore", "-c", CHILD, given]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            child.stdout.readline()
            timer = threading.Timer(AFTER, after) if after is not None else None
            if timer is not None:
                timer.start()
            found: dict[str, Any] = json.loads(child.stdout.readline())
            if timer is not None:
                timer.join()
        return found


def write(path: Path, megabytes: int) -> None:
    """Write random numbers, which no compression makes smaller."""
    import femtobarn as fb

    generator = np.random.default_rng(31)
    n = megabytes * 1_000_000 // 32
    columns = {name: generator.random(n) for name in "abcd"}
    fb.write(path, columns, name="Events", compression=None)


def measure(pair: Pair, rate: float, runs: int) -> tuple[list[list[str]], dict[str, Any]]:
    """Return the rows of a pair, and all figures."""
    first, second = pair.places
    cases: dict[str, Case] = {}

    def run(
        label: str, places: list[Place], rates: tuple[float, float], after: Callable[[], None] | None = None
    ) -> None:
        say(f"{pair.name}: {label}")
        pair.heal(*rates)
        cases.setdefault(label, Case(label)).runs.append(pair.read(places, after))

    def silent() -> None:
        pair.toxiproxy.poison(first.proxy, "timeout", timeout=0)

    def away() -> None:
        pair.toxiproxy.close_way(first.proxy)

    equal, unequal = (rate, rate), (rate, rate / RATIO)
    for _ in range(runs):
        run("the first server alone", [first], (0, 0))
        pair.toxiproxy.close_way(second.proxy)
        run_away = pair.read([first, second])
        cases.setdefault("with a second one that is away", Case("")).runs.append(run_away)
        pair.toxiproxy.open_way(second.proxy)
        run("the first, limited", [first], equal)
        run("the second, limited", [second], equal)
        run("the second, at a tenth", [second], unequal)
        run("both, limited", [first, second], equal)
        run("both, the second at a tenth", [first, second], unequal)
        run("both, the first falls silent", [first, second], equal, silent)
        run("both, the first goes away", [first, second], equal, away)
        pair.toxiproxy.open_way(first.proxy)

    def lost(label: str) -> float:
        # until the failure both read, then the second alone
        n_bytes = cases[label].runs[0]["bytes"]
        before = cases["both, limited"].rate() * AFTER
        left = max(0.0, n_bytes - before)
        return cases[label].seconds() - (AFTER + left / cases["the second, limited"].rate())

    def goal(label: str) -> str:
        alone = {name: cases[name].rate() for name in cases}
        if label == "with a second one that is away":
            found = cases[label].seconds() / cases["the first server alone"].seconds()
            return f"≤ {ALONE} times alone: {found:.2f} {'✓' if found <= ALONE else '✗'}"
        if label == "both, limited":
            found = alone[label] / (alone["the first, limited"] + alone["the second, limited"])
            return f"≥ 0.9 of the sum: {found:.2f} {'✓' if found >= 0.9 else '✗'}"
        if label == "both, the second at a tenth":
            found = alone[label] / (alone["the first, limited"] + alone["the second, at a tenth"])
            return f"≥ 0.9 of the sum: {found:.2f} {'✓' if found >= 0.9 else '✗'}"
        if label in ("both, the first falls silent", "both, the first goes away"):
            return f"≤ 2 s lost: {lost(label):.2f} s {'✓' if lost(label) <= 2 else '✗'}"
        return ""

    lasts = {round(run["last"], 6) for case in cases.values() for run in case.runs}
    rows = [
        [label, duration(case.seconds()), f"{case.rate() / 1e6:.0f}", case.shares(), goal(label)]
        for label, case in cases.items()
    ]
    if len(lasts) > 1:
        rows.append(["**the values differ**", "", "", "", ""])
    return rows, {label: case.runs for label, case in cases.items()}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=400, help="size of the file in MB (400)")
    parser.add_argument("--rate", type=float, default=60, help="limit of each connection in MB/s (60)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each row (3)")
    parser.add_argument("--pairs", nargs="+", default=PAIRS, choices=PAIRS)
    parser.add_argument("--json", type=Path, help="write all runs there")
    options = parser.parse_args()
    print("# One file from two servers\n")
    about = machine()
    print(", ".join(f"{name}: {value}" for name, value in about.items()))
    print(
        f"\n{options.size} MB, {options.rate:g} MB/s for each connection, {options.runs} runs, {time.strftime('%F')}\n"
    )
    everything: dict[str, Any] = {"machine": about}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        path = folder / "f.root"
        write(path, options.size)
        toxiproxy = stack.enter_context(Toxiproxy())
        for name in options.pairs:
            rows, runs = measure(Pair(name, path, toxiproxy, stack), options.rate * 1e6, options.runs)
            everything[name] = runs
            print(f"## {name}\n")
            print(table(["read from", "median", "MB/s", "delivered by each", "goal"], rows), "\n")
    if options.json is not None:
        options.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
