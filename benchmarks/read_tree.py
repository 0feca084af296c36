"""Measure reading TTree: femtobarn, uproot, ROOT, and the minimum that any reader has to do, in one run.

    python benchmarks/read_tree.py [--data DIR] [--events N] [--runs N] [--root-python PYTHON] [--only ...]
                                    [--json FILE]

Like read.py, with the tree from which its ntuples are made. README.md in this directory describes the measurement.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from _measure import Entry
from _report import Group
from _run import arguments, inputs, measure, report, spec_of

SLOW_ROUNDS = 3  # for uproot and for new processes
ROOT_ROUNDS = 2
LARGE_MEMORY = 900  # MB that a run needs at least, to be touched before


class Plan:
    """The groups of measurements: competitors and files."""

    def __init__(self, files: dict[str, Path], root_python: str, settle: float) -> None:
        self.files, self.root_python = files, root_python
        self.large = {"touch": LARGE_MEMORY, "settle": settle}

    def root(self, path: Path, label: str, task: str, **more: Any) -> Entry:
        return Entry(label, spec_of("root", path, task=task), python=self.root_python, rounds=ROOT_ROUNDS, **more)

    def all(self, name: str, library: str) -> Group:
        path = self.files[name]

        def fb(**more: Any) -> dict[str, Any]:
            return spec_of("femtobarn", path, **self.large, **more)

        def floor(**more: Any) -> dict[str, Any]:
            return spec_of("floor", path, baskets=True, **more)

        entries = [
            Entry("femtobarn", fb()),
            Entry("femtobarn, 2 threads", fb(threads=2), goal=("speedup", 1.8)),
            Entry("femtobarn, new process", fb(), rounds=SLOW_ROUNDS, fresh=True),
            Entry("uproot", spec_of("uproot", path), rounds=SLOW_ROUNDS, goal=("slower", 3)),
            self.root(path, "ROOT, compiled RDataFrame that touches them", "TouchAll", goal=("slower", 2)),
            self.root(path, "ROOT, TTree::GetEntry for every entry", "TreeLoop"),
            Entry(f"floor: bare {library} and one copy", floor(**self.large), goal=("within", 1.5)),
            Entry(f"bare {library} alone", floor(copy=False)),
            Entry("floor, 2 threads", floor(**self.large, threads=2)),
        ]
        if name != "tree_zstd":  # takes half a minute, almost none of it in the library
            entries = [entry for entry in entries if entry.spec.get("task") != "TouchAll"]
        return Group(f"All columns of a TTree to Awkward, {name.removeprefix('tree_')}", entries)

    def memory(self) -> Group:
        path = self.files["tree_zstd"]
        once: dict[str, Any] = {"fresh": True, "checked": False}
        entries = [
            Entry("femtobarn", spec_of("femtobarn", path), **once),
            Entry("femtobarn, 2 threads", spec_of("femtobarn", path, threads=2), **once),
            Entry("uproot", spec_of("uproot", path), **once),
            self.root(path, "ROOT, compiled RDataFrame that touches them", "TouchAll", **once),
            self.root(path, "ROOT, TTree::GetEntry for every entry", "TreeLoop", **once),
        ]
        return Group("Peak memory of arrays(), all columns of a TTree, zstd", entries, memory=True)

    def groups(self) -> dict[str, Group]:
        return {
            "zstd": self.all("tree_zstd", "libzstd"),
            "zlib": self.all("tree_zlib", "libdeflate"),
            "memory": self.memory(),
        }


def main() -> None:
    options = arguments(__doc__, ["zstd", "zlib", "memory"], runs=5).parse_args()
    files = inputs(options, ["tree_zstd", "tree_zlib"])
    if files is None:
        return
    plan = Plan(files, options.root_python, options.settle)
    groups = {name: group for name, group in plan.groups().items() if name in (options.only or plan.groups())}
    for group in groups.values():
        measure(group, 1 if group.memory else options.runs)
    report("Reading TTree", groups, files, options)


if __name__ == "__main__":
    main()
