"""The ttbar analysis as a processor of coffea, for the Runner of femtobarn or of coffea."""

from __future__ import annotations

from coffea import processor
from coffea.nanoevents import NanoAODSchema
from samples import Filled
from selection import fill

from femtobarn.coffea import Runner

EXECUTORS = ("threads", "processes", "dask")


def column_of(events):
    """Return a function that returns a column by its name in NanoAOD."""

    def column(name):
        collection, _, member = name.partition("_")
        return events[collection][member]

    return column


class TtbarProcessor(processor.ProcessorABC):
    """Fills the histogram of each sample."""

    def __init__(self, btag="btagCSVV2"):
        self.btag = btag

    def process(self, events):
        filled = Filled()
        fill(filled, events.metadata["sample"], column_of(events), self.btag)
        return {events.metadata["dataset"]: filled}

    def postprocess(self, accumulator):
        return accumulator


def run(fileset, executor="threads", btag="btagCSVV2", runner=Runner, analysis=TtbarProcessor, **options):
    """Return a `Filled` for each sample; options are those of the Runner."""
    NanoAODSchema.warn_missing_crossrefs = False
    options = {"schema": NanoAODSchema, "chunksize": 100_000, "metadata_cache": {}} | options
    return runner(executor_of(executor), **options)(fileset, analysis(btag))


def executor_of(name):
    """Return an executor of coffea; with "threads", femtobarn reads a chunk on all cores."""
    if name == "threads":
        return processor.IterativeExecutor(status=False)
    if name == "processes":
        return processor.FuturesExecutor(workers=None, status=False)
    from distributed import default_client

    return processor.DaskExecutor(client=default_client(), status=False)
