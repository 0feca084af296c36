"""Measure the ttbar analysis of the AGC, whole: on femtobarn, with coffea on uproot, and with ROOT's RDataFrame.

    python benchmarks/agc.py [--data DIR] [--events N] [--runs N] [--only local split executors remote]
                             [--formats RNTuple TTree] [--rtt 0 25 50] [--json FILE]

Nine samples with all variations fill 124 histograms, by `examples/agc`. The input is nine NanoAOD files of 44,000
events, as RNTuple and as TTree, which are made if they are missing. Each line of a table is a process of its own, in
which all code is loaded and compiled; they run in turn, once a round. The histograms are compared. Prints a Markdown
report; the exit code is always 0. README.md in this directory describes the measurement.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import make_data
from _measure import Entry, ratios
from _report import Group, close, machine, table
from _run import arguments, measure

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from servers import Xrootd, own
from toxiproxy import Toxiproxy

N_SAMPLES = 9
FORMATS = {"RNTuple": "zstd", "TTree": "tree_zstd"}
VARIANTS = {
    "flat": {"competitor": "Analysis", "variant": "flat"},
    "awkward": {"competitor": "Analysis", "variant": "awkward"},
    "coffea": {"competitor": "Coffea", "variant": "coffea", "reader": "femtobarn"},
    "RDataFrame": {"competitor": "Rdf", "variant": "rdataframe", "reader": "femtobarn"},
}
UPROOT, ROOT = "coffea on uproot", "native RDataFrame"
PEERS = {
    ROOT: {"competitor": "Rdf", "variant": "rdataframe", "reader": "root"},
    UPROOT: {"competitor": "Coffea", "variant": "coffea", "reader": "uproot"},
}
IN_PYTHON = ("flat", "awkward", "coffea")
EXECUTORS = ("threads", "processes", "pool", "dask")  # a pool keeps its processes between runs
PARTS = ("open", "read", "all")


def entry(label: str, files: list[list[str]], **more: Any) -> Entry:
    """Return a line; `files` are those of each run, the last ones also of all later runs."""
    name = label.split(",")[0]
    spec = {**(VARIANTS | PEERS)[name], "workers": 1, "files": files, **more}
    if name == UPROOT:  # it takes minutes
        return Entry(label, spec, rounds=1, fresh=True, checked=False)
    return Entry(label, spec)


def repeated(files: list[str], options: Any) -> list[list[str]]:
    return [files] * (options.runs + 2)


def cell(one: Entry) -> str:
    """Return CPU and wall seconds."""
    if not one.ran:
        return "**failed**"
    return f"{one.median_of('cpu'):.2f}, {one.median():.2f}"


def ratio(one: Entry, other: Entry) -> str:
    """Return the ratio of the CPU times of two lines, the median of those of the rounds."""
    found = ratios(one.processor(), other.processor())
    return f"{statistics.median(found):.2f}" if found else ""


def equal(entries: list[Entry]) -> str:
    sums = {one.label: one.check["sums"] for one in entries if "sums" in one.check}
    same = all(close(one, next(iter(sums.values()))) for one in sums.values())
    return f"- {'equal' if same else '**NOT EQUAL**'}: all bins of 124 histograms, {', '.join(sums)}"


def show(group: Group, header: list[str], rows: list[list[str]], *, compares: bool = True) -> None:
    """Print the table of a group, and what is to be said of it."""
    failed = [f"- {one.label}: **failed**: {one.error}" for one in group.entries if one.error]
    load = f"- load average {group.load_before:.1f} before, {group.load_after:.1f} after; {group.seconds:.0f} s"
    lines = [*failed, *([equal(group.entries)] if compares else []), load]
    print(f"## {group.title}\n\n{table(header, rows)}\n\n" + "\n".join(lines) + "\n", flush=True)


# -- the tables ----------------------------------------------------------------------------------------------


def local(inputs: dict[str, list[str]], options: Any) -> list[Group]:
    """Whole analyses of local files."""
    groups = []
    for name, files in inputs.items():
        each = repeated(files, options)
        entries = [entry(label, each) for label in (*VARIANTS, *PEERS)]
        entries += [entry(f"{label}, 2 threads", each, workers=2) for label in ("flat", "awkward", "RDataFrame", ROOT)]
        entries += [entry(f"{label}, not in the page cache", each, drops_pages=True) for label in ("flat", "awkward")]
        group = Group(f"{name}, local", entries)
        measure(group, options.runs)
        root = next(one for one in entries if one.label == ROOT)
        rows = [[one.label, cell(one), ratio(one, root)] for one in entries]
        show(group, ["", "CPU s, wall s", f"CPU / {ROOT}"], rows)
        groups.append(group)
    return groups


def split(inputs: dict[str, list[str]], options: Any) -> list[Group]:
    """CPU seconds of parts, from runs in which others are left out; filling is measured."""
    groups = []
    for name, files in inputs.items():
        each = repeated(files, options)
        entries, rows = [], []
        for label in (*VARIANTS, *PEERS):
            for part in PARTS:
                one = entry(f"{label}, {part}", each, part=part)
                one.checked = False
                entries.append(one)
        for label in ("flat", "awkward"):
            memory = {"competitor": "InMemory", "variant": label, "workers": 1, "files": each}
            entries.append(Entry(f"{label}, in memory", memory))
        group = Group(f"{name}, parts", entries)
        measure(group, options.runs)
        found = {one.label: one for one in entries}
        for label in (*VARIANTS, *PEERS):
            times = {part: found[f"{label}, {part}"] for part in PARTS}
            if not all(one.ran for one in times.values()):
                rows.append([label, "**failed**"])
                continue
            cpu = {part: one.median_of("cpu") for part, one in times.items()}
            filling = times["all"].median_of("filling")
            steps = cpu["open"], cpu["read"] - cpu["open"], cpu["all"] - cpu["read"] - filling
            row = [f"{max(step, 0):.2f}" for step in steps] + [f"{filling:.2f}" if filling else "(in computing)"]
            memory = found.get(f"{label}, in memory")
            above = f"{memory.median_of('cpu'):.2f}, {ratio(times['all'], memory)}" if memory else ""
            rows.append([label, *row, f"{cpu['all']:.2f}", above])
        header = ["CPU s", "opening", "reading", "computing", "filling", "sum", "in memory; sum / in memory"]
        show(group, header, rows, compares=False)
        groups.append(group)
    return groups


def executors(inputs: dict[str, list[str]], options: Any) -> list[Group]:
    """Whole analyses with two workers of each kind."""
    groups = []
    for name, files in inputs.items():
        each = repeated(files, options)
        entries = [
            entry(f"{label}, {kind}", each, executor=kind, workers=2)
            for label in IN_PYTHON
            for kind in EXECUTORS
            if (label, kind) != ("coffea", "pool")
        ]
        group = Group(f"{name}, local, two workers", entries)
        measure(group, options.runs)
        walls = {one.label: f"{one.median():.2f}" if one.ran else "**failed**" for one in entries}
        rows = [[label, *(walls.get(f"{label}, {kind}", "") for kind in EXECUTORS)] for label in IN_PYTHON]
        show(group, ["wall s", *EXECUTORS], rows)
        groups.append(group)
    return groups


def remote(inputs: dict[str, list[str]], options: Any) -> list[Group]:
    """Whole analyses over XRootD. Each run connects to a port of its own, except those with a filled cache."""
    groups = []
    with ExitStack() as stack:
        server, proxy = Xrootd(), stack.enter_context(Toxiproxy())
        stack.callback(server.close)
        for name, files in inputs.items():
            for at, file in enumerate(files):
                shutil.copy(file, server.data / f"{name}{at}.root")
        own(server.data)

        def urls(name: str, port: int) -> list[str]:
            return [f"root://127.0.0.1:{port}//{name}{at}.root" for at in range(N_SAMPLES)]

        def behind(rtt: int) -> int:
            port = proxy.before(server.port)
            if rtt:
                proxy.poison(port, "latency", latency=rtt)
            return port

        for name, files in inputs.items():
            for rtt in options.rtt:
                entries = []
                for label in (*VARIANTS, *PEERS):
                    if label == UPROOT and (name, rtt) != ("TTree", options.rtt[-1]):
                        continue  # it takes minutes
                    each = [urls(name, behind(rtt)) for _ in range(options.runs + 2)]
                    entries.append(entry(f"{label}, cold", each, warm_up=files[:1]))
                    if label in VARIANTS:
                        folder = stack.enter_context(tempfile.TemporaryDirectory())
                        same = [urls(name, behind(rtt))] * (options.runs + 3)
                        entries.append(entry(f"{label}, warm", same, cache=f"{folder}:8GB"))
                group = Group(f"{name} over XRootD, {rtt} ms", entries)
                measure(group, options.runs)
                found = {one.label: cell(one) for one in entries}
                labels = [label for label in (*VARIANTS, *PEERS) if f"{label}, cold" in found]
                rows = [[label, found[f"{label}, cold"], found.get(f"{label}, warm", "")] for label in labels]
                header = ["CPU s, wall s", "cold", "warm (a cache has all)"]
                show(group, header, rows)
                groups.append(group)
    return groups


TABLES = {"local": local, "split": split, "executors": executors, "remote": remote}


def main() -> None:
    parser = arguments(__doc__, list(TABLES), 5)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--rtt", nargs="+", type=int, default=[0, 25, 50], help="round-trip times in milliseconds")
    parser.set_defaults(events=44_000)
    options = parser.parse_args()
    folder = options.data or make_data.HERE / "data/agc"
    files = []
    try:
        for seed in range(N_SAMPLES):
            names = [FORMATS[name] for name in options.formats]
            place = folder.resolve() / str(options.events) / str(seed)
            files.append(make_data.ensure(place, options.events, options.root_python, names, seed + 1))
            make_data.path_of(place, "tree_raw").unlink(missing_ok=True)
    except make_data.MissingInputError as missing:
        print(f"Nothing is measured: {missing}")
        return
    inputs = {name: [str(one[FORMATS[name]]) for one in files] for name in options.formats}
    for path in (Path(path) for paths in inputs.values() for path in paths):
        path.read_bytes()  # into the page cache
    print(f"# The Analysis Grand Challenge, measured\n\n`python {' '.join(sys.argv)}`\n")
    for name, value in machine().items():
        print(f"- {name}: {value}")
    for name, paths in inputs.items():
        size = sum(Path(path).stat().st_size for path in paths) / 1e6
        print(f"- {name}: {len(paths)} files of {options.events} events, {size:.0f} MB")
    print()
    groups = [group for name in options.only or TABLES for group in TABLES[name](inputs, options)]
    if options.json:
        import json

        runs = {group.title: {one.label: one.runs for one in group.entries} for group in groups}
        options.json.write_text(json.dumps(runs, indent=1))


if __name__ == "__main__":
    main()
