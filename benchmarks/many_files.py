"""Measure opening and reading many files as one ntuple: time and memory by number of files, with uproot and ROOT.

    python benchmarks/many_files.py [--files N ...] [--only rntuple tree] [--limit SECONDS] [--root-python PYTHON]
                                    [--out DIR] [--json FILE]

Each file has 100 events and 1479 columns; three columns are read. The script makes ten files, and links to them. Every
run is a separate process. Prints a Markdown report; the exit code is always 0. README.md in this directory describes
the measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from _measure import say
from _report import machine, table

NUMBERS = [100, 1000, 10_000]
EVENTS = 100
DISTINCT = 10
GROUPS, MEMBERS, SINGLE = 25, 30, 704  # 25 numbers of items, 25 * 30 lists, 704 numbers and booleans
COLUMNS = ["nGroup9", "Group9_m7", "single8"]


# -- the files -----------------------------------------------------------------------------------------------


def events(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns of a file, single and in groups of lists; most have few distinct values, as in a NanoAOD."""
    import awkward as ak
    import numpy as np

    rng = np.random.default_rng(seed)
    single: dict[str, Any] = {}
    for number in range(SINGLE):
        values = rng.random(EVENTS)
        single[f"single{number}"] = values < 0.01 if number % 2 else values.astype("float32")
    groups: dict[str, Any] = {}
    for group in range(GROUPS):
        counts = rng.poisson(group / 5, EVENTS)
        members = {}
        for member in range(MEMBERS):
            values = np.round(rng.exponential(30, counts.sum()), 1).astype("float32" if member % 3 else "int32")
            members[f"m{member}"] = ak.unflatten(values, counts)
        groups[f"Group{group}"] = members
    return single, groups


def write_ntuple(path: Path, seed: int) -> None:
    import awkward as ak

    import femtobarn as fb

    columns, groups = events(seed)
    for name, members in groups.items():
        columns[f"n{name}"] = ak.to_numpy(ak.num(members["m0"])).astype("uint32")
        columns |= {f"{name}_{member}": values for member, values in members.items()}
    with fb.recreate(path) as file:
        file["Events"] = columns


def write_tree(path: Path, seed: int) -> None:
    import awkward as ak
    import uproot

    single, groups = events(seed)
    columns = single | {name: ak.zip(members) for name, members in groups.items()}
    types = {name: getattr(values, "dtype", None) or values.type.content for name, values in columns.items()}
    with uproot.recreate(path, compression=uproot.ZSTD(5)) as file:
        tree = file.mktree("Events", types, counter_name=lambda c: "n" + c, field_name=lambda o, i: f"{o}_{i}")
        tree.extend(columns)


def make(folder: Path, kind: str, number: int) -> list[Path]:
    """Return the files of one kind; after the first ten, they are links to these."""
    folder.mkdir()
    paths: list[Path] = []
    for at in range(number):
        path = folder / f"{at:06}.root"
        if at >= DISTINCT:
            os.link(paths[at % DISTINCT], path)
        elif kind == "tree":
            write_tree(path, at)
        else:
            write_ntuple(path, at)
        paths.append(path)
    return paths


# -- the competitors, each in a separate process -------------------------------------------------------------


