"""Make the input of the benchmarks if it does not exist.

    make_data.py [--data DIR] [--events N] [--root-python PYTHON]

make_nanoaod.py draws a NanoAOD of N events from 1000 real events: tree_raw.root. ROOT's hadd writes it with ROOT's own
baskets, as tree_zstd.root (setting 505) and tree_zlib.root (101), and ROOT's RNTupleImporter converts it to RNTuple
three times: nano_zstd.root (505), nano_lz4.root (404) and nano_none.root (uncompressed). Tree and ntuple are called
"Events". It needs `../shared/bench/make_nanoaod.py` and `../shared/data/ttree/nanoaod_v5_1000.root` beside the
checkout, uproot, and a Python that has ROOT.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHARED = HERE.parent.parent / "shared"
MAKER = SHARED / "bench/make_nanoaod.py"
SOURCE = SHARED / "data/ttree/nanoaod_v5_1000.root"
SETTINGS = {"zstd": 505, "lz4": 404, "none": 0}  # of the ntuples
TREES = {"tree_zstd": 505, "tree_zlib": 101}
N_EVENTS = 100_000

IMPORT = """
import sys, warnings
warnings.simplefilter("ignore")
import ROOT
importers = ROOT if hasattr(ROOT, "RNTupleImporter") else ROOT.Experimental
source, target, compression = sys.argv[1:]
importer = importers.RNTupleImporter.Create(source, "Events", target)
options = importer.GetWriteOptions()
options.SetCompression(int(compression))
importer.SetWriteOptions(options)
importer.SetIsQuiet(True)
importer.Import()
"""


HADD = """
import os, sys, warnings
warnings.simplefilter("ignore")
import ROOT
hadd = os.path.join(str(ROOT.gROOT.GetBinDir()), "hadd")
os.execv(hadd, [hadd, "-v", "1", "-f" + sys.argv[3], sys.argv[2], sys.argv[1]])
"""


class MissingInputError(Exception):
    """The input cannot be made here; the message gives the reason."""


def default_folder(n_events: int) -> Path:
    return HERE / "data" / str(n_events)


def path_of(folder: Path, name: str) -> Path:
    return folder / f"{name if name.startswith('tree_') else 'nano_' + name}.root"


def ensure(
    folder: Path, n_events: int, root_python: str, names: Iterable[str] = SETTINGS, seed: int = 1
) -> dict[str, Path]:
    """Return the files with these names; make missing files, of events that are drawn by a seed."""
    files = {name: path_of(folder, name) for name in names}
    missing = {name: path for name, path in files.items() if not path.exists()}
    if not missing:
        return files
    step([root_python, "-c", "import ROOT"], "sure that there is ROOT")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        raw = raw_tree(folder, n_events, Path(scratch), seed)
        for name, path in missing.items():
            part = Path(scratch) / path.name
            if name in TREES:
                # hadd rewrites baskets only if the compression differs, and the raw tree has zlib
                others = ensure(folder, n_events, root_python, ["tree_zstd"], seed) if name == "tree_zlib" else {}
                source = others.get("tree_zstd", raw)
                step([root_python, "-c", HADD, str(source), str(part), str(TREES[name])], path.name)
            else:
                step([root_python, "-c", IMPORT, str(raw), str(part), str(SETTINGS[name])], path.name)
            part.replace(path)
    return files


def raw_tree(folder: Path, n_events: int, scratch: Path, seed: int) -> Path:
    """Return the tree as written by uproot, with a basket for each 20,000 entries."""
    tree = path_of(folder, "tree_raw")
    if not tree.exists():
        for needed in (MAKER, SOURCE):
            if not needed.exists():
                raise MissingInputError(f"nothing can be made in {folder}: {needed} is missing")
        part = scratch / tree.name
        step(
            [sys.executable, str(MAKER), str(SOURCE), str(part), str(n_events), str(seed), "zlib"], f"{n_events} events"
        )
        part.replace(tree)
    return tree


def step(command: list[str], what: str) -> None:
    print(f"making {what}", file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(command[0]))
    if done.returncode:
        words = (done.stderr + done.stdout).strip().splitlines()
        raise MissingInputError(f"making {what} failed: {words[-1] if words else done.returncode}")


def environment(python: str) -> dict[str, str]:
    """Return the environment; ROOT looks for some programs beside its interpreter."""
    return os.environ | {"PATH": f"{Path(python).parent}{os.pathsep}{os.environ.get('PATH', '')}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the files (default: benchmarks/data/N)")
    parser.add_argument("--events", type=int, default=N_EVENTS)
    parser.add_argument("--root-python", default=sys.executable, help="an interpreter that has ROOT")
    options = parser.parse_args()
    try:
        folder = options.data or default_folder(options.events)
        files = ensure(folder, options.events, options.root_python, [*TREES, *SETTINGS])
    except MissingInputError as error:
        sys.exit(str(error))
    for path in files.values():
        print(path)


if __name__ == "__main__":
    main()
