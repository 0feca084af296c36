"""The ttbar analysis with Awkward Arrays, by `femtobarn.process`."""

from __future__ import annotations

from functools import partial
from operator import add

from samples import Filled
from selection import columns_of, fill

import femtobarn as fb

EXECUTORS = ("threads", "processes", "dask")


def run(fileset, executor="threads", btag="btagCSVV2", **options):
    """Return a `Filled` for each sample; options are those of `femtobarn.process`."""
    options |= {"by": "batch", "state": Filled, "reduce": add, "by_dataset": True}
    function = partial(analyze, btag)
    return fb.process(fileset, function, preload=columns_of(btag), executor=executor, **options).value


def analyze(btag, batch, filled):
    fill(filled, batch.metadata["sample"], batch.__getitem__, btag)
