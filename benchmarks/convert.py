"""Measure converting TTree to RNTuple: femtobarn, ROOT's RNTupleImporter, and the minimum that is required.

    python benchmarks/convert.py [--data DIR] [--events N] [--runs N] [--root-python PYTHON] [--only ...] [--out DIR]
                                 [--json FILE]

Every run is a separate process, and the competitors take turns, once per round, with the input in the page cache.
Ratios are computed within a round. Each output is compared with the input. Prints a Markdown report; the exit code is
always 0. README.md in this directory describes the measurement.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

from _columns import FLAT
from _measure import CompetitorError, Entry, one_run, say
from _outputs import contents
from _report import Group
from _run import NTUPLE, arguments, inputs, measure, report, spec_of
from _worker import AGC

SETTINGS = 505
LEVEL = 10  # of libzstd; ROOT doubles its own level
ROOT_ROUNDS = 2
LARGE_MEMORY = 900  # MB that a run needs at least, to be touched before
FIELDS = [*AGC, *FLAT[:10], "Electron_convVeto", "Jet_cleanmask"]  # fields to compare


class Plan:
    """The competitors and their files."""

    def __init__(self, files: dict[str, Path], root_python: str, out: Path, settle: float) -> None:
        self.files, self.root_python, self.out = files, root_python, out
        self.large = {"touch": LARGE_MEMORY, "settle": settle}
        self.pages = out / "pages.root"  # output of femtobarn, whose pages the floor compresses

    def entry(self, competitor: str, name: str, label: str, *, checked: bool = True, **more: Any) -> Entry:
        entry_options = {key: more.pop(key) for key in ("goal", "size_goal", "rounds", "python") if key in more}
        output = self.out / f"{len(label)}-{competitor}.root"
        spec = spec_of(competitor, self.files[name], settings=SETTINGS, output=str(output), **self.large, **more)
        inspect = functools.partial(contents, output, NTUPLE, FIELDS) if checked else None
        return Entry(label, spec, fresh=True, inspect=inspect, **entry_options)

    def make_pages(self) -> None:
        say("pages for the floor")
        entry = self.entry("FemtobarnConverter", "tree_zstd", "pages", checked=False)
        entry.spec |= {"output": str(self.pages), "touch": 0}
        one_run(entry, None)

    def group(self, name: str) -> Group:
        def fb(label: str, **more: Any) -> Entry:
            return self.entry("FemtobarnConverter", name, label, **more)

        def floor(label: str, **more: Any) -> Entry:
            pages = {"pages": str(self.pages), "level": LEVEL, "baskets": True, "checked": False}
            return self.entry("FloorWriter", name, label, **pages, **more)

        root: dict[str, Any] = {"python": self.root_python, "rounds": ROOT_ROUNDS, "size_goal": 1.02}
        codec = "libzstd" if name == "tree_zstd" else "libdeflate"
        entries = [
            fb("femtobarn"),
            fb("femtobarn, verified", verify=True),
            fb("femtobarn, 2 threads", threads=2, goal=("speedup", 1.8)),
            self.entry("RootImporter", name, "ROOT, RNTupleImporter", goal=("slower", 5), **root),
            floor(f"floor: bare {codec} in, bare libzstd out", goal=("within", 1.5)),
            floor("floor, 2 threads", threads=2),
        ]
        title = f"TTree, {name.removeprefix('tree_')}, to RNTuple, zstd {SETTINGS}"
        return Group(title, entries, writes=True, expected=contents(self.files[name], NTUPLE, FIELDS))


def main() -> None:
    parser = arguments(__doc__, ["zstd", "zlib"], runs=3)
    parser.add_argument("--out", type=Path, help="folder for what is written meanwhile (default: the input's)")
    options = parser.parse_args()
    files = inputs(options, ["tree_zstd", "tree_zlib"])
    if files is None:
        return
    groups = {}
    with tempfile.TemporaryDirectory(dir=options.out or files["tree_zstd"].parent, prefix="convert-") as out:
        plan = Plan(files, options.root_python, Path(out), options.settle)
        try:
            plan.make_pages()
        except CompetitorError as error:
            print(f"Nothing is measured, femtobarn cannot convert: {error}")
            return
        for name in options.only or ["zstd", "zlib"]:
            groups[name] = plan.group(f"tree_{name}")
            measure(groups[name], options.runs)
    report("Converting", groups, files, options)


if __name__ == "__main__":
    main()
