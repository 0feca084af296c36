"""Measure coffea on femtobarn and on uproot: the ttbar analysis of the AGC, a chunk's overhead, and eager events.

    python benchmarks/coffea.py [--files FILE ...] [--tree FILE] [--runs N] [--rtt MS] [--json FILE]

Nine NanoAOD files as RNTuple are processed by `examples/agc/with_coffea.py` with coffea's Runner and with femtobarn's.
They are those of --files, or are drawn at random from `../shared/data/ttree/nanoaod_v5_1000.root`. The overhead is the
time to make events of an open file and to touch the pt of jets, for one event. --tree is a TTree whose first events are
read at once. With --rtt, a file is read through a Toxiproxy that adds latency. Readers are separate processes, which
run in turn. Prints a Markdown report; the exit code is always 0.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "scripts"), str(HERE.parent / "examples/agc")]
# this file is called as the package that it measures
sys.path = [path for path in sys.path if Path(path or ".").resolve() != HERE]

SOURCE = HERE.parent.parent / "shared/data/ttree/nanoaod_v5_1000.root"
READERS = {"coffea": "coffea on uproot", "femtobarn": "coffea on femtobarn"}
EAGER_EVENTS = 2_000
CHUNKS = 6


def from_root(reader: str, file: Any, **options: Any) -> Any:
    if reader == "coffea":
        from coffea.nanoevents import NanoEventsFactory

        return NanoEventsFactory.from_root(file, **options).events()
    import femtobarn.coffea

    return femtobarn.coffea.from_root(file, **options)


def agc(reader: str, files: list[str]) -> dict[str, Any]:
    """Run the analysis twice in one process; the first run includes imports of what is imported late."""
    import with_coffea
    from coffea import processor
    from samples import fileset_of

    fileset = fileset_of(files)
    runner = with_coffea.Runner if reader == "femtobarn" else processor.Runner
    found = []
    for _ in range(2):
        began, used = time.perf_counter(), time.process_time()
        out = with_coffea.run(fileset, runner=runner, chunksize=500_000)
        found.append((time.perf_counter() - began, time.process_time() - used))
    sums = {name: float(filled.histogram.sum(flow=True).value) for name, filled in out.items()}
    return {"seconds": min(one for one, _ in found), "cpu": min(cpu for _, cpu in found), "check": sums}


def overhead(reader: str, files: list[str]) -> dict[str, Any]:
    """Make events of one entry of an open file, and touch a column."""
    import uproot

    import femtobarn as fb

    url = files[0]
    file = {url: "Events"} if reader == "coffea" else fb.open(f"{url}:Events")
    if reader == "coffea":
        directory = uproot.open(url)
    found, check = [], 0.0
    for at in range(CHUNKS):
        began, used = time.perf_counter(), time.process_time()
        if reader == "coffea":
            events = from_root(reader, directory, treepath="Events", entry_start=at, entry_stop=at + 1)
        else:
            events = from_root(reader, file, entry_start=at, entry_stop=at + 1)
        check += float(events.Jet.pt.to_list()[0][0] if len(events.Jet.pt.to_list()[0]) else 0)
        found.append((time.perf_counter() - began, time.process_time() - used))
    seconds, cpu = (min(times) for times in zip(*found[1:], strict=True))
    return {"seconds": seconds, "cpu": cpu, "first": found[0], "check": {"pt": check}}


def eager(reader: str, files: list[str]) -> dict[str, Any]:
    """Read all columns of a tree at once; what Numba compiles was compiled before."""
    import awkward as ak

    from_root(reader, {files[0]: "Events"}, mode="eager", entry_stop=1)
    began, used = time.perf_counter(), time.process_time()
    events = from_root(reader, {files[0]: "Events"}, mode="eager", entry_stop=EAGER_EVENTS)
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    return {"seconds": seconds, "cpu": cpu, "check": {"pt": float(ak.sum(events.Jet.pt)), "n": len(events)}}


def remote(reader: str, files: list[str]) -> dict[str, Any]:
    """Touch 15 columns in each of some chunks."""
    import awkward as ak

    import femtobarn as fb

    columns = ("pt", "eta", "phi", "mass", "btagCSVV2", "jetId")
    opened = fb.open(f"{files[0]}:Events")
    ntuple = opened if reader == "femtobarn" else None
    n, found, total = opened.num_entries // CHUNKS, [], 0.0
    for at in range(CHUNKS):
        began = time.perf_counter()
        limits = {"entry_start": at * n, "entry_stop": (at + 1) * n}
        events = from_root(reader, ntuple if ntuple is not None else {files[0]: "Events"}, **limits)
        for name in columns:
            total += float(ak.sum(events.Jet[name]))
        for name in ("pt", "eta", "sip3d", "cutBased"):
            total += float(ak.sum(events.Electron[name]))
        for name in ("pt", "eta", "sip3d", "tightId", "pfRelIso04_all"):
            total += float(ak.sum(events.Muon[name]))
        found.append(time.perf_counter() - began)
        del events
    requests = None if ntuple is None else ntuple.metrics.requests
    return {"seconds": sum(found), "chunks": found, "requests": requests, "check": {"sum": total}}


TASKS = {"agc": agc, "overhead": overhead, "eager": eager, "remote": remote}


def ask(task: str, reader: str, files: list[str]) -> dict[str, Any]:
    command = [sys.executable, __file__, "--worker", task, reader, *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return {"error": lines[-1] if lines else f"exit code {done.returncode}"}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def made(folder: Path) -> list[str]:
    """Write the files."""
    import numpy as np

    import femtobarn as fb

    events, files = fb.open(f"{SOURCE}:Events").arrays(), []
    for seed in range(9):
        random = np.random.default_rng(seed)
        path = folder / f"nano_{seed}.root"
        with fb.recreate(path) as file:
            out = file.mkrntuple("Events", events[:0])
            for _ in range(2):
                out.extend(events[random.integers(0, len(events), 20_000)])
                out.commit_cluster()
        files.append(str(path))
    return files


def row(task: str, runs: dict[str, list[dict[str, Any]]]) -> str:
    cells = [task]
    medians = []
    for reader in READERS:
        ran = [run["seconds"] for run in runs[reader] if "seconds" in run]
        medians.append(statistics.median(ran) if ran else float("nan"))
        cpu = [run["cpu"] for run in runs[reader] if "cpu" in run]
        used = f"; CPU {statistics.median(cpu):.3f}" if cpu else ""
        cells.append(f"{medians[-1]:.3f} ({min(ran):.3f} to {max(ran):.3f}){used}" if ran else "**failed**")
    checks = [run["check"] for one in runs.values() for run in one if "check" in run]
    same = all(abs(check[key] - checks[0][key]) <= 1e-9 * abs(checks[0][key]) for check in checks for key in check)
    return "| " + " | ".join([*cells, f"{medians[0] / medians[1]:.1f}", "yes" if same else "**NO**"]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", nargs="+", help="nine NanoAOD files of 2015 as RNTuple")
    parser.add_argument("--tree", default=str(SOURCE), help="a NanoAOD file as TTree")
    parser.add_argument("--runs", type=int, default=3, help="rounds in which both take part (default: 3)")
    parser.add_argument("--rtt", type=int, help="also read through a proxy with this round-trip time in milliseconds")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="what to measure")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run there, too")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        warnings.simplefilter("ignore")
        task, reader, *files = options.worker
        print(json.dumps(TASKS[task](reader, files)))
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        files = options.files or made(folder)
        inputs = {"agc": files, "overhead": files[:1], "eager": [options.tree], "remote": []}
        if options.rtt:
            inputs["remote"] = [proxied(files[0], options.rtt, stack)]
        tasks = [task for task in options.tasks if inputs[task]]
        found: dict[str, dict[str, list[dict[str, Any]]]] = {task: {reader: [] for reader in READERS} for task in tasks}
        for turn in range(options.runs):
            for task in tasks:
                for reader in READERS:
                    print(f"round {turn + 1}: {task}, {READERS[reader]}", file=sys.stderr, flush=True)
                    found[task][reader].append(ask(task, reader, inputs[task]))
    print(f"# coffea\n\n`{' '.join(sys.argv)}`; load average {os.getloadavg()[0]:.1f}\n")
    print(f"| task | {' | '.join(READERS.values())} | ratio | equal |\n|---|---:|---:|---:|---|")
    for task in tasks:
        print(row(task, found[task]))
    for task in tasks:
        for reader, runs in found[task].items():
            for error in {run["error"] for run in runs if "error" in run}:
                print(f"- {task}, {READERS[reader]}: **failed**: {error}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


def proxied(file: str, rtt: int, stack: ExitStack) -> str:
    """Return the URL of a file on an XRootD server behind a proxy that adds latency."""
    from servers import Xrootd, own
    from toxiproxy import Toxiproxy

    server, proxy = Xrootd(), stack.enter_context(Toxiproxy())
    stack.callback(server.close)
    (server.data / "nano.root").write_bytes(Path(file).read_bytes())
    own(server.data)
    port = proxy.before(server.port)
    proxy.poison(port, "latency", latency=rtt)
    return f"root://127.0.0.1:{port}//nano.root"


if __name__ == "__main__":
    main()
