"""Measure merging, cloning and skimming: femtobarn, ROOT's hadd and RDataFrame, cp, and plain disk writes, in one run.

    python benchmarks/merge.py [--data DIR] [--scale X] [--runs N] [--root-python PYTHON] [--only ...] [--out DIR]
                               [--quick] [--figure FILE] [--json FILE]

The files are on an XFS file system with reflink=1, in a temporary image below --out; this needs root. Every run is a
separate process, and the competitors take turns, once per round, with the inputs in the page cache. Ratios are computed
within a round. Prints a Markdown report; the exit code is always 0. README.md in this directory describes the
measurement.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _image import MissingImageError, mounted
from _measure import Entry, alternate, say
from _merge_report import Table, as_json, as_markdown, figure
from _outputs import contents
from _run import NTUPLE, arguments, inputs
from _worker import AGC, digests

FILE_EVENTS = 360_000  # of about 500 MB
N_FILES = 8
N_RUNS = 3  # different files; the others are copies
IMAGE = 10 << 30  # size of the image at full scale: inputs, and an output or other inputs
LEAST = 1 << 30  # minimum size
FIELDS = ["event", "MET_pt", "Muon_pt"]  # fields to compare
OTHER = 404  # the output compression of level L2: lz4, as in ROOT
ROOT_ROUNDS = 1  # for runs that take minutes


class Plan:
    """The competitors, their inputs and outputs."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder, self.options = folder, options
        self.output = folder / "out.root"

    def entry(self, competitor: str, label: str, inputs: list[Path], **more: Any) -> Entry:
        own = {key: more.pop(key) for key in ("rounds", "python", "inspect") if key in more}
        spec = {"competitor": competitor, "inputs": list(map(str, inputs)), "output": str(self.output)}
        spec |= {"ntuple": NTUPLE, "threads": 2}
        # the page cache needs memory for written data; with shared blocks, almost none is written
        n_bytes = sum(path.stat().st_size for path in inputs)
        touch = 0 if more.get("options", {}).get("level") == "L0" else (n_bytes >> 20) + 512
        spec |= {"touch": touch, "settle": self.options.settle}
        return Entry(label, spec | more, fresh=True, **own)

    def mergers(self, inputs: list[Path], *, checked: bool) -> tuple[list[Entry], list[Entry]]:
        """Return the competitors that take seconds, and those that take minutes."""
        root = self.options.root_python
        look = {"inspect": functools.partial(contents, self.output, NTUPLE, FIELDS)} if checked else {}

        def fb(level: str, label: str = "", **more: Any) -> Entry:
            given = {"level": level} | more.pop("given", {})
            return self.entry("FemtobarnMerger", f"femtobarn, {level}{label}", inputs, options=given, **more, **look)

        entries = [
            fb("L0"),
            fb("L1"),
            self.entry("Hadd", "hadd", inputs, python=root, **look),
            self.entry("Copy", "cp", inputs, folder=True),
            self.entry("DiskWriter", "writing alone", inputs),
        ]
        slow = [fb("L2", f", to {OTHER}", given={"compression": OTHER}, rounds=1), fb("L4", rounds=1)]
        if len(inputs) <= 2:
            slow.append(self.entry("Hadd", f"hadd, to {OTHER}", inputs, python=root, compression=OTHER, rounds=1))
        return entries, slow

    def volumes(self, files: list[Path]) -> list[Table]:
        """Measure one file, and more and more files. Competitors that take minutes run last."""
        tables, later = [], []
        for n in (1, 2, 4, 8):
            some = files[:n]
            checked = n == 2
            expected = joined(some) if checked else {}
            entries, slow = self.mergers(some, checked=checked)
            tables.append(measured(f"{n} files" if n > 1 else "1 file", entries, some, self.options.runs, expected))
            later.append(slow)
        if not self.options.quick:
            for table, slow in zip(tables, later, strict=True):
                say(table.heading())
                alternate(slow, self.options.runs)
                table.entries.extend(slow)
        return tables

    def numbers(self, n: int, files: list[Path]) -> Table:
        entries, _ = self.mergers(files, checked=False)
        return measured(f"{n} files", entries, files, self.options.runs, {})

    def reshaping(self, file: Path, small: Path, *, agc: bool, where: str | None) -> Table:
        root: dict[str, Any] = {"python": self.options.root_python, "small": str(small), "rounds": ROOT_ROUNDS}
        more: dict[str, Any] = {"agc": agc} | ({"where": where} if where else {})
        look = {"inspect": functools.partial(contents, self.output, NTUPLE, list(AGC))}
        what = "skim" if where else "clone"
        kind = "FemtobarnSkim" if where else "FemtobarnClone"
        entries = [
            self.entry(kind, f"femtobarn, {what}", [file], **more, **look),
            self.entry("FemtobarnRead", "femtobarn, reading the columns", [file], agc=agc),
            self.entry("RootSnapshot", "RDataFrame, Snapshot", [file], **more, **root),
        ]
        if agc:
            # several threads write events in any order
            alone = {**more, **root, **look, "threads": 1}
            entries.append(self.entry("RootSnapshot", "the same, without EnableImplicitMT", [file], **alone))
        columns = f"{len(AGC)} columns" if agc else "all columns"
        title = f"{what} of {columns}" + (f" where {where}" if where else "")
        return measured(title, entries, [file], self.options.runs, {}, reshapes=True)


def measured(
    title: str, entries: list[Entry], files: list[Path], runs: int, expected: dict[str, Any], *, reshapes: bool = False
) -> Table:
    table = Table(title, entries, sum(path.stat().st_size for path in files), len(files), expected, reshapes)
    say(table.heading())
    alternate(entries, runs)
    return table


