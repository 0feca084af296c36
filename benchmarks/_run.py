"""Shared code of the benchmark scripts: options, input, report."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import make_data
from _measure import alternate, say
from _report import Group, as_json, as_markdown

NTUPLE = "Events"
BUILD = make_data.HERE / "data/build"


def arguments(description: str | None, names: list[str], runs: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the files (default: benchmarks/data/N)")
    parser.add_argument("--events", type=int, default=make_data.N_EVENTS, help="how many events to make, if any")
    parser.add_argument("--runs", type=int, default=runs, help=f"timed rounds; who is slow, less (default: {runs})")
    parser.add_argument("--root-python", default=sys.executable, help="an interpreter that has ROOT")
    parser.add_argument("--settle", type=float, default=2.5, help="seconds to wait before runs that need much memory")
    parser.add_argument("--only", nargs="+", choices=names, help="some of the tables")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every time of every run there, too")
    return parser


def inputs(options: argparse.Namespace, names: list[str]) -> dict[str, Path] | None:
    """Return the input files, all in the page cache; None if they cannot be made."""
    folder = options.data or make_data.default_folder(options.events)
    try:
        files = make_data.ensure(folder.resolve(), options.events, options.root_python, names)
    except make_data.MissingInputError as missing:
        print(f"Nothing is measured: {missing}")
        return None
    for path in files.values():
        path.read_bytes()
    return files


def spec_of(competitor: str, path: Path, **more: Any) -> dict[str, Any]:
    file = {"path": str(path.resolve()), "ntuple": NTUPLE, "build": str(BUILD.resolve())}
    return {"competitor": competitor, **file, **more}


def measure(group: Group, rounds: int) -> None:
    say(group.title)
    group.load_before, start = os.getloadavg()[0], time.perf_counter()
    alternate(group.entries, rounds)
    group.load_after, group.seconds = os.getloadavg()[0], time.perf_counter() - start


def report(title: str, groups: dict[str, Group], files: dict[str, Path], options: argparse.Namespace) -> None:
    print(as_markdown(title, groups, files))
    if options.json:
        options.json.write_text(as_json(groups, files))
