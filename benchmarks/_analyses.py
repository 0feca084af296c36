"""Competitors of `agc.py`: variants of the ttbar analysis of the AGC, whole or with some of their parts left out.

A part is a run of the same framework with another function: "open" does nothing, "read" touches all columns, and "all"
is the analysis, which tells the time in `hist.Hist.fill`. `InMemory` calls the function with columns that were read
before.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
import warnings
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from _worker import Parts

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "examples/agc"))
# a file here is called as a package that the analysis imports
sys.path = [path for path in sys.path if Path(path or ".").resolve() != HERE]
warnings.simplefilter("ignore")

BTAG = "btagCSVV2"


def nothing(batch: Any, filled: Any) -> None:
    filled.n_events += len(batch)


class Analysis:
    """One variant with femtobarn, or with what it is compared with."""

    def __init__(self, spec: dict[str, Any]) -> None:
        import samples
        import selection

        self.spec, self.samples = spec, samples
        self.columns = selection.columns_of(BTAG)
        self.rounds = iter(spec["files"])  # of each run: so it can have a connection of its own
        self.module = importlib.import_module(f"with_{spec['variant']}")
        self.executor = spec.get("executor", "threads")
        self.cluster = contextlib.ExitStack()
        if self.executor == "dask":
            from distributed import Client

            client = Client(n_workers=spec["workers"], threads_per_worker=1, dashboard_address=None)
            self.cluster.enter_context(client)
        self.workers = {"executor": self.executor, "workers": spec["workers"]}
        if self.executor == "pool":
            import femtobarn as fb

            self.workers = {"executor": self.cluster.enter_context(fb.Pool("processes", workers=spec["workers"]))}
        self.options: dict[str, Any] = {}
        if spec.get("cache"):
            self.options["storage_options"] = {"cache": spec["cache"]}
        self.filled: dict[str, Any] | None = None
        if spec.get("warm_up"):
            self.call(samples.fileset_of(spec["warm_up"]))
        if spec.get("cache"):
            self.call(self.fileset())

    def versions(self) -> dict[str, str]:
        return {}

    def fileset(self) -> dict[str, Any]:
        self.files = next(self.rounds)
        return self.samples.fileset_of(self.files)

    def prepare(self) -> None:
        self.input = self.fileset()
        if self.spec.get("drops_pages"):
            for file in self.files:
                with Path(file).open("rb") as opened:
                    os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def run(self) -> Parts:
        began = time.perf_counter()
        self.filled = self.call(self.input)
        return {"read": time.perf_counter() - began}

    def check(self) -> dict[str, Any]:
        histograms = self.samples.named(self.filled)
        return {"sums": [float(x) for name in sorted(histograms) for x in histograms[name].values(flow=True)]}

    def call(self, fileset: dict[str, Any]) -> dict[str, Any]:
        """Run the part of the analysis, with a clock around filling in this process."""
        import hist

        self.filling, fill = 0.0, hist.Hist.fill

        def timed(*arguments: Any, **options: Any) -> Any:
            began = time.thread_time()
            try:
                return fill(*arguments, **options)
            finally:
                self.filling += time.thread_time() - began

        with mock.patch.object(hist.Hist, "fill", timed):
            return self.part(self.spec.get("part", "all"), fileset)

    def told(self) -> dict[str, Any]:
        return {"filling": self.filling}

    def part(self, part: str, fileset: dict[str, Any]) -> dict[str, Any]:
        """Run one of the parts, by `process`."""
        import femtobarn as fb

        options = self.workers | self.options
        if part in ("open", "read"):
            given = {"virtual": True} if part == "open" else {"preload": self.columns}
            options |= {"by": "batch", "state": self.samples.Filled, "reduce": add, "by_dataset": True}
            return fb.process(fileset, nothing, **given, **options).value
        return self.module.run(fileset, btag=BTAG, **options)


class InMemory(Analysis):
    """Calls the function with columns that were read before, in batches of `process`."""

    def fileset(self) -> dict[str, Any]:
        import femtobarn as fb

        if not hasattr(self, "batches"):
            fileset = super().fileset()
            self.batches = list(fb.iterate(fileset, self.columns, step_size=100_000))
        return {}

    def call(self, fileset: dict[str, Any]) -> dict[str, Any]:
        self.fileset()
        self.filling = 0.0
        found = {batch.dataset: self.samples.Filled() for batch in self.batches}
        for batch in self.batches:
            self.module.analyze(BTAG, batch, found[batch.dataset])
        return found


class Coffea(Analysis):
    """The processor of coffea, with the Runner of femtobarn or of coffea."""

    def part(self, part: str, fileset: dict[str, Any]) -> dict[str, Any]:
        from coffea import processor

        options: dict[str, Any] = {}
        if self.spec["reader"] == "femtobarn":
            options = {"threads": self.spec["workers"], **self.options}
        else:
            options["runner"] = processor.Runner
        samples, columns, column_of = self.samples, self.columns, self.module.column_of

        class Touch(processor.ProcessorABC):  # type: ignore[misc]
            """Touches all columns, or none."""

            def __init__(self, _: str) -> None:
                pass

            def process(self, events: Any) -> Any:
                import awkward as ak

                for name in columns if part == "read" else ():
                    ak.materialize(column_of(events)(name))
                return {events.metadata["dataset"]: samples.Filled(len(events))}

            def postprocess(self, accumulator: Any) -> Any:
                return accumulator

        analysis = Touch if part in ("open", "read") else self.module.TtbarProcessor
        return self.module.run(fileset, self.executor, BTAG, analysis=analysis, **options)


class Rdf(Analysis):
    """RDataFrame, over femtobarn or over ROOT."""

    def __init__(self, spec: dict[str, Any]) -> None:
        import ROOT

        ROOT.gEnv.SetValue("Path.ForceRemote", 1)  # otherwise it opens files on local servers from disk
        if spec["workers"] > 1:
            ROOT.EnableImplicitMT(spec["workers"])
        if spec.get("part") == "read":
            code = HERE / "agc_sums.hxx"
            assert ROOT.gInterpreter.Declare(f'#pragma cling optimize(3)\n#include "{code}"')
        super().__init__(spec)

    def part(self, part: str, fileset: dict[str, Any]) -> dict[str, Any]:
        import ROOT

        import femtobarn as fb

        frame = fb.rdataframe if self.spec["reader"] == "femtobarn" else self.module.native
        if part not in ("open", "read"):
            executor = "threads" if self.spec["workers"] > 1 else "none"
            return self.module.run(fileset, executor, BTAG, frame=frame, **self.options)
        for dataset in fileset.values():
            made = frame(dataset["files"], **self.options)
            if part == "open":
                made.Count().GetValue()
            else:
                ROOT.bench.Sums(ROOT.RDF.AsRNode(made))
        return {}
