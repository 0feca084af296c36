"""Writes the RNTuple test files with ROOT, and for each ntuple a golden file with what ROOT reads from it.

    make_rntuples.py [--outdir DIR] [--large] [GROUP...]

It needs ROOT's Python module with its C++ interpreter, and a C++ compiler for the classes' dictionaries. The files in
the repository are its output; PROVENANCE.md describes them and the conventions of the golden files.
"""

from __future__ import annotations

import argparse
import json
import os
import re
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
        self.outdir = outdir.resolve()
        self.outdir.mkdir(parents=True, exist_ok=True)
        os.chdir(self.outdir)  # some of ROOT's writers put the path as it was given into the file

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
        return name

    def golden(self, name: str, *ntuples: str) -> None:
        for ntuple in ntuples:
            text = dump(self.path(name), ntuple)
            label = re.sub(r"[^A-Za-z0-9_-]+", "_", ntuple.replace("/", "-"))
            target = self.outdir / f"{name}.{label}.json"
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


def encodings(maker: Maker) -> None:
    """Every column type, in one page per cluster and in many."""
    maker.declare("encodings.hxx")
    fb = maker.root.fb
    for name, write in (("encodings", fb.WriteEncodings), ("packed", fb.WritePacked)):
        for suffix, compression, small in (("", 505, False), ("_pages", 505, True), ("_none", 0, True)):
            write(maker.path(f"{name}{suffix}.root"), compression, small)
            maker.golden(f"{name}{suffix}.root", name)


def types(maker: Maker) -> None:
    """Every C++ type but user classes."""
    maker.declare("containers.hxx")
    fb = maker.root.fb
    for which in ("scalars", "lists", "sums", "associative"):
        fb.WriteTypes(maker.path(f"{which}.root"), which, fb.Options(505))
        fb.WriteTypes(maker.path(f"{which}_pages.root"), which, fb.SmallPages(0))
        maker.golden(f"{which}.root", which)
        maker.golden(f"{which}_pages.root", which)
    fb.WriteValueless(maker.path("valueless.root"))
    maker.golden("valueless.root", "valueless")


def classes(maker: Maker) -> None:
    """User classes, streamer mode, SoA, proxied collections, untyped records."""
    maker.declare("classes.hxx")
    fb = maker.root.fb
    for name, write in (("classes", fb.WriteClasses), ("untyped", fb.WriteUntyped)):
        write(maker.path(f"{name}.root"), fb.Options(505))
        write(maker.path(f"{name}_pages.root"), fb.SmallPages(0))
        maker.golden(f"{name}.root", name)
        maker.golden(f"{name}_pages.root", name)
    for name, write in (
        ("double32", fb.WriteDouble32),
        ("streamers", fb.WriteStreamers),
        ("soa", fb.WriteSoA),
        ("proxied", fb.WriteProxied),
    ):
        write(maker.path(f"{name}.root"))
        maker.golden(f"{name}.root", name)


def structure(maker: Maker) -> None:
    """Files, directories, keys, clusters, pages, names, attribute sets."""
    maker.declare("structure.hxx")
    fb = maker.root.fb
    single = (
        ("empty", fb.WriteEmpty, ()),
        ("groups", fb.WriteGroups, ()),
        ("clusters", fb.WriteManyClusters, ()),
        ("split", fb.WriteSplitPages, ()),
        ("wide", fb.WriteWide, (150,)),
        ("parallel", fb.WriteParallel, ()),
    )
    for name, write, extra in single:
        write(maker.path(f"{name}.root"), *extra)
        maker.golden(f"{name}.root", name)
    variants = (
        ("keys_none", "keys", fb.WriteSmallKeys, (0,)),
        ("keys_zstd", "keys", fb.WriteSmallKeys, (505,)),
        ("boundary", "boundary", fb.WriteKeyBoundary, (True,)),
        ("boundary_plain", "boundary", fb.WriteKeyBoundary, (False,)),
        ("pages_plain", "pages", fb.WritePlainPages, (False, True)),
        ("pages_unbuffered", "pages", fb.WritePlainPages, (True, False)),
        ("same_none", "same", fb.WriteSamePages, (0, True)),
        ("same_zstd", "same", fb.WriteSamePages, (505, True)),
        ("same_off", "same", fb.WriteSamePages, (505, False)),
        ("merged_bits", "merged", fb.WriteMergedBits, (8, 48, 260, 1)),
        ("names", "ñames-(δ)", fb.WriteNames, ()),
        ("again", "again", fb.WriteCycles, ()),
        ("attributes", "main", fb.WriteAttributes, ()),
    )
    for name, ntuple, write, extra in variants:
        write(maker.path(f"{name}.root"), *extra)
        maker.golden(f"{name}.root", ntuple)
    maker.golden("again.root", "again;1")
    fb.WriteNoFields(maker.path("no_fields.root"))
    maker.golden("no_fields.root", "nothing", "entries")
    fb.WriteCrowd(maker.path("crowd.root"))
    inside = ("first", "outer/second", "outer/inner/third", "outer/inner/first", "répertoire δ/événements", "last")
    maker.golden("crowd.root", *inside)


