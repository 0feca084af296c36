"""One competitor in a separate process: does one measured run for each line of input.

    _worker.py '{"competitor": "femtobarn", "path": ..., "ntuple": ..., ...}'

Started by read.py and similar scripts. It answers each line "run" with the seconds of each part and the CPU time, as
JSON, and "check" with the data, to be compared with the others. The arrays of a run are freed after the clock has
stopped.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import sys
import time
import zlib
from pathlib import Path
from typing import Any

AGC = (
    *("Electron_pt", "Electron_eta", "Electron_cutBased", "Electron_sip3d"),
    *("Muon_pt", "Muon_eta", "Muon_tightId", "Muon_sip3d", "Muon_pfRelIso04_all"),
    *("Jet_pt", "Jet_eta", "Jet_phi", "Jet_mass", "Jet_btagCSVV2", "Jet_jetId"),
)
TREE_TASKS = {"TouchAll": "root_tree.cxx", "TreeLoop": "root_tree.cxx"}
REMOTE_TASKS = {"AgcSumsOfFiles": "root_remote.cxx"}
NTUPLE_TASKS = {"Loop": "root_loop.cxx", "Open": "root_loop.cxx", "AgcSums": "root_rdf.cxx", "Write": "root_write.cxx"}
ROOT_SOURCES = TREE_TASKS | NTUPLE_TASKS | REMOTE_TASKS
COLUMNS = {"all": None, "agc": list(AGC)}
HERE = Path(__file__).resolve().parent

Parts = dict[str, float]


def flat_sum(column: Any) -> float:
    """Return the sum of a column of lists, in double precision."""
    import awkward as ak
    import numpy as np

    return float(np.sum(np.asarray(ak.flatten(column, axis=None)), dtype=np.float64))


def digests(array: Any) -> dict[str, int]:
    """Return a checksum of the offsets and values of each top-level field."""
    import awkward as ak
    import numpy as np

    found = {}
    for field in array.fields:
        _, _, buffers = ak.to_buffers(ak.to_packed(array[field]))
        digest = 0
        for name, buffer in buffers.items():
            normal = buffer.astype(np.int64) if name.endswith("-offsets") else buffer
            digest = zlib.crc32(memoryview(np.ascontiguousarray(normal)).cast("B"), digest)
        found[field] = digest
    return found


class ToAwkward:
    """Opens files and reads into Awkward Arrays; the common part of femtobarn and uproot."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.file = f"{spec['path']}:{spec['ntuple']}"
        self.columns = COLUMNS[spec.get("columns", "all")]
        self.opened: Any = None

    def open(self) -> Any:
        raise NotImplementedError

    def arrays(self, ntuple: Any) -> Any:
        raise NotImplementedError

    def iterate(self, ntuple: Any) -> Any:
        raise NotImplementedError

    def read(self, ntuple: Any) -> Any:
        array = self.arrays(ntuple)
        if self.spec.get("sum"):
            for name in array.fields:
                flat_sum(array[name])
        return array

    def run(self) -> Parts:
        task = getattr(self, "run_" + self.spec.get("task", "arrays"))
        parts: Parts = task()
        return parts

    def run_arrays(self) -> Parts:
        self.opened = None
        start = time.perf_counter()
        ntuple = self.open()
        opened = time.perf_counter()
        array = self.read(ntuple)
        read = time.perf_counter()
        del array
        self.opened = ntuple
        return {"open": opened - start, "read": read - opened}

    def again(self) -> float:
        """Read again from the file that run() has opened, whose metadata is known now."""
        start = time.perf_counter()
        array = self.read(self.opened)
        seconds = time.perf_counter() - start
        del array
        return seconds

    def run_open(self) -> Parts:
        start = time.perf_counter()
        ntuple = self.open()
        opened = time.perf_counter()
        ntuple.keys()
        return {"open": opened - start, "keys": time.perf_counter() - opened}

    def run_iterate(self) -> Parts:
        start = time.perf_counter()
        ntuple = self.open()
        opened = time.perf_counter()
        for _ in self.iterate(ntuple):
            pass
        return {"open": opened - start, "read": time.perf_counter() - opened}

    def check(self) -> dict[str, Any]:
        array = self.arrays(self.open())
        if self.spec.get("columns") == "agc":
            return {"events": len(array), "sums": [flat_sum(array[name]) for name in AGC]}
        return {"events": len(array), "digests": digests(array)}