def joined(files: list[Path]) -> dict[str, Any]:
    """Return the expected content of a merge of these files."""
    import awkward as ak
    import uproot

    parts = [uproot.open(f"{path}:{NTUPLE}").arrays(FIELDS) for path in files]
    both = ak.concatenate(parts)
    return {"events": len(both), "digests": {field: digests(both[[field]])[field] for field in FIELDS}}


def run_files(base: Path, folder: Path, n_events: int) -> list[Path]:
    """Make files with events of another one, each with a different start; level L4 gives full clusters."""
    import femtobarn as fb

    n_base = fb.open(f"{base}:{NTUPLE}").num_entries
    made = []
    for number in range(N_RUNS):
        path = folder / f"merge_{n_events}_{number}.root"
        made.append(path)
        if path.exists():
            continue
        say(f"making {path.name}")
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            pieces, at, left = [], number * n_base // 5, n_events
            while left:
                n = min(left, n_base - at)
                pieces.append(Path(scratch) / f"{len(pieces)}.root")
                fb.clone(base, pieces[-1], entries=slice(at, at + n))
                at, left = (at + n) % n_base, left - n
            whole = Path(scratch) / "whole.root"
            fb.merge([str(piece) for piece in pieces], whole, level="L4")
            whole.replace(path)
    return made


def copies(sources: list[Path], folder: Path, n: int) -> list[Path]:
    """Copy files without sharing blocks."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    targets = [folder / f"{number:03}.root" for number in range(n)]
    for number, target in enumerate(targets):
        with sources[number % len(sources)].open("rb") as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, 16 << 20)  # not copy_file_range, which may share blocks
    return targets


def two_of(files: list[Path], folder: Path) -> list[Path]:
    import femtobarn as fb

    folder.mkdir()
    made = [folder / "0.root", folder / "1.root"]
    half = len(files) // 2
    for target, some in zip(made, (files[:half], files[half:]), strict=True):
        fb.merge([str(path) for path in some], target, level="L1")
    return made


def slices_of(file: Path, folder: Path, n: int, n_events: int) -> list[Path]:
    import femtobarn as fb

    folder.mkdir()
    made = [folder / f"{number}.root" for number in range(n)]
    for number, target in enumerate(made):
        fb.clone(file, target, entries=slice(n_events * number // n, n_events * (number + 1) // n))
    return made


def rare(file: Path) -> str:
    """Return a condition that one event in a hundred satisfies."""
    import numpy as np

    import femtobarn as fb

    values = fb.open(f"{file}:{NTUPLE}").arrays(["MET_pt"], library="np")["MET_pt"]
    return f"MET_pt > {float(np.quantile(values, 0.99)):.4g}"


def all_tables(plan: Plan, runs: list[Path], n_events: int) -> dict[str, list[Table]]:
    wanted = plan.options.only or ["volumes", "numbers", "clone", "skim"]
    tables: dict[str, list[Table]] = {}
    files = plan.folder / "files"

    def volumes() -> list[Table]:
        return plan.volumes(copies(runs, files, N_FILES))

    def numbers() -> list[Table]:
        eight = copies(runs, files, N_FILES)
        two = two_of(eight, plan.folder / "two")
        shutil.rmtree(files)
        found = [plan.numbers(2, two)]
        shutil.rmtree(plan.folder / "two")
        slices = slices_of(runs[0], plan.folder / "slices", N_FILES, n_events)
        found.append(plan.numbers(64, copies(slices, files, 64)))
        return found

    def one_and_small() -> tuple[Path, Path]:
        import femtobarn as fb

        [one] = copies(runs[:1], files, 1)
        fb.clone(one, plan.folder / "small.root", entries=slice(0, 100), overwrite=True)
        return one, plan.folder / "small.root"

    def clone() -> list[Table]:
        return [plan.reshaping(*one_and_small(), agc=True, where=None)]

    def skim() -> list[Table]:
        one, small = one_and_small()
        where = rare(one)
        return [plan.reshaping(one, small, agc=agc, where=where) for agc in (True, False)]

    makers: dict[str, Callable[[], list[Table]]] = {
        "volumes": volumes,
        "numbers": numbers,
        "clone": clone,
        "skim": skim,
    }
    for name in wanted:
        plan.output.unlink(missing_ok=True)
        tables[name] = makers[name]()
        if plan.options.json:
            # keep results if a later measurement fails
            plan.options.json.write_text(json.dumps(as_json(tables), indent=1))
    return tables


def main() -> None:
    parser = arguments(__doc__, ["volumes", "numbers", "clone", "skim"], runs=3)
    parser.add_argument("--out", type=Path, help="folder for the image (default: the input's)")
    parser.add_argument("--scale", type=float, default=1, help="size of the files, 1 being 500 MB")
    parser.add_argument("--quick", action="store_true", help="without levels L2 and L4, which take minutes")
    parser.add_argument("--figure", type=Path, help="where to draw time against volume")
    options = parser.parse_args()
    found = inputs(options, ["zstd"])
    if found is None:
        return
    base = found["zstd"]
    n_events = max(1000, round(FILE_EVENTS * options.scale))
    runs = run_files(base, base.parent, n_events)
    try:
        n_bytes = max(LEAST, round(IMAGE * options.scale))
        with mounted(options.out or base.parent, n_bytes, filled=True) as folder:
            tables = all_tables(Plan(folder, options), runs, n_events)
    except MissingImageError as missing:
        print(f"Nothing is measured: {missing}")
        return
    print(as_markdown(tables, options.out or base.parent))
    if options.figure and "volumes" in tables:
        figure(tables["volumes"], options.figure)


if __name__ == "__main__":
    main()