def evolution(maker: Maker) -> None:
    """Late model extension and changing column representations."""
    maker.declare("evolution.hxx")
    fb = maker.root.fb
    both = (
        ("extension", fb.WriteExtension),
        ("extension_nested", fb.WriteExtensionNested),
        ("representations", fb.WriteRepresentations),
    )
    for name, write in both:
        for suffix, options in (("", fb.Options(505)), ("_pages", fb.SmallPages(0))):
            write(maker.path(f"{name}{suffix}.root"), options)
            maker.golden(f"{name}{suffix}.root", name)
    for name, ntuple, write in (
        ("extension_edges", "edges", fb.WriteExtensionEdges),
        ("extension_empty", "nothing", fb.WriteExtensionEmpty),
        ("extension_projected", "projected", fb.WriteExtensionProjected),
        ("extension_late", "late", fb.WriteLateRepresentations),
    ):
        write(maker.path(f"{name}.root"))
        maker.golden(f"{name}.root", ntuple)


def tools(maker: Maker) -> None:
    """ROOT's importer, merger and minimal file writer."""
    maker.declare("tools.hxx")
    fb = maker.root.fb
    fb.WriteRecreate(maker.path("recreate.root"))
    maker.golden("recreate.root", "recreate")
    with tempfile.TemporaryDirectory() as scratch:
        fb.WriteImported(maker.path("imported.root"), f"{scratch}/tree.root")
        maker.golden("imported.root", "Events")
        merges = (
            ("merged", False, ""),
            ("merged_union", True, "rntuple.MergingMode=Union"),
            ("merged_first_wins", True, "rntuple.MergingMode=Filter"),
        )
        for name, wide, options in merges:
            if not fb.WriteMerged(maker.path(f"{name}.root"), f"{scratch}/part", wide, options):
                print(f"ROOT could not merge {name}")
                continue
            maker.golden(f"{name}.root", "part")
    # A last record that does not compress would make ROOT store the whole page as it is, so it is not too short
    blocks(maker, "blocks_zstd", 505, 2**24 + 9000)
    blocks(maker, "blocks_lzma", 207, 2 * (2**24 - 1) - 3)


def blocks(maker: Maker, name: str, compression: int, size: int) -> None:
    """A page of several compression records; its golden holds a formula in place of the bytes."""
    fb = maker.root.fb
    fb.WriteBlocks(maker.path(f"{name}.root"), compression, size)
    if not fb.CheckBlocks(maker.path(f"{name}.root"), size):
        raise RuntimeError(f"ROOT reads something else from {name}")
    golden = json.loads(dump(maker.path(f"{name}.root"), "blocks", mode="metadata"))
    golden["formula"] = {
        "data": [
            {"length": size, "byte i": "((i >> 16) ^ (i if i % 1000 == 999 else 0)) & 255"},
            {"length": 3, "byte i": "7"},
        ]
    }
    target = maker.outdir / f"{name}.root.blocks.json"
    target.write_text(json.dumps(golden, indent=1) + "\n")


def large(maker: Maker) -> None:
    """What is too large for a repository: run with --outdir elsewhere."""
    maker.declare("tools.hxx")
    for name, compression in COMPRESSIONS.items():
        blocks(maker, f"large_{name}", compression, 50_000_000)
    maker.root.fb.WriteBigFile(maker.path("big.root"), 2_300_000_000)


GROUPS = {
    "mixed": mixed,
    "encodings": encodings,
    "types": types,
    "classes": classes,
    "structure": structure,
    "evolution": evolution,
    "tools": tools,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outdir", type=Path, default=HERE / "rntuple")
    parser.add_argument("--large", action="store_true", help="write the large files only")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="|".join(GROUPS))
    args = parser.parse_args()
    maker = Maker(args.outdir)
    maker.build_types()
    if args.large:
        large(maker)
        return 0
    for group in args.groups or GROUPS:
        print(f"== {group}")
        GROUPS[group](maker)
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