def held() -> int:
    """Return the memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Clock:
    """Measures time and memory of a block."""

    def __enter__(self) -> Self:
        self.memory, self.start, self.cpu = held(), time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds, self.cpu = time.perf_counter() - self.start, time.process_time() - self.cpu
        self.memory = held() - self.memory

    def told(self, n_events: int) -> dict[str, Any]:
        lines = Path("/proc/self/status").read_text().splitlines()
        peak = next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
        return {"seconds": self.seconds, "cpu": self.cpu, "held": self.memory, "peak": peak, "events": n_events}


def femtobarn_open(files: list[str]) -> dict[str, Any]:
    import femtobarn as fb

    with Clock() as clock:
        nt = fb.open(files)
    return clock.told(nt.num_entries)


def femtobarn_iterate(files: list[str]) -> dict[str, Any]:
    import awkward as ak  # noqa: F401

    import femtobarn as fb

    nt = fb.open(files)
    with Clock() as clock:
        n = sum(len(some) for some in nt.iterate(COLUMNS))
    return clock.told(n)


def femtobarn_arrays(files: list[str]) -> dict[str, Any]:
    import awkward as ak  # noqa: F401

    import femtobarn as fb

    nt = fb.open(files)
    with Clock() as clock:
        array = nt.arrays(COLUMNS)
    return clock.told(len(array))


def femtobarn_one_by_one(files: list[str]) -> dict[str, Any]:
    import awkward as ak  # noqa: F401

    import femtobarn as fb

    with Clock() as clock:
        n = sum(len(some) for some in fb.iterate(files, COLUMNS))
    return clock.told(n)


def uproot_iterate(files: list[str]) -> dict[str, Any]:
    import awkward as ak  # noqa: F401
    import uproot

    with Clock() as clock:
        n = sum(len(some) for some in uproot.iterate(files, COLUMNS))
    return clock.told(n)


def uproot_arrays(files: list[str]) -> dict[str, Any]:
    import awkward as ak  # noqa: F401
    import uproot

    with Clock() as clock:
        array = uproot.concatenate(files, COLUMNS)
    return clock.told(len(array))


def root_chain(files: list[str]) -> dict[str, Any]:
    import ROOT

    with Clock() as clock:
        chain = ROOT.TChain("Events")
        for file in files:
            chain.Add(file.removesuffix(":Events"))
        n = chain.GetEntries()
    return clock.told(n)


def root_rdataframe(files: list[str]) -> dict[str, Any]:
    import ROOT

    frame = ROOT.RDataFrame("Events", [file.removesuffix(":Events") for file in files])
    results = [frame.Sum(name) for name in COLUMNS]
    with Clock() as clock:
        n = frame.Count().GetValue()
        for result in results:
            result.GetValue()
    return clock.told(n)


@dataclass(frozen=True)
class Line:
    """A row of the report: a competitor, its function, and the kinds of files that it reads."""

    label: str
    run: Callable[[list[str]], dict[str, Any]]
    kinds: tuple[str, ...] = ("rntuple", "tree")


LINES = [
    Line("femtobarn: open", femtobarn_open),
    Line("femtobarn: nt.iterate", femtobarn_iterate),
    Line("femtobarn: nt.arrays", femtobarn_arrays),
    Line("femtobarn: fb.iterate, which opens", femtobarn_one_by_one),
    Line("uproot: iterate, which opens", uproot_iterate),
    Line("uproot: concatenate, which opens", uproot_arrays),
    Line("ROOT: TChain::GetEntries, which opens", root_chain, ("tree",)),
    Line("ROOT: RDataFrame, which opens", root_rdataframe),
]


def work(number: int, folder: str, n_files: int) -> None:
    """Do one run, in a separate process."""
    files = [f"{path}:Events" for path in sorted(Path(folder).iterdir())[:n_files]]
    print(json.dumps(LINES[number].run(files)))


# -- the report ----------------------------------------------------------------------------------------------


def run(number: int, python: str, folder: Path, n_files: int, limit: float) -> dict[str, Any] | str:
    """Return the result of a run, or the reason of its failure."""
    command = [python, __file__, "--work", str(number), str(folder), str(n_files)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"more than {limit:.0f} s"
    if done.returncode:
        words = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        return f"failed: {words[-1] if words else done.returncode}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if found["events"] != EVENTS * n_files:
        return f"failed: {found['events']} events"
    return found


def row(label: str, n_files: int, found: dict[str, Any] | str) -> list[str]:
    if isinstance(found, str):
        return [label, f"{n_files:,}", found, "", "", "", ""]
    each = [f"{1e3 * found[name] / n_files:.2f} ms" for name in ("seconds", "cpu")]
    memory = [f"{found['held'] / n_files / 1e3:.0f} kB", f"{found['peak'] / 1e6:.0f} MB"]
    return [label, f"{n_files:,}", f"{found['seconds']:.2f} s", *each, *memory]


def measure(kind: str, folder: Path, options: argparse.Namespace) -> tuple[str, list[dict[str, Any]]]:
    say(f"{max(options.files)} files, {kind}")
    paths = make(folder, kind, max(options.files))
    rows, results = [], []
    for number, line in enumerate(LINES):
        if kind not in line.kinds:
            continue
        python = options.root_python if line.label.startswith("ROOT") else sys.executable
        for n_files in options.files:
            found = run(number, python, folder, n_files, options.limit)
            say(f"  {line.label}, {n_files}: {found}")
            rows.append(row(line.label, n_files, found))
            results.append({"kind": kind, "label": line.label, "files": n_files, "found": found})
            if isinstance(found, str):
                break  # more take longer
    size = sum(path.stat().st_size for path in paths[:DISTINCT]) / min(DISTINCT, len(paths))
    title = f"## {'TTree' if kind == 'tree' else 'RNTuple'}, files of {size / 1e3:.0f} kB"
    header = [
        "who, what",
        "files",
        "time",
        "for each file",
        "processor time for each",
        "memory for each",
        "peak memory",
    ]
    return "\n".join([title, "", table(header, rows), ""]), results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=NUMBERS, help="how many files there are")
    parser.add_argument("--only", nargs="+", choices=["rntuple", "tree"], default=["rntuple", "tree"])
    parser.add_argument("--limit", type=float, default=120, help="seconds that a run may take")
    parser.add_argument("--root-python", default=sys.executable, help="an interpreter that has ROOT")
    parser.add_argument("--out", type=Path, help="where the files are made (default: a temporary folder)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every result there, too")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        number, folder, n_files = options.work
        return work(int(number), folder, int(n_files))
    lines = ["# Many files as one ntuple, measured", "", *(f"- {k}: {v}" for k, v in machine().items()), ""]
    results = []
    with tempfile.TemporaryDirectory(dir=options.out) as scratch:
        for kind in options.only:
            text, found = measure(kind, Path(scratch) / kind, options)
            lines.append(text)
            results += found
    print("\n".join(lines))
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "results": results}, indent=1))
    return None


if __name__ == "__main__":
    main()
