"""Measure the event store: its engines, HEPnOS's interface on them, Python, one function over all events.

100,000 events in 10 runs of 10 subruns with one product each. The figures of HEPnOS were measured with HEPnOS 0.7.2 on
a similar machine, with server and clients on the same two cores; redis-benchmark is measured here. Needs redis-server
and redis-cli, and for C++ a compiler, Boost and MPI (`make test` installs them).
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import _balance
from _measure import say
from _report import machine, table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from redis_servers import Redis  # noqa: E402
from servers import ServerError  # noqa: E402

N = 100_000
SIZES = (100, 800)
PARTS = ("engines", "cpp", "python", "balance", "sizes")

# HEPnOS, thousands of events per second: small (100 B), parts (800 B through Boost), pod (the same copied as bytes).
HEPNOS = {
    "write, one operation at a time": {"map": (23, 17, 20), "RocksDB": (17, 14, 17)},
    "WriteBatch 128": {"map": (540, 73, 307), "RocksDB": (140, 42, 74)},
    "WriteBatch 1024": {"map": (575, 71, 306), "RocksDB": (163, 44, 84), "TCP": (659, 76, None)},
    "asynchronous batch 1024": {"map": (594, 68, 341), "RocksDB": (128, 56, 90)},
    "iterate + load": {"map": (18.6, 16.0, 16.6), "RocksDB": (14.8, 12.0, 16.5), "TCP": (8.0, 5.8, None)},
    "Prefetcher 16/16": {"map": (30, 26, 29), "RocksDB": (23, 19, 32)},
    "async Prefetcher 128/128": {"map": (80, 63, 67), "RocksDB": (59, 43, 43), "TCP": (33, 26, None)},
    "ParallelEventProcessor, preload, 16/16": {"map": (181, 111, 149), "RocksDB": (96, 63, 75)},
    "the same, in=1024 out=256": {"map": (508, 203, 353), "RocksDB": (202, 85, 112), "TCP": (306, 140, None)},
}
# Goals of the engines: thousands of events per second with 100 B, by engine and phase.
GOALS = {
    ("memory", "store, batch"): 1500,
    ("memory", "load, by subrun"): 3000,
    ("dir", "store, batch"): 500,
    ("dir", "load, by subrun"): 1000,
}
MICROSECONDS = {"process, nothing": 5.0}  # per event, for a function that does nothing


@contextmanager
def stores(names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield functions that return the URL of an empty store for each engine."""
    with tempfile.TemporaryDirectory(prefix="femtobarn-bench-", dir=os.environ.get("FEMTOBARN_BENCH_DIR")) as folder:
        n_made = 0
        server: Any = Redis() if "redis" in names else None

        def made(name: str) -> str:
            nonlocal n_made
            n_made += 1
            if name == "redis":
                port = str(server.about()["port"])
                for words in (["config", "set", "appendonly", "no"], ["flushall"]):
                    subprocess.run(["redis-cli", "-p", port, *words], check=True, capture_output=True)
                return f"redis://127.0.0.1:{port}"
            return "memory:" if name == "memory" else f"dir:{folder}/{n_made}"

        try:
            yield {name: (lambda name=name: made(name)) for name in names}
        finally:
            if server is not None:
                server.close()


def rate(seconds: list[float], n: int = N) -> float:
    """Return thousands of events per second."""
    return n / statistics.median(seconds) / 1000


def shown(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}" if value >= 20 else f"{value:.1f}"


