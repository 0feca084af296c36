"""Measure merging many small files: time and memory by number of files, open files, compared with ROOT's hadd.

    python benchmarks/many_inputs.py [--data DIR] [--files N] [--runs N] [--root-python PYTHON] [--only ...] [--out DIR]
                                     [--json FILE]

The files have some hundred kilobytes each, with 1479 or about 100 columns, on an XFS with reflink=1 as in merge.py.
Every run is a separate process. Prints a Markdown report; the exit code is always 0. README.md in this directory
describes the measurement.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from _image import MissingImageError, mounted
from _measure import Entry, alternate, say
from _merge_report import about
from _report import duration, machine, peak, table
from _run import NTUPLE, arguments, inputs

N_FILES = 10_000
N_HADD = 1000  # hadd takes long
IMAGE = 48 << 30
EVENTS = {"all": (20, 50, 100, 200), "few": (200, 500, 1000, 2000)}  # of a file
FEW = ["event", "run", "luminosityBlock", "MET_*", "PV_*", "Muon_*", "Jet_pt", "Jet_eta", "Jet_phi", "Jet_mass"]


class Plan:
    """Small files of one kind, and the competitors that merge them."""

    def __init__(self, name: str, folder: Path, options: argparse.Namespace) -> None:
        self.name, self.folder, self.options = name, folder, options
        self.output = folder / "out.root"
        self.files: list[Path] = []

    def make(self, base: Path) -> None:
        import femtobarn as fb

        fields = FEW if self.name == "few" else None
        pieces, at = [], 0
        for n in EVENTS[self.name]:
            piece = self.folder / f"{n}.root"
            fb.clone(base, piece, entries=slice(at, at + n), fields=fields)
            pieces.append(piece.read_bytes())
            at += n
        folder = self.folder / "files"
        folder.mkdir()
        for number in range(self.options.files):
            path = folder / f"{number:05}.root"
            path.write_bytes(pieces[number % len(pieces)])
            self.files.append(path)

    def entry(self, competitor: str, label: str, n: int, **more: Any) -> Entry:
        python = {"python": more.pop("python")} if "python" in more else {}
        rounds = {"rounds": more.pop("rounds")} if "rounds" in more else {}
        spec = {"competitor": competitor, "inputs": [str(path) for path in self.files[:n]], "output": str(self.output)}
        return Entry(f"{label}, {n}", spec | {"ntuple": NTUPLE, "handles": True} | more, fresh=True, **python, **rounds)

    def entries(self) -> list[Entry]:
        most = self.options.files
        numbers = [n for n in (most // 100, most // 10) if n] + [most]
        fb = [self.entry("FemtobarnMerger", "femtobarn, L0 or L1", n) for n in numbers]
        n_hadd = min(N_HADD, most)
        return [*fb, self.entry("Hadd", "hadd", n_hadd, python=self.options.root_python, rounds=1)]


def row(entry: Entry, hadd: float | None) -> list[str]:
    n, each = len(entry.spec["inputs"]), entry.median() / len(entry.spec["inputs"])
    n_handles = max((run.get("handles") or 0 for run in entry.runs if run is not None), default=0)
    return [
        entry.label,
        duration(entry.median()),
        f"{1e3 * each:.3f} ms",
        f"{1e3 * entry.median_of('cpu') / n:.3f} ms",
        f"{hadd / each:.1f}" if hadd else "",
        peak(entry),
        str(n_handles or ""),
        f"{entry.median_of('bytes') / 1e6:.0f} MB",
    ]


def text(name: str, plan: Plan, entries: list[Entry]) -> str:
    sizes = [path.stat().st_size for path in plan.files]
    hadd = next(
        (entry.median() / len(entry.spec["inputs"]) for entry in entries if entry.ran and "hadd" in entry.label), None
    )
    header = ["who, how many files", "median", "for each file", "processor time for each", "hadd takes, for each"]
    header += ["peak memory (of it before)", "most open files", "output"]
    rows = [row(entry, hadd) for entry in entries if entry.ran]
    notes = [f"- {entry.label}: **failed**: {entry.error}" for entry in entries if entry.error]
    columns = "all columns" if name == "all" else "few columns"
    least, mean, most = (f"{1e-3 * size:.0f}" for size in (min(sizes), statistics.mean(sizes), max(sizes)))
    title = f"## {columns}, files of {least} to {most} kB, {mean} on average"
    return "\n".join([title, "", table(header, rows), "", *notes, ""])


def main() -> None:
    parser = arguments(__doc__, ["all", "few"], runs=3)
    parser.add_argument("--out", type=Path, help="folder for the image (default: the input's)")
    parser.add_argument("--files", type=int, default=N_FILES, help="how many files there are")
    options = parser.parse_args()
    found = inputs(options, ["zstd"])
    if found is None:
        return
    base = found["zstd"]
    tables, results = [], {}
    try:
        for name in options.only or ["all", "few"]:
            with mounted(options.out or base.parent, IMAGE) as folder:
                plan = Plan(name, folder, options)
                say(f"{options.files} files, {name} columns")
                plan.make(base)
                entries = plan.entries()
                alternate(entries, options.runs)
                tables.append(text(name, plan, entries))
                results[name] = entries
    except MissingImageError as missing:
        print(f"Nothing is measured: {missing}")
        return
    every = [entry for entries in results.values() for entry in entries]
    print("\n".join(["# Merging many files, measured", "", *about(every, options.out or base.parent), "", *tables]))
    if options.json:
        plain = {name: [{"label": e.label, "runs": e.runs} for e in entries] for name, entries in results.items()}
        options.json.write_text(json.dumps({"machine": machine(), "tables": plain}, indent=1))


if __name__ == "__main__":
    main()
