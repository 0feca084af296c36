"""Writes the RNTuple test files with ROOT, and for each ntuple a golden file with what ROOT reads from it.

    make_rntuples.py [--outdir DIR] [--large] [GROUP...]

It needs ROOT's Python module with its C++ interpreter, and a C++ compiler for the classes' dictionaries. The files in
the repository are its output; PROVENANCE.md describes them and the conventions of the golden files.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CXX = HERE / "cxx"
sys.path.insert(0, str(HERE.parent / "python" / "tests" / "oracle"))

from dump_with_root import dump, load_root  # noqa: E402

COMPRESSIONS = {"zstd": 505, "zlib": 106, "lz4": 404, "lzma": 207, "deflate": 305, "none": 0}


class Maker:
    """Runs the writers and keeps the list of what they wrote."""

    def __init__(self, outdir: Path) -> None:
        self.root = load_root()
        self.outdir = outdir
        outdir.mkdir(parents=True, exist_ok=True)

    def build_types(self) -> None:
        """Compiles the classes' dictionary outside of the source tree."""
        build = tempfile.mkdtemp(prefix="femtobarn-types-")
        self.root.gSystem.SetBuildDir(build, True)
        self.root.gSystem.AddIncludePath(f"-I{CXX}")
        self.root.gInterpreter.AddIncludePath(str(CXX))
        for source in ("types.cxx", "double32_types.cxx"):
            if self.root.gSystem.CompileMacro(str(CXX / source), "kO") != 1:
                raise RuntimeError(f"the dictionary of {source} does not compile")

    def declare(self, header: str) -> None:
        if not self.root.gInterpreter.Declare(f'#include "{CXX / header}"'):
            raise RuntimeError(f"{header} does not compile")

    def path(self, name: str) -> str:
        return str(self.outdir / name)

    def golden(self, name: str, *ntuples: str) -> None:
        for ntuple in ntuples:
            text = dump(self.path(name), ntuple)
            target = self.outdir / f"{name}.{ntuple.replace('/', '.')}.json"
            target.write_text(text)
            for line in text.splitlines():
                if '"error: ' in line:
                    print(f"{target.name}: {line.strip()}")


def mixed(maker: Maker) -> None:
    """One rich ntuple in every compression algorithm."""
    maker.declare("mixed.hxx")
    for name, setting in COMPRESSIONS.items():
        maker.root.fb.WriteMixed(maker.path(f"mixed_{name}.root"), setting, 40, 17)
        maker.golden(f"mixed_{name}.root", "mixed")


GROUPS = {"mixed": mixed}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outdir", type=Path, default=HERE / "rntuple")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="|".join(GROUPS))
    args = parser.parse_args()
    maker = Maker(args.outdir)
    maker.build_types()
    for group in args.groups or GROUPS:
        print(f"== {group}")
        GROUPS[group](maker)
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
