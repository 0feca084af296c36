"""Measure writing and reading ntuples in DAOS beside a bare loop in C over the same library, with values of equal size.

    python benchmarks/daos.py [--megabytes N] [--runs N] [--in-flight N ...] [--delay MICROSECONDS]
                              [--only write clone read]

The library is the stand-in of the tests, which copies values in one thread; with --delay, it answers later. Rates are
in MB/s, by the clock and by the time of processors, which other programs on the machine change less. The bare loop only
moves values. femtobarn makes pages of numbers, too, or takes them from a file (clone), and checks checksums of pages.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _report import machine, table

import femtobarn as fb

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import daos_standin  # noqa: E402

PAGE = 65_536
#: Pages of 64 KiB with their checksums that are at most 1 MiB.
JOINED = 15
POOL = "pool"


def bare_loop(folder: Path) -> Callable[[Path, int, int, int], dict[str, tuple[float, float]]]:
    """Compile the loop in C; return what runs it, by number and size of values."""
    path = folder / "bare_loop.so"
    source = daos_standin.SOURCE.parent / "bare_loop.c"
    flags = ["-O2", "-std=gnu11", "-shared", "-fPIC"]
    subprocess.run([os.environ.get("CC", "cc"), *flags, "-o", path, source, "-ldl"], check=True)
    loop = ctypes.CDLL(str(path)).bare_loop
    number, text = ctypes.c_int, ctypes.c_char_p
    loop.argtypes = [text, text, text, number, ctypes.c_size_t, number, number, number, ctypes.c_uint64]
    loop.argtypes.append(ctypes.POINTER(ctypes.c_double))

    def run(library: Path, values: int, size: int, in_flight: int) -> dict[str, tuple[float, float]]:
        best = (ctypes.c_double * 4)()
        names = [str(library).encode(), POOL.encode(), b"bare"]
        assert loop(*names, values, size, 1, in_flight, 1, 0, best) == 0
        return {"write": (best[0], best[2]), "read": (best[1], best[3])}

    return run


def rates(megabytes: float, work: Callable[[], object]) -> tuple[float, float]:
    """Return the rates by the clock and by the time of processors."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return megabytes / (time.perf_counter() - clock), megabytes / (time.process_time() - processor)


def measure(options: argparse.Namespace, folder: Path) -> list[list[str]]:
    library = daos_standin.build(folder)
    os.environ.update(FEMTOBARN_LIBDAOS=str(library))
    os.environ.pop("DAOS_STANDIN_DIR", None)
    ctypes.CDLL(str(library)).daos_standin_set(b"delay_us", ctypes.c_long(options.delay))
    bare, rows = bare_loop(folder), []
    n_pages = max(1, options.megabytes * 1_000_000 // (JOINED * PAGE)) * JOINED
    values = {"x": np.random.default_rng(1).random(n_pages * PAGE // 8)}
    megabytes = n_pages * PAGE / 1e6
    shape = {"page_size": "64 KiB", "cluster_size": f"{n_pages * (PAGE + 8)}", "compression": "none"}
    file = folder / "file.root"
    fb.write(file, values, **shape)
    for in_flight in options.in_flight:
        settings = {"requests_at_once": in_flight}
        for joined, size in ((1, "page"), (JOINED, "1 MiB")):
            url = f"daos://{POOL}/{size.replace(' ', '')}-{in_flight}"

            def write(url: str = url, size: str = size, settings: dict[str, int] = settings) -> None:
                with fb.recreate(url, storage_options=settings | {"object_size": size}) as output:
                    output.mkrntuple("Events", {"x": "float64"}, **shape).extend(values)

            def clone(url: str = url, size: str = size, settings: dict[str, int] = settings) -> None:
                fb.clone(file, url, overwrite=True, storage_options=settings | {"object_size": size})

            def read(url: str = url, settings: dict[str, int] = settings) -> None:
                ntuple = fb.open(url, storage_options=settings)
                assert ntuple.arrays(library="np")["x"][-1] == values["x"][-1]

            works = {"write": write, "clone": clone, "read": read}
            write()
            for name in options.only:
                ours, others = [], []
                for _ in range(options.runs):
                    loop = bare(library, n_pages // joined, joined * (PAGE + 8), in_flight)
                    others.append(loop["read" if name == "read" else "write"])
                    ours.append(rates(megabytes, works[name]))
                row = [name, f"{joined * (PAGE + 8):,}", str(in_flight)]
                for at in (0, 1):
                    own, other = (statistics.median(run[at] for run in runs) for runs in (ours, others))
                    row += [f"{own:.0f}", f"{other:.0f}", f"{own / other:.2f}"]
                rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--delay", type=int, default=0)
    parser.add_argument("--only", nargs="+", default=["write", "clone", "read"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        rows = measure(options, Path(folder))
    print(", ".join(machine().values()) + "\n")
    head = ["", "bytes of a value", "in flight"]
    head += ["MB/s", "bare loop", "ratio", "MB/s of processors", "bare loop", "ratio"]
    print(table(head, rows))


if __name__ == "__main__":
    main()