def program() -> Path:
    say("building the example")
    cargo = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "femtobarn-events", "--example", "speed"]
    subprocess.run(cargo, cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/examples/speed"


def engines(names: list[str], runs: int) -> tuple[str, dict[str, Any]]:
    """Measure the Rust library on each engine, in turn."""
    speed = program()
    seconds: dict[tuple[str, int], list[dict[str, float]]] = {}
    raw: dict[int, list[dict[str, float]]] = {size: [] for size in SIZES}
    with stores(names) as made:
        for turn in range(runs):
            say(f"engines, round {turn + 1} of {runs}")
            for name in names:
                for size in SIZES:
                    done = subprocess.run([speed, made[name](), str(size)], capture_output=True, text=True, check=True)
                    seconds.setdefault((name, size), []).append(json.loads(done.stdout))
                    if name == "redis":
                        raw[size].append(redis_benchmark(made[name](), size))
    rates = {
        key: {phase: rate([run[phase] for run in rounds]) for phase in rounds[0]} for key, rounds in seconds.items()
    }
    header = ["phase", *(f"{name}, {size} B" for name in names for size in SIZES), "goals"]
    phases = next(iter(rates.values()))
    rows = []
    for phase in phases:
        row = [phase, *(shown(rates[name, size][phase]) for name in names for size in SIZES)]
        goals = [(name, goal) for (name, own), goal in GOALS.items() if own == phase and name in names]
        verdicts = [f"{name} ≥ {goal} {mark(rates[name, 100][phase] >= goal)}" for name, goal in goals]
        if phase in MICROSECONDS:
            verdicts.append(f"≤ 5 µs {mark(all(1000 / rates[name, 100][phase] <= 5 for name in names))}")
        rows.append([*row, ", ".join(verdicts)])
    lines = ["## Engines, by the Rust library: thousands of events a second", "", table(header, rows), ""]
    if "redis" in names:
        lines += [beside_redis({size: rates["redis", size] for size in SIZES}, raw), ""]
    plain = {f"{name}, {size} B": rounds for (name, size), rounds in seconds.items()}
    return "\n".join(lines), {"seconds": plain, "redis-benchmark": raw}


def mark(is_reached: bool) -> str:
    return "✓" if is_reached else "✗"


def redis_benchmark(url: str, size: int) -> dict[str, float]:
    """Return thousands of fields per second of redis-benchmark with one connection, for the commands of the store.

    HSET and HMGET have 1000 fields of 8 bytes, and values with the overhead of the store; ZADD has as many members. A
    batch is an HSET and a ZADD. Loading a subrun is a ZRANGE for its events, and then an HMGET for their products.
    """
    port = url.rpartition(":")[2]
    value = "z" * (size + 5)
    fields = [f"{field:08}" for field in range(1000)]
    pairs = [word for field in fields for word in (field, value)]
    members = [word for field in fields for word in ("0", field)]
    subprocess.run(["redis-cli", "-p", port, "zadd", "z", *members], check=True, capture_output=True)
    subprocess.run(
        ["redis-cli", "-p", port, "-x", "hset", "h", *pairs[:-1]],
        input=value,
        text=True,
        check=True,
        capture_output=True,
    )

    def one(n: int, *words: str) -> float:
        command = ["redis-benchmark", "-p", port, "-c", "1", "-r", "1000000000", "-n", str(n), "--csv", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        # the arguments, which contain no quotes, come before the figures
        return float(done.stdout.strip().splitlines()[-1].rsplit('","')[-7].strip('"'))

    hset = one(200, "HSET", "h:__rand_int__", *pairs)
    zadd = one(200, "ZADD", "z:__rand_int__", *members)
    found = one(1000, "ZRANGE", "z", "[0", "+", "BYLEX", "LIMIT", "0", str(len(fields)))
    load = one(1000, "HMGET", "h", *fields)
    single = one(20_000, "HMGET", "h", fields[7]) / 1000
    return {
        "store, batch": 1 / (1 / hset + 1 / zadd),
        "load, by subrun": 1 / (1 / found + 1 / load),
        "load one by one": single,
    }


def beside_redis(rates: dict[int, dict[str, float]], raw: dict[int, list[dict[str, float]]]) -> str:
    rows = []
    for size in SIZES:
        for phase in raw[size][0]:
            limit = statistics.median(run[phase] for run in raw[size])
            found = rates[size][phase]
            own = f"{shown(found)} | {shown(limit)} | {found / limit:.2f}".split(" | ")
            rows.append([f"{phase}, {size} B", *own, f"≥ 0.7 {mark(found / limit >= 0.7)}"])
    header = ["Redis, one connection", "femtobarn", "redis-benchmark", "ratio", "goal"]
    return table(header, rows)


def cpp(names: list[str]) -> tuple[str, dict[str, Any]]:
    """Measure HEPnOS's interface on each engine, and compare with HEPnOS."""
    with tempfile.TemporaryDirectory(prefix="femtobarn-bench-") as folder, stores(names) as made:
        say("building the program of C++")
        subprocess.run([ROOT / "scripts/install_cpp.sh", f"{folder}/prefix"], cwd=ROOT, check=True, capture_output=True)
        environment = os.environ | {
            "PKG_CONFIG_PATH": f"{folder}/prefix/lib/pkgconfig",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
        }
        source = ROOT / "benchmarks/hepnos_speed.cpp"
        build = f"c++ -std=c++17 -O2 {source} $(pkg-config --cflags --libs hepnos) -o {folder}/hepnos_speed"
        subprocess.run(build, shell=True, check=True, env=environment)
        found = {}
        for name in names:
            say(f"C++, {name}")
            # a store in memory belongs to one process
            ranks = "1" if name == "memory" else "2"
            command = ["mpirun", "--oversubscribe", "-n", ranks, f"{folder}/hepnos_speed", made[name]()]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            lines = [line.rsplit(maxsplit=3) for line in done.stdout.splitlines()[2:]]
            found[name] = {phase.strip(): [float(figure) for figure in figures] for phase, *figures in lines}
    beside = {"memory": "map", "dir": "RocksDB", "redis": "TCP"}
    texts = ["## HEPnOS's interface (C++): thousands of events a second, HEPnOS's own in brackets", ""]
    header = ["phase", *(f"{name}, {kind}" for name in names for kind in ("small", "parts", "pod"))]
    rows = []
    for phase in next(iter(found.values())):
        row = [phase]
        for name in names:
            theirs = HEPNOS.get(phase, {}).get(beside[name], (None,) * 3)
            for own, other in zip(found[name][phase], theirs, strict=True):
                row.append(shown(own) if other is None else f"{shown(own)} ({shown(other)})")
        rows.append(row)
    notes = ["HEPnOS: its map backend beside memory, RocksDB beside dir, its map backend over TCP beside Redis."]
    notes += ["An empty function: how many a second the processor hands out."]
    return "\n".join([*texts, table(header, rows), "", *notes, ""]), found


def nothing(_: Any) -> None:
    """Do nothing with an event."""


def one_round(store: Any) -> dict[str, float]:
    """Return the seconds of each phase in Python."""
    import numpy as np

    import femtobarn as fb

    dataset = store.root.create_dataset("speed")
    numbers = np.arange(N)
    values = np.zeros((N, 25), "f4")
    options: dict[str, Any] = {"workers": 2, "progress": False, "output_batch_size": 64}
    with_hits = {"preload": ["hits"], **options}

    def write() -> None:
        with store.write_batch() as batch:
            places = {"run": numbers // 10_000, "subrun": numbers // 1000 % 10, "event": numbers % 1000}
            batch.store_arrays(dataset, {"hits": values}, **places)

    phases = {
        "store_arrays, 100 B": write,
        "arrays": lambda: dataset.arrays("hits"),
        "process, by event": lambda: fb.process(dataset, nothing, **options),
        "process, by batch": lambda: fb.process(dataset, nothing, by="batch", **options),
        "process, preload": lambda: fb.process(dataset, nothing, **with_hits),
        "process, event.load": lambda: fb.process(dataset, _load, **with_hits),
    }
    seconds = {}
    for phase, action in phases.items():
        started = time.perf_counter()
        action()
        seconds[phase] = time.perf_counter() - started
    return seconds


def python(names: list[str], runs: int) -> tuple[str, dict[str, Any]]:
    """Measure the Python package on each engine."""
    import femtobarn as fb

    seconds: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with stores(names) as made:
        for turn in range(runs):
            say(f"Python, round {turn + 1} of {runs}")
            for name in names:
                seconds[name].append(one_round(fb.DataStore.connect(made[name]())))
    rows = []
    for phase in seconds[names[0]][0]:
        rates = [rate([run[phase] for run in seconds[name]]) for name in names]
        row = [phase, *(f"{shown(own)}, {1000 / own:.2f} µs" for own in rates)]
        rows.append([*row, f"≤ 20 µs {mark(1000 / min(rates) <= 20)}" if phase == "process, by event" else ""])
    header = ["phase", *names, "goal"]
    title = "## Python: thousands of events a second, and microseconds an event"
    return "\n".join([title, "", table(header, rows), ""]), seconds


def sizes(files: list[Path]) -> tuple[str, dict[str, Any]]:
    """Return the bytes per NOvA event: as HDF5, and in stores; the first layout has no compression."""
    import femtobarn as fb

    found: dict[str, float] = {"HDF5": sum(path.stat().st_size for path in files)}
    with tempfile.TemporaryDirectory() as name, stores(["dir", "redis"]) as made:
        if not files:
            generator = ROOT / "examples/python/08_nova/generate.py"
            subprocess.run([sys.executable, generator, name, "--files", "10"], check=True, capture_output=True)
            files = sorted(Path(name).glob("*.h5"))
            found["HDF5"] = sum(path.stat().st_size for path in files)
        for label, engine in (("dir", "dir"), ("redis, first layout", "redis"), ("redis", "redis")):
            url = made[engine]()
            if engine == "redis":
                command = ["redis-cli", "-u", url]
                if label != "redis":
                    fb.DataStore.connect(url).close()
                    subprocess.run([*command, "hset", "{store}h", "layout", "1"], check=True, capture_output=True)
                before = _redis_memory(command)
            with fb.DataStore.connect(url) as store:
                n_events = fb.ingest(files, store.root.create_dataset("nova")).events
            found["products"] = json.loads(_fb("store", "verify", "--json", url))["bytes"]
            in_folder = Path(url.removeprefix("dir:")) / "data.mdb"
            found[label] = in_folder.stat().st_size if engine == "dir" else _redis_memory(command) - before
    header = ["events", *found]
    row = [f"{n_events:,}", *(f"{n / n_events:.0f}" for n in found.values())]
    return "\n".join(["## NOvA's files: bytes an event", "", table(header, [row]), ""]), {"n_events": n_events, **found}


def _fb(*words: str) -> str:
    program = Path(sys.executable).parent / "fb"
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


def _redis_memory(command: list[str]) -> int:
    told = subprocess.run([*command, "info", "memory"], check=True, capture_output=True, text=True).stdout
    return next(int(line.split(":")[1]) for line in told.splitlines() if line.startswith("used_memory_dataset:"))


def _load(event: Any) -> None:
    event.load("hits")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="some of the tables")
    parser.add_argument("--engines", nargs="+", choices=["memory", "dir", "redis"], default=["memory", "dir", "redis"])
    parser.add_argument("--runs", type=int, default=5, help="rounds (default: 5)")
    parser.add_argument("--nova", nargs="*", type=Path, default=[], help="HDF5 files for the part on sizes")
    parser.add_argument("--seconds", type=float, default=640, help="work of the part on balance, in seconds")
    parser.add_argument("--figure", type=Path, help="draw the balance there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every time of every run there, too")
    options = parser.parse_args()
    everything: dict[str, Any] = {}
    print("# The event store, measured", "", f"`python {' '.join(sys.argv)}`, load {os.getloadavg()[0]:.1f}", sep="\n")
    print("\n" + "\n".join(f"- {name}: {value}" for name, value in machine().items()), end="\n\n")
    for part in options.only:
        try:
            if part == "engines":
                told, everything[part] = engines(options.engines, options.runs)
            elif part == "cpp":
                told, everything[part] = cpp(options.engines)
            elif part == "python":
                told, everything[part] = python(options.engines, options.runs)
            elif part == "sizes":
                told, everything[part] = sizes(options.nova)
            else:
                everything[part] = _balance.measured(options.seconds, 3)
                told = _balance.text(everything[part], options.seconds)
                if options.figure:
                    _balance.figure(options.figure, everything[part])
        except (ServerError, OSError, subprocess.CalledProcessError) as error:
            told = f"## {part}: **not measured**: {error}\n{getattr(error, 'stderr', None) or ''}"
        print(told, flush=True)
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
