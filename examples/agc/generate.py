"""Small files with the columns of the analysis, for a first run without data. Their values are random."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import numpy as np
from samples import SAMPLES

import femtobarn as fb


def generate(folder, n_events=2000):
    """Write a file for each sample to a directory, and return their paths."""
    return [write(Path(folder, f"{sample.name}.root"), n_events, seed) for seed, sample in enumerate(SAMPLES)]


def write(path, n_events, seed):
    random = np.random.default_rng(seed)
    events = {name: np.ones(n_events, np.uint32) for name in ("run", "luminosityBlock")}
    events["event"] = np.arange(n_events, dtype=np.uint64)
    for name, mean in (("Electron", 0.6), ("Muon", 0.6), ("Jet", 6)):
        counts = random.poisson(mean, n_events)
        events[f"n{name}"] = counts
        for member, values in members(name, random, counts.sum()).items():
            values = values.astype(np.float32) if values.dtype == np.float64 else values
            events[f"{name}_{member}"] = ak.unflatten(values, counts)
    fb.write(path, events, name="Events")
    return path


def members(name, random, n):
    """Return the columns of one collection."""
    kinematics = {
        "pt": 15 + random.exponential(40, n),
        "eta": random.normal(0, 1.5, n),
        "phi": random.uniform(-np.pi, np.pi, n),
        "mass": random.exponential(10 if name == "Jet" else 0.1, n),
    }
    if name == "Jet":
        return kinematics | {
            "btagCSVV2": random.beta(0.5, 0.8, n),
            "jetId": random.choice(np.array([2, 6], np.int32), n, p=[0.1, 0.9]),
        }
    kinematics |= {"sip3d": random.exponential(1.5, n), "charge": random.choice(np.array([-1, 1], np.int32), n)}
    if name == "Electron":
        return kinematics | {"cutBased": random.choice(np.array([3, 4], np.int32), n)}
    return kinematics | {"tightId": random.random(n) < 0.8, "pfRelIso04_all": random.exponential(0.1, n)}
