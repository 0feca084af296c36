"""Competitors that write a file from other files: mergers, copies, plain disk writes, and makers of smaller files.

Each writes spec["output"] from the files spec["inputs"]. Before the clock starts, its previous output is removed, all
data is synced to disk, and the inputs are in the page cache. The output of competitors that do not sync is synced
afterwards, and timed separately.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Self

from _worker import AGC

Parts = dict[str, float]
CHUNK = 1 << 20  # with larger chunks, this kernel may be slow to allocate memory for its cache


class Merger:
    """Writes one file from several."""

    syncs = False  # whether its output is synced when it ends

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.inputs = [Path(path) for path in spec["inputs"]]
        self.output = Path(spec["output"])
        self.n_read = 0

    def versions(self) -> dict[str, str]:
        return {}

    def write(self) -> None:
        raise NotImplementedError

    def prepare(self) -> None:
        """Prepare a run; not measured."""
        remove(self.output)
        os.sync()
        buffer = bytearray(CHUNK)
        for path in self.inputs:
            with path.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass

    def run(self) -> Parts:
        with Handles(counts=bool(self.spec.get("handles"))) as self.handles:
            before, start = bytes_read(), time.perf_counter()
            self.write()
            parts = {"write": time.perf_counter() - start}
            self.n_read = bytes_read() - before
        if not self.syncs:
            start = time.perf_counter()
            for path in files(self.output):
                sync(path)
            parts["sync"] = time.perf_counter() - start
        return parts

    def told(self) -> dict[str, Any]:
        written = sum(path.stat().st_size for path in files(self.output))
        found: dict[str, Any] = {"bytes": written, "read": self.n_read, "handles": self.handles.most}
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        if isinstance(self, Program):
            found["memory"] = {"peak": children, "resident_before": 0}
        return found


class Program(Merger):
    """A separate program; its start is included in the time."""

    def command(self) -> list[str]:
        raise NotImplementedError

    def write(self) -> None:
        if self.spec.get("folder"):
            self.output.mkdir()
        done = subprocess.run(self.command(), capture_output=True, text=True, check=False)
        if done.returncode:
            words = (done.stdout + done.stderr).strip().splitlines()
            raise RuntimeError(words[-1] if words else f"it ended with {done.returncode}")


class Hadd(Program):
    """ROOT's hadd, from the ROOT of this interpreter."""

    def __init__(self, spec: dict[str, Any]) -> None:
        import warnings

        warnings.simplefilter("ignore")  # "This distribution of ROOT is in alpha stage"
        import ROOT

        super().__init__(spec)
        self.version = str(ROOT.gROOT.GetVersion())
        self.program = str(Path(str(ROOT.gROOT.GetBinDir())) / "hadd")

    def versions(self) -> dict[str, str]:
        return {"ROOT": self.version}

    def command(self) -> list[str]:
        setting = self.spec.get("compression", "")
        return [self.program, "-v", "0", f"-f{setting}", str(self.output), *map(str, self.inputs)]


class Copy(Program):
    """Copies the inputs to separate files in a directory."""

    def command(self) -> list[str]:
        return ["cp", "--reflink=never", *map(str, self.inputs), str(self.output)]


class DiskWriter(Merger):
    """Writes as many bytes as the inputs from memory: the time of the disk alone."""

    def prepare(self) -> None:
        super().prepare()
        with self.inputs[0].open("rb") as file:
            self.content = file.read(128 * CHUNK)

    def write(self) -> None:
        left = sum(path.stat().st_size for path in self.inputs)
        with self.output.open("wb", buffering=0) as file:
            while left > 0:
                left -= file.write(memoryview(self.content)[: min(left, CHUNK)])


