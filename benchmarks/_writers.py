"""Competitors that write a file: converters of a tree, and writers of columns in memory.

Each writes the file spec["output"], which does not exist when its clock starts. Another process checks the content.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

Parts = dict[str, float]


class Converter:
    """Converts the tree spec["ntuple"] of the file spec["path"] to an ntuple."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.output = Path(spec["output"])

    def versions(self) -> dict[str, str]:
        raise NotImplementedError

    def write(self) -> None:
        raise NotImplementedError

    def run(self) -> Parts:
        self.output.unlink(missing_ok=True)
        start = time.perf_counter()
        self.write()
        return {"write": time.perf_counter() - start}

    def told(self) -> dict[str, Any]:
        """Return further results of the run."""
        return {"bytes": self.output.stat().st_size}


class FemtobarnConverter(Converter):
    def __init__(self, spec: dict[str, Any]) -> None:
        import femtobarn

        super().__init__(spec)
        self.femtobarn = femtobarn

    def versions(self) -> dict[str, str]:
        return {"femtobarn": str(self.femtobarn._core.__version__)}

    def write(self) -> None:
        done = self.femtobarn.convert(
            f"{self.spec['path']}:{self.spec['ntuple']}",
            self.output,
            compression=self.spec["settings"],
            threads=self.spec.get("threads", 1),
            verify=self.spec.get("verify", False),
        )
        if self.spec.get("verify") and not done.equal:
            raise RuntimeError("what was converted is not equal to the tree")


class RootImporter(Converter):
    def __init__(self, spec: dict[str, Any]) -> None:
        import warnings

        warnings.simplefilter("ignore")  # "This distribution of ROOT is in alpha stage"
        import ROOT

        super().__init__(spec)
        self.root = ROOT
        self.importers = ROOT if hasattr(ROOT, "RNTupleImporter") else ROOT.Experimental

    def versions(self) -> dict[str, str]:
        return {"ROOT": str(self.root.gROOT.GetVersion())}

    def write(self) -> None:
        spec = self.spec
        importer = self.importers.RNTupleImporter.Create(spec["path"], spec["ntuple"], spec["output"])
        options = importer.GetWriteOptions()
        options.SetCompression(spec["settings"])
        importer.SetWriteOptions(options)
        importer.SetIsQuiet(True)
        importer.Import()


class ColumnWriter(Converter):
    """Writes the columns that _columns.py has cached."""

    def __init__(self, spec: dict[str, Any]) -> None:
        import _columns

        super().__init__(spec)
        columns = _columns.load(Path(spec["path"]), spec["ntuple"])
        self.data = _columns.to_arrow(columns) if spec.get("data") == "arrow" else _columns.to_awkward(columns)


class FemtobarnWriter(ColumnWriter):
    def __init__(self, spec: dict[str, Any]) -> None:
        import femtobarn

        super().__init__(spec)
        self.femtobarn = femtobarn

    def versions(self) -> dict[str, str]:
        return {"femtobarn": str(self.femtobarn._core.__version__)}

    def write(self) -> None:
        settings, threads = self.spec["settings"], self.spec.get("threads", 1)
        self.femtobarn.write(self.output, self.data, self.spec["ntuple"], compression=settings, threads=threads)


class UprootWriter(ColumnWriter):
    def __init__(self, spec: dict[str, Any]) -> None:
        import uproot

        super().__init__(spec)
        self.uproot = uproot
        # the level of libzstd; ROOT doubles its own level
        self.compression = uproot.ZSTD(spec["settings"] % 100) if spec["settings"] else None

    def versions(self) -> dict[str, str]:
        return {"uproot": self.uproot.__version__}

    def write(self) -> None:
        with self.uproot.recreate(self.output, compression=self.compression) as file:
            ntuple = file.mkrntuple(self.spec["ntuple"], self.data.layout.form)
            ntuple.extend(self.data)


class FloorWriter:
    """Compresses and writes the pages of spec["pages"], optionally after decompressing the baskets of spec["path"]."""

    def __init__(self, spec: dict[str, Any]) -> None:
        from floor import Floor, basket_list, build, page_list

        library = build(Path(spec["build"]))
        pages = Path(spec["pages"])
        floor = Floor(library, pages, page_list(pages, spec["ntuple"]))
        self.contents, self.library_versions = floor.contents(), floor.versions()
        self.output, self.threads, self.level = Path(spec["output"]), spec.get("threads", 1), spec["level"]
        tree = Path(spec["path"])
        self.tree = Floor(library, tree, basket_list(tree, spec["ntuple"])) if spec["baskets"] else None

    def versions(self) -> dict[str, str]:
        return self.library_versions

    def run(self) -> Parts:
        self.output.unlink(missing_ok=True)
        parts = {} if self.tree is None else {"read": self.tree.run_threads(self.threads, copy=False)}
        return parts | {"write": self.contents.write(self.output, self.level, self.threads)}

    def told(self) -> dict[str, Any]:
        return {"bytes": self.output.stat().st_size}
