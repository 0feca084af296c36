"""Convert every tree of files, and compare the result with ROOT's RNTupleImporter: types, columns, values.

    compare_with_importer.py [--root-python PYTHON] FILE...

Each tree is imported in its own process, as the importer stops or crashes on unsupported trees; these are converted
and counted. The exit code is 1 if a tree that the importer supports differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import awkward as ak

import femtobarn as fb

IMPORT = """
import os, sys
import ROOT
importers = ROOT if hasattr(ROOT, "RNTupleImporter") else ROOT.Experimental
importer = importers.RNTupleImporter.Create(*sys.argv[1:])
importer.SetIsQuiet(True)
importer.SetConvertDotsInBranchNames(True)
importer.Import()
del importer
os._exit(0)
"""
SECONDS = 120


def trees(file: str) -> list[str]:
    """Return the paths of the trees in a file."""
    command = [str(Path(sys.executable).with_name("fb")), "ls", "--json", file]
    objects = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["objects"]
    return sorted({item["path"] for item in objects if item["class"] in ("TTree", "TNtuple", "TNtupleD")})


def imported(python: str, file: str, tree: str, target: Path) -> bool:
    """Return whether the importer could convert a tree."""
    command = [python, "-W", "ignore", "-c", IMPORT, file, tree, str(target)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH" or python == sys.executable}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def columns(ntuple: fb.NTuple) -> dict[str, list[str]]:
    """Return the types of the columns of every field."""
    fields = ntuple._core.fields()
    return {field["path"]: [column["type"] for column in field["columns"]] for field in fields if field["path"]}


def difference(own: fb.NTuple, roots: fb.NTuple) -> str | None:
    """Return the first difference, or None."""
    if own.keys() != roots.keys():
        return f"fields: {sorted(set(own.keys()) ^ set(roots.keys()))[:5]}"
    for what, ours, theirs in (
        ("types", own.typenames(), roots.typenames()),
        ("columns", columns(own), columns(roots)),
    ):
        other = [name for name in theirs if ours[name] != theirs[name]]
        if other:
            return f"{what}: {[(name, ours[name], theirs[name]) for name in other[:3]]}"
    for name in roots.keys(recursive=False):
        if not ak.array_equal(own[name].array(), roots[name].array(), equal_nan=True):
            return f"values of {name}"
    return None


def compare(python: str, file: str, tree: str, folder: Path) -> tuple[str, str]:
    """Compare one tree: return the verdict and details."""
    target, theirs = folder / "own.root", folder / "imported.root"
    theirs.unlink(missing_ok=True)
    taken = imported(python, file, tree, theirs)
    try:
        report = fb.convert(f"{file}:{tree}", target)
    except fb.FemtobarnError as error:
        return ("different" if taken else "neither", str(error))
    if report.equal is not True:
        return "different", "the output is not the input"
    if not taken:
        return "only femtobarn", ""
    with fb.open(target) as own, fb.open(theirs) as roots:
        other = difference(own, roots)
    return ("different", other) if other else ("equal", "")


def main() -> None:
    """Compare all trees of the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root-python", default=os.environ.get("FEMTOBARN_ROOT_PYTHON", sys.executable))
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    verdicts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for file in options.files:
            try:
                found = trees(file)
            except fb.FemtobarnError as error:
                print(f"{file}: {error}")
                continue
            for tree in found:
                verdict, words = compare(options.root_python, file, tree, Path(folder))
                verdicts[verdict] += 1
                if words:
                    print(f"{file}:{tree}: {verdict}: {words}")
    print(", ".join(f"{n} {verdict}" for verdict, n in verdicts.most_common()))
    sys.exit(1 if verdicts["different"] else 0)


if __name__ == "__main__":
    main()
