"""Dumps an RNTuple as ROOT itself reads it: `dump_with_root.py [--mode MODE] [--include HEADER] FILE NTUPLE [FIELD...]`.

Writes JSON to standard output; its conventions are described in testdata/PROVENANCE.md. It needs ROOT's own Python
module, so it is a tool for making golden files and for cross-checks, and no part of the test suite's requirements.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from pathlib import Path

HEADER = Path(__file__).with_name("root_dump.hxx")


def load_root():
    """Imports ROOT with the C++ dumper declared, quietly."""
    warnings.simplefilter("ignore")
    import ROOT

    ROOT.gROOT.SetBatch(True)
    ROOT.gErrorIgnoreLevel = ROOT.kError
    if not hasattr(ROOT, "oracle") or not hasattr(ROOT.oracle, "DumpNTuple"):
        # The dumper uses methods that are marked for removal from the public interface
        ROOT.gInterpreter.ProcessLine('#pragma clang diagnostic ignored "-Wdeprecated-declarations"')
        if not ROOT.gInterpreter.Declare(f'#include "{HEADER}"'):
            raise RuntimeError("the dumper does not compile with this ROOT")
    return ROOT


def dump(path, ntuple: str, fields: list[str] | None = None, mode: str = "auto") -> str:
    """Return the JSON text for one ntuple. mode: auto, structural, native or metadata (no values)."""
    root = load_root()
    names = root.std.vector["std::string"]()
    for field in fields or []:
        names.push_back(field)
    return str(root.oracle.DumpNTuple(str(path), ntuple, names, mode))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=["auto", "structural", "native", "metadata"], default="auto")
    parser.add_argument("--library", action="append", default=[], help="a dictionary to load first")
    parser.add_argument("--output", help="a file to write instead of standard output")
    parser.add_argument("file")
    parser.add_argument("ntuple")
    parser.add_argument("fields", nargs="*")
    args = parser.parse_args()
    root = load_root()
    for library in args.library:
        root.gSystem.Load(library)
    text = dump(args.file, args.ntuple, args.fields, args.mode)
    if args.output:
        Path(args.output).write_text(text)
    else:
        sys.stdout.write(text)
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # ROOT's teardown is not needed here
