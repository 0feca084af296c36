"""The ttbar analysis of the Analysis Grand Challenge, as a processor of coffea.

    python examples/agc/ttbar.py FILE.root [FILE.root ...]

Each file is taken as a slice of one sample, in the order of `SAMPLES`. Columns: NanoAOD of CMS open data of 2015.

One charged lepton, at least four jets. Regions: 4j1b (exactly one b jet; sum of the pt of jets) and 4j2b (two or
more; mass of the three jets with the largest summed pt, one of them a b jet). Nominal samples have variations of
weights and of the pt of jets.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import awkward as ak
import hist
import numpy as np
from coffea import processor
from coffea.nanoevents import NanoAODSchema
from scipy.special import ndtri

LUMINOSITY = 3378  # 1/pb
LEPTONIC = 0.252
# name, variation, cross-section in pb
SAMPLES = [
    ("ttbar", "nominal", 729.84),
    ("ttbar", "scaledown", 729.84),
    ("ttbar", "scaleup", 729.84),
    ("ttbar", "ME_var", 729.84),
    ("ttbar", "PS_var", 729.84),
    ("single_top_s_chan", "nominal", 3.2944),
    ("single_top_t_chan", "nominal", 59.168 / LEPTONIC),
    ("single_top_tW", "nominal", 75.842),
    ("wjets", "nominal", 61457 * LEPTONIC),
]
B_TAG = 0.5
N_BTAG_VARIATIONS = 4


@dataclass(frozen=True)
class Jets:
    """Columns of the jets of events, each a list per event."""

    pt: ak.Array
    eta: ak.Array
    phi: ak.Array
    mass: ak.Array
    btag: ak.Array

    def __getitem__(self, where):
        return Jets(*(column[where] for column in (self.pt, self.eta, self.phi, self.mass, self.btag)))


def one_lepton(electrons, muons):
    """Return which events have exactly one good electron or muon."""
    good_electrons = (electrons.pt > 30) & (abs(electrons.eta) < 2.1) & (electrons.cutBased == 4)
    good_electrons = good_electrons & (electrons.sip3d < 4)
    good_muons = (muons.pt > 30) & (abs(muons.eta) < 2.1) & muons.tightId & (muons.sip3d < 4)
    good_muons = good_muons & (muons.pfRelIso04_all < 0.15)
    return ak.sum(good_electrons, axis=1) + ak.sum(good_muons, axis=1) == 1


def resolution_factor(pt):
    """Return a factor for the pt of jets, a normal distribution that is determined by the pt."""
    flat = ak.to_numpy(ak.flatten(pt)).astype(np.float64)
    quantile = 0.001 * ((flat * 1000).astype(np.int64) % 1000) + 0.0005
    return ak.unflatten(1 + 0.05 * ndtri(quantile), ak.num(pt))


def trijet_mass(jets):
    """Return the mass of the three jets that have the largest pt together. At least one of them must be a b jet."""
    pt, eta = (ak.values_astype(column, np.float64) for column in (jets.pt, jets.eta))
    px, py, pz = pt * np.cos(jets.phi), pt * np.sin(jets.phi), pt * np.sinh(eta)
    energy = np.sqrt(px**2 + py**2 + pz**2 + jets.mass**2)
    at = ak.argcombinations(pt, 3, axis=1)
    first, second, third = ak.unzip(at)
    has_b = np.maximum(np.maximum(jets.btag[first], jets.btag[second]), jets.btag[third]) > B_TAG
    first, second, third = first[has_b], second[has_b], third[has_b]
    x, y = (column[first] + column[second] + column[third] for column in (px, py))
    best = ak.argmax(x**2 + y**2, axis=1, keepdims=True)
    first, second, third = first[best], second[best], third[best]
    sums = [column[first] + column[second] + column[third] for column in (energy, px, py, pz)]
    e, x, y, z = (ak.to_numpy(ak.flatten(column)) for column in sums)
    return np.sqrt(np.maximum(e**2 - x**2 - y**2 - z**2, 0))


class TtbarProcessor(processor.ProcessorABC):
    """Fills histograms of both regions, by process and variation."""

    def __init__(self, btag="btagCSVV2"):
        self.btag = btag

    def process(self, events):
        about = events.metadata
        weight = about["xsec"] * LUMINOSITY / about["nevts"] if "xsec" in about else 1.0
        histograms = {
            region: hist.Hist(
                hist.axis.Regular(25, 50, 550, name="observable"),
                hist.axis.StrCategory([], growth=True, name="process"),
                hist.axis.StrCategory([], growth=True, name="variation"),
                hist.storage.Weight(),
            )
            for region in ("4j1b", "4j2b")
        }
        counts = {}
        passing = one_lepton(events.Electron, events.Muon)
        every = events.Jet
        good = (abs(every.eta) < 2.4) & (every.jetId == 6)
        jets = Jets(every.pt, every.eta, every.phi, every.mass, every[self.btag])[good & passing]
        jets = jets[ak.num(jets.pt) >= 4]
        is_nominal = about.get("variation", "nominal") == "nominal"
        pts = {about.get("variation", "nominal"): jets.pt}
        if is_nominal:
            pts["pt_scale_up"] = jets.pt * 1.03
            pts["pt_res_up"] = jets.pt * resolution_factor(jets.pt)
        for variation, pt in pts.items():
            varied = Jets(pt, jets.eta, jets.phi, jets.mass, jets.btag)[pt > 30]
            varied = varied[ak.num(varied.pt) >= 4]
            n_b = ak.sum(varied.btag > B_TAG, axis=1)
            for region, where in (("4j1b", n_b == 1), ("4j2b", n_b >= 2)):
                chosen = varied[where]
                observable = ak.to_numpy(ak.sum(chosen.pt, axis=1)) if region == "4j1b" else trijet_mass(chosen)
                counts[region, variation] = {"n": len(observable), "sum": float(observable.sum())}
                weights = {variation: np.full(len(observable), weight)}
                if variation == "nominal":
                    weights |= self.varied_weights(about.get("process"), chosen.pt, weight)
                for name, values in weights.items():
                    labels = {"process": about.get("process", about["dataset"]), "variation": name}
                    histograms[region].fill(observable=observable, weight=values, **labels)
        return {"histograms": histograms, "counts": {about["dataset"]: counts}, "events": len(events)}

    def varied_weights(self, process, pt, weight):
        """Return the variations of the weight, with the selected jets of the events."""
        weights = {}
        for at in range(N_BTAG_VARIATIONS):
            change = 0.075 * ak.to_numpy(pt[:, at]) / 50
            weights |= {f"btag_var_{at}_up": weight * (1 + change), f"btag_var_{at}_down": weight * (1 - change)}
        if process == "wjets":
            same = np.full(len(pt), weight)
            weights |= {"scale_var_up": same * 1.025, "scale_var_down": same * 0.975}
        return weights

    def postprocess(self, accumulator):
        return accumulator


def fileset_of(files, nevts):
    """Return a fileset with one file for each sample."""
    samples = zip(SAMPLES, files, strict=False)
    return {
        f"{name}__{variation}": {
            "files": {str(file): "Events"},
            "metadata": {"process": name, "variation": variation, "xsec": xsec, "nevts": nevts},
        }
        for (name, variation, xsec), file in samples
    }


def main():
    import femtobarn as fb
    from femtobarn.coffea import Runner

    files = sys.argv[1:]
    fileset = fileset_of(files, fb.open(f"{files[0]}:Events").num_entries)
    run = Runner(processor.IterativeExecutor(), schema=NanoAODSchema, chunksize=500_000)
    out = run(fileset, TtbarProcessor())
    for region, histogram in out["histograms"].items():
        for name in histogram.axes["process"]:
            total = histogram[{"process": name, "variation": "nominal"}].sum()
            print(f"{region} {name}: {total.value:.1f} events")


if __name__ == "__main__":
    main()
