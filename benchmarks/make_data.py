"""Make the input of the benchmarks, if it is not there.

    make_data.py [--data DIR] [--events N] [--root-python PYTHON]

A NanoAOD of N events, drawn from 1000 real ones by make_nanoaod.py, is imported into RNTuple by ROOT's
RNTupleImporter three times: nano_zstd.root (setting 505), nano_lz4.root (404) and nano_none.root (uncompressed),
each with the ntuple "Events". It needs `../shared/bench/make_nanoaod.py` and
`../shared/data/ttree/nanoaod_v5_1000.root` beside the checkout, uproot, and a Python that has ROOT.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHARED = HERE.parent.parent / "shared"
MAKER = SHARED / "bench/make_nanoaod.py"
SOURCE = SHARED / "data/ttree/nanoaod_v5_1000.root"
SETTINGS = {"zstd": 505, "lz4": 404, "none": 0}
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


class MissingInputError(Exception):
    """The input cannot be made here; the message says why."""


def default_folder(n_events: int) -> Path:
    return HERE / "data" / str(n_events)


def paths(folder: Path) -> dict[str, Path]:
    return {name: folder / f"nano_{name}.root" for name in SETTINGS}


def ensure(folder: Path, n_events: int, root_python: str) -> dict[str, Path]:
    """The three files; those that are missing are made."""
    files = paths(folder)
    missing = {name: path for name, path in files.items() if not path.exists()}
    if not missing:
        return files
    for needed in (MAKER, SOURCE):
        if not needed.exists():
            names = ", ".join(path.name for path in missing.values())
            raise MissingInputError(f"{names} cannot be made in {folder}: {needed} is missing")
    step([root_python, "-c", "import ROOT"], "sure that there is ROOT")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        tree = Path(scratch) / "tree.root"
        step([sys.executable, str(MAKER), str(SOURCE), str(tree), str(n_events), "1", "zlib"], f"{n_events} events")
        for name, path in missing.items():
            part = Path(scratch) / path.name
            step([root_python, "-c", IMPORT, str(tree), str(part), str(SETTINGS[name])], path.name)
            part.replace(path)
    return files


def step(command: list[str], what: str) -> None:
    print(f"making {what}", file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(command[0]))
    if done.returncode:
        words = (done.stderr + done.stdout).strip().splitlines()
        raise MissingInputError(f"making {what} failed: {words[-1] if words else done.returncode}")


def environment(python: str) -> dict[str, str]:
    """ROOT looks for some of its programs beside its interpreter."""
    return os.environ | {"PATH": f"{Path(python).parent}{os.pathsep}{os.environ.get('PATH', '')}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the files (default: benchmarks/data/N)")
    parser.add_argument("--events", type=int, default=N_EVENTS)
    parser.add_argument("--root-python", default=sys.executable, help="an interpreter that has ROOT")
    options = parser.parse_args()
    try:
        files = ensure(options.data or default_folder(options.events), options.events, options.root_python)
    except MissingInputError as error:
        sys.exit(str(error))
    for path in files.values():
        print(path)


if __name__ == "__main__":
    main()
