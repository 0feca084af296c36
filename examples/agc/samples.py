"""The samples of the ttbar analysis, what is filled for each of them, and the histograms that are written.

All variants of the analysis fill the same `Filled` for a sample. Its bins of "nominal" and of variations of pt are
numbers of events; `named` scales them to the luminosity of the data, and gives them the names of the Analysis Grand
Challenge.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import hist
import numpy as np
from hist.axis import Regular, StrCategory

import femtobarn as fb

LUMINOSITY = 3378  # 1/pb
LEPTONIC = 0.252
TTBAR, W_JETS = 729.84, 61457 * LEPTONIC  # cross-sections in pb

REGIONS = ("4j1b", "4j2b")
PT_VARIATIONS = ("pt_scale_up", "pt_res_up")
BTAG_VARIATIONS = tuple(f"btag_var_{jet}_{way}" for jet in range(4) for way in ("up", "down"))
SCALE_VARIATIONS = ("scale_var_up", "scale_var_down")  # only of W + jets
VARIATIONS = ("nominal", *PT_VARIATIONS, *BTAG_VARIATIONS, *SCALE_VARIATIONS)


@dataclass(frozen=True)
class Sample:
    """A simulated sample: a process, and how its simulation differs from the nominal one."""

    process: str
    variation: str
    cross_section: float  # pb

    @property
    def name(self) -> str:
        return f"{self.process}__{self.variation}"

    @property
    def variations(self) -> tuple[str, ...]:
        """What is filled for this sample."""
        if self.variation != "nominal":
            return VARIATIONS[:1]
        return VARIATIONS if self.process == "wjets" else VARIATIONS[: -len(SCALE_VARIATIONS)]


SAMPLES = [
    Sample("ttbar", "nominal", TTBAR),
    Sample("ttbar", "scaledown", TTBAR),
    Sample("ttbar", "scaleup", TTBAR),
    Sample("ttbar", "ME_var", TTBAR),
    Sample("ttbar", "PS_var", TTBAR),
    Sample("single_top_s_chan", "nominal", 3.2944),
    Sample("single_top_t_chan", "nominal", 59.168 / LEPTONIC),
    Sample("single_top_tW", "nominal", 75.842),
    Sample("wjets", "nominal", W_JETS),
]
BY_NAME = {sample.name: sample for sample in SAMPLES}


def fileset_of(files, tree="Events"):
    """Return a fileset with one file for each sample, in their order."""
    samples = zip(SAMPLES, files, strict=False)
    return {sample.name: {"files": {str(file): tree}, "metadata": {"sample": sample.name}} for sample, file in samples}


def empty_histogram():
    observable = Regular(25, 50, 550, name="observable", label="observable [GeV]")
    regions, variations = StrCategory(REGIONS, name="region"), StrCategory(VARIATIONS, name="variation")
    return hist.Hist(regions, variations, observable, storage=hist.storage.Weight())


@dataclass
class Filled:
    """What is filled for a sample, or for a part of it."""

    n_events: int = 0  # before the selection
    histogram: hist.Hist = field(default_factory=empty_histogram)
    # of the observable, by region and variation of pt; they show differences that bins do not
    sums: np.ndarray = field(default_factory=lambda: np.zeros((len(REGIONS), len(VARIATIONS))))

    def __add__(self, other):
        return Filled(self.n_events + other.n_events, self.histogram + other.histogram, self.sums + other.sums)


def named(filled):
    """Return the histograms of samples by their names, scaled to the luminosity, with those of pseudodata.

    Parameters
    ----------
    filled : dict
        A `Filled` for each name of a sample.

    Returns
    -------
    dict
        124 histograms if all samples are there.
    """
    histograms = {}
    for sample in (BY_NAME[name] for name in filled):
        one = filled[sample.name]
        weight = sample.cross_section * LUMINOSITY / one.n_events
        for region, variation in product(REGIONS, sample.variations):
            label = variation if sample.variation == "nominal" else sample.variation
            suffix = "" if label == "nominal" else f"_{label}"
            histograms[f"{region}_{sample.process}{suffix}"] = one.histogram[region, variation, :] * weight
    for region in REGIONS:
        parts = [f"{region}_{name}" for name in ("ttbar_ME_var", "ttbar_PS_var", "wjets")]
        if all(name in histograms for name in parts):
            histograms[f"{region}_pseudodata"] = pseudodata(*(histograms[name] for name in parts))
    return dict(sorted(histograms.items()))


def pseudodata(ttbar_me, ttbar_ps, w_jets):
    """Return what takes the place of data: no nominal sample of ttbar is in it."""
    return (ttbar_me + ttbar_ps) / 2 + w_jets


def write(path, histograms):
    """Write histograms to a ROOT file."""
    with fb.recreate(path) as file:
        for name, histogram in histograms.items():
            file[name] = histogram
