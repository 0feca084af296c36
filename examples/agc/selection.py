"""The selection and the observables, as functions of Awkward Arrays. The variants of Awkward and coffea share them.

One charged lepton, at least four jets. Regions: 4j1b (exactly one b jet; the observable is the sum of the pt of jets)
and 4j2b (two or more; the mass of the three jets with the largest pt together, at least one of them a b jet).

Columns are compared with limits in single precision, as they are stored. All that is computed is in double precision:
so each variant of the analysis puts each event into the same bin.
"""

from __future__ import annotations

import awkward as ak
import numpy as np
from samples import BY_NAME, REGIONS, VARIATIONS
from scipy.special import ndtri

MEMBERS = {
    "Electron": ("pt", "eta", "cutBased", "sip3d"),
    "Muon": ("pt", "eta", "tightId", "sip3d", "pfRelIso04_all"),
    "Jet": ("pt", "eta", "phi", "mass", "jetId"),
}

LEPTON_PT, LEPTON_ETA, LEPTON_SIP3D, MUON_ISOLATION = (np.float32(limit) for limit in (30, 2.1, 4, 0.15))
JET_PT, JET_ETA, B_TAG = 30.0, np.float32(2.4), np.float32(0.5)
PT_SCALE, BTAG_SLOPE, SCALE = 1.03, 0.075, 0.025
# factors for the pt of jets, normally distributed; digits of the pt choose one of them
RESOLUTION = 1 + 0.05 * ndtri(0.001 * np.arange(1000) + 0.0005)


def columns_of(btag):
    """Return the names of all columns that the analysis reads; `btag` is the member of jets that tags b jets."""
    return [f"{name}_{member}" for name, members in MEMBERS.items() for member in members] + [f"Jet_{btag}"]


def fill(filled, sample, column, btag):
    """Fill the histogram of a sample with events; `column` returns a column of them by its name."""
    electrons, muons, jets = (
        {member: column(f"{name}_{member}") for member in members} for name, members in MEMBERS.items()
    )
    jets = ak.zip(jets | {"btag": column(f"Jet_{btag}")})
    filled.n_events += len(jets)
    for region, variation, values, weight in observables(BY_NAME[sample], ak.zip(electrons), ak.zip(muons), jets):
        filled.histogram.fill(region, variation, values, weight=weight)
        if weight is None:
            filled.sums[REGIONS.index(region), VARIATIONS.index(variation)] += values.sum()


def observables(sample, electrons, muons, jets):
    """Iterate over region, variation, values of the observable, and weights if these are varied."""
    jets = jets[one_lepton(electrons, muons)]
    jets = jets[(abs(jets.eta) < JET_ETA) & (jets.jetId == 6)]
    jets = jets[ak.num(jets) >= 4]
    jets["pt"] = ak.values_astype(jets.pt, np.float64)
    for variation, pt in varied_pts(jets.pt, sample.variations).items():
        varied = ak.with_field(jets, pt, "pt")[pt > JET_PT]
        varied = varied[ak.num(varied) >= 4]
        n_b = ak.sum(varied.btag > B_TAG, axis=1)
        for region, is_in_region, observable in (("4j1b", n_b == 1, pt_sum), ("4j2b", n_b >= 2, trijet_mass)):
            chosen = varied[is_in_region]
            values = observable(chosen)
            yield region, variation, values, None
            if variation == "nominal":
                for name, weight in varied_weights(chosen.pt, sample.variations).items():
                    yield region, name, values, weight


def one_lepton(electrons, muons):
    """Return which events have exactly one good electron or muon."""
    good_electrons = (electrons.pt > LEPTON_PT) & (abs(electrons.eta) < LEPTON_ETA) & (electrons.cutBased == 4)
    good_electrons = good_electrons & (electrons.sip3d < LEPTON_SIP3D)
    good_muons = (muons.pt > LEPTON_PT) & (abs(muons.eta) < LEPTON_ETA) & muons.tightId
    good_muons = good_muons & (muons.sip3d < LEPTON_SIP3D) & (muons.pfRelIso04_all < MUON_ISOLATION)
    return ak.sum(good_electrons, axis=1) + ak.sum(good_muons, axis=1) == 1


def varied_pts(pt, variations):
    """Return the pt of jets, nominal and varied."""
    if "pt_scale_up" not in variations:
        return {"nominal": pt}
    flat = ak.to_numpy(ak.flatten(pt))
    resolution = RESOLUTION[(flat * 1000).astype(np.int64) % 1000]
    return {
        "nominal": pt,
        "pt_scale_up": pt * PT_SCALE,
        "pt_res_up": ak.unflatten(flat * resolution, ak.num(pt)),
    }


def varied_weights(pt, variations):
    """Return the variations of the weight, by the pt of the selected jets."""
    weights = {}
    for name in variations:
        if name.startswith("btag_var"):
            _, _, jet, way = name.split("_")
            change = BTAG_SLOPE * ak.to_numpy(pt[:, int(jet)]) / 50
            weights[name] = 1 + change if way == "up" else 1 - change
        elif name.startswith("scale_var"):
            weights[name] = 1 + SCALE if name.endswith("up") else 1 - SCALE
    return weights


def pt_sum(jets):
    return ak.to_numpy(ak.sum(jets.pt, axis=1))


def trijet_mass(jets):
    """Return the mass of the three jets that have the largest pt together. At least one of them must be a b jet."""
    phi, eta, mass = (ak.values_astype(column, np.float64) for column in (jets.phi, jets.eta, jets.mass))
    x, y, z = jets.pt * np.cos(phi), jets.pt * np.sin(phi), jets.pt * np.sinh(eta)
    energy = np.sqrt(x**2 + y**2 + z**2 + mass**2)
    first, second, third = ak.unzip(ak.argcombinations(x, 3, axis=1))
    is_b = jets.btag > B_TAG
    has_b = is_b[first] | is_b[second] | is_b[third]
    first, second, third = first[has_b], second[has_b], third[has_b]
    pt2 = (x[first] + x[second] + x[third]) ** 2 + (y[first] + y[second] + y[third]) ** 2
    best = ak.argmax(pt2, axis=1, keepdims=True)
    three = [at[best] for at in (first, second, third)]
    sums = (sum(column[at] for at in three) for column in (energy, x, y, z))
    e, x, y, z = (ak.to_numpy(ak.flatten(column)) for column in sums)
    return np.sqrt(np.maximum(e**2 - x**2 - y**2 - z**2, 0))
