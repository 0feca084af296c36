"""Measure columns that are touched lazily over a slow connection: what is learned, and what it saves.

    python benchmarks/prefetch.py [--runs N] [--steps N] [--step N] [--rtt MS] [--coffea PYTHON] [--json FILE]

A NanoAOD file of 1479 columns is read from an XRootD server on this machine, through a Toxiproxy that adds latency. Its
events are drawn at random from `../shared/data/ttree/nanoaod_v5_1000.root` and stored as RNTuple. An analysis touches
15 columns in each step, one by one, and 3 more in every third step. Readers are separate processes, which run in turn:
the columns named beforehand; virtual arrays; virtual arrays that learn nothing; and coffea's virtual arrays
over uproot, with the interpreter of --coffea. Prints a Markdown report; the exit code is always 0.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from servers import ServerError, Xrootd, own
from toxiproxy import Toxiproxy

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent / "shared/data/ttree/nanoaod_v5_1000.root"
WARM_UP = SOURCE.with_name("nanoaod_2015_ttbar_200.root")
WORKER = HERE / "_prefetch_worker.py"
EVERY = 3  # steps per step that touches further columns
READERS = {
    "named": "columns named beforehand",
    "learned": "virtual, learned",
    "off": "virtual, nothing is learned",
    "coffea": "coffea, virtual",
}


def make(path: Path, steps: int, step: int) -> None:
    """Write the ntuple, with a cluster for each step."""
    import numpy as np

    import femtobarn as fb

    nt = fb.open(f"{SOURCE}:Events")
    events, random = nt.arrays(), np.random.default_rng(1)
    with fb.recreate(path) as file:
        out = file.mkrntuple("Events", events[:0])
        for _ in range(steps):
            out.extend(events[random.integers(0, len(events), step)])
            out.commit_cluster()


def ask(python: str, reader: str, url: str, warm_up: str, step: int) -> dict[str, Any]:
    command = [python, str(WORKER), reader, url, warm_up, str(step), str(EVERY)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONHOME"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1800)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return {"error": lines[-1] if lines else f"exit code {done.returncode}"}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def row(reader: str, runs: list[dict[str, Any]], named: list[float]) -> list[str]:
    seconds = [run["seconds"] for run in runs]
    ratios = [own / other for own, other in zip(seconds, named, strict=False)]
    rounds = runs[0].get("rounds")
    log = (runs[0].get("logs") or [{}])[0]
    unused = f"{log['bytes_unused'] / 1e6:.1f}" if log else ""
    return [
        READERS[reader],
        " ".join(map(str, rounds)) if rounds else "",
        f"{runs[0]['bytes'] / 1e6:.1f}" if "bytes" in runs[0] else "",
        unused,
        f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})",
        f"{statistics.median(ratios):.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="rounds in which all readers take part (default: 5)")
    parser.add_argument("--steps", type=int, default=12, help="number of steps (default: 12)")
    parser.add_argument("--step", type=int, default=20_000, help="entries per step and cluster (default: 20000)")
    parser.add_argument("--rtt", type=int, default=50, help="round-trip time in milliseconds (default: 50)")
    parser.add_argument("--coffea", help="an interpreter that has coffea, uproot and fsspec-xrootd")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run there, too")
    options = parser.parse_args()
    if not SOURCE.exists():
        print(f"Nothing is measured: {SOURCE} is missing")
        return
    readers = [reader for reader in READERS if reader != "coffea" or options.coffea]
    found: dict[str, list[dict[str, Any]]] = {reader: [] for reader in readers}
    with ExitStack() as stack:
        try:
            server, proxy = Xrootd(), stack.enter_context(Toxiproxy())
        except ServerError as error:
            print(f"Nothing is measured: {error}")
            return
        stack.callback(server.close)
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "nano.root"
            make(made, options.steps, options.step)
            size = made.stat().st_size
            (server.data / "nano.root").write_bytes(made.read_bytes())
        (server.data / "warm.root").write_bytes(WARM_UP.read_bytes())
        own(server.data)
        port = proxy.before(server.port)
        proxy.poison(port, "latency", latency=options.rtt)
        url, warm_up = f"root://127.0.0.1:{port}//nano.root", f"root://127.0.0.1:{server.port}//warm.root"
        for turn in range(options.runs):
            for reader in list(readers):
                print(f"round {turn + 1}: {READERS[reader]}", file=sys.stderr, flush=True)
                python = options.coffea if reader == "coffea" else sys.executable
                run = ask(python, reader, url, warm_up, options.step)
                found[reader].append(run)
                if "error" in run:
                    readers.remove(reader)
    report(found, options, size)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


def report(found: dict[str, list[dict[str, Any]]], options: argparse.Namespace, size: int) -> None:
    print(f"# Columns that are touched lazily, {options.rtt} ms\n")
    print(f"`{' '.join(sys.argv)}`; load average {os.getloadavg()[0]:.1f}\n")
    print(f"{size / 1e6:.1f} MB, {options.steps} steps of {options.step} events\n")
    print("| reader | round trips of each step | MB | MB unused | seconds: median (min to max) | ÷ named |")
    print("|---|---|---:|---:|---|---:|")
    named = [run["seconds"] for run in found["named"] if "seconds" in run]
    errors = []
    for reader, runs in found.items():
        ran = [run for run in runs if "seconds" in run]
        errors += [f"- {READERS[reader]}: **failed**: {run['error']}" for run in runs if "error" in run]
        if ran:
            print("| " + " | ".join(row(reader, ran, named)) + " |")
    sums = [run["sums"][:15] for runs in found.values() for run in runs[:1] if "sums" in run]
    equal = all(abs(a - b) <= 1e-6 * abs(a) for one in sums for a, b in zip(one, sums[0], strict=True))
    print("\n" + "\n".join([f"- sums of the 15 columns: {'equal' if equal else '**NOT EQUAL**'}", *errors]))


if __name__ == "__main__":
    main()