class Femtobarn(ToAwkward):
    def __init__(self, spec: dict[str, Any]) -> None:
        import femtobarn

        super().__init__(spec)
        self.femtobarn = femtobarn
        self.threads = spec.get("threads", 1)

    def versions(self) -> dict[str, str]:
        try:
            return {"femtobarn": self.femtobarn.__version__}
        except ImportError:  # run from a directory, not installed
            return {"femtobarn": "not installed"}

    def open(self) -> Any:
        return self.femtobarn.open(self.file, verify_checksums=self.spec.get("verify_checksums", True))

    def arrays(self, ntuple: Any) -> Any:
        return ntuple.arrays(self.columns, library="ak", threads=self.threads)

    def iterate(self, ntuple: Any) -> Any:
        return ntuple.iterate(self.columns, step_size=self.spec["step_size"], library="ak", threads=self.threads)


class Uproot(ToAwkward):
    def __init__(self, spec: dict[str, Any]) -> None:
        import uproot

        super().__init__(spec)
        self.uproot = uproot

    def versions(self) -> dict[str, str]:
        return {"uproot": self.uproot.__version__}

    def open(self) -> Any:
        # without these, uproot would return the ntuple of the previous run, with parsed metadata
        return self.uproot.open(self.file, object_cache=None, array_cache=None)

    def arrays(self, ntuple: Any) -> Any:
        return ntuple.arrays(self.columns)

    def iterate(self, ntuple: Any) -> Any:
        return ntuple.iterate(self.columns, step_size=self.spec["step_size"])


class Root:
    """Functions compiled by ROOT's ACLiC with -O3; none is interpreted."""

    def __init__(self, spec: dict[str, Any]) -> None:
        import warnings

        warnings.simplefilter("ignore")  # "This distribution of ROOT is in alpha stage"
        import ROOT

        self.spec = spec
        self.version = str(ROOT.gROOT.GetVersion())
        self.writes = spec["task"] == "Write"
        self.file = (spec["output" if self.writes else "path"], spec["ntuple"])
        self.arguments = (*self.file, spec["settings"]) if self.writes else self.file
        build = Path(spec["build"]) / f"root-{self.version.replace('/', '-')}"
        build.mkdir(parents=True, exist_ok=True)
        ROOT.gSystem.SetBuildDir(str(build), True)
        ROOT.gSystem.SetFlagsOpt("-O3 -DNDEBUG")
        source = HERE / ROOT_SOURCES[spec["task"]]
        if not ROOT.gSystem.CompileMacro(str(source), "kO"):
            raise RuntimeError(f"ACLiC cannot compile {source.name}")
        self.function = getattr(ROOT.bench, spec["task"])
        if self.writes:
            self.function(*self.arguments)  # without columns: cling compiles the wrapper on the first call
            ROOT.bench.Load(spec["columns"])

    def versions(self) -> dict[str, str]:
        return {"ROOT": self.version}

    def run(self) -> Parts:
        if self.writes:
            Path(self.file[0]).unlink(missing_ok=True)
        first, second, *_ = self.function(*self.arguments)
        return {"open": first, {"Open": "keys", "Write": "write"}.get(self.spec["task"], "read"): second}

    def told(self) -> dict[str, Any]:
        return {"bytes": Path(self.file[0]).stat().st_size} if self.writes else {}

    def check(self) -> dict[str, Any]:
        import ROOT

        if self.spec["task"] in TREE_TASKS:
            file = ROOT.TFile.Open(self.file[0])
            return {"events": int(file.Get(self.file[1]).GetEntries())}
        events = int(ROOT.RNTupleReader.Open(*reversed(self.file)).GetNEntries())
        sums = list(self.function(*self.file))[2:]
        return {"events": events, "sums": sums} if sums else {"events": events}


