"""Measure reading RNTuple: femtobarn, uproot, ROOT, and the minimum that any reader has to do, in one run.

    python benchmarks/read.py [--data DIR] [--events N] [--runs N] [--root-python PYTHON] [--only ...] [--json FILE]

Every competitor has a separate process, which does one untimed run first; then they take turns, once per round, with
the file in the page cache. Ratios are computed within a round. Prints a Markdown report; the exit code is always 0, as
the script does not judge the figures. README.md in this directory describes the measurement.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from _measure import Entry
from _report import Group
from _run import arguments, inputs, measure, report, spec_of

STEP_SIZE = "100 MB"
SLOW_ROUNDS = 3  # for uproot and for new processes
LARGE_MEMORY, SMALL_MEMORY = 900, 150  # MB that a run needs at least, to be touched before


class Plan:
    """The groups of measurements: competitors and files."""

    def __init__(self, files: dict[str, Path], root_python: str, settle: float) -> None:
        self.files, self.root_python = files, root_python
        self.large = {"touch": LARGE_MEMORY, "settle": settle}

    def spec(self, competitor: str, codec: str = "zstd", **more: Any) -> dict[str, Any]:
        return spec_of(competitor, self.files[codec], **more)

    def root(self, label: str, task: str, **more: Any) -> Entry:
        return Entry(label, self.spec("root", task=task), python=self.root_python, **more)

    def zstd(self) -> Group:
        def fb(**more: Any) -> dict[str, Any]:
            return self.spec("femtobarn", **self.large, **more)

        def floor(**more: Any) -> dict[str, Any]:
            return self.spec("floor", **self.large, **more)

        uproot = self.spec("uproot", again=True)
        entries = [
            Entry("femtobarn", fb(again=True), goal=("rate", 1)),
            Entry("femtobarn, checksums off", fb(verify_checksums=False), checked=False),
            Entry("femtobarn, 2 threads", fb(threads=2), goal=("speedup", 1.8)),
            Entry("femtobarn, new process", fb(), rounds=SLOW_ROUNDS, fresh=True),
            Entry("uproot", uproot, rounds=SLOW_ROUNDS, goal=("slower", 8)),
            self.root("ROOT, compiled loop over entries", "Loop", goal=("slower", 4)),
            Entry("floor: bare zstd and one copy", floor(), goal=("within", 1.5)),
            Entry("bare zstd alone", self.spec("floor", copy=False)),
            Entry("floor, 2 threads", floor(threads=2)),
            Entry("bare zstd alone, 2 threads", self.spec("floor", copy=False, threads=2)),
        ]
        return Group("All columns to Awkward, zstd", entries)

    def other(self, codec: str, floor: str) -> Group:
        def fb(**more: Any) -> dict[str, Any]:
            return self.spec("femtobarn", codec, **self.large, **more)

        entries = [
            Entry("femtobarn", fb()),
            Entry("femtobarn, checksums off", fb(verify_checksums=False), checked=False),
            Entry(floor, self.spec("floor", codec, **self.large), goal=("within", 1.5)),
        ]
        return Group(f"All columns to Awkward, {'uncompressed' if codec == 'none' else codec}", entries)

    def agc(self) -> Group:
        def fb(**more: Any) -> dict[str, Any]:
            return self.spec("femtobarn", columns="agc", again=True, touch=SMALL_MEMORY, **more)

        uproot = self.spec("uproot", again=True, columns="agc")
        entries = [
            Entry("femtobarn", fb()),
            Entry("femtobarn, and sums them", fb(sum=True)),
            Entry("femtobarn, 2 threads", fb(threads=2)),
            Entry("uproot", uproot, rounds=SLOW_ROUNDS, goal=("slower", 20)),
            self.root("ROOT, compiled RDataFrame that sums them", "AgcSums", goal=("slower", 2)),
        ]
        return Group("The 15 columns of the Analysis Grand Challenge to Awkward, zstd", entries)

    def open(self) -> Group:
        entries = [
            Entry("femtobarn", self.spec("femtobarn", task="open"), checked=False),
            Entry("uproot", self.spec("uproot", task="open"), rounds=SLOW_ROUNDS, checked=False, goal=("slower", 100)),
            self.root("ROOT, RNTupleReader::Open and all names", "Open", checked=False, goal=("slower", 1)),
        ]
        return Group("Open and keys(), zstd", entries, small=True)

    def memory(self) -> Group:
        step = {"task": "iterate", "step_size": STEP_SIZE}
        once: dict[str, Any] = {"fresh": True, "rounds": 1, "checked": False}
        entries = [
            Entry("femtobarn", self.spec("femtobarn", **step), **once),
            Entry("femtobarn, 2 threads", self.spec("femtobarn", threads=2, **step), **once),
            Entry("uproot", self.spec("uproot", **step), **once),
            self.root("ROOT, compiled loop over entries", "Loop", **once),
        ]
        return Group(f'Peak memory of iterate(step_size="{STEP_SIZE}"), all columns, zstd', entries, memory=True)

    def groups(self) -> dict[str, Group]:
        return {
            "zstd": self.zstd(),
            "lz4": self.other("lz4", "floor: bare lz4 and one copy"),
            "none": self.other("none", "floor: one copy"),
            "agc": self.agc(),
            "open": self.open(),
            "memory": self.memory(),
        }


def main() -> None:
    options = arguments(__doc__, ["zstd", "lz4", "none", "agc", "open", "memory"], runs=5).parse_args()
    files = inputs(options, ["zstd", "lz4", "none"])
    if files is None:
        return
    plan = Plan(files, options.root_python, options.settle)
    groups = {name: group for name, group in plan.groups().items() if name in (options.only or plan.groups())}
    for group in groups.values():
        measure(group, 1 if group.memory else 3 * options.runs if group.small else options.runs)
    report("Reading", groups, files, options)


if __name__ == "__main__":
    main()
