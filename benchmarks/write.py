"""Measure writing RNTuple from arrays: femtobarn, uproot, ROOT, and the minimum that any writer has to do, in one run.

    python benchmarks/write.py [--data DIR] [--events N] [--runs N] [--root-python PYTHON] [--only ...] [--out DIR]
                               [--json FILE]

Every run is a separate process, with the arrays in memory before its clock starts; the competitors take turns, once per
round. Ratios are computed within a round. Each output is compared with the arrays. Prints a Markdown report; the exit
code is always 0. README.md in this directory describes the measurement.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import _columns
from _measure import CompetitorError, Entry, one_run, say
from _outputs import contents
from _report import Group
from _run import NTUPLE, arguments, inputs, measure, report, spec_of

SETTINGS = {"zstd": 505, "none": 0}
LEVEL = {"zstd": 10, "none": 0}  # of libzstd; ROOT doubles its own level
LARGE_MEMORY = 300  # MB that a run needs at least, to be touched before


class Plan:
    """The competitors and their compression."""

    def __init__(self, tree: Path, root_python: str, out: Path, settle: float) -> None:
        self.tree, self.root_python, self.out = tree, root_python, out
        self.large = {"touch": LARGE_MEMORY, "settle": settle}
        self.columns = out / "columns"
        columns = _columns.load(tree, NTUPLE)
        _columns.to_file(columns, self.columns)
        self.fields = list(columns)
        self.expected = contents(tree, NTUPLE, self.fields)
        self.n_bytes = sum(values.nbytes for _, values in columns.values())

    def entry(self, competitor: str, codec: str, label: str, *, checked: bool = True, **more: Any) -> Entry:
        entry_options = {key: more.pop(key) for key in ("goal", "size_goal", "python") if key in more}
        output = self.out / f"{codec}-{competitor}-{len(label)}.root"
        more = {"settings": SETTINGS[codec]} | self.large | more
        spec = spec_of(competitor, self.tree, output=str(output), **more)
        inspect = functools.partial(contents, output, NTUPLE, self.fields) if checked else None
        return Entry(label, spec, fresh=True, inspect=inspect, **entry_options)

    def pages(self, codec: str) -> Path:
        return self.out / f"{codec}-pages.root"

    def make_pages(self, codec: str) -> None:
        say("pages for the floor")
        entry = self.entry("FemtobarnWriter", codec, "pages", checked=False)
        entry.spec |= {"output": str(self.pages(codec)), "touch": 0}
        one_run(entry, None)

    def group(self, codec: str) -> Group:
        def fb(label: str, **more: Any) -> Entry:
            return self.entry("FemtobarnWriter", codec, label, **more)

        def floor(label: str, **more: Any) -> Entry:
            pages = {"pages": str(self.pages(codec)), "level": LEVEL[codec], "baskets": False, "checked": False}
            return self.entry("FloorWriter", codec, label, **pages, **more)

        root: dict[str, Any] = {"task": "Write", "columns": str(self.columns), "python": self.root_python}
        is_zstd = codec == "zstd"
        entries = [
            fb("femtobarn, from Awkward"),
            fb("femtobarn, from Arrow", data="arrow"),
            fb("femtobarn, from Awkward, 2 threads", threads=2, goal=("speedup", 1.8) if is_zstd else None),
            self.entry("UprootWriter", codec, "uproot, ZSTD(5)" if is_zstd else "uproot", goal=("slower", 5)),
            self.entry("root", codec, "ROOT, compiled RNTupleWriter::Fill", goal=("slower", 2), size_goal=1.02, **root),
            floor("floor: bare libzstd" if is_zstd else "floor: writing alone"),
            floor("floor, 2 threads", threads=2),
        ]
        if is_zstd:
            # ROOT doubles the level, uproot does not: this is the same level as for the others
            entries.insert(4, self.entry("UprootWriter", codec, "uproot, ZSTD(10), as the others", settings=510))
        title = f"{len(self.fields)} columns from memory, {self.n_bytes / 1e6:.0f} MB of values, "
        return Group(title + ("zstd 505" if is_zstd else "uncompressed"), entries, writes=True, expected=self.expected)


def main() -> None:
    parser = arguments(__doc__, ["zstd", "none"], runs=3)
    parser.add_argument("--out", type=Path, help="folder for what is written meanwhile (default: the input's)")
    options = parser.parse_args()
    files = inputs(options, ["tree_zstd"])
    if files is None:
        return
    groups = {}
    with tempfile.TemporaryDirectory(dir=options.out or files["tree_zstd"].parent, prefix="write-") as out:
        plan = Plan(files["tree_zstd"], options.root_python, Path(out), options.settle)
        for codec in options.only or ["zstd", "none"]:
            try:
                plan.make_pages(codec)
            except CompetitorError as error:
                print(f"Nothing is measured, femtobarn cannot write: {error}")
                return
            groups[codec] = plan.group(codec)
            measure(groups[codec], options.runs)
    report("Writing", groups, files, options)


if __name__ == "__main__":
    main()
