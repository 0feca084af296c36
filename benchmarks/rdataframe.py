"""Measure ROOT's RDataFrame over femtobarn, against RDataFrame's own reader of RNTuples.

    python benchmarks/rdataframe.py FILE... [--name Events] [--runs N] [--threads N]

The files are RNTuples with the columns of the Analysis Grand Challenge (`make_data.py` makes such files). Both readers
run in one process, by turns, with the files in the page cache; the event loops are compiled (`rdataframe.cxx`), and the
first run of each is not counted. Prints medians of CPU and wall seconds, and the medians of the ratios of pairs:

- open: making one frame of all files, and listing its columns;
- sums: the sums of 15 columns;
- agc: the event loop of the Analysis Grand Challenge, with a frame for each file (one file is one sample).
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")

import ROOT  # noqa: E402

import femtobarn as fb  # noqa: E402

Run = Callable[[], list[float]]


def timed(run: Run) -> tuple[float, float, list[float]]:
    """Return CPU and wall seconds, and the result."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = run()
    return time.process_time() - cpu, time.perf_counter() - wall, result


def tasks(files: list[str], name: str, make: Callable[[list[str], str], Any]) -> dict[str, Run]:
    """Return what is measured, for one reader."""

    def opened() -> list[float]:
        return [float(len(make(files, name).GetColumnNames()) > 0)]

    def sums() -> list[float]:
        return list(ROOT.bench.Sums(ROOT.RDF.AsRNode(make(files, name))))

    def agc() -> list[float]:
        return [x for file in files for x in ROOT.bench.Agc(ROOT.RDF.AsRNode(make([file], name)))]

    return {"open": opened, "sums": sums, "agc": agc}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--name", default="Events")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=0, help="threads of implicit multi-threading")
    parser.add_argument("--only", nargs="*", default=["open", "sums", "agc"])
    options = parser.parse_args()
    code = Path(__file__).resolve().parent / "rdataframe.cxx"
    assert ROOT.gInterpreter.Declare(f'#pragma cling optimize(3)\n#include "{code}"')
    if options.threads:
        if "agc" in options.only:
            parser.error("the event loop of agc adds to shared sums: --threads goes with --only open sums")
        ROOT.EnableImplicitMT(options.threads)
    files = [str(file) for file in options.files]
    native = tasks(files, options.name, lambda files, name: ROOT.RDataFrame(name, files))
    own = tasks(files, options.name, lambda files, name: fb.rdataframe(files, name))
    print("| | ROOT: CPU s, wall s | femtobarn: CPU s, wall s | ROOT / femtobarn: CPU, wall | equal |")
    print("|---|---|---|---|---|")
    for what in options.only:
        pairs = [(timed(native[what]), timed(own[what])) for _ in range(options.runs + 1)][1:]
        equal = all(
            len(a[2]) == len(b[2]) and all(abs(x - y) <= 1e-9 * abs(x) for x, y in zip(a[2], b[2], strict=True))
            for a, b in pairs
        )
        median = [statistics.median(pair[side][k] for pair in pairs) for side in (0, 1) for k in (0, 1)]
        ratio = [statistics.median(a[k] / b[k] for a, b in pairs) for k in (0, 1)]
        print(
            f"| {what} | {median[0]:.3f}, {median[1]:.3f} | {median[2]:.3f}, {median[3]:.3f} "
            f"| {ratio[0]:.2f}, {ratio[1]:.2f} | {'yes' if equal else 'NO'} |"
        )


if __name__ == "__main__":
    main()
