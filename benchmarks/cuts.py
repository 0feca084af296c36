"""Measure reading with a cut against reading everything and masking it, and a rare cut over a remote file.

    python benchmarks/cuts.py [--file FILE] [--runs N] [--json FILE]

Reads the 15 columns of the Analysis Grand Challenge of the events that pass a cut (many, few or none of them) from a
NanoAOD file of `make_data.py`, in this process, in turn with reading all and masking. Then a cut that leaves
1 in 10,000 entries is read from XRootD and nginx on this machine, where a proxy counts requests and bytes. Prints a
Markdown report; the exit code is always 0.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from _proxies import Counting
from _report import duration, machine, table
from _worker import AGC

import femtobarn as fb

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from servers import Nginx, Xrootd, own

DEFAULT = Path(__file__).resolve().parent / "data" / "100000" / "nano_zstd.root"
CUTS = {
    "4 jets of 30 GeV": ("count(Jet_pt > 30) >= 4", lambda ak, e: ak.sum(e.Jet_pt > 30, axis=1) >= 4),
    "missing energy of 150 GeV": ("MET_pt > 150", lambda ak, e: e.MET_pt > 150),
    "nothing": ("MET_pt < 0", lambda ak, e: e.MET_pt < 0),
}
RARE = {
    "all entries": None,
    "`cut=`, 1 in 10,000 left, everywhere": "event % 10000 == 7",
    "`cut=`, 1 in 10,000 left, side by side": "event % 100000 < 10",
}


def masked(path: Path, columns: list[str], mask: Callable[..., Any]) -> Any:
    import awkward as ak

    events = fb.open(path).arrays(columns, threads=1)
    return events[mask(ak, events)]


def packed(path: Path, columns: list[str], mask: Callable[..., Any]) -> Any:
    """Mask, and take the entries: Awkward does so when a column is used."""
    import awkward as ak

    return ak.to_packed(masked(path, columns, mask))


def timed(read: Callable[[], Any]) -> tuple[float, float, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    found = read()
    return time.perf_counter() - wall, time.process_time() - cpu, found


def local(path: Path, runs: int) -> tuple[list[list[str]], dict[str, Any]]:
    import awkward as ak

    rows, numbers = [], {}
    for name, (cut, mask) in CUTS.items():
        needed = [column for column in ("Jet_pt", "MET_pt") if column in cut and column not in AGC]
        columns = [*AGC, *needed]
        readers = {
            "read all, mask": lambda columns=columns, mask=mask: masked(path, columns, mask),
            "read all, mask, take the entries": lambda columns=columns, mask=mask: packed(path, columns, mask),
            "`cut=`": lambda cut=cut, columns=columns: fb.open(path).arrays(columns, cut, threads=1),
        }
        times: dict[str, list[tuple[float, float]]] = {label: [] for label in readers}
        results = {}
        for _ in range(runs + 1):
            for label, read in readers.items():
                wall, cpu, results[label] = timed(read)
                times[label].append((wall, cpu))
        one, _, other = results.values()
        assert len(one) == len(other)
        assert all(ak.array_equal(one[column], other[column], equal_nan=True) for column in columns)
        left = len(one) / fb.open(path).num_entries
        for label, own_times in times.items():
            wall, cpu = (statistics.median(each) for each in zip(*own_times[1:], strict=True))
            rows.append([f"{name} ({left:.2%})", label, duration(wall), duration(cpu)])
            numbers[f"{name}, {label}"] = {"seconds": wall, "cpu": cpu, "left": left}
    return rows, numbers


def remote(path: Path) -> tuple[list[list[str]], dict[str, Any]]:
    rows, numbers = [], {}
    for kind, start in {"XRootD": Xrootd, "HTTP": Nginx}.items():
        with closing(start()) as server:
            server.put("nano.root", path.read_bytes())
            own(server.data)
            counted = Counting(server.port, kind == "XRootD")
            url = server.url.replace(str(server.port), str(counted.port)) + "/nano.root"
            for label, cut in RARE.items():
                nt = fb.open(url)
                _ = nt.clusters  # page lists
                before = nt.metrics
                counted.take()
                wall, _, found = timed(lambda nt=nt, cut=cut: nt.arrays([*AGC, "event"], cut))
                asked, after = counted.take(), nt.metrics
                n_bytes = after.bytes_read - before.bytes_read
                requests = sum(n for name, n in asked.items() if name != "bytes")
                rows.append([kind, label, f"{len(found):,}", f"{n_bytes / 1e6:.2f} MB", str(requests), duration(wall)])
                numbers[f"{kind}, {label}"] = {"bytes": n_bytes, "requests": asked, "seconds": wall}
    return rows, numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", type=Path, default=DEFAULT)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", nargs="*", choices=["local", "remote"], default=["local", "remote"])
    asked = parser.parse_args()
    print("\n".join(f"- {name}: {value}" for name, value in machine().items()))
    numbers: dict[str, Any] = {}
    if "local" in asked.only:
        rows, found = local(asked.file, asked.runs)
        print("\n" + table(["cut (entries left)", "reader", "wall", "CPU"], rows))
        numbers |= found
    if "remote" in asked.only:
        rows, found = remote(asked.file)
        print("\n" + table(["server", "read", "entries", "bytes", "requests", "wall"], rows))
        numbers |= found
    if asked.json:
        asked.json.write_text(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    main()
