"""The ttbar analysis as one loop over events, which Numba compiles; it fills all histograms of a sample."""

from __future__ import annotations

from functools import partial
from operator import add

import numba
import numpy as np
from samples import BTAG_VARIATIONS, BY_NAME, PT_VARIATIONS, Filled, empty_histogram
from selection import (
    B_TAG,
    BTAG_SLOPE,
    JET_ETA,
    JET_PT,
    LEPTON_ETA,
    LEPTON_PT,
    LEPTON_SIP3D,
    MUON_ISOLATION,
    PT_SCALE,
    RESOLUTION,
    SCALE,
    columns_of,
)

import femtobarn as fb

EXECUTORS = ("threads", "processes", "dask")
BINS = empty_histogram().axes["observable"]
LOW, WIDTH, N_BINS = BINS.edges[0], BINS.edges[-1] - BINS.edges[0], BINS.size
N_BTAG = len(BTAG_VARIATIONS) // 2
FIRST_BTAG = 1 + len(PT_VARIATIONS)
FIRST_SCALE = FIRST_BTAG + len(BTAG_VARIATIONS)


def run(fileset, executor="threads", btag="btagCSVV2", **options):
    """Return a `Filled` for each sample; options are those of `femtobarn.process`."""
    options |= {"by": "batch", "state": Filled, "reduce": add, "by_dataset": True}
    function = partial(analyze, btag)
    # with the number of jets, columns of jets are members of one collection
    return fb.process(fileset, function, preload=columns_of(btag), executor=executor, **options).value


def analyze(btag, batch, filled):
    flat = batch.flat()
    bins = filled.histogram.view(flow=True)
    outputs = bins.value, bins.variance, filled.sums
    n_variations = len(BY_NAME[batch.metadata["sample"]].variations)
    fill(flat.Electron, flat.Muon, flat.Jet, getattr(flat.Jet, btag), outputs, n_variations)
    filled.n_events += len(batch)


@numba.njit(nogil=True, cache=True)
def fill(electrons, muons, jets, tags, outputs, n_variations):
    """Fill values and variances, by region, variation and bin, and sums of the observable."""
    values, variances, sums = outputs
    most = np.max(np.diff(jets.offsets)) if len(tags) else 0
    at = np.empty(most, np.int64)  # the selected jets of an event
    pt = np.empty(most)
    momenta = np.empty((4, most))
    for event in range(len(jets.offsets) - 1):
        if n_leptons(electrons, muons, event) != 1:
            continue
        for variation in range(1 if n_variations == 1 else FIRST_BTAG):
            n, n_b = select_jets(jets, tags, event, variation, at, pt)
            if n < 4 or n_b == 0:
                continue
            region = 0 if n_b == 1 else 1
            observable = np.sum(pt[:n]) if n_b == 1 else trijet_mass(jets, tags, n, at, pt, momenta)
            place = (observable - LOW) / WIDTH
            bin_ = 0 if place < 0 else 1 + N_BINS if place >= 1 else 1 + int(place * N_BINS)
            add_weight(values, variances, region, variation, bin_, 1.0)
            sums[region, variation] += observable
            if variation > 0 or n_variations == 1:
                continue
            for jet in range(N_BTAG):
                change = BTAG_SLOPE * pt[jet] / 50
                add_weight(values, variances, region, FIRST_BTAG + 2 * jet, bin_, 1 + change)
                add_weight(values, variances, region, FIRST_BTAG + 2 * jet + 1, bin_, 1 - change)
            if n_variations > FIRST_SCALE:
                add_weight(values, variances, region, FIRST_SCALE, bin_, 1 + SCALE)
                add_weight(values, variances, region, FIRST_SCALE + 1, bin_, 1 - SCALE)


@numba.njit
def add_weight(values, variances, region, variation, bin_, weight):
    values[region, variation, bin_] += weight
    variances[region, variation, bin_] += weight * weight


@numba.njit
def n_leptons(electrons, muons, event):
    """Return the number of good electrons and muons."""
    n = 0
    for i in range(electrons.offsets[event], electrons.offsets[event + 1]):
        if electrons.pt[i] > LEPTON_PT and abs(electrons.eta[i]) < LEPTON_ETA:
            n += electrons.cutBased[i] == 4 and electrons.sip3d[i] < LEPTON_SIP3D
    for i in range(muons.offsets[event], muons.offsets[event + 1]):
        if muons.pt[i] > LEPTON_PT and abs(muons.eta[i]) < LEPTON_ETA and muons.tightId[i]:
            n += muons.sip3d[i] < LEPTON_SIP3D and muons.pfRelIso04_all[i] < MUON_ISOLATION
    return n


@numba.njit
def select_jets(jets, tags, event, variation, at, pt):
    """Find the good jets, with varied pt; return their number, and that of b jets."""
    n = n_b = 0
    for i in range(jets.offsets[event], jets.offsets[event + 1]):
        varied = np.float64(jets.pt[i])
        if variation == 1:
            varied *= PT_SCALE
        elif variation == 2:
            varied *= RESOLUTION[int(varied * 1000) % 1000]
        if varied > JET_PT and abs(jets.eta[i]) < JET_ETA and jets.jetId[i] == 6:
            at[n], pt[n] = i, varied
            n += 1
            n_b += tags[i] > B_TAG
    return n, n_b


@numba.njit
def trijet_mass(jets, tags, n, at, pt, momenta):
    """Return the mass of the three jets that have the largest pt together. At least one of them must be a b jet."""
    x, y, z, energy = momenta
    for i in range(n):
        phi, eta, mass = np.float64(jets.phi[at[i]]), np.float64(jets.eta[at[i]]), np.float64(jets.mass[at[i]])
        x[i], y[i], z[i] = pt[i] * np.cos(phi), pt[i] * np.sin(phi), pt[i] * np.sinh(eta)
        energy[i] = np.sqrt(x[i] ** 2 + y[i] ** 2 + z[i] ** 2 + mass**2)
    largest, mass2 = -1.0, 0.0
    for i in range(n):
        for j in range(i + 1, n):
            for k in range(j + 1, n):
                if not (tags[at[i]] > B_TAG or tags[at[j]] > B_TAG or tags[at[k]] > B_TAG):
                    continue
                px, py = x[i] + x[j] + x[k], y[i] + y[j] + y[k]
                pt2 = px**2 + py**2
                if pt2 > largest:
                    largest = pt2
                    pz, e = z[i] + z[j] + z[k], energy[i] + energy[j] + energy[k]
                    mass2 = e**2 - px**2 - py**2 - pz**2
    return np.sqrt(max(mass2, 0.0))