class FemtobarnMerger(Merger):
    syncs = True

    def __init__(self, spec: dict[str, Any]) -> None:
        import femtobarn

        super().__init__(spec)
        self.femtobarn = femtobarn
        self.report: Any = None

    def versions(self) -> dict[str, str]:
        return {"femtobarn": str(self.femtobarn._core.__version__)}

    def options(self) -> dict[str, Any]:
        return self.spec.get("options", {}) | {"threads": self.spec.get("threads", 1)}

    def write(self) -> None:
        self.report = self.femtobarn.merge([str(path) for path in self.inputs], self.output, **self.options())

    def told(self) -> dict[str, Any]:
        levels = {level: n for level, n in self.report.levels.items() if n}
        return super().told() | {"levels": levels, "shared": self.report.shared_bytes}


class FemtobarnClone(FemtobarnMerger):
    def write(self) -> None:
        fields = list(AGC) if self.spec["agc"] else None
        self.report = self.femtobarn.clone(self.inputs[0], self.output, fields=fields, **self.options())


class FemtobarnSkim(FemtobarnMerger):
    def write(self) -> None:
        fields = list(AGC) if self.spec["agc"] else None
        self.report = self.femtobarn.skim(
            self.inputs[0], self.output, self.spec["where"], fields=fields, **self.options()
        )


class FemtobarnRead(FemtobarnMerger):
    """Only reads."""

    def run(self) -> Parts:
        before, start = bytes_read(), time.perf_counter()
        name = f"{self.inputs[0]}:{self.spec['ntuple']}"
        fields = list(AGC) if self.spec["agc"] else None
        options: dict[str, Any] = {"step_size": "200 MB", "threads": self.spec.get("threads", 1)}
        for _ in self.femtobarn.open(name).iterate(fields, library="ak", **options):
            pass
        seconds = time.perf_counter() - start
        self.n_read = bytes_read() - before
        return {"read": seconds}

    def told(self) -> dict[str, Any]:
        return {"bytes": 0, "read": self.n_read}


class RootSnapshot(Merger):
    """RDataFrame's Snapshot to an RNTuple, after one of a small file, so that ROOT is loaded and compiled before."""

    def __init__(self, spec: dict[str, Any]) -> None:
        import warnings

        warnings.simplefilter("ignore")
        import ROOT

        super().__init__(spec)
        self.root = ROOT
        if spec.get("threads", 1) > 1:
            ROOT.EnableImplicitMT(spec["threads"])
        self.snapshot(spec["small"])

    def versions(self) -> dict[str, str]:
        return {"ROOT": str(self.root.gROOT.GetVersion())}

    def snapshot(self, path: str) -> None:
        rdf = self.root.RDF
        options = rdf.RSnapshotOptions()
        options.fOutputFormat = rdf.ESnapshotOutputFormat.kRNTuple
        options.fMode = "RECREATE"
        options.fCompressionAlgorithm = self.root.RCompressionSetting.EAlgorithm.kZSTD
        options.fCompressionLevel = 5
        frame = self.root.RDataFrame(self.spec["ntuple"], path)
        columns = list(AGC)
        if not self.spec["agc"]:
            # collections are not columns of RDataFrame
            names = [str(name) for name in frame.GetColumnNames()]
            columns = [name for name in names if not name.startswith(("_", "R_rdf")) and "." not in name]
        if self.spec.get("where"):
            frame = frame.Filter(self.spec["where"])
        frame.Snapshot(self.spec["ntuple"], str(self.output), columns, options)

    def write(self) -> None:
        self.snapshot(str(self.inputs[0]))


class Handles:
    """Counts the open files of this process every few milliseconds."""

    def __init__(self, *, counts: bool) -> None:
        self.most, self.done = 0, threading.Event()
        self.thread = threading.Thread(target=self.look) if counts else None

    def look(self) -> None:
        while not self.done.wait(0.01):
            self.most = max(self.most, sum(1 for _ in Path("/proc/self/fd").iterdir()))

    def __enter__(self) -> Self:
        if self.thread is not None:
            self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        if self.thread is not None:
            self.thread.join()


def bytes_read() -> int:
    """Return the bytes that this process has read by system calls so far, cached or not."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("rchar:"):
            return int(line.split()[1])
    return 0


def files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.iterdir())
    return [path] if path.exists() else []


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