class Limit:
    """The floor: see floor/floor.c."""

    def __init__(self, spec: dict[str, Any]) -> None:
        from floor import Floor, basket_list, build, page_list

        path = Path(spec["path"])
        self.copy, self.threads = spec.get("copy", True), spec.get("threads", 1)
        pieces = basket_list(path, spec["ntuple"]) if spec.get("baskets") else page_list(path, spec["ntuple"])
        self.floor = Floor(build(Path(spec["build"])), path, pieces)

    def versions(self) -> dict[str, str]:
        return self.floor.versions()

    def run(self) -> Parts:
        if self.threads == 1:
            return {"read": self.floor.run(copy=self.copy)}
        return {"read": self.floor.run_threads(self.threads, copy=self.copy)}

    def check(self) -> dict[str, Any]:
        pages = self.floor.pages
        return {"pages": len(pages), "stored": int(pages[:, 1].sum()), "decoded": int(pages[:, 2].sum())}


READERS = {"femtobarn": Femtobarn, "uproot": Uproot, "root": Root, "floor": Limit}


def competitor_of(spec: dict[str, Any]) -> Any:
    if spec["competitor"] in READERS:
        return READERS[spec["competitor"]](spec)
    for name in ("_mergers", "_remotes", "_objects", "_writers", "_analyses"):
        module = importlib.import_module(name)
        if hasattr(module, spec["competitor"]):
            return getattr(module, spec["competitor"])(spec)
    raise KeyError(spec["competitor"])


def status(name: str) -> int:
    """Return a size from /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


def reset_peak() -> None:
    """Reset VmHWM to the current resident size."""
    with contextlib.suppress(OSError):  # otherwise the peak of the start-up is included
        Path("/proc/self/clear_refs").write_text("5")


def touch_memory(megabytes: int, settle: float) -> None:
    """Allocate and free as much memory as the run will need.

    Virtual machines return memory that has been free for about two seconds to their host. Getting it back costs up to
    3 s per gigabyte, many times the cost of a page in the kernel. Without this, a run after a pause would pay for it.
    Holding the memory for `settle` seconds lets the host collect memory that others have freed, so that it does not do
    this during the run.
    """
    if megabytes == 0:
        return
    import mmap

    import numpy as np

    area = mmap.mmap(-1, megabytes << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        area.madvise(mmap.MADV_HUGEPAGE)
    np.frombuffer(area, dtype=np.uint8)[:: mmap.PAGESIZE] = 1
    time.sleep(settle)
    area.close()


def processor_time() -> tuple[float, float]:
    """Return the CPU seconds of this process and its children: all, and system time only."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    system = sum(one.ru_stime for one in usage)
    return sum(one.ru_utime for one in usage) + system, system


def measured(competitor: Any, spec: dict[str, Any]) -> dict[str, Any]:
    gc.collect()
    if hasattr(competitor, "prepare"):
        competitor.prepare()
    touch_memory(spec.get("touch", 0), spec.get("settle", 0))
    reset_peak()
    (before, system_before), resident = processor_time(), status("VmRSS")
    parts = competitor.run()
    after, system = processor_time()
    memory = {"resident_before": resident, "peak": status("VmHWM")}
    found = {"parts": parts, "cpu": after - before, "system": system - system_before, "memory": memory}
    if hasattr(competitor, "told"):
        found |= competitor.told()
    if spec.get("again"):
        touch_memory(spec.get("touch", 0), spec.get("settle", 0))
        found["again"] = competitor.again()
    return found


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not be mistaken for an answer
    spec = json.loads(sys.argv[1])
    competitor = competitor_of(spec)
    print(json.dumps(competitor.versions()), file=answers, flush=True)
    for line in sys.stdin:
        answer = measured(competitor, spec) if line.strip() == "run" else competitor.check()
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
