"""The ttbar analysis with ROOT's RDataFrame, which reads through femtobarn or by itself."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import ROOT
from samples import BY_NAME, PT_VARIATIONS, VARIATIONS, Filled

import femtobarn as fb

EXECUTORS = ("threads",)


@cache
def compiled():
    """Return the namespace of `ttbar.hxx`."""
    header = Path(__file__).with_name("ttbar.hxx").read_text()
    if not ROOT.gInterpreter.Declare(f"#pragma cling optimize(3)\n{header}"):
        raise RuntimeError("ROOT cannot compile ttbar.hxx")
    return ROOT.agc


def native(files):
    """Return a frame that ROOT reads."""
    paths, (name, *_) = list(files), files.values()
    return ROOT.RDataFrame(name, paths)


def run(fileset, executor="threads", btag="btagCSVV2", frame=fb.rdataframe, **options):
    """Return a `Filled` for each sample; `frame` makes a dataframe of files, with options."""
    if executor == "threads":
        ROOT.EnableImplicitMT()
    booked = {name: book(name, frame(dataset["files"], **options), btag) for name, dataset in fileset.items()}
    return {name: filled(one) for name, one in booked.items()}


def book(name, frame, btag):
    variations = BY_NAME[name].variations
    pts = [variation for variation in variations if variation in PT_VARIATIONS]
    weights = [variation for variation in variations if variation.startswith(("btag", "scale"))]
    types = (frame.GetColumnType(column) for column in ("Electron_cutBased", "Jet_jetId"))
    return compiled().Book[*types](ROOT.RDF.AsRNode(frame), f"Jet_{btag}", pts, weights)


def filled(booked):
    """Return the results; the first one runs the event loop."""
    result = Filled(int(booked.events.GetValue()))
    bins = result.histogram.view(flow=True)
    for region, (histograms, sums) in enumerate(zip(booked.histograms, booked.sums, strict=True)):
        for label in sums.GetKeys():
            result.sums[region, index_of(label)] = sums[label]
        for label in histograms.GetKeys():
            histogram = histograms[label]
            if histogram.GetSumw2N() == 0:
                histogram.Sumw2()  # all weights were 1: their squares are the contents
            n = histogram.GetNcells()
            bins.value[region, index_of(label)] = np.frombuffer(histogram.GetArray(), count=n)
            bins.variance[region, index_of(label)] = np.frombuffer(histogram.GetSumw2().GetArray(), count=n)
    return result


def index_of(label):
    """Return which variation it is; RDataFrame puts the column in front of its name."""
    return VARIATIONS.index(str(label).rpartition(":")[2])
